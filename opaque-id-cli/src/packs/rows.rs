//! Rows as JSON lines: `{"key":"…","value":…}`, or with `base64` if values are not JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Result, Table, bar};
use crate::lines::Place;
use crate::resource::ShownKey;
use crate::{commands, with_causes};

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
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Reports what cannot be read, and prints the rest.
pub(super) async fn export<K: ShownKey>(out: &mut impl Write, table: &Table<K>) -> Result<bool> {
    let Table {
        database, packs, ..
    } = table;
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
            bar.suspend(|| commands::problem(&with_causes(&problem)))?;
        }
        for (key, value) in page.rows {
            let key = key.to_string();
            let (value, base64) = match is_json {
                true => (Some(serde_json::from_slice(&value)?), None),
                false => (None, Some(BASE64_STANDARD.encode(&value))),
            };
            commands::line(out, &Line { key, value, base64 })?;
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
    let mut import = Import::new(table);
    let mut all_good = true;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        match row(&line, is_json) {
            Ok(Some((key, value))) => import.add(key, value).await?,
            Ok(None) => {}
            Err(error) => {
                all_good = false;
                bar.suspend(|| commands::report(Place::Line(number), "", &*error))?;
            }
        }
    }
    let rows = import.finish().await?;
    bar.finish_and_clear();
    writeln!(out, "{rows} rows written")?;
    Ok(all_good)
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
    batch: Vec<(K, Vec<u8>)>,
    bytes: usize,
    rows: u64,
    unmerged: u64,
}

impl<'t, K: ShownKey> Import<'t, K> {
    fn new(table: &'t Table<K>) -> Self {
        Self {
            table,
            batch: Vec::new(),
            bytes: 0,
            rows: 0,
            unmerged: 0,
        }
    }

    async fn add(&mut self, key: K, value: Vec<u8>) -> Result<()> {
        self.bytes += value.len();
        self.batch.push((key, value));
        if self.batch.len() >= ROWS || self.bytes >= BYTES {
            self.write().await?;
        }
        if self.unmerged >= MERGED {
            self.merge().await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<u64> {
        self.write().await?;
        self.merge().await?;
        Ok(self.rows)
    }

    async fn write(&mut self) -> Result<()> {
        let Table {
            database, packs, ..
        } = self.table;
        let rows = self.batch.len() as u64;
        database
            .run(&mut packs.put(std::mem::take(&mut self.batch))?)
            .await?;
        self.bytes = 0;
        self.rows += rows;
        self.unmerged += rows;
        Ok(())
    }

    async fn merge(&mut self) -> Result<()> {
        let Table {
            database, packs, ..
        } = self.table;
        let mut call = packs.merge()?;
        database.run(&mut call).await?;
        packs.merged(call)?;
        self.unmerged = 0;
        Ok(())
    }
}
