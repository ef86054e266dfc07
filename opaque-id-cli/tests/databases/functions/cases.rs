//! The results of the functions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::random::Random;
use serde_json::{Value, json};

use super::{Functions, contains, expect, on_each_kind, rows, run, value};
use opaque_id_tests::trials::Case;

pub(crate) const ALL: &[Case] = cases![
    every_vector,
    random_keys_as_the_program,
    what_is_no_id_is_null,
    what_is_no_key_is_null,
    rotation,
    drop_leaves_nothing,
    the_client_runs_the_script,
    a_filter_uses_the_primary_key,
];

pub(crate) const OLD: &str = "0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23";
pub(crate) const NEW: &str = "1:e0eb4da52f6b2f55de21fe63c1058a2456d8ed7a8137ec1735991985ddef728b";

/// Rows get the new secret, and the old one still opens.
pub(crate) static BOTH: LazyLock<String> = LazyLock::new(|| format!("{NEW},{OLD}"));

/// The valid combinations of keys and forms.
pub(crate) const KINDS: [(&str, &str); 13] = [
    ("uuid7", "text"),
    ("uuid7", "tagged"),
    ("uuid7", "uuid"),
    ("ulid", "text"),
    ("ulid", "tagged"),
    ("structured", "text"),
    ("structured", "tagged"),
    ("structured", "uuid"),
    ("uuid", "text"),
    ("uuid", "tagged"),
    ("int", "text"),
    ("int", "uuid"),
    ("int", "short"),
];

/// These are the kit's vectors for ids of resources that the functions support.
fn every_vector(database: &Database) -> Result {
    let mut resources = BTreeMap::<_, Vec<Value>>::new();
    for line in include_str!("../../../../spec/vectors.jsonl").lines() {
        let vector: Value = serde_json::from_str(line)?;
        let text = |name: &str| vector[name].as_str().unwrap_or_default();
        let kind = if text("kind") == "i64" { "int" } else { text("kind") };
        // A function's name has at most 64 characters, and a text of PostgreSQL contains no zero.
        let has_name = (1..=40).contains(&text("prefix").len()) && !text("domain").is_empty();
        let is_prefix =
            !vector["requirements"].as_array().is_some_and(|of| of.contains(&json!("R1.3")));
        if KINDS.contains(&(kind, text("form")))
            && ["seal", "open"].contains(&text("op"))
            && has_name
            && (is_prefix || !vector["answer"].is_null())
            && !text("id").contains('\0')
        {
            let fields = ["secrets", "prefix", "domain", "audience", "kind", "form"];
            let resource = fields.map(|field| vector[field].as_str().map(str::to_owned));
            resources.entry(resource).or_default().push(vector);
        }
    }
    let mut checked = 0;
    for vectors in resources.values() {
        check_one_resource(database, vectors)?;
        checked += vectors.len();
    }
    expect("vectors", checked, 997)
}

fn check_one_resource(database: &Database, vectors: &[Value]) -> Result {
    let field = |name: &str| vectors[0][name].as_str().ok_or(format!("no {name}"));
    let kind = field("kind")?.replace("i64", "int");
    let functions = Functions {
        domain: field("domain")?,
        audience: vectors[0]["audience"].as_str(),
        ..Functions::new(database, field("prefix")?, &kind, field("form")?)
    };
    functions.install(field("secrets")?)?;
    let columns =
        vectors.iter().map(|vector| match (vector["key"].as_str(), vector["id"].as_str()) {
            (Some(key), _) => functions.seal(&functions.literal(key)),
            (_, id) => {
                functions.key_text(&functions.open(&format!("'{}'", id.unwrap_or_default())))
            }
        });
    let columns: Vec<_> = columns.collect();
    let found = rows(database, &format!("SELECT {}", columns.join(", ")))?;
    for (vector, found) in vectors.iter().zip(found) {
        let answer = &vector["answer"];
        let expected = answer.as_str().or_else(|| answer["key"].as_str()).map(str::to_owned);
        expect(&vector.to_string(), found, expected)?;
    }
    // The next resource may have another kind of key.
    functions.drop()
}

