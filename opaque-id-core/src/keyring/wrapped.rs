use core::error::Error;
use std::path::Path;

use zeroize::Zeroizing;

use super::file::bytes;
use super::{Keyring, MasterSecret};
use crate::error::{KeyringError, redacted_with_causes};

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
        let path = path.display().to_string();
        let source_name = MasterSecret::redact(&path);
        let failed = |problem| KeyringError::Unwrap { source_name: source_name.clone(), problem };
        let unwrapped = unwrap.unwrap_secrets(&wrapped).map(Zeroizing::new);
        let unwrapped = unwrapped.map_err(|error| failed(redacted_with_causes(&*error)))?;
        let text = str::from_utf8(&unwrapped)
            .map_err(|_| failed("expected text, found bytes that are not UTF-8".to_owned()))?;
        Self::from_entries(&source_name, text)
    }
}
