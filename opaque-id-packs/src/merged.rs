//! The result of a merge, for its caller and for metrics.

use std::time::Duration;

/// The result of a [merge].
///
/// [merge]: crate#merging
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// How many rows were moved into packs, including the marks of deleted rows.
    pub rows: u64,
    /// How many packs were written.
    pub packs: u64,
    /// How many packs were not written, because another client was faster or has locked them.
    pub lost: u64,
    /// How many of the rows that the call has found stay in the recent table: until there are more for their packs, until the client
    /// that has locked or replaced them is done, or until they and their pack can be read.
    pub rows_left: u64,
    /// The size of these rows in bytes, as they are stored.
    pub bytes_left: u64,
    /// How many packs these rows belong to.
    pub packs_left: u64,
    /// How many of these packs have rows that do not wait for more: they or the pack are locked or cannot be read.
    pub packs_stuck: u64,
    /// The longest time for which merges of this process have found rows of one pack each time.
    pub left_for: Duration,
    /// The same, of packs that are stuck.
    pub stuck_for: Duration,
}
