//! Clients and mergers of a table of packs under a random scheduler, which lets one of them run its next statement, or die
//! between two: what they have seen of each row must be linearizable. The statements are those of SQLite, and SQLite runs them.
//!
//! 10,000 schedules; `OPAQUE_ID_TEST_SCHEDULES` sets another number, and `cargo xtask stress schedules` runs a million. With
//! each of the mutations of the protocol, which are made in the statements, the test must find a history that is not linearizable.

use std::collections::BTreeMap;

use opaque_id_core::{IdRange, Internal, Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::__private::{Packs, RuntimePacks};
use opaque_id_packs::call::{Change, Get, Merge, PackCall, Page, Put};
use opaque_id_packs::{ByKey, Raw, Settings, Update};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::Call;
use opaque_id_sql::statement::{Answer, Cell, Column, Statement, Value};
use opaque_id_tests::linearizable::{Event, Op, is_linearizable};
use opaque_id_tests::{Result, random::Random};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

#[derive(OpaqueId)]
#[opaque_id(prefix = "entry", key = i64)]
struct Entry;

type Table = Packs<Entry, Vec<u8>, Raw, ByKey>;

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
    Update(
        PackCall<Change>,
        i64,
        std::sync::mpsc::Receiver<(Option<u32>, u32)>,
    ),
    Page(PackCall<Page>),
    Merge(PackCall<Merge>),
}

struct Client {
    running: Option<(Running, u64)>,
    /// How many operations are left, or passes of a merger.
    left: usize,
    is_merger: bool,
    /// A statement of a mutation that is run in two parts: what the first one has read.
    first_half: Option<Vec<Vec<Cell>>>,
}

impl Running {
    fn next(&self) -> Option<Statement> {
        match self {
            Self::Put(call, ..) => call.next(Dialect::Sqlite),
            Self::Get(call, _) => call.next(Dialect::Sqlite),
            Self::Update(call, ..) => call.next(Dialect::Sqlite),
            Self::Page(call) => call.next(Dialect::Sqlite),
            Self::Merge(call) => call.next(Dialect::Sqlite),
        }
    }

    /// As in a transaction: nothing waits, and each schedule begins with old versions again.
    fn answer(&mut self, answer: Answer) -> Result {
        let dialect = Dialect::Sqlite;
        Ok(match self {
            Self::Put(call, ..) => call.answer(dialect, true, answer),
            Self::Get(call, _) => call.answer(dialect, true, answer),
            Self::Update(call, ..) => call.answer(dialect, true, answer),
            Self::Page(call) => call.answer(dialect, true, answer),
            Self::Merge(call) => call.answer(dialect, true, answer),
        }?)
    }
}

/// Values of 150 bytes that do not compress: two or three fill a pack.
fn value(number: u32) -> Vec<u8> {
    let mut random = Random(number.into());
    let noise = (0..146).map(|_| u8::try_from(random.below(256)).expect("below 256"));
    number.to_be_bytes().into_iter().chain(noise).collect()
}

fn number(value: &[u8]) -> u32 {
    u32::from_be_bytes(value[..4].try_into().expect("four bytes"))
}

fn id(key: i64) -> Internal<Entry> {
    Internal::from_key(key).expect("any integer is a key")
}

/// The database, and the table for clients that disagree about the size of a pack.
struct World {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
    keyring: Keyring,
    tables: Vec<Table>,
}

