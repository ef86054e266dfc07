//! Diagnosis of texts that are not ids.

use super::log::from_log;
use super::{SHORT_CHARS, TAGGED_CHARS, TEXT_CHARS, UUID_CHARS};
use crate::base32;
use crate::error::{IdProblem, Invalid};
use crate::prefix::is_prefix;

/// `expected` is the number of characters after the prefix, or of a UUID.
#[cold]
#[inline(never)]
pub(super) fn diagnose(prefix: &str, text: &str, expected: usize) -> Invalid {
    Invalid::from(problem(prefix, text, expected))
}

fn problem(prefix: &str, text: &str, expected: usize) -> IdProblem {
    if from_log(text).is_some() {
        return IdProblem::OfLog;
    }
    if text_id_prefix(text).is_some_and(|other| other != prefix) {
        return IdProblem::OtherPrefix;
    }
    let body = match expected {
        UUID_CHARS => Some(text),
        _ => text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')),
    };
    let Some(body) = body else {
        return IdProblem::NoPrefix;
    };
    let found = body.chars().count();
    if found != expected {
        return IdProblem::Length { found, expected };
    }
    let start = text.len() - body.len();
    let faulty = body.bytes().enumerate().find_map(|(i, byte)| {
        let position = start + i + 1;
        let fits = match (expected, i) {
            (UUID_CHARS, 8 | 13 | 18 | 23) => byte == b'-',
            (UUID_CHARS, _) => byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase(),
            _ => base32::is_valid(byte),
        };
        match byte {
            _ if fits => None,
            b'A'..=b'Z' => Some(IdProblem::UpperCase { position }),
            _ => Some(IdProblem::Character { position }),
        }
    });
    faulty.unwrap_or(IdProblem::NoPrefix)
}

fn text_id_prefix(text: &str) -> Option<&str> {
    let (prefix, body) = text.rsplit_once('_')?;
    let is_id = is_prefix(prefix)
        && matches!(body.len(), SHORT_CHARS | TEXT_CHARS | TAGGED_CHARS)
        && body.bytes().all(base32::is_valid);
    is_id.then_some(prefix)
}
