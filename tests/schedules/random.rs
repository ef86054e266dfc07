//! Clients and mergers under a random scheduler, and mutations of the protocol that it must find.

use std::collections::BTreeMap;

use opaque_id_core::{IdRange, Internal};
use opaque_id_packs::__private::PackCall;
use opaque_id_packs::format::FormatError;
use opaque_id_packs::{Encoding, Group, Raw, TableError, Update};
use opaque_id_sql::statement::{Answer, Cell, Statement};
use opaque_id_tests::linearizable::{Event, Op, is_linearizable, without_erased};
use opaque_id_tests::{Result, random::Random};

use crate::world::{
    Entry, INSIDE, InThree, OUTSIDE, SteppedCall, Suspended, Table, World, id, keyring, number,
    value,
};

/// A change to the protocol that breaks one of the invariants of docs/PACKS-FORMAT.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A merger reads the rows, and then the pack (I2).
    RowsBeforePack,
    /// A merger deletes rows of any version (I3).
    DeletesAnyVersion,
    /// A merger deletes the rows, and then writes the pack (I3).
    DeletesBeforeWriting,
    /// A reader reads the pack, and then the recent row (I5).
    PackBeforeRow,
    /// A merger replaces a pack of any version.
    WritesAnyVersion,
    /// `update` inserts a row for any version of its pack.
    InsertsAnyVersion,
    /// The server omits a pack in the reader's cache for any version.
    KnowsAnyVersion,
    /// A row is written even if its group's key has changed.
    WritesAnyGroup,
}

const MUTATIONS: [Mutation; 8] = [
    Mutation::RowsBeforePack,
    Mutation::DeletesAnyVersion,
    Mutation::DeletesBeforeWriting,
    Mutation::PackBeforeRow,
    Mutation::WritesAnyVersion,
    Mutation::InsertsAnyVersion,
    Mutation::KnowsAnyVersion,
    Mutation::WritesAnyGroup,
];

pub(crate) const KEYS: i64 = 4;
const CLIENTS: usize = 3;
const OPERATIONS: usize = 3;
const MERGERS: usize = 2;

/// The number of schedules that a mutation may survive.
const SURVIVES: u64 = 30_000;

/// The operations of a call on rows.
pub(crate) type Ops = Vec<(i64, Op<u32>)>;

/// A function that returns the operations that a call may have done.
pub(crate) type Unknown<'t> = Box<dyn Fn() -> Ops + 't>;

/// A call with its operations, and a function that returns the operations that it may have done when its client dies.
pub(crate) struct Operation<'t> {
    pub(crate) call: PackCall<'t, Ops>,
    pub(crate) unknown: Unknown<'t>,
}

struct Client<'t> {
    running: Option<(SteppedCall<'t, Ops>, Unknown<'t>, u64)>,
    /// The number of remaining operations, or passes of a merger.
    left: usize,
    is_merger: bool,
    /// The result of the first half of a mutated statement.
    first_half: Option<Vec<Vec<Cell>>>,
}

impl<'t> Operation<'t> {
    fn new<R>(
        call: PackCall<'t, R>,
        ops: impl FnOnce(R) -> Ops + Send + 't,
        unknown: impl Fn() -> Ops + 't,
    ) -> Self
    where
        R: 't,
    {
        Self { call: call.map(ops), unknown: Box::new(unknown) }
    }

