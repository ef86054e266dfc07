//! The uuid form. `docs/FORMAT.md` specifies it.
//!
//! Text is parsed into registers, because reading back stored bytes as one word stalls the CPU.

use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::mapped::MappedUuid;
use super::{AuthenticatedFormOf, Form, FormOf, MAX_BYTES_LEN, SealedFormOf, TextBuffer};
use crate::error::{IdProblem, Invalid, KeyProblem};
use crate::hazmat::{Arbitrary, HALF_BITS, Halves, Nonce, Uniform};
use crate::key::{FixedBits, Key, Repr, StructuredKey, Uuid7};
use crate::key_id::KeyId;
use crate::private::Private;
use crate::rfc9562::{V7, V8, VERSION_AND_VARIANT, gather, scatter};
use crate::subkeys::Subkeys;

/// A valid UUIDv8 (RFC 9562, section 5.8) without a prefix. It accepts [`Uuid7`], [`StructuredKey`] and
/// integers below 2^60.
#[derive(Clone, Copy, Debug)]
pub enum UuidForm {}

impl Private for UuidForm {}

impl Form for UuidForm {
    const NAME: &'static str = "uuid";

    type Body = Uuid;

    #[inline]
    fn write<'b>(prefix: &str, uuid: Uuid, buffer: &'b mut TextBuffer) -> &'b str {
        MappedUuid::write(prefix, uuid, buffer)
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<Uuid, Invalid> {
        MappedUuid::parse(prefix, text).and_then(version_8)
    }

    fn write_bytes(uuid: Uuid, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        MappedUuid::write_bytes(uuid, buffer)
    }

    fn parse_bytes(bytes: &[u8]) -> Result<Uuid, Invalid> {
        MappedUuid::parse_bytes(bytes).and_then(version_8)
    }

    fn pattern(_prefix: &str) -> String {
        "^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$".into()
    }
}

#[diagnostic::on_unimplemented(
    message = "the key `{Self}` has no uuid form",
    label = "no uuid form",
    note = "uuid accepts `Uuid7`, `StructuredKey` and integers; text accepts every key"
)]
trait InHalves: Key {
    type Nonce: Nonce;

    fn check_fits(_repr: Self::Repr) -> Result<(), Invalid> {
        Ok(())
    }
    fn to_halves(repr: Self::Repr, tag: u64) -> Halves<Self::Nonce>;
    fn from_halves(halves: Halves<Self::Nonce>, tag: u64) -> Option<Self::Repr>;
    fn encrypt(keys: &Subkeys, halves: Halves<Self::Nonce>) -> Halves<Self::Nonce>;
    fn decrypt(keys: &Subkeys, halves: Halves<Self::Nonce>) -> Halves<Self::Nonce>;
}

impl InHalves for Uuid7 {
    type Nonce = Arbitrary;

    #[inline]
    fn check_fits(repr: Uuid) -> Result<(), Invalid> {
        if repr.as_u128() >> 126 == 0 {
            Ok(())
        } else {
            Err(KeyProblem::OutOfRange("the uuid form needs a time before the year 4199").into())
        }
    }

    #[inline]
    fn to_halves(repr: Uuid, _tag: u64) -> Halves<Arbitrary> {
        split(gather(repr.as_u128()))
    }

    #[inline]
    fn from_halves(halves: Halves<Arbitrary>, _tag: u64) -> Option<Uuid> {
        Some(Uuid::from_u128(scatter(join(halves), V7)))
    }

    #[inline]
    fn encrypt(keys: &Subkeys, halves: Halves<Arbitrary>) -> Halves<Arbitrary> {
        keys.four_rounds.encrypt(halves)
    }

    #[inline]
    fn decrypt(keys: &Subkeys, halves: Halves<Arbitrary>) -> Halves<Arbitrary> {
        keys.four_rounds.decrypt(halves)
    }
}

impl InHalves for StructuredKey {
    type Nonce = Uniform;

    #[inline]
    fn to_halves(repr: Uuid, _tag: u64) -> Halves<Uniform> {
        let (sequence, nonce) = repr.as_u64_pair();
        Halves::masked(sequence, nonce)
    }

    #[inline]
    fn from_halves(halves: Halves<Uniform>, _tag: u64) -> Option<Uuid> {
        Some(Uuid::from_u64_pair(halves.hi(), halves.lo()))
    }

    #[inline]
    fn encrypt(keys: &Subkeys, halves: Halves<Uniform>) -> Halves<Uniform> {
        keys.two_rounds.encrypt(halves)
    }

