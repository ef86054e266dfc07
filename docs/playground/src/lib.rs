//! Answers the questions of the page, in JSON. The page passes texts byte by byte, because exports with
//! pointers would need unsafe code.

use std::cell::RefCell;
use std::error::Error;

use opaque_id_core::inspect::inspect;
use opaque_id_core::key::{AnyKey, KeyKind, Ulid};
use opaque_id_core::keyring::RuntimeResource;
use opaque_id_core::{Keyring, MasterSecret};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Question {
    /// The secrets that the page made, in the format of `OPAQUE_ID_KEYS`. The first one seals.
    secrets: String,
    prefix: String,
    kind: String,
    form: String,
    keys: Vec<String>,
    id: String,
}

impl Question {
    fn answer(&self) -> Result<Value, Box<dyn Error>> {
        let keyring = Keyring::from_entries("the page", &self.secrets)?;
        let kind: KeyKind = self.kind.parse()?;
        let Self { prefix, form, .. } = self;
        let resource = RuntimeResource::new(&keyring, prefix, prefix, kind, form.parse()?)?;
        let sealed = self.keys.iter().map(|key| match seal(&resource, key) {
            Ok(id) => json!({ "key": key, "id": id }),
            Err(problem) => json!({ "key": key, "problem": problem.to_string() }),
        });
        let secrets = keyring.key_ids().map(|key_id| {
            let check_value = keyring.check_value(key_id).map(|value| value.to_string());
            json!({ "key_id": key_id.get(), "check_value": check_value })
        });
        let opened = no_secret(&self.id).and_then(|id| Ok(resource.open(id)?));
        let opened = match opened {
            Ok((key, key_id)) => json!({ "key": shown(kind, key), "key_id": key_id.get() }),
            Err(error) => {
                let found = inspect(&self.id);
                let hint = found.problem.map(|problem| problem.to_string());
                json!({ "problem": error.to_string(), "hint": hint, "suggestion": found.suggestion })
            }
        };
        Ok(json!({
            "secrets": secrets.collect::<Vec<_>>(),
            "sealed": sealed.collect::<Vec<_>>(),
            "opened": opened,
            "tag_bits": resource.tag_bits(),
        }))
    }
}

fn seal(resource: &RuntimeResource, key: &str) -> Result<String, Box<dyn Error>> {
    let key = match no_secret(key)?.parse::<Ulid>() {
        Ok(ulid) => AnyKey::Bytes(ulid.into()),
        Err(_) => key.parse()?,
    };
    Ok(resource.seal(key)?)
}

fn no_secret(text: &str) -> Result<&str, Box<dyn Error>> {
    match MasterSecret::redact(text) == text {
        true => Ok(text),
        false => {
            Err("it looks like a secret: never paste one into a page, and replace it now".into())
        }
    }
}

fn shown(kind: KeyKind, key: AnyKey) -> String {
    match key {
        AnyKey::Bytes(uuid) if kind == KeyKind::ULID => Ulid::from(uuid).to_string(),
        key => key.to_string(),
    }
}

thread_local! {
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends a byte to the question.
#[expect(unsafe_code, reason = "a name that no other function has")]
#[unsafe(no_mangle)]
pub extern "C" fn playground_write(byte: u8) {
    TEXT.with_borrow_mut(|text| text.push(byte));
}

/// Replaces the question with its answer. Returns the number of bytes.
#[expect(unsafe_code, reason = "a name that no other function has")]
#[unsafe(no_mangle)]
pub extern "C" fn playground_answer() -> usize {
    TEXT.with_borrow_mut(|text| {
        let question = serde_json::from_slice::<Question>(text).map_err(Into::into);
        let answer = question.and_then(|question| question.answer());
        let answer = answer.unwrap_or_else(|error| json!({ "problem": error.to_string() }));
        *text = answer.to_string().into_bytes();
        text.len()
    })
}

/// Takes the last byte of the answer.
#[expect(unsafe_code, reason = "a name that no other function has")]
#[unsafe(no_mangle)]
pub extern "C" fn playground_read() -> u8 {
    TEXT.with_borrow_mut(Vec::pop).unwrap_or_default()
}
