//! `opaque-id init`: opaque-id in an existing project.

mod manifest;
mod module;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use opaque_id_core::MasterSecret;
use similar::TextDiff;

use self::manifest::{Manifest, SQLX};
use self::module::Module;
use crate::{files, output, sqlx_toml};

const KEYS: &str = "opaque-id.keys";

/// Changes the project, or prints the changes. Returns notes for the caller.
pub(crate) fn run(
    out: &mut impl Write,
    url: Option<&str>,
    is_dry: bool,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut notes = Vec::new();
    let mut manifest = Manifest::read()?;
    let read = |url| output::block_on(opaque_id_schema::sampled_key_columns(url, true));
    let columns = url.map(read).transpose()?.transpose()?;
    let (adapter, state) = manifest.add_crates(&mut notes);
    let module = Module::new(adapter[0], columns.as_deref());
    let (root, library) = manifest.root();
    let path = library.as_deref().unwrap_or("crate");
    let given = module.types.iter().map(|(table, name)| format!("{table}={path}::ids::{name}"));
    let given: Vec<_> = given.collect();
    let mut overrides = Vec::new();
    if adapter == SQLX && !given.is_empty() && uses_macros(Path::new("src")) {
        notes.extend(sqlx_toml::write(&mut overrides, &given, url, &[], None)?);
        if manifest.enable_sqlx_toml().is_none() {
            notes.push("sqlx.toml needs sqlx's feature `sqlx-toml`: add it".to_owned());
        }
    }
    let mut names = if library.is_some() { "pub mod ids;\n" } else { "mod ids;\n" }.to_owned();
    if let (Some(library), false) = (&library, overrides.is_empty()) {
        names += &format!("extern crate self as {library};\n");
    }
    let source = files::read(Path::new(root))?;
    let modules = source.lines().filter(|line| line.trim_start_matches("pub ").starts_with("mod "));
    let mut modules = modules.filter(|line| line.ends_with(';'));
    let before = modules.clone().rfind(|line| line.trim_start_matches("pub ") < "mod ids;");
    let declared = match before.or(modules.next_back()) {
        _ if source.contains("mod ids;") => Some(source.clone()),
        // No line after another module is between a module and its attributes.
        last => last.map(|last| source.replacen(last, &format!("{last}\n{}", names.trim_end()), 1)),
    };
    let step = declared.is_none().then(|| format!("- add to {root}: {}", names.replace('\n', " ")));
    let mut ignored = fs::read_to_string(".gitignore").unwrap_or_default();
    if ignored.lines().all(|line| line.trim_start_matches('/') != KEYS) {
        let end = if ignored.is_empty() || ignored.ends_with('\n') { "" } else { "\n" };
        ignored += &format!("{end}/{KEYS}\n");
    }
    // The secret comes after the line that keeps it out of the repository.
    let files = [
        (".gitignore", ignored, false),
        ("Cargo.toml", manifest.document.to_string(), false),
        ("src/ids.rs", module.text + &state, true),
        ("sqlx.toml", String::from_utf8(overrides)?, true),
        (root, declared.unwrap_or(source), false),
    ];
    for (path, new, is_theirs) in files {
        let old = fs::read_to_string(path).ok();
        let is_kept = is_theirs && old.is_some();
        if new.is_empty() || old.as_ref() == Some(&new) {
            continue;
        }
        if is_kept {
            notes.push(format!("{path} exists and stays as it is; --dry-run shows what differs"));
        }
        if is_dry {
            let from = old.as_ref().map_or("/dev/null".to_owned(), |_| format!("a/{path}"));
            let diff = TextDiff::from_lines(old.as_deref().unwrap_or_default(), &new);
            write!(out, "{}", diff.unified_diff().header(&from, &format!("b/{path}")))?;
        } else if !is_kept {
            files::write(Path::new(path), &new)?;
            writeln!(out, "wrote {path}")?;
        }
    }
    match (Path::new(KEYS).exists(), is_dry) {
        (true, _) => {}
        (false, true) => notes.push(format!("{KEYS} gets a new secret and mode 600")),
        (false, false) => {
            write_secret().map_err(|error| format!("cannot write {KEYS}: {error}"))?;
            writeln!(out, "wrote {KEYS}")?;
        }
    }
    if !is_dry {
        let name = module.types.first().map_or("User", |(_, name)| name);
        let next = include_str!("next.txt").replace("{undecided}", &module.undecided.to_string());
        let next = next.replace("{step}", &step.map_or(String::new(), |step| step + "\n"));
        write!(out, "{}", next.replace("{name}", name))?;
    }
    Ok(notes)
}

fn write_secret() -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(KEYS)?;
    MasterSecret::generate().expose_hex(|hex| writeln!(file, "0:{hex}"))
}

fn uses_macros(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => uses_macros(&entry.path()),
        _ => fs::read_to_string(entry.path()).is_ok_and(|text| {
            ["query!(", "query_as!(", "query_scalar!("].iter().any(|name| text.contains(name))
        }),
    })
}
