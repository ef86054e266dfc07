//! Patterns, and schemas of schemars and each utoipa.

// The derives expect these names.
extern crate schemars1 as schemars;

#[path = "schema/utoipa"]
mod utoipa5 {
    use ::utoipa5 as utoipa;

    mod schemas;
}
#[path = "schema/utoipa"]
mod utoipa6 {
    use ::utoipa6 as utoipa;

    #[allow(clippy::duplicate_mod, reason = "each version of utoipa has the same sources")]
    mod schemas;
}

use opaque_id_core::{Cursor, External, OpaqueId};
use proptest1::prelude::*;
use proptest1::string::string_regex;
use regex::Regex;
use serde_json::{Value, json};

use super::example_secret::{TaggedStructured, TextI64, TextUuid7, UuidU32, UuidUuid7};

resources! {
    ShortI32(prefix = "a_1", key = i32, form = "short");
    Mapped(prefix = "a_1", key = i64, form = "mapped");
    MappedUuid(prefix = "a_1", key = i64, form = "mapped_uuid");
}

/// A text from the pattern parses. A slightly different text parses exactly if the pattern matches it.
fn pattern_is_exact<T: OpaqueId>(runner: &mut proptest1::test_runner::TestRunner) {
    fn check<V: std::str::FromStr>(pattern: &str, runner: &mut proptest1::test_runner::TestRunner) {
        let regex = Regex::new(pattern).expect("a pattern");
        let texts = string_regex(pattern.trim_matches(['^', '$'])).expect("a pattern");
        let edits = (any::<prop::sample::Index>(), "[ -~\n]|", any::<bool>());
        runner
            .run(&(texts, edits), |(text, (at, with, replaces))| {
                prop_assert!(text.parse::<V>().is_ok(), "{text}");
                prop_assert!(regex.is_match(&text));
                let at = at.index(text.len());
                let mut edited = text.clone();
                edited.replace_range(at..at + usize::from(replaces), &with);
                prop_assert_eq!(edited.parse::<V>().is_ok(), regex.is_match(&edited), "{}", edited);
                Ok(())
            })
            .expect("exact");
    }

    check::<External<T>>(&External::<T>::pattern(), runner);
    check::<Cursor<T>>(&Cursor::<T>::pattern(), runner);
}

#[test]
fn patterns_match_exactly_what_parses() {
    let runner = &mut proptest1::test_runner::TestRunner::default();
    pattern_is_exact::<TextUuid7>(runner);
    pattern_is_exact::<TaggedStructured>(runner);
    pattern_is_exact::<UuidUuid7>(runner);
    pattern_is_exact::<ShortI32>(runner);
    pattern_is_exact::<Mapped>(runner);
    pattern_is_exact::<MappedUuid>(runner);
}

type TeamId = External<TextI64>;

#[derive(serde::Serialize, schemars::JsonSchema)]
struct View {
    id: TeamId,
    others: Vec<TeamId>,
    parent: Option<TeamId>,
    uuid: External2,
    next: TeamCursor,
}

type External2 = External<UuidU32>;
type TeamCursor = Cursor<TextI64>;

fn team_id() -> Value {
    let example = TeamId::example().to_string();
    json!({
        "type": "string",
        "description": "The id of a `a_1`. Opaque: compare it as a text, and expect another text after a secret of the API was replaced. It never has more than 30 characters.",
        "pattern": "^a_1_[0-9a-hjkmnp-tv-z]{26}$",
        "minLength": 30,
        "maxLength": 30,
        "examples": [example],
        "x-opaque-id": "a_1",
    })
}

#[test]
fn each_schemars_has_the_same_schemas() {
    fn without_dialect<S: serde::Serialize>(schema: S) -> Value {
        let mut schema = serde_json::to_value(schema).expect("a schema is JSON");
        schema.as_object_mut().and_then(|schema| schema.remove("$schema"));
        schema
    }

    macro_rules! schemas {
        ($schemars:ident) => {
            [
                without_dialect($schemars::schema_for!(TeamId)),
                without_dialect($schemars::schema_for!(TeamCursor)),
            ]
        };
    }
    assert_eq!(schemas!(schemars08), schemas!(schemars));
    assert_eq!(schemas!(schemars09), schemas!(schemars));
}

#[test]
fn schemars_schemas_refer_to_ids() {
    let schema = schemars::schema_for!(View).to_value();
    assert_eq!(schema["$defs"]["a_1_id"], team_id());
    assert_eq!(schema["properties"]["id"], json!({"$ref": "#/$defs/a_1_id"}));
    assert_eq!(schema["properties"]["others"]["items"], json!({"$ref": "#/$defs/a_1_id"}));
    // Another resource with the same prefix has its own definition.
    let uuid = &schema["$defs"]["a_1_id2"];
    assert_eq!((&uuid["format"], &uuid["maxLength"]), (&json!("uuid"), &json!(36)));
    assert_eq!(schema["$defs"]["a_1_cursor"]["maxLength"], json!(4 + 7 + 34));
    let short = schemars::schema_for!(External<ShortI32>).to_value();
    assert_eq!((&short["minLength"], &short["maxLength"]), (&json!(4 + 13), &json!(4 + 26)));
}
