//! What this implementation answers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::str::FromStr;

use opaque_id_core::Keyring;
use opaque_id_core::form::{
    Form, Mapped, MappedUuid, SealedFormOf, Short, Tagged, Text, TextBuffer, UuidForm,
};
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::{KeyId, RuntimeResource};
use serde_json::{Map, Value, json};

/// Answers requests, and keeps the subkeys of their resources.
#[derive(Default)]
pub(super) struct Ours {
    resources: HashMap<String, Option<Box<dyn Operations>>>,
}

impl Ours {
    /// Returns `None` for what is refused.
    pub(super) fn answer(&mut self, request: &Map<String, Value>) -> Option<Value> {
        let text = |name: &str| request.get(name).and_then(Value::as_str);
        let number = |name: &str| request.get(name).and_then(Value::as_u64);
        let op = text("op")?;
        if op == "check" {
            return check(text("secrets")?).map(Value::from);
        }
        let (prefix, form) = (text("prefix")?, text("form")?);
        match op {
            "to_bytes" => return to_bytes(prefix, form, text("id")?).map(Value::from),
            "from_bytes" => {
                return from_bytes(prefix, form, &bytes(text("bytes")?)?).map(Value::from);
            }
            "to_uuid" if form == "mapped" => {
                return Some(json!(Mapped::parse(prefix, text("id")?).ok()?.to_string()));
            }
            "to_uuid" => {
                return Some(json!(MappedUuid::parse(prefix, text("id")?).ok()?.to_string()));
            }
            "from_uuid" => {
                let (uuid, mut buffer) = (text("uuid")?.parse().ok()?, TextBuffer::new());
                return Some(json!(match form {
                    "mapped" => Mapped::write(prefix, uuid, &mut buffer),
                    _ => MappedUuid::write(prefix, uuid, &mut buffer),
                }));
            }
            _ => {}
        }

        let resource = self.resource(request)?;
        let is_sealed = !form.starts_with("mapped");
        let (purpose, list) = (text("purpose"), text("name").zip(text("filter")));
        let opened = |(key, key_id): (String, KeyId)| json!({ "key": key, "key_id": key_id.get() });
        match op {
            "seal" if is_sealed => resource.seal(text("key")?).map(Value::from),
            "open" if is_sealed => resource.open(text("id")?).map(opened),
            "seal_cursor" => resource.seal_cursor(text("key")?).map(Value::from),
            "open_cursor" => resource.open_cursor(text("id")?).map(opened),
            "grant" => {
                let payload = number("expires")?.to_be_bytes();
                resource.seal_token("grant", &[purpose?], text("key")?, &payload).map(Value::from)
            }
            "open_grant" => {
                let (key, payload) = resource.open_token("grant", &[purpose?], text("id")?)?;
                let expires = u64::from_be_bytes(payload.try_into().ok()?);
                (number("now")? < expires).then(|| json!({ "key": key }))
            }
            "position" => {
                let ((name, filter), payload) = (list?, request.get("values")?.to_string());
                let parts = [name, filter];
                let sealed =
                    resource.seal_token("position", &parts, text("key")?, payload.as_bytes());
                sealed.map(Value::from)
            }
            "open_position" => {
                let (name, filter) = list?;
                let (key, payload) =
                    resource.open_token("position", &[name, filter], text("id")?)?;
                let values: Value = serde_json::from_slice(&payload).ok()?;
                Some(json!({ "key": key, "values": values }))
            }
            _ => None,
        }
    }

    fn resource(&mut self, request: &Map<String, Value>) -> Option<&dyn Operations> {
        let text = |name: &str| request.get(name).and_then(Value::as_str);
        let names = ["secrets", "audience", "prefix", "domain", "kind", "form"].map(text);
        let [Some(secrets), audience, Some(prefix), Some(domain), Some(kind), Some(form)] = names
        else {
            return None;
        };
        let made = match self.resources.entry(json!(names).to_string()) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => {
                let keyring = Keyring::from_entries("secrets", secrets).ok();
                let keyring = keyring.map(|keyring| match audience {
                    Some(name) => keyring.for_audience(name),
                    None => keyring,
                });
                place.insert(keyring.and_then(|keyring| made(&keyring, prefix, domain, kind, form)))
            }
        };
        made.as_deref()
    }
}

fn check(secrets: &str) -> Option<String> {
    let keyring = Keyring::from_entries("secrets", secrets).ok()?;
    // The sealing secret comes first, and the order of the others has no meaning.
    let sealing = keyring.sealing_key_id();
    let others = keyring.key_ids().filter(|key_id| *key_id != sealing);
    let values = [sealing].into_iter().chain(others);
    let values = values.map(|key_id| Some(format!("{key_id}:{}", keyring.check_value(key_id)?)));
    Some(values.collect::<Option<Vec<_>>>()?.join(","))
}

