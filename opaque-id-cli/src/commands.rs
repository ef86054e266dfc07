//! Runs a command. Results go to standard output, as text or as one JSON record per line. Notes and invalid
//! values go to standard error. Every value is processed, and the exit status is 1 if one of them was
//! invalid.

use std::cell::OnceCell;
use std::error::Error;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anstyle::Reset;
use clap::CommandFactory;
use clap_mangen::Man;
use jiff::Timestamp;
use opaque_id_core::form::{LOGS_AUDIENCE, from_log};
use opaque_id_core::inspect::{inspect, words};
use opaque_id_core::key::{KeyKind, Uuid};
use opaque_id_core::keyring::RuntimeResource;
use opaque_id_core::{Keyring, MasterSecret};
use opaque_id_packs::__private::RuntimePacks;
use opaque_id_sql::statement::hex;
use opaque_id_sql::{mapping, sequence};
use serde::Serialize;

use crate::args::{self, Args, Command, Ids, SqlScript, name};
use crate::audit::AuditLog;
use crate::engines::{self, Tables};
use crate::lines;
use crate::output::{block_on, is_hex, line, report, shown, unread_schemas, warn};
use crate::packs::in_use;
use crate::resource::{self, KeyView, Opened};
use crate::resources::{self, ResourceSettings, Resources};
use crate::secrets::{Opener, keyring, resources_of_subkeys};
use crate::subkeys::Line;
use crate::{conformance, functions, init, packs, rotation, secrets, source, sqlx_toml, style};

#[derive(Default, Serialize)]
struct Record<'a> {
    id: &'a str,
    key: &'a str,
    key_id: u8,
    time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a str>,
}

#[derive(Serialize)]
struct Renewed<'a> {
    id: &'a str,
    old_id: &'a str,
    key_id: u8,
}

#[derive(Serialize)]
struct Inspected<'a> {
    id: &'a str,
    well_formed: bool,
    form: Option<&'a str>,
    prefix: Option<&'a str>,
    key_id: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mapped_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor_of: Option<&'a str>,
    problem: Option<String>,
    suggestion: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Known<'a>>,
}

#[derive(Serialize)]
struct Known<'a> {
    prefix: &'a str,
    key: &'static str,
    form: &'static str,
    domain: &'a str,
    table: Option<&'a str>,
}

impl<'a> Known<'a> {
    fn new(settings: &'a ResourceSettings) -> Self {
        Self {
            prefix: &settings.prefix,
            key: name(settings.key),
            form: settings.form.name(),
            domain: &settings.domain,
            table: settings.table.as_deref(),
        }
    }
}

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, key, form, domain, table } = self;
        let name = prefix.escape_debug();
        write!(f, "{name} has keys of the kind {key} and the {form} form")?;
        if domain != prefix {
            write!(f, ", the domain {}", domain.escape_debug())?;
        }
        table.map_or(Ok(()), |table| write!(f, ", the table {}", table.escape_debug()))
    }
}

#[derive(Serialize)]
struct Generated<'a> {
    key_id: u8,
    entry: &'a str,
    check_value: Option<String>,
}

