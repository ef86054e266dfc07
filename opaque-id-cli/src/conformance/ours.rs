//! What this implementation answers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use opaque_id_core::form::{
    Form, Mapped, MappedUuid, SealedFormOf, Short, Tagged, Text, TextBuffer, UuidForm,
};
use opaque_id_core::inspect::inspect;
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::{KeyId, RuntimeResource};
use opaque_id_core::page::Listing;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{Cursor, External, Internal, Keyring, OpaqueId};
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

/// The name of a list, and its filter.
type List<'l> = (&'l str, &'l Value);

/// The operations of a resource, by its keys' texts: UUIDs, or integers.
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

/// A resource with a type, as applications have.
struct Typed<T>(Keyring, PhantomData<fn() -> T>);

/// Defines the types of resources with the prefix and the domain `user`. Other resources have none.
macro_rules! resources {
    ($($name:ident: $key:ident, $form:ident, $kind:literal, $text:literal;)*) => {
        $(#[derive(OpaqueId)]
        #[opaque_id(prefix = "user", key = $key, form = $text)]
        struct $name;)*

        fn made(
            keyring: Keyring,
            prefix: &str,
            domain: &str,
            kind: &str,
            form: &str,
        ) -> Option<Box<dyn Operations>> {
            let is_typed = prefix == "user" && domain == "user";
            Some(match (kind, form) {
                ("uuid7", "text") if (prefix, domain) == ("order", "legacy_user") => {
                    Box::new(Typed::<OfDomain>(keyring, PhantomData))
                }
                $(($kind, $text) if is_typed => Box::new(Typed::<$name>(keyring, PhantomData)),
                ($kind, $text) => {
                    Box::new(RuntimeResource::<$key, $form>::new(&keyring, prefix, domain).ok()?)
                })*
                // Cursors of a mapped resource depend on no form.
                ("i64", "mapped" | "mapped_uuid") => {
                    Box::new(RuntimeResource::<i64, Text>::new(&keyring, prefix, domain).ok()?)
                }
                _ => return None,
            })
        }
    };
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", domain = "legacy_user")]
struct OfDomain;

resources! {
    Uuid7Text: Uuid7, Text, "uuid7", "text";
    Uuid7Tagged: Uuid7, Tagged, "uuid7", "tagged";
    Uuid7Uuid: Uuid7, UuidForm, "uuid7", "uuid";
    UlidText: Ulid, Text, "ulid", "text";
    UlidTagged: Ulid, Tagged, "ulid", "tagged";
    StructuredText: StructuredKey, Text, "structured", "text";
    StructuredTagged: StructuredKey, Tagged, "structured", "tagged";
    StructuredUuid: StructuredKey, UuidForm, "structured", "uuid";
    UuidText: Uuid, Text, "uuid", "text";
    UuidTagged: Uuid, Tagged, "uuid", "tagged";
    I64Text: i64, Text, "i64", "text";
    I64Short: i64, Short, "i64", "short";
    I64Uuid: i64, UuidForm, "i64", "uuid";
    I32Text: i32, Text, "i32", "text";
    I32Short: i32, Short, "i32", "short";
    I32Uuid: i32, UuidForm, "i32", "uuid";
    U32Text: u32, Text, "u32", "text";
    U32Short: u32, Short, "u32", "short";
    U32Uuid: u32, UuidForm, "u32", "uuid";
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
    Internal::from_key(read(key)?).ok()
}

fn key<T: OpaqueId<Key: Key<Repr: ToString>>>(id: Internal<T>) -> String {
    id.expose_key().into_repr().to_string()
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

    fn grant(&self, key: &str, purpose: &str, expires: SystemTime) -> Option<String> {
        let expires = expires.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        self.seal_token("grant", &[purpose], read(key)?, &expires.to_be_bytes()).ok()
    }

    fn open_grant(&self, grant: &str, purpose: &str, now: SystemTime) -> Option<String> {
        let (key, key_id, expires) = Self::open_grant(self, grant, purpose).ok()?;
        (now < expires).then(|| shown((key, key_id)).0)
    }

    fn position(&self, (name, filter): List, key: &str, values: &Value) -> Option<String> {
        let (filter, values) = (filter.to_string(), values.to_string());
        self.seal_token("position", &[name, &filter], read(key)?, values.as_bytes()).ok()
    }

    fn open_position(&self, (name, filter): List, position: &str) -> Option<(String, Value)> {
        let parts = [name, &filter.to_string()];
        let (key, key_id, payload) = self.open_token("position", &parts, position).ok()?;
        Some((shown((key, key_id)).0, serde_json::from_slice(&payload).ok()?))
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