fn made(
    keyring: &Keyring,
    prefix: &str,
    domain: &str,
    kind: &str,
    form: &str,
) -> Option<Box<dyn Operations>> {
    macro_rules! of {
        ($key:ty, $form:ty) => {
            Box::new(RuntimeResource::<$key, $form>::new(keyring, prefix, domain).ok()?)
        };
    }
    macro_rules! of_integer {
        ($key:ty) => {
            match form {
                "short" => of!($key, Short),
                "uuid" => of!($key, UuidForm),
                // Cursors of a mapped resource depend on no form.
                "text" | "mapped" | "mapped_uuid" => of!($key, Text),
                _ => return None,
            }
        };
    }
    Some(match (kind, form) {
        ("uuid7", "text") => of!(Uuid7, Text),
        ("uuid7", "tagged") => of!(Uuid7, Tagged),
        ("uuid7", "uuid") => of!(Uuid7, UuidForm),
        ("ulid", "text") => of!(Ulid, Text),
        ("ulid", "tagged") => of!(Ulid, Tagged),
        ("structured", "text") => of!(StructuredKey, Text),
        ("structured", "tagged") => of!(StructuredKey, Tagged),
        ("structured", "uuid") => of!(StructuredKey, UuidForm),
        ("uuid", "text") => of!(Uuid, Text),
        ("uuid", "tagged") => of!(Uuid, Tagged),
        ("i64", _) => of_integer!(i64),
        ("i32", _) => of_integer!(i32),
        ("u32", _) => of_integer!(u32),
        _ => return None,
    })
}

/// The operations of a resource, by its keys' texts: UUIDs, or integers.
trait Operations {
    fn seal(&self, key: &str) -> Option<String>;
    fn open(&self, id: &str) -> Option<(String, KeyId)>;
    fn seal_cursor(&self, key: &str) -> Option<String>;
    fn open_cursor(&self, cursor: &str) -> Option<(String, KeyId)>;
    fn seal_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        key: &str,
        payload: &[u8],
    ) -> Option<String>;
    fn open_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        token: &str,
    ) -> Option<(String, Vec<u8>)>;
}

impl<K: Key<Repr: FromStr + ToString>, F: SealedFormOf<K>> Operations for RuntimeResource<K, F> {
    fn seal(&self, key: &str) -> Option<String> {
        Self::seal(self, read(key)?).ok()
    }

    fn open(&self, id: &str) -> Option<(String, KeyId)> {
        Self::open(self, id).ok().map(shown)
    }

    fn seal_cursor(&self, key: &str) -> Option<String> {
        Self::seal_cursor(self, read(key)?).ok()
    }

    fn open_cursor(&self, cursor: &str) -> Option<(String, KeyId)> {
        Self::open_cursor(self, cursor).ok().map(shown)
    }

    fn seal_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        key: &str,
        payload: &[u8],
    ) -> Option<String> {
        Self::seal_token(self, kind, parts, read(key)?, payload).ok()
    }

    fn open_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        token: &str,
    ) -> Option<(String, Vec<u8>)> {
        let (key, key_id, payload) = Self::open_token(self, kind, parts, token).ok()?;
        Some((shown((key, key_id)).0, payload))
    }
}

fn read<K: Key<Repr: FromStr>>(key: &str) -> Option<K> {
    let repr = key.parse().ok()?;
    K::check(repr).ok().map(|()| K::from_checked(repr))
}

fn shown<K: Key<Repr: ToString>>((key, key_id): (K, KeyId)) -> (String, KeyId) {
    (key.into_repr().to_string(), key_id)
}

const MAX_BYTES: usize = 22;

fn to_bytes(prefix: &str, form: &str, id: &str) -> Option<String> {
    fn of<F: Form>(prefix: &str, id: &str) -> Option<String> {
        let body = F::parse(prefix, id).ok()?;
        let mut buffer = [0; MAX_BYTES];
        let bytes = F::write_bytes(body, &mut buffer);
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
    match form {
        "text" => of::<Text>(prefix, id),
        "short" => of::<Short>(prefix, id),
        "tagged" => of::<Tagged>(prefix, id),
        "uuid" => of::<UuidForm>(prefix, id),
        "mapped" => of::<Mapped>(prefix, id),
        "mapped_uuid" => of::<MappedUuid>(prefix, id),
        "cursor" => of::<Tagged>(&format!("{prefix}_cursor"), id),
        _ => None,
    }
}

fn from_bytes(prefix: &str, form: &str, bytes: &[u8]) -> Option<String> {
    fn of<F: Form>(prefix: &str, bytes: &[u8]) -> Option<String> {
        let body = F::parse_bytes(bytes).ok()?;
        Some(F::write(prefix, body, &mut TextBuffer::new()).to_owned())
    }
    match form {
        "text" => of::<Text>(prefix, bytes),
        "short" => of::<Short>(prefix, bytes),
        "tagged" => of::<Tagged>(prefix, bytes),
        "uuid" => of::<UuidForm>(prefix, bytes),
        "mapped" => of::<Mapped>(prefix, bytes),
        "mapped_uuid" => of::<MappedUuid>(prefix, bytes),
        "cursor" => {
            // It has room for no prefix that is this long.
            let tagged = of::<Tagged>("", bytes)?;
            Some(format!("{prefix}_cursor{tagged}"))
        }
        _ => None,
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = (0..hex.len()).step_by(2).map(|i| hex.get(i..i + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}
