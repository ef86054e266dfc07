//! The settings and dictionaries as the meta table has them, and the first pack.

use opaque_id_sql::statement::Cell;

use super::Table;
use crate::error::TableError;
use crate::format::{FormatError, GroupKeys, Kind, Pack, Padding, Row};
use crate::settings::TableMetadata;
use crate::stored::StoredRow;

/// The settings and the dictionaries by number.
pub(crate) type Meta = Vec<(u16, StoredRow)>;

impl Table {
    pub(crate) fn decode_meta(&self, rows: Vec<Vec<Cell>>) -> Result<Meta, TableError> {
        let stored = |cells| match <[Cell; 3]>::try_from(cells) {
            Ok([Cell::Integer(id), Cell::Integer(version), Cell::Bytes(body)]) => {
                let number = u16::try_from(id).map_err(|_| self.wrong_columns())?;
                let id = number.into();
                Ok((number, StoredRow::new(id, version, body)))
            }
            _ => Err(self.wrong_columns()),
        };
        rows.into_iter().map(stored).collect()
    }

    pub(super) fn decode_settings(&self, stored: &StoredRow) -> Result<TableMetadata, TableError> {
        let json = self.open_meta(Kind::Settings, stored)?;
        serde_json::from_slice(&json).map_err(|error| {
            let newer = "a newer version of this library may have written them";
            self.settings_problem(format!("{newer}: {error}"))
        })
    }

    pub(super) fn open_meta(&self, kind: Kind, stored: &StoredRow) -> Result<Vec<u8>, TableError> {
        match self.read_small(kind, stored)? {
            Row::Value(value) => Ok(value.to_vec()),
            Row::Deleted => {
                Err(self.unreadable(kind, stored.id, FormatError::Invalid("it is deleted")))
            }
        }
    }

    pub(crate) fn encrypt_meta(
        &self,
        id: u16,
        version: i64,
        bytes: &[u8],
    ) -> Result<StoredRow, TableError> {
        let row = Row::Value(bytes.to_owned().into());
        self.encrypt_small(meta_kind(id), id.into(), version, &row)
    }

    pub(crate) fn encrypt_settings(
        &self,
        version: i64,
        contents: &TableMetadata,
    ) -> Result<StoredRow, TableError> {
        let json = serde_json::to_vec(contents);
        let json = json.map_err(|error| self.settings_problem(error.to_string()))?;
        self.encrypt_meta(0, version, &json)
    }

    /// It is empty and has the smallest id.
    pub(crate) fn encrypt_first_pack(
        &self,
        contents: &TableMetadata,
        version: i64,
    ) -> Result<StoredRow, TableError> {
        let pack = Pack { id: 0, end: None, rows: Vec::new() };
        let plaintext = pack
            .encode(&self.plain, Padding::None, &GroupKeys::default())
            .map_err(|source| self.unwritable(Kind::Pack, 0, source))?;
        let groups = self.groups(contents)?;
        Ok(self.encrypt(groups.as_ref(), Kind::Pack, 0, version, &self.plain, &plaintext))
    }

    /// Returns the settings and the dictionaries that are not under the current secret, encrypted again.
    pub(crate) fn reencrypt_meta(&self, mut stored: Meta) -> Vec<Result<StoredRow, TableError>> {
        let current = self.cipher().header(0);
        stored.retain(|(_, stored)| !stored.body.starts_with(&current));
        let reencrypt = |(id, stored): (u16, StoredRow)| {
            let plaintext = self.open_meta(meta_kind(id), &stored)?;
            self.encrypt_meta(id, stored.version + 1, &plaintext)
        };
        stored.into_iter().map(reencrypt).collect()
    }

    pub(crate) fn verify_meta(&self, stored: Meta) -> impl Iterator<Item = TableError> {
        let open = |(id, stored)| self.open_meta(meta_kind(id), &stored).err();
        stored.into_iter().filter_map(open)
    }
}

fn meta_kind(id: u16) -> Kind {
    if id == 0 { Kind::Settings } else { Kind::Dictionary }
}
