//! The text of an id in a log: an id of the text form with `log` before its body.
//!
//! No other id or cursor looks like it, because base32 has neither `l` nor `o` and the prefix is the
//! resource's own.

use super::TEXT_CHARS;
use crate::base32;
use crate::prefix::is_prefix;

/// The audience of the ids in logs.
pub const LOGS_AUDIENCE: &str = "logs";

const MARK: &str = "log";

/// Converts an id of the text form into the text of an id in a log.
#[must_use]
pub fn to_log(text: &str) -> String {
    let (prefix, body) = text.rsplit_once('_').unwrap_or(("", text));
    format!("{prefix}_{MARK}{body}")
}

/// Converts the text of an id in a log into its text form.
#[must_use]
pub fn from_log(text: &str) -> Option<String> {
    let (prefix, body) = text.rsplit_once('_')?;
    let body = body.strip_prefix(MARK)?;
    let is_id = is_prefix(prefix) && body.len() == TEXT_CHARS && body.bytes().all(base32::is_valid);
    is_id.then(|| format!("{prefix}_{body}"))
}
