//! Crockford's base32 in lower case, by table and without branches on the data.
//!
//! Ids consist of 10-bit groups, most significant first, so they have no padding. Tokens have any number of
//! bytes, and the bits after the last byte are zero.
#![expect(clippy::cast_possible_truncation, reason = "numbers are taken apart into bits")]

pub(crate) const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

const WORD_CHARS: usize = 12;

static PAIRS: [u16; 1024] = {
    let mut pairs = [0; 1024];
    let mut group = 0;
    while group < pairs.len() {
        pairs[group] = u16::from_le_bytes([ALPHABET[group >> 5], ALPHABET[group & 31]]);
        group += 1;
    }
    pairs
};

/// The values of a character as the first and as the second of a pair.
type Values = [[u16; 256]; 2];

static VALUES: Values = values(5);
/// The first sixteen digits of base32 are hexadecimal.
static HEX_VALUES: Values = values(4);

const fn values(bits: u32) -> Values {
    let mut values = [[INVALID; 256]; 2];
    let mut value = 0;
    while value < 1 << bits {
        let character = ALPHABET[value as usize] as usize;
        values[0][character] = value << bits;
        values[1][character] = value;
        value += 1;
    }
    values
}

/// A bit that is set in no value.
const INVALID: u16 = 0x8000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidCharacter;

pub(crate) fn is_valid(character: u8) -> bool {
    VALUES[1][usize::from(character)] != INVALID
}

/// They stay in a register, because reading back stored bytes as one word stalls the CPU.
#[inline]
fn encode_groups<const N: usize>(word: u64) -> u64 {
    const { assert!(N <= 4) }
    (0..N).fold(0, |text, i| {
        let group = word >> (10 * (N - 1 - i)) & 0x3ff;
        text | u64::from(PAIRS[group as usize]) << (16 * i)
    })
}

#[inline]
fn encode_word(word: u64, text: &mut [u8; WORD_CHARS]) {
    text[..8].copy_from_slice(&encode_groups::<4>(word >> 20).to_le_bytes());
    text[8..].copy_from_slice(&(encode_groups::<2>(word) as u32).to_le_bytes());
}

/// The second result has the bit [`INVALID`] if a character is outside the alphabet.
///
/// Inlined, it would keep the values of all characters until all are checked.
#[inline(never)]
fn decode_word<const N: usize>(text: &[u8; N]) -> (u64, u16) {
    decode_pairs::<5, N>(&VALUES, text)
}

#[inline(always)]
fn decode_pairs<const BITS: u32, const N: usize>(values: &Values, text: &[u8; N]) -> (u64, u16) {
    const { assert!(N.is_multiple_of(2) && N <= WORD_CHARS) }
    let (pairs, _) = text.as_chunks();
    pairs.iter().fold((0, 0), |(word, seen), [first, second]| {
        let pair = values[0][usize::from(*first)] | values[1][usize::from(*second)];
        (word << (2 * BITS) | u64::from(pair), seen | pair)
    })
}

#[inline]
pub(crate) fn encode_130(top: u8, block: u128, text: &mut [u8; 26]) {
    let (head, words) = text.split_first_chunk_mut::<2>().expect("26 characters");
    let (middle, tail) = words.split_first_chunk_mut().expect("24 characters");
    let tail = tail.first_chunk_mut().expect("12 characters");
    *head = PAIRS[usize::from(top & 3) << 8 | (block >> 120) as usize].to_le_bytes();
    encode_word((block >> 60) as u64, middle);
    encode_word(block as u64, tail);
}

#[inline]
pub(crate) fn decode_130(text: &[u8; 26]) -> Result<(u8, u128), InvalidCharacter> {
    let (head, words) = text.split_first_chunk::<2>().expect("26 characters");
    let (middle, tail) = words.split_first_chunk::<WORD_CHARS>().expect("24 characters");
    let tail = tail.first_chunk::<WORD_CHARS>().expect("12 characters");
    let (head, seen_head) = decode_word(head);
    let (middle, seen_middle) = decode_word(middle);
    let (tail, seen_tail) = decode_word(tail);
    if (seen_head | seen_middle | seen_tail) & INVALID != 0 {
        return Err(InvalidCharacter);
    }
    let block = u128::from(head) << 120 | u128::from(middle) << 60 | u128::from(tail);
    Ok(((head >> 8) as u8, block))
}

#[inline]
pub(crate) fn encode_65(number: u64, text: &mut [u8; 13]) {
    let (head, tail) = text.split_first_mut().expect("13 characters");
    *head = ALPHABET[(number >> 60) as usize];
    encode_word(number, tail.first_chunk_mut().expect("12 characters"));
}

/// Returns `None` if the first bit is not zero.
#[inline]
pub(crate) fn decode_65(text: &[u8; 13]) -> Result<Option<u64>, InvalidCharacter> {
    let (head, tail) = text.split_first().expect("13 characters");
    let head = VALUES[1][usize::from(*head)];
    let (tail, seen) = decode_word::<WORD_CHARS>(tail.first_chunk().expect("12 characters"));
    match (head | seen) & INVALID {
        0 => Ok((head < 16).then_some(u64::from(head) << 60 | tail)),
        _ => Err(InvalidCharacter),
    }
}

#[inline(never)]
pub(crate) fn decode_hex<const N: usize>(text: &[u8; N]) -> Result<u64, InvalidCharacter> {
    match decode_pairs::<4, N>(&HEX_VALUES, text) {
        (number, seen) if seen & INVALID == 0 => Ok(number),
        _ => Err(InvalidCharacter),
    }
}

#[inline]
pub(crate) fn encode_40(number: u64, text: &mut [u8; 8]) {
    *text = encode_groups::<4>(number).to_le_bytes();
}

#[inline]
pub(crate) fn decode_40(text: &[u8; 8]) -> Result<u64, InvalidCharacter> {
    match decode_word(text) {
        (number, seen) if seen & INVALID == 0 => Ok(number),
        _ => Err(InvalidCharacter),
    }
}
