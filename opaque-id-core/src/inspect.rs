use core::fmt;

use uuid::Uuid;

use crate::base32;
use crate::cursor::cursor_resource;
use crate::error::IdFault;
use crate::form::{Form, Keyed, Layout, Mapped, Tagged, Text, UuidForm};
use crate::key::Ulid;
use crate::keyring::KeyId;
use crate::resource::is_prefix;

/// What can be said of an id without any secret: [`inspect`].
///
/// ```
/// use opaque_id_core::inspect;
///
/// let found = inspect("User_7X1NHM7SQ0R1QH4PEWBEJB04N3");
/// assert_eq!(found.form, Some("text"));
/// assert_eq!(found.meant.as_deref(), Some("user_7x1nhm7sq0r1qh4pewbejb04n3"));
/// assert!(!found.is_well_formed());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// `text`, `tagged` or `uuid`: what it is, or most looks like.
    pub form: Option<&'static str>,
    /// The prefix, if it has one.
    pub prefix: Option<String>,
    /// The key id of the secret that sealed it, as it claims.
    pub key_id: Option<KeyId>,
    /// What its resource's mapping table knows it by, if the resource is mapped and not sealed: the text
    /// forms look alike.
    pub mapped_uuid: Option<Uuid>,
    /// The prefix of the resource that it is a cursor of, if it is a cursor: its text is that of the tagged form
    /// with another prefix.
    pub cursor_of: Option<String>,
    /// What is wrong with it; nothing if it is well formed.
    pub fault: Option<Oddity>,
    /// The well-formed id that was probably meant.
    pub meant: Option<String>,
}

/// What is wrong with an id that [`inspect`] was given.
///
/// ```
/// use opaque_id_core::{Oddity, inspect};
///
/// assert_eq!(inspect("42").fault, Some(Oddity::InternalKey("integer")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// The part after the prefix, or the UUID, is wrong.
    Id(IdFault),
    /// What stands before the last underscore is not a prefix.
    Prefix,
    /// There is no prefix.
    NoPrefix,
    /// There is white space around it.
    WhiteSpace,
    /// It is neither a text nor a UUID.
    Unknown,
    /// It looks like an internal key of this kind, which should not be seen outside.
    InternalKey(&'static str),
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(fault) => fault.fmt(f),
            Self::Prefix => f.write_str(
                "its prefix is not one: 1 to 63 of a-z, 0-9 and _ are needed, the first a letter, the last not _",
            ),
            Self::NoPrefix => f.write_str("it has no prefix: ids start with `prefix_`"),
            Self::WhiteSpace => f.write_str("there is white space around it"),
            Self::Unknown => f.write_str(
                "it is not an external id: those are `prefix_` and 26 or 34 characters, or a UUID of version 8",
            ),
            Self::InternalKey(kind) => {
                write!(f, "it is no external id but looks like an internal key ({kind}), which should not be seen outside")
            }
        }
    }
}

impl Inspection {
    /// Whether the text is exactly that of some id. Whether that id is genuine, only its secret tells.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.fault.is_none() && self.form.is_some()
    }

    fn well_formed<F: Form + Keyed>(prefix: Option<&str>, id: F::Repr) -> Self {
        Self {
            form: Some(F::NAME),
            prefix: prefix.map(Into::into),
            key_id: Some(F::key_id(id)),
            mapped_uuid: None,
            cursor_of: None,
            fault: None,
            meant: None,
        }
    }

    fn odd(fault: Oddity) -> Self {
        Self {
            form: None,
            prefix: None,
            key_id: None,
            mapped_uuid: None,
            cursor_of: None,
            fault: Some(fault),
            meant: None,
        }
    }
}

