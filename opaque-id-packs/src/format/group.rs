//! Groups.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::cipher::{Kind, PackCipher, Place};
use super::codec::Codec;
use super::error::FormatError;
use super::plaintext::Plaintext;

/// The data key of a group, 32 bytes for AES-256-GCM-SIV.
pub struct GroupKey {
    pub(crate) id: u128,
    pub(crate) version: i64,
    pub(crate) cipher: PackCipher,
}

impl GroupKey {
    pub(super) const ID: usize = 16;

    fn place(&self) -> Place {
        Place { kind: Kind::Group, id: self.id, version: 0 }
    }

    /// Returns the group's id and a body.
    pub(super) fn encrypt(&self, codec: &Codec, plaintext: &Plaintext) -> Vec<u8> {
        let body = self.cipher.encrypt(self.place(), codec, plaintext);
        [&self.id.to_be_bytes()[..], &body].concat()
    }

    pub(super) fn open(&self, codec: &Codec, body: &[u8]) -> Result<Plaintext, FormatError> {
        self.cipher.open(self.place(), codec, body)
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey(..)")
    }
}

/// The known data keys of groups.
#[derive(Clone, Default)]
pub struct GroupKeys(HashMap<u128, Option<Arc<GroupKey>>>);

impl GroupKeys {
    /// `None` marks an erased group.
    pub(crate) fn insert(&mut self, id: u128, key: Option<Arc<GroupKey>>) {
        self.0.insert(id, key);
    }

    pub(crate) fn key(&self, id: u128) -> Option<&Arc<GroupKey>> {
        self.0.get(&id).and_then(Option::as_ref)
    }

    pub(crate) fn contains(&self, id: u128) -> bool {
        self.0.contains_key(&id)
    }

    pub(crate) fn is_erased(&self, id: u128) -> bool {
        self.0.get(&id).is_some_and(Option::is_none)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// `None` marks an erased group.
    pub(super) fn get(&self, id: u128) -> Result<Option<&GroupKey>, FormatError> {
        self.0.get(&id).map(Option::as_deref).ok_or(FormatError::NoGroupKey)
    }
}

impl fmt::Debug for GroupKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKeys({} groups)", self.0.len())
    }
}
