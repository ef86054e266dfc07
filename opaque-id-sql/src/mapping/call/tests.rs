//! The order of statements, for every possible answer of a database.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::Index;
use super::*;
use crate::call::{Call, ConnectionState, Need, Reply};
use crate::dialect::Failure;
use crate::statement::{Column, Value};

const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite];

type FoundCall<'t> = Call<'t, Vec<Mapped>, Refusal>;

fn table(index: Index) -> Table {
    let table = Table::new("order_ids", index);
    table.column_is_checked();
    table
}

fn uuids(count: u128) -> Vec<Uuid> {
    (0..count).map(Uuid::from_u128).collect()
}

fn outside(dialect: Dialect) -> ConnectionState {
    ConnectionState { dialect, is_in_transaction: false }
}

fn inside(dialect: Dialect) -> ConnectionState {
    ConnectionState { dialect, is_in_transaction: true }
}

fn call<'t, T, F>(call: impl FnOnce(Session) -> F) -> Call<'t, T, Refusal>
where
    F: Future<Output = Result<T, Refusal>> + Send + 't,
{
    Call::new(crate::call::RETRY_FOR, call)
}

fn find(table: &Table, uuids: Vec<Uuid>) -> FoundCall<'_> {
    call(|session| async { Ok(Connected::begin(session, table).await?.find(uuids).await.mappings) })
}

fn get_or_insert(table: &Table, uuids: Vec<Uuid>) -> FoundCall<'_> {
    call(|session| async {
        Ok(Connected::begin(session, table).await?.get_or_insert(uuids).await?.mappings)
    })
}

fn issue(table: &Table, uuids: Vec<Uuid>) -> FoundCall<'_> {
    call(|session| async {
        Ok(Connected::begin(session, table).await?.issue(uuids).await?.mappings)
    })
}

fn delete<'t>(
    table: &'t Table,
    uuids: Vec<Uuid>,
    cache: Option<&'t Cache>,
) -> Call<'t, u64, Refusal> {
    call(move |session| async move {
        Ok(Connected::begin(session, table).await?.delete(uuids, cache).await)
    })
}

#[derive(Default)]
struct Server {
    rows: Vec<Mapped>,
    statements: usize,
}

impl Server {
    fn with(rows: impl IntoIterator<Item = Mapped>) -> Self {
        Self { rows: rows.into_iter().collect(), statements: 0 }
    }

    fn answer(&mut self, statement: &Statement, uuids: &[Uuid]) -> Answer {
        self.statements += 1;
        if statement.sql.contains("INSERT INTO") {
            for uuid in uuids.iter().filter(|uuid| names(statement, **uuid)) {
                if self.rows.iter().all(|row| row.1 != *uuid) {
                    let id = self.rows.iter().map(|row| row.0).max().unwrap_or(0) + 1;
                    self.rows.push((id, *uuid));
                }
            }
        }
        let rows = self.rows.iter().filter(|row| names(statement, row.1));
        let rows = rows.map(|(id, uuid)| vec![Cell::Integer(*id), Cell::Uuid(*uuid)]);
        match statement.columns {
            [] => Answer::Changed { rows: 1, insert_id: None },
            [Column::Text, ..] => Answer::Rows(Vec::new()),
            _ => Answer::Rows(rows.collect()),
        }
    }

    fn run<T>(&mut self, call: &mut Call<'_, T, Refusal>, dialect: Dialect, asked: &[Uuid]) -> T {
        loop {
            match call.next(outside(dialect)) {
                ControlFlow::Break(done) => return done.expect("no refusal"),
                ControlFlow::Continue(statement) => {
                    let answer = self.answer(&statement, asked);
                    call.reply(Reply::Answer(answer));
                }
            }
        }
    }
}

fn names(statement: &Statement, uuid: Uuid) -> bool {
    fn has(value: &Value, uuid: Uuid) -> bool {
        match value {
            Value::Bytes(bytes) => bytes.chunks(16).any(|chunk| chunk == uuid.as_bytes()),
            Value::Text(text) => text.contains(&uuid.to_string()),
            Value::List(values) => values.iter().any(|value| has(value, uuid)),
            Value::Integer(_) | Value::Literals(_) => false,
        }
    }
    statement.values.iter().any(|value| has(value, uuid))
        || statement.sql.contains(&uuid.simple().to_string())
        || statement.sql.contains(&uuid.to_string())
}

