//! A table of packs in SQLite, and calls on it that run statement by statement.

use std::ops::ControlFlow;

use opaque_id_core::key::Uuid;
use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::__private::{PackCall, Packs};
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{ByKey, Encoding, Group, Merged, Raw, Settings, TableError};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::{ConnectionState, Reply};
use opaque_id_sql::statement::{Answer, Cell, Column, Statement, Value};
use opaque_id_tests::{Result, random::Random};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

#[derive(OpaqueId)]
#[opaque_id(prefix = "entry", key = i64)]
pub(crate) struct Entry;

pub(crate) type Table<E = Raw> = Packs<Entry, Vec<u8>, E, ByKey>;

pub(crate) fn create_sql<E: Encoding<Vec<u8>>>(name: &str) -> String {
    PackTable::<Entry, Vec<u8>, E>::create_sql(Dialect::Sqlite, name)
}

/// Values in three groups, by their numbers.
pub(crate) enum InThree {}

impl Encoding<Vec<u8>> for InThree {
    const NAME: &'static str = "raw";
    const IS_GROUPED: bool = true;

    fn encode(value: &Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Raw::encode(value)
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
        Raw::decode(bytes)
    }

    fn group(value: &Vec<u8>) -> Option<Group> {
        Some(Group::new((number(value) % 3).into()))
    }
}

/// Returns the problem that has ended a call.
pub(crate) fn refusal<R>(ended: Result<R>) -> Result<TableError> {
    let problem = ended.err().ok_or("expected a refusal")?;
    Ok(*problem.downcast::<TableError>()?)
}

/// Returns incompressible bytes.
pub(crate) fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.below(256).to_le_bytes()[0]).collect()
}

/// Returns a value of 150 bytes. Two or three values fill a pack.
pub(crate) fn value(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &noise(&mut Random(number.into()), 146)].concat()
}

/// Returns a value that has most of its bytes in common with others.
pub(crate) fn similar(key: i64) -> Vec<u8> {
    format!(r#"{{"actor":"user {key}","action":"login"}}"#).into_bytes()
}

/// Returns enough similar rows to train a dictionary.
pub(crate) fn similar_rows() -> Vec<(Internal<Entry>, Vec<u8>)> {
    (0..2_000).map(|key| (id(key), similar(key))).collect()
}

pub(crate) fn number(value: &[u8]) -> u32 {
    u32::from_be_bytes(value[..4].try_into().expect("four bytes"))
}

pub(crate) fn id(key: i64) -> Internal<Entry> {
    Internal::from_key(key).expect("any integer is a key")
}

pub(crate) fn keyring() -> Result<Keyring> {
    Ok(Keyring::builder().sealing(0, MasterSecret::generate()).build()?)
}

/// A connection of SQLite in the caller's transaction. There a call uses no cache and does not compare its reads with earlier
/// ones.
pub(crate) const INSIDE: ConnectionState =
    ConnectionState { dialect: Dialect::Sqlite, is_in_transaction: true };
pub(crate) const OUTSIDE: ConnectionState =
    ConnectionState { dialect: Dialect::Sqlite, is_in_transaction: false };

/// A call that is suspended before a statement, or has ended.
pub(crate) struct SteppedCall<'c, R> {
    call: PackCall<'c, R>,
    connection: ConnectionState,
    pub(crate) state: Suspended<R>,
}

pub(crate) enum Suspended<R> {
    Before(Statement),
    Ended(std::result::Result<R, TableError>),
}

impl<'c, R> SteppedCall<'c, R> {
    pub(crate) fn new(call: PackCall<'c, R>, connection: ConnectionState) -> Self {
        let state = Suspended::Ended(Err(TableError::Outrun));
        let mut running = Self { call, connection, state };
        running.resume();
        running
    }

    fn resume(&mut self) {
        self.state = match self.call.next(self.connection) {
            ControlFlow::Continue(statement) => Suspended::Before(statement),
            ControlFlow::Break(result) => Suspended::Ended(result),
        };
    }

    /// Returns the next statement, unless the call has ended.
    pub(crate) fn statement(&self) -> Option<&Statement> {
        match &self.state {
            Suspended::Before(statement) => Some(statement),
            Suspended::Ended(_) => None,
        }
    }

    /// Passes the answer to the statement.
    pub(crate) fn answer(&mut self, answer: Answer) {
        self.call.reply(Reply::Answer(answer));
        self.resume();
    }

    /// Returns the result of a call that has ended.
    pub(crate) fn result(self) -> Result<R> {
        match self.state {
            Suspended::Ended(result) => Ok(result?),
            Suspended::Before(_) => Err("expected the end of the call".into()),
        }
    }
}

/// The database, and the table for clients that disagree about the size of a pack.
pub(crate) struct World<E = Raw> {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
    pub(crate) keyring: Keyring,
    pub(crate) tables: Vec<Table<E>>,
}

impl World {
    pub(crate) fn new(is_written_through: bool) -> Result<Self> {
        Self::with(keyring()?, is_written_through)
    }

    /// Returns a database with a client's table.
    pub(crate) fn with_table() -> Result<(Self, Table)> {
        let world = Self::new(false)?;
        let table = world.tables[0].clone();
        Ok((world, table))
    }

    /// Returns a database with packs of the same keyring.
    pub(crate) fn another(&self) -> Result<(Self, Table)> {
        let world = Self::with(self.keyring.clone(), false)?;
        let table = world.tables[0].clone();
        Ok((world, table))
    }
}

