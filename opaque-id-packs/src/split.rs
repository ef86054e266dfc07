//! The division of rows into packs of the table's size.

use crate::error::TableError;
use crate::format::{Codec, FormatError, Kind, Pack, PackCipher, Plaintext, Value};
use crate::stored::StoredRow;
use crate::table::{View, next_version};

/// A pack is full within this percentage of its size.
const FULL: usize = 95;

const TRIES: usize = 2;

/// The assumed ratio of compression until some rows are compressed. If the guess is wrong, so many times the
/// size of a pack is compressed in vain.
const ASSUMED_RATIO: usize = 8;

/// Encrypts a pack, or its parts if it is too large. The first part has the pack's id and the version after
/// `version`. The others' ids are their first keys.
///
/// The last pack of a table is filled from the left, because rows are appended to it. Others become equal
/// parts with spare room.
pub(crate) fn encrypt(
    view: &View<'_>,
    version: i64,
    pack: Pack,
) -> Result<Vec<StoredRow>, TableError> {
    let limit = view.state.contents.settings.pack_bytes as usize - PackCipher::OVERHEAD;
    let Pack { mut id, end, mut rows } = pack;
    let (codec, capacity) = (view.state.pack_codec(), limit * ASSUMED_RATIO);
    let mut split = Split { view, codec, limit, end, capacity };
    let mut parts = None;
    let mut packs = Vec::new();
    let mut before = Some(version);
    loop {
        let (count, plaintext) = match end {
            None => split.fill(id, &mut rows)?,
            Some(_) => split.part(id, &mut rows, &mut parts)?,
        };
        let version = next_version(before.take().unwrap_or(0));
        packs.push(view.encrypt_pack(codec, (id, version), &plaintext));
        rows.drain(..count);
        match rows.first() {
            Some((next, _)) => id = *next,
            None => return Ok(packs),
        }
    }
}

type Rows = Vec<(u128, Value)>;

struct Split<'s> {
    view: &'s View<'s>,
    codec: &'s Codec,
    limit: usize,
    end: Option<u128>,
    /// Measured on the last compressed rows.
    capacity: usize,
}

fn bytes(rows: &[(u128, Value)]) -> usize {
    rows.iter().map(|(_, value)| value.len()).sum()
}

/// Returns at least one row if there are any.
fn count_of(rows: &[(u128, Value)], bytes: usize) -> usize {
    let mut sum = 0;
    let within = rows.iter().take_while(|(_, value)| {
        sum += value.len();
        sum <= bytes
    });
    within.count().max(1).min(rows.len())
}

