//! The command line. Its doc comments are the help texts.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use opaque_id_core::form::FormKind;
use opaque_id_core::key::KeyKind;
use opaque_id_packs::{Conversion, Normalizer};
use opaque_id_sql::__private::check_name;
use opaque_id_sql::Dialect;
use opaque_id_sql::mapping::{Index, InvalidTableName};

use crate::conformance::Conformance;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (wire format 1)");

/// Seals, opens, renews and inspects opaque ids, and checks the columns that store their keys.
///
/// Secrets come from the environment variable OPAQUE_ID_KEYS or from --keys-file. They are entries of the form
/// `key_id:64 hex digits`, separated by commas (in a file, also by line breaks). The first entry seals.
///
/// Exit status: 0 on success, 1 if a value is invalid (the other values are still processed), 2 if the
/// arguments or the secrets are invalid.
#[derive(Debug, Parser)]
#[command(name = "opaque-id", version = VERSION, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add opaque-id to the project in the current folder: crates, types for its tables, and a secret
    ///
    /// Adds the crates for the versions of sqlx, diesel, SeaORM, axum and actix-web in Cargo.toml. Writes a
    /// secret into opaque-id.keys with mode 600, and this name into .gitignore, an existing .dockerignore and
    /// `exclude`. Writes src/ids.rs with a type for each table of the database (or an example without one), a
    /// function that reads the secret, and axum's state. Writes sqlx.toml if the source uses sqlx 0.9's macros.
    ///
    /// A second run changes nothing, and nothing in an existing file is replaced. Comments in src/ids.rs that
    /// start with "Decide" leave a decision to you, such as the kind of key of an empty table.
    #[command(after_help = "Examples:\n  \
        opaque-id init --dry-run\n  \
        DATABASE_URL=postgres://localhost/shop opaque-id init")]
    Init {
        /// postgres://…, mysql://… (also for MariaDB), sqlite://… or SQLite's file: its tables and some of their rows
        /// are read
        #[arg(long, value_name = "URL", env, hide_env_values = true, value_parser = database_url)]
        database_url: Option<String>,
        /// Print the changes as a diff, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Generate a secret: an entry for OPAQUE_ID_KEYS or a keys file
    Keygen {
        /// The key id of the secret, and of the ids that it seals; choose one that is not in use
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
        /// Print how to replace the sealing secret, in three rollouts during which every instance opens every id
        #[arg(long, conflicts_with = "json")]
        plan_rotation: bool,
        /// Also print which tables of packs and which columns of a database need each secret, even if no file
        /// names them; stored external ids are not among them
        ///
        /// Reads the first bytes of all values of binary columns, and the keys of tables of packs with
        /// groups. On MySQL and MariaDB it looks at the URL's database, and otherwise at all schemas. The
        /// exit status is 1 if a secret is missing.
        #[arg(long, conflicts_with = "json", requires = "database_url")]
        in_use: bool,
        /// Refuse if something in the database needs the secret with this key id, or if it seals; implies --in-use
        #[arg(long, value_name = "KEY_ID", conflicts_with = "json", requires = "database_url", value_parser = clap::value_parser!(u8).range(0..4))]
        retire: Option<u8>,
        /// postgres://…, mysql://… (also for MariaDB), sqlite://… or SQLite's file, without a pooler; use
        /// DATABASE_URL to hide it from other users
        #[arg(long, value_name = "URL", env, hide_env_values = true, value_parser = database_url)]
        database_url: Option<String>,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Seal internal keys and print their external ids
    #[command(mut_arg("prefix", |prefix| prefix.required(true)))]
    Seal {
        #[command(flatten)]
        resource: ResourceArgs,
        /// Print the id under each secret of the keyring, such as to search older logs
        #[arg(long)]
        all_secrets: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// UUIDs, 32 hex digits, ULIDs or integers; - reads one per line from standard input
        #[arg(value_name = "KEY", required = true, allow_negative_numbers = true)]
        keys: Vec<String>,
    },
    /// Open external ids and print each key, its kind, its key id, and its time and table, if they are known
    ///
    /// Ids with a tag (the tagged form, the short form and ids of integers) and cursors are verified. Ids
    /// without a tag open under any secret, so their output is marked as unverified, with the secret's check
    /// value on standard error.
    Open {
        #[command(flatten)]
        ids: Ids,
        /// The purpose of grants, such as unsubscribe; prints when each of them expires
        #[arg(long)]
        purpose: Option<String>,
        /// Append a JSON line per id to this file before its answer is shown: time, user, id, resource and
        /// outcome, never the key
        ///
        /// The file is created with mode 600. If it cannot be written, nothing is opened, and the exit status
        /// is 2.
        #[arg(long, value_name = "FILE", env = "OPAQUE_ID_AUDIT_LOG")]
        audit_log: Option<PathBuf>,
    },
    /// Renew external ids with the sealing secret and print the new ids
    Renew(Ids),
    /// Print the subkeys of one resource, so that `opaque-id open --keys-file` opens its ids without the
    /// master secrets
    ///
    /// This is for machines that must not have the secrets, such as a laptop on call. Only `open` and
    /// `inspect` accept the file. It opens ids and cursors of this resource under each present secret of the
    /// keyring, but no grants, no packs, and no ids of other resources. Lines of several resources may be
    /// joined.
    ///
    /// The same AES keys seal and open, so everyone who has the file can make up ids of this resource by
    /// other means. Keep it like a secret: (umask 077 && opaque-id export-subkeys --prefix user >
    /// user.subkeys)
    #[command(mut_arg("prefix", |prefix| prefix.required(true).help("The prefix of the resource, such as user")))]
    ExportSubkeys {
        #[command(flatten)]
        resource: ResourceArgs,
    },
    /// Report the kind of ids, or their faults; needs no secret
    ///
    /// With a file of resources it also prints the resource's kind of key and table, and whether its ids are
    /// sealed or mapped.
    Inspect {
        /// The file of resources; without this option, opaque-id.toml in the current folder or in one above it
        #[arg(long, value_name = "FILE", env = "OPAQUE_ID_RESOURCES")]
        resources: Option<PathBuf>,
        /// Subkeys that `opaque-id export-subkeys` printed; they describe their resources like opaque-id.toml
        #[arg(long, value_name = "FILE")]
        keys_file: Option<PathBuf>,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Any text; - reads one per line from standard input
        #[arg(value_name = "ID", required = true, allow_negative_numbers = true)]
        ids: Vec<String>,
    },
    /// Print opaque-id.toml: the resources of an application, read from the derives in its source
    ///
    /// Run `opaque-id resources > opaque-id.toml` once. Commands find the file in the current folder or in
    /// one above it.
    ///
    /// Reads structs and enums with `#[opaque_id(…)]` in files and modules, with any `cfg` except
    /// `cfg(test)`. Ignores code that macros write, and code inside of functions. In folders it skips hidden
    /// folders, `target`, and the `tests`, `examples` and `benches` next to a Cargo.toml. The exit status is
    /// 1 if something could not be read, or if ids of two resources cannot be told apart. The rest is still
    /// printed.
    Resources {
        /// Rust files, or folders with Rust files
        #[arg(value_name = "PATH", default_value = ".")]
        sources: Vec<PathBuf>,
    },
    /// Write sqlx.toml, so that sqlx's macros use internal ids for the columns and `SELECT *` needs no
    /// override
    ///
    /// The crate that uses the macros must enable sqlx's feature `sqlx-toml` and have the file next to its
    /// Cargo.toml.
    ///
    /// With a database, one type per table is enough: its key column and the foreign keys that reference it
    /// are read from the schema. Without a given type, the source is searched: the type of table `users` or
    /// `user` is the struct `User`, or the one with the prefix `user`. It is also the type of `blocked_user`
    /// if no other table ends with `user` or `users`. Such tables, and tables without a type, are listed on
    /// standard error.
    ///
    /// On PostgreSQL, if an id is a UUID, it also writes type-overrides, so that an id as a parameter needs
    /// no `as _`, and a line for each column of UUIDs that are not ids, unless the file has one.
    SqlxToml {
        /// Write the columns into this file and keep the rest of it; without this option, print them
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The database to read key columns from; used unless all columns are given
        #[arg(long, value_name = "URL", env, hide_env_values = true, value_parser = database_url)]
        database_url: Option<String>,
        /// Rust files, or folders with Rust files, that are searched for the types of tables
        #[arg(long, value_name = "PATH", default_value = ".")]
        source: Vec<PathBuf>,
        /// Tables and their types, such as users=my_app::User, or single columns, such as
        /// users.invited_by=my_app::User (on MySQL, after the database: shop.users.invited_by=my_app::User);
        /// - reads one per line from standard input
        #[arg(value_name = "TABLE[.COLUMN]=TYPE")]
        columns: Vec<String>,
    },
    /// Print SQL: the tables of maps, sequences and packs, for a migration, and functions that seal and open
    Sql {
        #[command(subcommand)]
        script: SqlScript,
    },
    /// Tables of packs: settings, checks, secrets, dictionaries, and all rows
    Packs {
        #[command(subcommand)]
        command: Box<Packs>,
    },
    /// Check the key columns of a live database, and print the SQL that fixes the wrong ones
    ///
    /// Checks primary keys and foreign keys of one column. A column of text or bytes counts as an id by its
    /// name (`id`, `user_id`, `userId`, `uuid`, `ulid`, `guid`), its declared length and its values
    /// together. Changes nothing. The printed script converts all values of a column or none, and keeps old
    /// rows of texts and bytes in a table with another name. If values cannot be converted, it contains a query
    /// that lists them instead.
    ///
    /// Also lists columns that it cannot judge. The script converts no text while there are any, because
    /// joins with them would find nothing. Judge them yourself, and exclude them. Tables of tools for
    /// migrations are skipped.
    ///
    /// The exit status is 1 if a column is wrong or not judged, or if no key column was found.
    #[command(after_help = "Examples:\n  \
        opaque-id check-schema --exclude countries,currencies --exclude orders.stripe_id")]
    CheckSchema {
        /// postgres://…, mysql://… (also for MariaDB), sqlite://… or SQLite's file, without a pooler; use
        /// DATABASE_URL to hide it from other users
        #[arg(long, value_name = "URL", env, hide_env_values = true, value_parser = database_url)]
        database_url: String,
        /// Tables and columns that are not ids, separated by commas; they are not reported
        #[arg(long, value_name = "TABLE[.COLUMN]", value_delimiter = ',')]
        exclude: Vec<String>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check another implementation of the wire format against this one
    ///
    /// Runs a program that answers requests of a line of JSON each. Compares its answers with the vectors of
    /// the format and, in random cases, with ours: spec/README.md in the repository describes both. Prints
    /// first the requirement of docs/FORMAT.md that explains the differences best. The exit status is 1 if
    /// anything differs.
    #[command(after_help = "Examples:\n  \
        opaque-id conformance -- python -m opaque_id.conformance\n  \
        opaque-id conformance --random 0 --report report.json -- ./my-port")]
    Conformance(Conformance),
    /// Print a script that completes commands and options in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, for `man -l -`
    Man {
        /// Write a page per command into this folder instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ids {
    #[command(flatten)]
    pub(crate) resource: ResourceArgs,
    /// Refuse ids that nothing verifies: only ids with a tag and cursors show that the secret is right
    #[arg(long)]
    pub(crate) require_verified: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// External ids; - reads one per line from standard input
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SqlScript {
    /// The mapping table of a `UuidMap`, with its index
    ///
    /// On MySQL and MariaDB the SQL also creates `opaque_id_slots`. All maps of a database share it.
    Mapping {
        #[command(flatten)]
        target: Target,
        /// The table's name, after an optional schema and a dot; the application passes it to
        /// `UuidMap::unique` or `UuidMap::hashed`
        #[arg(long, value_name = "NAME", default_value = "external_ids")]
        table: String,
        /// The index that finds a UUID
        #[arg(long, visible_alias = "plan", default_value = "unique", value_parser = one_of(INDEXES))]
        index: Index,
        /// Add the column with which maps of several resources share the table, for `UuidMap::shared`
        #[arg(long)]
        shared: bool,
    },
    /// The table of all `Sequence`s, `opaque_id_sequences`
    Sequences {
        #[command(flatten)]
        target: Target,
    },
    /// The tables of a `PackTable` or an `EncryptedColumn`
    Packs {
        #[command(flatten)]
        target: Target,
        /// The table's name in the application, such as events for `events_packs`
        #[arg(long, value_name = "NAME", value_parser = table_name)]
        table: String,
        /// The kind of the internal keys, also by its name in the derive (Uuid7, i64)
        #[arg(long, default_value = "uuid7", value_parser = keys())]
        key: KeyKind,
        /// Rows are ordered by their encrypted keys, because the table's type has `ByEncryptedKey`
        #[arg(long)]
        by_encrypted_key: bool,
        /// Rows are in groups, because the type's encoding is `Grouped`
        #[arg(long)]
        groups: bool,
        /// The table is that of an `EncryptedColumn`, with its settings and dictionaries only
        #[arg(long, conflicts_with = "by_encrypted_key")]
        column: bool,
    },
    /// Functions that seal and open ids inside of the database, for on-call, BI and views
    ///
    /// Prints a script that creates `seal_PREFIX` and `open_PREFIX` for each resource in their own schema.
    /// Values that cannot be sealed or opened are NULL. The script contains subkeys of these resources, never
    /// a master secret, in tables; SECURITY.md lists their readers. Pass it to the database's client by a pipe,
    /// and keep no copy. It may run again.
    Functions {
        /// The SQL of this database
        #[arg(long)]
        dialect: FunctionDialect,
        #[command(flatten)]
        resource: ResourceArgs,
        /// Resources of the file, by their prefixes; by default, all with sealed ids
        #[arg(value_name = "PREFIX", conflicts_with = "prefix")]
        names: Vec<String>,
        /// The schema for the functions and the tables of subkeys; on MySQL and MariaDB a database
        #[arg(long, value_name = "NAME", default_value = "opaque_id")]
        schema: String,
        /// Print only the transaction that replaces the subkeys of existing functions
        #[arg(long)]
        rotate: bool,
        /// Print the script that drops the functions and the subkeys; it needs no secret
        #[arg(long, conflicts_with = "rotate")]
        drop: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Packs {
    /// Measure a sample of rows, and recommend the size of packs, the level of compression and the dictionary
    ///
    /// Measures packs of five sizes, zstd's levels 1, 3, 9 and 19, dictionaries of up to 112 KiB, and rows
    /// one by one, and reports if packs do not pay. The first fifth of the rows trains the dictionaries, and
    /// the rest is measured. A ratio is the bytes of values per byte of their bodies, with padding, the
    /// bytes that encryption adds and, in packs, keys. Speeds are of one core, without encryption.
    ///
    /// The rows must be in the order of their keys, because neighbors in the file are neighbors in packs.
    /// Some 20 MB are a good sample and take less than a minute. Rows after the first 64 MiB, or after a
    /// million rows, are not used.
    #[command(after_help = "Examples:\n  \
        opaque-id packs tune events.jsonl\n  \
        psql shop -Atc 'SELECT to_json(e) FROM events e ORDER BY id LIMIT 50000' | opaque-id packs tune --plot events.svg -\n  \
        apt-cache dumpavail | opaque-id packs tune --separator blank-line --csv packages.csv -")]
    Tune(Tune),
    /// Create a table in the database, with its settings
    ///
    /// Creates the missing tables, and writes the settings if there are none, so the table works before any
    /// application has opened it. After the migration of `opaque-id sql packs`, it only writes the settings.
    /// An existing table with the same settings stays as it is, and one with other settings is an error. For
    /// an encrypted column, the table is that of its settings, `…_meta`, and values need --row-level and
    /// --row-padding.
    #[command(after_help = "Examples:\n  \
        opaque-id packs create --prefix event --key uuid7 events\n  \
        opaque-id packs create --prefix event --encoding raw --pack-level 19 --pack-padding padme events\n  \
        opaque-id packs create --prefix cust --key uuid7 --column customers.notes customers_notes")]
    Create(Create),
    /// Print the settings of a table or an encrypted column, or change the given settings
    ///
    /// Prints each change as `name  before -> after`. A pack or a value of a column gets the settings at its
    /// next write, or by `opaque-id packs rekey` after a new dictionary. The application may run meanwhile.
    #[command(after_help = "Examples:\n  \
        opaque-id packs configure --prefix event events\n  \
        opaque-id packs configure --prefix event --pack-bytes 15960 --pack-level 19 events")]
    Configure {
        #[command(flatten)]
        table: PackedTable,
        #[command(flatten)]
        settings: PackSettings,
    },
    /// Read all packs and recent rows, or all values of an encrypted column, and name the corrupt and missing
    /// ones
    ///
    /// With --plaintext, values in plaintext are problems, and with --index, so are wrong fingerprints.
    /// Changes nothing. The exit status is 1 if there are problems.
    #[command(after_help = "Examples:\n  \
        opaque-id packs verify --prefix event events\n  \
        opaque-id packs verify --prefix cust --column customers.notes --id customer_id customers_notes")]
    Verify {
        #[command(flatten)]
        table: PackedTable,
        #[command(flatten)]
        column: ColumnArgs,
    },
    /// Encrypt the values of a column that has plaintext, decrypt them again, or fill a blind index
    ///
    /// The application may run meanwhile, and must accept both forms: docs/OPERATIONS.md has the steps. A row
    /// that the application changes meanwhile stays as it is. A run that ends early can be repeated, and
    /// continues. The exit status is 1 if something is left.
    ///
    /// The plaintext is in a column of texts or numbers that accepts NULL, or of JSON, with
    /// --plaintext-json. Values in groups are converted by `EncryptedColumn::convert` in the application.
    #[command(after_help = "Examples:\n  \
        opaque-id packs convert --prefix cust --column customers.email_encrypted --plaintext email --index email_index --normalize caseless --to index customers_email\n  \
        opaque-id packs convert --prefix cust --column customers.email_encrypted --plaintext email --index email_index --normalize caseless customers_email")]
    Convert {
        #[command(flatten)]
        table: PackedTable,
        #[command(flatten)]
        column: ColumnArgs,
        /// The goal
        #[arg(long, default_value = "encrypted", value_parser = one_of(GOALS))]
        to: Conversion,
    },
    /// Restore corrupt or missing packs, and corrupt recent rows, from a backup
    ///
    /// Finds them like `opaque-id packs verify`. The backup's rows replace theirs, unless the recent table has
    /// later ones. So a row of such a pack that was deleted since the backup exists again: delete
    /// it again. Rows of other packs stay as they are, even if the backup is older. The application may run
    /// meanwhile. Restart it afterwards, because it refuses older packs than it has seen. The
    /// exit status is 1 if something is still corrupt or missing.
    #[command(after_help = "Examples:\n  \
        opaque-id packs restore --prefix event --backup-url postgres:///shop_yesterday events\n  \
        opaque-id packs restore --prefix event --backup-url sqlite:yesterday.db events")]
    Restore {
        #[command(flatten)]
        table: PackedTable,
        /// The database with the restored backup, a separate one; its table must have the same name
        #[arg(long, value_name = "URL", env = "BACKUP_URL", hide_env_values = true, value_parser = database_url)]
        backup_url: String,
        /// Also replace packs that another secret or a missing dictionary may be able to read, and packs and
        /// recent rows that the backup has no rows of
        ///
        /// Without it, such packs stay as they are.
        #[arg(long)]
        force: bool,
    },
    /// Encrypt again everything that is under an older secret or dictionary
    ///
    /// The application may run meanwhile. A run that ends early loses nothing, and the next one continues.
    /// Before you retire a secret, run it until it encrypts nothing and prints no warning.
    #[command(after_help = "Examples:\n  \
        opaque-id packs rekey --prefix event events\n  \
        opaque-id packs rekey --prefix cust --column customers.notes customers_notes")]
    Rekey {
        #[command(flatten)]
        table: PackedTable,
        #[command(flatten)]
        column: ColumnArgs,
    },
    /// Remove the data of erased groups from packs, and delete the dictionaries that nothing needs
    ///
    /// Run it to complete an erasure. First it encrypts again everything that is under an older secret or
    /// dictionary, like `opaque-id packs rekey`, and packs that have rows of erased groups. If everything
    /// already had the current secret and dictionary, it deletes the old ones. The application may run
    /// meanwhile. The exit status is 1 if something is left: a pack that is locked, or a dictionary.
    #[command(after_help = "Examples:\n  \
        opaque-id packs sweep --prefix event events\n  \
        opaque-id packs sweep --prefix cust --column customers.notes --unused-for 86400 customers_notes")]
    Sweep {
        #[command(flatten)]
        table: PackedTable,
        #[command(flatten)]
        column: ColumnArgs,
        /// Keep the old dictionaries if the current one has not been current for this long
        ///
        /// Longer than the longest transaction of the application. For a column, each process must have
        /// opened or refreshed the column within this time: a value that is written with a deleted dictionary
        /// cannot be read.
        #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
        unused_for: u64,
    },
    /// Train a dictionary from the last rows of a table, and compress with it from now on
    ///
    /// The application may run meanwhile, and reads the dictionary when it first needs it. In a table with
    /// groups, the dictionary contains only texts that 20 groups share. In other tables it contains pieces of
    /// single rows, until `opaque-id packs sweep` deletes it.
    Train {
        #[command(flatten)]
        table: PackedTable,
        /// Train from the lines of a file instead; each line is a value in the table's encoding; - reads
        /// standard input
        ///
        /// The samples must contain no personal data, because the dictionary keeps pieces of them.
        #[arg(long, value_name = "FILE")]
        public_samples: Option<PathBuf>,
        /// The size of the dictionary in bytes; `opaque-id packs tune` recommends one
        #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = dictionary_bytes)]
        bytes: usize,
    },
    /// Print all rows as JSON lines, decrypted
    ///
    /// A line is `{"key":"…","value":…}`, or `{"key":"…","base64":"…"}` if the table's values are not JSON.
    /// Rows that cannot be read, or are not JSON, are reported, the others are printed, and the exit status
    /// is 1.
    Export(PackedTable),
    /// Write rows into a table: the lines of `opaque-id packs export`, or the rows of another table of the
    /// database
    ///
    /// Rows of a file replace rows with the same keys, unless --keep is given. Rows of a table never do. A
    /// run that ends early can be repeated, and continues where it ended if rows are kept. Rows that are
    /// invalid or too long are reported, the others are written, and the exit status is 1. `opaque-id packs
    /// create` creates the table.
    ///
    /// The application may run meanwhile. To move a table, first let the application write and delete in both
    /// tables, in the old one first, and read the old one. Then import, and then let it read the packs. Each
    /// row is locked in the old table until it is written (on PostgreSQL, the role needs UPDATE on it), so a
    /// deletion is never undone.
    #[command(after_help = "Examples:\n  \
        opaque-id packs import --prefix event events events.jsonl\n  \
        opaque-id packs import --prefix event --from audit_log --columns actor,action events\n  \
        opaque-id packs import --prefix event --from audit_log --id event_id --value body events")]
    Import {
        #[command(flatten)]
        table: PackedTable,
        #[command(flatten)]
        from: FromTable,
        /// Leave rows that the table has as they are
        #[arg(long, conflicts_with = "from")]
        keep: bool,
        /// JSON lines; - reads standard input
        #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) table: PackedTable,
    #[command(flatten)]
    pub(crate) settings: PackSettings,
    #[command(flatten)]
    pub(crate) column: ColumnArgs,
    /// Write rows into packs at once, and not into the recent table: for tables that are read far more
    /// often than written, and have no merger; cannot be changed later
    #[arg(long, conflicts_with = "column")]
    pub(crate) write_through: bool,
    /// The encoding of values: json, raw for bytes and `Text`, or the name of the application's own encoding
    #[arg(long, value_name = "NAME", default_value = "json")]
    pub(crate) encoding: String,
    /// Order rows by their encrypted keys, because the table's type has `ByEncryptedKey`
    #[arg(long, conflicts_with = "column")]
    pub(crate) by_encrypted_key: bool,
    /// Keep rows in groups, because the type's encoding is `Grouped`
    #[arg(long)]
    pub(crate) groups: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ColumnArgs {
    /// The table is that of an encrypted column, and its values are in this column of the application's,
    /// after an optional schema and a dot
    #[arg(long, value_name = "TABLE.COLUMN")]
    pub(crate) column: Option<String>,
    /// The column of the ids that the values are encrypted for: the primary key
    #[arg(long, value_name = "COLUMN", default_value = "id", requires = "column")]
    pub(crate) id: String,
    /// The column of the fingerprints, if there is a blind index
    #[arg(long, value_name = "COLUMN", requires = "column")]
    pub(crate) index: Option<String>,
    /// The treatment of texts by the blind index, the same as in the application
    #[arg(long, requires = "index", value_parser = one_of(NORMALIZERS))]
    pub(crate) normalize: Option<Normalizer>,
    /// The column that has the values in plaintext until they are encrypted
    #[arg(long, value_name = "COLUMN", requires = "column")]
    pub(crate) plaintext: Option<String>,
    /// The plaintext is JSON
    #[arg(long, requires = "plaintext")]
    pub(crate) plaintext_json: bool,
}

const GOALS: [Choice<Conversion>; 3] = [
    ("index", "Fill the blind index, and leave values as they are", Conversion::Index),
    ("encrypted", "Encrypt all values, and fill the blind index", Conversion::Encrypted),
    ("plaintext", "Decrypt all values: the way back", Conversion::Plaintext),
];

const NORMALIZERS: [Choice<Normalizer>; 3] = [
    ("exact", "Bytes are compared", Normalizer::Exact),
    ("nfc", "Unicode's form NFC", Normalizer::Nfc),
    ("caseless", "NFKC and lower case", Normalizer::Caseless),
];

#[derive(Debug, ClapArgs)]
pub(crate) struct FromTable {
    /// Read rows from this table or view of the same database, after an optional schema and a dot, in the
    /// database's upper and lower case
    #[arg(long, value_name = "TABLE", value_parser = quotable, requires = "content")]
    pub(crate) from: Option<String>,
    /// The column of the keys, which must be unique and should have an index: UUIDs and ULIDs as the
    /// database's type, 16 bytes or text, or integers
    #[arg(long, value_name = "COLUMN", value_parser = quotable, default_value = "id", requires = "from")]
    pub(crate) id: String,
    /// Columns that become a JSON object; for other JSON, create a view with a column of JSON, and name it by
    /// --value
    #[arg(long, value_name = "COLUMNS", value_parser = quotable, value_delimiter = ',', group = "content", requires = "from")]
    pub(crate) columns: Vec<String>,
    /// The column of the whole value: JSON or, if the table's values are not JSON, bytes or text
    #[arg(long, value_name = "COLUMN", value_parser = quotable, group = "content", requires = "from")]
    pub(crate) value: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PackSettings {
    /// The size of packs in bytes, from 256 to 1,048,576: `opaque-id packs tune` recommends one [default of a new table: 8064]
    #[arg(long, value_name = "N")]
    pub(crate) pack_bytes: Option<u32>,
    /// zstd's level for recent rows, from 1 to 19 [default of a new table: 3]
    #[arg(long, value_name = "N")]
    pub(crate) row_level: Option<i32>,
    /// zstd's level for packs, from 1 to 19 [default of a new table: 9]
    #[arg(long, value_name = "N")]
    pub(crate) pack_level: Option<i32>,
    /// The padding of recent rows: none, padme, or a step in bytes, from 1 to 4,096 [default of a new table: 64]
    #[arg(long, value_name = "PADDING", value_parser = padding)]
    pub(crate) row_padding: Option<String>,
    /// The padding of packs, likewise [default of a new table: 64]
    #[arg(long, value_name = "PADDING", value_parser = padding)]
    pub(crate) pack_padding: Option<String>,
    /// The seconds that the value of a deleted row may stay in its pack, if a merger runs [default of a
    /// new table: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) erase_after: Option<u32>,
}

#[derive(Debug, ClapArgs)]
#[command(
    mut_arg("prefix", |prefix| prefix.required(true).help("The prefix of the resource whose rows the table contains")),
    mut_arg("form", |form| form.hide(true))
)]
pub(crate) struct PackedTable {
    #[command(flatten)]
    pub(crate) resource: ResourceArgs,
    /// postgres://…, mysql://… (also for MariaDB), sqlite://… or SQLite's file, without a pooler; use
    /// DATABASE_URL to hide it from other users
    #[arg(long, value_name = "URL", env, hide_env_values = true, value_parser = database_url)]
    pub(crate) database_url: String,
    /// The context of the table in the application, if there is one
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) context: String,
    /// The table's name in the application: events for `events_packs`, or customers_notes for an encrypted
    /// column
    #[arg(value_name = "TABLE", value_parser = table_name)]
    pub(crate) table: String,
}

fn table_name(name: &str) -> Result<String, InvalidTableName> {
    check_name(name).map(|()| name.to_owned())
}

fn quotable(name: &str) -> Result<String, String> {
    match name.is_empty() || name.contains(['"', '\'', '`', '\\', '\0']) {
        true => Err("expected a name without quotes and backslashes".to_owned()),
        false => Ok(name.to_owned()),
    }
}

fn padding(text: &str) -> Result<String, String> {
    match text == "none" || text == "padme" || text.parse::<u16>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("expected none, padme or a number of bytes".to_owned()),
    }
}

fn dictionary_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().map_err(|_| "expected a number of bytes")?;
    match (1_024..=1 << 20).contains(&bytes) {
        true => Ok(bytes),
        false => Err("expected from 1,024 to 1,048,576 bytes".to_owned()),
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tune {
    /// The separator of rows
    #[arg(long, value_enum, default_value_t = Separator::Line)]
    pub(crate) separator: Separator,
    /// The rows have integer keys; these are smaller than keys of 16 bytes
    #[arg(long)]
    pub(crate) integer_keys: bool,
    /// Write all measurements into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw the ratios into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// The rows: JSON lines, or bytes of any kind; - reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Separator {
    /// A line break: each line is a row
    Line,
    /// An empty line: rows have several lines
    BlankLine,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FunctionDialect {
    /// PostgreSQL, with its extension pgcrypto
    Postgres,
    /// MySQL
    Mysql,
    /// MariaDB
    Mariadb,
}

#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub(crate) struct Target {
    /// The SQL of this database
    #[arg(long, value_parser = one_of(DIALECTS))]
    pub(crate) dialect: Option<Dialect>,
    /// The SQL of this engine with another database's dialect
    #[arg(long)]
    pub(crate) engine: Option<EngineKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    /// CockroachDB
    Cockroach,
    /// YugabyteDB
    Yugabyte,
    /// TiDB
    Tidb,
    /// Amazon Aurora DSQL
    Dsql,
    /// Google Spanner's PostgreSQL dialect (it cannot have these tables)
    Spanner,
}

const DIALECTS: [Choice<Dialect>; 4] = [
    ("postgres", "PostgreSQL", Dialect::Postgres),
    ("mysql", "MySQL", Dialect::MySql),
    ("mariadb", "MariaDB", Dialect::MySql),
    ("sqlite", "SQLite", Dialect::Sqlite),
];

const INDEXES: [Choice<Index>; 2] = [
    (
        "unique",
        "A unique index over the UUID; use it unless measurements say otherwise",
        Index::Unique,
    ),
    ("hashed", "An index over a 32-bit hash of the UUID; for one server only", Index::Hashed),
];

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Secrets {
    /// Read the secrets from this file instead of OPAQUE_ID_KEYS; other users must not be able to read or write it
    #[arg(long, value_name = "FILE")]
    pub(crate) keys_file: Option<PathBuf>,
    /// Like --keys-file, for a file that other users can read or write, as container platforms mount them
    #[arg(long, value_name = "FILE", conflicts_with = "keys_file")]
    pub(crate) shared_keys_file: Option<PathBuf>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ResourceArgs {
    /// The resource's prefix, such as user; without it, the prefix of each id determines its resource
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// The resource's domain, if it differs from the prefix
    #[arg(long, requires = "prefix")]
    pub(crate) domain: Option<String>,
    /// The kind of the internal keys, also by its name in the derive (Uuid7, i64)
    #[arg(long, requires = "prefix", value_parser = keys())]
    pub(crate) key: Option<KeyKind>,
    /// The form of the external ids; text if neither this option nor the file of resources sets it
    #[arg(long, requires = "prefix", value_parser = forms())]
    pub(crate) form: Option<FormKind>,
    /// The audience of these ids, such as a partner: the name that the application passes to
    /// `Keyring::for_audience`, or `logs` for ids in logs, although `open` recognizes them by themselves
    #[arg(long, value_name = "NAME")]
    pub(crate) audience: Option<String>,
    /// The file of resources; without this option, opaque-id.toml in the current folder or in one above it
    #[arg(long, value_name = "FILE", env = "OPAQUE_ID_RESOURCES")]
    pub(crate) resources: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) secrets: Secrets,
}

/// diesel names a SQLite database by its file alone.
fn database_url(url: &str) -> Result<String, Infallible> {
    Ok(match Path::new(url).is_file() {
        true => format!("sqlite://{}", url.replace('%', "%25").replace('?', "%3F")),
        false => url.to_owned(),
    })
}

type Choice<T> = (&'static str, &'static str, T);

fn one_of<T: Clone + Send + Sync + 'static, const N: usize>(
    all: [Choice<T>; N],
) -> impl TypedValueParser<Value = T> {
    let names = all.clone().map(|(name, help, _)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).try_map(move |name| {
        let chosen = all.iter().find(|(other, ..)| *other == name);
        chosen.map(|(.., value)| value.clone()).ok_or("an unknown name")
    })
}

/// An integer's ids do not depend on the width of its column.
pub(crate) fn name(key: KeyKind) -> &'static str {
    if key.is_integer() { "int" } else { key.name() }
}

pub(crate) fn key_kind(name: &str) -> Result<KeyKind, String> {
    let kind = if name == "int" { Ok(KeyKind::I64) } else { name.parse() };
    kind.map_err(|expected| format!("unknown key `{name}`; {expected}"))
}

pub(crate) fn form_kind(name: &str) -> Result<FormKind, String> {
    name.parse().map_err(|expected| format!("unknown form `{name}`; {expected}"))
}

fn keys() -> impl TypedValueParser<Value = KeyKind> {
    let keys = [
        (["uuid7", "Uuid7"], "UUIDv7, the default of `#[derive(OpaqueId)]`"),
        (["ulid", "Ulid"], "ULID"),
        (["structured", "StructuredKey"], "A sequence and a nonce of 60 bits each"),
        (["uuid", "Uuid"], "Any UUID"),
    ];
    let keys =
        keys.map(|([name, of_derive], help)| PossibleValue::new(name).alias(of_derive).help(help));
    let int = PossibleValue::new("int")
        .aliases(["i64", "i32", "u32"])
        .help("An integer: its ids do not depend on the width of its column, but i32 and u32 refuse keys that do not fit");
    PossibleValuesParser::new(keys.into_iter().chain([int])).try_map(|name| key_kind(&name))
}

fn forms() -> impl TypedValueParser<Value = FormKind> {
    let forms = [
        ("text", "prefix_ and 26 characters"),
        ("short", "prefix_ and 13 characters, for integers; 26 for those from 2^36 on and below 0"),
        ("tagged", "prefix_ and 34 characters"),
        ("uuid", "A UUID of version 8"),
    ];
    let forms = forms.map(|(name, help)| PossibleValue::new(name).help(help));
    // This command reads no mapping table.
    let mapped = ["mapped", "mapped_uuid"].map(|name| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(forms.into_iter().chain(mapped)).try_map(|name| form_kind(&name))
}
