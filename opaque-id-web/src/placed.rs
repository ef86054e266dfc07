use form_urlencoded::Serializer;
use serde_core::de::{DeserializeOwned, Error as _};
use serde_core::{Deserialize, Deserializer};
use serde_html_form::de::Error;
use serde_path_to_error::{Path, Segment, Track};

use crate::scope::{set_pointer, set_record, take_record};

/// A value of a body. The refusal of an id in it has the id's place, if serde knows it.
#[derive(Debug)]
pub struct JsonContent<T>(
    /// The value.
    pub T,
);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonContent<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut track = Track::new();
        let value =
            T::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
        value.map(Self).inspect_err(|_| set_pointer(pointer(&track.path())))
    }
}

fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        let name = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                name.replace('~', "~0").replace('/', "~1")
            }
            Segment::Unknown => break,
        };
        pointer.push('/');
        pointer.push_str(&name);
    }
    pointer
}

/// A value of a query or a form. A repeated name is a list, and an empty value of an optional id is `None`.
///
/// It deserializes everything that serde_urlencoded does. Refused ids have places, as in [`JsonContent`].
#[derive(Debug)]
pub struct FormContent<T>(
    /// The value.
    pub T,
);

type Pairs = Vec<(String, String)>;

impl<'de, T: DeserializeOwned> Deserialize<'de> for FormContent<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = Pairs::deserialize(deserializer)?;
        let mut rest = pairs.clone();
        let mut first = None;
        loop {
            let (path, error) = match lists(&rest) {
                Ok(value) => return Ok(Self(value)),
                Err(failed) => failed,
            };
            let (refused, len) = (take_record(), rest.len());
            // A form sends its empty selection as an empty text.
            if let (Some(_), Some(Segment::Map { key })) = (&refused, path.iter().next()) {
                rest.retain(|(name, value)| name != key || !value.is_empty());
            }
            first.get_or_insert((path, error, refused));
            if rest.len() == len {
                break;
            }
        }
        let Some((path, error, refused)) = first else {
            return Err(D::Error::custom("no value"));
        };
        if refused.is_none()
            && let Ok(value) = serde_urlencoded::from_str(&encoded(&pairs))
        {
            return Ok(Self(value));
        }
        set_record(refused);
        set_pointer(pointer(&path));
        Err(match path.iter().next() {
            Some(_) => D::Error::custom(format_args!("{path}: {error}")),
            None => D::Error::custom(error),
        })
    }
}

fn encoded(pairs: &Pairs) -> String {
    Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn lists<T: DeserializeOwned>(pairs: &Pairs) -> Result<T, (Path, Error)> {
    let text = encoded(pairs);
    let form = serde_html_form::Deserializer::from_bytes(text.as_bytes());
    serde_path_to_error::deserialize(form)
        .map_err(|error| (error.path().clone(), error.into_inner()))
}
