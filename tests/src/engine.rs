//! The kinds of databases, and their environment variables.

use std::fmt;
use std::str::FromStr;

use opaque_id_core::key::Uuid;
use opaque_id_sql::statement::hex;

use crate::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    Postgres,
    Mysql,
    Mariadb,
    Sqlite,
}

impl Engine {
    pub const ALL: [Self; 4] = [Self::Postgres, Self::Mysql, Self::Mariadb, Self::Sqlite];

    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Mariadb => "mariadb",
            Self::Sqlite => "sqlite",
        }
    }

    /// Returns a UUID in SQL.
    pub fn uuid(self, uuid: Uuid) -> String {
        match self {
            Self::Postgres => format!("CAST('{uuid}' AS uuid)"),
            _ => self.bytes(uuid.as_bytes()),
        }
    }

    /// Returns bytes in SQL.
    pub fn bytes(self, bytes: &[u8]) -> String {
        match self {
            Self::Postgres => format!("CAST('\\x{}' AS bytea)", hex(bytes)),
            _ => format!("x'{}'", hex(bytes)),
        }
    }

    /// Returns whether its server is a container of this run.
    pub fn is_contained(self) -> bool {
        self != Self::Sqlite && self.setting("URL").is_none()
    }

    /// Returns the databases that `OPAQUE_ID_TEST_ONLY` names, or all.
    pub fn asked_for() -> Result<Vec<Self>> {
        Self::asked_for_or(&Self::ALL)
    }

    pub fn asked_for_or(default: &[Self]) -> Result<Vec<Self>> {
        let Ok(only) = std::env::var("OPAQUE_ID_TEST_ONLY") else {
            return Ok(default.to_vec());
        };
        let parse = |name: &str| name.trim().parse();
        let kinds = only.split(',').map(parse).collect::<std::result::Result<_, String>>();
        Ok(kinds.map_err(|error| format!("OPAQUE_ID_TEST_ONLY: {error}"))?)
    }

    /// Returns the name of a variable, such as `OPAQUE_ID_TEST_POSTGRES_URL`.
    fn variable(self, what: &str) -> String {
        format!("OPAQUE_ID_TEST_{}_{what}", self.name().to_uppercase())
    }

    pub fn setting(self, what: &str) -> Option<String> {
        std::env::var(self.variable(what)).ok()
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| format!("expected postgres, mysql, mariadb or sqlite, found `{name}`"))
    }
}
