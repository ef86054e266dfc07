use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Seals, opens, renews and inspects opaque ids, and checks the columns that store their keys.
///
/// Secrets come from the environment variable OPAQUE_ID_KEYS or from --keys-file. They are entries of the form
/// `key_id:64 hex digits`, separated by commas (in a file, also by line breaks). The first entry seals.
///
/// Exit status: 0 on success, 1 if a value is invalid (the other values are still processed), 2 if the
/// arguments or the secrets are invalid.
#[derive(Debug, Parser)]
#[command(name = "opaque-id", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate a secret: an entry for OPAQUE_ID_KEYS or a keys file
    Keygen {
        /// The key id that ids sealed with this secret carry; choose one that is not in use
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
        key_id: u8,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the key ids, each with a check value that shows whether two environments have the same secret
    Keys {
        #[command(flatten)]
        secrets: Secrets,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Seal internal keys and print their external ids
    Seal {
        #[command(flatten)]
        resource: Resource,
        /// UUIDs, 32 hex digits, ULIDs or integers; - reads one per line from standard input
        #[arg(value_name = "KEY", required = true, allow_negative_numbers = true)]
        keys: Vec<String>,
    },
    /// Open external ids and print each key, its kind, its key id and its time, if it has one
    Open {
        #[command(flatten)]
        resource: Resource,
        /// External ids; - reads one per line from standard input
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Renew external ids with the sealing secret and print the new ids
    Renew {
        #[command(flatten)]
        resource: Resource,
        /// External ids; - reads one per line from standard input
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Report what ids are, or what is wrong with them; needs no secret
    Inspect {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Any text; - reads one per line from standard input
        #[arg(value_name = "ID", required = true, allow_negative_numbers = true)]
        ids: Vec<String>,
    },
    /// Write sqlx.toml, which declares columns as internal ids to sqlx's macros: `SELECT *` then needs no override
    ///
    /// The crate that uses the macros must enable sqlx's feature `sqlx-toml` and have the file next to its
    /// Cargo.toml. The macros wrap a nullable column in an Option automatically.
    SqlxToml {
        /// Write the columns into this file and keep the rest of it; without this option, print them
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Columns and their resources, such as users.id=crate::User; on MySQL, prefix the table with its
        /// database, such as shop.users.id=crate::User; - reads one per line from standard input
        #[arg(value_name = "TABLE.COLUMN=RESOURCE", required = true)]
        columns: Vec<String>,
    },
    /// Print the SQL that creates the tables of maps and sequences, for a migration
    Sql {
        #[command(subcommand)]
        table: SqlTable,
    },
    /// Check the key columns of a live database, and print the SQL that fixes the wrong ones
    ///
    /// Checks primary keys and foreign keys of one column. A column of text or bytes counts if its name ends with
    /// `id`, or if its length is the length of a UUID's or a ULID's text. Changes nothing: it prints SQL with the
    /// findings as comments. The script converts all values of a column or none, and keeps the old rows in a table
    /// with another name. If values cannot be converted, it contains a query that lists them instead. The exit status
    /// is 1 if there are findings.
    CheckSchema {
        /// postgres://…, mysql://… (also for MariaDB) or sqlite://…; use DATABASE_URL to hide it from other users
        #[arg(long, value_name = "URL", env, hide_env_values = true)]
        database_url: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SqlTable {
    /// The mapping table of a `UuidMap`, with its index
    ///
    /// On MySQL and MariaDB the SQL also creates `opaque_id_slots`, which all maps of a database share.
    Mapping {
        /// The SQL of this database
        #[arg(long)]
        dialect: DialectKind,
        /// The table's name, after a schema and a dot if wanted: what `UuidMap::unique` or `UuidMap::hashed` is given
        #[arg(long, value_name = "NAME", default_value = "external_ids")]
        table: String,
        /// The index that finds a UUID
        #[arg(long, visible_alias = "plan", value_enum, default_value_t = IndexKind::Unique)]
        index: IndexKind,
        /// Add the column that maps of several resources need to share the table: for `UuidMap::shared`
        #[arg(long)]
        shared: bool,
    },
    /// The table of all `Sequence`s, `opaque_id_sequences`
    Sequences {
        /// The SQL of this database
        #[arg(long)]
        dialect: DialectKind,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DialectKind {
    /// PostgreSQL
    Postgres,
    /// MySQL
    Mysql,
    /// MariaDB
    Mariadb,
    /// SQLite
    Sqlite,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum IndexKind {
    /// A unique index over the UUID; use it unless measurements say otherwise
    Unique,
    /// An index over a 32-bit hash of the UUID; for one server only
    Hashed,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Secrets {
    /// Read the secrets from this file instead of OPAQUE_ID_KEYS; other users must not be able to read or write it
    #[arg(long, value_name = "FILE")]
    pub(crate) keys_file: Option<PathBuf>,
    /// Like --keys-file, for a file that other users can read or write, as container platforms mount them
    #[arg(long, value_name = "FILE", conflicts_with = "keys_file")]
    pub(crate) shared_keys_file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Resource {
    /// The resource's prefix, such as user
    #[arg(long)]
    pub(crate) prefix: String,
    /// The resource's domain, if it differs from the prefix
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// The kind of the internal keys
    #[arg(long)]
    pub(crate) key: KeyKind,
    /// The form of the external ids
    #[arg(long, value_enum, default_value_t = FormKind::Text)]
    pub(crate) form: FormKind,
    #[command(flatten)]
    pub(crate) secrets: Secrets,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KeyKind {
    /// UUIDv7, the default of `#[derive(OpaqueId)]`
    Uuid7,
    /// ULID
    Ulid,
    /// A sequence and a nonce of 60 bits each
    Structured,
    /// Any UUID
    Uuid,
    /// A signed 64-bit integer
    Int,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormKind {
    /// prefix_ and 26 characters
    Text,
    /// prefix_ and 34 characters
    Tagged,
    /// A UUID of version 8
    Uuid,
}
