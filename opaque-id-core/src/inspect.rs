use uuid::Uuid;

use crate::base32;
use crate::error::{IdProblem, Invalid, InvalidReason, TextProblem};
use crate::form::{
    Form, Mapped, SHORT_CHARS, SealedFormOf, Short, TAGGED_CHARS, TEXT_CHARS, Tagged, Text,
    UuidForm,
};
use crate::key::{Key, Ulid, Uuid7};
use crate::key_id::KeyId;
use crate::prefix::{cursor_resource, is_prefix};
#[cfg(feature = "tokens")]
use crate::token::{KINDS, Purpose};

/// The result of [`inspect`].
///
/// ```
/// use opaque_id_core::inspect::inspect;
///
/// let found = inspect("User_7X1NHM7SQ0R1QH4PEWBEJB04N3");
/// assert_eq!(found.form, Some("text"));
/// assert_eq!(found.suggestion.as_deref(), Some("user_7x1nhm7sq0r1qh4pewbejb04n3"));
/// assert!(!found.is_well_formed());
///
/// let problem = inspect("42").problem.expect("not an id");
/// assert_eq!(
///     problem.to_string(),
///     "it is not an external id but looks like an internal key (integer), which should not be seen outside",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The form that the text has or most resembles (`text`, `short`, `tagged` or `uuid`), or the kind of a
    /// token (`grant` or `position`). Longer ids of the short form have the text form.
    pub form: Option<&'static str>,
    /// The prefix, if there is one.
    pub prefix: Option<String>,
    /// The key id of the secret that the id claims to be sealed with.
    pub key_id: Option<KeyId>,
    /// The UUID in the mapping table, if the resource is mapped. Ids of the text form look the same.
    pub mapped_uuid: Option<Uuid>,
    /// The prefix of the resource, if the text is a cursor.
    pub cursor_of: Option<String>,
    /// The fault of the text; `None` if it is well formed.
    pub problem: Option<Invalid>,
    /// The well-formed id that the text probably means.
    pub suggestion: Option<String>,
}

impl Inspection {
    /// Returns whether the text is exactly the text of some id. Only a secret can show whether the id is
    /// genuine.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.problem.is_none() && self.form.is_some()
    }

    /// Returns the only id in a longer text, such as a line of a log, if it is spelled correctly.
    #[must_use]
    pub fn contained(&self) -> Option<&str> {
        let is_contained = matches!(
            self.problem,
            Some(Invalid(InvalidReason::Text(TextProblem::Surrounded | TextProblem::WhiteSpace)))
        );
        self.suggestion.as_deref().filter(|_| is_contained)
    }

    const NOTHING: Self = Self {
        form: None,
        prefix: None,
        key_id: None,
        mapped_uuid: None,
        cursor_of: None,
        problem: None,
        suggestion: None,
    };

    fn well_formed<K: Key, F: SealedFormOf<K>>(prefix: Option<&str>, body: F::Body) -> Self {
        let (form, key_id) = (Some(F::NAME), Some(F::key_id(body)));
        Self { form, prefix: prefix.map(Into::into), key_id, ..Self::NOTHING }
    }

    fn invalid(problem: impl Into<Invalid>) -> Self {
        Self { problem: Some(problem.into()), ..Self::NOTHING }
    }
}

/// Inspects a text without any secret. It never fails.
#[must_use]
pub fn inspect(text: &str) -> Inspection {
    let exact = parse(text);
    if exact.is_well_formed() {
        return exact;
    }
    let Some(suggestion) = find(text) else {
        let has_words = text.trim().contains(char::is_whitespace);
        return match exact.problem {
            Some(Invalid(InvalidReason::Text(TextProblem::Prefix | TextProblem::Unknown)))
                if has_words =>
            {
                Inspection::invalid(TextProblem::SeveralWords)
            }
            _ => exact,
        };
    };
    let fixed = parse(&suggestion);
    let problem = match exact.problem {
        _ if text.trim() == suggestion => Some(TextProblem::WhiteSpace.into()),
        _ if visible(text).contains(&suggestion) => Some(TextProblem::Surrounded.into()),
        Some(Invalid(InvalidReason::Text(TextProblem::Prefix))) => text
            .bytes()
            .position(|byte| byte.is_ascii_uppercase())
            .map(|at| IdProblem::UpperCase { position: at + 1 }.into())
            .or(exact.problem),
        problem => problem,
    };
    Inspection { problem, suggestion: Some(suggestion), ..fixed }
}

#[doc(hidden)]
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    candidates(&visible(text)).collect()
}

