//! Measures the ratios and speeds of a sample for each size of packs, level and dictionary.

use std::fmt;
use std::time::{Duration, Instant};

use opaque_id_packs::format::{
    Codec, Dictionary, FormatError, GroupKeys, Pack, PackCipher, Padding, Plaintext, Row,
};

/// Sizes of packs: four, two and one in a page of PostgreSQL, and 8 and 16 chunks of its TOAST.
pub(super) const PACK_BYTES: [usize; 5] = [1_900, 3_990, 8_064, 15_960, 31_920];

/// The part of its size that a pack has on average, because a merge splits a pack that is full. 50,000 rows of three kinds had 0.86.
const FILLING: f64 = 0.86;

pub(super) const LEVELS: [i32; 4] = [1, 3, 9, 19];

/// The sizes of dictionaries. 0 is none.
pub(super) const DICTIONARY_BYTES: [usize; 5] = [0, 16 << 10, 32 << 10, 64 << 10, 112 << 10];

/// The least number of rows in a sample.
pub(super) const MIN_ROWS: usize = 50;

/// The share of the bytes of rows one by one up to which packs pay. They must save this much because each
/// merge rewrites them whole.
const PAYS: f64 = 0.8;

/// The default padding of a table.
const PADDING: Padding = Padding::Steps(64);

/// The bytes of training per byte of the dictionary, as zstd advises. A tenth of it is the minimum.
const TRAINING: usize = 100;

