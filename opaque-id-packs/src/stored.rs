#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Recent,
    Packs,
    Keys,
}

/// A row of a table of packs.
#[derive(Clone)]
pub(crate) struct StoredRow {
    pub(crate) id: u128,
    pub(crate) version: i64,
    pub(crate) body: Vec<u8>,
    /// The id of the pack after this one in the same snapshot, if the statement reads it.
    pub(crate) next: Option<u128>,
}

impl StoredRow {
    pub(crate) fn new(id: u128, version: i64, body: Vec<u8>) -> Self {
        Self { id, version, body, next: None }
    }
}
