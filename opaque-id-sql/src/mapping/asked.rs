//! The UUIDs that a call is about, in the order in which every call takes its locks.

use core::ops::Deref;
use std::sync::OnceLock;

use uuid::Uuid;

use super::uuid_hash;

/// A UUID after its hash, in the order in which every call takes its locks.
pub(super) type Hashed = (i32, Uuid);

/// The UUIDs that a call is about, each once, in order.
#[derive(Clone)]
pub(super) struct Asked {
    uuids: Vec<Uuid>,
    /// Computed when a statement first needs it, and once for all statements of the call.
    hashed: OnceLock<Vec<Hashed>>,
}

impl Asked {
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

    /// Returns the UUIDs with their hashes, ordered by slot, which is the low bits.
    pub(super) fn hashed(&self) -> &[Hashed] {
        self.hashed.get_or_init(|| {
            let hashes = self.uuids.iter().map(|uuid| (uuid_hash(*uuid), *uuid));
            let mut hashed: Vec<_> = hashes.collect();
            hashed
                .sort_unstable_by_key(|(hash, uuid)| (hash.cast_unsigned().reverse_bits(), *uuid));
            hashed
        })
    }
}

impl Deref for Asked {
    type Target = [Uuid];

    fn deref(&self) -> &[Uuid] {
        &self.uuids
    }
}
