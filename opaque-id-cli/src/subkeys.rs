//! Files of subkeys: what opens the ids of one resource on a machine that must not have the master secrets.
//!
//! A line is a JSON object, so that nothing takes it for an entry of a keyring, or such an entry for a line. Each has all that is to
//! be known of its resource: lines of several files can be joined, and nothing else has to say how ids are opened.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use opaque_id_core::__private::IdSubkeys;
use opaque_id_core::Keyring;
use opaque_id_core::keyring::KeyId;
use serde::{Deserialize, Serialize};

use crate::args::{self, FormKind, KeyKind, Secrets, name};
use crate::functions::hex;
use crate::output::{self, Source, line};
use crate::resource;
use crate::resources::{Described, Resources};

/// The subkeys of a resource under one secret.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    subkeys_of: String,
    key: String,
    form: String,
    domain: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audience: Option<String>,
    key_id: u8,
    /// Of the secret, and no secret.
    check_value: String,
    subkeys: String,
}

/// A file, and its resources by their prefixes.
pub(crate) struct Subkeys {
    file: String,
    all: BTreeMap<String, OfResource>,
}

struct OfResource {
    described: Described,
    audience: Option<String>,
    by_key_id: BTreeMap<u8, (String, Box<IdSubkeys>)>,
}

/// Prints the lines of a resource, one per secret.
pub(crate) fn export(
    out: &mut impl Write,
    args: &args::Resource,
    keyring: &Keyring,
) -> Result<(), Box<dyn Error>> {
    let (prefix, described) = resource::named(args)?;
    let (key, form) =
        (described.key.unwrap_or(KeyKind::Uuid7), described.form.unwrap_or(FormKind::Text));
    if matches!(form, FormKind::Mapped | FormKind::MappedUuid) {
        return Err(
            format!("`{prefix}` is mapped: its ids are not sealed, so it has no subkeys").into()
        );
    }
    resource::check(&prefix, &described, keyring)?;
    let of_audience = resource::of_audience(args, keyring);
    let domain = described.domain.as_deref().unwrap_or(&prefix);
    writeln!(
        out,
        "# Subkeys of `{prefix}`, for `opaque-id open --keys-file`. Keep this file as you keep a secret (mode 600): whoever has it\n\
         # opens every id of `{prefix}`, and can make them up with other tools."
    )?;
    for key_id in keyring.key_ids() {
        let (Some(subkeys), Some(check_value)) = (
            of_audience.with_id_subkeys(key_id, domain, |bytes| hex(bytes)),
            keyring.check_value(key_id),
        ) else {
            continue;
        };
        line(
            out,
            &Line {
                subkeys_of: prefix.clone(),
                key: name(key),
                form: name(form),
                domain: domain.to_owned(),
                table: described.table.clone(),
                audience: args.audience.clone(),
                key_id: key_id.get(),
                check_value: check_value.to_string(),
                subkeys,
            },
        )?;
    }
    Ok(())
}

/// The lines of a text that are no comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// What a file of subkeys says of its resources.
pub(crate) fn read(file: PathBuf) -> Result<Option<Resources>, Box<dyn Error>> {
    match output::source(&Secrets { keys_file: Some(file), shared_keys_file: None })? {
        Source::Subkeys(subkeys) => Ok(Some(subkeys.resources())),
        Source::Keyring(_) => Err("expected subkeys, as `opaque-id export-subkeys` prints them, found secrets, which this command does not need".into()),
    }
}

impl Subkeys {
    /// Returns whether a text has subkeys, and not entries of a keyring.
    pub(crate) fn are_in(text: &str) -> bool {
        lines(text).next().is_some_and(|(_, line)| line.starts_with('{'))
    }

    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (number, line) in lines(text) {
            add(&mut all, line).map_err(|error| format!("{file}: line {number}: {error}"))?;
        }
        Ok(Self { file: file.to_owned(), all })
    }

    /// What the file says of its resources, as a file of resources does.
    pub(crate) fn resources(&self) -> Resources {
        let all = self.all.iter();
        let all = all.map(|(prefix, of)| (prefix.clone(), of.described.clone()));
        Resources { file: self.file.clone().into(), all: all.collect() }
    }

    /// Checks that the options name nothing else.
    pub(crate) fn check(&self, args: &args::Resource) -> Result<(), String> {
        match (&args.prefix, &args.audience) {
            (Some(prefix), _) if !self.all.contains_key(prefix) => {
                Err(format!("expected subkeys of `{prefix}`, found {}", self.holds()))
            }
            (_, Some(audience)) if self.all.values().any(|of| of.audience != args.audience) => Err(
                format!("expected subkeys of the audience {audience:?}, found {}", self.holds()),
            ),
            _ => Ok(()),
        }
    }

    pub(crate) fn get(&self, prefix: &str, key_id: KeyId) -> Option<&IdSubkeys> {
        Some(&self.all.get(prefix)?.by_key_id.get(&key_id.get())?.1)
    }

    pub(crate) fn check_value(&self, prefix: &str, key_id: KeyId) -> Option<&str> {
        Some(&self.all.get(prefix)?.by_key_id.get(&key_id.get())?.0)
    }

    /// What is in the file, for errors.
    pub(crate) fn holds(&self) -> String {
        let names = self.all.iter().map(|(prefix, of)| match &of.audience {
            Some(audience) => format!("`{prefix}` for the audience {audience:?}"),
            None => format!("`{prefix}`"),
        });
        let names = names.collect::<Vec<_>>().join(", ");
        format!("{}, which has only the subkeys that open ids and cursors of {names}", self.file)
    }
}

fn add(all: &mut BTreeMap<String, OfResource>, line: &str) -> Result<(), String> {
    // The parser's own words repeat what they found, which may be a secret.
    let line: Line = serde_json::from_str(line).map_err(|error| {
        let column = error.column();
        format!("expected subkeys as `opaque-id export-subkeys` prints them, found something else at column {column}; secrets belong into a file of their own")
    })?;
    let described = Described {
        key: Some(KeyKind::named(&line.key)?),
        form: Some(FormKind::named(&line.form)?),
        domain: Some(line.domain),
        table: line.table,
    };
    let subkeys = bytes(&line.subkeys).ok_or_else(|| {
        let digits = 2 * size_of::<IdSubkeys>();
        format!("expected {digits} hex digits of subkeys, found {} characters", line.subkeys.len())
    })?;
    KeyId::new(line.key_id).ok_or("the key id must be 0, 1, 2 or 3")?;
    let of = all.entry(line.subkeys_of).or_insert_with(|| OfResource {
        described: described.clone(),
        audience: line.audience.clone(),
        by_key_id: BTreeMap::new(),
    });
    if of.described != described || of.audience != line.audience {
        return Err("expected what an earlier line says of this resource, found another key, form, domain, table or audience".to_owned());
    }
    match of.by_key_id.insert(line.key_id, (line.check_value, subkeys)) {
        None => Ok(()),
        Some(_) => Err("duplicate key id; an earlier line of this resource has it".to_owned()),
    }
}

fn bytes(hex: &str) -> Option<Box<IdSubkeys>> {
    let mut bytes = Box::new([0; size_of::<IdSubkeys>()]);
    if hex.len() != 2 * bytes.len() || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}