#[derive(Serialize)]
struct Held {
    key_id: u8,
    check_value: String,
    seals: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let out = &mut BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    let all_good = match args.command {
        Command::Init { database_url, dry_run } => {
            warn(&init::run(out, database_url.as_deref(), dry_run)?)?;
            true
        }
        Command::Keygen { key_id, json } => keygen(out, key_id, json)?,
        Command::Keys { secrets, plan_rotation, in_use, retire, database_url, json } => {
            let keyring = keyring(&secrets)?;
            keys(out, &keyring, json)?;
            if plan_rotation {
                write!(out, "\n{}", rotation::plan(&keyring, &secrets))?;
            }
            match database_url.filter(|_| in_use || retire.is_some()) {
                Some(url) => block_on(in_use::print(out, &url, &keyring, retire))??,
                None => true,
            }
        }
        Command::Seal { resource, all_secrets, json, keys } => {
            seal(out, &resource, all_secrets, json, &keys)?
        }
        Command::Open { ids, purpose, audit_log } => {
            open(out, ids, purpose.as_deref(), audit_log.as_deref())?
        }
        Command::Renew(ids) => renew(out, ids)?,
        Command::ExportSubkeys { resource } => export_subkeys(out, &resource)?,
        Command::Inspect { resources, keys_file, json, ids } => {
            let listed = match keys_file {
                Some(file) => Some(resources_of_subkeys(file)?),
                None => Resources::read(resources.as_deref(), true)?,
            };
            inspect_all(out, listed.as_ref(), &ids, json)?
        }
        Command::Resources { sources } => {
            let (derives, mut problems) = source::read(&sources)?;
            write!(out, "{}", resources::write(derives, &mut problems)?)?;
            warn(&problems)?;
            problems.is_empty()
        }
        Command::SqlxToml { file, database_url, source, columns } => {
            let (url, file) = (database_url.as_deref(), file.as_deref());
            warn(&sqlx_toml::write(out, &columns, url, &source, file)?)?;
            true
        }
        Command::Sql { script } => {
            write!(out, "{}", sql(script)?)?;
            true
        }
        Command::Packs { command } => packs::run(out, &command)?,
        // `out` removes colors for a pipe, and would change names that contain such characters.
        Command::CheckSchema { database_url, exclude, json } => {
            check_schema(&mut io::stdout().lock(), &database_url, &exclude, json)?
        }
        Command::Conformance(args) => conformance::run(out, args)?,
        Command::Completions { shell } => {
            // It panics if it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "opaque-id", &mut script);
            out.write_all(&script)?;
            true
        }
        Command::Man { dir } => {
            match dir {
                Some(dir) => clap_mangen::generate_to(Args::command(), &dir)
                    .map_err(|error| format!("cannot write into {}: {error}", dir.display()))?,
                None => Man::new(Args::command()).render(out)?,
            }
            true
        }
    };
    out.flush()?;
    Ok(ExitCode::from(u8::from(!all_good)))
}

fn seal(
    out: &mut impl Write,
    args: &args::ResourceArgs,
    with_all: bool,
    json: bool,
    keys: &[String],
) -> Result<bool, Box<dyn Error>> {
    let keyring = keyring(&args.secrets)?;
    let resources = resource::Resources::new(args, &Opener::Keyring(keyring.clone()), true)?;
    let resource = resources.given().ok_or("a key has no prefix; name its resource by --prefix")?;
    let sealing = keyring.sealing_key_id();
    let key_ids = keyring.key_ids().filter(|key_id| with_all || *key_id == sealing);
    let key_ids: Vec<_> = key_ids.collect();
    each(keys, |key| {
        key_ids.iter().try_for_each(|key_id| {
            let (id, KeyView { key, time, .. }) = resource.seal(*key_id, key)?;
            let key_id = key_id.get();
            match (json, with_all) {
                (false, false) => return Ok(writeln!(out, "{id}")?),
                (false, true) => return Ok(writeln!(out, "{id}  key id {key_id}")?),
                (true, _) => {}
            }
            line(out, &Record { id: &id, key: &key, key_id, time, ..Record::default() })
        })
    })
}

