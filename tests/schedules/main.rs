//! Calls on a table of packs, statement by statement. The statements are those of SQLite, and SQLite runs them.
//!
//! - [`random`]: clients and mergers of a table of packs under a random scheduler. It lets one of them run its next statement or
//!   die between two. The histories of all rows must be linearizable. There are 6,000 schedules. `OPAQUE_ID_TEST_SCHEDULES` sets
//!   another number, and `cargo xtask stress schedules` runs a million. Half of the clients have a cache. Each mutation of the
//!   protocol's statements must cause a history that is not linearizable.
//! - [`pairs`]: all schedules of each pair of calls, with a death of either client between any two statements.
//! - [`calls`], [`restore`], [`cache`]: single situations.

mod cache;
mod calls;
mod pairs;
mod random;
mod restore;
mod world;
