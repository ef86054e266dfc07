use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use opaque_id_core::key::Repr;

use crate::id_column::IdColumn;

/// The order in which a table keeps its rows.
///
/// Only [`ByKey`] and [`ByEncryptedKey`] implement it.
pub trait Order: private::Order {}

/// Rows are kept in the order of their keys. The database sees the keys, neighbors in time are neighbors in a
/// pack, and there are ranges.
#[derive(Clone, Copy, Debug)]
pub enum ByKey {}

/// Rows are kept under the AES-128 block of their key (MiniCrypt, section 2.5). The database learns neither
/// keys nor times, and there are no ranges. The cipher's random key is stored in the table, encrypted.
#[derive(Clone, Copy, Debug)]
pub enum ByEncryptedKey {}

/// An order that has ranges: [`ByKey`].
#[diagnostic::on_unimplemented(
    message = "a table of packs by encrypted key has no ranges",
    label = "rows are not in the order of their ids",
    note = "`scan` returns the pages of all rows, and `get_all` the rows of a list of ids",
    note = "for ranges, use a table whose type has the order `ByKey`"
)]
pub trait KeyOrder: Order {}

impl KeyOrder for ByKey {}

impl Order for ByKey {}
impl Order for ByEncryptedKey {}

pub(crate) mod private {
    /// The private half of [`Order`](crate::order::Order).
    pub trait Order: Send + Sync + 'static {
        const HIDES_KEYS: bool;
    }

    impl Order for crate::order::ByKey {
        const HIDES_KEYS: bool = false;
    }

    impl Order for crate::order::ByEncryptedKey {
        const HIDES_KEYS: bool = true;
    }
}

pub(crate) fn id_column<R: Repr>(hides_keys: bool) -> IdColumn {
    // Integers have room for a tag in a block, and UUIDs do not.
    match R::TAG_BITS > 0 && !hides_keys {
        true => IdColumn::Integer,
        false => IdColumn::Uuid,
    }
}

/// The database orders negative integers before 0.
const SIGN: u128 = 1 << 63;

/// In the database's order: the 16 bytes of a key, or an integer plus 2^63.
pub(crate) fn number<R: Repr>(key: R) -> u128 {
    let block = key.to_plaintext(0);
    match R::TAG_BITS > 0 {
        true => (block >> 64) ^ SIGN,
        false => block,
    }
}

pub(crate) fn key<R: Repr>(number: u128) -> Option<R> {
    let block = match R::TAG_BITS > 0 {
        true if number > u64::MAX.into() => return None,
        true => (number ^ SIGN) << 64,
        false => number,
    };
    R::from_plaintext(block, 0)
}

/// Returns hexadecimal digits. A [`Permutation`] needs 16 bytes.
pub(crate) fn random_key(bytes: usize) -> String {
    let mut key = vec![0; bytes];
    getrandom::fill(&mut key).expect("the operating system has randomness");
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) struct Permutation(Aes128);

impl Permutation {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Self(Aes128::new(key.into()))
    }

    pub(crate) fn place(&self, number: u128) -> u128 {
        let mut block = number.to_be_bytes().into();
        self.0.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }

    pub(crate) fn number(&self, place: u128) -> u128 {
        let mut block = place.to_be_bytes().into();
        self.0.decrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }
}
