//! The answers of this implementation.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use opaque_id_core::form::{Form, Mapped, MappedUuid, Short, Tagged, Text, TextBuffer, UuidForm};
use opaque_id_core::inspect::inspect;
use opaque_id_core::key::{AnyKey, Key};
use opaque_id_core::keyring::{KeyId, RuntimeResource};
use opaque_id_core::page::Listing;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{Cursor, External, Internal, Keyring, OpaqueId};
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(super) struct Ours {
    resources: HashMap<String, Option<Box<dyn Operations>>>,
}

impl Ours {
    pub(super) fn answer(&mut self, request: &Map<String, Value>) -> Option<Value> {
        let text = |name: &str| request.get(name).and_then(Value::as_str);
        let number = |name: &str| request.get(name).and_then(Value::as_u64);
        let op = text("op")?;
        if op == "check" {
            return check(text("secrets")?).map(Value::from);
        }
        let (prefix, form) = (text("prefix")?, text("form")?);
        match op {
            "to_bytes" => return convert(prefix, form, &Id::Text(text("id")?)).map(Value::from),
            "from_bytes" => {
                let bytes = Id::Bytes(bytes(text("bytes")?)?);
                return convert(prefix, form, &bytes).map(Value::from);
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
        let opened = |(key, key_id): (String, KeyId)| json!({ "key": key, "key_id": key_id.get() });
        let time = |name| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(number(name)?));
        match op {
            "seal" if is_sealed => resource.seal(text("key")?).map(Value::from),
            "open" if is_sealed => resource.open(text("id")?).map(opened),
            "seal_cursor" => resource.seal_cursor(text("key")?).map(Value::from),
            "open_cursor" => resource.open_cursor(text("id")?).map(opened),
            "grant" => {
                resource.grant(text("key")?, text("purpose")?, time("expires")?).map(Value::from)
            }
            "open_grant" => {
                let key = resource.open_grant(text("id")?, text("purpose")?, time("now")?)?;
                Some(json!({ "key": key }))
            }
            "position" => {
                let (list, values) =
                    ((text("name")?, request.get("filter")?), request.get("values")?);
                resource.position(list, text("key")?, values).map(Value::from)
            }
            "open_position" => {
                let list = (text("name")?, request.get("filter")?);
                let (key, values) = resource.open_position(list, text("id")?)?;
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
                place.insert(keyring.and_then(|keyring| made(keyring, prefix, domain, kind, form)))
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

type List<'l> = (&'l str, &'l Value);

/// Keys are texts: UUIDs or integers.
trait Operations {
    fn seal(&self, key: &str) -> Option<String>;
    fn open(&self, id: &str) -> Option<(String, KeyId)>;
    fn seal_cursor(&self, key: &str) -> Option<String>;
    fn open_cursor(&self, cursor: &str) -> Option<(String, KeyId)>;
    fn grant(&self, key: &str, purpose: &str, expires: SystemTime) -> Option<String>;
    fn open_grant(&self, grant: &str, purpose: &str, now: SystemTime) -> Option<String>;
    fn position(&self, list: List, key: &str, values: &Value) -> Option<String>;
    fn open_position(&self, list: List, position: &str) -> Option<(String, Value)>;
}

struct Typed<T>(Keyring, PhantomData<fn() -> T>);

/// Only these resources have types.
macro_rules! resources {
    ($($name:ident: $key:ident, $kind:literal, $form:literal;)*) => {
        $(#[derive(OpaqueId)]
        #[opaque_id(prefix = "user", key = $key, form = $form)]
        struct $name;)*

        fn made(
            keyring: Keyring,
            prefix: &str,
            domain: &str,
            kind: &str,
            form: &str,
        ) -> Option<Box<dyn Operations>> {
            Some(match (prefix, domain, kind, form) {
                ("order", "legacy_user", "uuid7", "text") => {
                    Box::new(Typed::<OrderWithDomain>(keyring, PhantomData))
                }
                $(("user", "user", $kind, $form) => {
                    Box::new(Typed::<$name>(keyring, PhantomData))
                })*
                // Cursors of a mapped resource do not depend on a form.
                (_, _, "i64", "mapped" | "mapped_uuid") => return made(keyring, prefix, domain, kind, "text"),
                _ => {
                    let (kind, form) = (kind.parse().ok()?, form.parse().ok()?);
                    Box::new(RuntimeResource::new(&keyring, prefix, domain, kind, form).ok()?)
                }
            })
        }
    };
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", domain = "legacy_user")]
struct OrderWithDomain;

resources! {
    Uuid7Text: Uuid7, "uuid7", "text";
    Uuid7Tagged: Uuid7, "uuid7", "tagged";
    Uuid7Uuid: Uuid7, "uuid7", "uuid";
    UlidText: Ulid, "ulid", "text";
    UlidTagged: Ulid, "ulid", "tagged";
    StructuredText: StructuredKey, "structured", "text";
    StructuredTagged: StructuredKey, "structured", "tagged";
    StructuredUuid: StructuredKey, "structured", "uuid";
    UuidText: Uuid, "uuid", "text";
    UuidTagged: Uuid, "uuid", "tagged";
    I64Text: i64, "i64", "text";
    I64Short: i64, "i64", "short";
    I64Uuid: i64, "i64", "uuid";
    I32Text: i32, "i32", "text";
    I32Short: i32, "i32", "short";
    I32Uuid: i32, "i32", "uuid";
    U32Text: u32, "u32", "text";
    U32Short: u32, "u32", "short";
    U32Uuid: u32, "u32", "uuid";
}

impl<T: SealedResource<Internal = Internal<T>>> Operations for Typed<T>
where
    T::Key: Key<Repr: FromStr + ToString>,
{
    fn seal(&self, key: &str) -> Option<String> {
        Some(self.0.seal(id::<T>(key)?).to_string())
    }

    fn open(&self, id: &str) -> Option<(String, KeyId)> {
        let id: External<T> = id.parse().ok()?;
        Some((key(self.0.open(id).ok()?), id.key_id()))
    }

    fn seal_cursor(&self, key: &str) -> Option<String> {
        Some(self.0.seal_cursor(id::<T>(key)?).to_string())
    }

    fn open_cursor(&self, cursor: &str) -> Option<(String, KeyId)> {
        let parsed: Cursor<T> = cursor.parse().ok()?;
        Some((key(self.0.open_cursor(parsed).ok()?.id()), inspect(cursor).key_id?))
    }

    fn grant(&self, key: &str, purpose: &str, expires: SystemTime) -> Option<String> {
        Some(self.0.grant(id::<T>(key)?, purpose, expires))
    }

    fn open_grant(&self, grant: &str, purpose: &str, now: SystemTime) -> Option<String> {
        self.0.open_grant::<Internal<T>>(grant, purpose, now).ok().map(key)
    }

    fn position(&self, (name, filter): List, key: &str, values: &Value) -> Option<String> {
        Listing::new(name, filter).ok()?.seal(&self.0, values, id::<T>(key)?).ok()
    }

    fn open_position(&self, (name, filter): List, position: &str) -> Option<(String, Value)> {
        let list = Listing::<Internal<T>, Value>::new(name, filter).ok()?;
        let (values, id) = list.open(&self.0, position).ok()?;
        Some((key(id), values))
    }
}

fn id<T: OpaqueId<Internal = Internal<T>, Key: Key<Repr: FromStr>>>(
    key: &str,
) -> Option<Internal<T>> {
    let repr = key.parse().ok()?;
    T::Key::check(repr).ok().and_then(|()| Internal::from_key(T::Key::from_checked(repr)).ok())
}

fn key<T: OpaqueId<Key: Key<Repr: ToString>>>(id: Internal<T>) -> String {
    id.expose_key().into_repr().to_string()
}

impl Operations for RuntimeResource {
    fn seal(&self, key: &str) -> Option<String> {
        Self::seal(self, key.parse::<AnyKey>().ok()?).ok()
    }

    fn open(&self, id: &str) -> Option<(String, KeyId)> {
        Self::open(self, id).ok().map(|(key, key_id)| (key.to_string(), key_id))
    }

    fn seal_cursor(&self, key: &str) -> Option<String> {
        Self::seal_cursor(self, key.parse::<AnyKey>().ok()?).ok()
    }

    fn open_cursor(&self, cursor: &str) -> Option<(String, KeyId)> {
        Self::open_cursor(self, cursor).ok().map(|(key, key_id)| (key.to_string(), key_id))
    }

    fn grant(&self, key: &str, purpose: &str, expires: SystemTime) -> Option<String> {
        let expires = expires.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        self.seal_token("grant", &[purpose], key.parse::<AnyKey>().ok()?, &expires.to_be_bytes())
            .ok()
    }

    fn open_grant(&self, grant: &str, purpose: &str, now: SystemTime) -> Option<String> {
        let (key, _, expires) = Self::open_grant(self, grant, purpose).ok()?;
        (now < expires).then(|| key.to_string())
    }

    fn position(&self, (name, filter): List, key: &str, values: &Value) -> Option<String> {
        let (filter, values) = (filter.to_string(), values.to_string());
        self.seal_token(
            "position",
            &[name, &filter],
            key.parse::<AnyKey>().ok()?,
            values.as_bytes(),
        )
        .ok()
    }

    fn open_position(&self, (name, filter): List, position: &str) -> Option<(String, Value)> {
        let parts = [name, &filter.to_string()];
        let (key, _, payload) = self.open_token("position", &parts, position).ok()?;
        Some((key.to_string(), serde_json::from_slice(&payload).ok()?))
    }
}

enum Id<'i> {
    Text(&'i str),
    Bytes(Vec<u8>),
}

fn convert(prefix: &str, form: &str, id: &Id) -> Option<String> {
    fn of<F: Form>(prefix: &str, id: &Id) -> Option<String> {
        match id {
            Id::Text(text) => {
                let (body, mut buffer) = (F::parse(prefix, text).ok()?, [0; 22]);
                let bytes = F::write_bytes(body, &mut buffer).iter();
                Some(bytes.map(|byte| format!("{byte:02x}")).collect())
            }
            Id::Bytes(bytes) => {
                let body = F::parse_bytes(bytes).ok()?;
                Some(F::write(prefix, body, &mut TextBuffer::new()).to_owned())
            }
        }
    }
    match (form, id) {
        ("text", id) => of::<Text>(prefix, id),
        ("short", id) => of::<Short>(prefix, id),
        ("tagged", id) => of::<Tagged>(prefix, id),
        ("uuid", id) => of::<UuidForm>(prefix, id),
        ("mapped", id) => of::<Mapped>(prefix, id),
        ("mapped_uuid", id) => of::<MappedUuid>(prefix, id),
        ("cursor", Id::Text(_)) => of::<Tagged>(&format!("{prefix}_cursor"), id),
        // The buffer has no room for such a long prefix.
        ("cursor", Id::Bytes(_)) => Some(format!("{prefix}_cursor{}", of::<Tagged>("", id)?)),
        _ => None,
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = (0..hex.len()).step_by(2).map(|i| hex.get(i..i + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}
