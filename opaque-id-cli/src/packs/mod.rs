//! `opaque-id packs`: operations on tables of packs.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use opaque_id_core::Keyring;
use opaque_id_core::key::{KeyKind, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::RuntimeResource;
use opaque_id_packs::__private::{Layout, RuntimePacks};
use opaque_id_packs::{
    ColumnName, Conversion, Converted, Location, Normalizer, Rekeyed, TableError, TableName,
    Verified,
};

use crate::args::{ColumnArgs, Create, PackedTable, Packs};
use crate::resource::{self, ShownKey};
use crate::resources::ResourceSettings;
use crate::{files, output, secrets, with_causes};
use database::Database;

mod database;
pub(crate) mod in_use;
mod old_table;
mod rows;
mod settings;
mod tune;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Table<K> {
    name: String,
    database: Database,
    packs: RuntimePacks<K>,
}

pub(crate) fn run(out: &mut impl Write, command: &Packs) -> Result<bool> {
    let args = match command {
        Packs::Tune(args) => {
            output::warn(&tune::tune(out, args)?)?;
            return Ok(true);
        }
        Packs::Create(Create { table, .. })
        | Packs::Configure { table, .. }
        | Packs::Verify { table, .. }
        | Packs::Convert { table, .. }
        | Packs::Restore { table, .. }
        | Packs::Rekey { table, .. }
        | Packs::Sweep { table, .. }
        | Packs::Train { table, .. }
        | Packs::Export(table)
        | Packs::Import { table, .. } => table,
    };
    let keyring =
        resource::audience_keyring(&args.resource, &secrets::keyring(&args.resource.secrets)?);
    let ResourceSettings { prefix, domain, key, form, .. } = &resource::named(&args.resource)?;
    if !form.is_mapped() {
        RuntimeResource::new(&keyring, prefix, domain, *key, *form)?;
    }
    output::block_on(async {
        match *key {
            KeyKind::UUID7 => act::<Uuid7>(out, args, &keyring, domain, command).await,
            KeyKind::ULID => act::<Ulid>(out, args, &keyring, domain, command).await,
            KeyKind::STRUCTURED => act::<StructuredKey>(out, args, &keyring, domain, command).await,
            KeyKind::UUID => act::<Uuid>(out, args, &keyring, domain, command).await,
            _ => act::<i64>(out, args, &keyring, domain, command).await,
        }
    })?
}

async fn act<K: ShownKey>(
    out: &mut impl Write,
    args: &PackedTable,
    keyring: &Keyring,
    domain: &str,
    command: &Packs,
) -> Result<bool> {
    let column = match command {
        Packs::Create(Create { column, .. })
        | Packs::Verify { column, .. }
        | Packs::Convert { column, .. }
        | Packs::Rekey { column, .. }
        | Packs::Sweep { column, .. } => named(column)?,
        _ => None,
    };
    if let Packs::Create(create) = command {
        return settings::create::<K>(out, create, keyring, domain, column.as_ref()).await;
    }
    let open = |url| Table::<K>::open(args, url, keyring, domain);
    let table = open(&args.database_url).await?;
    let writes_rows = match command {
        Packs::Import { .. } | Packs::Restore { .. } => Some(true),
        Packs::Rekey { .. } | Packs::Sweep { .. } => Some(column.is_none()),
        _ => None,
    };
    if let Some(has_rows) = writes_rows {
        table.database.run(table.packs.check_primary_keys(has_rows)).await?;
    }
    match command {
        Packs::Tune(_) | Packs::Create(_) => unreachable!("it opens no table"),
        Packs::Configure { settings, .. } => settings::configure(out, &table, settings).await,
        Packs::Verify { column: of, .. } => {
            let normalizer = normalizer(of)?;
            verify(out, &table, column.as_ref().map(|column| (column, normalizer))).await
        }
        Packs::Convert { column: of, to, .. } => {
            let column = column.ok_or("expected --column")?;
            match to {
                Conversion::Index if of.index.is_none() => {
                    return Err("expected --index, the column of the fingerprints".into());
                }
                Conversion::Encrypted | Conversion::Plaintext if of.plaintext.is_none() => {
                    return Err("expected --plaintext, the column of the plaintext".into());
                }
                _ => {}
            }
            convert(out, &table, &column, normalizer(of)?, *to).await
        }
        Packs::Restore { backup_url, force, .. } => {
            let backup = open(backup_url)
                .await
                .map_err(|error| format!("the backup: {}", with_causes(&*error)))?;
            restore(out, &table, &backup, *force).await
        }
        Packs::Rekey { .. } => rekey(out, &table, column.as_ref(), None).await,
        Packs::Sweep { unused_for, .. } => {
            rekey(out, &table, column.as_ref(), Some(Duration::from_secs(*unused_for))).await
        }
        Packs::Train { bytes, public_samples, .. } => {
            train(out, &table, *bytes, public_samples.as_deref()).await
        }
        // `out` removes colors for a pipe, and would change values that contain such characters.
        Packs::Export(_) => rows::export(&mut BufWriter::new(io::stdout().lock()), &table).await,
        Packs::Import { .. } if table.packs.has_groups()? => Err(
            "expected a table without groups, found one with groups: write its rows with the application, because the type of the value names each group".into(),
        ),
        Packs::Import { file: Some(file), keep, .. } => {
            rows::import(out, &table, file, *keep).await
        }
        Packs::Import { from, .. } => {
            let old = from.from.as_deref().ok_or("expected a file, or --from")?;
            rows::import_from(out, &table, old, from).await
        }
    }
}

impl<K: ShownKey> Table<K> {
    async fn open(args: &PackedTable, url: &str, keyring: &Keyring, domain: &str) -> Result<Self> {
        let database = Database::connect(url).await?;
        let open = |hides_keys| RuntimePacks::open(keyring, domain, name(args), hides_keys);
        let mut packs = database.run(open(false)?).await?;
        // A table with encrypted keys may store its ids in another way.
        if packs.hides_keys()? {
            packs = database.run(open(true)?).await?;
        }
        Ok(Self { name: args.table.clone(), database, packs })
    }
}

fn name(args: &PackedTable) -> TableName {
    TableName::new(&args.table).context(&args.context)
}

fn named(of: &ColumnArgs) -> Result<Option<ColumnName>> {
    let (index, plaintext) = (of.index.as_deref(), of.plaintext.as_deref());
    let named = |column: &String| {
        let name = ColumnName::parse(column, &of.id, index, plaintext).ok_or(
            "expected a column as TABLE.COLUMN and different names of letters, digits and `_`, as in customers.notes",
        )?;
        Ok(match plaintext.filter(|_| of.plaintext_json) {
            Some(plaintext) => name.plaintext_json(plaintext),
            None => name,
        })
    };
    of.column.as_ref().map(named).transpose()
}

/// A default could differ from the application's.
fn normalizer(of: &ColumnArgs) -> Result<Option<Normalizer>> {
    match of.normalize {
        None if of.index.is_some() => {
            Err("expected --normalize, with the normalizer of the application's index".into())
        }
        normalizer => Ok(normalizer),
    }
}

pub(crate) fn layout(is_column: bool, by_encrypted_key: bool) -> Layout {
    match (is_column, by_encrypted_key) {
        (true, _) => Layout::Column,
        (false, true) => Layout::ByEncryptedKey,
        (false, false) => Layout::ByKey,
    }
}

/// Returns a problem with its id in the database, for the operators of the database.
fn describe(problem: &dyn Error, location: Option<&Location>) -> String {
    let id = location.and_then(Location::expose_id);
    let id = id.map_or(String::new(), |id| format!(" (id {id})"));
    with_causes(problem) + &id
}

/// Prints problems to standard output, because they are the result here.
async fn verify<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    column: Option<(&ColumnName, Option<Normalizer>)>,
) -> Result<bool> {
    let verified = verified(table, column).await?;
    let problems = print(out, &verified.problems, verified.more_problems)?;
    let Verified { packs, packed_rows, recent_rows, values, .. } = verified;
    match column {
        Some(_) => writeln!(out, "{values} values could be read; {problems}")?,
        None => writeln!(
            out,
            "{packed_rows} rows in {packs} packs and {recent_rows} recent rows could be read; {problems}"
        )?,
    }
    Ok(verified.problems.is_empty())
}

