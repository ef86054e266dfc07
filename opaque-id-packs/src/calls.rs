use std::sync::Arc;
use std::time::Duration;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_sql::call::RETRY_FOR;

use crate::cache::CacheStats;
use crate::call::{
    self, Conversion, Converted, Damage, Disconnected, First, PackCall, Reader, Rekey, Rekeyed,
    UnreadRange, Verified,
};
use crate::column::ColumnName;
use crate::dictionary::trained;
use crate::encoding::Encoding;
use crate::error::{Location, TableError};
use crate::format::{Row, Value};
use crate::group::Group;
use crate::id_column::IdColumn;
use crate::merged::Merged;
use crate::name::TableName;
use crate::settings::{Settings, TableMetadata};
use crate::table::{Requirements, Table};

/// The calls on a table, or on an encrypted column, that need no types.
#[derive(Clone, Debug)]
pub struct Calls {
    pub(crate) table: Arc<Table>,
}

pub(crate) type PlacedRow = Result<(u128, Row), TableError>;

impl Calls {
    /// With contents, the call writes them if the table is new.
    pub(crate) fn open(
        keyring: SharedKeyring,
        domain: &str,
        name: TableName,
        ids: IdColumn,
        expected: Option<Requirements>,
        contents: Option<&TableMetadata>,
        is_column: bool,
    ) -> Result<(Self, PackCall<'static, ()>), TableError> {
        let table = Table::new(keyring, domain, name, ids, expected)?;
        let first = contents.map(|contents| First::new(&table, contents, is_column)).transpose()?;
        let calls = Self { table: Arc::new(table) };
        let call = calls.call(|session| call::open(session, first));
        Ok((calls, call))
    }

    pub(crate) fn call<'c, R, F>(&self, call: impl FnOnce(Disconnected) -> F) -> PackCall<'c, R>
    where
        F: Future<Output = Result<R, TableError>> + Send + 'c,
    {
        let table = Arc::clone(&self.table);
        PackCall::new(RETRY_FOR, |session| call(Disconnected::new(session, table)))
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

    pub fn configure(&self, settings: Settings) -> PackCall<'static, ()> {
        self.call(|session| call::configure(session, Some(settings), None))
    }

    pub fn refresh(&self) -> PackCall<'static, ()> {
        self.call(|session| call::open(session, None))
    }

    pub fn train(&self, bytes: usize) -> PackCall<'static, ()> {
        self.call(move |session| call::train(session, bytes))
    }

    /// Trains a dictionary from samples. Samples with groups contribute only texts that many groups share.
    pub fn train_from(
        &self,
        samples: Result<Vec<Value>, TableError>,
        bytes: usize,
    ) -> PackCall<'static, ()> {
        self.call(move |session| async move {
            let dictionary = trained(session.table().name(), &samples?, bytes)?;
            call::configure(session, None, Some(dictionary)).await
        })
    }

    pub(crate) fn sample<V, E: Encoding<V>>(&self, value: &V) -> Result<Value, TableError> {
        let name = self.table.name().to_owned();
        E::encode(value).map(Value::from).map_err(|reason| TableError::Value {
            location: Location { name: format!("a sample for {name}"), id: None },
            reason,
        })
    }

    pub fn train_from_public<'v, V: 'v, E: Encoding<V>>(
        &self,
        samples: impl IntoIterator<Item = &'v V>,
        bytes: usize,
    ) -> PackCall<'static, ()> {
        let samples = samples.into_iter().map(|value| self.sample::<V, E>(value));
        self.train_from(samples.collect(), bytes)
    }

    pub fn merge(&self, all: bool) -> PackCall<'static, Merged> {
        self.call(move |session| call::merge(session, all))
    }

    /// Encrypts everything again that is not current, in the packs or in a column. With a time, it also rewrites bodies with rows of erased
    /// groups, and deletes the dictionaries that have not been current for this time.
    pub fn rekey(
        &self,
        column: Option<&ColumnName>,
        unused_for: Option<Duration>,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<'static, Rekeyed> {
        let progress = Box::new(progress);
        let rekey = Rekey { column: column.cloned(), unused_for, progress };
        self.call(|session| call::rekey(session, rekey))
    }

    /// Reads all packs and recent rows, or all values of a column. With a reader, it also checks the column's plaintext and its index.
    pub fn verify<'c>(
        &self,
        column: Option<&ColumnName>,
        read: Option<Reader<'c>>,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<'c, Verified> {
        let (column, progress) = (column.cloned(), Box::new(progress));
        self.call(|session| call::verify(session, column, read, progress))
    }

    pub fn convert<'c>(
        &self,
        column: &ColumnName,
        to: Conversion,
        read: Reader<'c>,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<'c, Converted> {
        let (column, progress) = (column.clone(), Box::new(progress));
        self.call(move |session| call::convert(session, column, to, read, progress))
    }

    pub fn make_index(&self) -> PackCall<'static, ()> {
        self.call(call::make_index)
    }

    pub fn restore(&self, damage: Damage, rows: Vec<(u128, Value)>) -> PackCall<'static, bool> {
        self.call(move |session| call::restore(session, damage, rows))
    }

    pub fn erase(&self, group: Group) -> PackCall<'static, ()> {
        self.call(move |session| async move {
            let id = session.table().opened()?.group_id(group);
            let id = id.ok_or_else(|| TableError::Mismatch {
                table: session.table().name().to_owned(),
                expected: "rows in groups".to_owned(),
                found: "rows without groups".to_owned(),
            })?;
            call::erase(session, id).await
        })
    }

    pub(crate) fn put_call(&self, rows: impl Iterator<Item = PlacedRow>) -> PackCall<'static, ()> {
        let rows = rows.collect::<Result<Vec<_>, _>>();
        self.call(|session| async { call::put(session, rows?).await })
    }

    pub(crate) fn all(&self) -> UnreadRange {
        UnreadRange::new(0, self.table.statements.ids().max(), false)
    }

    pub(crate) fn invalid(&self, place: u128, reason: String) -> TableError {
        TableError::Value { location: self.table.location_of_row(place), reason }
    }
}
