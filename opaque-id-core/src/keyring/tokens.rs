//! Grants: a key for one purpose, until a time.

use std::time::{Duration, SystemTime};

use super::Keyring;
use crate::error::{IdError, OpenError};
use crate::resource::{InternalId, OpaqueId};
use crate::token::Purpose;

impl Keyring {
    /// Returns a text that stands for an id for one purpose, until a time: for a link in a mail, such as one to unsubscribe, to
    /// confirm an address or to download a file without signing in.
    ///
    /// Everyone who has the text can use it, as often as they like, until its time is over. For a grant that works once,
    /// [put a state into the purpose](crate::manual#grants) that its use changes. The text is the prefix, `_grant_`, and 85 characters; it
    /// carries a tag of 128 bits, whatever the resource's form. The time is in whole seconds, rounded down.
    ///
    /// A grant is bound to the resource's domain and to its purpose, as an id is bound to its domain. So links remain valid when a
    /// prefix changes and the domain remains. Two resources with one domain open each other's grants for the same purpose: give each
    /// resource its own domain.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "user")]
    /// struct User;
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let (id, now) = (Internal::<User>::generate(), SystemTime::now());
    ///
    /// let grant = keyring.grant(id, "unsubscribe", now + Duration::from_secs(30 * 86_400));
    /// let link = format!("https://example.com/unsubscribe/{grant}");
    /// assert!(link.contains("/user_grant_"));
    ///
    /// let opened: Internal<User> = keyring.open_grant(&grant, "unsubscribe", now)?;
    /// assert_eq!(opened, id);
    /// assert!(keyring.open_grant::<Internal<User>>(&grant, "reset password", now).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn grant<I: InternalId>(&self, id: I, purpose: &str, expires: SystemTime) -> String {
        let expires = expires.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.seal_token(&Purpose::grant(purpose), id, &expires.as_secs().to_be_bytes())
    }

    /// Opens a grant for the same purpose. Success does not mean that the row exists.
    ///
    /// # Errors
    /// [`IdError::Expired`] from its time on, [`IdError::Open`] if it is not genuine or of another purpose, and
    /// [`IdError::MalformedToken`] if it is not a grant at all.
    pub fn open_grant<I: InternalId>(
        &self,
        text: &str,
        purpose: &str,
        now: SystemTime,
    ) -> Result<I, IdError> {
        let (id, payload) = self.open_token(&Purpose::grant(purpose), text)?;
        match expiry(&payload) {
            None => Err(OpenError::NotGenuine.counted(<I::Resource>::PREFIX).into()),
            Some(expires) if now < expires => Ok(id),
            Some(_) => Err(IdError::Expired),
        }
    }
}

/// Returns when a grant with this payload expires.
pub(super) fn expiry(payload: &[u8]) -> Option<SystemTime> {
    let seconds = u64::from_be_bytes(payload.try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
