//! Clients and mergers of a table of packs under a random scheduler, which lets one of them run its next statement, or die
//! between two: what they have seen of each row must be linearizable. The statements are those of SQLite, and SQLite runs them.
//!
//! 15,000 schedules; `OPAQUE_ID_TEST_SCHEDULES` sets another number, and `cargo xtask stress schedules` runs a million. Half of the
//! clients have a cache. With each of the mutations of the protocol, which are made in the statements, the test must find a history
//! that is not linearizable.

mod cache;

use std::collections::BTreeMap;
use std::time::Duration;

use opaque_id_core::key::Uuid;
use opaque_id_core::{IdRange, Internal, Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::__private::{Packs, RuntimePacks};
use opaque_id_packs::call::{
    Change, Damage, Erase, Get, Merge, Open, PackCall, Page, Put, Restore,
};
use opaque_id_packs::format::FormatError;
use opaque_id_packs::{ByKey, Encoding, Group, Merged, Problem, Raw, Settings, TableName, Update};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::Call;
use opaque_id_sql::statement::{Answer, Cell, Column, Statement, Value};
use opaque_id_tests::linearizable::{Event, Op, is_linearizable, without_erased};
use opaque_id_tests::{Result, random::Random};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

#[derive(OpaqueId)]
#[opaque_id(prefix = "entry", key = i64)]
struct Entry;

type Table<E = Raw> = Packs<Entry, Vec<u8>, E, ByKey>;

/// Values in three groups, by their numbers.
enum InThree {}

impl Encoding<Vec<u8>> for InThree {
    const NAME: &'static str = "raw";
    const IS_GROUPED: bool = true;

    fn encode(value: &Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Raw::encode(value)
    }

    fn decode(bytes: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Raw::decode(bytes)
    }

    fn group(value: &Vec<u8>) -> Option<Group> {
        Some(Group::new((number(value) % 3).into()))
    }
}

/// A change to the protocol that breaks one of the invariants of docs/PACKS.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// A merger reads the rows, and then the pack (I2).
    RowsBeforePack,
    /// A merger deletes rows whatever their version (I3).
    DeletesAnyVersion,
    /// A merger deletes the rows, and then writes the pack (I3).
    DeletesBeforeWriting,
    /// A reader reads the pack, and then the recent row (I5).
    PackBeforeRow,
    /// A merger replaces a pack whatever its version.
    WritesAnyVersion,
    /// `update` inserts a row whatever the version of its pack.
    InsertsAnyVersion,
    /// The server does not send a pack that the reader has in its cache, whatever its version.
    KnowsAnyVersion,
    /// A row is written whatever has become of the key of its group.
    WritesAnyGroup,
}

const KEYS: i64 = 4;
const CLIENTS: usize = 3;
const OPERATIONS: usize = 3;
const MERGERS: usize = 2;

/// How many schedules a mutation may survive.
const SURVIVES: u64 = 30_000;

/// What a client is doing.
enum Running {
    Put(PackCall<Put>, i64, Op<u32>),
    Get(PackCall<Get>, i64),
    Update(PackCall<Change>, i64, std::sync::mpsc::Receiver<(Option<u32>, u32)>),
    Page(PackCall<Page>),
    Merge(Box<PackCall<Merge>>),
    Erase(PackCall<Erase>, Op<u32>),
}

struct Client {
    running: Option<(Running, u64)>,
    /// How many operations are left, or passes of a merger.
    left: usize,
    is_merger: bool,
    in_transaction: bool,
    /// A statement of a mutation that is run in two parts: what the first one has read.
    first_half: Option<Vec<Vec<Cell>>>,
}

impl Running {
    fn call(&mut self) -> &mut dyn Call<Error = Problem> {
        match self {
            Self::Put(call, ..) => call,
            Self::Get(call, _) => call,
            Self::Update(call, ..) => call,
            Self::Page(call) => call,
            Self::Merge(call) => &mut **call,
            Self::Erase(call, _) => call,
        }
    }
}

/// Bytes that do not compress.
fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.below(256).to_le_bytes()[0]).collect()
}

/// Values of 150 bytes: two or three fill a pack.
fn value(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &noise(&mut Random(number.into()), 146)].concat()
}

fn number(value: &[u8]) -> u32 {
    u32::from_be_bytes(value[..4].try_into().expect("four bytes"))
}

fn id(key: i64) -> Internal<Entry> {
    Internal::from_key(key).expect("any integer is a key")
}

fn keyring() -> Result<Keyring> {
    Ok(Keyring::builder().sealing(0, MasterSecret::generate()).build()?)
}

/// The database, and the table for clients that disagree about the size of a pack.
struct World<E = Raw> {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
    keyring: Keyring,
    tables: Vec<Table<E>>,
}

impl World {
    fn new(is_written_through: bool) -> Result<Self> {
        Self::with(keyring()?, is_written_through)
    }

    /// A database, and a client's table in it.
    fn with_table() -> Result<(Self, Table)> {
        let world = Self::new(false)?;
        let table = world.tables[0].clone();
        Ok((world, table))
    }

    /// A database whose packs the same keyring opens.
    fn another(&self) -> Result<(Self, Table)> {
        let world = Self::with(self.keyring.clone(), false)?;
        let table = world.tables[0].clone();
        Ok((world, table))
    }
}

impl<E: Encoding<Vec<u8>>> World<E> {
    fn with(keyring: Keyring, is_written_through: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(SqliteConnection::connect("sqlite::memory:"))?;
        let mut world = Self { runtime, connection, keyring, tables: Vec::new() };
        world.execute(&Table::<E>::create_sql(Dialect::Sqlite, "entries"))?;
        let settings = |bytes| {
            let settings = Settings::inline().pack_bytes(bytes).row_level(1).pack_level(1);
            if is_written_through { settings.write_through() } else { settings }
        };
        let (_, mut open) = world.table(Some(settings(400)))?;
        world.finish(&mut open)?;
        world.execute(
            "CREATE TABLE first AS SELECT * FROM entries_packs; CREATE TABLE meta AS SELECT * FROM entries_meta",
        )?;
        for bytes in [400, 700] {
            // Of the same version: a merger that finds another reads the settings.
            world
                .execute("DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM meta")?;
            let (table, mut open) = world.table(None)?;
            world.finish(&mut open)?;
            world.finish(&mut table.configure(settings(bytes)))?;
            let meta = format!("meta_{}", world.tables.len());
            world.execute(&format!("CREATE TABLE {meta} AS SELECT * FROM entries_meta"))?;
            world.tables.push(table);
        }
        Ok(world)
    }

    fn table(&self, settings: Option<Settings>) -> Result<(Table<E>, PackCall<Open>)> {
        Ok(Table::open((&self.keyring).into(), "entries".into(), settings)?)
    }

    /// Opens the table as processes do that have just started, one with each of the settings, and one of them with a cache.
    fn reopen(&mut self) -> Result {
        for i in 0..self.tables.len() {
            self.execute(&format!(
                "DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM meta_{i}"
            ))?;
            let (table, mut open) = self.table(None)?;
            self.finish(&mut open)?;
            self.tables[i] = table;
        }
        self.tables[1].set_cache(1 << 16);
        Ok(())
    }

