//! Keys of a kind known only at run time.

use core::fmt;
use core::str::FromStr;

use uuid::Uuid;

#[cfg(doc)]
use super::{StructuredKey, Ulid, Uuid7};
use crate::error::{Invalid, KeyProblem};

/// A kind of internal key for tools that know it only at run time. It parses its [`name`](Self::name) and its
/// name in the derive, such as `StructuredKey`.
// In an enum with a variant `Uuid7`, the compiler would print the key `Uuid7` with its whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyKind(&'static str);

impl KeyKind {
    /// [`Uuid7`]
    pub const UUID7: Self = Self("uuid7");
    /// [`Ulid`]
    pub const ULID: Self = Self("ulid");
    /// [`StructuredKey`]
    pub const STRUCTURED: Self = Self("structured");
    /// [`Uuid`]
    pub const UUID: Self = Self("uuid");
    /// `i64`
    pub const I64: Self = Self("i64");
    /// `i32`
    pub const I32: Self = Self("i32");
    /// `u32`
    pub const U32: Self = Self("u32");

    /// Returns the kind's name: `uuid7`, `ulid`, `structured`, `uuid`, `i64`, `i32` or `u32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Returns whether the keys are integers.
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I64 | Self::I32 | Self::U32)
    }
}

impl FromStr for KeyKind {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Ok(match name {
            "uuid7" | "Uuid7" => Self::UUID7,
            "ulid" | "Ulid" => Self::ULID,
            "structured" | "StructuredKey" => Self::STRUCTURED,
            "uuid" | "Uuid" => Self::UUID,
            "i64" => Self::I64,
            "i32" => Self::I32,
            "u32" => Self::U32,
            _ => {
                return Err(Invalid::setting(
                    "expected `Uuid7`, `Ulid`, `StructuredKey`, `Uuid`, `i64`, `i32` or `u32`",
                ));
            }
        })
    }
}

/// The stored value of a key of a kind known only at run time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnyKey {
    /// 16 bytes.
    Bytes(Uuid),
    /// An integer of any width.
    Int(i64),
}

impl fmt::Display for AnyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(uuid) => uuid.fmt(f),
            Self::Int(integer) => integer.fmt(f),
        }
    }
}

impl FromStr for AnyKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if let Ok(integer) = text.parse() {
            return Ok(Self::Int(integer));
        }
        let no_key = KeyProblem::Text { expected: "UUID or integer" };
        Uuid::try_parse(text).map(Self::Bytes).map_err(|_| no_key.into())
    }
}

impl fmt::Debug for AnyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyKey(..)")
    }
}
