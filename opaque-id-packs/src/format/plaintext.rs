//! Bytes that are wiped when they are dropped.

use std::fmt;
use std::ops::{Deref, DerefMut};

use zeroize::optimization_barrier;

/// Bytes that are wiped on drop. `Zeroizing` writes one byte at a time. That would take a third of the time
/// to decode a pack of 64 kB.
#[derive(Clone, PartialEq, Eq)]
pub struct Plaintext(Vec<u8>);

impl Plaintext {
    /// A vector that grows does not wipe its old memory.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// The memory behind the last byte may have been written as well.
    fn overwrite(&mut self) {
        self.0.clear();
        self.0.resize(self.0.capacity(), 0);
        optimization_barrier(&self.0[..]);
    }
}

impl From<Vec<u8>> for Plaintext {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Deref for Plaintext {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Plaintext {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        self.overwrite();
    }
}

impl fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plaintext({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memory_is_wiped() {
        let mut plaintext = Plaintext::with_capacity(64);
        plaintext.extend(*b"secret");
        let before = (plaintext.as_ptr(), plaintext.capacity());
        plaintext.overwrite();
        assert_eq!((plaintext.as_ptr(), plaintext.len()), before);
        assert!(plaintext.iter().all(|byte| *byte == 0));
    }
}
