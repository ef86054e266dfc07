mod manifest;
mod module;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use opaque_id_core::MasterSecret;
use similar::TextDiff;
use syn::Item;

use self::manifest::{Manifest, SQLX};
use self::module::Module;
use crate::{files, output, source, sqlx_toml};

const KEYS: &str = "opaque-id.keys";

const IGNORED: &str = "opaque-id.keys*";

/// Returns notes for the caller.
pub(crate) fn run(
    out: &mut impl Write,
    url: Option<&str>,
    is_dry: bool,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut notes = Vec::new();
    let mut manifest = Manifest::read()?;
    let keys = |url| output::block_on(opaque_id_schema::read_keys(url, true));
    let columns = url.map(keys).transpose()?.transpose()?;
    let (adapter, state) = manifest.add_crates(url, &mut notes)?;
    manifest.exclude(IGNORED);
    let places = ["src/ids/mod.rs", "src/ids.rs"];
    let file = places.into_iter().find(|file| Path::new(file).exists()).unwrap_or(places[1]);
    let (mut derived, _) = source::read(&[PathBuf::from("src")]).unwrap_or_default();
    derived.retain(|derive| !derive.place.starts_with(file));
    let module = Module::new(adapter[0], columns.as_deref(), &derived);
    let (root, path) = manifest.root();
    let given = module.types.iter().map(|(table, name)| format!("{table}={path}::ids::{name}"));
    let given = given.collect::<Vec<_>>();
    let mut overrides = Vec::new();
    if adapter == SQLX && !given.is_empty() && uses_macros(Path::new("src")) {
        notes.extend(sqlx_toml::write(&mut overrides, &given, url, &[], None)?);
        manifest.enable_sqlx_toml();
    } else if let Some(url) = url {
        notes.extend(output::unread_schemas(url)?);
    }
    let mut names = if path == "crate" { "mod ids;" } else { "pub mod ids;" }.to_owned();
    if path != "crate" && !overrides.is_empty() {
        names += &format!("\nextern crate self as {path};");
    }
    let source = root.as_deref().map(read).transpose()?.flatten();
    let declared = source.and_then(|source| declare(&source, &names));
    let root = root.unwrap_or_else(|| format!("the crate's root, with #[path] of {file}"));
    let step = declared.is_none().then(|| format!("add to {root}: {names}"));
    let ignored = ignoring_keys(read(".gitignore")?.unwrap_or_default());
    let not_in_images = read(".dockerignore")?.map_or_else(String::new, ignoring_keys);
    let ids = read(file)?;
    for (table, name) in &module.types {
        let [row, item] = [format!("/// A row of `{table}`."), format!("struct {name};")];
        let is_item = |line: &str| line.contains(&item) && !line.starts_with("//");
        if ids.as_ref().is_some_and(|ids| !ids.contains(&row) && !ids.lines().any(is_item)) {
            notes.push(format!("{file} has no type for {table}: --dry-run shows one"));
        }
    }
    let ids = ids.unwrap_or_else(|| module.text.clone());
    let undecided = ids.lines().filter(|line| line.starts_with("// Decide ")).count();
    let name = ids.lines().find_map(|line| line.strip_prefix("pub struct ")?.strip_suffix(';'));
    let name = name.unwrap_or("User").to_owned();
    if url.is_none() && !Path::new(file).exists() {
        let note = "without a database the module has no types: delete it if it exists, and pass --database-url or set DATABASE_URL (.env is not read)";
        notes.push(note.to_owned());
    }
    // The secret comes after the line that keeps it out of the repository.
    for (path, new, is_theirs) in [
        (".gitignore", ignored, false),
        (".dockerignore", not_in_images, false),
        ("Cargo.toml", manifest.document.to_string(), false),
        (file, module.text + &state, true),
        ("sqlx.toml", String::from_utf8(overrides)?, true),
        (&root, declared.unwrap_or_default(), false),
    ] {
        notes.extend(write(out, path, &new, is_theirs, is_dry)?);
    }
    // Docker reads the file of the folder that the image is built from.
    if let Some(file) = manifest.of_workspace(".dockerignore")
        && !files::read(&file)?.contains(IGNORED)
    {
        notes.push(format!("add **/{IGNORED} to {}", file.display()));
    }
    let has_keys = Path::new(KEYS).exists();
    if !has_keys && let Some(other) = manifest.find_in_workspace(KEYS) {
        notes.push(format!(
            "{} has a secret already: packages with the same ids need one secret and one module `ids`",
            other.display()
        ));
    }
    if is_dry {
        notes.extend((!has_keys).then(|| format!("{KEYS} gets a new secret and mode 600")));
        notes.extend(step);
        return Ok(notes);
    }
    if !has_keys {
        write_secret().map_err(|error| format!("cannot write {KEYS}: {error}"))?;
        writeln!(out, "wrote {KEYS}")?;
    }
    let next = include_str!("next.txt").replace("{undecided}", &undecided.to_string());
    let next = next
        .replace("{step}", &step.map_or_else(String::new, |step| format!("- {step}\n")))
        .replace("{name}", &name);
    write!(out, "{next}")?;
    Ok(notes)
}