fn skip_to(call: &mut FoundCall<'_>, connection: ConnectionState, text: &str) {
    loop {
        match call.next(connection) {
            ControlFlow::Continue(statement) if statement.sql.contains(text) => return,
            ControlFlow::Continue(_) => call.reply(Reply::Answer(Answer::Rows(Vec::new()))),
            ControlFlow::Break(_) => panic!("expected a statement with {text}"),
        }
    }
}

#[test]
fn known_ids_need_one_statement() {
    for dialect in DIALECTS {
        let (table, asked) = (table(Index::Unique), uuids(10));
        for mut call in [find(&table, asked.clone()), get_or_insert(&table, asked.clone())] {
            let mut server = Server::with((1..).zip(uuids(10)));
            assert_eq!(server.run(&mut call, dialect, &asked).len(), 10);
            assert_eq!(server.statements, 1);
        }
    }
}

/// MySQL would read the whole index for a list of thousands of literals.
#[test]
fn a_long_list_is_searched_and_deleted_in_parts() {
    let parts = 3;
    let len = (parts - 1) * longest_list(Dialect::MySql) + 7;
    let all = uuids(len as u128);
    let table = table(Index::Unique);
    let mut server = Server::with((1..).zip(all.iter().copied().skip(1)).step_by(2));
    let mut found = server.run(&mut find(&table, all.clone()), Dialect::MySql, &all);
    found.sort_unstable();
    assert_eq!(found, server.rows);
    assert_eq!(server.statements, parts);

    let mut server = Server::default();
    let deleted = server.run(&mut delete(&table, all.clone(), None), Dialect::MySql, &all);
    assert_eq!((deleted, server.statements), (3, parts));

    let ids: Vec<_> = (0..1_000 * 2).collect();
    let mut back = call(|session| async {
        Ok(Connected::begin(session, &table).await?.find_uuids(&ids).await.mappings)
    });
    let mut server = Server::default();
    server.run(&mut back, Dialect::MySql, &all);
    assert_eq!(server.statements, parts);
}

#[test]
fn new_ids_are_inserted_once() {
    for index in [Index::Unique, Index::Hashed] {
        for dialect in DIALECTS {
            let (table, asked, mut server) = (table(index), uuids(5), Server::default());
            let max = vec![Uuid::max()];
            server.run(&mut get_or_insert(&table, max.clone()), dialect, &max);
            server.statements = 0;
            let inserted: Vec<_> = table.insertion_order(&UuidSet::new(asked.clone())).collect();
            let mut call = get_or_insert(&table, asked);
            let mut found = server.run(&mut call, dialect, &inserted);
            let expected = match (dialect, index) {
                (Dialect::MySql, _) | (Dialect::Postgres, Index::Hashed) => 3,
                (Dialect::Postgres, _) => 1,
                _ => 2,
            };
            assert_eq!(server.statements, expected, "{dialect:?} {index}");
            found.sort_unstable();
            assert_eq!(found, server.rows[1..]);
        }
    }
}

/// A crash may undo a row that PostgreSQL's insert has only read.
#[test]
fn found_rows_are_durable_if_an_insert_has_added_the_others() {
    let table = table(Index::Unique);
    for (new, is_inserted) in [([0, 0], false), ([0, 1], true), ([1, 1], true)] {
        let mut call = call(|session| async {
            Connected::begin(session, &table).await?.get_or_insert(uuids(2)).await
        });
        assert!(call.next(outside(Dialect::Postgres)).is_continue());
        let row = |(uuid, new)| vec![Cell::Integer(new + 7), Cell::Uuid(uuid), Cell::Integer(new)];
        call.reply(Reply::Answer(Answer::Rows(uuids(2).into_iter().zip(new).map(row).collect())));
        let ControlFlow::Break(Ok(found)) = call.next(outside(Dialect::Postgres)) else {
            panic!("expected the end of the call");
        };
        assert_eq!((found.mappings.len(), found.is_inserted), (2, is_inserted));
    }
}

