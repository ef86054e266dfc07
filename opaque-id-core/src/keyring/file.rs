//! Reads secrets from a file, wrapped or not.

use core::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use zeroize::Zeroizing;

use super::{Keyring, MasterSecret};
use crate::error::{KeyringError, redacted_with_causes};

/// The limit has room for four entries and many comments.
pub(super) const MAX_LEN: usize = 64 * 1024;

/// A service or a key that unwraps a file of secrets: a cloud's KMS, Vault's Transit engine, an HSM, age. A
/// copy of the wrapped file reveals nothing.
///
/// Implement it by a call of the service, or use [`UnwrapByCommand`](super::UnwrapByCommand) on Unix.
///
/// ```
/// use std::error::Error;
///
/// use opaque_id_core::Keyring;
/// use opaque_id_core::keyring::UnwrapSecrets;
/// # struct Client;
/// # impl Client {
/// #     fn decrypt(&self, key: &str, ciphertext: &[u8]) -> std::io::Result<Vec<u8>> { Ok(ciphertext.into()) }
/// # }
///
/// struct Kms {
///     client: Client, // of the service
///     key: String,
/// }
///
/// impl UnwrapSecrets for Kms {
///     fn unwrap_secrets(&self, wrapped: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
///         Ok(self.client.decrypt(&self.key, wrapped)?)
///     }
/// }
///
/// fn keyring(kms: &Kms) -> Result<Keyring, opaque_id_core::KeyringError> {
///     Keyring::from_wrapped_file("/etc/shop/opaque-id.wrapped", kms)
/// }
/// ```
pub trait UnwrapSecrets {
    /// Unwraps the bytes of a file. Returns the text in the format of [`Keyring::from_file`]. The caller
    /// wipes it.
    ///
    /// # Errors
    /// The service's own. It becomes a [`KeyringError::Unwrap`], without texts that look like a secret.
    fn unwrap_secrets(&self, wrapped: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;
}

impl Keyring {
    /// Reads the secrets from a file: the entries of [`from_env`](Self::from_env), separated by commas or
    /// line ends. Lines that start with `#` are comments.
    ///
    /// On Unix only the owner may write the file, and only the owner and the group may read it (`chmod 600`,
    /// or 640). The owner is not checked.
    ///
    /// # Errors
    /// [`KeyringError`] names the entry and its fault, never the secret.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyringError> {
        read_file(path.as_ref(), true, Self::from_entries)?
    }

    /// Reads the secrets as [`from_file`](Self::from_file) does, with any mode. Use it for a file that only
    /// this container sees and that the platform mounts readable by others, such as a Kubernetes secret
    /// without `defaultMode`.
    ///
    /// # Errors
    /// The same as [`from_file`](Self::from_file), except for the file's mode.
    pub fn from_shared_file(path: impl AsRef<Path>) -> Result<Self, KeyringError> {
        read_file(path.as_ref(), false, Self::from_entries)?
    }

    /// Reads a file of wrapped secrets and unwraps them. The file's mode is not checked.
    ///
    /// # Errors
    /// The same as [`from_file`](Self::from_file), and [`KeyringError::Unwrap`].
    pub fn from_wrapped_file(
        path: impl AsRef<Path>,
        unwrap: &impl UnwrapSecrets,
    ) -> Result<Self, KeyringError> {
        let path = path.as_ref();
        let wrapped = bytes(path, false)?;
        let source_name = name(path);
        let failed = |problem| KeyringError::Unwrap { source_name: source_name.clone(), problem };
        let unwrapped = unwrap.unwrap_secrets(&wrapped).map(Zeroizing::new);
        let unwrapped = unwrapped.map_err(|error| failed(redacted_with_causes(&*error)))?;
        let text = str::from_utf8(&unwrapped)
            .map_err(|_| failed("expected text, found bytes that are not UTF-8".to_owned()))?;
        Self::from_entries(&source_name, text)
    }
}

/// Passes a file's name for messages and its text to `read`, and wipes the text afterwards. The mode must be
/// private if `is_private` is set. It is for the command `opaque-id`, because its file may contain subkeys,
/// or may be a pipe that can be read only once.
///
/// # Errors
/// [`KeyringError`] if the file cannot be read or others can read it.
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

fn bytes(path: &Path, is_private: bool) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
    let unreadable = |error| unreadable(path, error);
    let file = File::open(path).map_err(unreadable)?;
    if is_private && let Some(mode) = shared_mode(&file).map_err(unreadable)? {
        return Err(KeyringError::Shared { source_name: name(path), mode });
    }
    // A buffer that grows would leave a copy behind.
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

#[cfg(unix)]
fn shared_mode(file: &File) -> io::Result<Option<u32>> {
    use std::os::unix::fs::MetadataExt;

    /// The group may read.
    const OTHERS: u32 = 0o037;

    // The path may lead elsewhere by now.
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    Ok(Some(mode).filter(|mode| metadata.is_file() && mode & OTHERS != 0))
}

#[cfg(not(unix))]
fn shared_mode(_: &File) -> io::Result<Option<u32>> {
    Ok(None)
}
