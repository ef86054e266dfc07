//! All schedules of each pair of calls: every order of their statements, and a death of either client between any two.

use opaque_id_core::{Internal, Keyring, MasterSecret};
use opaque_id_packs::__private::{Damage, RuntimePacks};
use opaque_id_packs::format::Value;
use opaque_id_packs::{Encoding, Raw, Settings, TableError};
use opaque_id_sql::statement::Cell;
use opaque_id_tests::Result;
use opaque_id_tests::linearizable::{Event, Op, is_linearizable, without_erased};
use opaque_id_tests::turns::{Turn, Turns};

use crate::random::{KEYS, Mutation, Operation, Ops, Unknown, is_erased};
use crate::restore::tool;
use crate::world::{
    Entry, InThree, OUTSIDE, SteppedCall, Suspended, Table, World, id, keyring, value,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationKind {
    Put,
    Update,
    Delete,
    Get,
    Merge,
    /// A merger of enough rows to split the pack.
    Split,
    Rekey,
    Erase,
    Restore,
}

const KINDS: [OperationKind; 9] = [
    OperationKind::Put,
    OperationKind::Update,
    OperationKind::Delete,
    OperationKind::Get,
    OperationKind::Merge,
    OperationKind::Split,
    OperationKind::Rekey,
    OperationKind::Erase,
    OperationKind::Restore,
];

/// The rows of the pack before the calls, and the recent rows. The second key has both.
const PACKED: [(i64, u32); 2] = [(0, 1), (1, 2)];
const RECENT: [(i64, u32); 1] = [(1, 3)];
const RECENT_TO_SPLIT: [(i64, u32); 2] = [(1, 3), (2, 4)];

/// A pair of calls, and the key of their operations.
#[derive(Clone, Copy, Debug)]
struct Pair {
    kinds: [OperationKind; 2],
    key: i64,
}

impl Pair {
    fn has(self, kind: OperationKind) -> bool {
        self.kinds.contains(&kind)
    }

    fn recent(self) -> &'static [(i64, u32)] {
        if self.has(OperationKind::Split) { &RECENT_TO_SPLIT } else { &RECENT }
    }
}

/// One client of a schedule.
struct Client<'t> {
    /// `None` if the client is dead.
    running: Option<SteppedCall<'t, Ops>>,
    unknown: Unknown<'t>,
    /// When its first statement ran.
    began: Option<u64>,
    first_half: Option<Vec<Vec<Cell>>>,
}

/// The database of a pair.
struct Pairs<E> {
    world: World<E>,
    ids: Vec<Internal<Entry>>,
    /// The packs that are damaged, and their rows.
    damage: Vec<Damaged>,
}

impl<E: Encoding<Vec<u8>>> Pairs<E> {
    /// Creates the state before a pair's calls.
    fn new(pair: Pair) -> Result<Self> {
        let secrets = [MasterSecret::generate(), MasterSecret::generate()];
        let old = Keyring::builder().sealing(0, secrets[0].clone()).build()?;
        let mut world = World::<E>::with(old, false)?;
        let table = world.tables[0].clone();
        for (key, number) in PACKED {
            world.put(&table, key, &value(number))?;
        }
        world.merge(&table)?;
        let damage =
            if pair.has(OperationKind::Restore) { damage(&mut world)? } else { Vec::new() };
        for (key, number) in pair.recent() {
            world.put(&table, *key, &value(*number))?;
        }
        world.execute(
            "CREATE TABLE kept_packs AS SELECT * FROM entries_packs; CREATE TABLE kept_recent AS SELECT * FROM entries_recent",
        )?;
        if E::IS_GROUPED {
            world.execute("CREATE TABLE kept_keys AS SELECT * FROM entries_keys")?;
        }
        if pair.has(OperationKind::Rekey) {
            let [old, new] = secrets;
            world.keyring = Keyring::builder().sealing(1, new).opening(0, old).build()?;
            // The settings are already encrypted again.
            for i in 0..world.tables.len() {
                world.execute(&format!(
                    "DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM meta_{i}"
                ))?;
                let table = world.table(None)?;
                let rekeyed = world.finish(table.rekey(None, None, |_| {}));
                assert!(rekeyed.is_ok() || pair.has(OperationKind::Restore), "{rekeyed:?}");
                world.execute(&format!(
                    "DELETE FROM meta_{i}; INSERT INTO meta_{i} SELECT * FROM entries_meta"
                ))?;
            }
        }
        Ok(Self { world, ids: Vec::from_iter((0..KEYS).map(id)), damage })
    }

    /// Puts the tables back into the state before the calls.
    fn reset(&mut self) -> Result {
        let tables: &[_] =
            if E::IS_GROUPED { &["packs", "recent", "keys"] } else { &["packs", "recent"] };
        for table in tables {
            self.world.execute(&format!(
                "DELETE FROM entries_{table}; INSERT INTO entries_{table} SELECT * FROM kept_{table}"
            ))?;
        }
        self.world.reopen()
    }

