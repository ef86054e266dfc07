//! Real rows: Debian's package index from apt, crates.io's index from cargo in the order of time, and the commits of the repository that
//! `--git REPOSITORY` names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use opaque_id_tests::Result;

type Rows = Vec<Vec<u8>>;

/// zstd needs no more, and reads only some MB per second at level 19.
const MAX_SET: usize = 60 << 20;

pub(crate) fn all() -> Vec<(&'static str, Rows)> {
    let git = env::args().skip_while(|arg| arg != "--git").nth(1);
    let git = git.ok_or("no --git REPOSITORY".into());
    let sets = [
        ("debian", debian()),
        ("crates", crates()),
        ("git", git.and_then(|folder| commits(Path::new(&folder)))),
    ];
    let found = sets.into_iter().filter_map(|(name, rows)| match rows {
        Ok(mut rows) => {
            let mut bytes = 0;
            rows.retain(|row| {
                bytes += row.len();
                bytes <= MAX_SET
            });
            Some((name, rows))
        }
        Err(error) => {
            eprintln!("{name} is left out: {error}");
            None
        }
    });
    found.collect()
}

pub(crate) fn generated(count: u32) -> Rows {
    let event = |i: u32| {
        let user = i.wrapping_mul(i) % 997;
        format!(r#"{{"actor":"user {user}","what":"login"}}"#).into_bytes()
    };
    (0..count).map(event).collect()
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
        false => Ok(text.split_terminator("\n\n").map(|row| row.as_bytes().to_vec()).collect()),
    }
}

/// The records are between zeros, next to the versions' numbers.
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
                    parts.filter(|part| part.starts_with(b"{\"name\"")).map(<[u8]>::to_vec),
                );
            }
        }
    }
    // The time is at the end of a record.
    let time = |row: &Vec<u8>| {
        let text = String::from_utf8_lossy(row);
        text.split_once("\"pubtime\"").map(|(_, time)| time.to_owned())
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
