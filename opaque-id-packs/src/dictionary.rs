//! Trains dictionaries.
//!
//! A dictionary outlives its rows, and all groups are compressed with it. So a dictionary from rows of groups
//! contains only texts that many groups share. Each text as a whole is shared, not only its parts: "Ada
//! Byron, diabetes" may belong to one person even if many share the name and many the illness.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::error::TableError;
use crate::format::{Codec, Dictionary, Value};

/// The number of groups that must share each text.
const GROUPS: usize = 20;

/// Texts of fewer bytes reveal nothing about a group and are seldom worth a reference.
const SHORTEST: usize = 8;

/// A shared text of more bytes becomes several.
const LONGEST: usize = 128;

const SMALLEST: usize = 256;

/// The header that zstd writes before the texts ends with the first three offsets of repeated matches.
const HEADER_END: [u8; 12] = [1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0];

/// The number of passes that replace pieces of the dictionary. Random bytes make no text of a row, so one
/// pass is nearly always enough.
const PASSES: usize = 8;

/// Samples with a group contribute only texts that 20 groups share.
pub(crate) fn trained(table: &str, samples: &[Value], bytes: usize) -> Result<Vec<u8>, TableError> {
    if bytes < SMALLEST {
        return Err(TableError::Settings {
            table: table.to_owned(),
            reason: format!("expected a dictionary of {SMALLEST} bytes or more, found {bytes}"),
        });
    }
    let failed = |reason| TableError::Training { rows: samples.len(), reason };
    let train = |samples: &[&[u8]]| {
        let trained = zstd::dict::from_samples(samples, bytes);
        trained.map_err(|error| failed(error.to_string()))
    };
    let checked = |dictionary: Vec<u8>| {
        let codec = Codec::new(1, Some(Dictionary::new(1, dictionary.clone())));
        codec.map(|_| dictionary).map_err(|error| failed(error.to_string()))
    };
    if samples.iter().all(|sample| sample.group.is_none()) {
        return checked(train(&samples.iter().map(|sample| &**sample).collect::<Vec<_>>())?);
    }
    let shared = Shared::new(samples);
    let texts = shared.texts();
    if texts.is_empty() {
        let reason = format!("no text of {SHORTEST} bytes or more occurs in {GROUPS} groups");
        return Err(failed(reason));
    }
    let mut dictionary = train(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    match shared.mask(&mut dictionary) {
        true => checked(dictionary),
        false => Err(failed("zstd joins texts to pieces that few groups have".to_owned())),
    }
}

/// All places of the samples where a text of the shortest length begins, in the order of the texts: a suffix
/// array.
struct Shared<'s> {
    samples: &'s [Value],
    /// The number of a sample, and an offset.
    places: Vec<(u32, u32)>,
    lens: Vec<usize>,
}

impl<'s> Shared<'s> {
    fn new(samples: &'s [Value]) -> Self {
        let number = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        let places_of = |(sample, value): (usize, &Value)| {
            let offsets = 0..number((value.len() + 1).saturating_sub(SHORTEST));
            offsets.map(move |offset| (number(sample), offset))
        };
        let mut places: Vec<_> = samples.iter().enumerate().flat_map(places_of).collect();
        places.sort_unstable_by(|a, b| text(samples, *a).cmp(text(samples, *b)));
        let mut shared = Self { samples, places, lens: Vec::new() };
        shared.lens = shared.lens();
        shared
    }

