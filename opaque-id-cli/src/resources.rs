use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use opaque_id_core::__private::Prefixes;
use opaque_id_core::form::FormKind;
use opaque_id_core::inspect::Inspection;
use opaque_id_core::key::KeyKind;
use toml_edit::{DocumentMut, Item, TableLike};

use crate::args::{form_kind, key_kind};
use crate::files;
use crate::output::json;
use crate::source::Derive;

const NAME: &str = "opaque-id.toml";

pub(crate) struct Resources {
    pub(crate) file: PathBuf,
    pub(crate) all: BTreeMap<String, ResourceSettings>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct ResourceSettings {
    pub(crate) prefix: String,
    pub(crate) key: KeyKind,
    pub(crate) form: FormKind,
    pub(crate) domain: String,
    pub(crate) table: Option<String>,
}

impl ResourceSettings {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            key: KeyKind::UUID7,
            form: FormKind::TEXT,
            domain: prefix.to_owned(),
            table: None,
        }
    }

    pub(crate) fn is_uuid(&self) -> bool {
        matches!(self.form, FormKind::UUID | FormKind::MAPPED_UUID)
    }
}

impl Resources {
    pub(crate) fn read(
        given: Option<&Path>,
        trusts_sudo: bool,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let file = match given {
            Some(file) => file.to_owned(),
            None => match find(&std::env::current_dir()?) {
                Some(file) => {
                    check_owner(&file, trusts_sudo)?;
                    file
                }
                None => return Ok(None),
            },
        };
        let text = files::read(&file).map_err(|error| {
            format!("{error}; `opaque-id resources` prints what belongs into it")
        })?;
        let all = parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Some(Self { file, all }))
    }
}

impl Resources {
    /// Returns one resource by the text's prefix, or all with UUIDs.
    pub(crate) fn of(&self, found: &Inspection) -> Vec<&ResourceSettings> {
        match (&found.prefix, found.form) {
            (Some(prefix), _) => {
                let of_cursor = || self.all.get(found.cursor_of.as_deref()?);
                self.all.get(prefix).or_else(of_cursor).into_iter().collect()
            }
            (None, Some("uuid")) => self.all.values().filter(|of| of.is_uuid()).collect(),
            (None, _) => Vec::new(),
        }
    }

    /// Returns the resources whose ids are UUIDs of any version.
    pub(crate) fn mapped_uuid(&self) -> Vec<&ResourceSettings> {
        self.all.values().filter(|of| of.form == FormKind::MAPPED_UUID).collect()
    }
}

fn find(folder: &Path) -> Option<PathBuf> {
    let files = folder.ancestors().map(|folder| folder.join(NAME));
    files.into_iter().find(|file| file.is_file())
}

/// A found file of another user could determine how ids are opened. A named file is accepted.
#[cfg(unix)]
fn check_owner(file: &Path, trusts_sudo: bool) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let user = rustix::process::geteuid().as_raw();
    let by_sudo = std::env::var("SUDO_UID").ok().filter(|_| trusts_sudo);
    let by_sudo = by_sudo.and_then(|id| id.parse().ok());
    // The owner of a link chooses its file.
    for found in [file.symlink_metadata(), file.metadata()] {
        let owner =
            found.map_err(|error| format!("cannot read {}: {error}", file.display()))?.uid();
        if !is_trusted(owner, user, by_sudo) {
            return Err(format!(
                "expected {} to belong to you (user {user}) or to root, found user {owner}: if you trust them, name the file by \
                 --resources or OPAQUE_ID_RESOURCES",
                file.display()
            ));
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path, _: bool) -> Result<(), String> {
    Ok(())
}

/// This is git's rule for folders: root trusts the user who became root by sudo, and everyone trusts root.
#[cfg(unix)]
fn is_trusted(owner: u32, user: u32, by_sudo: Option<u32>) -> bool {
    owner == user || owner == 0 || (user == 0 && Some(owner) == by_sudo)
}

fn parse(text: &str) -> Result<BTreeMap<String, ResourceSettings>, Box<dyn Error>> {
    let document: DocumentMut = text.parse()?;
    if let Some((other, _)) = document.iter().find(|(name, _)| *name != "resource") {
        return Err(format!("expected tables such as `[resource.user]`, found `{other}`").into());
    }
    let Some(tables) = document.get("resource") else {
        return Ok(BTreeMap::new());
    };
    let tables = table(tables, "resource")?;
    let resources = tables.iter().map(|(prefix, resource)| {
        let name = format!("resource.{prefix}");
        let settings = settings(prefix, table(resource, &name)?);
        let settings = settings.map_err(|error| format!("`[{name}]`: {error}"))?;
        Ok((prefix.to_owned(), settings))
    });
    let resources: BTreeMap<String, ResourceSettings> =
        resources.collect::<Result<_, Box<dyn Error>>>()?;
    let mut prefixes = Prefixes::default();
    for (prefix, settings) in &resources {
        let is_tagged = settings.form == FormKind::TAGGED;
        prefixes.claim(prefix, (), is_tagged).map_err(|(other, ())| {
            format!("`[resource.{prefix}]`: {}", looks_like_cursors(prefix, &format!("`{other}`")))
        })?;
    }
    Ok(resources)
}

/// The domain matters only if clients have ids of the resource.
fn looks_like_cursors(prefix: &str, other: &str) -> String {
    format!(
        "ids of `{prefix}` in the tagged form look like cursors of {other}: give it another prefix, with this one as domain, \
         or another form"
    )
}

fn table<'t>(item: &'t Item, name: &str) -> Result<&'t dyn TableLike, String> {
    item.as_table_like().ok_or_else(|| format!("expected a table `[{name}]`"))
}