fn visible(text: &str) -> String {
    let is_invisible =
        |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    let mut text = text.replace(is_invisible, "").replace("%25", "%");
    // JSON escapes the line ends and colors of a message, and Markdown and HTML escape underscores.
    for (escaped, meant) in [
        ("\\n", "\n"),
        ("\\r", "\n"),
        ("\\t", "\n"),
        ("\\u001b", "\u{1b}"),
        ("\\u005f", "_"),
        ("\\_", "_"),
        ("&#95;", "_"),
    ] {
        text = text.replace(escaped, meant);
    }
    // The control sequences of a terminal, such as colors (ECMA-48, section 5.4).
    let mut parts = text.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.trim_start_matches(|c| (' '..='?').contains(&c));
        text += end.strip_prefix(|c| ('@'..='~').contains(&c)).unwrap_or(part);
    }
    let mut parts = text.split('%');
    let mut visible = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let escaped = part.split_at_checked(2);
        visible.extend(match escaped {
            Some(("5F" | "5f", rest)) => ["_", rest],
            Some((hex, rest)) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => ["/", rest],
            _ => ["%", part],
        });
    }
    visible
}

fn candidates(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.split(move |c| !is_part(c)).flat_map(|word| {
        let parts: Vec<_> = word.split('-').map(|part| part.trim_matches('_')).collect();
        // A UUID has hyphens, and an underscore may have become one.
        let uuids: Vec<_> = parts.windows(5).map(|parts| parts.join("-")).collect();
        let parts = parts.into_iter().map(str::to_owned);
        [word.to_owned()].into_iter().chain(parts).chain(uuids)
    })
}

fn find(text: &str) -> Option<String> {
    let visible = visible(text);
    let trimmed = visible.trim().trim_matches(['"', '\'', '`', ',', ';']);
    if let Some(found) = well_formed(trimmed) {
        return Some(found);
    }
    let mut found = candidates(trimmed).filter_map(|word| well_formed(&word));
    // A mail program may have broken the line.
    let joined = || {
        let (_, body) = trimmed.rsplit_once('_').filter(|(it, _)| is_prefix(it))?;
        let _ = body.split_once(char::is_whitespace)?;
        let joined: String = trimmed.split_whitespace().collect();
        parse(&joined).is_well_formed().then_some(joined)
    };
    let underscored = || {
        let (prefix, body) = trimmed.rsplit_once('-')?;
        well_formed(&format!("{prefix}_{body}"))
    };
    if let Some(joined) = joined() {
        return Some(joined);
    }
    let Some(first) = found.next() else { return underscored() };
    found.all(|other| other == first).then_some(first)
}

fn well_formed(text: &str) -> Option<String> {
    [text.to_owned(), fix(text)].into_iter().find(|id| parse(id).is_well_formed())
}