    fn text(&self, place: (u32, u32)) -> &'s [u8] {
        text(self.samples, place)
    }

    /// Returns the number of bytes at each place that many groups share. Places with a common beginning are
    /// neighbors, so a window that is just wide enough for the groups slides over them.
    fn lens(&self) -> Vec<usize> {
        let mut numbers = HashMap::new();
        let groups: Vec<usize> = self
            .samples
            .iter()
            .map(|sample| {
                let next = numbers.len();
                *numbers.entry(sample.group).or_insert(next)
            })
            .collect();
        let group = |place: usize| groups[self.places[place].0 as usize];
        // The number of bytes that each place has in common with the one before it.
        let mut common = vec![0];
        common.extend(self.places.windows(2).map(|pair| {
            let texts = self.text(pair[0]).iter().zip(self.text(pair[1]));
            texts.take_while(|(a, b)| a == b).count()
        }));
        let mut lens = vec![0; self.places.len()];
        let mut counts = vec![0; numbers.len()];
        let (mut first, mut distinct) = (0, 0);
        // The places of the window after its first one. Each has less in common than all before it.
        let mut least = VecDeque::new();
        for last in 0..self.places.len() {
            distinct += usize::from(counts[group(last)] == 0);
            counts[group(last)] += 1;
            while least.back().is_some_and(|place| common[*place] >= common[last]) {
                least.pop_back();
            }
            least.push_back(last);
            while counts[group(first)] > 1 || distinct > GROUPS {
                counts[group(first)] -= 1;
                distinct -= usize::from(counts[group(first)] == 0);
                first += 1;
            }
            while least.front().is_some_and(|place| *place <= first) {
                least.pop_front();
            }
            if let Some(place) = least.front().filter(|_| distinct == GROUPS) {
                lens[last] = common[*place];
            }
        }
        // The neighbors of a window share the part that they have in common with it.
        for place in 1..lens.len() {
            lens[place] = lens[place].max(lens[place - 1].min(common[place]));
        }
        for place in (1..lens.len()).rev() {
            lens[place - 1] = lens[place - 1].max(lens[place].min(common[place]));
        }
        lens
    }

    /// Each text ends with a zero, so that two of them make no new text. Their order does not depend on the
    /// samples' content, because neighbors would reveal more of a row.
    fn texts(&self) -> Vec<Vec<u8>> {
        let mut of_samples: Vec<_> =
            self.samples.iter().map(|sample| vec![0; sample.len()]).collect();
        for ((sample, offset), len) in self.places.iter().zip(&self.lens) {
            of_samples[*sample as usize][*offset as usize] = *len;
        }
        let mut texts = Vec::new();
        for (sample, lens) in self.samples.iter().zip(of_samples) {
            let mut end = 0;
            for (from, len) in lens.into_iter().enumerate() {
                // A text within the one before it adds nothing. A text that was cut off continues at its end.
                if len >= SHORTEST && from + len > end && (len < LONGEST || from >= end) {
                    end = from + len;
                    texts.push([&sample[from..end], &[0]].concat());
                }
            }
        }
        let mut texts: Vec<_> = texts.into_iter().enumerate().collect();
        texts.sort_by_cached_key(|(number, _)| {
            let mut hasher = DefaultHasher::new();
            number.hash(&mut hasher);
            hasher.finish()
        });
        texts.into_iter().map(|(_, text)| text).collect()
    }

    /// Replaces the pieces that too few groups share by random bytes, and returns whether all are replaced.
    /// zstd joins parts of texts, and a joint may by chance equal a piece of a single row.
    fn mask(&self, dictionary: &mut [u8]) -> bool {
        let header = dictionary.windows(HEADER_END.len()).position(|bytes| bytes == HEADER_END);
        let Some(texts) = header.map(|at| &mut dictionary[at + HEADER_END.len()..]) else {
            return false;
        };
        let has_few = |piece: &[u8]| {
            let place = self.places.partition_point(|place| self.text(*place) < piece);
            let found = self.places.get(place).map(|place| self.text(*place));
            found.is_some_and(|text| text.starts_with(piece)) && self.lens[place] < SHORTEST
        };
        (0..PASSES).any(|_| {
            let pieces = texts.windows(SHORTEST).enumerate();
            let few: Vec<_> =
                pieces.filter(|(_, piece)| has_few(piece)).map(|(at, _)| at).collect();
            for at in &few {
                let piece = &mut texts[*at..at + SHORTEST];
                getrandom::fill(piece).expect("the operating system has randomness");
            }
            few.is_empty()
        })
    }
}

fn text(samples: &[Value], (sample, offset): (u32, u32)) -> &[u8] {
    let text = &samples[sample as usize][offset as usize..];
    &text[..text.len().min(LONGEST)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(person: u128, visit: u128) -> Value {
        let name: String = (0..3)
            .map(|syllable| {
                ["kare", "moli", "zane", "viru"][(person >> (2 * syllable)) as usize % 4]
            })
            .collect();
        let illness = ["diabetes", "asthma", "migraine", "gout", "anemia"][person as usize % 5];
        let bytes = format!(
            r#"{{"visit":{visit},"text":"patient {name}{person}, diagnosis {illness}, next month"}}"#
        );
        Value::new(bytes.into_bytes(), Some(person))
    }

    #[test]
    fn a_dictionary_has_only_texts_that_many_groups_share() {
        let rows: Vec<_> =
            (0..300).flat_map(|person| (0..6).map(move |visit| row(person, visit))).collect();
        let mut groups = HashMap::<&[u8], Vec<u128>>::new();
        for row in &rows {
            for len in [SHORTEST, 20, 40] {
                for piece in row.windows(len) {
                    let groups = groups.entry(piece).or_default();
                    groups.extend(row.group.filter(|group| groups.last() != Some(group)));
                }
            }
        }
        let few = |dictionary: &[u8], len| {
            let found = dictionary.windows(len).filter_map(|piece| groups.get(piece));
            found.filter(|groups| groups.len() < GROUPS).count()
        };
        let trained = |rows: &[Value]| trained("events", rows, 4_096).expect("a dictionary");
        let dictionary = trained(&rows);
        assert_eq!(few(&dictionary, SHORTEST), 0);
        assert_eq!(few(&dictionary, 40), 0);
        assert!(dictionary.windows(11).any(|piece| piece == b", diagnosis"));
        let rows: Vec<_> = rows.iter().map(|row| Value::from(row.to_vec())).collect();
        assert!(few(&trained(&rows), 40) > 0);
    }

    #[test]
    fn hostile_rows_train_a_dictionary_that_works() {
        let mut rows: Vec<_> =
            (0..100).flat_map(|person| (0..6).map(move |visit| row(person, visit))).collect();
        let of_header = [&HEADER_END[..], &[0; 40], &HEADER_END].concat();
        rows.push(Value::new(of_header, Some(7)));
        rows.extend((0..30).map(|group| Value::new(vec![7; 5_000], Some(group))));
        assert!(trained("events", &rows, 4_096).is_ok());
    }

    #[test]
    fn rows_of_few_groups_train_nothing() {
        let rows: Vec<_> =
            (0..19).flat_map(|person| (0..90).map(move |visit| row(person, visit))).collect();
        let problem = trained("events", &rows, 4_096).expect_err("nothing is shared");
        assert!(
            problem.to_string().contains("no text of 8 bytes or more occurs in 20 groups"),
            "{problem}"
        );
    }
}
