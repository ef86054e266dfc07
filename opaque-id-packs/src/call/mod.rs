//! Calls on a table of packs, as futures without I/O that run their statements through a
//! [`Session`](session::Session).
//!
//! One statement replaces a pack and inserts its right parts, if the pack has the version that was read.
//! Every database has such a statement. Therefore calls need no transaction of their own, and a client may
//! die anywhere. MiniCrypt needs two steps, and its readers must understand the state between them.
//!
//! I1 to I5 in comments are the invariants of docs/PACKS-FORMAT.md.

mod change;
mod convert;
mod get;
mod merge;
mod open;
mod put;
mod range;
mod rekey;
mod restore;
mod session;
mod train;
mod verify;
mod walk;

use std::sync::Arc;

use opaque_id_sql::call::{Call, RETRY_FOR};

pub(crate) use self::change::change;
pub use self::convert::{Conversion, Converted, Reader};
pub(crate) use self::get::get;
pub use self::range::UnreadRange;
pub(crate) use self::range::{Page, page};
pub use self::rekey::Rekeyed;
pub(crate) use self::session::{Disconnected, Session};
pub use self::verify::{Damage, Verified};
use crate::cache::CacheStats;
use crate::error::TableError;
use crate::group::Group;
use crate::settings::Settings;
use crate::table::Table;

/// The last body may exceed the limit.
const STATEMENT_BYTES: u32 = 256 << 10;

/// A call on a table of packs.
pub type PackCall<'c, R> = Call<'c, R, TableError>;

/// The calls on a table, or on an encrypted column, that need no types.
#[derive(Clone, Debug)]
pub struct Calls {
    pub(crate) table: Arc<Table>,
}

impl Calls {
    pub(crate) fn call<'c, R, F>(&self, call: impl FnOnce(Disconnected) -> F) -> PackCall<'c, R>
    where
        F: Future<Output = Result<R, TableError>> + Send + 'c,
    {
        let table = Arc::clone(&self.table);
        PackCall::new(RETRY_FOR, |session| call(Disconnected::new(session, table)))
    }

    fn connected<'c, R, F>(&self, call: impl FnOnce(Session) -> F + Send + 'c) -> PackCall<'c, R>
    where
        F: Future<Output = Result<R, TableError>> + Send + 'c,
    {
        self.call(|session| async { call(session.connect().await).await })
    }

    pub fn set_cache(&self, bytes: u64) {
        self.table.set_cache(bytes);
    }

    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.table.cache().map_or(CacheStats::default(), |cache| cache.stats())
    }

    /// Returns the settings.
    ///
    /// # Panics
    /// Before the table is opened.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let state = self.table.opened().expect("an open table");
        state.contents.settings.clone()
    }

    /// Erases a group: its rows become unreadable, and no client can write others.
    pub fn erase(&self, group: Group) -> PackCall<'static, ()> {
        self.call(async move |session: Disconnected| {
            let table = &session.table;
            let id = table.opened()?.group_id(group);
            let id = id.ok_or_else(|| table.mismatch("rows in groups", "rows without groups"))?;
            let mark = table.erased_key(id)?;
            let mut session = session.connect().await;
            session.table.quarantine_key(id);
            session.write(session.sql().erase_key(&mark)).await?;
            session.table.quarantine_key(id);
            session.end(()).await
        })
    }

    pub(crate) fn all(&self) -> UnreadRange {
        UnreadRange::new(0, self.table.statements.ids().max(), false)
    }

    pub(crate) fn invalid(&self, place: u128, reason: String) -> TableError {
        TableError::Value { location: self.table.location_of_row(place), reason }
    }
}

#[cfg(test)]
mod tests;
