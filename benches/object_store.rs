//! Requests and keys that a list of one hour among a month of objects takes, by the prefixes of the hour and by its first
//! key, relative to a full list (Brown, *Leveraging ULIDs to create order in unordered datastores*, 2020). `cargo xtask bench
//! object-store`.
//!
//! The store is an ordered map with the rules of S3's `ListObjectsV2`: keys in the order of their bytes, a prefix, a key to
//! start after, a thousand keys per answer. A folder per prefix has the same keys as files. Requests and keys are what
//! carries over to a real store; its times do not.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::{Bound, Range};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_benches::{Result, is_smoke, publish};
use opaque_id_core::generator::{Random, SystemRandom};
use opaque_id_core::key::{TimeKey, Ulid};

/// What one answer has at most.
const PAGE: usize = 1_000;
const DAYS: u64 = 30;
/// Characters of a folder's name: 17 minutes and 28 seconds.
const FOLDER: usize = 6;

#[derive(Default)]
struct Bucket(BTreeSet<String>);

/// What a client has asked for and received.
#[derive(Default)]
struct Work {
    requests: usize,
    keys: usize,
}

impl Bucket {
    /// Answers one request: a page, and whether more follows.
    fn list<'b>(&'b self, prefix: &str, start_after: Option<&str>) -> (Vec<&'b str>, bool) {
        let start = match start_after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let keys = self.0.range::<str, _>((start, Bound::Unbounded));
        let mut keys = keys.map(String::as_str).take_while(|key| key.starts_with(prefix));
        let page = keys.by_ref().take(PAGE).collect();
        (page, keys.next().is_some())
    }

    /// Lists page by page while the last key of a page is not beyond `end`.
    fn list_all<'b>(
        &'b self,
        prefix: &str,
        start_after: Option<&'b str>,
        end: Option<&str>,
        work: &mut Work,
    ) -> Vec<&'b str> {
        let (mut found, mut after) = (Vec::new(), start_after);
        loop {
            let (page, is_truncated) = self.list(prefix, after);
            work.requests += 1;
            work.keys += page.len();
            after = page.last().copied();
            found.extend(page);
            let is_beyond = end.is_some_and(|end| after.is_some_and(|last| last > end));
            if !is_truncated || is_beyond {
                return found;
            }
        }
    }
}

fn main() -> Result {
    let count = if is_smoke() { 10_000 } else { 1_000_000 };
    let month = UNIX_EPOCH + Duration::from_secs(1_790_812_800); // 2026-10-01
    let millis = DAYS * 24 * 3_600_000;
    let mut bucket = Bucket::default();
    while bucket.0.len() < count {
        let after = Duration::from_millis(SystemRandom.next_u64() % millis);
        let millis = (month + after).duration_since(UNIX_EPOCH)?.as_millis();
        let random =
            u128::from(SystemRandom.next_u64()) << 64 | u128::from(SystemRandom.next_u64());
        let ulid = Ulid::from_parts(u64::try_from(millis)?, random);
        bucket.0.insert(ulid.to_string());
    }
    // Neither end is that of a prefix.
    let start = month + Duration::from_millis(millis / 3 + 12_345);
    let hour = start..start + Duration::from_secs(3_600);

    println!("{count} keys of {DAYS} days, and those of an hour among them");
    println!("{:46} {:>8} {:>9} {:>6}", "", "requests", "keys read", "found");
    let mut report =
        Report { csv: String::from("case,requests,keys_read,found\n"), expected: None };
    let bounds = Ulid::bounds(hour.clone());
    let (first, last) = (bounds.start().to_string(), bounds.end().to_string());
    let is_within = |key: &&str| (&*first..=&*last).contains(key);
    report.case("object store: full list", |work| {
        let found = bucket.list_all("", None, None, work);
        Ok(found.into_iter().filter(is_within).count())
    })?;
    report.case("object store: prefixes of the hour", |work| {
        let prefixes = Ulid::prefixes(hour.clone());
        let lists = prefixes.iter().map(|prefix| bucket.list_all(prefix, None, None, work).len());
        Ok(lists.sum())
    })?;
    report.case("object store: prefixes of six characters", |work| {
        let mut found = Vec::new();
        for prefix in folders(&hour) {
            found.extend(bucket.list_all(&prefix, None, None, work));
        }
        Ok(found.into_iter().filter(is_within).count())
    })?;
    report.case("object store: from the first key to the last", |work| {
        let found = bucket.list_all("", Some(&first), Some(&last), work);
        Ok(found.into_iter().filter(is_within).count())
    })?;

    let count = |keys: Vec<String>| keys.iter().filter(|key| is_within(&key.as_str())).count();
    let root = tempfile::tempdir()?;
    for key in &bucket.0 {
        let folder = root.path().join(&key[..FOLDER]);
        let file = folder.join(&key[FOLDER..]);
        if let Err(error) = File::create(&file) {
            match folder.exists() {
                true => return Err(error.into()),
                false => fs::create_dir(&folder)?,
            }
            File::create(file)?;
        }
    }
    report.case("folders: all", |work| {
        let mut found = 0;
        for folder in fs::read_dir(root.path())? {
            let name = folder?.file_name().into_string().map_err(|_| "not of us")?;
            found += count(read(root.path(), &name, work)?);
        }
        Ok(found)
    })?;
    report.case("folders: those of the hour", |work| {
        let mut found = 0;
        for name in folders(&hour) {
            found += count(read(root.path(), &name, work)?);
        }
        Ok(found)
    })?;
    publish("object-store", &report.csv)
}

/// The folders, or prefixes of as many characters, that together have all of a range's keys.
fn folders(range: &Range<SystemTime>) -> Vec<String> {
    let mut folders = Ulid::prefixes(range.clone());
    for prefix in &mut folders {
        prefix.truncate(FOLDER);
    }
    folders.dedup();
    folders
}

/// Reads one folder.
fn read(root: &Path, name: &str, work: &mut Work) -> Result<Vec<String>> {
    work.requests += 1;
    let mut keys = Vec::new();
    let files = match fs::read_dir(root.join(name)) {
        // Nothing happened in its minutes.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(keys),
        files => files?,
    };
    for file in files {
        let rest = file?.file_name().into_string().map_err(|_| "not of us")?;
        keys.push(name.to_owned() + &rest);
    }
    work.keys += keys.len();
    Ok(keys)
}

struct Report {
    csv: String,
    /// What the first case has found, and all others must.
    expected: Option<usize>,
}

impl Report {
    fn case(&mut self, name: &str, list: impl FnOnce(&mut Work) -> Result<usize>) -> Result {
        let mut work = Work::default();
        let found = list(&mut work)?;
        let expected = *self.expected.get_or_insert(found);
        if found != expected {
            return Err(format!("{name}: expected {expected} keys, found {found}").into());
        }
        let Work { requests, keys } = work;
        println!("{name:46} {requests:>8} {keys:>9} {found:>6}");
        writeln!(self.csv, "{name},{requests},{keys},{found}")?;
        Ok(())
    }
}
