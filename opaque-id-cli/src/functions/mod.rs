//! Scripts of SQL functions that seal and open ids.
//!
//! Clients of MySQL split a script at each `;` unless `DELIMITER` changes that, and drivers do not know
//! `DELIMITER`. So a function is one `RETURN` with common table expressions for variables. Base32 is `CONV` to
//! 32 and a `REPLACE` per digit that differs in Crockford's alphabet. Refused input is NULL. On
//! PostgreSQL a function has variables, because only PL/pgSQL hides subkeys.

mod mysql;
mod postgres;

use std::error::Error;

use opaque_id_core::__private::{Label, is_prefix};
use opaque_id_core::Keyring;
use opaque_id_core::form::{Form, FormKind, Short, Tagged, Text, UuidForm};
use opaque_id_core::key::KeyKind;
use opaque_id_core::keyring::{KeyId, RuntimeResource};
use opaque_id_sql::statement::hex;

use crate::args::FunctionDialect;
use crate::resources::ResourceSettings;

const DIGITS: &str = "0123456789abcdefghjkmnpqrstvwxyz";

/// The columns after `key_id` and `seals`.
const COLUMNS: [(&str, Label); 5] = [
    ("block", Label::Block),
    ("mac", Label::Mac),
    ("feistel", Label::Feistel),
    ("tag", Label::Tag),
    ("short", Label::Short),
];

/// FF1's first block in hex (FORMAT.md).
const FF1_FIRST: &str = "0102010000020a1f0000003e00000000";

/// A name has at most 63 bytes on PostgreSQL and 64 on MySQL. PostgreSQL would cut off longer ones.
const LONGEST_PREFIX: usize = 63 - "subkeys_".len();

pub(crate) struct Schema {
    dialect: FunctionDialect,
    name: String,
}

struct SqlResource<'r> {
    prefix: &'r str,
    key: KeyKind,
    form: FormKind,
    subkeys: Vec<Subkeys>,
}

/// In hex, in the order of [`COLUMNS`], without subkeys that the form does not use.
struct Subkeys {
    key_id: KeyId,
    seals: bool,
    values: [Option<String>; COLUMNS.len()],
}

impl Schema {
    /// The name must be plain, so that it is the same on all databases. It is quoted because it may be a
    /// keyword.
    pub(crate) fn new(dialect: FunctionDialect, name: &str) -> Result<Self, String> {
        if !is_prefix(name) {
            return Err(format!(
                "invalid schema name {name:?}: expected 1 to 63 of a-z, 0-9 and _, starting with a letter and not ending \
                 with _"
            ));
        }
        let quote = match dialect {
            FunctionDialect::Postgres => '"',
            FunctionDialect::Mysql | FunctionDialect::Mariadb => '`',
        };
        Ok(Self { dialect, name: format!("{quote}{name}{quote}") })
    }

    pub(crate) fn install(
        &self,
        resources: &[ResourceSettings],
        keyring: &Keyring,
        only_subkeys: bool,
    ) -> Result<String, Box<dyn Error>> {
        let resources = resources.iter().map(|settings| {
            SqlResource::new(settings, keyring)
                .map_err(|error| Box::from(format!("`{}`: {error}", settings.prefix)))
        });
        let resources = resources.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        let schema = &self.name;
        Ok(match self.dialect {
            FunctionDialect::Postgres => postgres::install(schema, &resources, only_subkeys),
            dialect => mysql::install(schema, &resources, only_subkeys, dialect),
        })
    }

    pub(crate) fn drop(&self, resources: &[ResourceSettings]) -> Result<String, String> {
        let prefixes =
            resources.iter().map(|ResourceSettings { prefix, .. }| match is_prefix(prefix) {
                true => Ok(prefix.as_str()),
                false => Err(format!("invalid prefix {prefix:?}")),
            });
        let prefixes = prefixes.collect::<Result<Vec<_>, String>>()?;
        Ok(match self.dialect {
            FunctionDialect::Postgres => postgres::drop(&self.name, &prefixes),
            _ => mysql::drop(&self.name, &prefixes),
        })
    }
}

