//! How much smaller packs are than values, by rows per pack, beside the whole set in one zstd frame of the same level:
//! `cargo xtask bench packs-ratios`.
//!
//! The sets are Debian's package index as apt has it, crates.io's index as cargo has it, by time, and the commits of the
//! repository that `cargo bench -p opaque-id-benches --bench packs-ratios -- --git REPOSITORY` names. A set that this
//! machine does not have is named, and left out. The first fifth of the rows trains the dictionaries, and the others are
//! measured, all of them. `cargo test` measures generated rows.

use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use opaque_id_benches::{Result, is_smoke};
use opaque_id_packs::format::{Codec, Dictionary, Pack, Padding, Row, Sealer};

type Rows = Vec<Vec<u8>>;

const LEVELS: [i32; 3] = [3, 9, 19];
const ROWS_PER_PACK: [usize; 7] = [1, 5, 10, 25, 50, 100, 1_000];
const DICTIONARY_KIB: [usize; 3] = [0, 32, 112];

/// zstd needs no more, and at level 19 reads some MB per second.
const MAX_SET: usize = 60 << 20;

fn main() -> Result {
    let mut csv =
        String::from("set,level,dictionary_kib,rows_per_pack,ratio,of_whole,stored_ratio\n");
    if !is_smoke() {
        let git = env::args()
            .skip_while(|arg| arg != "--git")
            .nth(1)
            .map(PathBuf::from);
        let sets = [
            ("debian", debian()),
            ("crates", crates()),
            (
                "git",
                git.ok_or("no --git REPOSITORY".into())
                    .and_then(|folder| commits(&folder)),
            ),
        ];
        for (name, rows) in sets {
            match rows {
                Ok(rows) => measure(name, rows, &LEVELS, &mut csv)?,
                Err(error) => eprintln!("{name} is left out: {error}"),
            }
        }
    } else {
        let event = |i: u32| {
            format!(
                r#"{{"actor":"user {}","what":"login"}}"#,
                i.wrapping_mul(i) % 997
            )
        };
        let events = (0..20_000).map(|i| event(i).into_bytes()).collect();
        measure("events", events, &[3], &mut csv)?;
    }
    if env::args().any(|arg| arg == "--publish") {
        fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/results/packs-ratios.csv"),
            csv,
        )?;
    }
    Ok(())
}

fn debian() -> Result<Rows> {
    let files = stdout(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(FILENAME)",
        "Created-By: Packages",
    ]))?;
    let mut text = String::new();
    for file in String::from_utf8(files)?.lines() {
        let file = stdout(Command::new("/usr/lib/apt/apt-helper").args(["cat-file", file]))?;
        text += str::from_utf8(&file)?;
    }
    match text.is_empty() {
        true => Err("apt has no index: run apt-get update".into()),
        false => Ok(text
            .split_terminator("\n\n")
            .map(|row| row.as_bytes().to_vec())
            .collect()),
    }
}

/// The records of versions in cargo's cache: between zeros, beside the versions' numbers.
fn crates() -> Result<Rows> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let mut folders = vec![home.ok_or("no home folder")?.join("registry/index")];
    let mut rows = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let cache = fs::read(path)?;
                let parts = cache.split(|byte| *byte == 0);
                rows.extend(
                    parts
                        .filter(|part| part.starts_with(b"{\"name\""))
                        .map(<[u8]>::to_vec),
                );
            }
        }
    }
    // The time is at the end of a record.
    let time = |row: &Vec<u8>| {
        let text = String::from_utf8_lossy(row);
        text.split_once("\"pubtime\"")
            .map(|(_, time)| time.to_owned())
    };
    rows.sort_by_cached_key(time);
    match rows.is_empty() {
        true => Err("cargo has no index".into()),
        false => Ok(rows),
    }
}

fn commits(repository: &Path) -> Result<Rows> {
    let format = "--format=%H %P%n%an <%ae> %aI%n%cn <%ce> %cI%n%B";
    let log = stdout(Command::new("git").arg("-C").arg(repository).args([
        "log",
        "--reverse",
        "-z",
        format,
    ]))?;
    Ok(log.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

fn stdout(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

fn measure(name: &str, mut rows: Rows, levels: &[i32], csv: &mut String) -> Result {
    let mut bytes = 0;
    rows.retain(|row| {
        bytes += row.len();
        bytes <= MAX_SET
    });
    let (training, rows) = rows.split_at(rows.len() / 5);
    let values: usize = rows.iter().map(Vec::len).sum();
    println!(
        "\n{name}: {} rows, {} bytes each",
        rows.len(),
        values / rows.len()
    );
    for level in levels {
        let whole = frame(&Codec::new(*level, None)?, rows)?;
        let ratio = values as f64 / whole as f64;
        println!(
            "level {level}, the whole set {ratio:.2}{:26}of the whole, stored",
            ""
        );
        writeln!(csv, "{name},{level},0,all,{ratio:.4},1,")?;
        for kib in DICTIONARY_KIB {
            let dictionary = match kib {
                0 => None,
                _ => Some(Dictionary::new(
                    1,
                    zstd::dict::from_samples(training, kib << 10)?,
                )),
            };
            let codec = Codec::new(*level, dictionary)?;
            for count in ROWS_PER_PACK {
                let mut frames = 0;
                let mut stored = 0;
                for (i, rows) in rows.chunks(count).enumerate() {
                    frames += frame(&codec, rows)?;
                    stored += body(&codec, i * count, rows)?;
                }
                let ratio = values as f64 / frames as f64;
                let of_whole = whole as f64 / frames as f64;
                let stored = values as f64 / stored as f64;
                println!(
                    "{kib:>7} KiB dictionary {count:>5} rows {ratio:>7.2} {of_whole:>16.3} {stored:>9.2}"
                );
                writeln!(
                    csv,
                    "{name},{level},{kib},{count},{ratio:.4},{of_whole:.4},{stored:.4}"
                )?;
            }
        }
    }
    Ok(())
}

/// The bytes of values alone in one frame.
fn frame(codec: &Codec, rows: &[Vec<u8>]) -> Result<usize> {
    Ok(Row::Value(rows.concat())
        .encode(codec, Padding::None)?
        .len())
}

/// The bytes of a body as a table stores it, with keys like UUIDv7, a millisecond apart.
fn body(codec: &Codec, first: usize, rows: &[Vec<u8>]) -> Result<usize> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let key = |i: usize| (i as u128) << 80 | u128::from(hasher.hash_one(i)) << 10;
    let rows = (first..).map(key).zip(rows.iter().cloned());
    let pack = Pack {
        id: key(first),
        end: None,
        rows: rows.collect(),
    };
    let plaintext = pack.encode(codec, Padding::Steps(64))?;
    Ok(plaintext.len() + Sealer::OVERHEAD)
}