    /// Creates an operation that is known for any result of the call.
    pub(crate) fn known<R: 't>(call: PackCall<'t, R>, ops: Ops) -> Self {
        let unknown = ops.clone();
        Self::new(call, |_| ops, move || unknown.clone())
    }

    pub(crate) fn put<E: Encoding<Vec<u8>>>(table: &'t Table<E>, key: i64, new: u32) -> Self {
        Self::known(table.put([(id(key), &value(new))]), vec![(key, Op::Write(Some(new)))])
    }

    pub(crate) fn delete<E: Encoding<Vec<u8>>>(table: &'t Table<E>, key: i64) -> Self {
        Self::known(table.delete(&[id(key)]), vec![(key, Op::Write(None))])
    }

    pub(crate) fn get<E: Encoding<Vec<u8>>>(
        table: &'t Table<E>,
        ids: &'t [Internal<Entry>],
        key: i64,
    ) -> Self {
        let read = move |found: Vec<Option<Vec<u8>>>| {
            vec![(key, Op::Read(found[0].as_deref().map(number)))]
        };
        Self::new(table.get(ids), read, Vec::new)
    }

    pub(crate) fn update<E: Encoding<Vec<u8>>>(table: &'t Table<E>, key: i64, new: u32) -> Self {
        // Each computed attempt may be the one that took effect.
        let computed = std::sync::Arc::new(std::sync::Mutex::new(None));
        let last = std::sync::Arc::clone(&computed);
        let change = move |before: Option<Vec<u8>>| {
            *last.lock().expect("no panic") = Some(before.as_deref().map(number));
            Update::Put(value(new))
        };
        let ops = move || {
            let before = *computed.lock().expect("no panic");
            before.map(|before| (key, Op::Change(before, Some(new)))).into_iter().collect::<Ops>()
        };
        let unknown = ops.clone();
        Self::new(table.update(id(key), change), move |()| ops(), unknown)
    }

    pub(crate) fn merge<E: Encoding<Vec<u8>>>(table: &'t Table<E>) -> Self {
        Self::known(table.merge(true), Vec::new())
    }

    pub(crate) fn erase<E: Encoding<Vec<u8>>>(table: &'t Table<E>, group: u32) -> Self {
        let values: Vec<_> = (0..100).filter(|value| value % 3 == group).collect();
        let ops = (0..KEYS).map(|key| (key, Op::Erase(values.clone()))).collect();
        Self::known(table.erase(Group::new(group.into())), ops)
    }

    fn page<E: Encoding<Vec<u8>>>(table: &'t Table<E>, is_descending: bool) -> Self {
        // The call reads one page. Its future owns the rest.
        let pages = Box::leak(Box::new(table.range(IdRange::all(), is_descending)));
        let read = |rows: Option<Vec<(Internal<Entry>, Vec<u8>)>>| {
            let rows = rows.into_iter().flatten();
            let rows: BTreeMap<_, _> = rows.map(|(id, value)| (id, number(&value))).collect();
            (0..KEYS).map(|key| (key, Op::Read(rows.get(&id(key)).copied()))).collect()
        };
        Self::new(table.next_page(pages), read, Vec::new)
    }
}