/// Says of a text what can be said without any secret: its form, prefix and key id, or what is wrong
/// with it and what was probably meant. Looks at no more than the text, and never fails.
#[must_use]
pub fn inspect(text: &str) -> Inspection {
    let exact = parse(text);
    if exact.is_well_formed() {
        return exact;
    }
    let mended = mend(text);
    let meant = parse(&mended);
    if !meant.is_well_formed() {
        return exact;
    }
    let fault = match exact.fault {
        _ if text.trim() != text => Some(Oddity::WhiteSpace),
        // An upper-case prefix is best told as upper case.
        Some(Oddity::Prefix) => text
            .bytes()
            .position(|byte| byte.is_ascii_uppercase())
            .map(|at| Oddity::Id(IdFault::UpperCase { position: at + 1 }))
            .or(exact.fault),
        fault => fault,
    };
    Inspection {
        fault,
        meant: Some(mended),
        ..meant
    }
}

/// Undoes what people and spreadsheets do to ids: white space, capitals, look-alikes.
fn mend(text: &str) -> String {
    let lower = text
        .trim()
        .trim_matches(['"', '\'', '`', ',', ';'])
        .to_ascii_lowercase();
    match lower.rsplit_once('_') {
        Some((prefix, body)) => {
            let body = body
                .replace('-', "")
                .replace('o', "0")
                .replace(['i', 'l'], "1");
            format!("{prefix}_{body}")
        }
        None => match Uuid::try_parse(&lower) {
            Ok(uuid) => uuid.hyphenated().to_string(),
            Err(_) => lower,
        },
    }
}

fn parse(text: &str) -> Inspection {
    let Some((prefix, body)) = text.rsplit_once('_') else {
        return parse_without_prefix(text);
    };
    let is_tagged = body.len().abs_diff(34) < body.len().abs_diff(26);
    let cursor_of = cursor_resource(prefix).filter(|of| is_tagged && is_prefix(of));
    let parsed = if is_tagged {
        Tagged::parse(prefix, text).map(|id| Inspection {
            cursor_of: cursor_of.map(Into::into),
            ..Inspection::well_formed::<Tagged>(Some(prefix), id)
        })
    } else {
        Text::parse(prefix, text).map(|id| Inspection {
            mapped_uuid: Mapped::parse(prefix, text).ok(),
            ..Inspection::well_formed::<Text>(Some(prefix), id)
        })
    };
    let form = Some(if is_tagged { Tagged::NAME } else { Text::NAME });
    match parsed {
        _ if !is_prefix(prefix) && cursor_of.is_none() => Inspection {
            form,
            ..Inspection::odd(Oddity::Prefix)
        },
        Ok(inspection) => inspection,
        Err(fault) => Inspection {
            form,
            prefix: Some(prefix.into()),
            ..Inspection::odd(Oddity::Id(fault))
        },
    }
}