fn print(out: &mut impl Write, problems: &[TableError], more: u64) -> Result<String> {
    for problem in problems {
        writeln!(out, "{}", describe(problem, problem.location()))?;
    }
    if more > 0 {
        writeln!(out, "… and {} more", HumanCount(more))?;
    }
    Ok(match problems.len() as u64 + more {
        0 => "nothing is corrupt or missing".to_owned(),
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    })
}

async fn convert<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    column: &ColumnName,
    normalizer: Option<Normalizer>,
    to: Conversion,
) -> Result<bool> {
    let Table { database, packs, .. } = table;
    if normalizer.is_some() {
        database.run(packs.make_index()).await?;
    }
    let bar = bar("{human_pos} rows", None)?;
    let position = bar.clone();
    let progress = move |done| position.set_position(done);
    let converted = database.run(packs.convert(column, to, normalizer, progress)?).await?;
    bar.finish_and_clear();
    let Converted { rows, plaintext, encrypted, unindexed, lost, .. } = converted;
    print(out, &converted.problems, converted.more_problems)?;
    writeln!(
        out,
        "{rows} rows written; {plaintext} values are in plaintext, and {unindexed} have no fingerprint"
    )?;
    if lost > 0 {
        let note =
            format!("{lost} were changed by the application meanwhile: run the command again");
        output::warn(&[note])?;
    }
    let left = match to {
        Conversion::Encrypted => plaintext,
        Conversion::Plaintext => encrypted,
        _ => 0,
    };
    let is_known = !converted.problems.is_empty() || lost > 0;
    if left > 0 && !is_known {
        let note = format!(
            "{left} values were not converted: look for rows whose id is NULL, a client that writes the old form, or a trigger"
        );
        output::warn(&[note])?;
    }
    Ok(!is_known && left == 0 && (unindexed == 0 || to == Conversion::Plaintext))
}

