//! Rows as JSON lines: `{"key":"…","value":…}`, or with `base64` if values are not JSON.

use std::collections::HashSet;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use indicatif::ProgressBar;
use opaque_id_packs::TableError;
use opaque_id_sql::Dialect;
use opaque_id_sqlx::{Retry, retry};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::database::{PackError, SourceRow, Transaction};
use super::old_table::OldTable;
use super::{Result, Table, bar, describe};
use crate::args::FromTable;
use crate::lines::Place;
use crate::output;
use crate::resource::ShownKey;

const JSON: &str = "json";

/// The limit of a line, longer than any value in base64.
const MAX_LINE: u64 = 128 << 20;

/// The limits of one write.
const ROWS: usize = 1_000;
const BYTES: usize = 1 << 20;

/// The number of rows in one write if existing rows are kept.
const KEPT: usize = 250;

/// The number of attempts of a transaction.
const ATTEMPTS: u64 = 20;

/// The number of rows that are written before recent ones are merged.
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

/// Reads a value. `null` is a value too.
fn present<'de, D: Deserializer<'de>>(
    value: D,
) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

/// Prints all rows, and reports the rows that cannot be read.
pub(super) async fn export<K: ShownKey>(out: &mut impl Write, table: &Table<K>) -> Result<bool> {
    let Table { database, packs, .. } = table;
    let is_json = packs.encoding()? == JSON;
    let bar = bar("{human_pos} rows", None)?;
    let mut all_good = true;
    let mut rest = packs.scan();
    while let Some(page) = database.run(packs.next_page(&mut rest)).await? {
        for problem in page.problems {
            all_good = false;
            bar.suspend(|| output::problem(&describe(&problem, problem.location())))?;
        }
        for (key, value) in page.rows {
            let key = key.to_string();
            let (value, base64) = match is_json.then(|| serde_json::from_slice(&value)) {
                Some(Ok(value)) => (Some(value), None),
                None => (None, Some(BASE64_STANDARD.encode(&value))),
                // The error's message may repeat a part of the value.
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

pub(super) async fn import<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    file: &Path,
    keeps: bool,
) -> Result<bool> {
    let is_json = table.packs.encoding()? == JSON;
    let (mut input, bar) =
        open(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let mut import = Import::new(table, &bar, keeps);
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
            Ok(Some((key, value))) => import.add(Place::Line(number), key, value).await?,
            Ok(None) => {}
            Err(error) => import.refuse(Place::Line(number), "", &*error)?,
        }
    }
    import.finish(out).await
}

/// Writes the missing rows of another table, and reports the invalid ones.
pub(super) async fn import_from<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    old: &str,
    from: &FromTable,
) -> Result<bool> {
    let Table { database, packs, .. } = table;
    let is_json = packs.encoding()? == JSON;
    let old = OldTable::new(database.dialect(), old, from, is_json)?;
    if let Some(sql) = old.changed_in_json()
        && let Some(SourceRow { key, literal, .. }) = database.rows(sql).await?.first()
    {
        return Err(format!(
            "expected columns that JSON can have, found `{key}` {literal}: use --value, or a view that converts the column"
        )
        .into());
    }
    let count = database.integer(old.count()).await?;
    let bar = bar("{human_pos} of {human_len} rows", Some(count))?;
    let mut import = Import::new(table, &bar, true);
    let mut after = None;
    loop {
        let sql = old.page(after.as_deref());
        let page = retried(async || {
            let mut transaction = database.begin().await.map_err(PackError::Database)?;
            let found = transaction.rows(sql.clone()).await.map_err(PackError::Database)?;
            // The next page starts after this row even if the row is refused.
            let last = found.last().map(|found| found.literal.clone());
            let (mut rows, mut refused) = (Vec::new(), Vec::new());
            for found in found {
                match old_row(&found, is_json) {
                    Ok((key, value)) => rows.push((Place::Row, key, value)),
                    Err(error) => refused.push((found.key, error)),
                }
            }
            let outcome = import.insert(transaction, &rows).await?;
            Ok((last, rows.len() + refused.len(), refused, outcome))
        });
        let (last, len, refused, outcome) = page.await?;
        for (key, error) in refused {
            import.refuse(Place::Row, &key, &*error)?;
        }
        import.count(outcome).await?;
        bar.inc(len as u64);
        if last.is_none() {
            break;
        }
        if last == after {
            // A floating-point number, for example, is rounded in its text.
            return Err("expected keys after the last of a page, found that key again: its type has no exact text; use --id \
                        with integers, bytes or text"
                .into());
        }
        after = last;
    }
    import.finish(out).await
}

fn old_row<K: ShownKey>(found: &SourceRow, is_json: bool) -> Result<(K, Vec<u8>)> {
    let key = K::read(&found.key)?;
    let value = match (&found.value, is_json) {
        (Some(value), false) => value.clone(),
        (None, false) => return Err("expected a value, found NULL".into()),
        (None, true) => b"null".to_vec(),
        // The error's message may repeat a part of the value.
        (Some(value), true) => match serde_json::from_slice::<&RawValue>(value) {
            Ok(value) => value.get().as_bytes().to_owned(),
            Err(_) => return Err("expected JSON, found other text".into()),
        },
    };
    Ok((key, value))
}

/// Repeats a transaction that conflicted with another one.
async fn retried<T>(
    transaction: impl AsyncFn() -> std::result::Result<T, PackError>,
) -> std::result::Result<T, PackError> {
    for attempt in 1.. {
        let is_conflict = |error: &PackError| match error {
            PackError::Conflict(_) | PackError::Table(TableError::Outrun) => true,
            PackError::Database(error) => retry(error) == Some(Retry::Again),
            _ => false,
        };
        match transaction().await {
            Err(error) if is_conflict(&error) && attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_millis(20 * attempt)).await;
            }
            done => return done,
        }
    }
    unreachable!("the last attempt returns")
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