impl<E: Encoding<Vec<u8>>> World<E> {
    pub(crate) fn with(keyring: Keyring, is_written_through: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(SqliteConnection::connect("sqlite::memory:"))?;
        let mut world = Self { runtime, connection, keyring, tables: Vec::new() };
        world.execute(&create_sql::<E>("entries"))?;
        let settings = |bytes| {
            let settings = Settings::default().pack_bytes(bytes).row_level(1).pack_level(1);
            if is_written_through { settings.write_through() } else { settings }
        };
        world.table(Some(settings(400)))?;
        world.execute(
            "CREATE TABLE first AS SELECT * FROM entries_packs; CREATE TABLE meta AS SELECT * FROM entries_meta",
        )?;
        for bytes in [400, 700] {
            // The version is the same, because a merger that finds another one reads the settings.
            world
                .execute("DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM meta")?;
            let table = world.table(None)?;
            world.finish_outside(table.configure(settings(bytes)))?;
            let meta = format!("meta_{}", world.tables.len());
            world.execute(&format!("CREATE TABLE {meta} AS SELECT * FROM entries_meta"))?;
            world.tables.push(table);
        }
        Ok(world)
    }

    /// Opens the table.
    pub(crate) fn table(&mut self, settings: Option<Settings>) -> Result<Table<E>> {
        self.finish_outside(Table::open((&self.keyring).into(), "entries".into(), settings)?)
    }

    /// Opens the table like newly started processes. Each has different settings, and one has a cache.
    pub(crate) fn reopen(&mut self) -> Result {
        for i in 0..self.tables.len() {
            self.execute(&format!(
                "DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM meta_{i}"
            ))?;
            self.tables[i] = self.table(None)?;
        }
        self.tables[1].set_cache(1 << 16);
        Ok(())
    }

    pub(crate) fn execute(&mut self, sql: &str) -> Result {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.connection);
        self.runtime.block_on(query)?;
        Ok(())
    }

    pub(crate) fn run(&mut self, statement: &Statement) -> Result<Answer> {
        let mut query = sqlx::query(AssertSqlSafe(statement.sql.to_string()));
        for value in &statement.values {
            query = match value {
                Value::Integer(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes),
                Value::List(_) | Value::Literals(_) => unreachable!("SQLite has no lists"),
            };
        }
        if statement.columns.is_empty() {
            let done = self.runtime.block_on(query.execute(&mut self.connection))?;
            return Ok(Answer::Changed { rows: done.rows_affected(), insert_id: None });
        }
        let rows = self.runtime.block_on(query.fetch_all(&mut self.connection))?;
        let rows = rows.iter().map(|row| {
            let columns = statement.columns.iter().enumerate();
            let cells = columns.map(|(i, column)| {
                Ok(match column {
                    Column::Bytes => Cell::Bytes(row.try_get(i)?),
                    Column::Uuid => Cell::Uuid(Uuid::from_slice(row.try_get(i)?)?),
                    _ => Cell::Integer(row.try_get(i)?),
                })
            });
            cells.collect::<Result<Vec<_>>>()
        });
        Ok(Answer::Rows(rows.collect::<Result<_>>()?))
    }

    pub(crate) fn count(&mut self, table: &str) -> Result<i64> {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count = sqlx::query_scalar(sql).fetch_one(&mut self.connection);
        Ok(self.runtime.block_on(count)?)
    }

    /// Runs the next statement of a call. Returns whether there was one.
    pub(crate) fn step<R>(&mut self, running: &mut SteppedCall<'_, R>) -> Result<bool> {
        let Some(statement) = running.statement() else {
            return Ok(false);
        };
        let answer = self.run(statement)?;
        running.answer(answer);
        Ok(true)
    }

    /// Runs the rest of a call.
    pub(crate) fn end<R>(&mut self, running: SteppedCall<'_, R>) -> Result<R> {
        Ok(self.end_with(running, Self::run)?.0)
    }

    /// Runs the rest of a call with these answers, and also returns the number of its statements.
    pub(crate) fn end_with<R>(
        &mut self,
        mut running: SteppedCall<'_, R>,
        mut answer: impl FnMut(&mut Self, &Statement) -> Result<Answer>,
    ) -> Result<(R, usize)> {
        let mut statements = 0;
        while let Some(statement) = running.statement() {
            let answer = answer(self, statement)?;
            running.answer(answer);
            statements += 1;
        }
        Ok((running.result()?, statements))
    }

    pub(crate) fn finish<R>(&mut self, call: PackCall<'_, R>) -> Result<R> {
        self.end(SteppedCall::new(call, INSIDE))
    }

    pub(crate) fn finish_outside<R>(&mut self, call: PackCall<'_, R>) -> Result<R> {
        self.end(SteppedCall::new(call, OUTSIDE))
    }

    pub(crate) fn put(&mut self, table: &Table<E>, key: i64, value: &Vec<u8>) -> Result {
        self.finish(table.put([(id(key), value)]))
    }

    pub(crate) fn put_all(
        &mut self,
        table: &Table<E>,
        rows: &[(Internal<Entry>, Vec<u8>)],
    ) -> Result {
        self.finish(table.put(rows.iter().map(|(id, value)| (*id, value))))
    }

    pub(crate) fn merge(&mut self, table: &Table<E>) -> Result<Merged> {
        self.finish(table.merge(true))
    }

    pub(crate) fn read(&mut self, table: &Table<E>, key: i64) -> Result<Option<u32>> {
        Ok(self.finish(table.get(&[id(key)]))?.remove(0).as_deref().map(number))
    }

    pub(crate) fn read_outside(&mut self, table: &Table<E>, key: i64) -> Result<Option<Vec<u8>>> {
        Ok(self.finish_outside(table.get(&[id(key)]))?.remove(0))
    }

    /// Returns the problems that a verification finds.
    pub(crate) fn problems(&mut self, table: &Table<E>) -> Result<Vec<TableError>> {
        Ok(self.finish_outside(table.verify(None, None, |_| {}))?.problems)
    }
}
