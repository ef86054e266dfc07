use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

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

/// A thread that keeps a [`SharedKeyring`] up to date. [`SharedKeyring::watch`] starts it, and it ends when
/// this value is dropped.
#[derive(Debug)]
#[must_use = "the thread ends when this value is dropped"]
pub struct Watch {
    thread: Thread,
    is_over: Arc<AtomicBool>,
}

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

    /// Starts a thread that reads the secrets at an interval (at least a millisecond) and replaces the
    /// keyring if they have changed.
    ///
    /// A change counts when two reads in a row agree, because a file may be partly written. `report` gets
    /// `Ok` with the new keyring after each change, and an error when it first occurs: log it, and alert on
    /// it. The keyring stays as it is until the error is gone.
    ///
    /// It notices every way of replacing a file, except in volumes that Kubernetes mounts by `subPath`,
    /// because they never change.
    ///
    /// `read` and `report` must return. While one of them blocks, nothing is replaced or reported.
    ///
    /// `docs/OPERATIONS.md` has an example.
    ///
    /// # Errors
    /// The operating system's, if it cannot start a thread.
    pub fn watch(
        &self,
        every: Duration,
        mut read: impl FnMut() -> Result<Keyring, KeyringError> + Send + 'static,
        mut report: impl FnMut(Result<Keyring, KeyringError>) + Send + 'static,
    ) -> std::io::Result<Watch> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let shared = self.clone();
        let every = every.max(Duration::from_millis(1));
        let (mut before, mut reported) = (self.current(), None);
        let watch = move || {
            while !sleep(every, &ends) {
                // Without a thread, the next rotation would go unnoticed.
                let result = match catch_unwind(AssertUnwindSafe(&mut read)) {
                    Ok(Ok(new)) => match mem::replace(&mut before, new.clone()).is_same(&new) {
                        true => shared.replace(new),
                        false => Ok(false),
                    },
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(KeyringError::Panicked),
                };
                let error = result.as_ref().err().map(ToString::to_string);
                let message = match result {
                    Ok(true) => Some(Ok(shared.current())),
                    Err(new) if reported != error => Some(Err(new)),
                    _ => None,
                };
                reported = error;
                if let Some(message) = message {
                    let _ = catch_unwind(AssertUnwindSafe(|| report(message)));
                }
            }
        };
        let thread = thread::Builder::new().name("opaque-id-keys".into()).spawn(watch)?;
        Ok(Watch { thread: thread.thread().clone(), is_over })
    }
}

fn sleep(duration: Duration, is_over: &AtomicBool) -> bool {
    let start = Instant::now();
    loop {
        if is_over.load(Ordering::Acquire) {
            return true;
        }
        match duration.checked_sub(start.elapsed()) {
            None | Some(Duration::ZERO) => return false,
            Some(left) => thread::park_timeout(left),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.unpark();
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
impl<S> axum_core05::extract::FromRef<Arc<S>> for Keyring
where
    Keyring: axum_core05::extract::FromRef<S>,
{
    fn from_ref(state: &Arc<S>) -> Self {
        Self::from_ref(&**state)
    }
}
