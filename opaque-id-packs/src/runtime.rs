//! A table of packs for tools.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Deref;

use opaque_id_core::key::Key;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_sql::Dialect;
use serde::de::IgnoredAny;

use crate::call::{
    self, Calls, Conversion, Converted, Damage, PackCall, Reader, UnreadRange, Verified,
};
use crate::column::ColumnName;
use crate::error::{Location, TableError};
use crate::format::{Kind, Row, Value};
use crate::index::Normalizer;
use crate::name::TableName;
use crate::order;
use crate::settings::{Settings, TableMetadata};
use crate::statement::Statements;

/// A table of packs whose resource and values are known only at run time. Values are the bytes that the
/// encoding wrote.
#[derive(Debug)]
pub struct RuntimePacks<K> {
    calls: Calls,
    key: PhantomData<fn() -> K>,
}

/// A page of rows.
#[derive(Debug)]
pub struct RuntimePage<K> {
    /// The rows.
    pub rows: Vec<(K, Vec<u8>)>,
    /// Unreadable and missing packs and rows.
    pub problems: Vec<TableError>,
}

/// The tables that a tool creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A table of packs, in the order of the keys.
    ByKey,
    /// A table of packs, in the order of encrypted keys.
    ByEncryptedKey,
    /// The tables of an encrypted column.
    Column,
}