fn settings(prefix: &str, options: &dyn TableLike) -> Result<ResourceSettings, String> {
    let mut found = ResourceSettings::new(prefix);
    for (option, value) in options.iter() {
        let text = value.as_str().ok_or("expected only strings")?;
        match option {
            "key" => found.key = key_kind(text)?,
            "form" => found.form = form_kind(text)?,
            "domain" => found.domain = text.to_owned(),
            "table" => found.table = Some(text.to_owned()),
            _ => {
                return Err(format!(
                    "expected `key`, `form`, `domain` or `table`, found `{option}`"
                ));
            }
        }
    }
    Ok(found)
}

/// Derives with ids that may be confused are problems.
pub(crate) fn write(mut derives: Vec<Derive>, problems: &mut Vec<String>) -> io::Result<String> {
    // A stable sort keeps the first derive in the source's order.
    derives.sort_by(|a, b| a.prefix.cmp(&b.prefix));
    let mut text = "# The resources of this application, for the command `opaque-id`, which also writes this file:\n\
         # opaque-id resources > opaque-id.toml\n"
        .to_owned();
    let mut prefixes = Prefixes::default();
    for (i, derive) in derives.iter().enumerate() {
        let Derive { prefix, key, form, name, place, .. } = derive;
        if let Err((other, kept)) = prefixes.claim(prefix, i, form == "tagged") {
            let kept = format!("`{}` ({})", derives[kept].name, derives[kept].place);
            problems.push(match other == prefix {
                // Two types that are never compiled together may have one prefix, in two files.
                true => format!(
                    "{place}: `{name}` has the prefix `{prefix}` of {kept}: give either another prefix, with this one as domain, \
                     or a file of its own (--resources)"
                ),
                false => format!("{place}: {}", looks_like_cursors(prefix, &kept)),
            });
            continue;
        }
        let _ = write!(text, "\n[resource.{prefix}]\nkey = \"{key}\"\nform = \"{form}\"\n");
        for (option, value) in [("domain", &derive.domain), ("table", &derive.table)] {
            if let Some(value) = value {
                // A string of JSON is a string of TOML.
                let _ = writeln!(text, "{option} = {}", json(value)?);
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn owners_are_the_user_and_root_and_who_became_root() {
        for (owner, user, by_sudo, expected) in [
            (1000, 1000, None, true),
            (0, 1000, None, true),
            (1001, 1000, None, false),
            // Any user can set the variable for themselves.
            (1001, 1000, Some(1001), false),
            (1000, 0, None, false),
            (1000, 0, Some(1000), true),
            (1001, 0, Some(1000), false),
        ] {
            let found = is_trusted(owner, user, by_sudo);
            assert_eq!(found, expected, "{owner} {user} {by_sudo:?}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_derive() {
        let parsed = parse("[resource.user]\n[resource.order]\nkey = \"i32\"\nform = \"uuid\"");
        let parsed = parsed.expect("valid");
        let user = &parsed["user"];
        assert_eq!((user.key, user.form), (KeyKind::UUID7, FormKind::TEXT));
        assert_eq!(parsed["order"].key, KeyKind::I32);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("[user]", "found `user`"),
            ("resource = 1", "`[resource]`"),
            ("[resource]\nuser = 1", "`[resource.user]`"),
            ("[resource.user]\nkind = \"i64\"", "found `kind`"),
            ("[resource.user]\nkey = 64", "only strings"),
            ("[resource.user]\nkey = \"i16\"", "unknown key `i16`"),
            ("[resource.user]\nform = \"Text\"", "unknown form `Text`"),
            ("[resource.user]\n[resource.user]", "duplicate key"),
        ] {
            let error = parse(text).err().expect("a mistake").to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