    fn execute(&mut self, sql: &str) -> Result {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.connection);
        self.runtime.block_on(query)?;
        Ok(())
    }

    fn run(&mut self, statement: &Statement) -> Result<Answer> {
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

    fn count(&mut self, table: &str) -> Result<i64> {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count = sqlx::query_scalar(sql).fetch_one(&mut self.connection);
        Ok(self.runtime.block_on(count)?)
    }

    /// Runs the next statement of a call, in a transaction of the caller's or outside. In a transaction a call uses no cache, and
    /// does not compare what it reads with what was seen before.
    fn step(&mut self, call: &mut dyn Call<Error = Problem>, in_transaction: bool) -> Result<bool> {
        let Some(statement) = call.next(Dialect::Sqlite) else {
            return Ok(false);
        };
        let answer = self.run(&statement)?;
        call.answer(Dialect::Sqlite, in_transaction, answer)?;
        Ok(true)
    }

    fn finish(&mut self, call: &mut dyn Call<Error = Problem>) -> Result {
        while self.step(call, true)? {}
        Ok(())
    }

    fn finish_outside(&mut self, call: &mut dyn Call<Error = Problem>) -> Result {
        while self.step(call, false)? {}
        Ok(())
    }

    fn put(&mut self, table: &Table<E>, key: i64, value: &Vec<u8>) -> Result {
        self.finish(&mut table.put([(id(key), value)])?)
    }

    fn put_all(&mut self, table: &Table<E>, rows: &[(Internal<Entry>, Vec<u8>)]) -> Result {
        self.finish(&mut table.put(rows.iter().map(|(id, value)| (*id, value)))?)
    }

    fn merge(&mut self, table: &Table<E>) -> Result<Merged> {
        let mut merge = table.merge(true)?;
        self.finish(&mut merge)?;
        Ok(table.merged(merge)?)
    }

    fn read(&mut self, table: &Table<E>, key: i64) -> Result<Option<u32>> {
        let mut get = table.get(&[id(key)])?;
        self.finish(&mut get)?;
        Ok(table.found(get, &[id(key)])?.remove(0).as_deref().map(number))
    }

    fn read_outside(&mut self, table: &Table<E>, key: i64) -> Result<Option<Vec<u8>>> {
        let mut get = table.get(&[id(key)])?;
        self.finish_outside(&mut get)?;
        Ok(table.found(get, &[id(key)])?.remove(0))
    }

    /// Runs one schedule, and returns the histories of the rows.
    fn schedule(
        &mut self,
        seed: u64,
        mutation: Option<Mutation>,
    ) -> Result<BTreeMap<i64, Vec<Event<u32>>>> {
        self.execute(
            "DELETE FROM entries_recent; DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM first",
        )?;
        if E::IS_GROUPED {
            self.execute("DELETE FROM entries_keys")?;
        }
        // Versions begin again.
        self.reopen()?;
        let mut random = Random(seed);
        let mut histories = BTreeMap::<i64, Vec<Event<u32>>>::new();
        let mut clock = 0;
        let mut written = 0;
        let mut clients: Vec<_> = (0..CLIENTS + MERGERS)
            .map(|i| Client {
                running: None,
                left: if i < CLIENTS { OPERATIONS } else { 1 + random.below(3) },
                is_merger: i >= CLIENTS,
                in_transaction: false,
                first_half: None,
            })
            .collect();
        while !clients.is_empty() {
            let chosen = random.below(clients.len());
            clock += 1;
            let client = &mut clients[chosen];
            let Some((running, _)) = &mut client.running else {
                client.in_transaction = random.below(2) == 0;
                if client.left == 0 {
                    clients.swap_remove(chosen);
                    continue;
                }
                client.left -= 1;
                let table = self.tables[random.below(self.tables.len())].clone();
                client.running = match begin(&table, client.is_merger, &mut random, &mut written) {
                    Err(error) if error.downcast_ref().is_some_and(is_erased) => None,
                    begun => Some((begun?, clock)),
                };
                continue;
            };
            // Death, with what it has done so far.
            if random.below(60) == 0 {
                let (running, began) = client.running.take().expect("it runs");
                for (key, op) in unknown(&running) {
                    let event = Event { op, began, ended: u64::MAX, is_certain: false };
                    histories.entry(key).or_default().push(event);
                }
                clients.swap_remove(chosen);
                continue;
            }
            if let Some(statement) = running.call().next(Dialect::Sqlite) {
                let answer = match self.run_mutated(&statement, mutation, &mut client.first_half)? {
                    Some(answer) => answer,
                    None => continue,
                };
                match running.call().answer(Dialect::Sqlite, client.in_transaction, answer) {
                    Ok(()) => {}
                    // It had no effect.
                    Err(problem) if problem == Problem::Outrun || is_erased(&problem) => {
                        client.running = None;
                        continue;
                    }
                    // A mutation was found by the client itself.
                    Err(problem) if mutation.is_some() => return Err(problem.into()),
                    Err(problem) => panic!("seed {seed}: {problem}"),
                }
            }
            if running.call().next(Dialect::Sqlite).is_none() {
                let (running, began) = client.running.take().expect("it runs");
                for (key, op) in self.end(running)? {
                    let event = Event { op, began, ended: clock, is_certain: true };
                    histories.entry(key).or_default().push(event);
                }
            }
        }
        for history in histories.values_mut() {
            *history = without_erased(history);
        }
        // What is there in the end, for a process that has not seen a key before its group was erased.
        if E::IS_GROUPED {
            self.reopen()?;
        }
        let table = self.tables[0].clone();
        for key in 0..KEYS {
            let op = Op::Read(self.read(&table, key)?);
            clock += 1;
            let event = Event { op, began: clock, ended: clock, is_certain: true };
            histories.entry(key).or_default().push(event);
        }
        Ok(histories)
    }

    /// Runs a statement, or a half of it if it is one of the mutation's.
    fn run_mutated(
        &mut self,
        statement: &Statement,
        mutation: Option<Mutation>,
        first_half: &mut Option<Vec<Vec<Cell>>>,
    ) -> Result<Option<Answer>> {
        let is = |text| statement.sql.contains(text);
        let mutated = |from, to| Statement {
            sql: statement.sql.replace(from, to).into(),
            ..statement.clone()
        };
        // The tier that the second of two reads is used for.
        let later = match mutation {
            Some(Mutation::RowsBeforePack) if is("n.id >") => 1,
            Some(Mutation::PackBeforeRow) if is("CASE WHEN p.id") => 0,
            Some(Mutation::DeletesAnyVersion) if is("DELETE FROM entries_recent") => {
                return self.run(&mutated(" AND r.version = l.version", "")).map(Some);
            }
            Some(Mutation::WritesAnyVersion) if is("UPDATE entries_packs") => {
                return self.run(&mutated("AND version = ?2", "AND ?2 = ?2")).map(Some);
            }
            Some(Mutation::InsertsAnyVersion) if is("AND p.version = ?2 ON CONFLICT") => {
                return self.run(&mutated("AND p.version = ?2", "AND ?2 = ?2")).map(Some);
            }
            Some(Mutation::WritesAnyGroup) if is("k.version = g.version) = ") => {
                return self.run(&mutated("g.version) = ", "g.version) <= ")).map(Some);
            }
            Some(Mutation::KnowsAnyVersion) if is("p.version = ?3 THEN") => {
                return self.run(&mutated("p.version = ?3 THEN", "?3 <> 0 THEN")).map(Some);
            }
            // Those that are there: a merger that reads all of them is about to write their packs.
            Some(Mutation::DeletesBeforeWriting)
                if first_half.is_none()
                    && (is("INTO entries_packs") || is("UPDATE entries_packs")) =>
            {
                self.execute("DELETE FROM entries_recent")?;
                *first_half = Some(Vec::new());
                return Ok(None);
            }
            Some(Mutation::DeletesBeforeWriting) => {
                *first_half = None;
                return self.run(statement).map(Some);
            }
            _ => return self.run(statement).map(Some),
        };
        let Answer::Rows(mut rows) = self.run(statement)? else {
            return Err("it reads".into());
        };
        let Some(first) = first_half.take() else {
            *first_half = Some(rows);
            return Ok(None);
        };
        let is_later = |cells: &Vec<Cell>| cells[0] == Cell::Integer(later);
        rows.retain(is_later);
        rows.extend(first.into_iter().filter(|cells| !is_later(cells)));
        // The pack first.
        rows.sort_by_key(|cells| cells[0] != Cell::Integer(1));
        Ok(Some(Answer::Rows(rows)))
    }

    /// Returns what a call has seen or done.
    fn end(&self, running: Running) -> Result<Vec<(i64, Op<u32>)>> {
        let table = &self.tables[0];
        Ok(match running {
            Running::Put(_, key, op) => vec![(key, op)],
            Running::Get(call, key) => {
                let found = table.found(call, &[id(key)])?.remove(0);
                vec![(key, Op::Read(found.map(|value| number(&value))))]
            }
            Running::Update(_, key, last) => {
                let (before, after) = last.try_iter().last().ok_or("it was computed")?;
                vec![(key, Op::Change(before, Some(after)))]
            }
            Running::Page(call) => {
                let mut pages = table.scan();
                let rows = table.page(call, &mut pages)?;
                let rows: BTreeMap<_, _> =
                    rows.into_iter().map(|(id, value)| (id, number(&value))).collect();
                (0..KEYS).map(|key| (key, Op::Read(rows.get(&id(key)).copied()))).collect()
            }
            Running::Merge(call) => {
                table.merged(*call)?;
                Vec::new()
            }
            Running::Erase(_, op) => (0..KEYS).map(|key| (key, op.clone())).collect(),
        })
    }
}