    #[inline]
    fn decrypt(keys: &Subkeys, halves: Halves<Uniform>) -> Halves<Uniform> {
        keys.two_rounds.decrypt(halves)
    }
}

macro_rules! form_of_halves {
    ($($key:ty: $fixed:expr;)*) => {$(
        impl FormOf<$key> for UuidForm {
            #[inline]
            fn check(repr: <$key as Key>::Repr) -> Result<(), Invalid> {
                <$key>::check(repr)?;
                <$key>::check_fits(repr)
            }

            fn example(keys: &Subkeys, key_id: KeyId) -> Uuid {
                <Self as SealedFormOf<$key>>::seal(keys, key_id, <$key>::EXAMPLE)
            }

            const FIXED: FixedBits<<$key as Key>::Repr> = $fixed;
        }
    )*};
}

form_of_halves! {
    Uuid7: FixedBits::new(3 << 126 | VERSION_AND_VARIANT, V7);
    StructuredKey: <StructuredKey as Key>::FIXED;
    i64: FixedBits { mask: !0 << HALF_BITS, value: 0 };
    i32: FixedBits { mask: i32::MIN, value: 0 };
    u32: FixedBits { mask: 0, value: 0 };
}

macro_rules! integer_in_halves {
    ($($integer:ty)*) => {$(
        impl InHalves for $integer {
            type Nonce = Arbitrary;

            #[inline]
            fn check_fits(repr: Self) -> Result<(), Invalid> {
                if i64::from(repr).cast_unsigned() >> HALF_BITS == 0 {
                    Ok(())
                } else {
                    Err(KeyProblem::OutOfRange("the uuid form needs an integer from 0 to 2^60 - 1")
                        .into())
                }
            }

            #[inline]
            fn to_halves(repr: Self, tag: u64) -> Halves<Arbitrary> {
                Halves::masked(i64::from(repr).cast_unsigned(), tag)
            }

            #[inline]
            fn from_halves(halves: Halves<Arbitrary>, tag: u64) -> Option<Self> {
                let tag = Halves::<Arbitrary>::masked(0, tag).lo();
                bool::from(halves.lo().ct_eq(&tag))
                    .then_some(halves.hi().cast_signed())
                    .and_then(Self::from_integer)
            }

            #[inline]
            fn encrypt(keys: &Subkeys, halves: Halves<Arbitrary>) -> Halves<Arbitrary> {
                keys.six_rounds.encrypt(halves)
            }

            #[inline]
            fn decrypt(keys: &Subkeys, halves: Halves<Arbitrary>) -> Halves<Arbitrary> {
                keys.six_rounds.decrypt(halves)
            }
        }

        impl AuthenticatedFormOf<$integer> for UuidForm {}
    )*};
}

integer_in_halves! { i64 i32 u32 }

impl<K: InHalves> SealedFormOf<K> for UuidForm
where
    Self: FormOf<K>,
{
    const TAG_BITS: u32 = if K::Repr::TAG_BITS == 0 { 0 } else { HALF_BITS };

    #[inline]
    fn key_id(uuid: Uuid) -> KeyId {
        KeyId::truncated((uuid.as_u128() >> 126) as u8)
    }

    #[inline]
    fn seal(keys: &Subkeys, key_id: KeyId, repr: K::Repr) -> Uuid {
        let ciphertext = join(K::encrypt(keys, K::to_halves(repr, keys.tag)));
        let bits = u128::from(key_id.get()) << (2 * HALF_BITS) | ciphertext;
        Uuid::from_u128(scatter(bits, V8))
    }

    #[inline]
    fn open(keys: &Subkeys, uuid: Uuid) -> Option<K::Repr> {
        let halves = K::decrypt(keys, split(gather(uuid.as_u128())));
        keys.admit(K::from_halves(halves, keys.tag)?, K::EXAMPLE)
    }
}

#[inline]
fn join<N: Nonce>(halves: Halves<N>) -> u128 {
    u128::from(halves.hi()) << HALF_BITS | u128::from(halves.lo())
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the low 60 bits are needed")]
fn split<N: Nonce>(bits: u128) -> Halves<N> {
    Halves::masked((bits >> HALF_BITS) as u64, bits as u64)
}

#[inline]
pub(crate) fn version_8(uuid: Uuid) -> Result<Uuid, Invalid> {
    if uuid.as_u128() & VERSION_AND_VARIANT == V8 {
        Ok(uuid)
    } else {
        Err(IdProblem::NotVersion8.into())
    }
}
