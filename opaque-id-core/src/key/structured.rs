//! Structured keys: a sequence and a nonce of 60 bits each.

use uuid::Uuid;

use super::{FixedBits, Key, key_of_uuid, round_up, stored_as_uuid};
use crate::error::{Invalid, KeyProblem};
use crate::private::Private;
use crate::random::{Random, SystemRandom};

/// A structured key: a 64-bit sequence number below 2^60, then a random 64-bit nonce below 2^60, in 16
/// big-endian bytes (Khuong 2022).
///
/// Rows sort by sequence. The nonce must be uniform, so generate keys only with
/// [`with_sequence`](Self::with_sequence), [`Generate`](crate::generator::Generate) or
/// [`Shards`](crate::layout::Shards). This is a raw key: it reveals its sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StructuredKey(Uuid);

const NONCE_BITS: u32 = 60;

const SPARE: u128 = 0xf000_0000_0000_0000_f000_0000_0000_0000;

impl StructuredKey {
    /// Generates a key with a sequence number of the application or the database, and a new nonce.
    ///
    /// # Errors
    /// [`Invalid`] if the sequence is 2^60 or more.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    pub fn with_sequence(sequence: u64) -> Result<Self, Invalid> {
        Self::from_parts(sequence, SystemRandom.next_u64())
    }

    pub(crate) fn from_parts(sequence: u64, nonce: u64) -> Result<Self, Invalid> {
        let nonce = nonce >> (u64::BITS - NONCE_BITS);
        Self::try_from(Uuid::from_u64_pair(sequence, nonce))
    }

    /// Returns the sequence number, below 2^60.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.0.as_u64_pair().0
    }
}

impl Private for StructuredKey {}
key_of_uuid!(StructuredKey, checked, shown);

impl Key for StructuredKey {
    stored_as_uuid!();

    const KIND: &'static str = "structured key";
    const KIND_NUMBER: usize = 3;

    #[inline]
    fn check(repr: Uuid) -> Result<(), Invalid> {
        if repr.as_u128() & SPARE == 0 {
            Ok(())
        } else {
            Err(KeyProblem::OutOfRange("the sequence and the nonce must be below 2^60").into())
        }
    }

    fn rounded_up(repr: Uuid) -> Uuid {
        let sequence = round_up(repr.as_u64_pair().0);
        Uuid::from_u64_pair(sequence, u64::MAX >> (u64::BITS - NONCE_BITS))
    }

    const FIXED: FixedBits<Uuid> = FixedBits::new(SPARE, 0);
    const EXAMPLE: Uuid = Uuid::from_u64_pair(1, 0x0b1e_55ed_c0ff_ee00);
}
