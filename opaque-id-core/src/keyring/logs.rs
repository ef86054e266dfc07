//! Internal ids in logs and errors.

use core::fmt;
use std::sync::{PoisonError, RwLock};

use super::{Keyring, SharedKeyring};
use crate::form::{self, Form, SealedFormOf, Text, TextBuffer};
use crate::resource::{InternalId, OpaqueId, ReprOf};

struct Logs {
    shared: SharedKeyring,
    last: (Keyring, Keyring),
}

static LOGS: RwLock<Option<Logs>> = RwLock::new(None);

fn with_logs_audience(keyring: Keyring) -> (Keyring, Keyring) {
    let of_logs = keyring.for_audience(form::LOGS_AUDIENCE);
    (keyring, of_logs)
}

/// Shows internal ids in `Debug` for the whole process: `Internal<user>(user_log2k7a0g3m9hq4w8xn5vz1tcbr6e)`
/// instead of `Internal<user>(..)`.
///
/// Logs and error messages then identify the row and still contain no key. The text is sealed for the
/// [audience](Keyring::for_audience) `logs`, always in the text form, so it is unrelated to the id that an
/// API shows. No API accepts it, and `opaque-id open` opens it.
///
/// Call it once at start, in `main`; the last call counts. Pass the [`SharedKeyring`] if secrets are replaced
/// at run time. An id stays hidden if another resource with another kind of key has its domain.
///
/// The [`manual`](crate::manual#logs) has an example.
pub fn reveal_in_logs(keyring: impl Into<SharedKeyring>) {
    let shared = keyring.into();
    let last = with_logs_audience(shared.current());
    *LOGS.write().unwrap_or_else(PoisonError::into_inner) = Some(Logs { shared, last });
}

/// Returns an internal id or a newtype for a message that people read: `part_log2k7a0g3m9hq4w8xn5vz1tcbr6e`
/// after a call of [`reveal_in_logs`], and `part(..)` otherwise.
///
/// ```
/// use opaque_id_core::keyring::log_id;
/// use opaque_id_core::{Internal, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "part", key = i64)]
/// struct Part;
///
/// let id = Internal::<Part>::from_key(42)?;
/// assert_eq!(format!("no access to {}", log_id(id)), "no access to part(..)");
/// # Ok::<(), opaque_id_core::KeyError>(())
/// ```
pub fn log_id<I: InternalId>(id: I) -> impl fmt::Display {
    let prefix = I::Resource::PREFIX;
    seal::<I::Resource>(*id.as_repr()).unwrap_or_else(|| format!("{prefix}(..)"))
}

fn current() -> Option<Keyring> {
    let keyring = {
        let logs = LOGS.read().unwrap_or_else(PoisonError::into_inner);
        let logs = logs.as_ref()?;
        let keyring = logs.shared.current();
        if keyring.is_clone_of(&logs.last.0) {
            return Some(logs.last.1.clone());
        }
        keyring
    };
    let last = with_logs_audience(keyring);
    let of_logs = last.1.clone();
    if let Some(logs) = LOGS.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
        logs.last = last;
    }
    Some(of_logs)
}

fn seal<T: OpaqueId>(repr: ReprOf<T>) -> Option<String> {
    let keyring = current()?;
    let key_id = keyring.sealing_key_id();
    let secret = keyring.secret(key_id)?;
    // Deriving subkeys would panic if the domain has another kind of key.
    secret.claim_domain::<T>().ok()?;
    let body = <Text as SealedFormOf<T::Key>>::seal(secret.subkeys::<T>(), key_id, repr);
    Some(form::to_log(Text::write(T::PREFIX, body, &mut TextBuffer::new())))
}

/// Writes an internal id, sealed after a call of [`reveal_in_logs`] and hidden otherwise.
///
/// # Errors
/// The formatter's own.
pub fn debug_id<T: OpaqueId>(repr: ReprOf<T>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sealed = seal::<T>(repr);
    write!(f, "Internal<{}>({})", T::PREFIX, sealed.as_deref().unwrap_or(".."))
}
