//! No `Debug` of what adapters run and keep shows a key.

use std::fmt::Debug;

use opaque_id_core::key::Uuid;
use opaque_id_core::{External, Internal, OpaqueId};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::Call;
use opaque_id_sql::mapping::{Index, Mapping};
use opaque_id_sql::sequence::Blocks;
use opaque_id_sql::statement::{Answer, Cell, Value};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "parcel", key = StructuredKey)]
struct Parcel;

/// Fails if what `Debug` prints, on one line or on many, has five digits in a row, of any base: settings are shorter,
/// and hidden values leave none. A statement's text is not hidden.
#[track_caller]
fn hides(value: &dyn Debug) {
    for printed in [format!("{value:?}"), format!("{value:#?}")] {
        let run = printed
            .split(|c: char| !c.is_ascii_hexdigit())
            .filter(|run| run.bytes().any(|byte| byte.is_ascii_digit()))
            .find(|run| run.len() >= 5);
        assert_eq!(run, None, "{printed}");
    }
}

fn mapping() -> Answer {
    let uuid = Uuid::from_u128(1 << 99);
    Answer::Rows(vec![vec![Cell::Integer(1_234_567), Cell::Uuid(uuid)]])
}

#[test]
fn values_and_answers() {
    hides(&Value::Integer(1_234_567));
    hides(&Value::Text("1234567".into()));
    hides(&Value::Bytes(vec![7; 16]));
    hides(&Cell::Bytes(vec![7; 16]));
    hides(&mapping());
    hides(&Answer::Changed {
        rows: 1,
        insert_id: Some(1_234_567),
    });
}

#[test]
fn maps_and_blocks() {
    let map = Mapping::<Order>::new("order_ids", Index::Hashed);
    let mut find = map.to_external(&[Internal::from_key(1_234_567).expect("any integer")]);
    hides(&find.next(Dialect::Sqlite));
    let found = find.answer(Dialect::Sqlite, false, mapping());
    found.expect("no refusal");
    hides(&find);
    hides(&map.get_or_insert(&[External::random()]));
    hides(&map);

    let blocks = Blocks::<Parcel>::new();
    let Ok(Err(mut take)) = blocks.take::<()>(1) else {
        panic!("no block is there yet")
    };
    let end = Answer::Rows(vec![vec![Cell::Integer(1_234_567)]]);
    let Ok(()) = take.answer(Dialect::Sqlite, false, end);
    hides(&take);
    blocks.add::<()>(&take).expect("a block");
    hides(&blocks);
}

/// Lists that MySQL inserts, and requests of several statements, have their values in the text.
#[test]
fn texts_with_values() {
    let ids = [External::random(), External::random()];
    let issue = Mapping::<Order>::new("order_ids", Index::Unique).issue(3);
    let text = issue.next(Dialect::MySql).expect("an insert");
    assert!(text.sql.contains("0x"));
    hides(&text);

    for dialect in [Dialect::MySql, Dialect::Postgres] {
        let map = Mapping::<Order>::new("order_ids", Index::Hashed);
        let mut call = map.get_or_insert(&ids);
        let batch = loop {
            let statement = call.next(dialect).expect("nothing is found");
            if statement.is_batch {
                break statement;
            }
            hides(&statement);
            let nothing = call.answer(dialect, false, Answer::Rows(Vec::new()));
            nothing.expect("no refusal");
        };
        hides(&batch);
    }
}
