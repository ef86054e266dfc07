//! The UUIDs of a call, in the order of every call's locks.

use core::ops::Deref;
use std::borrow::Cow;
use std::sync::OnceLock;

use uuid::Uuid;

use super::ddl::SLOTS;
use super::uuid_hash;

pub(super) type Hashed = (i32, Uuid);

#[derive(Clone)]
pub(super) struct UuidSet {
    uuids: Vec<Uuid>,
    /// Computed once per call, when a statement first needs them.
    hashed: OnceLock<Vec<Hashed>>,
}

impl UuidSet {
    pub(super) fn new(mut uuids: Vec<Uuid>) -> Self {
        uuids.sort_unstable();
        uuids.dedup();
        Self { uuids, hashed: OnceLock::new() }
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&Uuid) -> bool) {
        self.uuids.retain(&is_kept);
        if let Some(hashed) = self.hashed.get_mut() {
            hashed.retain(|(_, uuid)| is_kept(uuid));
        }
    }

    pub(super) fn parts(&self, len: usize) -> impl Iterator<Item = Cow<'_, Self>> {
        let is_one = self.len() <= len;
        self.uuids.chunks(len).map(move |uuids| match is_one {
            true => Cow::Borrowed(self),
            false => Cow::Owned(Self { uuids: uuids.to_vec(), hashed: OnceLock::new() }),
        })
    }

    /// Every call takes its locks in this order of slots.
    pub(super) fn hashed(&self) -> &[Hashed] {
        self.hashed.get_or_init(|| {
            let hashes = self.uuids.iter().map(|uuid| (uuid_hash(*uuid), *uuid));
            let mut hashed: Vec<_> = hashes.collect();
            hashed.sort_unstable_by_key(|(hash, uuid)| (slot(*hash), *uuid));
            hashed
        })
    }

    pub(super) fn slots(&self) -> Vec<i64> {
        let mut slots: Vec<_> = self.hashed().iter().map(|(hash, _)| slot(*hash)).collect();
        slots.dedup();
        slots
    }
}

/// Inserts of a hash lock the row of [`slots_table`](super::ddl::slots_table) with this number.
fn slot(hash: i32) -> i64 {
    i64::from(hash) & (i64::from(SLOTS) - 1)
}

impl Deref for UuidSet {
    type Target = [Uuid];

    fn deref(&self) -> &[Uuid] {
        &self.uuids
    }
}
