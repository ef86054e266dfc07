//! Internal keys: a database stores them and sorts by them.

mod any;
mod int;
mod structured;
mod time;
mod ulid;
mod uuid;
mod uuid7;

use core::fmt::Debug;
use core::hash::Hash;

pub use ::uuid::Uuid;

pub use self::any::{AnyKey, KeyKind};
pub use self::structured::StructuredKey;
pub(crate) use self::time::Ticks;
pub use self::time::TimeKey;
pub use self::ulid::Ulid;
pub use self::uuid7::Uuid7;
pub use crate::error::Invalid;
use crate::private::{Private, SerdeRepr};

/// A kind of internal key: [`Uuid7`], [`Ulid`], [`StructuredKey`], [`Uuid`], `i64`, `i32` or `u32`.
///
/// Only this crate implements it. A resource names its kind with `#[opaque_id(key = …)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of internal key",
    label = "not a kind of key",
    note = "set `key = Uuid7`, `Ulid`, `StructuredKey`, `Uuid`, `i64`, `i32` or `u32`",
    note = "`i64` is for `BIGINT`, also if it is unsigned; `i32` for `INT` and `serial`; `u32` for `INT UNSIGNED`"
)]
pub trait Key: Copy + Eq + Ord + Hash + Debug + Send + Sync + Private + 'static {
    /// The stored type: 16 bytes or an integer.
    type Repr: Repr;

    /// The kind's name for messages, such as `UUIDv7`.
    const KIND: &'static str;

    /// The kind's number. Different numbers must not share subkeys.
    #[doc(hidden)]
    const KIND_NUMBER: usize;

    /// Converts the key into the value to store.
    fn into_repr(self) -> Self::Repr;

    /// Checks that a stored value is a key of this kind.
    ///
    /// # Errors
    /// [`Invalid`] if it is not.
    #[inline]
    fn check(repr: Self::Repr) -> Result<(), Invalid> {
        let _ = repr;
        Ok(())
    }

    /// Converts a value that [`check`](Self::check) accepted.
    #[doc(hidden)]
    fn from_checked(repr: Self::Repr) -> Self;

    /// Rounds up a count in a stored value, so that it no longer reveals the count. A time is not a count.
    #[doc(hidden)]
    #[must_use]
    fn rounded_up(repr: Self::Repr) -> Self::Repr {
        repr
    }

    /// The bits that are the same in all keys of the kind.
    #[doc(hidden)]
    const FIXED: FixedBits<Self::Repr>;

    /// The key of the example ids in documentation.
    #[doc(hidden)]
    const EXAMPLE: Self::Repr;
}

fn round_up(count: u64) -> u64 {
    let step = 10_u64.pow(count.max(10).ilog10());
    count.div_ceil(step).saturating_mul(step)
}

macro_rules! key_of_uuid {
    ($key:ident) => {
        impl From<$key> for ::uuid::Uuid {
            fn from(key: $key) -> Self {
                key.0
            }
        }

        impl ::core::fmt::Debug for $key {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(concat!(stringify!($key), "(..)"))
            }
        }
    };
    ($key:ident, checked) => {
        $crate::key::key_of_uuid!($key);

        impl TryFrom<::uuid::Uuid> for $key {
            type Error = $crate::error::Invalid;

            fn try_from(uuid: ::uuid::Uuid) -> Result<Self, Self::Error> {
                Self::check(uuid).map(|()| Self(uuid))
            }
        }
    };
    ($key:ident, checked, shown) => {
        $crate::key::key_of_uuid!($key, checked);

        impl ::core::fmt::Display for $key {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(&self.0, f)
            }
        }
    };
    ($key:ident, checked, shown, parsed) => {
        $crate::key::key_of_uuid!($key, checked, shown);

        impl ::core::str::FromStr for $key {
            type Err = $crate::error::Invalid;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let no_uuid = $crate::error::KeyProblem::Text { expected: Self::KIND };
                ::uuid::Uuid::try_parse(text).map_err(|_| no_uuid)?.try_into()
            }
        }
    };
}

pub(crate) use key_of_uuid;

macro_rules! stored_as_uuid {
    () => {
        type Repr = ::uuid::Uuid;

        fn into_repr(self) -> ::uuid::Uuid {
            self.0
        }

        #[inline]
        fn from_checked(repr: ::uuid::Uuid) -> Self {
            Self(repr)
        }
    };
}
use stored_as_uuid;

/// The bits that are the same in all keys.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct FixedBits<R> {
    pub mask: R,
    pub value: R,
}

/// A stored type: [`Uuid`] (16 big-endian bytes), `i64`, `i32` or `u32`. Only this crate implements it.
pub trait Repr:
    Copy + Eq + Ord + Hash + Send + Sync + Unpin + Private + SerdeRepr + 'static
{
    /// The type and its columns for messages.
    const COLUMN: &'static str;

    /// Returns whether a column type of the sqlx drivers can contain a key. These drivers also read text as
    /// bytes.
    #[doc(hidden)]
    fn is_column_type(name: &str) -> bool;

    /// Converts an integer, or returns `None` if it does not fit.
    #[doc(hidden)]
    #[must_use]
    fn from_integer(_value: i64) -> Option<Self> {
        None
    }

    /// Converts a value, or returns `None` if it is of another type.
    #[doc(hidden)]
    #[must_use]
    fn from_any(key: AnyKey) -> Option<Self>;

    /// Converts into a value of any kind.
    #[doc(hidden)]
    #[must_use]
    fn to_any(self) -> AnyKey;

    /// Returns the value of an unsigned column that sqlx's driver for MySQL wrapped into a signed integer, or
    /// `None` if it does not fit.
    #[doc(hidden)]
    #[must_use]
    fn unwrapped(self, _column_type: &str) -> Option<Self> {
        Some(self)
    }

    /// The number of tag bits in the plaintext block.
    #[doc(hidden)]
    const TAG_BITS: u32 = 0;

    /// Converts the value into the plaintext block of the text form.
    #[doc(hidden)]
    fn to_plaintext(self, tag: u64) -> u128;

    /// Converts a plaintext block into the stored value, or returns `None` if its tag is wrong.
    #[doc(hidden)]
    fn from_plaintext(block: u128, tag: u64) -> Option<Self>;

    /// Returns whether the value has these fixed bits.
    #[doc(hidden)]
    fn has(self, fixed: FixedBits<Self>) -> bool;

    /// Returns the value of the first bits in `bits`, with the fixed bits replaced.
    #[doc(hidden)]
    fn from_bits(bits: u128, fixed: FixedBits<Self>) -> Self;

    /// Returns the smallest and the largest value with these fixed bits.
    #[doc(hidden)]
    fn range(fixed: FixedBits<Self>) -> (Self, Self);

    /// Returns the next value with these fixed bits.
    #[doc(hidden)]
    fn after(self, fixed: FixedBits<Self>) -> Option<Self>;

    /// Returns the previous value with these fixed bits.
    #[doc(hidden)]
    fn before(self, fixed: FixedBits<Self>) -> Option<Self>;
}
