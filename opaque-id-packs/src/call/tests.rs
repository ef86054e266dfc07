//! Calls on a table in SQLite, or with answers that no server should give.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use opaque_id_core::{Keyring, MasterSecret};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::{ConnectionState, Reply};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::{Answer, Cell, Column, Statement, Value};
use sqlx::{Connection, Row as _, SqliteConnection};

use super::session::KEY_INSERTIONS;
use super::*;
use crate::format::{COMPRESSED, GroupKeys, Pack, PackCipher, Row};
use crate::id_column::IdColumn;
use crate::settings::{Settings, TableMetadata};
use crate::split::tests::{open as open_table, value};
use crate::statement::Statements;
use crate::stored::StoredRow;
use crate::table::{Context, Table};

const OUTSIDE: ConnectionState =
    ConnectionState { dialect: Dialect::Sqlite, is_in_transaction: false };

fn run<R>(
    call: &mut PackCall<'_, R>,
    mut answer: impl FnMut(&Statement) -> Answer,
) -> Result<R, TableError> {
    loop {
        match call.next(OUTSIDE) {
            ControlFlow::Break(done) => return done,
            ControlFlow::Continue(statement) => call.reply(Reply::Answer(answer(&statement))),
        }
    }
}

fn calls(table: &Arc<Table>) -> Calls {
    Calls { table: Arc::clone(table) }
}

fn put_one(table: &Arc<Table>) -> PackCall<'static, ()> {
    calls(table).put_rows([Ok((7, Row::Value(value(7).into())))])
}

#[test]
fn keys_that_a_server_does_not_show_are_not_inserted_for_ever() {
    let table = Arc::new(open_table(Settings::default()));
    let mut insertions = 0;
    let mut keys = calls(&table)
        .call(|session| async { session.connect().await.ensure_keys(vec![7], true).await });
    let ended = run(&mut keys, |statement| match statement.columns.is_empty() {
        true => {
            insertions += 1;
            Answer::Changed { rows: 1, insert_id: None }
        }
        false => Answer::Rows(Vec::new()),
    });
    assert_eq!((ended, insertions), (Err(TableError::Outrun), KEY_INSERTIONS));
}

/// Returns a table with a dictionary, and its settings before it.
fn table_with_dictionary() -> (Arc<Table>, StoredRow) {
    let table = Arc::new(open_table(Settings::default()));
    let samples: Vec<_> = (0..2_000).map(|i| value(i).into()).collect();
    let dictionary = crate::dictionary::trained("events", &samples, 1_024).expect("trained");
    let mut contents = table.opened().expect("open").contents.clone();
    let before = table.encrypt_settings(1, &contents).expect("settings");
    contents.dictionary = 1;
    let stored = [
        table.encrypt_settings(2, &contents).expect("settings"),
        table.encrypt_meta(1, 7, &dictionary).expect("a dictionary"),
        // zstd refuses a dictionary that ends after its magic number. The table can be opened without it.
        table.encrypt_meta(2, 7, &dictionary[..12]).expect("a dictionary"),
    ];
    assert_eq!(table.learn(Context::outside(), (0..).zip(stored).collect()), Ok(true));
    assert!(!table.opened().expect("open").has_dictionary(2));
    (table, before)
}

/// Returns the dictionaries of a new row, of a pack and of a column's value.
fn written_with(table: &Table) -> [Option<u16>; 3] {
    let groups = GroupKeys::default();
    let view = table.view(Context::outside(), &groups).expect("open");
    let row = view.encrypt_row(7, &Row::Value(value(7).into())).expect("a row");
    let pack = Pack { id: 0, end: None, rows: vec![(7, value(7).into())] };
    let packs = crate::split::encrypt(&view, 1, pack).expect("a pack");
    let value = view.encrypt_value(7, Some(value(7).into())).expect("a value");
    [&row.body, &packs[0].body, &value].map(|body| PackCipher::dictionary_id(body).ok())
}

/// A sweep may have deleted the dictionary while the process was idle.
#[test]
fn a_process_that_was_idle_writes_without_a_dictionary() {
    let (table, _) = table_with_dictionary();
    assert_eq!(written_with(&table), [Some(1); 3]);
    table.forget_check(Duration::from_secs(601));
    assert_eq!(written_with(&table), [Some(0), Some(0), Some(1)]);
}

