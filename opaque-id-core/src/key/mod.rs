//! Internal keys: what a database stores and sorts by.

mod int;
mod structured;
mod time;
mod ulid;
mod uuid;
mod uuid7;

use core::fmt::Debug;
use core::hash::Hash;

pub use ::uuid::Uuid;

pub use self::structured::StructuredKey;
pub(crate) use self::time::Ticks;
pub use self::time::TimeKey;
pub use self::ulid::Ulid;
pub use self::uuid7::Uuid7;
use crate::error::InvalidKey;
use crate::private::{Private, SerdeRepr};

/// A kind of internal key: [`Uuid7`], [`Ulid`], [`StructuredKey`], [`Uuid`] or `i64`.
///
/// Only this crate implements it: the wire format knows these five. A resource names its kind with
/// `#[opaque_id(key = …)]`.
///
/// ```
/// use opaque_id_core::key::{Key, Uuid7};
///
/// let uuid = uuid::uuid!("0192c1f0-7b1e-7a35-8f00-000000000001");
/// let key = Uuid7::try_from(uuid)?;
/// assert_eq!(key.into_repr(), uuid);
/// assert!(Uuid7::check(uuid::Uuid::nil()).is_err());
/// # Ok::<(), opaque_id_core::error::InvalidKey>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of internal key",
    label = "not a kind of key",
    note = "write `key = Uuid7`, `Ulid`, `StructuredKey`, `uuid::Uuid` or `i64`"
)]
pub trait Key: Copy + Eq + Ord + Hash + Debug + Send + Sync + Private + 'static {
    /// What is stored: 16 bytes or a signed 64-bit integer.
    type Repr: Repr;

    /// The kind's name, for messages: `UUIDv7`.
    const KIND: &'static str;

    /// The stored value.
    fn into_repr(self) -> Self::Repr;

    /// Whether a stored value is a key of this kind.
    ///
    /// # Errors
    /// [`InvalidKey`] says what is wrong, without the value.
    fn check(repr: Self::Repr) -> Result<(), InvalidKey>;

    /// The key of a value that [`check`](Self::check) has passed.
    #[doc(hidden)]
    fn from_checked(repr: Self::Repr) -> Self;

    /// The bits that are the same in all keys of the kind.
    #[doc(hidden)]
    const FIXED: FixedBits<Self::Repr>;
}

/// `Debug` names the kind and hides the key; `Display` shows it.
macro_rules! hide_keys {
    ($($key:ident)*) => {$(
        impl ::core::fmt::Debug for $key {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(concat!(stringify!($key), "(..)"))
            }
        }
    )*};
}

pub(crate) use hide_keys;

hide_keys! { StructuredKey Ulid Uuid7 }

/// Bits that are the same in all keys: which ones, and their values.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct FixedBits<R> {
    pub mask: R,
    pub value: R,
}

/// What a key is stored as: [`Uuid`], which is 16 big-endian bytes compared as bytes, or
/// `i64`. Only this crate implements it.
pub trait Repr:
    Copy + Eq + Ord + Hash + Send + Sync + Unpin + Private + SerdeRepr + 'static
{
    /// What is stored and in which columns, for messages.
    const COLUMN: &'static str;

    /// Whether a value whose type the sqlx drivers call so can be a key. They read more than that: text
    /// as bytes, narrower integers.
    #[doc(hidden)]
    fn is_column_type(name: &str) -> bool;

    /// Whether the plaintext block has room for a tag: an integer's has.
    #[doc(hidden)]
    const HAS_TAG: bool;

    /// The plaintext block of the text form; only integers use the tag.
    #[doc(hidden)]
    fn to_plaintext(self, tag: u64) -> u128;

    /// The stored value of a plaintext block, unless its tag is wrong.
    #[doc(hidden)]
    fn from_plaintext(block: u128, tag: u64) -> Option<Self>;

    /// The smallest and the largest value with these bits.
    #[doc(hidden)]
    fn range(fixed: FixedBits<Self>) -> (Self, Self);

    /// The next value with these bits.
    #[doc(hidden)]
    fn after(self, fixed: FixedBits<Self>) -> Option<Self>;

    /// The value before with these bits.
    #[doc(hidden)]
    fn before(self, fixed: FixedBits<Self>) -> Option<Self>;
}
