//! A check of responses in tests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Checks a header or the body of a response in a test.
///
/// # Panics
/// If it has a UUIDv7, a ULID, or one of the values as a whole word. A text of 26 or 32 characters counts
/// only if its time is between 2010 and tomorrow.
pub fn assert_no_raw_id(text: &[u8], values: &[String]) {
    let is_alphanumeric =
        |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    let starts = (0..text.len()).filter(|at| !is_alphanumeric(at.checked_sub(1)));
    for (at, rest) in starts.map(|at| (at, &text[at..])) {
        // After an underscore, 26 characters belong to an external id.
        let is_in_id = at.checked_sub(1).is_some_and(|before| text[before] == b'_');
        let is_raw = |len| match len {
            26 => !is_in_id && is_ulid(&rest[..len]),
            _ => is_uuid7(&rest[..len]),
        };
        let mut lens = [36, 32, 26].into_iter().filter(|len| *len <= rest.len() && is_raw(*len));
        let values = values.iter().filter(|it| !it.is_empty() && rest.starts_with(it.as_bytes()));
        let found =
            values.map(String::len).chain(&mut lens).find(|len| !is_alphanumeric(Some(at + len)));
        if let Some(len) = found {
            let found = String::from_utf8_lossy(&rest[..len]);
            panic!("a response has the internal value `{found}`: show an external id instead");
        }
    }
}

fn is_uuid7(text: &[u8]) -> bool {
    let has_hyphens = text.len() == 36;
    let is_hyphen = |at| has_hyphens && [8, 13, 18, 23].contains(&at);
    let in_form = text.iter().enumerate().all(|(at, byte)| (*byte == b'-') == is_hyphen(at));
    let digits = text.iter().copied().filter(|byte| *byte != b'-');
    let uuid = number(digits, b"0123456789abcdef").filter(|_| in_form);
    uuid.is_some_and(|uuid| {
        (uuid >> 76) & 0xf == 7 && (uuid >> 62) & 3 == 2 && (has_hyphens || is_recent(uuid >> 80))
    })
}

fn is_ulid(text: &[u8]) -> bool {
    let ulid = number(text.iter().copied(), b"0123456789abcdefghjkmnpqrstvwxyz");
    text[0] <= b'7' && ulid.is_some_and(|ulid| is_recent(ulid >> 80))
}

fn number(mut digits: impl Iterator<Item = u8>, alphabet: &[u8]) -> Option<u128> {
    digits.try_fold(0_u128, |number, digit| {
        let digit = alphabet.iter().position(|it| *it == digit.to_ascii_lowercase())?;
        let base = u128::try_from(alphabet.len()).ok()?;
        Some(number.wrapping_mul(base) + u128::try_from(digit).ok()?)
    })
}

fn is_recent(millis: u128) -> bool {
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    let tomorrow = tomorrow.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    (1_262_304_000_000..tomorrow).contains(&millis)
}
