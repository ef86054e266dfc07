use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Seals, opens, renews and inspects opaque ids, and sees to the columns that hold their keys.
///
/// Secrets come from the environment variable OPAQUE_ID_KEYS, or from --keys-file: comma-separated (in a
/// file also line by line) entries `key_id:64 hex digits`, the first of which seals.
///
/// Exit status: 0 if all was well, 1 if a value was bad (the others are still done), 2 if the call or the
/// secrets were wrong.
#[derive(Debug, Parser)]
#[command(name = "opaque-id", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a secret: an entry for OPAQUE_ID_KEYS or a keys file
    Keygen {
        /// The number that ids sealed with it will carry; take one that is not in use
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
        key_id: u8,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the key ids, with a check value each that tells whether two environments hold the same secret
    Keys {
        #[command(flatten)]
        secrets: Secrets,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Seal internal keys: print their external ids
    Seal {
        #[command(flatten)]
        resource: Resource,
        /// UUIDs, 32 hex digits, ULIDs or integers; - reads one a line from standard input
        #[arg(value_name = "KEY", required = true, allow_negative_numbers = true)]
        keys: Vec<String>,
    },
    /// Open external ids: print key, kind, key id and, where the key has one, its time
    Open {
        #[command(flatten)]
        resource: Resource,
        /// External ids; - reads one a line from standard input
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Bring external ids to the sealing secret: print the new ids
    Renew {
        #[command(flatten)]
        resource: Resource,
        /// External ids; - reads one a line from standard input
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Say of ids, without any secret, what they are, or what is wrong with them
    Inspect {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// Whatever is at hand; - reads one a line from standard input
        #[arg(value_name = "ID", required = true, allow_negative_numbers = true)]
        ids: Vec<String>,
    },
    /// Write sqlx.toml, by which sqlx's macros know columns as internal ids: `SELECT *` then needs no override
    ///
    /// The crate that uses the macros enables sqlx's feature `sqlx-toml`; the file lies beside its Cargo.toml. A
    /// nullable column becomes an Option by itself.
    SqlxToml {
        /// Bring the columns into this file and leave the rest of it as it is; printed if left out
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Columns and their resources, as users.id=crate::User; on MySQL the table's name starts with its
        /// database, as shop.users.id=crate::User; - reads one a line from standard input
        #[arg(value_name = "TABLE.COLUMN=RESOURCE", required = true)]
        columns: Vec<String>,
    },
    /// Say which key columns of a live database are not what internal ids are stored in, and how to mend them
    ///
    /// Looks at the columns of primary keys and foreign keys (those of one column). Text and bytes count if the
    /// column's name ends with `id`, or has the length of a UUID's or ULID's text. Nothing is changed: what is
    /// printed is SQL, with the findings as comments. The script converts all values of a column or none, and keeps
    /// the old rows in a table of another name; where values cannot be converted, it is a query that lists them.
    /// Exit status 1 if there are any findings.
    CheckSchema {
        /// postgres://…, mysql://… (MariaDB as well) or sqlite://…; DATABASE_URL keeps it from other users' eyes
        #[arg(long, value_name = "URL", env, hide_env_values = true)]
        database_url: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Secrets {
    /// Read the secrets from this file instead of OPAQUE_ID_KEYS; others must not be able to read or write it
    #[arg(long, value_name = "FILE")]
    pub(crate) keys_file: Option<PathBuf>,
    /// The same for a file that others can read or write, as container platforms mount them
    #[arg(long, value_name = "FILE", conflicts_with = "keys_file")]
    pub(crate) shared_keys_file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Resource {
    /// The resource's prefix, such as user
    #[arg(long)]
    pub(crate) prefix: String,
    /// The resource's domain, if it is not the prefix
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// The kind of its internal keys
    #[arg(long)]
    pub(crate) key: KeyKind,
    /// How its external ids look
    #[arg(long, value_enum, default_value_t = FormKind::Text)]
    pub(crate) form: FormKind,
    #[command(flatten)]
    pub(crate) secrets: Secrets,
    /// Print one JSON object a line
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
