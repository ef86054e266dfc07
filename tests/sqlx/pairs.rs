//! All schedules of each pair of calls of a map, on two connections.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use opaque_id_sql::call::{Call, ConnectionState, Reply};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::mapping::{Index, Mapping};
use opaque_id_sql::statement::{Answer, Cell, Column, Statement};
use opaque_id_sqlx::{External, Internal, OpaqueId, SupportedDatabase, run};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::mapping::{INDEXES, dialect};
use opaque_id_tests::conformance::report::Cases;
use opaque_id_tests::conformance::report::Outcome::{self, Passed};
use opaque_id_tests::conformance::shop::on_tokio;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::turns::{Turn, Turns};
use sqlx::Pool;
use sqlx::pool::PoolOptions;

#[derive(OpaqueId)]
#[opaque_id(prefix = "pair", key = i64, form = "mapped")]
struct Pair;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    /// The call maps one UUID that has no mapping.
    GetOrInsert,
    /// The call maps a UUID that has a mapping, and two that have none.
    GetOrInsertAll,
    Issue,
    /// The call deletes a UUID that has a mapping, and one that has none.
    Delete,
}

const KINDS: [CallKind; 4] =
    [CallKind::GetOrInsert, CallKind::GetOrInsertAll, CallKind::Issue, CallKind::Delete];

/// The mappings that a call has returned.
type Mapped = Vec<(External<Pair>, Internal<Pair>)>;

/// The error of a call on one statement: a driver's.
type Never = std::convert::Infallible;

pub(crate) fn cases<DB: SupportedDatabase>() -> Cases {
    vec![("all_schedules_of_two_calls_of_a_map_leave_one_mapping", |database| {
        on_tokio(all::<DB>(database))
    })]
}

async fn all<DB: SupportedDatabase>(database: &Database) -> Result<Outcome> {
    let url = &database.url;
    let one = || PoolOptions::<DB>::new().max_connections(1);
    let connections = [one().connect(url).await?, one().connect(url).await?];
    let mut schedules = 0;
    for index in INDEXES {
        let map = Mapping::<Pair>::new(name(index), index);
        database.execute(&map.create_sql(dialect(database.kind)))?;
        for (i, first) in KINDS.into_iter().enumerate() {
            for second in &KINDS[i..] {
                let mut turns = Turns::default();
                loop {
                    let pair = [first, *second];
                    schedule(database.kind, &connections, index, pair, &mut turns).await.map_err(
                        |error| format!("{pair:?}, {index}, steps {:?}: {error}", turns.steps()),
                    )?;
                    schedules += 1;
                    if !turns.next_schedule() {
                        break;
                    }
                }
            }
        }
        database.execute(&map.drop_sql())?;
    }
    println!("{}: {schedules} schedules", database.kind);
    Ok(Passed)
}

fn name(index: Index) -> &'static str {
    match index {
        Index::Unique => "pair_ids",
        _ => "pair_hashes",
    }
}

