//! An adapter for libSQL, an example for any driver: mapping tables and sequences on its connections.
//! `cargo xtask test cluster libsql` tests it.

use libsql::{Connection, Error, Value};
use opaque_id_sql::call::{AsyncRunner, Call, ConnectionState, RunError, RunResult, drive_async};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::{self, Answer, Cell, Column, Statement};
use opaque_id_sql::{Dialect, MappingError, SequenceError, sequence, uuid_map};
use uuid::Uuid;

uuid_map! {
    /// The mapping table of a resource.
    pub struct UuidMap;

    /// Two columns of a table of rows: their integers and their public UUIDs.
    pub struct UuidColumn;
    on: ['c] &'c Connection, run: run, error: MappingError<Error>, async: [async] [.await]
}

sequence! {
    /// A sequence of a resource with structured keys.
    pub struct Sequence;
    on: ['c] &'c Connection, run: run, error: SequenceError<Error>, async: [async] [.await]
}

struct On<'c>(&'c Connection);

impl AsyncRunner for On<'_> {
    type Error = Error;

    async fn run(&mut self, statement: &Statement) -> Result<Answer, (Error, Failure)> {
        answer(self.0, statement).await.map_err(|error| {
            let failure = match &error {
                Error::SqliteFailure(code, _) => Dialect::Sqlite.failure(&code.to_string()),
                _ => Failure::Other,
            };
            (error, failure)
        })
    }

    /// A call into SQLite does not wait, so it cannot be dropped halfway.
    fn discard(&mut self) {}
}

async fn run<T, E: Send>(on: &Connection, mut call: Call<'_, T, E>) -> RunResult<T, Error, E> {
    let state =
        ConnectionState { dialect: Dialect::Sqlite, is_in_transaction: !on.is_autocommit() };
    if let Some(done) = call.start(Some(state)) {
        return done.map_err(RunError::Call);
    }
    drive_async(&mut On(on), state, call).await
}

async fn answer(on: &Connection, statement: &Statement) -> libsql::Result<Answer> {
    let values = statement.values.iter().map(|value| match value {
        statement::Value::Integer(number) => Value::Integer(*number),
        statement::Value::Text(text) => Value::Text(text.clone()),
        statement::Value::Bytes(bytes) => Value::Blob(bytes.clone()),
        statement::Value::List(_) | statement::Value::Literals(_) => unreachable!("MySQL's"),
    });
    let values: Vec<_> = values.collect();
    if statement.columns.is_empty() {
        let rows = on.execute(&statement.sql, values).await?;
        return Ok(Answer::Changed { rows, insert_id: None });
    }
    let mut rows = on.query(&statement.sql, values).await?;
    let mut answer = Vec::new();
    while let Some(row) = rows.next().await? {
        let cells = (0..).zip(statement.columns).map(|(i, column)| {
            Ok(match column {
                Column::Integer => Cell::Integer(row.get(i)?),
                Column::Uuid => Cell::Uuid(Uuid::from_bytes(row.get(i)?)),
                Column::Text => Cell::Text(row.get(i)?),
                Column::Bytes => Cell::Bytes(row.get(i)?),
            })
        });
        answer.push(cells.collect::<libsql::Result<_>>()?);
    }
    Ok(Answer::Rows(answer))
}
