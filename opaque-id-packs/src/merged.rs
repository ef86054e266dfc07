use std::time::Duration;

/// The result of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// The number of rows that were moved into packs, including the marks of deleted rows.
    pub rows: u64,
    /// The number of packs that were written.
    pub packs: u64,
    /// The number of packs that were not written, because another client was faster or has locked them.
    pub lost: u64,
    /// The number of found rows that stay in the recent table: too few, locked, replaced, or unreadable.
    pub rows_left: u64,
    /// The stored size of these rows in bytes.
    pub bytes_left: u64,
    /// The number of packs of these rows.
    pub packs_left: u64,
    /// The number of these packs that are locked or unreadable, or have such rows.
    pub packs_stuck: u64,
    /// The longest time for which all merges of this process have found rows of one pack.
    pub left_for: Duration,
    /// The longest such time of stuck packs.
    pub stuck_for: Duration,
}