/// Adds the name of the secret to the names that git or Docker ignores.
fn ignoring_keys(ignored: String) -> String {
    let is_key = |line: &str| line.trim_start_matches("**").trim_start_matches('/') == IGNORED;
    // Later exceptions prevail.
    let mut decisive = ignored.lines().filter(|line| line.starts_with('!') || is_key(line));
    if decisive.next_back().is_some_and(is_key) {
        return ignored;
    }
    let end = if ignored.is_empty() || ignored.ends_with('\n') { "" } else { "\n" };
    format!("{ignored}{end}/{IGNORED}\n")
}

/// Adds the lines to the declarations of modules. `None` means that no place is certain.
fn declare(source: &str, names: &str) -> Option<String> {
    let items = syn::parse_file(source).ok()?.items;
    let modules = items.iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module),
        _ => None,
    });
    if let Some(ids) = modules.clone().find(|module| module.ident == "ids") {
        return ids.semi.map(|_| source.to_owned());
    }
    let mut modules = modules.filter_map(|module| Some((&module.ident, module.semi?)));
    let before = modules.clone().rfind(|(name, _)| name.to_string().as_str() < "ids");
    let declared = match before.or(modules.next_back()) {
        // No line after another module is between a module and its attributes.
        Some((_, end)) => {
            let lines = source.split_inclusive('\n').take(end.span.end().line);
            let (before, after) = source.split_at(lines.map(str::len).sum());
            format!("{}\n{names}\n{after}", before.trim_end_matches(['\r', '\n']))
        }
        None => format!("{names}\n\n{source}"),
    };
    // Attributes and documentation of the crate must come first.
    let items = syn::parse_file(&declared).ok()?.items;
    let is_ours =
        |item: &Item| matches!(item, Item::Mod(it) if it.ident == "ids" && it.attrs.is_empty());
    items.iter().any(is_ours).then_some(declared)
}

/// Writes a file, or prints the difference of a dry run. A file of the user's is kept, and a note says so.
fn write(
    out: &mut impl Write,
    path: &str,
    new: &str,
    is_theirs: bool,
    is_dry: bool,
) -> Result<Option<String>, Box<dyn Error>> {
    let old = read(path)?;
    let is_crlf = |old: &String| old.contains("\r\n") && !old.replace("\r\n", "").contains('\n');
    let crlf = new.replace("\r\n", "\n").replace('\n', "\r\n");
    let new = if old.as_ref().is_some_and(is_crlf) { &crlf } else { new };
    if new.is_empty() || old.as_deref() == Some(new) {
        return Ok(None);
    }
    let is_kept = is_theirs && old.is_some();
    if is_dry {
        let from = if old.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
        let diff = TextDiff::from_lines(old.as_deref().unwrap_or_default(), new);
        write!(out, "{}", diff.unified_diff().header(&from, &format!("b/{path}")))?;
    } else if !is_kept {
        let path = Path::new(path);
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        files::write(path, new)?;
        writeln!(out, "wrote {}", path.display())?;
    }
    let note = || format!("{path} exists and stays as it is; --dry-run shows what differs");
    Ok(is_kept.then(note))
}

fn read(path: &str) -> Result<Option<String>, String> {
    let path = Path::new(path);
    path.exists().then(|| files::read(path)).transpose()
}

fn write_secret() -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    MasterSecret::generate().expose_hex(|hex| writeln!(options.open(KEYS)?, "0:{hex}"))
}

fn uses_macros(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
    ["query!(", "query_as!(", "query_scalar!("].iter().any(|name| text.contains(name))
        || entries.any(|entry| uses_macros(&entry.path()))
}
