//! Calls on a table of packs, as futures without I/O that run their statements through a
//! [`Session`](session::Session).
//!
//! One statement replaces a pack and inserts its right parts, if the pack has the version that was read.
//! Every database has such a statement. Therefore calls need no transaction of their own, and a client may
//! die anywhere. MiniCrypt needs two steps, and its readers must understand the state between them.

mod change;
mod convert;
mod erase;
mod get;
mod merge;
mod open;
mod put;
mod range;
mod rekey;
mod restore;
mod session;
mod train;
mod verify;
mod walk;

use opaque_id_sql::call::Call;

pub(crate) use self::change::change;
pub(crate) use self::convert::convert;
pub use self::convert::{Conversion, Converted, Reader};
pub(crate) use self::erase::erase;
pub(crate) use self::get::get;
pub(crate) use self::merge::merge;
pub(crate) use self::open::{First, open};
pub(crate) use self::put::{delete_range, put};
pub use self::range::UnreadRange;
pub(crate) use self::range::{Page, page};
pub use self::rekey::Rekeyed;
pub(crate) use self::rekey::{Rekey, rekey};
pub(crate) use self::restore::restore;
pub(crate) use self::session::{Disconnected, Session};
pub(crate) use self::train::{configure, make_index, train};
pub(crate) use self::verify::verify;
pub use self::verify::{Damage, Verified};
use crate::error::TableError;

/// The last body may exceed the limit.
const STATEMENT_BYTES: u32 = 256 << 10;

/// A call on a table of packs.
pub type PackCall<'c, R> = Call<'c, R, TableError>;

#[cfg(test)]
mod tests;
