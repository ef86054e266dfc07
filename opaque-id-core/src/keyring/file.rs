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
        read_file(path.as_ref(), true, Self::from_entries)?
    }

    /// Reads the secrets as [`from_file`](Self::from_file) does, but does not check the file's mode. Use it for a
    /// file that only this container sees and that the container platform mounts readable by others, such as a
    /// Kubernetes secret without `defaultMode`.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file), except for the file's mode.
    pub fn from_shared_file(path: impl AsRef<Path>) -> Result<Self, KeyringError> {
        read_file(path.as_ref(), false, Self::from_entries)?
    }
}

/// Lends a file's name, for messages, and its text, which is wiped afterwards. Its mode must be private if the caller says so. For the
/// command `opaque-id`, whose file may have subkeys instead, and may be a pipe, which is read only once.
///
/// # Errors
/// [`KeyringError`] if it cannot be read or others can.
pub fn read_file<R>(
    path: &Path,
    is_private: bool,
    read: impl FnOnce(&str, &str) -> R,
) -> Result<R, KeyringError> {
    let bytes = bytes(path, is_private)?;
    let text = str::from_utf8(&bytes)
        .map_err(|error| unreadable(path, io::Error::new(ErrorKind::InvalidData, error)))?;
    Ok(read(&name(path), text))
}

/// Reads a file, whose mode must be private if it says so.
pub(super) fn bytes(path: &Path, is_private: bool) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
    let unreadable = |error| unreadable(path, error);
    let file = File::open(path).map_err(unreadable)?;
    if is_private && let Some(mode) = shared_mode(&file).map_err(unreadable)? {
        return Err(KeyringError::Shared { source_name: name(path), mode });
    }
    // With room to spare it neither grows, which would leave a copy behind, nor is read through another buffer.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * MAX_LEN));
    file.take(MAX_LEN as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() > MAX_LEN {
        true => Err(KeyringError::TooLong { source_name: name(path), max: MAX_LEN }),
        false => Ok(bytes),
    }
}

fn unreadable(path: &Path, source: io::Error) -> KeyringError {
    KeyringError::Unreadable { source_name: name(path), source }
}

fn name(path: &Path) -> String {
    MasterSecret::redact(&path.display().to_string())
}

/// Returns the mode of a file that others can read or write.
#[cfg(unix)]
fn shared_mode(file: &File) -> io::Result<Option<u32>> {
    use std::os::unix::fs::MetadataExt;

    /// All but reading by the group.
    const OTHERS: u32 = 0o037;

    // Of the file that is open, whatever the path leads to by now.
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    Ok(Some(mode).filter(|mode| metadata.is_file() && mode & OTHERS != 0))
}

#[cfg(not(unix))]
fn shared_mode(_: &File) -> io::Result<Option<u32>> {
    Ok(None)
}