impl<E: Encoding<Vec<u8>>> World<E> {
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
        // Versions restart.
        self.reopen()?;
        let (tables, ids) = (self.tables.clone(), Vec::from_iter((0..KEYS).map(id)));
        let mut random = Random(seed);
        let mut histories = BTreeMap::<i64, Vec<Event<u32>>>::new();
        let mut clock = 0;
        let mut written = 0;
        let mut clients: Vec<_> = (0..CLIENTS + MERGERS)
            .map(|i| Client {
                running: None,
                left: if i < CLIENTS { OPERATIONS } else { 1 + random.below(3) },
                is_merger: i >= CLIENTS,
                first_half: None,
            })
            .collect();
        while !clients.is_empty() {
            let chosen = random.below(clients.len());
            clock += 1;
            let client = &mut clients[chosen];
            let Some((running, ..)) = &mut client.running else {
                let connection = if random.below(2) == 0 { INSIDE } else { OUTSIDE };
                if client.left == 0 {
                    clients.swap_remove(chosen);
                    continue;
                }
                client.left -= 1;
                let table = &tables[random.below(tables.len())];
                let Operation { call, unknown } =
                    begin(table, &ids, client.is_merger, &mut random, &mut written)?;
                client.running = Some((SteppedCall::new(call, connection), unknown, clock));
                continue;
            };
            // The client dies with its effects so far.
            if random.below(60) == 0 {
                let (_, unknown, began) = client.running.take().expect("it runs");
                for (key, op) in unknown() {
                    let event = Event { op, began, ended: u64::MAX, is_certain: false };
                    histories.entry(key).or_default().push(event);
                }
                clients.swap_remove(chosen);
                continue;
            }
            if let Some(statement) = running.statement() {
                let answer = match self.run_mutated(statement, mutation, &mut client.first_half)? {
                    Some(answer) => answer,
                    None => continue,
                };
                running.answer(answer);
            }
            if running.statement().is_none() {
                let (running, _, began) = client.running.take().expect("it runs");
                let Suspended::Ended(ended) = running.state else { unreachable!("it has ended") };
                let ops = match ended {
                    Ok(ops) => ops,
                    // The call had no effect.
                    Err(problem) if problem == TableError::Outrun || is_erased(&problem) => {
                        continue;
                    }
                    // The client itself has found a mutation.
                    Err(problem) if mutation.is_some() => return Err(problem.into()),
                    Err(problem) => panic!("seed {seed}: {problem}"),
                };
                for (key, op) in ops {
                    let event = Event { op, began, ended: clock, is_certain: true };
                    histories.entry(key).or_default().push(event);
                }
            }
        }
        for history in histories.values_mut() {
            *history = without_erased(history);
        }
        // These are the final rows, for a process that has not seen a key before its group was erased.
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

    /// Runs a statement, or one half of a mutated statement.
    pub(crate) fn run_mutated(
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
        // The second of two reads is used for this tier.
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
            // These are the existing rows. A merger that reads all of them is about to write their packs.
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
        // The pack comes first.
        rows.sort_by_key(|cells| cells[0] != Cell::Integer(1));
        Ok(Some(Answer::Rows(rows)))
    }
}

/// Returns whether a call was refused without effect because the group of a row is erased.
pub(crate) fn is_erased(problem: &TableError) -> bool {
    matches!(problem, TableError::Unwritable { source: FormatError::ErasedGroup, .. })
}

fn begin<'t, E: Encoding<Vec<u8>>>(
    table: &'t Table<E>,
    ids: &'t [Internal<Entry>],
    is_merger: bool,
    random: &mut Random,
    written: &mut u32,
) -> Result<Operation<'t>> {
    if is_merger {
        return Ok(Operation::merge(table));
    }
    let chosen = random.below(4);
    let key = i64::try_from(chosen)?;
    *written += 1;
    let new = *written;
    Ok(match random.below(8 + usize::from(E::IS_GROUPED)) {
        8 => Operation::erase(table, u32::try_from(random.below(3))?),
        0..=2 => Operation::put(table, key, new),
        3 => Operation::delete(table, key),
        4 => Operation::get(table, &ids[chosen..=chosen], key),
        5 | 6 => Operation::update(table, key, new),
        _ => Operation::page(table, random.below(2) == 0),
    })
}

/// Returns the seed of the first of this many schedules that has a history that is not linearizable.
fn first_violation<E: Encoding<Vec<u8>>>(
    schedules: u64,
    is_written_through: bool,
    mutation: Option<Mutation>,
) -> Result<Option<u64>> {
    let mut world = World::<E>::with(keyring()?, is_written_through)?;
    for seed in 0..schedules {
        let histories = match world.schedule(seed, mutation) {
            Err(error) if mutation.is_some() && error.is::<TableError>() => return Ok(Some(seed)),
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

/// Runs a third of the schedules: in a table with a merger, in one that is written through, or in one with groups that are
/// erased.
fn a_third_is_linearizable<E: Encoding<Vec<u8>>>(is_written_through: bool) -> Result {
    let schedules = std::env::var("OPAQUE_ID_TEST_SCHEDULES");
    let schedules = schedules.map_or(Ok(6_000), |schedules| schedules.parse())?;
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
    for mutation in MUTATIONS {
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
