//! A resource whose key and form are known only at run time.

use std::error::Error;

use jiff::Timestamp;
use opaque_id_core::Keyring;
use opaque_id_core::form::{SealedFormOf, Tagged, Text, UuidForm};
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::{KeyId, RuntimeError, RuntimeResource};

use crate::args::{self, FormKind, KeyKind};

/// A key to display.
pub(crate) struct Shown {
    pub(crate) key: String,
    pub(crate) kind: &'static str,
    pub(crate) time: Option<Timestamp>,
}

pub(crate) trait Resource {
    fn seal(&self, key: &str) -> Result<(String, Shown), Box<dyn Error>>;
    fn open(&self, id: &str) -> Result<(Shown, KeyId), Box<dyn Error>>;
    fn renew(&self, id: &str) -> Result<String, Box<dyn Error>>;
}

pub(crate) fn resource(
    args: &args::Resource,
    keyring: &Keyring,
) -> Result<Box<dyn Resource>, Box<dyn Error>> {
    let domain = args.domain.as_deref().unwrap_or(&args.prefix);
    fn boxed<K: ShownKey, F: SealedFormOf<K>>(
        keyring: &Keyring,
        prefix: &str,
        domain: &str,
    ) -> Result<Box<dyn Resource>, RuntimeError> {
        Ok(Box::new(RuntimeResource::<K, F>::new(
            keyring, prefix, domain,
        )?))
    }
    let new = match (args.key, args.form) {
        (KeyKind::Uuid7, FormKind::Text) => boxed::<Uuid7, Text>,
        (KeyKind::Uuid7, FormKind::Tagged) => boxed::<Uuid7, Tagged>,
        (KeyKind::Uuid7, FormKind::Uuid) => boxed::<Uuid7, UuidForm>,
        (KeyKind::Ulid, FormKind::Text) => boxed::<Ulid, Text>,
        (KeyKind::Ulid, FormKind::Tagged) => boxed::<Ulid, Tagged>,
        (KeyKind::Structured, FormKind::Text) => boxed::<StructuredKey, Text>,
        (KeyKind::Structured, FormKind::Tagged) => boxed::<StructuredKey, Tagged>,
        (KeyKind::Structured, FormKind::Uuid) => boxed::<StructuredKey, UuidForm>,
        (KeyKind::Uuid, FormKind::Text) => boxed::<Uuid, Text>,
        (KeyKind::Uuid, FormKind::Tagged) => boxed::<Uuid, Tagged>,
        (KeyKind::Int, FormKind::Text) => boxed::<i64, Text>,
        (KeyKind::Int, FormKind::Uuid) => boxed::<i64, UuidForm>,
        (KeyKind::Int, FormKind::Tagged) => {
            return Err("integers have no tagged form because their text form is already authenticated; use --form text".into());
        }
        (KeyKind::Ulid | KeyKind::Uuid, FormKind::Uuid) => {
            return Err(
                "only --key uuid7, structured and int have a uuid form; use --form text or tagged"
                    .into(),
            );
        }
    };
    Ok(new(keyring, &args.prefix, domain)?)
}

impl<K: ShownKey, F: SealedFormOf<K>> Resource for RuntimeResource<K, F> {
    fn seal(&self, key: &str) -> Result<(String, Shown), Box<dyn Error>> {
        let key = K::read(key)?;
        Ok((RuntimeResource::seal(self, key)?, shown(key)))
    }

    fn open(&self, id: &str) -> Result<(Shown, KeyId), Box<dyn Error>> {
        // Also accepts a cursor: its text starts differently from every id of the resource.
        let opened = RuntimeResource::open_cursor(self, id);
        let (key, key_id) = match opened {
            Err(RuntimeError::Parse(_)) => RuntimeResource::open(self, id)?,
            opened => opened?,
        };
        Ok((shown(key), key_id))
    }

    fn renew(&self, id: &str) -> Result<String, Box<dyn Error>> {
        Ok(RuntimeResource::renew(self, id)?)
    }
}

fn shown<K: ShownKey>(key: K) -> Shown {
    Shown {
        key: key.to_string(),
        kind: K::KIND,
        time: key.time(),
    }
}

/// A key that can be parsed from text and displayed.
trait ShownKey: Key + ToString {
    fn read(text: &str) -> Result<Self, Box<dyn Error>>;
    fn time(self) -> Option<Timestamp>;
}

impl ShownKey for Uuid7 {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        Ok(read_uuid(text)?.try_into()?)
    }

    fn time(self) -> Option<Timestamp> {
        at_millis(self.unix_millis())
    }
}

impl ShownKey for Ulid {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        Ok(read_uuid(text)?.into())
    }

    fn time(self) -> Option<Timestamp> {
        at_millis(self.unix_millis())
    }
}

impl ShownKey for StructuredKey {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        Ok(read_uuid(text)?.try_into()?)
    }

    fn time(self) -> Option<Timestamp> {
        None
    }
}

impl ShownKey for Uuid {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        read_uuid(text)
    }

    /// Versions 1, 6 and 7 have a time.
    fn time(self) -> Option<Timestamp> {
        let (seconds, nanoseconds) = self.get_timestamp()?.to_unix();
        Timestamp::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?).ok()
    }
}

impl ShownKey for i64 {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        text.parse()
            .map_err(|_| "expected a signed 64-bit integer".into())
    }

    fn time(self) -> Option<Timestamp> {
        None
    }
}

/// A UUID, 32 hex digits or a ULID: all are 16 bytes.
fn read_uuid(text: &str) -> Result<Uuid, Box<dyn Error>> {
    if let Ok(ulid) = text.parse::<Ulid>() {
        return Ok(ulid.into());
    }
    Uuid::try_parse(text).map_err(|_| "expected a UUID, 32 hex digits or a ULID".into())
}

/// `None` after the year 9999.
fn at_millis(millis: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(millis.try_into().ok()?).ok()
}