    /// Runs one schedule. Fails if the histories are not linearizable.
    fn schedule(&mut self, pair: Pair, mutation: Option<Mutation>, turns: &mut Turns) -> Result {
        self.reset()?;
        let (tables, ids, damage) =
            (self.world.tables.clone(), self.ids.clone(), self.damage.clone());
        let mut histories: Vec<Vec<Event<u32>>> = vec![Vec::new(); usize::try_from(KEYS)?];
        let mut note = |key: i64, op, began, ended| {
            let is_certain = ended != u64::MAX;
            let event = Event { op, began, ended, is_certain };
            histories[usize::try_from(key).expect("a key")].push(event);
        };
        for (clock, (key, number)) in (0..).zip(PACKED.iter().chain(pair.recent())) {
            note(*key, Op::Write(Some(*number)), clock, clock);
        }
        let mut clients = Vec::new();
        for (i, kind) in pair.kinds.into_iter().enumerate() {
            let Operation { call, unknown } =
                operation(kind, pair.key, i, &tables[i], &ids, &damage);
            let running = Some(SteppedCall::new(call, OUTSIDE));
            clients.push(Client { running, unknown, began: None, first_half: None });
        }
        let mut clock = 10;
        loop {
            let has_statement = |client: &Client<'_>| {
                client.running.as_ref().is_some_and(|running| running.statement().is_some())
            };
            let turn = turns.next([has_statement(&clients[0]), has_statement(&clients[1])]);
            clock += 1;
            let client = match turn {
                None => break,
                Some(Turn::Die(client)) => {
                    let client = &mut clients[client];
                    client.running = None;
                    let began = client.began.unwrap_or(clock);
                    let unknown = (client.unknown)().into_iter();
                    unknown.for_each(|(key, op)| note(key, op, began, u64::MAX));
                    continue;
                }
                Some(Turn::Run(client)) => &mut clients[client],
            };
            client.began.get_or_insert(clock);
            let running = client.running.as_mut().expect("it runs");
            let statement = running.statement().expect("it runs");
            let answer = self.world.run_mutated(statement, mutation, &mut client.first_half)?;
            if let Some(answer) = answer {
                running.answer(answer);
            }
            if let Suspended::Ended(ended) = &running.state {
                match ended {
                    Ok(ops) => {
                        let began = client.began.unwrap_or(clock);
                        ops.iter().for_each(|(key, op)| note(*key, op.clone(), began, clock));
                    }
                    // The call had no effect.
                    Err(problem) if *problem == TableError::Outrun || is_erased(problem) => {}
                    // The pack is not yet restored.
                    Err(_) if pair.has(OperationKind::Restore) => {}
                    Err(problem) => return Err(problem.clone().into()),
                }
            }
        }
        drop(clients);
        self.world.reopen()?;
        for (damage, rows) in &self.damage {
            let packs = tool(&mut self.world)?;
            self.world.finish_outside(packs.restore(*damage, rows.clone()))?;
        }
        let table = self.world.tables[0].clone();
        for _ in 0..2 {
            for key in 0..KEYS {
                clock += 1;
                note(key, Op::Read(self.world.read(&table, key)?), clock, clock);
            }
            // Rows that are merged are the same.
            self.world.merge(&table)?;
        }
        for (key, history) in histories.iter().enumerate() {
            let history = without_erased(history);
            if !is_linearizable(&history) {
                let steps = turns.steps();
                return Err(format!("{pair:?}, {steps:?}, key {key}: {history:#?}").into());
            }
        }
        Ok(())
    }

    /// Runs all schedules of a pair, and returns their number.
    fn all(pair: Pair, mutation: Option<Mutation>) -> Result<u64> {
        let mut pairs = Self::new(pair)?;
        let (mut turns, mut schedules) = (Turns::default(), 1);
        pairs.schedule(pair, mutation, &mut turns)?;
        while turns.next_schedule() {
            pairs.schedule(pair, mutation, &mut turns)?;
            schedules += 1;
        }
        Ok(schedules)
    }
}

fn operation<'t, E: Encoding<Vec<u8>>>(
    kind: OperationKind,
    key: i64,
    client: usize,
    table: &'t Table<E>,
    ids: &'t [Internal<Entry>],
    damage: &[Damaged],
) -> Operation<'t> {
    let new = if client == 0 { 10 } else { 11 };
    let place = usize::try_from(key).expect("a key");
    match kind {
        OperationKind::Put => Operation::put(table, key, new),
        OperationKind::Update => Operation::update(table, key, new),
        OperationKind::Delete => Operation::delete(table, key),
        OperationKind::Get => Operation::get(table, &ids[place..=place], key),
        OperationKind::Merge | OperationKind::Split => Operation::merge(table),
        OperationKind::Rekey => Operation::known(table.rekey(None, None, |_| {}), Vec::new()),
        // The group of the second key's recent row.
        OperationKind::Erase => Operation::erase(table, 0),
        OperationKind::Restore => {
            let (damage, rows) = damage[0].clone();
            Operation::known(table.restore(damage, rows), Vec::new())
        }
    }
}

