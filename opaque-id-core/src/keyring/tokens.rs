//! Tokens of a keyring: grants and the positions of lists.

use std::time::{Duration, SystemTime};

use super::opened::Count;
use super::{KeyId, Keyring, RuntimeResource, internal, not_genuine};
use crate::cursor;
use crate::error::{IdError, OpenError};
use crate::key::AnyKey;
use crate::resource::{InternalId, OpaqueId};
use crate::token::{GRANT, Purpose};

impl Keyring {
    /// Returns a text that stands for an id for one purpose until a time, such as for a link in a mail to
    /// unsubscribe or to download a file without signing in.
    ///
    /// Everyone who has the text can use it until it expires, as often as they like. For a grant that works
    /// once, [put a state into the purpose](crate::manual#grants) that its use changes. The text is the
    /// prefix, `_grant_`, and 85 characters, with a tag of 128 bits. The time is rounded down to seconds.
    ///
    /// A grant is bound to its purpose and to the resource's domain, so links remain valid when a prefix
    /// changes. Two resources with one domain open each other's grants for the same purpose.
    #[must_use]
    pub fn grant<I: InternalId>(&self, id: I, purpose: &str, expires: SystemTime) -> String {
        let expires = expires.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.seal_token(&Purpose::grant(purpose), id, &expires.as_secs().to_be_bytes())
    }

    /// Opens a grant for the same purpose. Success does not mean that the row exists.
    ///
    /// # Errors
    /// [`IdError::Expired`] from its time on, [`IdError::Open`] if it is not genuine or has another purpose,
    /// and [`IdError::MalformedToken`] if it is not a grant.
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

    pub(crate) fn seal_token<I: InternalId>(
        &self,
        purpose: &Purpose,
        id: I,
        payload: &[u8],
    ) -> String {
        let (keys, key_id) = self.sealing_subkeys::<I::Resource>();
        purpose.seal(<I::Resource>::PREFIX, keys, key_id, cursor::block(*id.as_repr()), payload)
    }

    pub(crate) fn open_token<I: InternalId>(
        &self,
        purpose: &Purpose,
        text: &str,
    ) -> Result<(I, Vec<u8>), IdError> {
        let prefix = <I::Resource>::PREFIX;
        let token = purpose.parse(prefix, text);
        let token = token.map_err(|problem| IdError::token(prefix, purpose.kind, problem))?;
        let keys = self.subkeys::<I::Resource>(token.key_id)?;
        let opened = purpose.open(keys, &token).and_then(|(block, payload)| {
            let repr = cursor::unblock::<<I::Resource as OpaqueId>::Key>(keys, block);
            Some((internal::<I>(repr)?, payload))
        });
        let opened = opened.ok_or_else(not_genuine::<I::Resource>)?;
        self.0.opened.count(Count::Authenticated, token.key_id);
        Ok(opened)
    }
}

impl RuntimeResource {
    /// Opens a grant for its purpose, even if it has expired. Returns its key, its secret's key id, and its
    /// time.
    ///
    /// # Errors
    /// The same as [`open`](Self::open).
    pub fn open_grant(
        &self,
        text: &str,
        purpose: &str,
    ) -> Result<(AnyKey, KeyId, SystemTime), IdError> {
        let (key, key_id, payload) = self.open_token(GRANT, &[purpose], text)?;
        Ok((key, key_id, expiry(&payload).ok_or(OpenError::NotGenuine)?))
    }

    /// Seals a key and a payload as a token of a kind. FORMAT.md lists the `parts` of each kind. It is for
    /// the command `opaque-id`.
    ///
    /// # Errors
    /// The same as [`seal`](Self::seal).
    #[doc(hidden)]
    pub fn seal_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        key: AnyKey,
        payload: &[u8],
    ) -> Result<String, IdError> {
        let key = self.typed.block(key).map_err(IdError::InvalidKey)?;
        let keys = self.keys(self.sealing)?;
        Ok(Purpose::new(kind, parts).seal(&self.prefix, keys, self.sealing, key, payload))
    }

    /// Opens a token of a kind with any payload. Returns its key, its secret's key id, and the payload. It is
    /// for the command `opaque-id`.
    ///
    /// # Errors
    /// The same as [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        text: &str,
    ) -> Result<(AnyKey, KeyId, Vec<u8>), IdError> {
        let purpose = Purpose::new(kind, parts);
        let token = purpose.parse(&self.prefix, text).map_err(IdError::InvalidId)?;
        let keys = self.keys(token.key_id)?;
        let (block, payload) = purpose.open(keys, &token).ok_or(OpenError::NotGenuine)?;
        let key = self.typed.key(keys, block).ok_or(OpenError::NotGenuine)?;
        Ok((key, token.key_id, payload))
    }
}

fn expiry(payload: &[u8]) -> Option<SystemTime> {
    let seconds = u64::from_be_bytes(payload.try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
