//! Files of subkeys.
//!
//! A line is a JSON object, so it cannot be confused with an entry of a keyring. Each line describes its
//! resource completely, so lines of several files can be joined.

use std::collections::BTreeMap;

use opaque_id_core::__private::IdSubkeys;
use opaque_id_core::keyring::KeyId;
use serde::{Deserialize, Serialize};

use crate::args::{self, form_kind, key_kind};
use crate::resources::{ResourceSettings, Resources};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) subkeys_of: String,
    pub(crate) key: String,
    pub(crate) form: String,
    pub(crate) domain: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audience: Option<String>,
    pub(crate) key_id: u8,
    /// It reveals nothing about the secret.
    pub(crate) check_value: String,
    pub(crate) subkeys: String,
}

pub(crate) struct Subkeys {
    file: String,
    all: BTreeMap<String, ResourceSubkeys>,
}

struct ResourceSubkeys {
    settings: ResourceSettings,
    audience: Option<String>,
    by_key_id: BTreeMap<u8, (String, Box<IdSubkeys>)>,
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

impl Subkeys {
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

    pub(crate) fn resources(&self) -> Resources {
        let all = self.all.iter();
        let all = all.map(|(prefix, of)| (prefix.clone(), of.settings.clone()));
        Resources { file: self.file.clone().into(), all: all.collect() }
    }

    pub(crate) fn check(&self, args: &args::ResourceArgs) -> Result<(), String> {
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

    pub(crate) fn holds(&self) -> String {
        let names = self.all.iter().map(|(prefix, of)| match &of.audience {
            Some(audience) => format!("`{prefix}` for the audience {audience:?}"),
            None => format!("`{prefix}`"),
        });
        let names = names.collect::<Vec<_>>().join(", ");
        format!("{}, which has only the subkeys that open ids and cursors of {names}", self.file)
    }
}

fn add(all: &mut BTreeMap<String, ResourceSubkeys>, line: &str) -> Result<(), String> {
    // The parser's messages repeat the text, and it may be a secret.
    let line: Line = serde_json::from_str(line).map_err(|error| {
        let column = error.column();
        format!("expected subkeys as `opaque-id export-subkeys` prints them, found something else at column {column}; secrets belong into a file of their own")
    })?;
    let settings = ResourceSettings {
        prefix: line.subkeys_of.clone(),
        key: key_kind(&line.key)?,
        form: form_kind(&line.form)?,
        domain: line.domain,
        table: line.table,
    };
    let subkeys = bytes(&line.subkeys).ok_or_else(|| {
        let digits = 2 * size_of::<IdSubkeys>();
        format!("expected {digits} hex digits of subkeys, found {} characters", line.subkeys.len())
    })?;
    KeyId::new(line.key_id).ok_or("the key id must be 0, 1, 2 or 3")?;
    let of = all.entry(line.subkeys_of).or_insert_with(|| ResourceSubkeys {
        settings: settings.clone(),
        audience: line.audience.clone(),
        by_key_id: BTreeMap::new(),
    });
    if of.settings != settings || of.audience != line.audience {
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
