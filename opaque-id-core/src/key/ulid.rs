use core::fmt;
use core::str::FromStr;

use uuid::Uuid;

use super::Key;
use crate::__private::Sealed;
use crate::base32;
use crate::error::KeyFault;

/// A [ULID](https://github.com/ulid/spec): a 48-bit Unix time in milliseconds and 80 random bits, in 16
/// big-endian bytes.
///
/// Its text is 26 characters of Crockford's base32, upper case as the spec writes it; either case is
/// read. This is a raw key: showing one tells when its row was made.
///
/// ```
/// use opaque_id_core::Ulid;
///
/// let key: Ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse()?;
/// assert_eq!(key.unix_millis(), 1_469_922_850_259);
/// assert_eq!(key.to_string(), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
/// # Ok::<(), opaque_id_core::KeyFault>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid(Uuid);

impl Ulid {
    /// Milliseconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub const fn unix_millis(self) -> u64 {
        (self.0.as_u128() >> 80) as u64
    }
}

impl Sealed for Ulid {}

impl Key for Ulid {
    type Repr = Uuid;

    const KIND: &'static str = "ULID";

    fn into_repr(self) -> Uuid {
        self.0
    }

    #[inline]
    fn check(_repr: Uuid) -> Result<(), KeyFault> {
        Ok(())
    }

    #[inline]
    fn from_checked(repr: Uuid) -> Self {
        Self(repr)
    }
}

impl From<Uuid> for Ulid {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl From<Ulid> for Uuid {
    fn from(key: Ulid) -> Self {
        key.0
    }
}

impl FromStr for Ulid {
    type Err = KeyFault;

    /// # Errors
    /// [`KeyFault::Text`] unless it is 26 characters of base32 of which the first is at most `7`.
    fn from_str(text: &str) -> Result<Self, KeyFault> {
        let fault = KeyFault::Text { wanted: Self::KIND };
        let mut lower: [u8; 26] = text.as_bytes().try_into().map_err(|_| fault)?;
        lower.make_ascii_lowercase();
        match base32::decode_130(&lower) {
            // A ULID has two spare bits in front of its 128.
            Ok((0, block)) => Ok(Self(Uuid::from_u128(block))),
            _ => Err(fault),
        }
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 26];
        base32::encode_130(0, self.0.as_u128(), &mut text);
        text.make_ascii_uppercase();
        f.pad(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn overflow_is_refused() {
        assert!("7ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<Ulid>().is_ok());
        assert!("80000000000000000000000000".parse::<Ulid>().is_err());
    }

    proptest! {
        #[test]
        fn text_round_trips(value: u128) {
            let key = Ulid::from(Uuid::from_u128(value));
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Ulid>();
        }
    }
}
