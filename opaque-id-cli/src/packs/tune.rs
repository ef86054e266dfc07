//! `opaque-id packs tune`: a sample of rows, and the measurements as tables, as CSV and as a plot.

use std::error::Error;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};

use indicatif::{ProgressBar, ProgressStyle};

use self::measure::{DICTIONARY_BYTES, LEVELS, Layout, Measurement, PACK_BYTES, Report};
use crate::args::{Separator, Tune};
use crate::files;

mod measure;
mod plot;

/// The limits of a sample. They suffice to train the largest dictionary on a fifth.
const MAX_BYTES: usize = 64 << 20;
const MAX_ROWS: usize = 1_000_000;

type Rows = Vec<(u128, Vec<u8>)>;

/// Measures a sample, with a progress bar if standard error is a terminal, and prints the recommendation.
/// Returns notes for the caller.
pub(crate) fn tune(out: &mut impl Write, args: &Tune) -> Result<Vec<String>, Box<dyn Error>> {
    let name = match args.file.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => args.file.display().to_string(),
    };
    let (rows, is_whole) = sample(args).map_err(|error| format!("cannot read {name}: {error}"))?;
    let bar = ProgressBar::no_length();
    bar.set_style(ProgressStyle::with_template("{bar:40} {percent} %, {eta} left")?);
    let report = measure::tune(&rows, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| format!("{name}: {error}"))?;
    // The report comes first, so that it is not lost if a file cannot be written.
    print(out, &rows, &report)?;
    if let Some(file) = &args.csv {
        files::write(file, &to_csv(&report))?;
    }
    if let Some(file) = &args.plot {
        files::write(file, &plot::draw(&report)?)?;
    }
    let note = || format!("{name}: only the first {} rows were used", rows.len());
    Ok((!is_whole).then(note).into_iter().collect())
}

/// Reads rows and gives them keys. Returns whether the sample has all rows.
fn sample(args: &Tune) -> io::Result<(Rows, bool)> {
    let input: Box<dyn Read> = match args.file.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(File::open(&args.file)?),
    };
    let mut text = Vec::new();
    input.take(MAX_BYTES as u64 + 1).read_to_end(&mut text)?;
    let mut values = split(&text, args.separator);
    let is_cut = text.len() > MAX_BYTES;
    if is_cut {
        // The last row was not read to its end.
        values.pop();
    }
    let is_whole = !is_cut && values.len() < MAX_ROWS;
    let key = if args.integer_keys { u128::from } else { time_ordered };
    Ok(((0..).map(key).zip(values).collect(), is_whole))
}

/// Splits a text into rows. Empty rows are omitted.
fn split(text: &[u8], separator: Separator) -> Vec<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    match separator {
        Separator::Line => {
            let rows = lines.filter(|line| !line.is_empty());
            rows.map(<[u8]>::to_vec).take(MAX_ROWS).collect()
        }
        Separator::BlankLine => {
            let lines: Vec<_> = lines.collect();
            let rows = lines.split(|line| line.is_empty());
            let rows = rows.filter(|lines| !lines.is_empty()).take(MAX_ROWS);
            rows.map(|lines| lines.join(&b'\n')).collect()
        }
    }
}

/// Returns a key of 16 bytes like a generator's: a time in milliseconds and random bits.
fn time_ordered(i: u64) -> u128 {
    let mut hasher = DefaultHasher::new();
    i.hash(&mut hasher);
    u128::from(i) << 80 | u128::from(hasher.finish()) << 10
}

fn to_csv(report: &Report) -> String {
    let mut csv = "pack_bytes,level,dictionary_bytes,bodies,rows,value_bytes,body_bytes,ratio,\
                   encode_mb_per_s,decode_mb_per_s,decode_us_per_body\n"
        .to_owned();
    for found in &report.measurements {
        // The cell is empty for rows one by one.
        if let Layout::Packs(bytes) = found.layout {
            csv += &bytes.to_string();
        }
        csv += &format!(
            ",{},{},{},{},{},{},{:.4},{:.1},{:.1},{:.2}\n",
            found.level,
            found.dictionary,
            found.bodies,
            found.rows,
            found.value_bytes,
            found.body_bytes,
            found.ratio(),
            found.encode_speed() / 1e6,
            found.decode_speed() / 1e6,
            found.decode_micros(),
        );
    }
    csv
}

