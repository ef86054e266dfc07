//! No `Debug` of the adapters' statements and state shows a key.

use std::fmt::Debug;
use std::ops::ControlFlow;

use opaque_id_core::key::Uuid;
use opaque_id_core::{External, Internal, OpaqueId};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::{Call, ConnectionState, Reply};
use opaque_id_sql::mapping::{Index, Mapping};
use opaque_id_sql::sequence::Blocks;
use opaque_id_sql::statement::{Answer, Cell, Statement, Value};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "parcel", key = StructuredKey)]
struct Parcel;

/// Asserts the exact output of `Debug` on one line and, except for white space and last commas, on many.
#[track_caller]
fn shows(value: &dyn Debug, expected: &str) {
    assert_eq!(format!("{value:?}"), expected);
    let bare = |text: String| {
        let text: String = text.split_whitespace().collect();
        text.replace(",}", "}").replace(",)", ")").replace(",]", "]")
    };
    assert_eq!(bare(format!("{value:#?}")), bare(expected.to_owned()));
}

/// Returns the text of a statement without values in it.
fn text_alone(statement: &Statement) -> String {
    format!("Statement {{ sql: {:?}, .. }}", statement.sql)
}

const TABLE: &str = r#"Table { name: "order_ids", index: Hashed, resource: None }"#;

fn mapping() -> Answer {
    let uuid = Uuid::from_u128(1 << 99);
    Answer::Rows(vec![vec![Cell::Integer(1_234_567), Cell::Uuid(uuid)]])
}

#[test]
fn values_and_answers() {
    shows(&Value::Integer(1_234_567), "Value(..)");
    shows(&Value::Text("1234567".into()), "Value(..)");
    shows(&Value::Bytes(vec![7; 16]), "Value(..)");
    shows(&Cell::Integer(1_234_567), "Cell(..)");
    shows(&Cell::Bytes(vec![7; 16]), "Cell(..)");
    shows(&mapping(), "Rows(1)");
    let changed = Answer::Changed { rows: 1, insert_id: Some(1_234_567) };
    shows(&changed, "Changed(1)");
}

/// Returns the next statement of a call.
fn next<T, E>(call: &mut Call<'_, T, E>, dialect: Dialect) -> Statement {
    match call.next(ConnectionState { dialect, is_in_transaction: false }) {
        ControlFlow::Continue(statement) => statement,
        ControlFlow::Break(_) => panic!("expected a statement"),
    }
}

#[test]
fn maps_and_blocks() {
    let map = Mapping::<Order>::new("order_ids", Index::Hashed);
    let ids = [Internal::from_key(1_234_567).expect("any integer")];
    let mut find = map.to_external(&ids);
    // The first answer is to the check of the table, and the second is a mapping.
    for answer in [Answer::Rows(Vec::new()), mapping()] {
        let statement = next(&mut find, Dialect::Sqlite);
        shows(&statement, &text_alone(&statement));
        find.reply(Reply::Answer(answer));
        shows(&find, "Call { .. }");
    }
    shows(&map, &format!("Mapping {{ table: {TABLE}, cache: None }}"));
    let cache = "Some(Cache { len: 0, .. })";
    shows(&map.clone().cached(9), &format!("Mapping {{ table: {TABLE}, cache: {cache} }}"));

    let blocks = Blocks::<Parcel>::new();
    shows(&blocks.take(1), "Call { .. }");
    shows(&blocks, "Sequence { block: 1000, shards: None, .. }");
}

/// MySQL's inserted lists, and requests of several statements, have their values in the text.
#[test]
fn texts_with_values() {
    let nothing = || Reply::Answer(Answer::Rows(Vec::new()));
    let ids = [External::random(), External::random()];
    let map = Mapping::<Order>::new("order_ids", Index::Unique);
    let mut issue = map.issue(3);
    next(&mut issue, Dialect::MySql);
    issue.reply(nothing());
    let text = next(&mut issue, Dialect::MySql);
    assert!(text.sql.contains("0x"));
    shows(&text, "Statement { .. }");

    for dialect in [Dialect::MySql, Dialect::Postgres] {
        let map = Mapping::<Order>::new("order_ids", Index::Hashed);
        let mut call = map.get_or_insert(&ids);
        let batch = loop {
            let statement = next(&mut call, dialect);
            if statement.is_batch {
                break statement;
            }
            shows(&statement, &text_alone(&statement));
            call.reply(nothing());
        };
        shows(&batch, "Statement { .. }");
    }
}