/// Returns keys of a kind that fit its form, including the ends of their ranges.
fn keys(kind: &str, form: &str, count: usize) -> Vec<String> {
    let low_60 = (1 << 60) - 1;
    let mut random = Random(7);
    let random = std::iter::repeat_with(|| random.below(usize::MAX) as u64);
    let random: Vec<u64> = [0, u64::MAX].into_iter().chain(random).take(count + 1).collect();
    let pairs = random.windows(2).map(|pair| (pair[0], pair[1]));
    pairs
        .map(|(a, b)| {
            let (a, b) = match (kind, form) {
                ("int", "uuid") => return (a & low_60).to_string(),
                ("int", "short") if a % 4 != 0 => return (a >> 28).to_string(),
                ("int", _) => return a.cast_signed().to_string(),
                ("uuid7", _) => {
                    ((a & 0x3fff_ffff_ffff_0fff) | 0x7000, (b & (u64::MAX >> 2)) | (1 << 63))
                }
                ("structured", _) => (a & low_60, b & low_60),
                _ => (a, b),
            };
            let hex = format!("{a:016x}{b:016x}");
            let groups = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            groups.join("-")
        })
        .collect()
}

fn random_keys_as_the_program(database: &Database) -> Result {
    on_each_kind(database, |functions| {
        let keys = keys(functions.key, functions.form, 400);
        let sealed = functions.sealed(OLD, &keys.join("\n"))?;
        let expected = keys
            .iter()
            .zip(sealed.lines())
            .flat_map(|(key, id)| [key, id].map(|text| Some(text.to_owned())));
        let queries = keys.iter().enumerate().map(|(i, key)| {
            let key = functions.literal(key);
            format!("SELECT {i} AS i, {key} AS k")
        });
        let queries = queries.collect::<Vec<_>>().join(" UNION ALL ");
        let seal = functions.seal("k");
        let opened = functions.key_text(&functions.open("id"));
        let sql = format!(
            "WITH keys_ AS ({queries}), ids AS (SELECT i, {seal} AS id FROM keys_) SELECT {opened}, id FROM ids ORDER BY i"
        );
        expect("keys and ids", rows(database, &sql)?, expected.collect())
    })
}

/// Returns a valid id with one of its characters replaced by another one of its alphabet.
fn tampered(id: &str, at: usize) -> String {
    let other = match &id[at..=at] {
        "0" => "1",
        _ => "0",
    };
    format!("{}{other}{}", &id[..at], &id[at + 1..])
}

fn what_is_no_id_is_null(database: &Database) -> Result {
    on_each_kind(database, |functions| {
        let Functions { key: kind, form, .. } = *functions;
        let key = &keys(kind, form, 3)[2];
        let id = &*functions.sealed(OLD, key)?;
        let other = Functions::new(database, "other", kind, form).sealed(OLD, key)?;
        let unknown = functions.sealed(NEW, key)?;
        let mut refused = vec![
            id.to_uppercase(),
            format!("{id} "),
            format!("{id}\n"),
            format!("{id}\t"),
            format!("{id}0"),
            format!(" {id}"),
            format!("{id}{}", " ".repeat(400)),
            "x".repeat(100_000),
            id[..id.len() - 1].to_owned(),
            id.replacen(|c: char| c.is_ascii_digit(), "é", 1),
            id.replacen(|c: char| c.is_ascii_digit(), "０", 1),
            id.replacen(|c: char| c.is_ascii_digit(), "%", 1),
            unknown,
            key.clone(),
            String::new(),
            "user_".to_owned(),
        ];
        if form == "uuid" {
            // These ids lack hyphens, or have another version and variant.
            refused.extend([
                id.replace('-', ""),
                format!("{}7{}", &id[..14], &id[15..]),
                format!("{}c{}", &id[..19], &id[20..]),
            ]);
        } else {
            // These ids have a prefix in upper case, no prefix, a look-alike, a hyphen, or the prefix of
            // another resource.
            refused.extend([
                id.replace("user", "User"),
                id.replace("user_", ""),
                format!("{}i", &id[..id.len() - 1]),
                format!("{}-", &id[..id.len() - 1]),
                other.clone(),
                other.replace("other", "user_other"),
            ]);
        }
        if form == "tagged" || kind == "int" {
            let body = id.len().saturating_sub(25).max("user_0".len());
            refused.extend((body..id.len()).map(|at| tampered(id, at)));
        }
        if form == "short" {
            // Each id has exactly one text.
            refused.push(Functions::new(database, "user", kind, "text").sealed(OLD, key)?);
        }
        let open = |sql: &str| functions.key_text(&functions.open(sql));
        let all: Vec<_> = refused.iter().map(|id| open(&format!("'{id}'"))).collect();
        let opened = rows(database, &format!("SELECT {}", all.join(", ")))?;
        let opened = refused.iter().zip(opened);
        let accepted = opened.filter(|(_, key)| key.is_some()).collect();
        expect("opened", accepted, vec![])?;
        let sql = format!("SELECT {}", open("NULL"));
        expect("NULL", value(database, &sql)?, None)?;
        let sql = format!("SELECT {}", open(&format!("'{id}'")));
        expect("the id", value(database, &sql)?.as_ref(), Some(key))
    })
}

