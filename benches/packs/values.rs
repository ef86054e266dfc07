//! The bytes of values in a column, without a server: encrypted columns, and what applications write without them.

use opaque_id_packs::format::{Codec, Dictionary, GroupKeys, PackCipher, Padding, Row};
use opaque_id_tests::Result;

use crate::report::{DICTIONARY, ENCRYPTED, Report, Turn};
use crate::table::Set;

/// The nonce and the tag of AES-256-GCM.
const GCM: usize = 12 + 16;

/// Trains a dictionary of this size from the first rows.
pub(crate) fn trained(set: &Set, size: usize) -> Result<Dictionary> {
    let mut bytes = 0;
    let samples = set.values[..set.len() / 5].iter().rev().take_while(|row| {
        bytes += row.len();
        // As `PackTable::train`.
        bytes < size * 100
    });
    let samples: Vec<_> = samples.collect();
    Ok(Dictionary::new(1, zstd::dict::from_samples(&samples, size)?))
}

/// Adds the bytes of the rows that have not trained the dictionary, as they would be in a column.
pub(crate) fn values(set: &Set, dictionary: usize, report: &mut Report) -> Result {
    let values = &set.values[set.len() / 5..];
    let encrypted = |codec: &Codec| -> Result<usize> {
        let len = |value: &Vec<u8>| {
            // The level and the padding that `EncryptedColumn` has by default.
            let row = Row::Value(value.clone().into());
            let plaintext = row.encode(codec, Padding::Steps(64), &GroupKeys::default())?;
            Ok(plaintext.len() + PackCipher::OVERHEAD)
        };
        values.iter().map(len).sum()
    };
    let base64 = values.iter().map(|value| (value.len() + GCM).div_ceil(3) * 4).sum::<usize>();
    let cases = [
        ("values", values.iter().map(Vec::len).sum()),
        ("base64 of AES-GCM", base64),
        (ENCRYPTED, encrypted(&Codec::new(3, None)?)?),
        (DICTIONARY, encrypted(&Codec::new(3, Some(trained(set, dictionary)?))?)?),
    ];
    report.begin(&format!("{}: MB of {} values in a column", set.name, values.len()));
    let cases = cases.map(|(name, bytes)| (name, vec![Turn::of(bytes as f64 / 1e6)]));
    report.add(&format!("values {}", set.name), 1, &cases)
}