fn open(
    out: &mut impl Write,
    args: Ids,
    purpose: Option<&str>,
    audit_log: Option<&Path>,
) -> Result<bool, Box<dyn Error>> {
    let mut audit_log = audit_log.map(AuditLog::open).transpose()?;
    let opener = secrets::read(&args.resource.secrets)?;
    if let (Opener::Subkeys(subkeys), Some(_)) = (&opener, purpose) {
        return Err(format!("grants need the secrets; found {}", subkeys.holds()).into());
    }
    // With an audit log, a file of sudo's user must not decide the rows of ids, because the log is about that
    // user.
    let trusts_sudo = audit_log.is_none();
    let of_args = resource::Resources::new(&args.resource, &opener, trusts_sudo)?;
    // An id of a log identifies its audience.
    let mut of_logs = args.resource.clone();
    of_logs.audience = Some(LOGS_AUDIENCE.to_owned());
    let logs = OnceCell::new();
    let mut unverified = Unverified::new(&opener, args.require_verified);
    let given = args.resource.prefix.as_deref();
    let open = |id: &str, is_one_of_several: bool| {
        // The audit log keeps short lines.
        if id.len() > 1024 {
            return Err("longer than any id".into());
        }
        let (resources, resource_args) = match from_log(id) {
            Some(_) => {
                if logs.get().is_none() {
                    let new = resource::Resources::new(&of_logs, &opener, trusts_sudo)?;
                    let _ = logs.set(new);
                }
                (logs.get().unwrap_or(&of_args), &of_logs)
            }
            None => (&of_args, &args.resource),
        };
        let answer = resources.act(id, |resource| resource.open(id, purpose));
        let answer = answer.and_then(|(opened, of)| {
            unverified.check(id, &of.settings.prefix, &opened)?;
            Ok((opened, of))
        });
        if let Some(log) = &mut audit_log {
            let audience = resource_args.audience.as_deref();
            log.write(id, resources, audience, answer.as_ref().map_err(|error| &**error))?;
        }
        let (opened, of) = answer?;
        let is_named = given.is_some() || inspect(id).prefix.is_some();
        let resource = (!is_named).then_some(&*of.settings.prefix);
        let table = of.settings.table.as_deref();
        let KeyView { key, kind, time, .. } = opened.shown;
        if args.json {
            let record = Record {
                id,
                key: &key,
                key_id: opened.key_id.get(),
                time,
                verified: Some(opened.is_verified),
                expires: opened.expires,
                resource,
                table,
            };
            return line(out, &record);
        }
        if is_one_of_several {
            write!(out, "{id}  ")?;
        }
        write!(out, "{key}  {kind}  key id {}", opened.key_id)?;
        if let Some(time) = time {
            write!(out, "  {time}")?;
        }
        if let Some(expires) = opened.expires {
            write!(out, "  expires {expires}")?;
        }
        if let Some(resource) = resource {
            write!(out, "  of {resource}")?;
        }
        if let Some(table) = table {
            write!(out, "  in {}", table.escape_debug())?;
        }
        if !opened.is_verified {
            write!(out, "  unverified")?;
        }
        Ok(writeln!(out)?)
    };
    each_part(&args.ids, pasted_ids, open)
}

/// Returns the ids in a text, such as a line of a log, or the text itself if it has none.
fn pasted_ids(pasted: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for word in words(pasted) {
        let is_id = from_log(&word).is_some() || inspect(&word).is_well_formed();
        if is_id && !ids.contains(&word) {
            ids.push(word);
        }
    }
    // A line end may split an id, and its start may be well formed.
    let is_start = |id: &String| {
        from_log(id).is_none() && inspect(pasted).suggestion.is_some_and(|meant| meant != *id)
    };
    if ids.is_empty() || ids.len() == 1 && ids.iter().any(is_start) {
        ids = vec![pasted.to_owned()];
    }
    ids
}

fn renew(out: &mut impl Write, args: Ids) -> Result<bool, Box<dyn Error>> {
    let keyring = keyring(&args.resource.secrets)?;
    let key_id = keyring.sealing_key_id().get();
    let opener = Opener::Keyring(keyring);
    let resources = resource::Resources::new(&args.resource, &opener, true)?;
    let mut unverified = Unverified::new(&opener, args.require_verified);
    each(&args.ids, |old_id| {
        let ((id, opened), of) = resources.act(old_id, |resource| resource.renew(old_id))?;
        unverified.check(old_id, &of.settings.prefix, &opened)?;
        if !args.json {
            return Ok(writeln!(out, "{id}")?);
        }
        let id = &*id;
        line(out, &Renewed { id, old_id, key_id })
    })
}

