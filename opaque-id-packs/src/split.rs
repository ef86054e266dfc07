//! How rows become packs of the table's size.

use crate::error::Problem;
use crate::format::{FormatError, GroupKeys, Kind, Pack, PackCipher, Plaintext, Value};
use crate::statement::Stored;
use crate::table::{State, Table, next_version};

/// Plaintext that is within this percentage of a pack's size fills it.
const FULL: usize = 95;

/// How often the size of a pack is guessed.
const GUESSES: usize = 5;

/// Encrypts a pack, or the packs that it becomes if it is too large. The first one has the pack's id and the version after
/// `version`; the ids of the others are their first keys.
///
/// The last pack of a table is filled from the left, since rows are appended to it. Others are halved, so that each half has room.
pub(crate) fn encrypt(
    table: &Table,
    state: &State,
    version: i64,
    pack: Pack,
    groups: &GroupKeys,
) -> Result<Vec<Stored>, Problem> {
    let sizes = Sizes {
        table,
        state,
        groups,
        limit: state.contents.settings.pack_bytes as usize - PackCipher::OVERHEAD,
    };
    let Pack { id, end, mut rows } = pack;
    let mut parts = Vec::new();
    match end {
        None => sizes.fill(id, &mut rows, &mut parts)?,
        Some(_) => sizes.halve(id, end, rows, &mut parts)?,
    }
    let mut before = Some(version);
    let seal = |(id, plaintext): (u128, Plaintext)| {
        let version = next_version(before.take().unwrap_or(0));
        table.encrypt_pack(state, id, version, &plaintext)
    };
    Ok(parts.into_iter().map(seal).collect())
}

type Rows = Vec<(u128, Value)>;

struct Sizes<'t> {
    table: &'t Table,
    state: &'t State,
    groups: &'t GroupKeys,
    /// The longest plaintext.
    limit: usize,
}

impl Sizes<'_> {
    /// Encodes rows, if they are not too long for one pack.
    fn encode(
        &self,
        id: u128,
        end: Option<u128>,
        rows: Rows,
    ) -> Result<(Option<Plaintext>, Rows), Problem> {
        let is_one = rows.len() <= 1;
        let pack = Pack { id, end, rows };
        let padding = self.state.contents.settings.pack_padding;
        let encoded = pack.encode(&self.state.pack_codec, padding, self.groups);
        let plaintext = match encoded {
            Ok(plaintext) if plaintext.len() <= self.limit => Some(plaintext),
            Ok(plaintext) if is_one => {
                let key = pack.rows.first().map_or(id, |(key, _)| *key);
                self.table.check_len(Kind::Row, key, plaintext.len())?;
                Some(plaintext)
            }
            Ok(_) => None,
            Err(FormatError::TooLong { .. }) if !is_one => None,
            Err(source) => return Err(self.table.unwritable(Kind::Pack, id, source)),
        };
        Ok((plaintext, pack.rows))
    }

    fn halve(
        &self,
        id: u128,
        end: Option<u128>,
        rows: Rows,
        parts: &mut Vec<(u128, Plaintext)>,
    ) -> Result<(), Problem> {
        let (plaintext, mut rows) = self.encode(id, end, rows)?;
        if let Some(plaintext) = plaintext {
            parts.push((id, plaintext));
            return Ok(());
        }
        let right = rows.split_off(rows.len() / 2);
        let middle = right[0].0;
        self.halve(id, Some(middle), rows, parts)?;
        self.halve(middle, end, right, parts)
    }

    fn fill(
        &self,
        id: u128,
        rows: &mut Rows,
        parts: &mut Vec<(u128, Plaintext)>,
    ) -> Result<(), Problem> {
        let mut id = id;
        let mut guess = rows.len();
        loop {
            let (mut fits, mut too_many) = (0, rows.len() + 1);
            let mut best = None;
            for round in 0.. {
                let rest = rows.split_off(guess);
                let end = rest.first().map(|(key, _)| *key);
                let len = match self.encode(id, end, std::mem::take(rows))? {
                    (Some(plaintext), tried) => {
                        *rows = tried;
                        let len = plaintext.len();
                        best = Some((guess, plaintext));
                        fits = guess;
                        len
                    }
                    (None, tried) => {
                        *rows = tried;
                        too_many = guess;
                        0
                    }
                };
                rows.extend(rest);
                let is_full =
                    best.is_some() && (fits == rows.len() || len * 100 >= self.limit * FULL);
                if is_full || too_many - fits <= 1 || (best.is_some() && round >= GUESSES) {
                    break;
                }
                let estimate = match len {
                    0 => guess / 2,
                    len => guess * self.limit * 98 / 100 / len,
                };
                guess = estimate.clamp(fits + 1, too_many - 1);
            }
            let Some((count, plaintext)) = best else { unreachable!("one row always fits") };
            parts.push((id, plaintext));
            let rest = rows.split_off(count);
            let Some((next, _)) = rest.first() else {
                return Ok(());
            };
            id = *next;
            *rows = rest;
            guess = count.min(rows.len());
        }
    }
}