/// Returns whether a call was refused, without effect, because the group of a row is erased.
fn is_erased(problem: &Problem) -> bool {
    matches!(problem, Problem::Unwritable { source: FormatError::ErasedGroup, .. })
}

fn begin<E: Encoding<Vec<u8>>>(
    table: &Table<E>,
    is_merger: bool,
    random: &mut Random,
    written: &mut u32,
) -> Result<Running> {
    if is_merger {
        return Ok(Running::Merge(table.merge(true)?.into()));
    }
    let key = i64::try_from(random.below(4))?;
    *written += 1;
    let new = *written;
    Ok(match random.below(8 + usize::from(E::IS_GROUPED)) {
        8 => {
            let group = u32::try_from(random.below(3))?;
            let values = (0..100).filter(|value| value % 3 == group).collect();
            Running::Erase(table.erase(Group::new(group.into()))?, Op::Erase(values))
        }
        0..=2 => Running::Put(table.put([(id(key), &value(new))])?, key, Op::Write(Some(new))),
        3 => Running::Put(table.delete(&[id(key)])?, key, Op::Write(None)),
        4 => Running::Get(table.get(&[id(key)])?, key),
        5 | 6 => {
            let (sender, receiver) = std::sync::mpsc::channel();
            let change = move |before: Option<Vec<u8>>| {
                let _ = sender.send((before.as_deref().map(number), new));
                Update::Put(value(new))
            };
            Running::Update(table.update(id(key), change)?, key, receiver)
        }
        _ => {
            let pages = table.range(IdRange::all(), random.below(2) == 0);
            Running::Page(table.next_page(&pages)?.ok_or("the range is not empty")?)
        }
    })
}

/// Returns what a call may have done that nobody was told of.
fn unknown(running: &Running) -> Vec<(i64, Op<u32>)> {
    match running {
        Running::Put(_, key, op) => vec![(*key, op.clone())],
        // Each attempt that was computed may be the one.
        Running::Update(_, key, attempts) => attempts
            .try_iter()
            .last()
            .map(|(before, after)| (*key, Op::Change(before, Some(after))))
            .into_iter()
            .collect(),
        Running::Erase(_, op) => (0..KEYS).map(|key| (key, op.clone())).collect(),
        Running::Get(..) | Running::Page(_) | Running::Merge(_) => Vec::new(),
    }
}

/// Returns the seed of the first of this many schedules whose histories are not linearizable.
fn first_violation<E: Encoding<Vec<u8>>>(
    schedules: u64,
    is_written_through: bool,
    mutation: Option<Mutation>,
) -> Result<Option<u64>> {
    let mut world = World::<E>::with(keyring()?, is_written_through)?;
    for seed in 0..schedules {
        let histories = match world.schedule(seed, mutation) {
            Err(error) if mutation.is_some() && error.is::<Problem>() => return Ok(Some(seed)),
            histories => histories?,
        };
        if let Some((key, history)) =
            histories.iter().find(|(_, history)| !is_linearizable(history))
        {
            if mutation.is_none() {
                eprintln!("seed {seed}, key {key}: {history:#?}");
            }
            return Ok(Some(seed));
        }
    }
    Ok(None)
}

/// Runs a third of the schedules: in a table with a merger, in one that is written through, or in one with groups, which are erased.
fn a_third_is_linearizable<E: Encoding<Vec<u8>>>(is_written_through: bool) -> Result {
    let schedules = std::env::var("OPAQUE_ID_TEST_SCHEDULES");
    let schedules = schedules.map_or(Ok(15_000), |schedules| schedules.parse())?;
    assert_eq!(first_violation::<E>(schedules / 3, is_written_through, None)?, None);
    Ok(())
}

#[test]
fn every_schedule_is_linearizable() -> Result {
    a_third_is_linearizable::<Raw>(false)
}

#[test]
fn every_schedule_that_writes_through_is_linearizable() -> Result {
    a_third_is_linearizable::<Raw>(true)
}

#[test]
fn every_schedule_that_erases_groups_is_linearizable() -> Result {
    a_third_is_linearizable::<InThree>(false)
}

#[test]
fn every_mutation_is_found() -> Result {
    for mutation in [
        Mutation::RowsBeforePack,
        Mutation::DeletesAnyVersion,
        Mutation::DeletesBeforeWriting,
        Mutation::PackBeforeRow,
        Mutation::WritesAnyVersion,
        Mutation::InsertsAnyVersion,
        Mutation::KnowsAnyVersion,
        Mutation::WritesAnyGroup,
    ] {
        let first = match mutation {
            Mutation::WritesAnyGroup => first_violation::<InThree>,
            _ => first_violation::<Raw>,
        };
        let found = first(SURVIVES, false, Some(mutation))?;
        println!("{mutation:?}: found by schedule {found:?}");
        assert!(found.is_some(), "{mutation:?} was not found");
    }
    Ok(())
}

#[test]
fn settings_that_change_while_they_are_read_are_not_refused() -> Result {
    let (mut world, table) = World::with_table()?;
    let settings = || Settings::inline().row_level(1).pack_level(1);
    let mut slow = table.configure(settings().pack_bytes(500));
    let read = slow.next(Dialect::Sqlite).ok_or("it reads")?;
    let answer = world.run(&read)?;
    world.finish_outside(&mut table.configure(settings().pack_bytes(600)))?;
    slow.answer(Dialect::Sqlite, false, answer)?;
    world.finish_outside(&mut slow)?;
    assert_eq!(table.settings(), settings().pack_bytes(500));

    // A transaction sees what was there when it began; a server that shows it later is refused.
    let old = "UPDATE entries_meta SET version = kept.version, body = kept.body FROM kept WHERE entries_meta.id = kept.id";
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta WHERE id = 0")?;
    world.finish_outside(&mut table.configure(settings()))?;
    world.execute(old)?;
    let late = world.step(&mut table.configure(settings()), false);
    let refused = late.err().ok_or("took old settings")?;
    assert!(refused.to_string().contains("the settings (id 0) of entries_meta"));
    assert!(world.step(&mut table.configure(settings()), true)?);
    Ok(())
}

