use std::fmt;
use std::marker::PhantomData;

use thiserror::Error;

use crate::group::Group;

/// The conversion of a value of type `V` into bytes and back. The name is part of the table's settings.
///
/// [`Json`] is the default. Values may gain fields, and compression removes JSON's repetitions.
pub trait Encoding<V>: Send + Sync + 'static {
    /// The name of the encoding.
    const NAME: &'static str;

    /// The flag of an encoding with [groups](crate::guide#groups), such as [`Grouped`].
    const IS_GROUPED: bool = false;

    /// Writes a value.
    ///
    /// # Errors
    /// A message without the value.
    fn encode(value: &V) -> Result<Vec<u8>, String>;

    /// Reads a value.
    ///
    /// # Errors
    /// A message without the value.
    fn decode(bytes: &[u8]) -> Result<V, String>;

    /// Returns the group of a row with this value, if rows have groups.
    fn group(_value: &V) -> Option<Group> {
        None
    }

    /// Returns a substitute for an unreadable row. With `None`, such a row is an error of its page.
    #[must_use]
    fn unreadable(_reason: String) -> Option<V> {
        None
    }
}

/// Values as JSON, by serde.
#[derive(Clone, Copy, Debug)]
pub enum Json {}

/// Values that are bytes.
#[derive(Clone, Copy, Debug)]
pub enum Raw {}

/// Values that are texts. The bytes are the text in UTF-8, as with [`Raw`].
#[derive(Clone, Copy, Debug)]
pub enum Text {}

/// The values of `E`, each as a `Result`. A row that the type cannot decode, such as one of an earlier
/// program, does not end its range.
///
/// `PackTable<Event, Result<Entry, Undecoded>, Lenient<Json>>` opens the same table as `PackTable<Event, Entry>`.
#[derive(Clone, Copy, Debug)]
pub struct Lenient<E>(PhantomData<E>);

/// A value that its type cannot decode. `Debug` and `Display` do not show it.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Undecoded {
    /// The value's bytes. Writing the row writes them again. `None` means that the row can be neither read
    /// nor written.
    pub bytes: Option<Vec<u8>>,
    reason: String,
}

impl fmt::Debug for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undecoded").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<V, E: Encoding<V>> Encoding<Result<V, Undecoded>> for Lenient<E> {
    const NAME: &'static str = E::NAME;
    const IS_GROUPED: bool = E::IS_GROUPED;

    fn encode(value: &Result<V, Undecoded>) -> Result<Vec<u8>, String> {
        match value {
            Ok(value) => E::encode(value),
            Err(undecoded) => undecoded.bytes.clone().ok_or_else(|| {
                format!("expected a value, found a row that could not be read: {undecoded}")
            }),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Result<V, Undecoded>, String> {
        Ok(E::decode(bytes).map_err(|reason| Undecoded { bytes: Some(bytes.to_vec()), reason }))
    }

    fn unreadable(reason: String) -> Option<Result<V, Undecoded>> {
        Some(Err(Undecoded { bytes: None, reason }))
    }

    fn group(value: &Result<V, Undecoded>) -> Option<Group> {
        value.as_ref().ok().and_then(E::group)
    }
}

/// A value that names the group of its row, for [`Grouped`].
pub trait InGroup {
    /// Returns the group.
    fn group(&self) -> Group;
}

/// The values of `E`, in [groups](crate::guide#groups): `PackTable<Event, Entry, Grouped<Json>>`. A table has groups from the beginning
/// or never.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<E>(PhantomData<E>);

impl<V: InGroup, E: Encoding<V>> Encoding<V> for Grouped<E> {
    const NAME: &'static str = E::NAME;
    const IS_GROUPED: bool = true;

    fn encode(value: &V) -> Result<Vec<u8>, String> {
        E::encode(value)
    }

    fn decode(bytes: &[u8]) -> Result<V, String> {
        E::decode(bytes)
    }

    fn group(value: &V) -> Option<Group> {
        Some(value.group())
    }

    fn unreadable(reason: String) -> Option<V> {
        E::unreadable(reason)
    }
}

impl<V: serde::Serialize + serde::de::DeserializeOwned> Encoding<V> for Json {
    const NAME: &'static str = "json";

    fn encode(value: &V) -> Result<Vec<u8>, String> {
        // The message may repeat a part of the value.
        serde_json::to_vec(value).map_err(|_| {
            "expected a value that serde writes as JSON, found a map whose keys are neither strings nor numbers, or a \
             `Serialize` that fails"
                .to_owned()
        })
    }

    fn decode(bytes: &[u8]) -> Result<V, String> {
        serde_json::from_slice(bytes).map_err(json_error)
    }
}

/// The message may repeat a part of the value.
fn json_error(error: serde_json::Error) -> String {
    format!(
        "expected JSON of the table's type, found {:?} error at line {}, column {}",
        error.classify(),
        error.line(),
        error.column()
    )
}

impl<V: AsRef<[u8]> + From<Vec<u8>>> Encoding<V> for Raw {
    const NAME: &'static str = "raw";

    fn encode(value: &V) -> Result<Vec<u8>, String> {
        Ok(value.as_ref().to_owned())
    }

    fn decode(bytes: &[u8]) -> Result<V, String> {
        Ok(bytes.to_vec().into())
    }
}

impl<V: AsRef<str> + From<String>> Encoding<V> for Text {
    const NAME: &'static str = "raw";

    fn encode(value: &V) -> Result<Vec<u8>, String> {
        Ok(value.as_ref().as_bytes().to_owned())
    }

    fn decode(bytes: &[u8]) -> Result<V, String> {
        let text =
            str::from_utf8(bytes).map_err(|_| "expected text in UTF-8, found other bytes")?;
        Ok(text.to_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_value_of_another_type_is_undecoded() {
        type Either = Result<u8, Undecoded>;
        let decode = |bytes: &[u8]| -> Either {
            <Lenient<Json> as Encoding<Either>>::decode(bytes).expect("either of them")
        };
        let encode = |value: &Either| Lenient::<Json>::encode(value).expect("JSON");
        assert_eq!(decode(b"7"), Ok(7));
        let undecoded = decode(b"\"secret\"").expect_err("no number");
        assert!(!format!("{undecoded} {undecoded:?}").contains("secret"));
        assert_eq!(encode(&Err(undecoded)), b"\"secret\"");
        assert_eq!(encode(&Ok(7)), b"7");
        assert!(<Json as Encoding<u8>>::decode(b"\"secret\"").is_err());
    }

    #[test]
    fn a_value_that_json_cannot_contain_is_not_said_to_have_been_read() {
        let reason = <Json as Encoding<BTreeMap<Vec<u8>, u8>>>::encode(&[(vec![7], 1)].into());
        assert!(reason.expect_err("no JSON").contains("a value that serde writes"));
    }
}