/// PostgreSQL's insert skips a row that was committed after the statement began.
#[test]
fn an_id_that_an_insert_has_passed_over_is_searched() {
    let (table, mut server) = (table(Index::Unique), Server::with([(7, Uuid::nil())]));
    let mut call = get_or_insert(&table, uuids(1));
    skip_to(&mut call, outside(Dialect::Postgres), "INSERT");
    call.reply(Reply::Answer(Answer::Rows(Vec::new())));
    assert_eq!(server.run(&mut call, Dialect::Postgres, &uuids(1)), server.rows);
    assert_eq!(server.statements, 1);
}

#[test]
fn a_list_with_replaced_ends_is_read() {
    for insert_id in [Some(1), None] {
        let table = table(Index::Unique);
        let mut call = get_or_insert(&table, uuids(3));
        skip_to(&mut call, outside(Dialect::MySql), "INSERT");
        call.reply(Reply::Answer(Answer::Changed { rows: 3, insert_id }));
        let mut server = Server::with([4, 2, 6].into_iter().zip(uuids(3)));
        assert_eq!(server.run(&mut call, Dialect::MySql, &uuids(3)), server.rows);
    }
}

#[test]
fn a_list_is_known_by_its_ends_or_read() {
    const MAX: i64 = i64::MAX;
    for (ids, statements) in
        [([1, 2, 4], 3), ([MAX - 2, MAX - 1, MAX], 2), ([i64::MIN, 0, MAX], 3), ([3, 2, 1], 3)]
    {
        let mut server = Server::with(ids.into_iter().zip(uuids(3)));
        let table = table(Index::Unique);
        let found = server.run(&mut issue(&table, uuids(3)), Dialect::MySql, &uuids(3));
        assert_eq!((found, server.statements), (server.rows, statements), "{ids:?}");
    }
}

#[test]
fn the_last_insert_id_is_the_integer_of_the_only_id() {
    let table = table(Index::Unique);
    let mut call = issue(&table, uuids(1));
    assert!(call.next(inside(Dialect::MySql)).is_continue());
    call.reply(Reply::Answer(Answer::Changed { rows: 1, insert_id: Some(7) }));
    let ControlFlow::Break(Ok(found)) = call.next(inside(Dialect::MySql)) else {
        panic!("expected the end of the call");
    };
    assert_eq!(found, [(7, Uuid::nil())]);
}

/// Other clients delete every row at once, or another UUID's row blocks the insert because the integers are used up.
#[test]
fn ids_that_are_never_found_are_given_up() {
    for is_duplicate in [false, true] {
        let table = table(Index::Unique);
        let (mut call, mut inserts, mut waits) = (get_or_insert(&table, uuids(1)), 0, 0);
        assert!(call.start(Some(outside(Dialect::MySql))).is_none());
        let ended = loop {
            match call.step() {
                ControlFlow::Continue(Need::Wait(_)) => {
                    waits += 1;
                    call.reply(Reply::Waited);
                }
                ControlFlow::Continue(Need::Answer(request)) => {
                    let is_insert = request.statement.columns.is_empty();
                    inserts += u32::from(is_insert);
                    call.reply(match is_insert {
                        true if is_duplicate => Reply::Failed(Failure::Duplicate),
                        _ => Reply::Answer(Answer::Rows(Vec::new())),
                    });
                }
                ControlFlow::Break(ended) => break ended,
            }
        };
        assert_eq!((inserts, waits), (ROUNDS, ROUNDS - 1));
        match is_duplicate {
            true => assert!(matches!(ended, Err(MappingError::Counter { .. }))),
            false => assert_eq!(ended.expect("no refusal"), []),
        }
    }
}

#[test]
fn a_list_that_others_insert_one_by_one_is_found() {
    let (table, uuids) = (table(Index::Unique), uuids(30));
    let (mut call, mut server) = (get_or_insert(&table, uuids.clone()), Server::default());
    while let ControlFlow::Continue(statement) = call.next(outside(Dialect::MySql)) {
        call.reply(match statement.columns {
            [] => {
                let next = server.rows.len();
                server.rows.push((1 + i64::try_from(next).expect("a number"), uuids[next]));
                Reply::Failed(Failure::Duplicate)
            }
            _ => Reply::Answer(server.answer(&statement, &uuids)),
        });
    }
    assert_eq!(server.rows.len(), 30);
}

