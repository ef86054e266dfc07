//! The keys of groups, and the groups of rows and of cached packs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opaque_id_sql::statement::Cell;
use zeroize::Zeroizing;

use super::state::State;
use super::{Context, Table, random_version};
use crate::cache::Cached;
use crate::error::TableError;
use crate::format::{FormatError, GroupKey, GroupKeys, Kind, Pack, Row};
use crate::stored::{StoredRow, Tier};

/// After this time, the client asks the server whether a group is erased.
const KEY_FOR: Duration = Duration::from_secs(60);

/// For this time after an erasure, each call reads the group's key, because other calls may have read it
/// before the erasure or before its commit, and kept it.
const QUARANTINE: Duration = Duration::from_secs(600);

impl Table {
    /// Returns a group's key if it was read within the last minute, or `Some(None)` if the group was erased. A
    /// group in quarantine has no known key.
    #[expect(clippy::option_option, reason = "not known, or known to be none")]
    pub(crate) fn known_key(&self, id: u128) -> Option<Option<Arc<GroupKey>>> {
        let (read, key) = self.known_keys.get(&id)?;
        let erased = self.erased_groups.get(&id);
        let is_quarantined = erased.is_some_and(|erased| erased.elapsed() < QUARANTINE);
        (read.elapsed() < KEY_FOR && !is_quarantined).then_some(key)
    }

    pub(crate) fn cached(&self, key: u128) -> Option<Cached> {
        let cached = self.cache()?.pack_of(key)?;
        let mut groups: Vec<_> =
            cached.pack.rows.iter().filter_map(|(_, value)| value.group).collect();
        groups.dedup();
        let are_known = groups.iter().all(|group| matches!(self.known_key(*group), Some(Some(_))));
        are_known.then_some(cached)
    }

    /// The packs may have rows of the group.
    pub(crate) fn forget_key(&self, id: u128) {
        self.known_keys.remove(&id);
        if let Some(cache) = self.cache() {
            cache.clear();
        }
    }

    /// An erasure calls this before its statement, and again after it because the statement may have waited.
    pub(crate) fn quarantine_key(&self, id: u128) {
        self.erased_groups.insert(id, Instant::now());
        self.forget_key(id);
    }

    /// Erasures by others are then noticed at once.
    pub(crate) fn forget_keys(&self) {
        self.known_keys.clear();
    }

    /// Returns `None` if the group is erased.
    pub(crate) fn open_key(&self, stored: &StoredRow) -> Result<Option<Arc<GroupKey>>, TableError> {
        let Row::Value(value) = self.read_small(Kind::Key, stored)? else {
            return Ok(None);
        };
        let key = (*value).try_into().map(Zeroizing::new);
        let key = key.map_err(|_| FormatError::Invalid("a key has another length"));
        let key = key.map_err(|source| self.unreadable(Kind::Key, stored.id, source))?;
        let cipher = self.ciphers.with_key(&key);
        Ok(Some(Arc::new(GroupKey { id: stored.id, version: stored.version, cipher })))
    }

    /// An unreadable key is an error of a call that writes with it. Other calls treat it as missing, so that
    /// only the rows of its group fail.
    pub(crate) fn learn_keys(
        &self,
        context: Context,
        rows: Vec<Vec<Cell>>,
        is_to_write: bool,
        keys: &mut GroupKeys,
    ) -> Result<(), TableError> {
        for stored in self.read_tier(Tier::Keys, rows)? {
            let key = match self.open_key(&stored) {
                Err(_) if !is_to_write => continue,
                opened => opened?,
            };
            // A transaction may see keys that are later rolled back.
            if !context.is_in_transaction {
                self.known_keys.insert(stored.id, (context.began, key.clone()));
            }
            keys.insert(stored.id, key);
        }
        Ok(())
    }

    /// In order, so that two clients that make the same keys do not deadlock.
    pub(crate) fn new_keys(&self, ids: &[u128]) -> Result<Vec<StoredRow>, TableError> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        let key = |id| {
            let mut key = vec![0; 32];
            getrandom::fill(&mut key).expect("the operating system has randomness");
            self.encrypt_small(Kind::Key, id, random_version(), &Row::Value(key.into()))
        };
        ids.into_iter().map(key).collect()
    }

    pub(crate) fn erased_key(&self, id: u128) -> Result<StoredRow, TableError> {
        self.encrypt_small(Kind::Key, id, random_version(), &Row::Deleted)
    }

    pub(crate) fn reencrypt_key(&self, stored: &StoredRow) -> Result<StoredRow, TableError> {
        let row = self.read_small(Kind::Key, stored)?;
        self.encrypt_small(Kind::Key, stored.id, random_version(), &row)
    }

    /// Stops at unreadable parts.
    pub(crate) fn groups_in(&self, rows: &[Vec<Cell>]) -> Vec<u128> {
        let Some(state) = self.state().filter(|state| state.groups.is_some()) else {
            return Vec::new();
        };
        let values = self.statements.read_values(rows).unwrap_or_default();
        let groups = values.iter().filter_map(|value| self.group_of_value(value.id, &value.body));
        let mut groups: Vec<_> = groups.collect();
        for (tier, stored) in self.statements.ids().read(rows.to_vec()).unwrap_or_default() {
            groups.extend(self.groups_of(&state, tier.kind(), &stored));
        }
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Stops at unreadable parts.
    pub(super) fn groups_of(&self, state: &State, kind: Kind, stored: &StoredRow) -> Vec<u128> {
        match self.open(state, kind, stored) {
            Ok((_, plaintext)) if kind == Kind::Pack => Pack::groups(stored.id, &plaintext),
            Ok((_, plaintext)) => Row::group_in(&plaintext).into_iter().collect(),
            Err(_) => Vec::new(),
        }
    }

    pub(crate) fn group_of_value(&self, id: u128, body: &[u8]) -> Option<u128> {
        let state = self.state().filter(|state| state.groups.is_some())?;
        self.groups_of(&state, Kind::Value, &StoredRow::new(id, 0, body.to_owned())).pop()
    }
}