/// Another task of the same process sees what others have written, between the statement that has read packs and their use.
#[test]
fn packs_are_as_old_as_the_statement_that_has_read_them() -> Result {
    let similar = |key| format!(r#"{{"actor":"user {key}","action":"login"}}"#).into_bytes();
    let rows = Vec::from_iter((0..2_000).map(|key| (id(key), similar(key))));
    let (mut world, writer) = World::with_table()?;
    let (reader, mut open) = world.table(None)?;
    world.finish_outside(&mut open)?;
    world.put_all(&writer, &rows)?;
    world.merge(&writer)?;
    world.finish_outside(&mut writer.train(1_024)?)?;
    let write = |world: &mut World| -> Result {
        world.put_all(&writer, &rows)?;
        world.merge(&writer).map(drop)
    };
    write(&mut world)?;

    // It waits for the dictionary.
    let mut slow = reader.get(&[id(7)])?;
    assert!(world.step(&mut slow, false)? && slow.next(Dialect::Sqlite).is_some());
    write(&mut world)?;
    world.finish_outside(&mut reader.get(&[id(7)])?)?;
    world.finish_outside(&mut slow)?;
    assert_eq!(reader.found(slow, &[id(7)])?.remove(0), Some(similar(7)));

    // It encrypts one pack after the other.
    world.finish_outside(&mut writer.train(1_024)?)?;
    let mut rekey = writer.rekey(|_| {});
    for _ in 0..3 {
        assert!(world.step(&mut rekey, false)?);
    }
    write(&mut world)?;
    world.finish_outside(&mut writer.get(&Vec::from_iter((0..2_000).map(id)))?)?;
    world.finish_outside(&mut rekey)?;
    assert!(writer.rekeyed(rekey)?.lost > 0);
    Ok(())
}

/// The one that has added its dictionary first comes second to the settings.
#[test]
fn of_two_that_train_at_once_the_later_dictionary_stays() -> Result {
    let similar = |key| format!(r#"{{"actor":"user {key}","action":"login"}}"#).into_bytes();
    let rows = Vec::from_iter((0..2_000).map(|key| (id(key), similar(key))));
    let (mut world, table) = World::with_table()?;
    world.put_all(&table, &rows)?;
    let mut slow = table.train(1_024)?;
    while world.count("entries_meta WHERE id = 1")? == 0 {
        assert!(world.step(&mut slow, false)?);
    }
    world.finish_outside(&mut table.train(1_024)?)?;
    world.put_all(&table, &rows[..3])?;
    world.finish_outside(&mut slow)?;
    let mut verify = table.verify(|_| {});
    world.finish_outside(&mut verify)?;
    assert_eq!(table.verified(verify).problems, []);
    Ok(())
}

/// Rows that a sweep has written before it learns of a dictionary need the one before.
#[test]
fn a_sweep_keeps_dictionaries_if_somebody_trains_meanwhile() -> Result {
    let similar = |key| format!(r#"{{"actor":"user {key}","action":"login"}}"#).into_bytes();
    let rows = Vec::from_iter((0..2_000).map(|key| (id(key), similar(key))));
    let (mut world, table) = World::with_table()?;
    world.put_all(&table, &rows)?;
    world.merge(&table)?;
    world.finish_outside(&mut table.train(1_024)?)?;
    world.finish_outside(&mut table.train(1_024)?)?;
    let (other, mut open) = world.table(None)?;
    world.finish_outside(&mut open)?;
    let mut sweep = table.sweep(Duration::ZERO, |_| {});
    for _ in 0..4 {
        assert!(world.step(&mut sweep, false)?);
    }
    world.finish_outside(&mut other.train(1_024)?)?;
    world.put_all(&other, &rows[1_000..])?;
    world.finish_outside(&mut sweep)?;
    let swept = table.rekeyed(sweep)?;
    assert_eq!((swept.dictionaries, swept.dictionaries_left), (0, 1));
    let mut verify = table.verify(|_| {});
    world.finish_outside(&mut verify)?;
    assert_eq!(table.verified(verify).problems, []);
    // The next one deletes them.
    let mut sweep = table.sweep(Duration::ZERO, |_| {});
    world.finish_outside(&mut sweep)?;
    assert_eq!(table.rekeyed(sweep)?.dictionaries, 2);
    let mut verify = other.verify(|_| {});
    world.finish_outside(&mut verify)?;
    assert_eq!(other.verified(verify).problems, []);
    Ok(())
}

/// On MySQL at READ COMMITTED, a locking read that waits for a pack reads it after it was split, but not the new packs.
#[test]
fn an_update_that_has_waited_for_a_split_reads_again() -> Result {
    let (mut world, table) = World::with_table()?;
    for key in 0..10 {
        world.put(&table, key.into(), &value(key))?;
    }
    let mut update = table.update(id(9), |before| {
        assert_eq!(before.as_deref().map(number), Some(9));
        Update::Put(value(10))
    })?;
    world.merge(&table)?;
    let first = table.get(&[id(0)])?.next(Dialect::Sqlite).ok_or("it reads")?;
    let first = world.run(&first)?;
    update.answer(Dialect::Sqlite, true, first)?;
    world.finish(&mut update)?;
    assert_eq!(world.read(&table, 9)?, Some(10));
    Ok(())
}

/// Another merger splits the packs that this one is about to merge, or writes them first.
#[test]
fn a_merger_moves_all_rows_or_says_how_many_are_left() -> Result {
    for steps in 1..12 {
        let mut world = World::new(false)?;
        let [slow_table, fast_table] = [0, 1].map(|i| world.tables[i].clone());
        let rows: Vec<_> = (0..200).map(|key| (id(key), value(7))).collect();
        world.put_all(&slow_table, &rows)?;
        let mut slow = slow_table.merge(true)?;
        for _ in 0..steps {
            world.step(&mut slow, false)?;
        }
        // It is dropped half-way, and has split packs.
        let mut fast = fast_table.merge(true)?;
        for _ in 0..5 {
            world.step(&mut fast, false)?;
        }
        drop(fast);
        world.finish_outside(&mut slow)?;
        let merged = slow_table.merged(slow)?;
        assert_eq!(merged.rows_left, 0, "after {steps} statements");
        assert_eq!(world.count("entries_recent")?, 0, "after {steps} statements");
    }
    Ok(())
}

/// A crash takes back a dictionary, whose number another client uses again; or the server has kept both.
#[test]
fn another_dictionary_of_the_same_number_changes_no_value() -> Result {
    let line = |key: i64, word: &str| {
        format!(r#"{{"actor":"user {key:06}","role":"{word}","agent":"Mozilla/5.0 (X11; Linux x86_64; rv:109.0)"}}"#)
            .into_bytes()
    };
    let rows = |word| (0..2_000).map(|key| (id(key), line(key, word))).collect::<Vec<_>>();
    let open = |world: &mut World| -> Result<Table> {
        let (table, mut open) = world.table(None)?;
        world.finish_outside(&mut open)?;
        Ok(table)
    };
    let (mut world, first) = World::with_table()?;
    let second = open(&mut world)?;
    world.put_all(&first, &rows("admin"))?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish_outside(&mut first.train(1_024)?)?;
    world.execute("DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM kept")?;
    world.put_all(&second, &rows("guest"))?;
    world.finish_outside(&mut second.train(1_024)?)?;
    // By the dictionary that is lost.
    world.put_all(&first, &[(id(7), line(7, "admin"))])?;
    assert!(world.read_outside(&second, 7).is_err());
    let fresh = open(&mut world)?;
    assert!(world.read_outside(&fresh, 7).is_err());
    // A client that reads the table again forgets it, and writes by the table's own.
    world.finish_outside(&mut fresh.configure(Settings::inline()))?;
    world.finish_outside(&mut first.configure(Settings::inline()))?;
    world.put_all(&first, &[(id(7), line(7, "admin"))])?;
    assert_eq!(world.read_outside(&fresh, 7)?, Some(line(7, "admin")));
    Ok(())
}

/// A dictionary that nothing names and that cannot be read, and settings that a transaction does not see as they are.
#[test]
fn settings_are_changed_or_the_call_ends() -> Result {
    let (mut world, table) = World::with_table()?;
    let similar = |key| format!(r#"{{"actor":"user {key}","action":"login"}}"#).into_bytes();
    world.put_all(&table, &(0..2_000).map(|key| (id(key), similar(key))).collect::<Vec<_>>())?;
    world.execute("INSERT INTO entries_meta VALUES (3, 1, x'00')")?;
    world.finish_outside(&mut table.train(1_024)?)?;
    assert_eq!(world.count("entries_meta WHERE id = 4")?, 1);
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta WHERE id = 0")?;
    world.finish_outside(&mut table.configure(Settings::large()))?;
    let old = "UPDATE entries_meta SET version = kept.version, body = kept.body FROM kept WHERE entries_meta.id = kept.id";
    world.execute(old)?;
    let mut configure = table.configure(Settings::inline());
    let ended = loop {
        match world.step(&mut configure, true) {
            Ok(goes_on) => assert!(goes_on, "the settings are older than this client knows"),
            Err(ended) => break ended,
        }
    };
    assert!(matches!(ended.downcast_ref(), Some(Problem::Outrun)), "{ended}");
    Ok(())
}

#[test]
fn a_deletion_waits_no_longer_than_the_settings_say() -> Result {
    let (mut world, table) = World::with_table()?;
    let settings = Settings::inline().pack_bytes(4_000);
    world.finish(&mut table.configure(settings.clone()))?;
    for key in 0..9 {
        world.put(&table, key, &value(1))?;
    }
    world.merge(&table)?;
    let merge = |world: &mut World| -> Result<(u64, u64)> {
        let mut merge = table.merge(false)?;
        world.finish(&mut merge)?;
        let merged = table.merged(merge)?;
        Ok((merged.rows, merged.rows_left))
    };
    world.finish(&mut table.delete(&[id(3)])?)?;
    for _ in 0..2 {
        assert_eq!(merge(&mut world)?, (0, 1), "it waits for an hour");
    }
    let at_once = settings.erase_after(Duration::ZERO);
    world.finish(&mut table.configure(at_once))?;
    assert_eq!(merge(&mut world)?, (1, 0));
    // A row that is no deletion waits for more, and goes with one.
    world.put(&table, 4, &value(2))?;
    for _ in 0..2 {
        assert_eq!(merge(&mut world)?, (0, 1));
    }
    world.finish(&mut table.delete(&[id(5)])?)?;
    assert_eq!(merge(&mut world)?, (2, 0));
    assert_eq!((world.read(&table, 3)?, world.read(&table, 4)?), (None, Some(2)));

    // Behind more rows than one statement reads, which together are less than a quarter of the largest pack.
    let largest = Settings::inline().pack_bytes(1 << 20).erase_after(Duration::ZERO);
    world.finish(&mut table.configure(largest))?;
    let rows: Vec<_> = (0..1_900).map(|key| (id(key), vec![0; 4])).collect();
    world.put_all(&table, &rows)?;
    world.merge(&table)?;
    world.put_all(&table, &rows[..900])?;
    assert_eq!(merge(&mut world)?, (0, 900));
    world.put_all(&table, &rows[..1_500])?;
    world.finish(&mut table.delete(&[id(1_899)])?)?;
    assert_eq!(merge(&mut world)?, (1_501, 0));
    assert_eq!(world.read(&table, 1_899)?, None);
    Ok(())
}

/// Until its body is restored, a pack is no empty one, also to a client that has the empty first pack in its cache.
#[test]
fn a_pack_that_is_being_restored_is_refused() -> Result {
    let mut world = World::new(false)?;
    let (mut backup, table) = world.another()?;
    let mut random = Random(7);
    for key in 0..50 {
        backup.put(&table, key, &noise(&mut random, 20_000))?;
    }
    backup.merge(&table)?;
    let reader = world.tables[0].clone();
    reader.set_cache(1 << 20);
    assert_eq!(world.read_outside(&reader, 1)?, None);
    world.execute("DELETE FROM entries_packs")?;
    let mut restore = restores(&mut world, &mut backup)?.remove(0);
    let mut refused = 0;
    while world.step(&mut restore, false)? {
        match world.read_outside(&reader, 1) {
            Ok(found) => assert!(found.is_some(), "it is in the backup"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 2 && world.read_outside(&reader, 1)?.is_some());
    Ok(())
}

/// Larger ones than a page, and rows of both tiers.
#[test]
fn a_range_is_deleted() -> Result {
    for is_written_through in [false, true] {
        let mut world = World::new(is_written_through)?;
        let table = world.tables[0].clone();
        let rows: Vec<_> = (0..3_000).map(|key| (id(key), value(7))).collect();
        world.put_all(&table, &rows)?;
        world.merge(&table)?;
        world.put(&table, 2_000, &value(8))?;
        world.put(&table, 3_000, &value(9))?;
        let mut delete = table.delete_range(IdRange::all().within(1_000..=2_999))?;
        world.finish_outside(&mut delete)?;
        assert_eq!(table.deleted(delete), 2_000);
        for (key, found) in
            [(999, Some(7)), (1_000, None), (2_000, None), (2_999, None), (3_000, Some(9))]
        {
            assert_eq!(world.read(&table, key)?, found, "{key}");
        }
        world.merge(&table)?;
        assert_eq!((world.count("entries_recent")?, world.read(&table, 2_000)?), (0, None));
        let mut none = table.delete_range(IdRange::all().within(1_000..=2_999))?;
        world.finish_outside(&mut none)?;
        assert_eq!(table.deleted(none), 0);
    }
    Ok(())
}

#[test]
fn rows_beside_one_that_cannot_be_read_are_merged() -> Result {
    let (mut world, table) = World::with_table()?;
    for key in 0..20 {
        world.put(&table, key, &value(7))?;
    }
    world.execute("UPDATE entries_recent SET version = version - 1 WHERE id = 7")?;
    for _ in 0..2 {
        let refused = world.merge(&table).err().ok_or("merged what it cannot read")?;
        assert!(matches!(refused.downcast_ref(), Some(Problem::Unreadable { .. })), "{refused}");
        assert_eq!(world.count("entries_recent")?, 1);
    }
    world.finish(&mut table.delete(&[id(7)])?)?;
    assert_eq!(world.merge(&table)?.rows, 1);
    Ok(())
}

/// On MySQL, a transaction sees a pack that it has written through as it is now, and the others as they were when it began.
#[test]
fn packs_that_were_split_since_a_transaction_began_are_no_gaps() -> Result {
    let mut world = World::new(true)?;
    let table = world.tables[0].clone();
    for key in 0..10 {
        world.put(&table, key.into(), &value(7 + key))?;
    }
    let first = table.get(&[id(0)])?.next(Dialect::Sqlite).ok_or("it reads")?;
    let Answer::Rows(mut rows) = world.run(&first)? else {
        return Err("it reads".into());
    };
    // As if it were the only one.
    rows[0][4] = rows[0][1].clone();
    let mixture = Answer::Rows(rows);
    let mut get = table.get(&[id(9)])?;
    let mut page = table.next_page(&table.scan())?.ok_or("there are rows")?;
    for call in [&mut get as &mut dyn Call<Error = Problem>, &mut page] {
        let refused = call.answer(Dialect::MySql, true, mixture.clone()).err();
        assert!(matches!(refused, Some(Problem::Outrun)), "{refused:?}");
    }
    // A client that changes the row reads the current one.
    let mut update = table.update(id(9), |_| Update::Put(value(1)))?;
    update.answer(Dialect::MySql, true, mixture.clone())?;
    let latest = update.next(Dialect::MySql).ok_or("it reads again")?;
    assert!(latest.sql.contains("FOR UPDATE"));
    let refused = update.answer(Dialect::MySql, true, mixture.clone()).err();
    assert!(matches!(refused, Some(Problem::Outrun)), "{refused:?}");
    for (dialect, in_transaction) in [(Dialect::MySql, false), (Dialect::Postgres, true)] {
        let mut get = table.get(&[id(9)])?;
        let refused = get.answer(dialect, in_transaction, mixture.clone()).err();
        assert!(matches!(refused, Some(Problem::Gap { .. })), "{refused:?}");
    }
    Ok(())
}

/// Rows that a transaction has locked stay, also if they are more than a merger reads at once. Those behind them do not.
#[test]
fn rows_behind_locked_ones_are_merged() -> Result {
    const LOCKED: i64 = 20;
    let (mut world, table) = World::with_table()?;
    world.finish(&mut table.configure(Settings::large().pack_bytes(1 << 20)))?;
    let mut random = Random(7);
    for key in 0..2 * LOCKED {
        world.put(&table, key, &noise(&mut random, 20_000))?;
    }
    let same = "r.version = l.version";
    let unlocked = format!("{same} AND r.id >= {LOCKED}");
    for _ in 0..2 {
        let mut merge = table.merge(true)?;
        while let Some(mut statement) = merge.next(Dialect::Sqlite) {
            statement.sql = statement.sql.replace(same, &unlocked).into();
            let answer = world.run(&statement)?;
            merge.answer(Dialect::Sqlite, false, answer)?;
        }
        let merged = table.merged(merge)?;
        assert_eq!(world.count("entries_recent")?, LOCKED);
        assert_eq!(merged.rows_left, 20);
    }
    Ok(())
}

/// Of a pack that is locked, or of keys that no pack has: the metric shows that they become more.
#[test]
fn all_rows_that_stay_are_counted() -> Result {
    const ROWS: u32 = 2_500;
    let (mut world, table) = World::with_table()?;
    let rows = |first| Vec::from_iter((0..ROWS).map(|i| (id(first + i64::from(i)), value(i))));
    world.put_all(&table, &rows(0))?;
    let locked = |world: &mut World, table: &Table| -> Result<(Merged, usize)> {
        let (mut merge, mut statements) = (table.merge(true)?, 0);
        while let Some(statement) = merge.next(Dialect::Sqlite) {
            let answer = match statement.columns.is_empty() {
                true => Answer::Changed { rows: 0, insert_id: None },
                false => world.run(&statement)?,
            };
            merge.answer(Dialect::Sqlite, false, answer)?;
            statements += 1;
        }
        Ok((table.merged(merge)?, statements))
    };
    let (merged, statements) = locked(&mut world, &table)?;
    assert_eq!((merged.rows, merged.rows_left), (0, ROWS.into()));
    assert_eq!((merged.packs_left, merged.packs_stuck), (1, 1));
    // A survey, a read and a write, twice: somebody may have written the pack meanwhile.
    assert_eq!(statements, 6);

    world.merge(&table)?;
    world.execute("DELETE FROM entries_packs WHERE id > 2000")?;
    world.put_all(&table, &rows(1_990))?;
    let missing = world.merge(&table).err().ok_or("merged what no pack has")?;
    assert!(matches!(missing.downcast_ref(), Some(Problem::Gap { .. })), "{missing}");
    let left = world.count("entries_recent")?;
    assert!((i64::from(ROWS) - 20..i64::from(ROWS)).contains(&left), "{left}");
    Ok(())
}

/// How long is what the metrics show, and `merge_every` reports.
#[test]
fn what_waits_is_counted_and_has_an_age() -> Result {
    let (mut world, table) = World::with_table()?;
    world.finish(&mut table.configure(Settings::inline().pack_bytes(4_000)))?;
    let rows = Vec::from_iter((0..100).map(|key| (id(key.into()), value(key))));
    world.put_all(&table, &rows)?;
    world.merge(&table)?;
    let merge = |world: &mut World, is_locked: bool| -> Result<Merged> {
        let mut merge = table.merge(false)?;
        while let Some(statement) = merge.next(Dialect::Sqlite) {
            let answer = match is_locked && statement.sql.contains("UPDATE entries_packs") {
                true => Answer::Changed { rows: 0, insert_id: None },
                false => world.run(&statement)?,
            };
            merge.answer(Dialect::Sqlite, false, answer)?;
        }
        Ok(table.merged(merge)?)
    };
    let packs = |merged: &Merged| (merged.packs_left, merged.packs_stuck);
    // Of two packs.
    world.put_all(&table, &[rows[0].clone(), rows[99].clone()])?;
    let first = merge(&mut world, false)?;
    assert_eq!((packs(&first), first.left_for), ((2, 0), Duration::ZERO));
    let second = merge(&mut world, false)?;
    assert_eq!((packs(&second), second.stuck_for), ((2, 0), Duration::ZERO));
    assert!(second.left_for > Duration::ZERO);
    // One of them gets enough, and is locked.
    world.put_all(&table, &rows[..10])?;
    let third = merge(&mut world, true)?;
    assert_eq!((packs(&third), third.stuck_for), ((2, 1), Duration::ZERO));
    let fourth = merge(&mut world, true)?;
    assert_eq!(packs(&fourth), (2, 1));
    assert!(fourth.left_for > second.left_for && fourth.stuck_for > Duration::ZERO);
    assert!(fourth.left_for > fourth.stuck_for);
    let fifth = merge(&mut world, false)?;
    assert_eq!((packs(&fifth), fifth.stuck_for), ((1, 0), Duration::ZERO));
    world.merge(&table)?;
    world.put(&table, 0, &value(7))?;
    assert_eq!(merge(&mut world, false)?.left_for, Duration::ZERO);
    Ok(())
}

/// A merger that finds other settings or dictionaries than it knows reads them before it writes.
#[test]
fn a_merger_follows_the_settings_of_the_table() -> Result {
    let (mut world, table) = World::with_table()?;
    let open = |world: &mut World| -> Result<Table> {
        let (table, mut open) = world.table(None)?;
        world.finish(&mut open)?;
        Ok(table)
    };
    let other = open(&mut world)?;
    let merge = |world: &mut World, table: &Table| -> Result<usize> {
        let (mut merge, mut statements) = (table.merge(true)?, 0);
        while world.step(&mut merge, false)? {
            statements += 1;
        }
        table.merged(merge)?;
        Ok(statements)
    };
    world.finish(&mut other.configure(Settings::large()))?;
    assert_ne!(table.settings(), Settings::large());
    assert_eq!(merge(&mut world, &table)?, 3, "a survey, the settings, a survey");
    assert_eq!(table.settings(), Settings::large());
    assert_eq!(merge(&mut world, &table)?, 1);

    let line = |key| format!(r#"{{"actor":"user {key}","action":"login"}}"#).into_bytes();
    let rows: Vec<_> = (0..2_000).map(|key| (id(key), line(key))).collect();
    world.put_all(&table, &rows)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish_outside(&mut table.train(1_024)?)?;
    // It is lost by a failover, and rows are written with it, until the next merge.
    let lose = "DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM kept";
    world.execute(lose)?;
    world.put_all(&table, &rows[..3])?;
    let fresh = open(&mut world)?;
    assert!(world.read_outside(&fresh, 2).is_err());
    merge(&mut world, &table)?;
    for client in [&fresh, &open(&mut world)?] {
        assert_eq!(world.read_outside(client, 2)?, Some(line(2)));
    }

    // Another client has trained one meanwhile, which has the lost one's number.
    let (mut world, table) = World::with_table()?;
    let other = open(&mut world)?;
    world.put_all(&table, &rows)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish_outside(&mut table.train(1_024)?)?;
    world.execute(lose)?;
    world.finish_outside(&mut other.train(1_024)?)?;
    merge(&mut world, &table)?;
    world.put_all(&table, &rows[..3])?;
    for client in [&other, &open(&mut world)?] {
        assert_eq!(world.read_outside(client, 2)?, Some(line(2)));
    }
    assert_eq!(world.merge(&other)?.rows, 3);
    Ok(())
}

#[test]
fn packs_that_are_split_while_they_are_verified_are_no_gaps() -> Result {
    let (mut world, table) = World::with_table()?;
    let put = |world: &mut World, keys: std::ops::Range<i64>, step_by| -> Result {
        for key in keys.step_by(step_by) {
            world.put(&table, key, &value(u32::try_from(key)?))?;
        }
        world.merge(&table).map(drop)
    };
    put(&mut world, 0..10_000, 25)?;
    let mut verify = table.verify(|_| {});
    // Whatever page it has read last, the pack at its end is split, and one that is read already.
    for key in (0..10_000).step_by(97) {
        if !world.step(&mut verify, false)? {
            break;
        }
        put(&mut world, key..key + 20, 3)?;
        put(&mut world, 0..10_000, 25 + usize::try_from(key)? % 7)?;
    }
    world.finish_outside(&mut verify)?;
    let verified = table.verified(verify);
    assert_eq!(verified.problems, []);
    assert!(verified.packs > 128);
    Ok(())
}

/// What SECURITY.md says of recent rows: they have no order that a reader could check.
#[test]
fn a_recent_row_that_is_put_back_is_believed() -> Result {
    let (mut world, table) = World::with_table()?;
    let read = |world: &mut World| -> Result<Option<u32>> {
        Ok(world.read_outside(&table, 1)?.as_deref().map(number))
    };
    for (old, is_deleted) in [(Some(1), false), (None, true)] {
        match is_deleted {
            false => world.put(&table, 1, &value(1))?,
            true => world.finish(&mut table.delete(&[id(1)])?)?,
        }
        world.execute("CREATE TABLE kept AS SELECT * FROM entries_recent")?;
        world.put(&table, 1, &value(2))?;
        world.merge(&table)?;
        assert_eq!(read(&mut world)?, Some(2));
        world.execute("INSERT INTO entries_recent SELECT * FROM kept; DROP TABLE kept")?;
        assert_eq!(read(&mut world)?, old);
        world.merge(&table)?;
        assert_eq!(read(&mut world)?, old);
    }
    Ok(())
}

/// Two databases with one secret, one name and one resource, of which one's pack is moved to the other.
#[test]
fn packs_of_another_context_cannot_be_read() -> Result {
    for (theirs, ours) in [("", ""), ("tenant 2", "tenant 1"), ("", "tenant 1"), ("tenant 1", "")] {
        let mut world = World::new(false)?;
        let fill = |world: &mut World, context: &str, number| -> Result<Table> {
            world.execute("DELETE FROM entries_meta; DELETE FROM entries_packs")?;
            let name = TableName::new("entries").context(context);
            let settings = Some(Settings::inline());
            let (table, mut open) = Table::open((&world.keyring).into(), name, settings)?;
            world.finish(&mut open)?;
            world.put(&table, 1, &value(number))?;
            world.merge(&table)?;
            Ok(table)
        };
        fill(&mut world, theirs, 2)?;
        world.execute("CREATE TABLE theirs AS SELECT * FROM entries_packs")?;
        let table = fill(&mut world, ours, 1)?;
        world.execute(
            "UPDATE entries_packs SET (version, body) = (SELECT version, body FROM theirs)",
        )?;
        match world.read(&table, 1) {
            Ok(found) => assert_eq!((theirs, found), (ours, Some(2))),
            Err(refused) => {
                assert_ne!(theirs, ours);
                let message = refused.to_string();
                assert!(message.contains("a pack of entries_packs cannot be read"), "{message}");
            }
        }
        // Nor are the settings of another context.
        let name = TableName::new("entries").context("tenant 3");
        let (_, mut open) = Table::<Raw>::open((&world.keyring).into(), name, None)?;
        let refused = world.finish(&mut open).err().ok_or("opened it")?;
        assert!(refused.to_string().contains("the settings (id 0)"), "{refused}");
    }
    Ok(())
}

/// They were deleted and written again, or put back from before a dictionary was trained.
#[test]
fn settings_that_are_older_than_the_rows_are_noticed() -> Result {
    let (mut world, table) = World::with_table()?;
    let similar = |key| format!(r#"{{"actor":"user {key}","action":"login"}}"#).into_bytes();
    let rows: Vec<_> = (0..2_000).map(|key| (id(key), similar(key))).collect();
    world.put_all(&table, &rows)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish(&mut table.train(1_024)?)?;
    world.put_all(&table, &rows[..3])?;
    let verify = |world: &mut World| -> Result<Vec<Problem>> {
        let (fresh, mut open) = world.table(None)?;
        world.finish(&mut open)?;
        let mut verify = fresh.verify(|_| {});
        world.finish_outside(&mut verify)?;
        Ok(fresh.verified(verify).problems)
    };
    assert_eq!(verify(&mut world)?, []);
    world.execute(
        "DELETE FROM entries_meta WHERE id = 0; INSERT INTO entries_meta SELECT * FROM kept",
    )?;
    let problems = verify(&mut world)?;
    let [Problem::Settings { reason, .. }] = &problems[..] else {
        panic!("expected a problem of the settings, found {problems:?}");
    };
    assert!(reason.contains("expected dictionary 1"), "{reason}");
    Ok(())
}

/// A page that ends with a pack that cannot be read goes on with it, also if the pack before it is missing.
#[test]
fn a_scan_goes_on_past_packs_that_are_missing_or_corrupt() -> Result {
    const ROWS: i64 = 7;
    for lost in 1..ROWS - 1 {
        let (mut world, table) = World::with_table()?;
        // Pages have two packs, each of one row.
        let settings = Settings::large().pack_bytes(1 << 20);
        world.finish(&mut table.configure(settings))?;
        let mut random = Random(7);
        for key in 0..ROWS {
            world.put(&table, key, &noise(&mut random, 700_000))?;
        }
        world.merge(&table)?;
        world.execute(&format!(
            "DELETE FROM entries_packs WHERE id = {lost};
             UPDATE entries_packs SET version = version + 1 WHERE id = {lost} + 1"
        ))?;
        let packs = tool(&mut world)?;
        let (mut keys, mut problems) = (Vec::new(), Vec::new());
        let mut rest = packs.scan();
        let mut pages = 0;
        while let Some(mut call) = packs.next_page(rest)? {
            world.finish(&mut call)?;
            let page;
            (page, rest) = packs.page(call)?;
            keys.extend(page.rows.into_iter().map(|(key, _)| key));
            problems.extend(page.problems);
            pages += 1;
            assert!(pages < 3 * ROWS, "{lost}: it goes on forever");
        }
        let mut expected: Vec<_> = (0..ROWS).collect();
        expected.retain(|key| *key != lost && *key != lost + 1);
        assert_eq!(keys, expected);
        assert_eq!(problems.len(), 2, "{lost}: {problems:?}");
    }
    Ok(())
}

/// Opens the table as `opaque-id packs` does.
fn tool(world: &mut World) -> Result<RuntimePacks<i64>> {
    let (packs, mut open) = RuntimePacks::open(&world.keyring, "entry", "entries", false)?;
    world.finish(&mut open)?;
    Ok(packs)
}

fn damage(world: &mut World, packs: &RuntimePacks<i64>) -> Result<Vec<Damage>> {
    let mut verify = packs.verify(|_| {});
    world.finish_outside(&mut verify)?;
    Ok(RuntimePacks::<i64>::damage(&packs.verified(verify), false).collect())
}

fn is_whole(world: &mut World) -> Result<bool> {
    let packs = tool(world)?;
    Ok(damage(world, &packs)?.is_empty())
}

/// Returns the calls that restore what is damaged.
fn restores(world: &mut World, backup: &mut World) -> Result<Vec<PackCall<Restore>>> {
    let (packs, theirs) = (tool(world)?, tool(backup)?);
    let restore = |damage| {
        let (mut rows, mut rest) = (Vec::new(), packs.backup_of(damage));
        while let Some(mut page) = theirs.next_of_backup(rest)? {
            backup.finish(&mut page)?;
            let found;
            (found, rest) = RuntimePacks::<i64>::rows_of_backup(page)?;
            rows.extend(found);
        }
        Ok(packs.restore(damage, rows)?)
    };
    damage(world, &packs)?.into_iter().map(restore).collect()
}

/// Two restore the same packs from different backups, next to a writer and a merger, and may die half-way. What is written
/// meanwhile is not lost, and another run leaves nothing damaged.
#[test]
fn several_may_restore_the_same_packs() -> Result {
    const ROWS: u32 = 40;
    let mut world = World::new(false)?;
    let rows = |step, number| {
        let row = |key: u32| (id(key.into()), value(number + key));
        Vec::from_iter((0..ROWS).step_by(step).map(row))
    };
    let mut backups = Vec::new();
    for step in [1, 3] {
        let (mut backup, table) = world.another()?;
        backup.put_all(&table, &rows(step, 1_000))?;
        backup.merge(&table)?;
        backups.push(backup);
    }
    let table = world.tables[0].clone();
    world.put_all(&table, &rows(1, 2_000))?;
    world.merge(&table)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_packs")?;
    for seed in 0..300 {
        let mut random = Random(seed);
        world.execute(
            "DELETE FROM entries_recent; DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM kept",
        )?;
        world.execute(match seed % 4 {
            0 => "DELETE FROM entries_packs",
            1 => "DELETE FROM entries_packs WHERE id BETWEEN 4 AND 20",
            2 => "DELETE FROM entries_packs WHERE id > 20",
            _ => "UPDATE entries_packs SET body = x'00' WHERE id < 10; DELETE FROM entries_packs WHERE id BETWEEN 10 AND 30",
        })?;
        world.reopen()?;
        let table = world.tables[0].clone();
        let mut running = Vec::new();
        for backup in &mut backups {
            running.extend(restores(&mut world, backup)?);
        }
        let mut written = BTreeMap::new();
        let mut merge = table.merge(true)?;
        for number in 0..200 {
            match random.below(8) {
                0 => {
                    let key = i64::try_from(random.below(40))?;
                    world.put(&table, key, &value(number))?;
                    written.insert(key, number);
                }
                1..=3 if world.step(&mut merge, false)? => {}
                1..=3 => merge = table.merge(true)?,
                _ if running.is_empty() => break,
                _ => {
                    let chosen = random.below(running.len());
                    let goes_on = world.step(&mut running[chosen], false)?;
                    if !goes_on || random.below(30) == 0 {
                        running.swap_remove(chosen);
                    }
                }
            }
        }
        drop(running);
        for mut restore in restores(&mut world, &mut backups[0])? {
            world.finish_outside(&mut restore)?;
        }
        let packs = tool(&mut world)?;
        let left = damage(&mut world, &packs)?;
        assert!(left.is_empty(), "seed {seed}: {} left", left.len());
        for (key, expected) in written {
            assert_eq!(world.read(&table, key)?, Some(expected), "seed {seed}, key {key}");
        }
    }
    Ok(())
}

/// Of a table that is lost but for its first pack, which is corrupt, no statement contains all. A client that restores it may die
/// between any two.
#[test]
fn a_large_loss_is_restored_in_parts() -> Result {
    const ROWS: i64 = 50;
    let mut world = World::new(false)?;
    let (mut backup, table) = world.another()?;
    let mut random = Random(7);
    for key in 0..ROWS {
        backup.put(&table, key, &noise(&mut random, 20_000))?;
    }
    backup.merge(&table)?;
    for deaths in 0..4 {
        world.execute(
            "DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM first;
             UPDATE entries_packs SET body = x'00'",
        )?;
        for death in (0..=deaths).rev() {
            let mut restore = restores(&mut world, &mut backup)?.remove(0);
            let mut steps = 0;
            while let Some(statement) = restore.next(Dialect::Sqlite) {
                for value in &statement.values {
                    assert!(!matches!(value, Value::Bytes(bytes) if bytes.len() > 300_000));
                }
                world.step(&mut restore, false)?;
                steps += 1;
                if death > 0 && steps == 2 {
                    break;
                }
            }
            assert_eq!(RuntimePacks::<i64>::is_restored(restore), death == 0);
        }
        assert!(is_whole(&mut world)?);
        let mut pages = table.scan();
        let mut rows = 0;
        while let Some(mut page) = table.next_page(&pages)? {
            world.finish(&mut page)?;
            rows += table.page(page, &mut pages)?.len();
        }
        assert_eq!(i64::try_from(rows)?, ROWS);
    }
    Ok(())
}

/// A value takes more than a statement does otherwise.
#[test]
fn a_large_value_is_restored() -> Result {
    for large in 0..3 {
        let mut world = World::new(false)?;
        let (mut backup, table) = world.another()?;
        let mut random = Random(7);
        for key in 0..3 {
            let len = if key == large { 700_000 } else { 200 };
            backup.put(&table, key, &noise(&mut random, len))?;
        }
        backup.merge(&table)?;
        world.execute("UPDATE entries_packs SET body = x'00'")?;
        let mut restore = restores(&mut world, &mut backup)?.remove(0);
        let mut steps = 0;
        while world.step(&mut restore, false)? {
            steps += 1;
            assert!(steps < 20, "it goes on forever");
        }
        assert!(RuntimePacks::<i64>::is_restored(restore));
        assert!(is_whole(&mut world)?);
    }
    Ok(())
}

/// A server that lags may show the newer pack to the next who asks.
#[test]
fn a_pack_older_than_seen_is_not_restored_without_force() -> Result {
    let (mut world, table) = World::with_table()?;
    world.put(&table, 1, &value(1))?;
    world.merge(&table)?;
    let packs = tool(&mut world)?;
    assert!(damage(&mut world, &packs)?.is_empty());
    let earlier = "UPDATE entries_packs SET version = first.version, body = first.body FROM first";
    world.execute(earlier)?;
    let mut verify = packs.verify(|_| {});
    world.finish_outside(&mut verify)?;
    let verified = packs.verified(verify);
    assert!(matches!(verified.problems[..], [Problem::Older { .. }]), "{:?}", verified.problems);
    let damage = |is_forced| RuntimePacks::<i64>::damage(&verified, is_forced).count();
    assert_eq!((damage(false), damage(true)), (0, 1));
    Ok(())
}