/// Replaces unreadable and missing packs by the rows of a backup, and prints the remaining damage.
async fn restore<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    backup: &Table<K>,
    force: bool,
) -> Result<bool> {
    if !table.packs.is_backup(&backup.packs)? {
        return Err(
            "expected a backup of this table, found a table with another order, groups or encoding"
                .into(),
        );
    }
    let found = verified(table, None).await?;
    let mut all_good = true;
    for damage in RuntimePacks::<K>::damage(&found, force) {
        let rows = match backup.database.run(backup.packs.rows_of(damage)).await {
            Ok(rows) => rows,
            Err(error) => {
                all_good = false;
                let problem = describe(&error, error.location());
                output::problem(&format!("the backup: {problem}"))?;
                continue;
            }
        };
        if rows.is_empty() && !force {
            all_good = false;
            output::problem(
                "the backup has no rows of a pack or a recent row that is corrupt or missing: expected another backup, or --force",
            )?;
            continue;
        }
        let count = rows.len();
        match table.database.run(table.packs.restore(damage, rows)).await? {
            true => writeln!(
                out,
                "{count} rows restored from the backup: rows that were deleted since are there again"
            )?,
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
    Ok(verify(out, table, None).await? && all_good)
}

async fn verified<K: ShownKey>(
    table: &Table<K>,
    column: Option<(&ColumnName, Option<Normalizer>)>,
) -> Result<Verified> {
    let Table { name, database, packs } = table;
    let (what, all) = match column {
        Some((column, _)) => ("values", database.count_values(column).await?),
        None => ("packs and recent rows", database.count(name).await?),
    };
    let bar = bar(&format!("{{human_pos}} of {{human_len}} {what}"), Some(all))?;
    let position = bar.clone();
    let progress = move |done| position.set_position(done);
    let verify = match column {
        Some((column, normalizer)) => packs.verify_column(column, normalizer, progress)?,
        None => packs.verify(None, None, progress),
    };
    let verified = database.run(verify).await?;
    bar.finish_and_clear();
    Ok(verified)
}

async fn rekey<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    column: Option<&ColumnName>,
    sweep: Option<Duration>,
) -> Result<bool> {
    let Table { database, packs, .. } = table;
    let what = if column.is_some() { "values" } else { "packs and recent rows" };
    let bar = bar(&format!("{{human_pos}} {what} encrypted again"), None)?;
    let position = bar.clone();
    let progress = move |done| position.set_position(done);
    let rekeyed = database.run(packs.rekey(column, sweep, progress)).await?;
    bar.finish_and_clear();
    let Rekeyed { packs, rows, lost, dictionaries, dictionaries_left: left, .. } = rekeyed;
    match column {
        None => writeln!(out, "{packs} packs and {rows} recent rows encrypted again")?,
        Some(_) => writeln!(out, "{rows} values encrypted again")?,
    }
    if lost > 0 {
        let note = format!(
            "{lost} were changed or locked by the application meanwhile: run the command again, which skips what is done"
        );
        output::warn(&[note])?;
    }
    let Some(unused_for) = sweep else { return Ok(true) };
    writeln!(out, "{dictionaries} old dictionaries deleted")?;
    if left > 0 {
        let note = format!(
            "{left} old dictionaries are left: run the command again when nothing is locked or old, and the current one has been current \
             for {} seconds",
            unused_for.as_secs()
        );
        output::warn(&[note])?;
    }
    Ok(lost == 0 && left == 0)
}

async fn train<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    bytes: usize,
    public_samples: Option<&Path>,
) -> Result<bool> {
    let bar = bar("training", None)?;
    match public_samples {
        None => table.database.run(table.packs.train(bytes)).await?,
        Some(file) => {
            let text = match file.to_str() {
                Some("-") => io::read_to_string(io::stdin())?,
                _ => files::read(file)?,
            };
            let lines = text.lines().filter(|line| !line.is_empty());
            let samples = lines.map(|line| line.as_bytes().to_vec().into()).collect();
            table.database.run(table.packs.train_from(Ok(samples), bytes)).await?;
        }
    }
    bar.finish_and_clear();
    writeln!(
        out,
        "a dictionary of up to {bytes} bytes is used from now on; packs get it when they are written next, or by \
         `opaque-id packs rekey`"
    )?;
    Ok(true)
}

/// Returns a progress bar on standard error if that is a terminal.
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
