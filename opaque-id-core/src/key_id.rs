use core::fmt;

/// The number of a secret in a keyring: 0, 1, 2 or 3. Every sealed id contains it unencrypted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u8);

impl KeyId {
    pub(crate) const ALL: [Self; 4] = [Self(0), Self(1), Self(2), Self(3)];

    /// Creates a key id. Returns `None` unless the number is 0, 1, 2 or 3.
    #[must_use]
    pub const fn new(key_id: u8) -> Option<Self> {
        if key_id <= 3 { Some(Self(key_id)) } else { None }
    }

    #[inline]
    pub(crate) const fn truncated(key_id: u8) -> Self {
        Self(key_id & 3)
    }

    /// Returns the number.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0 & 3)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}