impl World {
    fn new(is_written_through: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let connection = runtime.block_on(SqliteConnection::connect("sqlite::memory:"))?;
        let keyring = Keyring::builder()
            .sealing(0, MasterSecret::generate())
            .build()?;
        let mut world = Self {
            runtime,
            connection,
            keyring,
            tables: Vec::new(),
        };
        world.execute(&Table::create_sql(Dialect::Sqlite, "entries"))?;
        for bytes in [400, 700] {
            let settings = Settings::inline()
                .pack_bytes(bytes)
                .row_level(1)
                .pack_level(1);
            let settings = match is_written_through {
                true => settings.write_through(),
                false => settings,
            };
            let (table, mut open) = Table::open(&world.keyring, "entries", Some(settings.clone()))?;
            world.finish(&mut open)?;
            world.finish(&mut table.configure(settings))?;
            world.tables.push(table);
        }
        world.execute("CREATE TABLE first AS SELECT * FROM entries_packs")?;
        Ok(world)
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
            };
        }
        if statement.columns.is_empty() {
            let done = self.runtime.block_on(query.execute(&mut self.connection))?;
            return Ok(Answer::Changed {
                rows: done.rows_affected(),
                insert_id: None,
            });
        }
        let rows = self
            .runtime
            .block_on(query.fetch_all(&mut self.connection))?;
        let rows = rows.iter().map(|row| {
            let columns = statement.columns.iter().enumerate();
            let cells = columns.map(|(i, column)| {
                Ok(match column {
                    Column::Bytes => Cell::Bytes(row.try_get(i)?),
                    _ => Cell::Integer(row.try_get(i)?),
                })
            });
            cells.collect::<Result<Vec<_>>>()
        });
        Ok(Answer::Rows(rows.collect::<Result<_>>()?))
    }

    fn finish<C: Call<Refusal: std::error::Error + Send + Sync + 'static>>(
        &mut self,
        call: &mut C,
    ) -> Result {
        while let Some(statement) = call.next(Dialect::Sqlite) {
            let answer = self.run(&statement)?;
            call.answer(Dialect::Sqlite, true, answer)?;
        }
        Ok(())
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
        let mut random = Random(seed);
        let mut histories = BTreeMap::<i64, Vec<Event<u32>>>::new();
        let mut clock = 0;
        let mut written = 0;
        let mut clients: Vec<_> = (0..CLIENTS + MERGERS)
            .map(|i| Client {
                running: None,
                left: if i < CLIENTS {
                    OPERATIONS
                } else {
                    1 + random.below(3)
                },
                is_merger: i >= CLIENTS,
                first_half: None,
            })
            .collect();
        while !clients.is_empty() {
            let chosen = random.below(clients.len());
            clock += 1;
            let client = &mut clients[chosen];
            let Some((running, _)) = &mut client.running else {
                if client.left == 0 {
                    clients.swap_remove(chosen);
                    continue;
                }
                client.left -= 1;
                let table = self.tables[random.below(self.tables.len())].clone();
                client.running = Some((
                    begin(&table, client.is_merger, &mut random, &mut written)?,
                    clock,
                ));
                continue;
            };
            // Death, with what it has done so far.
            if random.below(60) == 0 {
                let (running, began) = client.running.take().expect("it runs");
                for (key, op) in unknown(&running) {
                    histories.entry(key).or_default().push(Event {
                        op,
                        began,
                        ended: None,
                    });
                }
                clients.swap_remove(chosen);
                continue;
            }
            if let Some(statement) = running.next() {
                let answer = match self.run_mutated(&statement, mutation, &mut client.first_half)? {
                    Some(answer) => answer,
                    None => continue,
                };
                // Outrun too often: no effect.
                if running.answer(answer).is_err() {
                    client.running = None;
                    continue;
                }
            }
            if running.next().is_none() {
                let (running, began) = client.running.take().expect("it runs");
                for (key, op) in self.end(running)? {
                    let ended = Some(clock);
                    histories
                        .entry(key)
                        .or_default()
                        .push(Event { op, began, ended });
                }
            }
        }
        // What is there in the end.
        let table = self.tables[0].clone();
        for key in 0..KEYS {
            let mut get = table.get(&[id(key)])?;
            self.finish(&mut get)?;
            clock += 1;
            let found = table.found(get, &[id(key)])?.remove(0);
            let op = Op::Read(found.map(|value| number(&value)));
            histories.entry(key).or_default().push(Event {
                op,
                began: clock,
                ended: Some(clock),
            });
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
                return self
                    .run(&mutated(" AND r.version = l.version", ""))
                    .map(Some);
            }
            Some(Mutation::WritesAnyVersion) if is("UPDATE entries_packs") => {
                return self
                    .run(&mutated("AND version = ?2", "AND ?2 = ?2"))
                    .map(Some);
            }
            Some(Mutation::InsertsAnyVersion) if is("AND p.version = ?2 ON CONFLICT") => {
                return self
                    .run(&mutated("AND p.version = ?2", "AND ?2 = ?2"))
                    .map(Some);
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
                let rows: BTreeMap<_, _> = rows
                    .into_iter()
                    .map(|(id, value)| (id, number(&value)))
                    .collect();
                (0..KEYS)
                    .map(|key| (key, Op::Read(rows.get(&id(key)).copied())))
                    .collect()
            }
            Running::Merge(_) => Vec::new(),
        })
    }
}

fn begin(
    table: &Table,
    is_merger: bool,
    random: &mut Random,
    written: &mut u32,
) -> Result<Running> {
    if is_merger {
        return Ok(Running::Merge(table.merge(true)?));
    }
    let key = i64::try_from(random.below(4))?;
    *written += 1;
    let new = *written;
    Ok(match random.below(8) {
        0..=2 => Running::Put(
            table.put([(id(key), &value(new))])?,
            key,
            Op::Write(Some(new)),
        ),
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
        Running::Get(..) | Running::Page(_) | Running::Merge(_) => Vec::new(),
    }
}

/// Returns the seed of the first schedule of so many whose histories are not linearizable.
fn first_violation(
    schedules: u64,
    is_written_through: bool,
    mutation: Option<Mutation>,
) -> Result<Option<u64>> {
    let mut world = World::new(is_written_through)?;
    for seed in 0..schedules {
        let histories = world.schedule(seed, mutation)?;
        if let Some((key, history)) = histories
            .iter()
            .find(|(_, history)| !is_linearizable(history))
        {
            if mutation.is_none() {
                eprintln!("seed {seed}, key {key}: {history:#?}");
            }
            return Ok(Some(seed));
        }
    }
    Ok(None)
}

/// Runs half of the schedules: in a table with a merger, or in one that is written through.
fn half_is_linearizable(is_written_through: bool) -> Result {
    let schedules = std::env::var("OPAQUE_ID_TEST_SCHEDULES");
    let schedules = schedules.map_or(Ok(10_000), |schedules| schedules.parse())?;
    let violation = first_violation(schedules / 2, is_written_through, None)?;
    assert_eq!(violation, None);
    Ok(())
}

#[test]
fn every_schedule_is_linearizable() -> Result {
    half_is_linearizable(false)
}

#[test]
fn every_schedule_that_writes_through_is_linearizable() -> Result {
    half_is_linearizable(true)
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
    ] {
        let found = first_violation(SURVIVES, false, Some(mutation))?;
        println!("{mutation:?}: found by schedule {found:?}");
        assert!(found.is_some(), "{mutation:?} was not found");
    }
    Ok(())
}

