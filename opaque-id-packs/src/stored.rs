use crate::format::Kind;

/// The table of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Recent,
    Packs,
    Keys,
}

impl Tier {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Recent => Kind::Row,
            Self::Packs => Kind::Pack,
            Self::Keys => Kind::Key,
        }
    }
}

/// A row of a table of packs, or an item of a list without a body.
#[derive(Clone)]
pub(crate) struct StoredRow {
    pub(crate) id: u128,
    pub(crate) version: i64,
    pub(crate) body: Vec<u8>,
    /// The id of the pack after this one in the same snapshot, if the statement reads it.
    pub(crate) next: Option<u128>,
    /// The fingerprint of a value's row, or no bytes.
    pub(crate) index: Vec<u8>,
}

impl StoredRow {
    pub(crate) fn new(id: u128, version: i64, body: Vec<u8>) -> Self {
        Self { id, version, body, next: None, index: Vec::new() }
    }
}