impl<'r> SqlResource<'r> {
    fn new(settings: &'r ResourceSettings, keyring: &Keyring) -> Result<Self, Box<dyn Error>> {
        let ResourceSettings { prefix, domain, key, form, .. } = settings;
        let (key, form, is_int) = (*key, *form, key.is_integer());
        let uses: [bool; COLUMNS.len()] = match form {
            FormKind::TEXT => [true, false, false, is_int, false],
            FormKind::SHORT => [true, false, false, true, true],
            FormKind::TAGGED => [true, true, false, false, false],
            FormKind::UUID => [false, false, true, is_int, false],
            _ => {
                return Err("the resource is mapped, so its ids are not sealed".into());
            }
        };
        RuntimeResource::new(keyring, prefix, domain, key, form)?;
        if prefix.len() > LONGEST_PREFIX {
            return Err(format!(
                "expected a prefix of at most {LONGEST_PREFIX} characters, because names of tables contain it"
            )
            .into());
        }
        let subkey = |key_id, label| match label {
            Label::Feistel => keyring.with_subkey::<96, _>(key_id, label, domain, |bytes| {
                hex(&bytes[..16 * rounds(key)])
            }),
            Label::Tag => keyring.with_subkey::<8, _>(key_id, label, domain, |key| hex(key)),
            _ => keyring.with_subkey::<16, _>(key_id, label, domain, |key| hex(key)),
        };
        let subkeys = keyring.key_ids().map(|key_id| Subkeys {
            key_id,
            seals: key_id == keyring.sealing_key_id(),
            values: std::array::from_fn(|i| {
                uses[i].then(|| subkey(key_id, COLUMNS[i].1)).flatten()
            }),
        });
        Ok(Self { prefix, key, form, subkeys: subkeys.collect() })
    }

    fn is_int(&self) -> bool {
        self.key.is_integer()
    }

    fn rows(&self, seals: [&str; 2], literal: impl Fn(&str) -> String) -> String {
        let rows = self.subkeys.iter().map(|row| {
            let values = row.values.iter().map(|value| match value {
                Some(hex) => literal(hex),
                None => "NULL".to_owned(),
            });
            let values: Vec<_> = values.collect();
            let seals = seals[usize::from(row.seals)];
            format!("({}, {seals}, {})", row.key_id, values.join(", "))
        });
        rows.collect::<Vec<_>>().join(",\n    ")
    }

    fn is_key(&self, hex: &str) -> String {
        match self.key {
            KeyKind::UUID7 => {
                let version = format!(
                    "substr({hex}, 13, 1) = '7' AND substr({hex}, 17, 1) IN ('8', '9', 'a', 'b')"
                );
                match self.form {
                    // The form has no room for later years.
                    FormKind::UUID => {
                        format!("{version} AND substr({hex}, 1, 1) IN ('0', '1', '2', '3')")
                    }
                    _ => version,
                }
            }
            KeyKind::STRUCTURED => {
                format!("substr({hex}, 1, 1) = '0' AND substr({hex}, 17, 1) = '0'")
            }
            _ => "true".to_owned(),
        }
    }

    fn pattern(&self) -> String {
        match self.form {
            FormKind::SHORT => Short::pattern(self.prefix),
            FormKind::TAGGED => Tagged::pattern(self.prefix),
            FormKind::UUID => UuidForm::pattern(self.prefix),
            _ => Text::pattern(self.prefix),
        }
    }

    fn digits(&self) -> usize {
        match self.form {
            FormKind::TAGGED => 34,
            _ => 26,
        }
    }

    /// Returns the numbers of digits and hex digits before two groups of 12 digits, or 15 hex digits, each.
    /// The first hex digit is the key id.
    fn first_group(&self) -> (usize, usize) {
        match self.form {
            FormKind::TAGGED => (10, 13),
            _ => (2, 3),
        }
    }
}

fn usage(schema: &str, prefix: &str) -> String {
    format!(
        "\n-- A view that shows external ids only, and a filter that uses the primary key:\n\
         -- CREATE VIEW ... AS SELECT {schema}.seal_{prefix}(id) AS id, ... FROM ...;\n\
         -- SELECT ... FROM ... WHERE id = {schema}.open_{prefix}('...');\n"
    )
}

fn rounds(key: KeyKind) -> usize {
    match key {
        KeyKind::STRUCTURED => 2,
        KeyKind::I64 => 6,
        _ => 4,
    }
}

fn header(what: &str) -> String {
    format!(
        "-- {what}\n\
         -- This script contains secrets: pass it to the client by a pipe, and keep no copy of it.\n\n"
    )
}