/// A process that merges nothing must notice changed settings and a lost dictionary.
#[test]
fn a_call_reads_the_settings_at_its_end_once_a_minute() {
    let table = Arc::new(open_table(Settings::default()));
    let mut contents = table.opened().expect("open").contents.clone();
    contents.settings = Settings::default().pack_bytes(15_960);
    let stored = table.encrypt_settings(2, &contents).expect("settings");
    let meta = vec![vec![Cell::Integer(0), Cell::Integer(2), Cell::Bytes(stored.body)]];
    let put = || {
        let mut statements = Vec::new();
        let done = run(&mut put_one(&table), |statement| {
            statements.push(statement.sql.split(' ').next().expect("a word").to_owned());
            match statement.columns.is_empty() {
                true => Answer::Changed { rows: 1, insert_id: None },
                false => Answer::Rows(meta.clone()),
            }
        });
        assert_eq!(done, Ok(()));
        statements
    };
    let pack_bytes = || table.opened().expect("open").contents.settings.pack_bytes;
    assert_eq!((put(), pack_bytes()), (vec!["INSERT".to_owned()], 8_064));
    table.forget_check(Duration::from_secs(60));
    assert_eq!((put(), pack_bytes()), (vec!["INSERT".to_owned(), "SELECT".to_owned()], 15_960));
    assert_eq!(put(), ["INSERT"]);
}

/// A process that only reads may have no right to insert it.
#[test]
fn only_a_process_that_writes_inserts_a_lost_dictionary() {
    let (table, before) = table_with_dictionary();
    let meta = vec![vec![Cell::Integer(0), Cell::Integer(1), Cell::Bytes(before.body)]];
    let insertions = |reply: fn() -> Reply| {
        table.forget_check(Duration::from_secs(60));
        let mut insertions = 0;
        let mut get = calls(&table).call(|session| async {
            let mut session = session.connect().await;
            session.query(session.sql().get(&[7], &[])).await?;
            session.end(()).await
        });
        let done = loop {
            match get.next(OUTSIDE) {
                ControlFlow::Break(done) => break done,
                ControlFlow::Continue(statement) if statement.columns.is_empty() => {
                    insertions += 1;
                    get.reply(reply());
                }
                ControlFlow::Continue(statement) => {
                    let is_meta = statement.columns.len() == meta[0].len();
                    let rows = if is_meta { meta.clone() } else { Vec::new() };
                    get.reply(Reply::Answer(Answer::Rows(rows)));
                }
            }
        };
        assert_eq!(done, Ok(()));
        insertions
    };
    let refused = || Reply::Failed(Failure::Unavailable);
    assert_eq!(insertions(refused), 0);
    // Nobody inserts it, so nothing may need it.
    assert_eq!(written_with(&table), [Some(0); 3]);
    assert_eq!(insertions(refused), 1);
    assert_eq!(insertions(|| Reply::Answer(Answer::Changed { rows: 1, insert_id: None })), 1);
}

/// A rollback would remove the key, and the client would still write with it.
#[test]
fn a_transaction_makes_no_key() {
    fn ended<R>(mut call: PackCall<'_, R>, rows: Vec<Vec<Cell>>) -> Option<TableError> {
        let inside = ConnectionState { is_in_transaction: true, ..OUTSIDE };
        loop {
            match call.next(inside) {
                ControlFlow::Break(done) => break done.err(),
                ControlFlow::Continue(statement) => {
                    assert!(!statement.columns.is_empty(), "it writes: {}", statement.sql);
                    call.reply(Reply::Answer(Answer::Rows(rows.clone())));
                }
            }
        }
    }
    let table = Arc::new(open_table(Settings::default()));
    let stored = table.encrypt_settings(1, &table.opened().expect("open").contents);
    let settings =
        vec![Cell::Integer(0), Cell::Integer(1), Cell::Bytes(stored.expect("settings").body)];
    let index = ended(calls(&table).make_index(), vec![settings]);
    assert_eq!(index, Some(table.in_transaction("the first call of `with_index`")));
    for (hides_keys, is_grouped) in [(true, false), (false, true)] {
        let contents = TableMetadata::new(Settings::default(), "raw", hides_keys, is_grouped);
        let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build();
        let (keyring, name) = (keyring.expect("a keyring").into(), "events".into());
        let (ids, contents) = (IdColumn::Uuid, Some(contents));
        let opened = Calls::open(keyring, "event", name, ids, None, contents, false);
        let opened = ended(opened.expect("a call"), Vec::new());
        assert_eq!(opened, Some(table.in_transaction("the first `open`")));
    }
}