/// Reads a line, or returns `None` for a blank one.
fn row<K: ShownKey>(line: &[u8], is_json: bool) -> Result<Option<(K, Vec<u8>)>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    // The error's message may repeat a part of the value.
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

/// A writer of rows in batches. It also merges them periodically.
struct Import<'t, K> {
    table: &'t Table<K>,
    bar: &'t ProgressBar,
    /// Whether existing rows stay as they are.
    keeps: bool,
    batch: Vec<(Place, K, Vec<u8>)>,
    bytes: usize,
    rows: u64,
    kept: u64,
    unmerged: u64,
    all_good: bool,
}

struct Outcome {
    written: u64,
    kept: u64,
    refused: Vec<(Place, String, PackError)>,
    /// The time for which it locked the rows.
    took: Duration,
}

impl<'t, K: ShownKey> Import<'t, K> {
    fn new(table: &'t Table<K>, bar: &'t ProgressBar, keeps: bool) -> Self {
        Self {
            table,
            bar,
            keeps,
            batch: Vec::new(),
            bytes: 0,
            rows: 0,
            kept: 0,
            unmerged: 0,
            all_good: true,
        }
    }

    async fn add(&mut self, place: Place, key: K, value: Vec<u8>) -> Result<()> {
        self.bytes += value.len();
        self.batch.push((place, key, value));
        let rows = if self.keeps { KEPT } else { ROWS };
        if self.batch.len() >= rows || self.bytes >= BYTES {
            self.write().await?;
        }
        Ok(())
    }

    fn refuse(&mut self, place: Place, key: &str, error: &dyn Error) -> io::Result<()> {
        self.all_good = false;
        self.bar.suspend(|| output::report(place, key, error))
    }

    async fn finish(mut self, out: &mut impl Write) -> Result<bool> {
        self.write().await?;
        self.merge().await?;
        self.bar.finish_and_clear();
        match self.keeps {
            true => writeln!(out, "{} rows written, {} were there", self.rows, self.kept)?,
            false => writeln!(out, "{} rows written", self.rows)?,
        }
        Ok(self.all_good)
    }

    async fn write(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if self.keeps {
            let inserted = retried(async || {
                let transaction = self.table.database.begin().await;
                self.insert(transaction.map_err(PackError::Database)?, &batch).await
            });
            let outcome = inserted.await?;
            return self.count(outcome).await;
        }
        let rows = batch.iter().map(|(_, key, value)| (*key, value.clone()));
        match self.put(rows.collect()).await {
            // Writing the rows one by one shows which is invalid.
            Err(PackError::Table(_)) => {
                for (place, key, value) in batch {
                    match self.put(vec![(key, value)]).await {
                        Err(refused @ PackError::Table(_)) => self.refuse(place, "", &refused)?,
                        done => done?,
                    }
                }
            }
            done => done?,
        }
        self.merge_if_due().await
    }

    async fn put(&mut self, rows: Vec<(K, Vec<u8>)>) -> std::result::Result<(), PackError> {
        let Table { database, packs, .. } = self.table;
        let count = rows.len() as u64;
        database.run(packs.put(rows)).await?;
        self.rows += count;
        self.unmerged += count;
        Ok(())
    }

    /// Writes the missing rows and commits.
    async fn insert(
        &self,
        mut transaction: Transaction,
        rows: &[(Place, K, Vec<u8>)],
    ) -> std::result::Result<Outcome, PackError> {
        let packs = &self.table.packs;
        let since = Instant::now();
        let mut outcome =
            Outcome { written: 0, kept: 0, refused: Vec::new(), took: Duration::ZERO };
        let keys: Vec<_> = rows.iter().map(|(_, key, _)| *key).collect();
        let present = match transaction.run(packs.present(&keys)).await {
            Ok(present) => present,
            // Writing the rows one by one shows which is invalid.
            Err(PackError::Table(_)) => HashSet::new(),
            Err(error) => return Err(error),
        };
        for (place, key, value) in rows {
            if present.contains(key) {
                outcome.kept += 1;
                continue;
            }
            match transaction.run(packs.insert(*key, value.clone())).await {
                Ok(true) => outcome.written += 1,
                Ok(false) => outcome.kept += 1,
                Err(PackError::Table(problem)) if problem != TableError::Outrun => {
                    let key = match place {
                        Place::Row => key.to_string(),
                        _ => String::new(),
                    };
                    outcome.refused.push((*place, key, problem.into()));
                }
                Err(error) => return Err(error),
            }
        }
        transaction.commit().await.map_err(PackError::Database)?;
        outcome.took = since.elapsed();
        Ok(outcome)
    }

    async fn count(&mut self, outcome: Outcome) -> Result<()> {
        self.rows += outcome.written;
        self.unmerged += outcome.written;
        self.kept += outcome.kept;
        for (place, key, refused) in outcome.refused {
            self.refuse(place, &key, &refused)?;
        }
        // SQLite has no queue, and other clients only poll for the lock.
        if self.table.database.dialect() == Dialect::Sqlite {
            tokio::time::sleep(outcome.took).await;
        }
        self.merge_if_due().await
    }

    async fn merge_if_due(&mut self) -> Result<()> {
        match self.unmerged >= MERGED {
            true => self.merge().await,
            false => Ok(()),
        }
    }

    async fn merge(&mut self) -> Result<()> {
        let Table { database, packs, .. } = self.table;
        database.run(packs.merge(false)).await?;
        self.unmerged = 0;
        Ok(())
    }
}