#[test]
fn a_lock_that_locks_nothing_is_refused() {
    for (dialect, lock, message) in [
        (Dialect::Postgres, "pg_advisory_xact_lock", "READ COMMITTED"),
        (Dialect::MySql, "FOR UPDATE", "opaque_id_slots"),
    ] {
        let table = table(Index::Hashed);
        let mut call = get_or_insert(&table, uuids(2));
        skip_to(&mut call, inside(dialect), lock);
        call.reply(Reply::Answer(Answer::Rows(Vec::new())));
        let ControlFlow::Break(Err(refusal)) = call.next(inside(dialect)) else {
            panic!("expected a refusal");
        };
        assert!(refusal.to_string().contains(message));
    }
}

#[test]
fn a_hashed_index_is_refused_on_a_cluster() {
    for connection in [outside(Dialect::MySql), inside(Dialect::MySql)] {
        let table = table(Index::Hashed);
        let mut call = get_or_insert(&table, uuids(2));
        skip_to(&mut call, connection, "SHOW GLOBAL VARIABLES");
        let rows = vec![vec![Cell::Text("wsrep_on".to_owned()), Cell::Text("ON".to_owned())]];
        call.reply(Reply::Answer(Answer::Rows(rows)));
        let refused = call.next(connection);
        assert!(matches!(refused, ControlFlow::Break(Err(MappingError::Cluster { .. }))));
    }
}

/// An empty column of SQLite may still get any type.
#[test]
fn a_column_of_rows_is_checked_until_it_has_one() {
    let rows = Table::for_rows("orders", "id", "public_id");
    let first = |answer: Option<&str>| {
        let mut call = find(&rows, uuids(1));
        let ControlFlow::Continue(first) = call.next(outside(Dialect::Sqlite)) else {
            panic!("expected a statement");
        };
        let answer = answer
            .map(|found| ["public_id", found].map(|text| Cell::Text(text.to_owned())).to_vec());
        call.reply(Reply::Answer(Answer::Rows(answer.into_iter().collect())));
        let refused = matches!(call.next(outside(Dialect::Sqlite)), ControlFlow::Break(Err(_)));
        (first.sql.contains("typeof"), refused)
    };
    assert_eq!(first(Some("null")), (true, false));
    assert_eq!(first(Some("text")), (true, true));
    assert_eq!(first(None), (true, false));
    assert_eq!(first(None), (false, false));
}

/// Two clones check the column and the server at the same time, and one of them is faster.
#[test]
fn the_check_of_another_call_does_not_end_this_one() {
    for (index, check) in [
        (Index::Unique, "information_schema"),
        (Index::Hashed, "information_schema"),
        (Index::Hashed, "SHOW GLOBAL VARIABLES"),
    ] {
        let table = Table::new("order_ids", index);
        let [mut slow, mut fast] = [(), ()].map(|()| get_or_insert(&table, uuids(1)));
        for call in [&mut slow, &mut fast] {
            skip_to(call, outside(Dialect::MySql), check);
            call.reply(Reply::Answer(Answer::Rows(Vec::new())));
        }
        let mut server = Server::default();
        for mut call in [fast, slow] {
            let found = server.run(&mut call, Dialect::MySql, &uuids(1));
            assert_eq!(found, server.rows, "{check} of {index}");
        }
    }
}

#[test]
fn only_ids_with_a_mapping_are_kept_out_of_a_cache() {
    let now = Instant::now();
    let (table, cache) = (table(Index::Unique), Arc::new(Cache::new(100)));
    drop(delete(&table, uuids(10), Some(&cache)));

    let mut server = Server::with([(1, Uuid::from_u128(3))]);
    cache.insert_all(&server.rows, true, now, now);
    let mut call = delete(&table, uuids(10), Some(&cache));
    server.run(&mut call, Dialect::Sqlite, &uuids(10));
    assert_eq!(server.statements, 2);
    let all: Vec<_> = (1..).zip(uuids(10)).collect();
    cache.insert_all(&all, true, now, now);
    let served = uuids(10).into_iter().filter(|uuid| cache.id(*uuid).is_some());
    assert_eq!(served.count(), 9);
    assert_eq!(cache.id(Uuid::from_u128(3)), None);
}
