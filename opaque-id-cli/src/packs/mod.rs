//! `opaque-id packs`: operations on tables of packs.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use opaque_id_core::Keyring;
use opaque_id_core::key::{StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_packs::__private::RuntimePacks;
use opaque_id_packs::{Location, TableName, Verified};

use crate::args::{FromTable, KeyKind, PackSettings, PackedTable, Packs};
use crate::resource::{self, ShownKey};
use crate::{output, secrets, with_causes};
use database::{Database, PackError};
use settings::Contents;

mod database;
mod old_table;
mod rows;
mod settings;
mod tune;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A table that is open.
struct Table<K> {
    name: String,
    database: Database,
    packs: RuntimePacks<K>,
}

enum Action {
    Create(Contents),
    Configure(PackSettings),
    Verify,
    Restore { backup_url: String, force: bool },
    Rekey,
    Train { bytes: usize },
    Export,
    Import { file: PathBuf, keep: bool },
    ImportFrom { table: String, from: FromTable },
}

/// Returns whether all was good.
pub(crate) fn run(out: &mut impl Write, command: Packs) -> Result<bool> {
    let (args, action) = match command {
        Packs::Tune(args) => {
            output::warn(&tune::tune(out, &args)?)?;
            return Ok(true);
        }
        Packs::Create { table, settings, write_through, encoding, by_encrypted_key } => {
            let contents = Contents { settings, write_through, encoding, by_encrypted_key };
            (table, Action::Create(contents))
        }
        Packs::Configure { table, settings } => (table, Action::Configure(settings)),
        Packs::Verify(table) => (table, Action::Verify),
        Packs::Restore { table, backup_url, force } => {
            (table, Action::Restore { backup_url, force })
        }
        Packs::Rekey(table) => (table, Action::Rekey),
        Packs::Train { table, bytes } => (table, Action::Train { bytes }),
        Packs::Export(table) => (table, Action::Export),
        Packs::Import { table, file, keep, mut from } => match (file, from.from.take()) {
            (Some(file), _) => (table, Action::Import { file, keep }),
            (None, Some(old)) => (table, Action::ImportFrom { table: old, from }),
            (None, None) => return Err("expected a file, or --from".into()),
        },
    };
    let keyring = resource::of_audience(&args.resource, &secrets::keyring(&args.resource.secrets)?);
    let (prefix, described) = resource::named(&args.resource)?;
    resource::check(&prefix, &described, &keyring)?;
    let domain = described.domain.as_deref().unwrap_or(&prefix);
    output::block_on(async {
        match described.key.unwrap_or(KeyKind::Uuid7) {
            KeyKind::Uuid7 => act::<Uuid7>(out, &args, &keyring, domain, action).await,
            KeyKind::Ulid => act::<Ulid>(out, &args, &keyring, domain, action).await,
            KeyKind::Structured => act::<StructuredKey>(out, &args, &keyring, domain, action).await,
            KeyKind::Uuid => act::<Uuid>(out, &args, &keyring, domain, action).await,
            KeyKind::Int => act::<i64>(out, &args, &keyring, domain, action).await,
        }
    })?
}

async fn act<K: ShownKey>(
    out: &mut impl Write,
    args: &PackedTable,
    keyring: &Keyring,
    domain: &str,
    action: Action,
) -> Result<bool> {
    if let Action::Create(contents) = action {
        return settings::create::<K>(out, args, keyring, domain, contents).await;
    }
    let open = |url| Table::<K>::open(args, url, keyring, domain);
    let table = open(&args.database_url).await?;
    match action {
        Action::Create(_) => unreachable!("it opens no table"),
        Action::Configure(settings) => settings::configure(out, &table, &settings).await,
        Action::Verify => verify(out, &table).await,
        Action::Restore { backup_url, force } => {
            let backup = open(&backup_url)
                .await
                .map_err(|error| format!("the backup: {}", with_causes(&*error)))?;
            restore(out, &table, &backup, force).await
        }
        Action::Rekey => rekey(out, &table).await,
        Action::Train { bytes } => train(out, &table, bytes).await,
        // Not through `out`, which removes colors for a pipe, and so would change values that contain them.
        Action::Export => rows::export(&mut BufWriter::new(io::stdout().lock()), &table).await,
        Action::Import { file, keep } => rows::import(out, &table, &file, keep).await,
        Action::ImportFrom { table: old, from } => {
            rows::import_from(out, &table, &old, &from).await
        }
    }
}

impl<K: ShownKey> Table<K> {
    async fn open(args: &PackedTable, url: &str, keyring: &Keyring, domain: &str) -> Result<Self> {
        let database = Database::connect(url).await?;
        let (mut packs, mut call) = RuntimePacks::open(keyring, domain, name(args), false)?;
        database.run(&mut call).await?;
        // Its ids may be stored otherwise.
        if packs.hides_keys()? {
            (packs, call) = RuntimePacks::open(keyring, domain, name(args), true)?;
            database.run(&mut call).await?;
        }
        Ok(Self { name: args.table.clone(), database, packs })
    }
}

fn name(args: &PackedTable) -> TableName {
    TableName::new(&args.table).context(&args.context)
}

/// Returns a problem with the id that the database has for it, which is for those who operate the database.
fn describe(problem: &dyn Error, location: Option<&Location>) -> String {
    let id = location.and_then(Location::expose_id);
    let id = id.map_or(String::new(), |id| format!(" (id {id})"));
    with_causes(problem) + &id
}

/// Prints what is corrupt or missing to standard output, because here it is the result.
async fn verify<K: ShownKey>(out: &mut impl Write, table: &Table<K>) -> Result<bool> {
    let verified = verified(table).await?;
    for problem in &verified.problems {
        writeln!(out, "{}", describe(problem, problem.location()))?;
    }
    let problems = match verified.problems.len() {
        0 => "nothing is corrupt or missing".to_owned(),
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    writeln!(
        out,
        "{} rows in {} packs and {} recent rows could be read; {problems}",
        verified.packed_rows, verified.packs, verified.recent_rows
    )?;
    Ok(verified.problems.is_empty())
}

/// Replaces packs that cannot be read or are missing by the rows of a backup, and prints the remaining damage.
async fn restore<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    backup: &Table<K>,
    force: bool,
) -> Result<bool> {
    if !table.packs.is_backup(&backup.packs)? {
        return Err(
            "expected a backup of this table, found a table with another order or encoding".into(),
        );
    }
    let found = verified(table).await?;
    let mut all_good = true;
    for damage in RuntimePacks::<K>::damage(&found, force) {
        let mut rows = Vec::new();
        let mut rest = table.packs.backup_of(damage);
        let read = async {
            while let Some(mut call) = backup.packs.next_of_backup(rest)? {
                backup.database.run(&mut call).await?;
                let page;
                (page, rest) = RuntimePacks::<K>::rows_of_backup(call);
                rows.extend(page);
            }
            Ok::<_, PackError>(())
        };
        if let Err(error) = read.await {
            all_good = false;
            let problem = describe(&error, error.location());
            output::problem(&format!("the backup: {problem}"))?;
            continue;
        }
        if rows.is_empty() && !force {
            all_good = false;
            output::problem(
                "the backup has no rows of a pack that is corrupt or missing: expected another backup, or --force",
            )?;
            continue;
        }
        let count = rows.len();
        let mut call = table.packs.restore(damage, rows)?;
        table.database.run(&mut call).await?;
        match RuntimePacks::<K>::is_restored(call) {
            true => writeln!(out, "{count} rows restored, as the backup has them")?,
            false => {
                let location = table.packs.location_of(damage);
                let id = location.expose_id().unwrap_or_default();
                writeln!(
                    out,
                    "{count} rows not restored: {location} (id {id}) can be read by now, or was restored by another client"
                )?;
            }
        }
    }
    Ok(verify(out, table).await? && all_good)
}

async fn verified<K: ShownKey>(table: &Table<K>) -> Result<Verified> {
    let all = table.database.count(&table.name).await?;
    let done = "{human_pos} of {human_len} packs and recent rows";
    let bar = bar(done, Some(all))?;
    let progress = bar.clone();
    let mut call = table.packs.verify(move |done| progress.set_position(done));
    table.database.run(&mut call).await?;
    bar.finish_and_clear();
    Ok(table.packs.verified(call))
}

async fn rekey<K: ShownKey>(out: &mut impl Write, table: &Table<K>) -> Result<bool> {
    let bar = bar("{human_pos} packs and recent rows encrypted again", None)?;
    let progress = bar.clone();
    let mut call = table.packs.rekey(move |done| progress.set_position(done));
    table.database.run(&mut call).await?;
    bar.finish_and_clear();
    let rekeyed = table.packs.rekeyed(call)?;
    writeln!(out, "{} packs and {} recent rows encrypted again", rekeyed.packs, rekeyed.rows)?;
    if rekeyed.lost > 0 {
        let lost = rekeyed.lost;
        let note = format!(
            "{lost} were changed or locked by the application meanwhile: run the command again, which skips what is done"
        );
        output::warn(&[note])?;
    }
    Ok(true)
}

async fn train<K: ShownKey>(out: &mut impl Write, table: &Table<K>, bytes: usize) -> Result<bool> {
    let bar = bar("training", None)?;
    table.database.run(&mut table.packs.train(bytes)?).await?;
    bar.finish_and_clear();
    writeln!(
        out,
        "a dictionary of up to {bytes} bytes is used from now on; packs get it when they are written next, or by \
         `opaque-id packs rekey`"
    )?;
    Ok(true)
}

/// A bar on standard error, if that is a terminal.
fn bar(done: &str, length: Option<u64>) -> Result<ProgressBar> {
    let template = match length {
        Some(_) => format!("{{bar:40}} {done}, {{eta}} left"),
        None => format!("{{spinner}} {done}, {{elapsed}}"),
    };
    let bar = match length {
        Some(length) => ProgressBar::new(length),
        None => ProgressBar::no_length(),
    };
    bar.set_style(ProgressStyle::with_template(&template)?);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}
