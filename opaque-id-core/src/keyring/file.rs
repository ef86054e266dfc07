//! Reads secrets from a file that other users cannot access (its group may read it), and wipes the bytes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use zeroize::Zeroizing;

use super::{Keyring, MasterSecret};
use crate::error::KeyringError;

/// Room for four entries and many comments.
pub(super) const MAX_LEN: usize = 64 * 1024;

impl Keyring {
    /// Reads the secrets from a file: entries as in [`from_env`](Self::from_env), separated by commas or
    /// line ends. Lines that start with `#` are comments.
    ///
    /// On Unix the file's mode must be private, as for an SSH key: only the owner may write it, and only the
    /// owner and the group may read it (`chmod 600`, or 640). The owner is not checked.
    ///
    /// # Errors
    /// [`KeyringError`] names the entry and what is wrong with it, never the secret.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyringError> {
        read(path.as_ref(), check_mode)
    }

    /// Reads the secrets as [`from_file`](Self::from_file) does, but does not check the file's mode. Use it for a
    /// file that only this container sees and that the container platform mounts readable by others, such as a
    /// Kubernetes secret without `defaultMode`.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file), except for the file's mode.
    pub fn from_shared_file(path: impl AsRef<Path>) -> Result<Self, KeyringError> {
        read(path.as_ref(), |_| Ok(()))
    }
}

/// The reason why a file is refused.
pub(super) enum Fault {
    Io(io::Error),
    TooLong,
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has modes"))]
    Shared {
        mode: u32,
    },
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Fault {
    pub(super) fn into_error(self, path: &Path) -> KeyringError {
        let source_name = MasterSecret::redact(&path.display().to_string());
        match self {
            Self::Io(source) => KeyringError::Unreadable { source_name, source },
            Self::TooLong => KeyringError::TooLong { source_name, max: MAX_LEN },
            Self::Shared { mode } => KeyringError::Shared { source_name, mode },
        }
    }
}

fn read(
    path: &Path,
    check: impl FnOnce(&File) -> Result<(), Fault>,
) -> Result<Keyring, KeyringError> {
    let bytes = bytes(path, check).map_err(|fault| fault.into_error(path))?;
    let text = str::from_utf8(&bytes).map_err(|error| {
        Fault::Io(io::Error::new(ErrorKind::InvalidData, error)).into_error(path)
    })?;
    Keyring::from_entries(&path.display().to_string(), text)
}

pub(super) fn bytes(
    path: &Path,
    check: impl FnOnce(&File) -> Result<(), Fault>,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let file = File::open(path)?;
    check(&file)?;
    // With room to spare it neither grows, which would leave a copy behind, nor is read through another buffer.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * MAX_LEN));
    file.take(MAX_LEN as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > MAX_LEN {
        true => Err(Fault::TooLong),
        false => Ok(bytes),
    }
}

#[cfg(unix)]
fn check_mode(file: &File) -> Result<(), Fault> {
    use std::os::unix::fs::MetadataExt;

    /// All but reading by the group.
    const OTHERS: u32 = 0o037;

    // Of the file that is open, whatever the path leads to by now.
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    match metadata.is_file() && mode & OTHERS != 0 {
        true => Err(Fault::Shared { mode }),
        false => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_mode(_: &File) -> Result<(), Fault> {
    Ok(())
}
