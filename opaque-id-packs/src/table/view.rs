//! The bodies of rows, values and packs in one call.

use std::sync::Arc;

use super::state::State;
use super::{Context, Table, count, random_version};
use crate::cache::Cached;
use crate::error::TableError;
use crate::format::{Codec, FormatError, GroupKeys, Kind, Pack, PackCipher, Plaintext, Row, Value};
use crate::stored::StoredRow;

pub(crate) type Unreadable = Vec<(u128, TableError)>;

/// The table as a call knows it, for the bodies of rows, values and packs.
pub(crate) struct View<'v> {
    pub(crate) table: &'v Table,
    pub(crate) state: Arc<State>,
    context: Context,
    pub(crate) groups: &'v GroupKeys,
}

impl Table {
    pub(crate) fn view<'v>(
        &'v self,
        context: Context,
        groups: &'v GroupKeys,
    ) -> Result<View<'v>, TableError> {
        Ok(View { table: self, state: self.opened()?, context, groups })
    }
}

impl View<'_> {
    pub(crate) fn has_erased(&self, kind: Kind, stored: &StoredRow) -> bool {
        let groups = self.table.groups_of(&self.state, kind, stored);
        groups.iter().any(|id| self.groups.is_erased(*id))
    }

    pub(crate) fn encrypt_row(&self, id: u128, row: &Row) -> Result<StoredRow, TableError> {
        self.encrypt(Kind::Row, id, random_version(), self.state.row_codec(), row)
    }

    /// `None` marks a value of an erased group.
    pub(crate) fn encrypt_value(
        &self,
        id: u128,
        value: Option<Value>,
    ) -> Result<Vec<u8>, TableError> {
        let row = value.map_or(Row::Deleted, Row::Value);
        Ok(self.encrypt(Kind::Value, id, 0, self.state.value_codec(), &row)?.body)
    }

    fn encrypt(
        &self,
        kind: Kind,
        id: u128,
        version: i64,
        codec: &Codec,
        row: &Row,
    ) -> Result<StoredRow, TableError> {
        let (table, groups) = (self.table, self.state.groups.as_ref());
        // A row without a group would survive the erasure.
        if groups.is_some() && matches!(row, Row::Value(value) if value.group.is_none()) {
            let reason = "expected a value of a group, because there are groups, found one without";
            return Err(table.invalid(kind, id, reason));
        }
        let plaintext = row
            .encode(codec, self.state.contents.settings.row_padding, self.groups)
            .map_err(|source| table.unwritable(kind, id, source))?;
        table.check_stored_len(kind, id, plaintext.len())?;
        Ok(table.encrypt(groups, kind, id, version, codec, &plaintext))
    }

    /// The codec is that of the plaintext.
    pub(crate) fn encrypt_pack(
        &self,
        codec: &Codec,
        (id, version): (u128, i64),
        plaintext: &[u8],
    ) -> StoredRow {
        let groups = self.state.groups.as_ref();
        self.table.encrypt(groups, Kind::Pack, id, version, codec, plaintext)
    }

    pub(crate) fn open_value(&self, id: u128, body: &[u8]) -> Result<Value, TableError> {
        let dictionary = PackCipher::dictionary_id(body).unwrap_or(0);
        let location = || self.table.location(Kind::Value, id);
        if !self.state.has_dictionary(dictionary) {
            return Err(TableError::UnknownDictionary { location: location(), dictionary });
        }
        match self.open(Kind::Value, &StoredRow::new(id, 0, body.to_owned()))? {
            Row::Value(value) => Ok(value),
            Row::Deleted => Err(TableError::Erased { location: location() }),
        }
    }

    pub(crate) fn open_row(&self, stored: &StoredRow) -> Result<Row, TableError> {
        self.open(Kind::Row, stored)
    }

    fn open(&self, kind: Kind, stored: &StoredRow) -> Result<Row, TableError> {
        let (codec, plaintext) = self.table.open(&self.state, kind, stored)?;
        Row::decode(&plaintext, codec, self.groups)
            .map_err(|source| self.table.unreadable(kind, stored.id, source))
    }

    /// The pack must not be older than the version that was seen before the call.
    pub(crate) fn open_pack(&self, stored: &StoredRow) -> Result<Arc<Pack>, TableError> {
        let (pack, unreadable) = self.open_readable(stored)?;
        unreadable.into_iter().next().map_or(Ok(pack), |(_, problem)| Err(problem))
    }

    /// Omits the unreadable rows of groups. The second result has their places with the problem.
    pub(crate) fn open_readable(
        &self,
        stored: &StoredRow,
    ) -> Result<(Arc<Pack>, Unreadable), TableError> {
        let table = self.table;
        let (codec, plaintext) = self.open_body(stored)?;
        let (pack, unreadable) =
            Pack::decode_readable(stored.id, &plaintext, codec, self.groups)
                .map_err(|source| table.unreadable(Kind::Pack, stored.id, source))?;
        table.check_end(stored, pack.end)?;
        let problem = |(place, source)| {
            (place, TableError::Unreadable { location: table.location_of_row(place), source })
        };
        Ok((Arc::new(pack), unreadable.into_iter().map(problem).collect()))
    }

    /// Returns the pack's end and the value of one key.
    pub(crate) fn find_in_pack(
        &self,
        stored: &StoredRow,
        key: u128,
    ) -> Result<(Option<u128>, Option<Value>), TableError> {
        let table = self.table;
        let (codec, plaintext) = self.open_body(stored)?;
        let (end, value) =
            Pack::find(stored.id, &plaintext, codec, self.groups, key).map_err(|source| {
                match source {
                    FormatError::NoGroupKey => {
                        TableError::Unreadable { location: table.location_of_row(key), source }
                    }
                    source => table.unreadable(Kind::Pack, stored.id, source),
                }
            })?;
        table.check_end(stored, end)?;
        Ok((end, value))
    }

    fn open_body(&self, stored: &StoredRow) -> Result<(&Codec, Plaintext), TableError> {
        let opened = self.table.open(&self.state, Kind::Pack, stored)?;
        self.check_age(stored.id, stored.version)?;
        Ok(opened)
    }

    pub(crate) fn check_age(&self, pack: u128, version: i64) -> Result<(), TableError> {
        self.table.check_age(self.context, Kind::Pack, pack, count(version))
    }

    pub(crate) fn open_and_cache(
        &self,
        stored: &StoredRow,
    ) -> Result<(Arc<Pack>, Unreadable), TableError> {
        let (pack, unreadable) = self.open_readable(stored)?;
        // A transaction may see rows that are later rolled back.
        let is_whole = unreadable.is_empty() && !self.context.is_in_transaction;
        if let Some(cache) = self.table.cache().filter(|_| is_whole) {
            let (version, len) = (stored.version, stored.body.len());
            cache.insert(Cached { version, pack: Arc::clone(&pack), len });
        }
        Ok((pack, unreadable))
    }
}