/// Prints ratios by dictionary at the recommended level, by level with the recommended dictionary, and speeds
/// with both.
fn print(out: &mut impl Write, rows: &Rows, report: &Report) -> io::Result<()> {
    let bytes: usize = rows.iter().map(|(_, value)| value.len()).sum();
    writeln!(
        out,
        "{} rows, {:.1} MB, {} bytes per row; dictionaries are trained on the first {} rows",
        rows.len(),
        bytes as f64 / 1e6,
        bytes / rows.len(),
        report.training_rows,
    )?;
    if !report.untrained.is_empty() {
        let names = report.untrained.iter().map(|size| dictionary_name(*size));
        let names = names.collect::<Vec<_>>().join(", ");
        writeln!(out, "A larger sample is needed to train dictionaries of {names}.")?;
    }
    for (title, columns) in ratios(report, |level| format!("level {level}")) {
        writeln!(out, "\n{title}")?;
        let heads: Vec<_> = columns.iter().map(|(name, ..)| name.clone()).collect();
        table(out, &heads, |layout| {
            let cells = columns.iter();
            let cells = cells.filter_map(|(_, level, size)| find(report, layout, *level, *size));
            cells.map(|found| format!("{:.2}", found.ratio())).collect()
        })?;
    }

    let best = &report.recommendation.packs;
    writeln!(
        out,
        "\nSpeed with dictionary {} at level {}",
        dictionary_name(best.dictionary),
        best.level
    )?;
    let heads = ["rows each", "encode MB/s", "decode MB/s", "µs per read"].map(String::from);
    table(out, &heads, |layout| {
        let cells = find(report, layout, best.level, best.dictionary).map(|found| {
            [
                format!("{:.1}", found.rows_per_body()),
                format!("{:.1}", found.encode_speed() / 1e6),
                format!("{:.1}", found.decode_speed() / 1e6),
                format!("{:.1}", found.decode_micros()),
            ]
        });
        cells.into_iter().flatten().collect()
    })?;
    writeln!(out, "\n{}", report.recommendation)
}

type Column = (String, i32, usize);

/// Returns the ratios with their titles: by dictionary at the recommended level, then by level with the
/// recommended dictionary.
fn ratios(report: &Report, level_name: fn(i32) -> String) -> [(String, Vec<Column>); 2] {
    let best = &report.recommendation.packs;
    let trained = DICTIONARY_BYTES.into_iter();
    let trained = trained.filter(|size| !report.untrained.contains(size));
    let dictionaries = trained.map(|size| (dictionary_name(size), best.level, size));
    let levels = LEVELS.map(|level| (level_name(level), level, best.dictionary));
    let dictionary = dictionary_name(best.dictionary);
    [
        (format!("Ratio at level {}, by dictionary", best.level), dictionaries.collect()),
        (format!("Ratio with dictionary {dictionary}, by level"), levels.to_vec()),
    ]
}

fn table(
    out: &mut impl Write,
    heads: &[String],
    cells: impl Fn(Layout) -> Vec<String>,
) -> io::Result<()> {
    let mut line = |name: &str, cells: &[String]| {
        write!(out, "{name:<22}")?;
        let mut cells = cells.iter();
        cells.try_for_each(|cell| write!(out, "{cell:>13}"))?;
        writeln!(out)
    };
    line("", heads)?;
    line("rows one by one", &cells(Layout::Rows))?;
    PACK_BYTES.into_iter().try_for_each(|bytes| {
        let name = format!("packs of {bytes} bytes");
        line(&name, &cells(Layout::Packs(bytes)))
    })
}

fn find(report: &Report, layout: Layout, level: i32, dictionary: usize) -> Option<&Measurement> {
    let mut found = report.measurements.iter();
    found.find(|found| (found.layout, found.level, found.dictionary) == (layout, level, dictionary))
}

fn dictionary_name(bytes: usize) -> String {
    match bytes {
        0 => "none".to_owned(),
        _ => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_separated_by_line_breaks_or_empty_lines() {
        let text = b"\n{\"a\":1}\r\n\xff\x00\n\n\r\nlast";
        let [lines, records] =
            [Separator::Line, Separator::BlankLine].map(|separator| split(text, separator));
        assert_eq!(lines, [&b"{\"a\":1}"[..], b"\xff\x00", b"last"]);
        assert_eq!(records, [&b"{\"a\":1}\n\xff\x00"[..], b"last"]);
    }
}