/// Runs one schedule, and checks the resulting mappings.
async fn schedule<DB: SupportedDatabase>(
    kind: Engine,
    connections: &[Pool<DB>; 2],
    index: Index,
    pair: [CallKind; 2],
    turns: &mut Turns,
) -> Result {
    // The processes have just started.
    let maps = [(); 2].map(|()| Mapping::<Pair>::new(name(index), index));
    let [known, new, other] = [(); 3].map(|()| External::<Pair>::random());
    let state = ConnectionState { dialect: dialect(kind), is_in_transaction: false };
    let before = run(&connections[0], maps[0].get_or_insert(&[known])).await;
    let before = before.map_err(|_| "no first mapping")?[0];
    let (one, all, deleted) = ([new], [known, new, other], [known, other]);
    let call = |client: usize| -> Call<'_, Mapped, _> {
        let map = &maps[client];
        let mapped = |asked: &[External<Pair>]| {
            let asked = asked.to_vec();
            move |ids: Vec<Internal<Pair>>| asked.into_iter().zip(ids).collect()
        };
        match pair[client] {
            CallKind::GetOrInsert => map.get_or_insert(&one).map(mapped(&one)),
            CallKind::GetOrInsertAll => map.get_or_insert(&all).map(mapped(&all)),
            CallKind::Issue => map.issue(2),
            CallKind::Delete => map.delete(&deleted).map(|_| Vec::new()),
        }
    };
    let mut clients = [0, 1].map(|client| Some(call(client)));
    let mut next: [Option<Statement>; 2] = [None, None];
    let mut returned: Mapped = Vec::new();
    for (client, statement) in next.iter_mut().enumerate() {
        *statement = advance(&mut clients[client], state, &mut returned)?;
    }
    while let Some(turn) = turns.next([next[0].is_some(), next[1].is_some()]) {
        match turn {
            Turn::Die(client) => (clients[client], next[client]) = (None, None),
            Turn::Run(client) => {
                let statement = next[client].take().ok_or("a statement")?;
                let answer = answer(&connections[client], statement).await?;
                if let Some(running) = &mut clients[client] {
                    running.reply(answer.map_or(Reply::Failed(Failure::Duplicate), Reply::Answer));
                }
                next[client] = advance(&mut clients[client], state, &mut returned)?;
            }
        }
    }
    let asked: Vec<_> = all.into_iter().chain(returned.iter().map(|(uuid, _)| *uuid)).collect();
    let found = run(&connections[0], maps[0].find(&asked)).await;
    let found = found.map_err(|_| "nothing can be found")?;
    let left: BTreeMap<_, _> = asked.iter().zip(found).collect();
    let is_deleted = pair.contains(&CallKind::Delete);
    for (uuid, id) in &returned {
        // A deletion may come later, and an insert after that gives another integer.
        let may_differ = is_deleted && (*uuid == known || *uuid == other);
        let found = left.get(uuid).copied().flatten();
        if found != Some(*id) && !may_differ {
            return Err("a mapping that was returned is not there".into());
        }
    }
    if !is_deleted && left.get(&known).copied().flatten() != Some(before) {
        return Err("the first mapping has changed".into());
    }
    let mut ids: BTreeMap<_, External<Pair>> = BTreeMap::new();
    for (uuid, id) in returned.iter().map(|(uuid, id)| (*uuid, *id)).chain([(known, before)]) {
        if ids.insert(id, uuid).is_some_and(|before| before != uuid) {
            return Err("two UUIDs have one integer".into());
        }
    }
    let doubles = format!("SELECT COUNT(*) - COUNT(DISTINCT uuid) FROM {}", name(index));
    let doubles = Statement::new(doubles, Vec::new(), &[Column::Integer]);
    match answer(&connections[0], doubles).await? {
        Some(Answer::Rows(rows)) if rows == [[Cell::Integer(0)]] => {}
        _ => return Err("a UUID has two integers".into()),
    }
    let empty = Statement::new(format!("DELETE FROM {}", name(index)), Vec::new(), &[]);
    answer(&connections[0], empty).await.map(drop)
}

/// Resumes a call until its next statement. At its end, adds the mappings that it has returned.
fn advance<E: std::fmt::Display>(
    client: &mut Option<Call<'_, Mapped, E>>,
    state: ConnectionState,
    returned: &mut Mapped,
) -> Result<Option<Statement>> {
    let Some(call) = client else { return Ok(None) };
    match call.next(state) {
        ControlFlow::Continue(statement) => Ok(Some(statement)),
        ControlFlow::Break(Ok(mapped)) => {
            returned.extend(mapped);
            *client = None;
            Ok(None)
        }
        ControlFlow::Break(Err(error)) => Err(error.to_string().into()),
    }
}

/// Runs one statement. Returns `None` if it violates a unique index.
async fn answer<DB: SupportedDatabase>(
    connection: &Pool<DB>,
    statement: Statement,
) -> Result<Option<Answer>> {
    let one = Call::<_, Never>::new(Duration::from_secs(10), |session| async move {
        session.connect().await;
        Ok(session.try_run(statement).await)
    });
    run(connection, one).await.map_err(|_| "a statement failed".into())
}
