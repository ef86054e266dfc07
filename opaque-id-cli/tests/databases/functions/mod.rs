//! The scripts of `opaque-id sql functions`. The functions seal and open like the program, with any settings
//! of the session, and show no subkey to roles that may only execute them. This module has the functions of a
//! test, and the SQL that differs between databases.

pub(crate) mod attacks;
pub(crate) mod cases;
pub(crate) mod owners;

use std::process::Command;

use self::cases::{KINDS, OLD};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::sql::on_a_thread;
use opaque_id_tests::tools::with_input;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

/// A keyring's entries. The first one seals.
pub(crate) type Entries<'e> = &'e str;

/// Runs the program with lines of standard input.
pub(crate) fn opaque_id(entries: Entries<'_>, args: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
    command.args(args).env_remove("OPAQUE_ID_RESOURCES");
    run(command.env("OPAQUE_ID_KEYS", entries), input).and_then(|(success, out, err)| match success
    {
        true => Ok(out),
        false => Err(format!("{args:?}: {err}").into()),
    })
}

/// Returns whether a command succeeded, and both of its outputs.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<(bool, String, String)> {
    let output = with_input(command, input)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.success(), text(&output.stdout), text(&output.stderr)))
}

/// A resource and the place of its functions.
#[derive(Clone)]
pub(crate) struct Functions<'d> {
    pub(crate) database: &'d Database,
    pub(crate) schema: String,
    pub(crate) prefix: &'d str,
    pub(crate) domain: &'d str,
    pub(crate) key: &'d str,
    pub(crate) form: &'d str,
    pub(crate) audience: Option<&'d str>,
}

impl<'d> Functions<'d> {
    pub(crate) fn new(
        database: &'d Database,
        prefix: &'d str,
        key: &'d str,
        form: &'d str,
    ) -> Self {
        Self {
            database,
            // On MySQL and MariaDB a schema is a database, and cases run side by side.
            schema: format!("s_{}", database.name()),
            prefix,
            domain: prefix,
            key,
            form,
            audience: None,
        }
    }

    fn options(&self) -> Vec<&str> {
        let Self { prefix, domain, key, form, .. } = self;
        let mut options =
            vec!["--prefix", prefix, "--domain", domain, "--key", key, "--form", form];
        options.extend(self.audience.iter().flat_map(|audience| ["--audience", audience]));
        options
    }

    /// Returns the program's output for `sql functions`.
    pub(crate) fn script(&self, entries: Entries<'_>, options: &[&str]) -> Result<String> {
        let dialect = self.database.kind.name();
        let schema = ["--dialect", dialect, "--schema", &self.schema];
        let args = [&["sql", "functions"], &schema[..], &self.options(), options].concat();
        opaque_id(entries, &args, "")
    }

    pub(crate) fn install(&self, entries: Entries<'_>) -> Result {
        self.database.execute(&self.script(entries, &[])?)
    }

    pub(crate) fn drop(&self) -> Result {
        self.database.execute(&self.script("", &["--drop"])?)
    }

    /// Returns the program's ids for keys, a line per key.
    pub(crate) fn sealed(&self, entries: Entries<'_>, keys: &str) -> Result<String> {
        let args = [&["seal"], &self.options()[..], &["-"]].concat();
        Ok(opaque_id(entries, &args, keys)?.trim_end().to_owned())
    }

    /// Checks that the function seals a key like the program.
    pub(crate) fn seals(&self, what: &str, entries: Entries<'_>, key: &str) -> Result {
        let sql = format!("SELECT {}", self.seal(&self.literal(key)));
        let expected = self.sealed(entries, key)?;
        expect(what, value(self.database, &sql)?, Some(expected))
    }

    /// Returns a key as SQL.
    pub(crate) fn literal(&self, key: &str) -> String {
        match (self.key, self.database.kind) {
            // Without the cast, the least integer is a number of another type.
            ("int", Engine::Postgres) => format!("'{key}'::bigint"),
            ("int", _) => key.to_owned(),
            (_, Engine::Postgres) => format!("'{key}'::uuid"),
            _ => format!("X'{}'", key.replace('-', "")),
        }
    }

    /// Returns a column or a function's result as a key's text.
    pub(crate) fn key_text(&self, expression: &str) -> String {
        match (self.key, self.database.kind) {
            ("int", Engine::Postgres) => format!("({expression})::text"),
            ("int", _) => format!("CAST({expression} AS CHAR)"),
            (_, Engine::Postgres) => format!("({expression})::text"),
            _ => {
                let hex = format!("LOWER(HEX({expression}))");
                format!(
                    "INSERT(INSERT(INSERT(INSERT({hex}, 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-')"
                )
            }
        }
    }

    pub(crate) fn seal(&self, key: &str) -> String {
        format!("{}.seal_{}({key})", self.schema, self.prefix)
    }

    pub(crate) fn open(&self, id: &str) -> String {
        format!("{}.open_{}({id})", self.schema, self.prefix)
    }

    pub(crate) fn subkeys(&self) -> String {
        format!("{}.subkeys_{}", self.schema, self.prefix)
    }
}

/// Tests the functions of each valid combination of a key and a form.
pub(crate) fn on_each_kind(database: &Database, test: impl Fn(&Functions<'_>) -> Result) -> Result {
    KINDS.iter().try_for_each(|(kind, form)| {
        let functions = Functions::new(database, "user", kind, form);
        functions.install(OLD)?;
        test(&functions).map_err(|error| format!("{kind} {form}: {error}"))?;
        functions.drop()
    })
}

/// Runs statements on one connection. Returns all columns of all rows. They must be texts.
pub(crate) fn rows(database: &Database, sql: &str) -> Result<Vec<Option<String>>> {
    macro_rules! rows {
        ($options:ty) => {{
            let mut connection = database.url.parse::<$options>()?.connect().await?;
            let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut connection).await?;
            let columns =
                rows.iter().flat_map(|row| (0..row.len()).map(|i| row.try_get_unchecked(i)));
            columns.collect::<sqlx::Result<_>>()?
        }};
    }
    on_a_thread(async || {
        Ok(match database.kind {
            Engine::Postgres => rows!(PgConnectOptions),
            _ => rows!(MySqlConnectOptions),
        })
    })
    .map_err(|error| format!("{error}\n{sql}").into())
}

/// Returns the only value of the last statement.
pub(crate) fn value(database: &Database, sql: &str) -> Result<Option<String>> {
    let mut rows = rows(database, sql)?;
    rows.pop().ok_or_else(|| format!("no row: {sql}").into())
}

pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: expected {expected:?}, found {found:?}").into()),
    }
}

pub(crate) fn contains(text: &str, part: &str) -> Result {
    expect(text, text.contains(part), true)
}

pub(crate) fn starts_with(text: &str, start: &str) -> Result {
    expect(text, text.starts_with(start), true)
}

pub(crate) fn ends_with(text: &str, end: &str) -> Result {
    expect(text, text.ends_with(end), true)
}

/// Returns the message of a failure, or an empty text after a success.
pub(crate) fn error<T>(done: Result<T>) -> String {
    done.err().map(|error| error.to_string()).unwrap_or_default()
}
