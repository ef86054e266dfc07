//! `External<T>` and `Cursor<T>` as a string, or as bytes in formats that are not human-readable.

use core::any::TypeId;
use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde_core::de::{Error, MapAccess, SeqAccess, Visitor};
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cursor::Cursor;
use crate::error::IdError;
use crate::external::External;
use crate::extractor::{self, Extractor};
use crate::form::{Form, MAX_BYTES_LEN, Tagged, TextBuffer};
use crate::resource::OpaqueId;

trait Shown: FromStr<Err = IdError> {
    const WHAT: &'static str;
    type Resource: OpaqueId;

    fn from_bytes(bytes: &[u8]) -> Result<Self, IdError>;

    fn from_old_id(_: &str, _: Extractor) -> Option<Result<Self, IdError>> {
        None
    }
}

impl<T: OpaqueId> Serialize for External<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.encode(&mut TextBuffer::new()))
        } else {
            serializer.serialize_bytes(T::Form::write_bytes(self.body(), &mut [0; MAX_BYTES_LEN]))
        }
    }
}

impl<T: OpaqueId> Serialize for Cursor<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(Tagged::write_bytes(self.sealed(), &mut [0; MAX_BYTES_LEN]))
        }
    }
}

impl<'de, T: OpaqueId> Deserialize<'de> for External<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl<'de, T: OpaqueId> Deserialize<'de> for Cursor<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl<T: OpaqueId> Shown for External<T> {
    const WHAT: &'static str = "id";
    type Resource = T;

    fn from_bytes(bytes: &[u8]) -> Result<Self, IdError> {
        let id = T::Form::parse_bytes(bytes);
        id.map(Self::new).map_err(|problem| IdError::new(T::PREFIX, problem).counted(T::PREFIX))
    }

    fn from_old_id(text: &str, extractor: Extractor) -> Option<Result<Self, IdError>> {
        let id = (extractor.open_old_id)(TypeId::of::<T>(), text)?;
        id.map(|id| id.downcast().ok().map(|id| *id)).transpose()
    }
}

impl<T: OpaqueId> Shown for Cursor<T> {
    const WHAT: &'static str = "cursor";
    type Resource = T;

    fn from_bytes(bytes: &[u8]) -> Result<Self, IdError> {
        let sealed = Tagged::parse_bytes(bytes);
        sealed.map(Self::new).map_err(|problem| IdError::token(T::PREFIX, Self::WHAT, problem))
    }
}

fn deserialize<'de, V: Shown, D: Deserializer<'de>>(deserializer: D) -> Result<V, D::Error> {
    let visitor = ShownVisitor(PhantomData);
    if !deserializer.is_human_readable() {
        deserializer.deserialize_bytes(visitor)
    } else if extractor::current().is_some_and(|extractor| !extractor.is_text) {
        deserializer.deserialize_any(AnyVisitor(visitor))
    } else {
        deserializer.deserialize_str(visitor)
    }
}

struct ShownVisitor<V>(PhantomData<fn() -> V>);

impl<'de, V: Shown> Visitor<'de> for ShownVisitor<V> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a `{}` {}", V::Resource::PREFIX, V::WHAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
        let opened = extractor::current().and_then(|extractor| V::from_old_id(text, extractor));
        opened.unwrap_or_else(|| text.parse()).map_err(refuse::<V, E>)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<V, E> {
        V::from_bytes(bytes).map_err(refuse::<V, E>)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<V, A::Error> {
        let mut bytes = [0; MAX_BYTES_LEN];
        let mut len = 0;
        while let Some(byte) = seq.next_element()? {
            *bytes.get_mut(len).ok_or_else(|| A::Error::invalid_length(len + 1, &self))? = byte;
            len += 1;
        }
        self.visit_bytes(&bytes[..len])
    }
}

/// It lets an extractor refuse a number like a malformed text. Other formats may not name the type of the
/// next value.
struct AnyVisitor<V>(ShownVisitor<V>);

impl<V: Shown> AnyVisitor<V> {
    fn refuse<E: Error>(&self) -> E {
        extractor::refuse(V::Resource::PREFIX, IdError::NotText);
        E::custom(format_args!("expected a `{}` {}, found no text", V::Resource::PREFIX, V::WHAT))
    }
}

impl<'de, V: Shown> Visitor<'de> for AnyVisitor<V> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
        self.0.visit_str(text)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<V, E> {
        let accepts = extractor::current();
        match accepts.and_then(|extractor| V::from_old_id(&number.to_string(), extractor)) {
            Some(id) => id.map_err(refuse::<V, E>),
            None => Err(self.refuse()),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V, E> {
        match number.try_into() {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(self.refuse()),
        }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<V, E> {
        Err(self.refuse())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<V, E> {
        Err(self.refuse())
    }

    fn visit_unit<E: Error>(self) -> Result<V, E> {
        Err(self.refuse())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<V, A::Error> {
        Err(self.refuse())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<V, A::Error> {
        Err(self.refuse())
    }
}

#[cold]
fn refuse<V: Shown, E: Error>(error: IdError) -> E {
    extractor::refuse(V::Resource::PREFIX, error);
    E::custom(error)
}