impl<K: Key> RuntimePacks<K> {
    /// Opens the table with this valid name. Its settings say whether its order is
    /// [encrypted](Self::hides_keys).
    pub fn open(
        keyring: impl Into<SharedKeyring>,
        domain: &str,
        name: impl Into<TableName>,
        hides_keys: bool,
    ) -> Result<PackCall<'static, Self>, TableError> {
        let ids = order::id_column::<K::Repr>(hides_keys);
        let call = Calls::open(keyring.into(), domain, name.into(), ids, None, None, false)?;
        Ok(call.map(|calls| Self { calls, key: PhantomData }))
    }

    /// Opens the table with this name, and writes its first contents if it is new and empty.
    pub fn create(
        keyring: impl Into<SharedKeyring>,
        domain: &str,
        name: impl Into<TableName>,
        settings: Settings,
        encoding: &str,
        layout: Layout,
        has_groups: bool,
    ) -> Result<PackCall<'static, Self>, TableError> {
        let (hides_keys, is_column) = (layout == Layout::ByEncryptedKey, layout == Layout::Column);
        let ids = order::id_column::<K::Repr>(hides_keys);
        let contents = Some(TableMetadata::new(settings, encoding, hides_keys, has_groups));
        let (keyring, name) = (keyring.into(), name.into());
        let call = Calls::open(keyring, domain, name, ids, None, contents, is_column)?;
        Ok(call.map(|calls| Self { calls, key: PhantomData }))
    }

    #[must_use]
    pub fn create_sql(dialect: Dialect, name: &str, layout: Layout, has_groups: bool) -> String {
        let ids = order::id_column::<K::Repr>(layout == Layout::ByEncryptedKey);
        let rows = (layout != Layout::Column).then_some(ids);
        Statements::create_sql(dialect, name, rows, has_groups)
    }

    /// Converts the values of a column. The normalizer says which texts the index contains.
    pub fn convert(
        &self,
        column: &ColumnName,
        to: Conversion,
        normalizer: Option<Normalizer>,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<PackCall<'static, Converted>, TableError> {
        Ok(self.calls.convert(column, to, self.reader(normalizer)?, progress))
    }

    pub fn verify_column(
        &self,
        column: &ColumnName,
        normalizer: Option<Normalizer>,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<PackCall<'static, Verified>, TableError> {
        let read = match normalizer {
            None if column.plaintext.is_none() => None,
            _ => Some(self.reader(normalizer)?),
        };
        Ok(self.calls.verify(Some(column), read, progress))
    }

    /// Without a normalizer, values are JSON. The application alone knows the group of a value.
    fn reader(&self, normalizer: Option<Normalizer>) -> Result<Reader<'static>, TableError> {
        let contents = &self.table.opened()?.contents;
        if contents.groups.is_some() {
            return Err(self.table.mismatch(
                "values without groups",
                "values in groups: call `convert` or `verify` of the `EncryptedColumn` in the application",
            ));
        }
        let is_json = contents.encoding == "json";
        Ok(Box::new(move |bytes| {
            let text = match normalizer {
                Some(_) if is_json => serde_json::from_slice(bytes)
                    .map_err(|_| "expected a JSON string for the blind index, found other JSON")?,
                Some(_) => String::from_utf8(bytes.to_vec())
                    .map_err(|_| "expected text for the blind index, found other bytes")?,
                None if is_json && serde_json::from_slice::<IgnoredAny>(bytes).is_err() => {
                    return Err("expected JSON, found other text".to_owned());
                }
                None => String::new(),
            };
            let text = normalizer.map(|normalizer| normalizer.apply(&text));
            Ok((bytes.to_vec().into(), text))
        }))
    }

    pub fn hides_keys(&self) -> Result<bool, TableError> {
        Ok(self.table.opened()?.contents.order.is_some())
    }

    pub fn has_groups(&self) -> Result<bool, TableError> {
        Ok(self.table.opened()?.contents.groups.is_some())
    }

    pub fn is_backup(&self, other: &Self) -> Result<bool, TableError> {
        let (this, other) = (self.table.opened()?, other.table.opened()?);
        let (this, other) = (&this.contents, &other.contents);
        Ok((&this.order, &this.groups, &this.encoding)
            == (&other.order, &other.groups, &other.encoding))
    }

    pub fn encoding(&self) -> Result<String, TableError> {
        Ok(self.table.opened()?.contents.encoding.clone())
    }

    /// Returns the keys of packs and recent rows that cannot be read or are missing. Unless `is_forced`, it
    /// omits bodies that another secret or a dictionary may be able to read.
    pub fn damage(verified: &Verified, is_forced: bool) -> impl Iterator<Item = Damage> {
        let damage = verified.damage.iter().copied();
        damage.filter(move |damage| damage.is_certain || is_forced)
    }

    /// Reads the rows of damaged keys and their places from this table. It must be a backup.
    pub fn rows_of(&self, damage: Damage) -> PackCall<'static, Vec<(u128, Value)>> {
        let ids = self.table.statements.ids();
        let last = damage.end.map_or(ids.max(), |end| end - 1);
        let mut rest = UnreadRange::new(damage.first, last, false);
        self.call(move |session| async move {
            let (mut session, mut rows) = (session.connect().await, Vec::new());
            while rest.keys.is_some() {
                let page = call::Page::read(&mut session, rest).await?;
                for (place, row) in page.rows {
                    rows.push((place, row.map_err(|problem| *problem)?));
                }
                rest = page.rest;
            }
            session.end(rows).await
        })
    }

    #[must_use]
    pub fn location_of(&self, damage: Damage) -> Location {
        let kind = if damage.recent.is_some() { Kind::Row } else { Kind::Pack };
        self.table.location(kind, damage.first)
    }

    pub fn present<'c>(&'c self, keys: &'c [K]) -> PackCall<'c, HashSet<K>>
    where
        K: Sync + std::hash::Hash,
    {
        self.call(move |session| async move {
            let places = keys.iter().map(|key| self.place(*key));
            let found = call::get(session, places.collect::<Result<_, _>>()?).await?;
            let is_there = |key: &K| Ok(found.contains_key(&self.place(*key)?).then_some(*key));
            keys.iter().map(is_there).filter_map(Result::transpose).collect()
        })
    }

    /// Inserts a row unless it exists. Returns whether it did.
    pub fn insert(&self, key: K, value: Vec<u8>) -> PackCall<'static, bool> {
        let place = self.place(key);
        self.call(move |session| async move {
            let (place, mut session, mut is_new) = (place?, session.connect().await, false);
            let insert = |found: Option<&[u8]>| {
                is_new = found.is_none();
                Ok(is_new.then(|| Row::Value(value.clone().into())))
            };
            call::change(&mut session, place, insert).await?;
            session.end(is_new).await
        })
    }

    pub fn put(&self, rows: Vec<(K, Vec<u8>)>) -> PackCall<'static, ()> {
        let row = |(key, value): (K, Vec<u8>)| Ok((self.place(key)?, Row::Value(value.into())));
        self.put_rows(rows.into_iter().map(row))
    }

    #[must_use]
    pub fn scan(&self) -> UnreadRange {
        self.all()
    }

    pub fn next_page<'c>(
        &'c self,
        rest: &'c mut UnreadRange,
    ) -> PackCall<'c, Option<RuntimePage<K>>> {
        self.call(move |session| async move {
            if rest.keys.is_none() {
                return Ok(None);
            }
            let page = call::page(session, *rest, true).await?;
            *rest = page.rest;
            let state = self.table.opened()?;
            let (mut rows, mut problems) = (Vec::with_capacity(page.rows.len()), page.problems);
            for (place, value) in page.rows {
                let repr = order::key(state.number(place)).filter(|repr| K::check(*repr).is_ok());
                match (repr, value) {
                    (Some(repr), Ok(value)) => rows.push((K::from_checked(repr), value.to_vec())),
                    (_, Err(problem)) => problems.push(*problem),
                    (None, Ok(_)) => {
                        let reason = format!("expected a key of kind {}", K::KIND);
                        problems.push(self.invalid(place, reason));
                    }
                }
            }
            Ok(Some(RuntimePage { rows, problems }))
        })
    }

    fn place(&self, key: K) -> Result<u128, TableError> {
        Ok(self.table.opened()?.place(order::number(key.into_repr())))
    }
}

impl<K> Deref for RuntimePacks<K> {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}