fn fix(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    match lower.rsplit_once('_') {
        Some((prefix, body)) => {
            let body = body.replace('-', "").replace('o', "0").replace(['i', 'l'], "1");
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
    #[cfg(feature = "tokens")]
    {
        let token = prefix.rsplit_once('_').filter(|_| body.len() > TAGGED_CHARS);
        if let Some(token) = token.and_then(|(prefix, kind)| parse_token(prefix, kind, text)) {
            return token;
        }
    }
    let likely = [SHORT_CHARS, TEXT_CHARS, TAGGED_CHARS];
    let likely = likely.into_iter().min_by_key(|chars| body.len().abs_diff(*chars));
    let is_tagged = likely == Some(TAGGED_CHARS);
    let cursor_of = cursor_resource(prefix).filter(|of| is_tagged && is_prefix(of));
    let of = Some(prefix);
    let (form, parsed) = match likely {
        Some(SHORT_CHARS) => {
            let id = Short::parse(prefix, text);
            (Short::NAME, id.map(|id| Inspection::well_formed::<i64, Short>(of, id)))
        }
        Some(TAGGED_CHARS) => {
            let id = Tagged::parse(prefix, text);
            let found = id.map(|id| Inspection::well_formed::<Uuid7, Tagged>(of, id));
            let cursor_of = cursor_of.map(Into::into);
            (Tagged::NAME, found.map(|found| Inspection { cursor_of, ..found }))
        }
        _ => {
            let id = Text::parse(prefix, text);
            let found = id.map(|id| Inspection::well_formed::<Uuid7, Text>(of, id));
            let mapped_uuid = Mapped::parse(prefix, text).ok();
            (Text::NAME, found.map(|found| Inspection { mapped_uuid, ..found }))
        }
    };
    let form = Some(form);
    match parsed {
        _ if !is_prefix(prefix) && cursor_of.is_none() => {
            Inspection { form, ..Inspection::invalid(TextProblem::Prefix) }
        }
        Ok(inspection) => inspection,
        Err(problem) => {
            Inspection { form, prefix: Some(prefix.into()), ..Inspection::invalid(problem) }
        }
    }
}

#[cfg(feature = "tokens")]
fn parse_token(prefix: &str, kind: &str, text: &str) -> Option<Inspection> {
    let kind = KINDS.into_iter().find(|known| *known == kind).filter(|_| is_prefix(prefix))?;
    let parsed = Purpose::new(kind, &[]).parse(prefix, text);
    let (key_id, problem) = match parsed {
        Ok(token) => (Some(token.key_id), None),
        Err(problem) => (None, Some(problem)),
    };
    Some(Inspection {
        form: Some(kind),
        prefix: Some(prefix.into()),
        key_id,
        problem,
        ..Inspection::NOTHING
    })
}

fn parse_without_prefix(text: &str) -> Inspection {
    match (UuidForm::parse("", text), Uuid::try_parse(text)) {
        (Ok(uuid), _) => return Inspection::well_formed::<Uuid7, UuidForm>(None, uuid),
        (Err(Invalid(InvalidReason::Id(IdProblem::NotVersion8))), Ok(uuid))
            if uuid.get_version_num() == 7 =>
        {
            return Inspection::invalid(TextProblem::InternalKey("UUIDv7"));
        }
        (Err(problem), Ok(_)) => {
            return Inspection { form: Some(UuidForm::NAME), ..Inspection::invalid(problem) };
        }
        (Err(_), Err(_)) => {}
    }
    let problem = if text.parse::<i64>().is_ok() {
        TextProblem::InternalKey("integer")
    } else if text.parse::<Ulid>().is_ok() && text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        TextProblem::InternalKey("ULID")
    } else if matches!(text.len(), SHORT_CHARS | TEXT_CHARS | TAGGED_CHARS)
        && text.bytes().all(base32::is_valid)
    {
        TextProblem::NoPrefix
    } else {
        TextProblem::Unknown
    };
    Inspection::invalid(problem)
}

#[cfg(test)]
mod tests {
    use proptest1::prelude::*;

    use super::*;

    const TEXT: &str = "user_7x1nhm7sq0r1qh4pewbejb04n3";

    #[test]
    #[cfg(feature = "tokens")]
    fn a_token_is_recognized_by_its_kind() {
        let body =
            "05z4fbrnhtevaky5wj82kfz33wfaawr2gf80nrac6ap3d9h9d8wam3v67fbvkt3d274zbgg63xxb52hjyae2j";
        for kind in KINDS {
            let text = format!("order_{kind}_{body}");
            let found = inspect(&text);
            assert!(found.is_well_formed());
            assert_eq!((found.form, found.prefix.as_deref()), (Some(kind), Some("order")));
            assert_eq!(found.key_id.map(KeyId::get), Some(1));
            assert_eq!(inspect(&text.to_uppercase()).suggestion, Some(text.clone()));
            let problem =
                inspect(&text[..text.len() - 1]).problem.map(|problem| problem.to_string());
            assert!(problem.is_some_and(|problem| problem.starts_with("it is cut off")));
        }
    }

    #[test]
    fn a_cursor_is_recognized_by_its_prefix() {
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
            (found.form, found.prefix.as_deref(), found.key_id.map(KeyId::get)),
            (Some("text"), Some("user"), Some(0)),
        );
        assert!(found.is_well_formed());
        let typeid = inspect("prefix_01h455vb4pex5vsknk084sn02q");
        assert_eq!(
            typeid.mapped_uuid.map(|uuid| uuid.to_string()).as_deref(),
            Some("01890a5d-ac96-774b-bcce-b302099a8057"),
        );
        let key_id_3 = inspect("user_zx1nhm7sq0r1qh4pewbejb04n3");
        assert_eq!((key_id_3.is_well_formed(), key_id_3.mapped_uuid), (true, None));
        let short = inspect("order_6wr8ndhrz4xkw");
        assert_eq!((short.form, short.key_id.map(KeyId::get)), (Some("short"), Some(1)));
        assert_eq!(inspect("v2_doc_pw3cyrpqvh5xbz4sashh6532bacjrdvp6e").form, Some("tagged"));
        let uuid = inspect("b141f7fe-3115-84f0-b7be-f0b5c2b7862c");
        assert_eq!((uuid.form, uuid.key_id.map(KeyId::get)), (Some("uuid"), Some(2)));
    }

    #[test]
    fn what_was_probably_meant() {
        let upper = |position| Invalid::from(IdProblem::UpperCase { position });
        let uuid = "b141f7fe-3115-84f0-b7be-f0b5c2b7862c";
        for (given, problem, suggestion) in [
            (&*format!(" {TEXT}\n"), TextProblem::WhiteSpace.into(), TEXT),
            (&TEXT.to_uppercase(), upper(1), TEXT),
            (
                "user_7xlnhm7sqOr1qh4pewbejb04n3",
                Invalid::from(IdProblem::Character { position: 8 }),
                TEXT,
            ),
            (&uuid.to_uppercase(), upper(1), uuid),
            (&format!("(\"{}\").", TEXT.to_uppercase()), upper(3), TEXT),
        ] {
            let found = inspect(given);
            assert_eq!(
                (found.problem, found.suggestion.as_deref()),
                (Some(problem), Some(suggestion)),
                "{given}"
            );
        }
    }

    #[test]
    fn an_id_is_found_in_a_copied_text() {
        let uuid = "b141f7fe-3115-84f0-b7be-f0b5c2b7862c";
        let cursor = "order_cursor_awa6tgzhc0xmnspa2hmsmzeyrjn409vrne";
        let texts = [
            "External(#)",
            "Some(External(#))",
            "Ok([External(#)])",
            "#.",
            "(#)",
            "<#>",
            "[#]",
            "{#}",
            "https://shop.example/users/#",
            "https://shop.example/users/#/orders?page=2",
            "/users/#",
            "id=#",
            "?id=#&year=2026",
            "#\u{200b}",
            "\u{feff}#",
            "#\u{2060}",
            "\u{ad}#",
            "\"id\":\"#\"",
            "{\"id\": \"#\", \"name\": \"Ada\"}",
            "#,Ada",
            "Ada;#",
            "=\"#\"",
            "'#'",
            "`#`",
            "\u{201c}#\u{201d}",
            "the user # was deleted",
            "2026-11-26 19:09:52 INFO user # opened",
            "**#**",
            "#!",
            "not found:\\n#\\r\\n\\t#\\n",
            "#\t#",
            "\\\"#\\\"",
            "<a href=\"/u/#\">",
            "user:#",
            "#:",
            "\u{ab}#\u{bb}",
            "#\u{2026}",
            "_#_",
            "%2Fusers%2F#%2Forders",
            "%252F#",
            "user-#",
            "#-cart-2",
            "\u{1b}[1;32m#\u{1b}[0m",
            "\\u001b[32m#\\u001b[0m",
            "\u{1b}[01;31m\u{1b}[K#\u{1b}[m\u{1b}[K",
        ];
        for (id, text) in [TEXT, uuid, cursor, "order_6wr8ndhrz4xkw"]
            .iter()
            .flat_map(|id| texts.iter().map(move |text| (*id, text.replace('#', id))))
        {
            let found = inspect(&text);
            assert_eq!(
                (found.suggestion.as_deref(), found.contained()),
                (Some(id), Some(id)),
                "{text}"
            );
        }
        for (text, id) in [
            ("user%5F7x1nhm7sq0r1qh4pewbejb04n3", TEXT),
            ("user\\_7x1nhm7sq0r1qh4pewbejb04n3", TEXT),
            ("user&#95;7x1nhm7sq0r1qh4pewbejb04n3", TEXT),
            ("user\\u005f7x1nhm7sq0r1qh4pewbejb04n3", TEXT),
            ("user_7x1nhm7sq0r1q h4pewbejb04n3", TEXT),
            ("user_7x1nhm7sq0r1q\n  h4pewbejb04n3", TEXT),
            ("user-7x1nhm7sq0r1qh4pewbejb04n3", TEXT),
            ("/USERS/USER_7X1NHM7SQ0R1QH4PEWBEJB04N3", TEXT),
        ] {
            assert_eq!(inspect(text).suggestion.as_deref(), Some(id), "{text}");
        }
        let two = format!("{TEXT},order_6wr8ndhrz4xkw");
        assert_eq!((inspect(&two).suggestion, inspect(&two).contained()), (None, None));
        assert_eq!(inspect("42 users in 7 teams").suggestion, None);
    }

    #[test]
    fn what_is_wrong() {
        let length = |found, expected| Invalid::from(IdProblem::Length { found, expected });
        for (given, problem) in [
            ("user_7x1nhm7sq0r1qh4pewb", length(19, 13)),
            ("user_7x1nhm7sq0r1qh4pewbe", length(20, 26)),
            ("7x1nhm7sq0r1qh4pewbejb04n3", TextProblem::NoPrefix.into()),
            ("42", TextProblem::InternalKey("integer").into()),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", TextProblem::InternalKey("ULID").into()),
            ("0192c1f0-7b1e-7a35-8f00-000000000001", TextProblem::InternalKey("UUIDv7").into()),
            ("6d179ed1-fd65-480b-a475-77983c28dd10", Invalid::from(IdProblem::NotVersion8)),
            ("2_7x1nhm7sq0r1qh4pewbejb04n3", TextProblem::Prefix.into()),
            ("", TextProblem::Unknown.into()),
            ("GET /users 404, request_id of the proxy", TextProblem::SeveralWords.into()),
            ("no id", TextProblem::SeveralWords.into()),
        ] {
            assert_eq!(inspect(given).problem, Some(problem), "{given}");
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
            if let Some(suggestion) = found.suggestion {
                prop_assert!(inspect(&suggestion).is_well_formed());
            }
        }
    }
}
