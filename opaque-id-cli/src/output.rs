use std::error::Error;
use std::io::{self, Write};

use anstyle::Reset;
use opaque_id_core::MasterSecret;
use opaque_id_core::inspect::inspect;
use serde::Serialize;

use crate::lines::Place;
use crate::{escaped, is_invisible, style, with_causes};

pub(crate) fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    Ok(runtime.enable_all().build()?.block_on(future))
}

pub(crate) fn report(place: Place, value: &str, error: &dyn Error) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    write!(err, "{}{place}:{Reset} ", style::ERROR)?;
    if (1..=1024).contains(&value.len()) {
        // Control characters of an untrusted id must not reach the terminal, nor a misplaced secret the log.
        write!(err, "{}: ", shown(value).escape_debug())?;
    }
    writeln!(err, "{}", with_causes(error))
}

pub(crate) fn problem(text: &str) -> io::Result<()> {
    let text = MasterSecret::redact(&escaped(text));
    writeln!(anstream::stderr().lock(), "{}error:{Reset} {text}", style::ERROR)
}

pub(crate) fn warn(notes: &[String]) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    notes.iter().try_for_each(|note| {
        let note = MasterSecret::redact(&escaped(note));
        writeln!(err, "{}note:{Reset} {note}", style::NOTE)
    })
}

/// Returns a note about schemas that a command has not read.
pub(crate) fn unread_schemas(url: &str) -> Result<Option<String>, Box<dyn Error>> {
    let unread = block_on(opaque_id_schema::unread_schemas(url))??;
    let remedy = "choose a schema by `?options[search_path]=…` at the end of the URL";
    Ok(unread.map(|unread| format!("{unread}: {remedy}")))
}

/// More hex digits than in a UUID may be a secret in the wrong place, even with spaces or typing errors.
/// The digits of ids do not count, unless their text after the prefix is nothing but digits.
pub(crate) fn shown(value: &str) -> String {
    let words = value.split(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c));
    let words = words.filter(|word| is_hex(word) || !inspect(word).is_well_formed());
    let groups = words.flat_map(|word| word.split(|c: char| !c.is_ascii_hexdigit()));
    match groups.map(str::len).filter(|digits| *digits > 1).sum() {
        ..=32_usize => value.to_owned(),
        digits => format!("[{digits} hex digits]"),
    }
}

/// Returns whether a text has nothing but hex digits after its prefix, or 16 in a row, like a part of a secret.
pub(crate) fn is_hex(id: &str) -> bool {
    let body = id.rsplit('_').next().unwrap_or(id);
    body.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        || id.split(|c: char| !c.is_ascii_hexdigit()).any(|run| run.len() >= 16)
}

pub(crate) fn line(out: &mut impl Write, record: &impl Serialize) -> Result<(), Box<dyn Error>> {
    // An `io::Error` stays one, so that a closed pipe is not reported as an invalid value.
    Ok(writeln!(out, "{}", json(record)?)?)
}

/// The terminal does not show invisible characters, and the stream would remove some.
pub(crate) fn json(record: &impl Serialize) -> io::Result<String> {
    let json = serde_json::to_string(record)?;
    let mut shown = String::with_capacity(json.len());
    for part in json.split_inclusive(is_invisible) {
        let text = part.trim_end_matches(is_invisible);
        shown += text;
        match part[text.len()..].chars().next() {
            None => {}
            // Such characters are between tokens, in values that are already JSON.
            Some('\t' | '\n' | '\r') => shown.push(' '),
            Some(c) => shown += &format!("\\u{:04x}", u32::from(c)),
        }
    }
    Ok(shown)
}
