//! The result of a merge, for its caller and for metrics.

use std::time::Duration;

/// The result of a [merge].
///
/// [merge]: crate#merging
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// The number of rows that were moved into packs, including the marks of deleted rows.
    pub rows: u64,
    /// The number of packs that were written.
    pub packs: u64,
    /// The number of packs that were not written, because another client was faster or has locked them.
    pub lost: u64,
    /// The number of found rows that stay in the recent table. Their packs have too few rows, another client has locked or replaced them,
    /// or they or their pack cannot be read.
    pub rows_left: u64,
    /// The stored size of these rows in bytes.
    pub bytes_left: u64,
    /// The number of packs of these rows.
    pub packs_left: u64,
    /// The number of these packs with rows that stay for another reason than their number: they or the pack are locked or cannot be read.
    pub packs_stuck: u64,
    /// The longest time for which all merges of this process have found rows of one pack.
    pub left_for: Duration,
    /// The longest such time of packs that are stuck.
    pub stuck_for: Duration,
}