/// A wrong secret opens ids without a tag as well.
struct Unverified<'s> {
    opener: &'s Opener,
    is_refused: bool,
    noted: Vec<String>,
}

impl<'s> Unverified<'s> {
    fn new(opener: &'s Opener, is_refused: bool) -> Self {
        Self { opener, is_refused, noted: Vec::new() }
    }

    fn check(&mut self, id: &str, prefix: &str, opened: &Opened) -> Result<(), Box<dyn Error>> {
        let key_id = opened.key_id;
        let check_value = match self.opener {
            Opener::Keyring(keyring) => keyring.check_value(key_id).map(|value| value.to_string()),
            Opener::Subkeys(subkeys) => subkeys.check_value(prefix, key_id).map(str::to_owned),
        };
        let (false, Some(check_value)) = (opened.is_verified, check_value) else {
            return Ok(());
        };
        let compare = format!(
            "any secret opens ids without a tag; compare the check value {check_value} of key id {key_id} with the application's"
        );
        if self.is_refused {
            return Err(format!("expected a tag or a cursor: {compare}").into());
        }
        let mut notes = Vec::new();
        if !self.noted.contains(&check_value) {
            self.noted.push(check_value);
            notes.push(format!("nothing verifies {id}: {compare}"));
        }
        if opened.shown.is_far {
            notes.push(format!(
                "the time of {id} is before 2000 or more than a day from now: the secret, kind of key or resource is \
                 probably wrong"
            ));
        }
        Ok(warn(&notes)?)
    }
}

fn keygen(out: &mut impl Write, key_id: u8, json: bool) -> Result<bool, Box<dyn Error>> {
    let secret = MasterSecret::generate();
    let entry = secret.expose_hex(|hex| format!("{key_id}:{hex}"));
    if json {
        let keyring = Keyring::builder().sealing(key_id, secret).build()?;
        let check_value = keyring.check_value(keyring.sealing_key_id());
        let generated = Generated {
            key_id,
            entry: &entry,
            check_value: check_value.map(|value| value.to_string()),
        };
        line(out, &generated)?;
    } else {
        writeln!(out, "{entry}")?;
    }
    Ok(true)
}

fn keys(out: &mut impl Write, keyring: &Keyring, json: bool) -> Result<(), Box<dyn Error>> {
    for key_id in keyring.key_ids() {
        let Some(check_value) = keyring.check_value(key_id) else {
            continue;
        };
        let held = Held {
            key_id: key_id.get(),
            check_value: check_value.to_string(),
            seals: key_id == keyring.sealing_key_id(),
        };
        if json {
            line(out, &held)?;
        } else {
            let does = if held.seals { "seals" } else { "opens" };
            writeln!(out, "key id {}  {does}  check value {}", held.key_id, held.check_value)?;
        }
    }
    Ok(())
}

fn export_subkeys(out: &mut impl Write, args: &args::ResourceArgs) -> Result<bool, Box<dyn Error>> {
    let keyring = &keyring(&args.secrets)?;
    let ResourceSettings { prefix, key, form, domain, table } = &resource::named(args)?;
    if form.is_mapped() {
        return Err(
            format!("`{prefix}` is mapped: its ids are not sealed, so it has no subkeys").into()
        );
    }
    RuntimeResource::new(keyring, prefix, domain, *key, *form)?;
    let for_audience = resource::audience_keyring(args, keyring);
    writeln!(
        out,
        "# Subkeys of `{prefix}`, for `opaque-id open --keys-file`. Keep this file as you keep a secret (mode 600): with it, everyone\n\
         # can open every id of `{prefix}`, and make them up with other tools."
    )?;
    for key_id in keyring.key_ids() {
        let subkeys = for_audience.with_id_subkeys(key_id, domain, |bytes| hex(bytes));
        let Some((subkeys, check_value)) = subkeys.zip(keyring.check_value(key_id)) else {
            continue;
        };
        line(
            out,
            &Line {
                subkeys_of: prefix.clone(),
                key: key.name().to_owned(),
                form: form.name().to_owned(),
                domain: domain.clone(),
                table: table.clone(),
                audience: args.audience.clone(),
                key_id: key_id.get(),
                check_value: check_value.to_string(),
                subkeys,
            },
        )?;
    }
    Ok(true)
}

