use uuid::Uuid;

use super::{Key, Repr};
use crate::__private::Sealed;
use crate::error::KeyFault;

impl Sealed for Uuid {}

impl Repr for Uuid {
    const KIND: &'static str = "16 bytes";

    #[inline]
    fn to_plaintext(self, _tag: u64) -> u128 {
        self.as_u128()
    }

    #[inline]
    fn from_plaintext(block: u128, _tag: u64) -> Option<Self> {
        Some(Self::from_u128(block))
    }
}

/// Any UUID: v4s of an existing schema, or 16 bytes of any other make.
impl Key for Uuid {
    type Repr = Self;

    const KIND: &'static str = "UUID";

    fn into_repr(self) -> Self {
        self
    }

    #[inline]
    fn check(_repr: Self) -> Result<(), KeyFault> {
        Ok(())
    }

    #[inline]
    fn from_checked(repr: Self) -> Self {
        repr
    }
}
