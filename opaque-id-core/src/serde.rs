//! `External<T>` as a string, or as bytes in formats that are not for people.

use core::fmt;
use core::marker::PhantomData;

use serde_core::de::{Error, SeqAccess, Visitor};
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::ParseError;
use crate::external::External;
use crate::form::{Layout, MAX_BYTES_LEN, TextBuffer};
use crate::resource::OpaqueId;

impl<T: OpaqueId> Serialize for External<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.encode(&mut TextBuffer::new()))
        } else {
            serializer.serialize_bytes(T::Form::write_bytes(self.id(), &mut [0; MAX_BYTES_LEN]))
        }
    }
}

impl<'de, T: OpaqueId> Deserialize<'de> for External<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = IdVisitor(PhantomData);
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(visitor)
        } else {
            deserializer.deserialize_bytes(visitor)
        }
    }
}

struct IdVisitor<T>(PhantomData<fn() -> T>);

impl<'de, T: OpaqueId> Visitor<'de> for IdVisitor<T> {
    type Value = External<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a `{}` id", T::PREFIX)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<External<T>, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<External<T>, E> {
        T::Form::parse_bytes(bytes)
            .map(External::new)
            .map_err(|fault| E::custom(ParseError::new(T::PREFIX, fault)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<External<T>, A::Error> {
        let mut bytes = [0; MAX_BYTES_LEN];
        let mut len = 0;
        while let Some(byte) = seq.next_element()? {
            *bytes
                .get_mut(len)
                .ok_or_else(|| A::Error::invalid_length(len + 1, &self))? = byte;
            len += 1;
        }
        self.visit_bytes(&bytes[..len])
    }
}