/// Runs the next statement of a call, outside of the caller's transactions.
fn step<C: Call<Refusal: std::error::Error + Send + Sync + 'static>>(
    world: &mut World,
    call: &mut C,
) -> Result<bool> {
    let Some(statement) = call.next(Dialect::Sqlite) else {
        return Ok(false);
    };
    let answer = world.run(&statement)?;
    call.answer(Dialect::Sqlite, false, answer)?;
    Ok(true)
}

#[test]
fn settings_that_change_while_they_are_read_are_not_refused() -> Result {
    let mut world = World::new(false)?;
    let table = world.tables[0].clone();
    let settings = || Settings::inline().row_level(1).pack_level(1);
    let mut slow = table.configure(settings().pack_bytes(500));
    let read = slow.next(Dialect::Sqlite).ok_or("it reads")?;
    let answer = world.run(&read)?;
    let mut fast = table.configure(settings().pack_bytes(600));
    while step(&mut world, &mut fast)? {}
    slow.answer(Dialect::Sqlite, false, answer)?;
    while step(&mut world, &mut slow)? {}
    assert_eq!(table.settings()?, settings().pack_bytes(500));

    // A transaction sees what was there when it began; a server that shows it later is refused.
    let old = "UPDATE entries_meta SET version = kept.version, body = kept.body FROM kept WHERE entries_meta.id = kept.id";
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta WHERE id = 0")?;
    let mut newer = table.configure(settings());
    while step(&mut world, &mut newer)? {}
    world.execute(old)?;
    let mut late = table.configure(settings());
    let refused = step(&mut world, &mut late)
        .err()
        .ok_or("took old settings")?;
    assert!(
        refused
            .to_string()
            .contains("the settings (id 0) of entries_meta")
    );
    let mut in_transaction = table.configure(settings());
    let read = in_transaction.next(Dialect::Sqlite).ok_or("it reads")?;
    let answer = world.run(&read)?;
    in_transaction.answer(Dialect::Sqlite, true, answer)?;
    Ok(())
}

#[test]
fn packs_that_are_split_while_they_are_verified_are_no_gaps() -> Result {
    let mut world = World::new(false)?;
    let table = world.tables[0].clone();
    let put = |world: &mut World, keys: std::ops::Range<i64>, step_by| -> Result {
        for key in keys.step_by(step_by) {
            world.finish(&mut table.put([(id(key), &value(u32::try_from(key)?))])?)?;
        }
        world.finish(&mut table.merge(true)?)
    };
    put(&mut world, 0..10_000, 25)?;
    let mut verify = table.verify(|_| {});
    // Whatever page it has read last, the pack at its end is split, and one that is read already.
    for key in (0..10_000).step_by(97) {
        if !step(&mut world, &mut verify)? {
            break;
        }
        put(&mut world, key..key + 20, 3)?;
        put(&mut world, 0..10_000, 25 + usize::try_from(key)? % 7)?;
    }
    while step(&mut world, &mut verify)? {}
    let verified = table.verified(verify);
    assert_eq!(verified.problems, []);
    assert!(verified.packs > 128);
    Ok(())
}

/// A page that ends with a pack that cannot be read goes on with it, also if the pack before it is missing.
#[test]
fn a_scan_goes_on_past_packs_that_are_missing_or_corrupt() -> Result {
    const ROWS: i64 = 7;
    for lost in 1..ROWS - 1 {
        let mut world = World::new(false)?;
        let table = world.tables[0].clone();
        // Pages have two packs, each of one row.
        let settings = Settings::large().pack_bytes(1 << 20);
        world.finish(&mut table.configure(settings))?;
        let mut random = Random(7);
        for key in 0..ROWS {
            let bytes = (0..700_000).map(|_| random.below(256).to_le_bytes()[0]);
            world.finish(&mut table.put([(id(key), &bytes.collect())])?)?;
        }
        world.finish(&mut table.merge(true)?)?;
        world.execute(&format!("DELETE FROM entries_packs WHERE id = {lost}"))?;
        let corrupt = "UPDATE entries_packs SET version = version + 1 WHERE id =";
        world.execute(&format!("{corrupt} {}", lost + 1))?;

        let (packs, mut open) =
            RuntimePacks::<i64>::open(&world.keyring, "entry", "entries", false)?;
        world.finish(&mut open)?;
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
