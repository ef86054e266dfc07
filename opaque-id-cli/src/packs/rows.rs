//! Rows as JSON lines: `{"key":"…","value":…}`, or with `base64` if values are not JSON.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use indicatif::ProgressBar;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::database::PackError;
use super::{Result, Table, bar, describe};
use crate::lines::Place;
use crate::output;
use crate::resource::ShownKey;

/// The name of an encoding whose values are JSON.
const JSON: &str = "json";

/// Longer than any value in base64.
const MAX_LINE: u64 = 128 << 20;

/// How many rows and bytes are written at once.
const ROWS: usize = 1_000;
const BYTES: usize = 1 << 20;

/// How many rows are written before recent ones are merged.
const MERGED: u64 = 10_000;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    key: String,
    #[serde(
        borrow,
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    value: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// A value of `null` is a value.
fn present<'de, D: Deserializer<'de>>(
    value: D,
) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

/// Reports what cannot be read, and prints the rest.
pub(super) async fn export<K: ShownKey>(out: &mut impl Write, table: &Table<K>) -> Result<bool> {
    let Table { database, packs, .. } = table;
    let is_json = packs.encoding()? == JSON;
    let bar = bar("{human_pos} rows", None)?;
    let mut all_good = true;
    let mut rest = packs.scan();
    while let Some(mut call) = packs.next_page(rest)? {
        database.run(&mut call).await?;
        let page;
        (page, rest) = packs.page(call)?;
        for problem in page.problems {
            all_good = false;
            bar.suspend(|| output::problem(&describe(&problem, problem.location())))?;
        }
        for (key, value) in page.rows {
            let key = key.to_string();
            let (value, base64) = match is_json.then(|| serde_json::from_slice(&value)) {
                Some(Ok(value)) => (Some(value), None),
                None => (None, Some(BASE64_STANDARD.encode(&value))),
                // Its message may repeat a part of the value.
                Some(Err(_)) => {
                    all_good = false;
                    let problem = format!("the row {key}: expected JSON, found other bytes");
                    bar.suspend(|| output::problem(&problem))?;
                    continue;
                }
            };
            output::line(out, &Line { key, value, base64 })?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    out.flush()?;
    Ok(all_good)
}

/// Reports lines that are no rows, and writes the others.
pub(super) async fn import<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    file: &Path,
) -> Result<bool> {
    let is_json = table.packs.encoding()? == JSON;
    let (mut input, bar) =
        open(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let mut import = Import {
        table,
        bar: &bar,
        batch: Vec::new(),
        bytes: 0,
        rows: 0,
        unmerged: 0,
        all_good: true,
    };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let row = match line.len() as u64 == MAX_LINE && !line.ends_with(b"\n") {
            true => {
                input.skip_until(b'\n')?;
                Err(format!("expected at most {MAX_LINE} bytes").into())
            }
            false => row(&line, is_json),
        };
        match row {
            Ok(Some((key, value))) => import.add(number, key, value).await?,
            Ok(None) => {}
            Err(error) => import.refuse(number, &*error)?,
        }
    }
    import.finish(out).await
}

fn open(file: &Path) -> Result<(Box<dyn BufRead>, ProgressBar)> {
    Ok(if file == Path::new("-") {
        let bar = bar("{bytes}", None)?;
        (Box::new(BufReader::new(bar.wrap_read(io::stdin()))), bar)
    } else {
        let file = File::open(file)?;
        let length = file.metadata()?.len();
        let bar = bar("{bytes} of {total_bytes}", Some(length))?;
        (Box::new(BufReader::new(bar.wrap_read(file))), bar)
    })
}

/// Reads a line, which may be blank.
fn row<K: ShownKey>(line: &[u8], is_json: bool) -> Result<Option<(K, Vec<u8>)>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    // Its message may repeat a part of the value.
    let Line { key, value, base64 } = serde_json::from_slice(line).map_err(|error| {
        format!(
            "expected a JSON object like those of `opaque-id packs export`, found {:?} error at column {}",
            error.classify(),
            error.column()
        )
    })?;
    let value = match (value, base64, is_json) {
        (Some(value), None, true) => value.get().as_bytes().to_owned(),
        (None, Some(text), false) => BASE64_STANDARD
            .decode(text)
            .map_err(|_| "expected base64 with padding (RFC 4648, section 4)")?,
        (.., true) => return Err("expected `key` and `value`: the table's values are JSON".into()),
        (.., false) => {
            return Err("expected `key` and `base64`: the table's values are not JSON".into());
        }
    };
    Ok(Some((K::read(&key)?, value)))
}

/// Writes rows in batches, and merges them now and then.
struct Import<'t, K> {
    table: &'t Table<K>,
    bar: &'t ProgressBar,
    /// With the numbers of their lines.
    batch: Vec<(u64, K, Vec<u8>)>,
    bytes: usize,
    rows: u64,
    unmerged: u64,
    all_good: bool,
}

impl<K: ShownKey> Import<'_, K> {
    async fn add(&mut self, number: u64, key: K, value: Vec<u8>) -> Result<()> {
        self.bytes += value.len();
        self.batch.push((number, key, value));
        if self.batch.len() >= ROWS || self.bytes >= BYTES {
            self.write().await?;
        }
        if self.unmerged >= MERGED {
            self.merge().await?;
        }
        Ok(())
    }

    fn refuse(&mut self, number: u64, error: &dyn Error) -> io::Result<()> {
        self.all_good = false;
        self.bar.suspend(|| output::report(Place::Line(number), "", error))
    }

    /// Returns whether all lines were rows.
    async fn finish(mut self, out: &mut impl Write) -> Result<bool> {
        self.write().await?;
        self.merge().await?;
        self.bar.finish_and_clear();
        writeln!(out, "{} rows written", self.rows)?;
        Ok(self.all_good)
    }

    async fn write(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        let rows = batch.iter().map(|(_, key, value)| (*key, value.clone()));
        match self.put(rows.collect()).await {
            // One by one, to learn which it is.
            Err(PackError::Problem(_)) => {
                for (number, key, value) in batch {
                    match self.put(vec![(key, value)]).await {
                        Err(refused @ PackError::Problem(_)) => self.refuse(number, &refused)?,
                        done => done?,
                    }
                }
            }
            done => done?,
        }
        Ok(())
    }

    async fn put(&mut self, rows: Vec<(K, Vec<u8>)>) -> std::result::Result<(), PackError> {
        let Table { database, packs, .. } = self.table;
        let count = rows.len() as u64;
        database.run(&mut packs.put(rows)?).await?;
        self.rows += count;
        self.unmerged += count;
        Ok(())
    }

    async fn merge(&mut self) -> Result<()> {
        let Table { database, packs, .. } = self.table;
        let mut call = packs.merge(false)?;
        database.run(&mut call).await?;
        packs.merged(call)?;
        self.unmerged = 0;
        Ok(())
    }
}