fn seals_to_null(functions: &Functions<'_>, before: &str, key: &str) -> Result {
    let sql = format!("{before} SELECT {}", functions.seal(key));
    let what = format!("{} {} {key}", functions.key, functions.form);
    expect(&what, value(functions.database, &sql)?, None)
}

fn what_is_no_key_is_null(database: &Database) -> Result {
    let uuid4 = "0192c1f0-7b1e-4a35-8f00-000000000001";
    let variant = "0192c1f0-7b1e-7a35-cf00-000000000001";
    let later = "4192c1f0-7b1e-7a35-8f00-000000000001";
    let cases: [(&str, &str, &[&str]); 6] = [
        ("uuid7", "text", &[uuid4, variant]),
        ("uuid7", "tagged", &[uuid4, variant]),
        ("uuid7", "uuid", &[uuid4, variant, later]),
        ("structured", "text", &[later, variant]),
        (
            "structured",
            "uuid",
            &["10000000-0000-0000-0000-000000000000", "00000000-0000-0000-8000-000000000000"],
        ),
        ("int", "uuid", &["-1", "1152921504606846976", "9223372036854775807"]),
    ];
    for (kind, form, keys) in cases {
        let functions = Functions::new(database, "thing", kind, form);
        functions.install(OLD)?;
        let keys = keys.iter().map(|key| functions.literal(key));
        for key in keys.chain(["NULL".to_owned()]) {
            seals_to_null(&functions, "", &key)?;
        }
        functions.drop()?;
    }
    if database.kind == Engine::Postgres {
        return Ok(());
    }
    // PostgreSQL refuses arguments of other types. These servers convert them.
    for (kind, form, keys) in [
        ("uuid", "text", ["'0192c1f0-7b1e-4a35-8f00-000000000001'", "X'00'", "''"]),
        ("uuid", "tagged", ["REPEAT('a', 15)", "REPEAT('a', 17)", "REPEAT('a', 100000)"]),
        ("int", "text", ["9223372036854775808", "'1x'", "1.5"]),
        ("int", "uuid", ["18446744073709551615", "''", "1e30"]),
    ] {
        let functions = Functions::new(database, "thing", kind, form);
        functions.install(OLD)?;
        for mode in ["", "STRICT_ALL_TABLES"] {
            for key in keys {
                seals_to_null(&functions, &format!("SET sql_mode = '{mode}';"), key)?;
            }
        }
        functions.drop()?;
    }
    Ok(())
}