/// The damage of a pack, and the rows that a backup has of it.
type Damaged = (Damage, Vec<(u128, Value)>);

/// Makes the packs unreadable.
fn damage<E: Encoding<Vec<u8>>>(world: &mut World<E>) -> Result<Vec<Damaged>> {
    const DAMAGE: &str = "UPDATE entries_packs SET body = x'00'";
    world.execute("CREATE TABLE intact AS SELECT * FROM entries_packs")?;
    world.execute(DAMAGE)?;
    let packs = tool(world)?;
    let verified = world.finish_outside(packs.verify(None, None, |_| {}))?;
    world.execute("DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM intact")?;
    let packs = tool(world)?;
    let damaged = RuntimePacks::<i64>::damage(&verified, true);
    let damaged = damaged.map(|damage| Ok((damage, world.finish_outside(packs.rows_of(damage))?)));
    let damaged = damaged.collect::<Result<_>>()?;
    world.execute(DAMAGE)?;
    Ok(damaged)
}

fn pairs() -> impl Iterator<Item = Pair> {
    let kinds = (0..KINDS.len()).flat_map(|i| (i..KINDS.len()).map(move |j| [KINDS[i], KINDS[j]]));
    let has_key = |kind: &OperationKind| {
        matches!(
            kind,
            OperationKind::Put | OperationKind::Update | OperationKind::Delete | OperationKind::Get
        )
    };
    kinds.flat_map(move |kinds| {
        let keys = if kinds.iter().any(has_key) { &[0, 1][..] } else { &[0] };
        keys.iter().map(move |key| Pair { kinds, key: *key })
    })
}

fn all(pair: Pair, mutation: Option<Mutation>) -> Result<u64> {
    match pair.has(OperationKind::Erase) {
        true => Pairs::<InThree>::all(pair, mutation),
        false => Pairs::<Raw>::all(pair, mutation),
    }
}

#[test]
fn all_schedules_of_each_pair_of_calls_are_linearizable() -> Result {
    let mut schedules = 0;
    for pair in pairs() {
        let count = all(pair, None)?;
        println!("{pair:?}: {count}");
        schedules += count;
    }
    println!("{schedules} schedules");
    Ok(())
}

/// Runs all schedules of two clients that open a new table, and returns their number.
fn all_openings<E: Encoding<Vec<u8>>>() -> Result<u64> {
    let mut world = World::<E>::with(keyring()?, false)?;
    let (mut turns, mut schedules) = (Turns::default(), 0);
    loop {
        world.execute("DELETE FROM entries_packs; DELETE FROM entries_meta")?;
        let open = || {
            Table::<E>::open((&world.keyring).into(), "entries".into(), Some(Settings::default()))
        };
        let mut clients = [Some(open()?), Some(open()?)]
            .map(|call| call.map(|call| SteppedCall::new(call, OUTSIDE)));
        loop {
            let has_statement = |client: &Option<SteppedCall<'_, Table<E>>>| {
                client.as_ref().is_some_and(|client| client.statement().is_some())
            };
            match turns.next([has_statement(&clients[0]), has_statement(&clients[1])]) {
                None => break,
                Some(Turn::Die(client)) => clients[client] = None,
                Some(Turn::Run(client)) => {
                    world.step(clients[client].as_mut().expect("it runs"))?;
                }
            }
        }
        let opened = clients.into_iter().flatten().map(SteppedCall::result);
        let mut opened = opened.collect::<Result<Vec<_>>>()?;
        opened.push(world.table(Some(Settings::default()))?);
        for table in &opened {
            assert_eq!(world.read(table, 0)?, None, "{:?}", turns.steps());
        }
        schedules += 1;
        if !turns.next_schedule() {
            return Ok(schedules);
        }
    }
}

#[test]
fn all_schedules_of_two_clients_that_open_a_table_leave_one_table() -> Result {
    println!("{} schedules", all_openings::<Raw>()? + all_openings::<InThree>()?);
    Ok(())
}

/// Whoever writes to the database cannot make the next process replace a pack that has rows.
#[test]
fn a_pack_with_rows_is_not_replaced() -> Result {
    let mut world = World::<InThree>::with(keyring()?, false)?;
    let table = world.tables[0].clone();
    world.put(&table, 0, &value(7))?;
    world.merge(&table)?;
    world.execute("UPDATE entries_packs SET version = 1")?;
    let table = world.table(Some(Settings::default()))?;
    assert!(world.read(&table, 0).is_err());
    Ok(())
}

/// This proves that a test above can fail. The random schedules find each of the mutations.
#[test]
fn all_schedules_of_an_update_and_a_merger_find_a_mutation() {
    let pair = Pair { kinds: [OperationKind::Update, OperationKind::Merge], key: 1 };
    assert!(all(pair, Some(Mutation::DeletesAnyVersion)).is_err());
}