/// The bytes of values that a measurement reads, and the number of places in the sample.
const MEASURED: usize = 2 << 20;
const PLACES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Rows,
    Packs(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measurement {
    pub(super) layout: Layout,
    pub(super) level: i32,
    pub(super) dictionary: usize,
    pub(super) bodies: usize,
    pub(super) rows: usize,
    pub(super) value_bytes: usize,
    /// The bytes of the bodies with keys, padding and the overhead of encryption.
    pub(super) body_bytes: usize,
    /// The bytes of the bodies in PostgreSQL's pages, with their ids, TOAST and indexes.
    pub(super) stored_bytes: usize,
    pub(super) encode: Duration,
    pub(super) decode: Duration,
}

impl Measurement {
    pub(super) fn ratio(&self) -> f64 {
        self.value_bytes as f64 / self.body_bytes as f64
    }

    pub(super) fn rows_per_body(&self) -> f64 {
        self.rows as f64 / self.bodies as f64
    }

    pub(super) fn encode_speed(&self) -> f64 {
        self.value_bytes as f64 / self.encode.as_secs_f64()
    }

    pub(super) fn decode_speed(&self) -> f64 {
        self.value_bytes as f64 / self.decode.as_secs_f64()
    }

    /// Returns the mean time in microseconds to decode one body. Each read of a row decodes one.
    pub(super) fn decode_micros(&self) -> f64 {
        self.decode.as_secs_f64() * 1e6 / self.bodies as f64
    }

    fn pack_bytes(&self) -> usize {
        match self.layout {
            Layout::Rows => 0,
            Layout::Packs(bytes) => bytes,
        }
    }

    fn add(
        &mut self,
        rows: usize,
        value_bytes: usize,
        plaintext: &[u8],
        encode: Duration,
        decode: Duration,
    ) {
        self.bodies += 1;
        self.rows += rows;
        self.value_bytes += value_bytes;
        let body = plaintext.len() + PackCipher::OVERHEAD;
        self.body_bytes += body;
        self.stored_bytes += stored_bytes(self.layout, body);
        self.encode += encode;
        self.decode += decode;
    }

    fn stored_ratio(&self) -> f64 {
        let filling = if self.layout == Layout::Rows { 1.0 } else { FILLING };
        filling * self.value_bytes as f64 / self.stored_bytes as f64
    }
}

/// Returns the bytes of PostgreSQL's pages for a body: its share of a page, and an entry in the index. A longer body takes a quarter of a
/// page for each chunk of 1,996 bytes, with an entry each, and a pointer.
fn stored_bytes(layout: Layout, body: usize) -> usize {
    const PAGE: usize = 8_192;
    const PAGE_HEADER: usize = 24;
    /// Item pointer, header, a UUID, version, length.
    const ROW: usize = 60;
    const ROW_ENTRY: usize = 32;
    const POINTER: usize = 18;
    const CHUNK: usize = 1_996;
    const CHUNK_ENTRY: usize = 20;
    /// Item pointer, header, the chunk's id and number, length.
    const CHUNK_HEADER: usize = 40;
    let row = |body| PAGE / ((PAGE - PAGE_HEADER) / (body + ROW)) + ROW_ENTRY;
    let in_row = if layout == Layout::Rows { 1_980 } else { 8_100 };
    match body <= in_row {
        true => row(body),
        false => {
            let (chunks, last) = (body / CHUNK, body % CHUNK);
            row(POINTER) + chunks * (PAGE / 4 + CHUNK_ENTRY) + last + CHUNK_HEADER + CHUNK_ENTRY
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The first rows of the sample train the dictionaries. The others are measured.
    pub(super) training_rows: usize,
    pub(super) untrained: Vec<usize>,
    pub(super) measurements: Vec<Measurement>,
    pub(super) recommendation: Recommendation,
}

/// The recommendation for a sample. Its `Display` gives a line for each reason.
#[derive(Clone, Debug)]
pub(super) struct Recommendation {
    pub(super) packs: Measurement,
    pub(super) packs_pay: bool,
    pub(super) column: Measurement,
    without_dictionary: Measurement,
    largest_dictionary: Measurement,
    largest: Measurement,
    slowest: Measurement,
}

/// Measures a sample of rows in the order of the keys, for each of [`PACK_BYTES`], [`LEVELS`] and
/// [`DICTIONARY_BYTES`]. Calls `progress` with the number of finished steps and of all steps.
pub(super) fn tune(
    rows: &[(u128, Vec<u8>)],
    mut progress: impl FnMut(u64, u64),
) -> Result<Report, String> {
    let found = rows.iter().filter(|(_, value)| !value.is_empty()).count();
    if found < MIN_ROWS {
        return Err(format!(
            "expected a sample of at least {MIN_ROWS} rows with values, found {found}: add rows, or choose another --separator"
        ));
    }
    let (training, measured) = rows.split_at(rows.len() / 5);
    let mut untrained = Vec::new();
    let mut measurements = Vec::new();
    let places = places(measured);
    let layouts: Vec<_> = [Layout::Rows].into_iter().chain(PACK_BYTES.map(Layout::Packs)).collect();
    let steps = (DICTIONARY_BYTES.len() * LEVELS.len() * layouts.len()) as u64;
    let mut done = 0;
    for size in DICTIONARY_BYTES {
        let dictionary = train(training, size);
        if dictionary.is_none() && size > 0 {
            untrained.push(size);
            continue;
        }
        for level in LEVELS {
            let codec = Codec::new(level, dictionary.clone()).map_err(|error| error.to_string())?;
            for layout in &layouts {
                let measured = measure(&places, *layout, level, size, &codec);
                measurements.push(measured.map_err(|error| error.to_string())?);
                done += 1;
                progress(done, steps);
            }
        }
    }
    progress(steps, steps);
    Ok(Report {
        training_rows: training.len(),
        untrained,
        recommendation: Recommendation::new(&measurements),
        measurements,
    })
}

/// Trains a dictionary on the last of these rows, unless they are too few.
fn train(rows: &[(u128, Vec<u8>)], size: usize) -> Option<Dictionary> {
    let mut bytes = 0;
    let samples = rows.iter().rev().take_while(|(_, value)| {
        bytes += value.len();
        bytes <= TRAINING * size
    });
    let samples: Vec<_> = samples.map(|(_, value)| value).collect();
    let is_enough = size > 0 && bytes >= TRAINING * size / 10;
    let trained = is_enough.then(|| zstd::dict::from_samples(&samples, size));
    Some(Dictionary::new(1, trained?.ok()?))
}

/// Returns the rows from each place of the sample on, of which the first [`MEASURED`] bytes in total are
/// measured.
fn places(rows: &[(u128, Vec<u8>)]) -> Vec<&[(u128, Vec<u8>)]> {
    match value_bytes(rows) <= MEASURED {
        true => vec![rows],
        false => rows.chunks(rows.len().div_ceil(PLACES)).collect(),
    }
}

/// Returns the first rows with this number of bytes of values, but at least one.
fn up_to(rows: &[(u128, Vec<u8>)], bytes: usize) -> &[(u128, Vec<u8>)] {
    let mut sum = 0;
    let fitting = rows.iter().take_while(|(_, value)| {
        sum += value.len();
        sum <= bytes
    });
    &rows[..fitting.count().clamp(1, rows.len())]
}

fn measure(
    places: &[&[(u128, Vec<u8>)]],
    layout: Layout,
    level: i32,
    dictionary: usize,
    codec: &Codec,
) -> Result<Measurement, FormatError> {
    let mut measurement = Measurement {
        layout,
        level,
        dictionary,
        bodies: 0,
        rows: 0,
        value_bytes: 0,
        body_bytes: 0,
        stored_bytes: 0,
        encode: Duration::ZERO,
        decode: Duration::ZERO,
    };
    let none = GroupKeys::default();
    let enough = MEASURED / places.len();
    for place in places {
        match layout {
            Layout::Rows => {
                for (_, value) in up_to(place, enough) {
                    let row = Row::Value(value.clone().into());
                    let (plaintext, encode) = timed(|| row.encode(codec, PADDING, &none))?;
                    let (_, decode) = timed(|| Row::decode(&plaintext, codec, &none))?;
                    measurement.add(1, value.len(), &plaintext, encode, decode);
                }
            }
            Layout::Packs(bytes) => {
                let mut rest = *place;
                let mut before = (2, 1);
                let mut measured = 0;
                while !rest.is_empty() && measured < enough {
                    let (pack, plaintext, encode) = pack(rest, bytes, &mut before, codec)?;
                    let (_, decode) = timed(|| Pack::decode(pack.id, &plaintext, codec, &none))?;
                    let len = value_bytes(&rest[..pack.rows.len()]);
                    measured += len;
                    rest = &rest[pack.rows.len()..];
                    if !rest.is_empty() || measurement.bodies == 0 {
                        measurement.add(pack.rows.len(), len, &plaintext, encode, decode);
                    }
                }
            }
        }
    }
    Ok(measurement)
}

/// Makes a pack of the first rows: as many as fit if values and bodies are like the previous pack's, or
/// fewer.
fn pack(
    rows: &[(u128, Vec<u8>)],
    bytes: usize,
    before: &mut (usize, usize),
    codec: &Codec,
) -> Result<(Pack, Plaintext, Duration), FormatError> {
    let mut fitting = up_to(rows, bytes * before.0 / before.1).len();
    loop {
        let (first, rest) = rows.split_at(fitting);
        let pack = Pack {
            id: first[0].0,
            end: rest.first().map(|(key, _)| *key),
            rows: first.iter().map(|(key, value)| (*key, value.clone().into())).collect(),
        };
        let (plaintext, encode) = timed(|| pack.encode(codec, PADDING, &GroupKeys::default()))?;
        let found = plaintext.len() + PackCipher::OVERHEAD;
        *before = (value_bytes(first), found);
        if found <= bytes || fitting == 1 {
            return Ok((pack, plaintext, encode));
        }
        fitting = (fitting * bytes / found).clamp(1, fitting - 1);
    }
}

fn value_bytes(rows: &[(u128, Vec<u8>)]) -> usize {
    rows.iter().map(|(_, value)| value.len()).sum()
}

fn timed<R>(run: impl FnOnce() -> Result<R, FormatError>) -> Result<(R, Duration), FormatError> {
    let start = Instant::now();
    let result = run()?;
    Ok((result, start.elapsed()))
}

impl Recommendation {
    fn new(all: &[Measurement]) -> Self {
        let packs_of = |bytes, level| {
            let layout = Layout::Packs(bytes);
            all.iter().filter(move |found| found.layout == layout && found.level == level)
        };
        let dictionary = near_best(packs_of(PACK_BYTES[0], 9), 0.97).dictionary;
        let with_dictionary = || all.iter().filter(|found| found.dictionary == dictionary);
        let packs = || with_dictionary().filter(|found| found.layout != Layout::Rows);
        let layout = near_best(packs().filter(|found| found.level == 9), 0.9).layout;
        let of_size = || packs().filter(|found| found.layout == layout);
        let chosen = near_best(of_size().filter(|found| found.level < 19), 0.97);
        let same =
            || all.iter().filter(|found| (found.layout, found.level) == (layout, chosen.level));
        let mut column =
            with_dictionary().filter(|found| found.layout == Layout::Rows && found.level == 3);
        let column = *column.next().expect(MEASURED_ALL);
        Self {
            packs: chosen,
            packs_pay: chosen.stored_ratio() >= column.stored_ratio() / PAYS,
            column,
            without_dictionary: *same().next().expect(MEASURED_ALL),
            largest_dictionary: *same().next_back().expect(MEASURED_ALL),
            largest: *packs().rfind(|found| found.level == chosen.level).expect(MEASURED_ALL),
            slowest: *of_size().next_back().expect(MEASURED_ALL),
        }
    }
}

const MEASURED_ALL: &str =
    "each size and level is measured, without a dictionary and with each that was trained";

/// Returns the first measurement with at least this part of the best ratio.
fn near_best<'a>(found: impl Iterator<Item = &'a Measurement> + Clone, part: f64) -> Measurement {
    let best = found.clone().map(Measurement::ratio).fold(0.0, f64::max);
    let mut found = found.filter(|found| found.ratio() >= part * best);
    *found.next().expect(MEASURED_ALL)
}

impl fmt::Display for Recommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packs = &self.packs;
        let stored = 100.0 * self.column.stored_ratio() / packs.stored_ratio();
        if !self.packs_pay {
            writeln!(
                f,
                "Packs do not pay for these rows: keep them in an encrypted column. The best packs store {stored:.0} % of its bytes, \
                 and pay from {:.0} % down:",
                100.0 * PAYS
            )?;
        }
        let bytes = packs.pack_bytes();
        writeln!(
            f,
            "Packs of up to {bytes} bytes at level {level}, {}: Settings::default().pack_bytes({bytes}).pack_level({level})",
            dictionary(packs.dictionary),
            level = packs.level,
        )?;
        let mut reason = |about: &str, text: String| writeln!(f, "- {about}: {text}.");
        reason(
            "Rows",
            format!(
                "ratio {:.2}; {:.2} in an encrypted column, one by one at level {}, {}. In PostgreSQL's tables packs store {stored:.0} % of its bytes",
                packs.ratio(),
                self.column.ratio(),
                self.column.level,
                dictionary(self.column.dictionary),
            ),
        )?;
        reason(
            "Size",
            format!(
                "{:.1} rows in a pack, which a read decodes in {:.1} µs; {:.1} rows in {:.1} µs and ratio {:.2} in packs of up to {} bytes",
                packs.rows_per_body(),
                packs.decode_micros(),
                self.largest.rows_per_body(),
                self.largest.decode_micros(),
                self.largest.ratio(),
                self.largest.pack_bytes(),
            ),
        )?;
        reason(
            "Dictionary",
            match self.largest_dictionary.dictionary {
                0 => "the sample is too small to train one".to_owned(),
                bytes => format!(
                    "ratio {:.2} without one, {:.2} {}",
                    self.without_dictionary.ratio(),
                    self.largest_dictionary.ratio(),
                    dictionary(bytes),
                ),
            },
        )?;
        write!(
            f,
            "- Level: a merger encodes {:.0} MB/s; {:.1} MB/s and ratio {:.2} at level {}, for rows that hardly change.",
            packs.encode_speed() / 1e6,
            self.slowest.encode_speed() / 1e6,
            self.slowest.ratio(),
            self.slowest.level,
        )
    }
}

fn dictionary(bytes: usize) -> String {
    match bytes {
        0 => "without a dictionary".to_owned(),
        _ => format!("with a dictionary of {} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests;