fn rotation(database: &Database) -> Result {
    let appended = format!("{OLD},{NEW}");
    on_each_kind(database, |functions| {
        let key = &keys(functions.key, functions.form, 3)[2];
        let (old, new) = (functions.sealed(OLD, key)?, functions.sealed(NEW, key)?);
        let state = || {
            let seal = functions.seal(&functions.literal(key));
            let open = |id: &str| functions.key_text(&functions.open(&format!("'{id}'")));
            let sql = format!("SELECT {seal}, {}, {}", open(&old), open(&new));
            rows(database, &sql)
        };
        let is = |what: &str, seals: &str, opens: [bool; 2]| {
            let opens = opens.map(|opens| opens.then(|| key.clone()));
            let expected = [&[Some(seals.to_owned())], &opens[..]].concat();
            expect(what, state()?, expected)
        };
        is("first", &old, [true, false])?;
        for (entries, seals) in [(&*appended, &old), (&**BOTH, &new)] {
            // The whole script runs again, and then only the subkeys.
            for options in [&[][..], &["--rotate"]] {
                database.execute(&functions.script(entries, options)?)?;
                is(entries, seals, [true, true])?;
            }
        }
        database.execute(&functions.script(NEW, &["--rotate"])?)?;
        is("retired", &new, [false, true])
    })
}

fn drop_leaves_nothing(database: &Database) -> Result {
    let left = match database.kind {
        Engine::Postgres => {
            "SELECT concat((SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace('SCHEMA')) +
                (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('SCHEMA')))"
        }
        _ => {
            "SELECT concat((SELECT count(*) FROM information_schema.routines WHERE routine_schema = 'SCHEMA') +
                (SELECT count(*) FROM information_schema.tables WHERE table_schema = 'SCHEMA'))"
        }
    };
    on_each_kind(database, |functions| {
        let left = left.replace("SCHEMA", &functions.schema);
        assert_ne!(value(database, &left)?.as_deref(), Some("0"));
        functions.drop()?;
        expect("left", value(database, &left)?.as_deref(), Some("0"))
    })
}

fn the_client_runs_the_script(database: &Database) -> Result {
    let functions = Functions::new(database, "user", "uuid7", "text");
    let client = |script: &str| {
        let (success, _, error) = run(&mut database.client(true)?, script)?;
        expect(&error, success, true)
    };
    client(&functions.script(OLD, &[])?)?;
    functions.seals("sealed", OLD, "0192c1f0-7b1e-7a35-8f00-000000000001")?;
    client(&functions.script("", &["--drop"])?)
}

fn a_filter_uses_the_primary_key(database: &Database) -> Result {
    let functions = Functions::new(database, "user", "uuid7", "text");
    functions.install(OLD)?;
    let (r#type, explain, expected) = match database.kind {
        Engine::Postgres => ("uuid", "EXPLAIN", "Index Cond: (id ="),
        _ => ("BINARY(16)", "EXPLAIN FORMAT=JSON", "\"PRIMARY\""),
    };
    let keys = keys("uuid7", "text", 1000);
    let values = keys.iter().skip(2);
    let values = values.map(|key| format!("({})", functions.literal(key)));
    database.execute(&format!(
        "CREATE TABLE users (id {type} NOT NULL PRIMARY KEY); INSERT INTO users VALUES {};
         CREATE VIEW api AS SELECT {} AS id FROM users",
        values.collect::<Vec<_>>().join(", "),
        functions.seal("id"),
    ))?;
    if database.kind == Engine::Postgres {
        database.execute("ANALYZE users")?;
    }
    let id = functions.sealed(OLD, &keys[5])?;
    let id = format!("'{id}'");
    let plan = |query: &str| {
        let plan = rows(database, &format!("{explain} {query}"))?;
        Result::Ok(plan.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    };
    let by_key = format!("SELECT id FROM users WHERE id = {}", functions.open(&id));
    let found = plan(&by_key)?;
    contains(&found, expected)?;
    // The view itself seals every row.
    let by_id = format!("SELECT id FROM api WHERE id = {id}");
    let found = plan(&by_id)?;
    let all = ["Seq Scan", "\"index\"", "\"ALL\""];
    expect(&found, all.iter().any(|all| found.contains(all)), true)?;
    let key = functions.key_text("id");
    let count = format!("SELECT {key} FROM ({by_key}) AS found");
    expect("found", value(database, &count)?.as_ref(), Some(&keys[5]))
}