/// The fault of a malformed id is the result here.
fn inspect_all(
    out: &mut impl Write,
    listed: Option<&Resources>,
    ids: &[String],
    json: bool,
) -> Result<bool, Box<dyn Error>> {
    let mut all_well_formed = true;
    let all_read = each(ids, |id| {
        let (mut found, printed) = (inspect(id), shown(id));
        // A line of a log has many digits, too. Its id is shown.
        if printed != id && found.suggestion.as_deref().is_none_or(is_hex) {
            // They may be parts of a secret.
            (found.suggestion, found.prefix, found.cursor_of) = (None, None, None);
            found.mapped_uuid = None;
        }
        let mut of = listed.map_or_else(Vec::new, |listed| listed.of(&found));
        let mapped = listed.map_or_else(Vec::new, Resources::mapped_uuid);
        let uuid = Uuid::try_parse(id).ok().filter(|uuid| uuid.to_string() == *id);
        if uuid.is_some() && !mapped.is_empty() && (!found.is_well_formed() || mapped == of) {
            (found.form, found.mapped_uuid, found.problem) = (Some("mapped_uuid"), uuid, None);
            found.key_id = None;
            of = mapped;
        }
        all_well_formed &= found.is_well_formed();
        let known = match of[..] {
            [settings] => Some(Known::new(settings)),
            _ => None,
        };
        let is_mapped = known.as_ref().map(|known| known.form.starts_with("mapped"));
        match is_mapped {
            Some(true) => found.key_id = None,
            Some(false) => found.mapped_uuid = None,
            None => {}
        }
        let key_id = found.key_id.map(|key_id| key_id.get());
        if json {
            let inspected = Inspected {
                id: &printed,
                well_formed: found.is_well_formed(),
                form: found.form,
                prefix: found.prefix.as_deref(),
                key_id,
                mapped_uuid: found.mapped_uuid.map(|uuid| uuid.to_string()),
                cursor_of: found.cursor_of.as_deref(),
                problem: found.problem.map(|problem| problem.to_string()),
                suggestion: found.suggestion.as_deref(),
                resource: known,
            };
            return line(out, &inspected);
        }
        write!(out, "{}  ", printed.escape_debug())?;
        match found.problem {
            None => write!(out, "{}well formed{Reset}", style::GOOD)?,
            Some(error) => write!(out, "{}malformed{Reset}: {error}", style::ERROR)?,
        }
        let is_of = |prefix: &str| known.as_ref().is_some_and(|known| known.prefix == prefix);
        let cursor = match (found.cursor_of, &found.prefix) {
            (Some(of), _) if is_of(&of) => Some(format!("a cursor of {of}")),
            (Some(_), Some(prefix)) if is_of(prefix) => None,
            (of, _) => of.map(|of| {
                format!("a cursor of {of}, unless a resource has the prefix {of}_cursor")
            }),
        };
        let if_mapped = if is_mapped.is_some() { "in its mapping table" } else { "if mapped" };
        let listed = listed.map(|listed| match (&known, &of[..], &found.prefix) {
            (Some(known), ..) => known.to_string(),
            (None, [], Some(_)) => format!("no resource of {}", listed.file.display()),
            (None, [], None) => String::new(),
            (None, of, _) => {
                let prefixes: Vec<_> =
                    of.iter().map(|of| of.prefix.escape_debug().to_string()).collect();
                format!("of {}", prefixes.join(" or "))
            }
        });
        let details = [
            found.suggestion.map(|id| format!("suggestion: {id}")),
            found.form.map(|form| match form {
                "grant" | "position" => form.to_owned(),
                form => format!("{form} form"),
            }),
            found.prefix.map(|prefix| format!("prefix {prefix}")),
            key_id.map(|key_id| format!("key id {key_id}")),
            found.mapped_uuid.map(|uuid| format!("UUID {uuid} {if_mapped}")),
            cursor,
            listed.filter(|text| !text.is_empty()),
        ];
        for detail in details.into_iter().flatten() {
            write!(out, "; {detail}")?;
        }
        Ok(writeln!(out)?)
    })?;
    Ok(all_read && all_well_formed)
}