impl Split<'_> {
    /// Returns the plaintext if it is short enough for one pack.
    fn encode(
        &mut self,
        id: u128,
        rows: &mut Rows,
        count: usize,
    ) -> Result<Option<Plaintext>, TableError> {
        let rest = rows.split_off(count);
        let end = rest.first().map_or(self.end, |(key, _)| Some(*key));
        let pack = Pack { id, end, rows: std::mem::take(rows) };
        let padding = self.view.state.contents.settings.pack_padding;
        let encoded = pack.encode(self.codec, padding, self.view.groups);
        *rows = pack.rows;
        let (len, bytes) = (encoded.as_ref().map_or(self.limit * 2, |it| it.len()), bytes(rows));
        self.capacity = (bytes * self.limit / len.max(1)).max(1);
        let plaintext = match encoded {
            Ok(plaintext) if plaintext.len() <= self.limit || count <= 1 => Some(plaintext),
            Ok(_) => None,
            Err(FormatError::TooLong { .. }) if count > 1 => None,
            Err(source) => return Err(self.view.table.unwritable(Kind::Pack, id, source)),
        };
        rows.extend(rest);
        Ok(plaintext)
    }

    fn fill(&mut self, id: u128, rows: &mut Rows) -> Result<(usize, Plaintext), TableError> {
        let (mut best, mut too_many, mut tries, mut percent) = (None, rows.len() + 2, 0, 98);
        loop {
            let fits = best.as_ref().map_or(0, |(count, _)| *count);
            let is_last = fits + 1 >= too_many || tries >= TRIES;
            if let Some(best) = best.take_if(|_| is_last) {
                return Ok(best);
            }
            let count = count_of(rows, self.capacity * percent / 100);
            let count = count.clamp(fits + 1, too_many - 1).min(rows.len());
            match self.encode(id, rows, count)? {
                Some(plaintext)
                    if count == rows.len() || plaintext.len() * 100 >= self.limit * FULL =>
                {
                    return Ok((count, plaintext));
                }
                Some(plaintext) => best = Some((count, plaintext)),
                None => {
                    too_many = count;
                    percent = percent * 9 / 10;
                }
            }
            tries += 1;
        }
    }

    /// Returns a pack with an equal part of the remaining rows, if they are known to be too many for one
    /// pack.
    fn part(
        &mut self,
        id: u128,
        rows: &mut Rows,
        parts: &mut Option<usize>,
    ) -> Result<(usize, Plaintext), TableError> {
        let all = bytes(rows);
        let mut count = match parts {
            None => count_of(rows, self.capacity),
            Some(parts) => count_of(rows, all.div_ceil(*parts)),
        };
        loop {
            let plaintext = self.encode(id, rows, count)?;
            if let Some(plaintext) = plaintext {
                *parts = parts.map(|parts| (parts - 1).max(1));
                return Ok((count, plaintext));
            }
            let more = match parts {
                Some(parts) => *parts + 1,
                // A quarter of each pack stays free.
                None => (all * 4).div_ceil(self.capacity * 3).max(2),
            };
            *parts = Some(more);
            count = count_of(rows, all.div_ceil(more)).min(count - 1);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use opaque_id_core::{Keyring, MasterSecret};

    use super::*;
    use crate::format::{COMPRESSED, GroupKeys};
    use crate::id_column::IdColumn;
    use crate::settings::{Settings, TableMetadata};
    use crate::table::{Context, Table};

    pub(crate) fn open(settings: Settings) -> Table {
        let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build();
        let keyring = keyring.expect("a keyring").into();
        let name = "events".into();
        let table = Table::new(keyring, "event", name, IdColumn::Integer, None).expect("a table");
        let contents = TableMetadata::new(settings, "raw", false, false);
        let stored = table.encrypt_settings(1, &contents).expect("settings");
        assert!(table.learn(Context::outside(), vec![(0, stored)]).expect("settings"));
        table
    }

    pub(crate) fn value(number: u128) -> Vec<u8> {
        let field = |i: u128| {
            let hash =
                (number * 31 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            format!(r#""field {i}":"{:09x} of the same words""#, hash >> 92)
        };
        let fields: Vec<_> = (0..18).map(field).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    }

    fn noise(number: u128) -> Vec<u8> {
        let mut bytes = vec![0; 100 + usize::try_from(number % 700).expect("small")];
        getrandom::fill(&mut bytes).expect("randomness");
        bytes
    }

    #[test]
    fn packs_are_full_and_little_is_compressed_for_them() {
        let mixed = |number: u128| match number % 50 {
            0..20 => noise(number),
            _ => value(number),
        };
        let values: [&dyn Fn(u128) -> Vec<u8>; 3] = [&value, &noise, &mixed];
        for (kind, value) in values.into_iter().enumerate() {
            for (pack_bytes, count) in [1_900, 15_960, 1 << 20]
                .into_iter()
                .flat_map(|size| [0, 1, 9, 50, 300].map(|it| (size, it)))
            {
                for end in [None, Some(1 << 60)] {
                    let table = open(Settings::default().pack_bytes(pack_bytes).pack_level(1));
                    let groups = GroupKeys::default();
                    let view = table.view(Context::outside(), &groups).expect("open");
                    let rows: Rows = (0..count).map(|i| (i * 1_000, value(i).into())).collect();
                    let all = bytes(&rows);
                    let before = COMPRESSED.get();
                    let packs = encrypt(&view, 1, Pack { id: 0, end, rows }).expect("packs");
                    let compressed = COMPRESSED.get() - before;
                    let case =
                        format!("values {kind}, packs of {pack_bytes}, {count} rows, {end:?}");
                    assert!(compressed <= 3 * all, "{case}: {compressed} of {all}");
                    let full = |pack: &StoredRow| pack.body.len() as f64 / f64::from(pack_bytes);
                    assert!(packs.iter().all(|pack| full(pack) <= 1.0), "{case}");
                    let mean = packs.iter().map(full).sum::<f64>() / packs.len() as f64;
                    let expected = match (kind, end) {
                        _ if packs.len() < 5 => 0.0,
                        (2, _) => 0.3,
                        (_, None) => 0.75,
                        (_, Some(_)) => 0.6,
                    };
                    assert!(mean > expected, "{case}: {mean}");
                }
            }
        }
    }
}
