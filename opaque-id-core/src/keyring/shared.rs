use std::sync::{Arc, PoisonError, RwLock};

use super::secret::Secret;
use super::{KeyId, Keyring};
use crate::error::KeyringError;

/// A keyring whose secrets can be replaced while the application runs, so that a rotation needs no restart.
///
/// Put it into the application's state, and take the [`current`](Self::current) keyring once per request.
/// [`watch`](Self::watch) reads a source every few seconds. [`replace`](Self::replace) is for applications
/// that know when their secrets change, such as by a signal.
///
/// A replacement is refused if recently sealed ids would no longer open, as after a rotation in one step.
/// Counts of opened ids go on.
///
/// ```
/// use opaque_id_core::keyring::SharedKeyring;
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let (old, new) = (MasterSecret::generate(), MasterSecret::generate());
/// let keyring = SharedKeyring::new(Keyring::builder().sealing(0, old.clone()).build()?);
/// let id = keyring.current().seal(Internal::<User>::generate());
///
/// // In one step, the ids that clients have just got would be refused.
/// assert!(keyring.replace(Keyring::builder().sealing(1, new.clone()).build()?).is_err());
///
/// keyring.replace(Keyring::builder().sealing(0, old.clone()).opening(1, new.clone()).build()?)?;
/// keyring.replace(Keyring::builder().sealing(1, new.clone()).opening(0, old).build()?)?;
/// assert!(keyring.current().open(id).is_ok());
/// keyring.replace(Keyring::builder().sealing(1, new).build()?)?;
/// assert!(keyring.current().open(id).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedKeyring(Arc<RwLock<Keyring>>);

impl SharedKeyring {
    /// Shares a keyring.
    #[must_use]
    pub fn new(keyring: Keyring) -> Self {
        Self(Arc::new(RwLock::new(keyring)))
    }

    /// Returns the current keyring, as cheaply as cloning a keyring.
    #[must_use]
    pub fn current(&self) -> Keyring {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the keyring for all clones of this value. Returns whether the secrets or their order have
    /// changed.
    ///
    /// # Errors
    /// [`KeyringError`] if the new keyring lacks the sealing secret, or has another secret with one of the
    /// key ids. The keyring stays as it was.
    pub fn replace(&self, new: Keyring) -> Result<bool, KeyringError> {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if current.is_same(&new) {
            return Ok(false);
        }
        let sealing = current.sealing_key_id();
        for key_id in KeyId::ALL {
            match (current.secret(key_id), new.secret(key_id)) {
                (Some(before), Some(after)) if !before.is_same(after) => {
                    return Err(KeyringError::OtherSecret { key_id });
                }
                (Some(_), None) if key_id == sealing => {
                    return Err(KeyringError::SealingSecretMissing { key_id });
                }
                _ => {}
            }
        }
        let secrets = new.0.secrets.each_ref().map(|secret| secret.as_ref().map(Secret::again));
        *current = Keyring::new(new.sealing_key_id(), secrets, current.0.opened.clone());
        Ok(true)
    }
}

impl From<Keyring> for SharedKeyring {
    fn from(keyring: Keyring) -> Self {
        Self::new(keyring)
    }
}

impl From<&Keyring> for SharedKeyring {
    fn from(keyring: &Keyring) -> Self {
        Self::new(keyring.clone())
    }
}

impl From<&SharedKeyring> for SharedKeyring {
    fn from(keyring: &SharedKeyring) -> Self {
        keyring.clone()
    }
}

/// Returns the current keyring, if the state or a part of it is a [`SharedKeyring`].
#[cfg(feature = "axum-core05")]
impl axum_core05::extract::FromRef<SharedKeyring> for Keyring {
    fn from_ref(keyring: &SharedKeyring) -> Self {
        keyring.current()
    }
}

/// Returns the keyring of a state in an `Arc`.
#[cfg(feature = "axum-core05")]
impl<S> axum_core05::extract::FromRef<std::sync::Arc<S>> for Keyring
where
    Keyring: axum_core05::extract::FromRef<S>,
{
    fn from_ref(state: &std::sync::Arc<S>) -> Self {
        Self::from_ref(&**state)
    }
}