fn sql(script: SqlScript) -> Result<String, Box<dyn Error>> {
    Ok(match script {
        SqlScript::Mapping { target, table, index, shared } => {
            engines::sql(&target, Tables::Mapping(index), |dialect| {
                Ok(mapping::create_sql(dialect, &table, index, shared)?)
            })?
        }
        SqlScript::Sequences { target } => {
            engines::sql(&target, Tables::Sequences, |dialect| Ok(sequence::create_sql(dialect)))?
        }
        SqlScript::Packs { target, table, key, by_encrypted_key, groups, column } => {
            engines::sql(&target, Tables::Packs, |dialect| {
                let layout = packs::layout(column, by_encrypted_key);
                Ok(match key.is_integer() {
                    true => RuntimePacks::<i64>::create_sql(dialect, &table, layout, groups),
                    false => RuntimePacks::<Uuid>::create_sql(dialect, &table, layout, groups),
                })
            })?
        }
        SqlScript::Functions { dialect, resource: args, names, schema, rotate, drop } => {
            let mut resources = resource::settings(&args, &names)?;
            // Functions have one type for all integers.
            let integers = resources.iter_mut().filter(|of| of.key.is_integer());
            integers.for_each(|of| of.key = KeyKind::I64);
            let schema = functions::Schema::new(dialect, &schema)?;
            match drop {
                true => schema.drop(&resources)?,
                false => {
                    let keyring = resource::audience_keyring(&args, &keyring(&args.secrets)?);
                    schema.install(&resources, &keyring, rotate)?
                }
            }
        }
    })
}

fn check_schema(
    out: &mut impl Write,
    url: &str,
    exclude: &[String],
    json: bool,
) -> Result<bool, Box<dyn Error>> {
    let report = block_on(opaque_id_schema::check(url, exclude))??;
    warn(unread_schemas(url)?.as_slice())?;
    if json {
        line(out, &report)?;
    } else {
        write!(out, "{report}")?;
        match [report.right, report.findings.len(), report.not_judged.len()] {
            [0, 0, 0] => writeln!(out, "-- no key columns were found")?,
            [right, wrong, not_judged] => {
                writeln!(
                    out,
                    "-- key columns: {right} right, {wrong} wrong, {not_judged} not judged"
                )?;
            }
        }
    }
    Ok(report.is_good())
}

fn each(
    values: &[String],
    mut act: impl FnMut(&str) -> Result<(), Box<dyn Error>>,
) -> Result<bool, Box<dyn Error>> {
    each_part(values, |value| vec![value.to_owned()], |value, _| act(value))
}

/// Acts on the parts of each value. The flag says whether there are several.
fn each_part(
    values: &[String],
    split: impl Fn(&str) -> Vec<String>,
    mut act: impl FnMut(&str, bool) -> Result<(), Box<dyn Error>>,
) -> Result<bool, Box<dyn Error>> {
    let mut all_good = true;
    lines::for_each(values, |place, value| {
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                all_good = false;
                return report(place, "", &*<Box<dyn Error>>::from(error));
            }
        };
        let parts = split(value);
        let has_several = parts.len() > 1;
        for part in &parts {
            let Err(error) = act(part, has_several) else { continue };
            // A failed write does not make the value invalid, and nothing is opened without its line in the
            // audit log.
            let error = match error.downcast::<io::Error>() {
                Ok(error) => return Err(*error),
                Err(error) => error,
            };
            all_good = false;
            report(place, if has_several { part } else { value }, &*error)?;
        }
        Ok(())
    })?;
    Ok(all_good)
}