/// Returns the only text that every version of sqlx runs.
fn fixed(sql: &str) -> &'static str {
    sql.to_owned().leak()
}

async fn answer(connection: &mut SqliteConnection, statement: &Statement) -> sqlx::Result<Answer> {
    let mut query = sqlx::query(fixed(&statement.sql));
    for value in &statement.values {
        query = match value {
            Value::Integer(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Bytes(bytes) => query.bind(bytes),
            Value::List(_) | Value::Literals(_) => unreachable!("SQLite has no lists"),
        };
    }
    if statement.columns.is_empty() {
        let rows = query.execute(connection).await?.rows_affected();
        return Ok(Answer::Changed { rows, insert_id: None });
    }
    let rows = query.fetch_all(connection).await?;
    let cell = |row: &sqlx::sqlite::SqliteRow, (i, column): (usize, &Column)| {
        Ok(match column {
            Column::Bytes => Cell::Bytes(row.try_get(i)?),
            _ => Cell::Integer(row.try_get(i)?),
        })
    };
    let row = |row| statement.columns.iter().enumerate().map(|it| cell(row, it)).collect();
    Ok(Answer::Rows(rows.iter().map(row).collect::<sqlx::Result<_>>()?))
}

/// An async adapter cannot yield before an answer is processed.
#[tokio::test]
async fn little_is_compressed_between_two_statements() -> Result<(), Box<dyn std::error::Error>> {
    for (settings, is_last) in [
        (Settings::default(), true),
        (Settings::default(), false),
        (Settings::default().pack_bytes(15_960), true),
        (Settings::default().pack_bytes(15_960), false),
        (Settings::default().pack_bytes(1 << 20), true),
    ] {
        let pack_bytes = settings.pack_bytes as usize;
        let table = Arc::new(open_table(settings.row_level(1).pack_level(1)));
        let groups = GroupKeys::default();
        let view = table.view(Context::outside(), &groups)?;
        let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
        let ids = Some(table.statements.ids());
        let tables = Statements::create_sql(Dialect::Sqlite, "events", ids, false);
        sqlx::raw_sql(fixed(&tables)).execute(&mut connection).await?;
        let sql = table.statements.on(Dialect::Sqlite);
        let ends = if is_last { vec![None] } else { vec![Some(1 << 40), None] };
        for (id, end) in [0, 1 << 40].into_iter().zip(ends) {
            let pack = Pack { id, end, rows: Vec::new() };
            let packs = crate::split::encrypt(&view, 0, pack)?;
            answer(&mut connection, &sql.insert_pack(&packs[0])).await?;
        }
        let settings = table.encrypt_settings(1, &view.state.contents)?;
        answer(&mut connection, &sql.insert_meta(&settings)).await?;
        let rows = (0..2_000).map(|id| Ok((id * 1_000, Row::Value(value(id).into()))));
        let mut put = calls(&table).put_rows(rows);
        while let ControlFlow::Continue(statement) = put.next(OUTSIDE) {
            put.reply(Reply::Answer(answer(&mut connection, &statement).await?));
        }
        let mut merge = calls(&table).merge(true);
        let (mut most, mut statements) = (0, 0);
        let merged = loop {
            let before = COMPRESSED.get();
            let next = merge.next(OUTSIDE);
            most = most.max(COMPRESSED.get() - before);
            match next {
                ControlFlow::Break(merged) => break merged?,
                ControlFlow::Continue(statement) => {
                    statements += 1;
                    let answer = answer(&mut connection, &statement).await?;
                    merge.reply(Reply::Answer(answer));
                }
            }
        };
        assert_eq!((merged.rows, merged.rows_left), (2_000, 0));
        // A pack of such rows has six times its size, and up to a quarter of a megabyte is added.
        let added = pack_bytes.max(256 << 10);
        assert!(most < 2 * (6 * pack_bytes + added), "{most} bytes for {pack_bytes}");
        assert!(statements < 60, "{statements} for {pack_bytes}");
    }
    Ok(())
}