fn parse_without_prefix(text: &str) -> Inspection {
    match (UuidForm::parse("", text), Uuid::try_parse(text)) {
        (Ok(uuid), _) => return Inspection::well_formed::<UuidForm>(None, uuid),
        (Err(IdFault::NotVersion8), Ok(uuid)) if uuid.get_version_num() == 7 => {
            return Inspection::odd(Oddity::InternalKey("UUIDv7"));
        }
        (Err(fault), Ok(_)) => {
            return Inspection {
                form: Some(UuidForm::NAME),
                ..Inspection::odd(Oddity::Id(fault))
            };
        }
        (Err(_), Err(_)) => {}
    }
    let oddity = if text.parse::<i64>().is_ok() {
        Oddity::InternalKey("integer")
    } else if text.parse::<Ulid>().is_ok() && text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Oddity::InternalKey("ULID")
    } else if matches!(text.len(), 26 | 34) && text.bytes().all(base32::is_valid) {
        Oddity::NoPrefix
    } else {
        Oddity::Unknown
    };
    Inspection::odd(oddity)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "user_7x1nhm7sq0r1qh4pewbejb04n3";

    #[test]
    fn a_cursor_is_told_by_its_prefix() {
        let body = "awa6tgzhc0xmnspa2hmsmzeyrjn409vrne";
        for prefix in ["order", &"o".repeat(63)] {
            let found = inspect(&format!("{prefix}_cursor_{body}"));
            assert!(found.is_well_formed());
            assert_eq!(found.cursor_of.as_deref(), Some(prefix));
            assert_eq!(found.key_id.map(KeyId::get), Some(1));
        }
        assert_eq!(inspect(&format!("order_{body}")).cursor_of, None);
    }

    #[test]
    fn well_formed_ids() {
        let found = inspect(TEXT);
        assert_eq!(
            (
                found.form,
                found.prefix.as_deref(),
                found.key_id.map(KeyId::get)
            ),
            (Some("text"), Some("user"), Some(0)),
        );
        assert!(found.is_well_formed());
        let typeid = inspect("prefix_01h455vb4pex5vsknk084sn02q");
        assert_eq!(
            typeid.mapped_uuid.map(|uuid| uuid.to_string()).as_deref(),
            Some("01890a5d-ac96-774b-bcce-b302099a8057"),
        );
        let key_id_3 = inspect("user_zx1nhm7sq0r1qh4pewbejb04n3");
        assert_eq!(
            (key_id_3.is_well_formed(), key_id_3.mapped_uuid),
            (true, None)
        );
        assert_eq!(
            inspect("v2_doc_pw3cyrpqvh5xbz4sashh6532bacjrdvp6e").form,
            Some("tagged")
        );
        let uuid = inspect("b141f7fe-3115-84f0-b7be-f0b5c2b7862c");
        assert_eq!(
            (uuid.form, uuid.key_id.map(KeyId::get)),
            (Some("uuid"), Some(2))
        );
    }

    #[test]
    fn what_was_meant() {
        for (given, fault, meant) in [
            (
                " user_7x1nhm7sq0r1qh4pewbejb04n3\n",
                Oddity::WhiteSpace,
                TEXT,
            ),
            (
                "USER_7X1NHM7SQ0R1QH4PEWBEJB04N3",
                Oddity::Id(IdFault::UpperCase { position: 1 }),
                TEXT,
            ),
            (
                "user_7xlnhm7sqOr1qh4pewbejb04n3",
                Oddity::Id(IdFault::Character { position: 8 }),
                TEXT,
            ),
            (
                "B141F7FE-3115-84F0-B7BE-F0B5C2B7862C",
                Oddity::Id(IdFault::UpperCase { position: 1 }),
                "b141f7fe-3115-84f0-b7be-f0b5c2b7862c",
            ),
        ] {
            let found = inspect(given);
            assert_eq!(
                (found.fault, found.meant.as_deref()),
                (Some(fault), Some(meant)),
                "{given}"
            );
        }
    }

    #[test]
    fn what_is_wrong() {
        for (given, fault) in [
            (
                "user_7x1",
                Oddity::Id(IdFault::Length {
                    found: 3,
                    wanted: 26,
                }),
            ),
            ("7x1nhm7sq0r1qh4pewbejb04n3", Oddity::NoPrefix),
            ("42", Oddity::InternalKey("integer")),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", Oddity::InternalKey("ULID")),
            (
                "0192c1f0-7b1e-7a35-8f00-000000000001",
                Oddity::InternalKey("UUIDv7"),
            ),
            (
                "6d179ed1-fd65-480b-a475-77983c28dd10",
                Oddity::Id(IdFault::NotVersion8),
            ),
            ("2_7x1nhm7sq0r1qh4pewbejb04n3", Oddity::Prefix),
            ("", Oddity::Unknown),
        ] {
            assert_eq!(inspect(given).fault, Some(fault), "{given}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text: String) {
            let _ = inspect(&text);
        }

        #[test]
        fn nothing_near_an_id_panics(prefix in ".{0,9}", body in "[a-zA-Z0-9äß_-]{20,40}") {
            let found = inspect(&format!("{prefix}_{body}"));
            if let Some(meant) = found.meant {
                prop_assert!(inspect(&meant).is_well_formed());
            }
        }
    }
}
