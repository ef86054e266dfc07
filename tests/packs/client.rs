//! One client. It runs until its input ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opaque_id_core::{IdRange, Internal, OpaqueId};
use opaque_id_packs::format::FormatError;
use opaque_id_packs::sqlx::{PackError, PackTable};
use opaque_id_packs::{Encoding, Group, Grouped, InGroup, Json, Settings, TableError, Update};
use opaque_id_sqlx::{SupportedDatabase, retry};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::dropped::Moment;
use opaque_id_tests::conformance::packs::secrets;
use opaque_id_tests::linearizable::Op;
use opaque_id_tests::load::connect_within;
use opaque_id_tests::random::Random;
use serde::{Deserialize, Serialize};
use sqlx::{MySql, Pool, Postgres};

use crate::Campaign;
use crate::history::{Note, Written};

/// The purpose of a process.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Writes the settings and ends.
    First,
    Writer,
    Reader,
    Merger,
    /// Rotates, trains, configures, verifies and erases.
    Keeper,
    /// Merges all rows, reads the result and ends.
    Last,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) kind: String,
    pub(crate) campaign: Campaign,
    pub(crate) role: Role,
    pub(crate) process: u64,
    pub(crate) seed: u64,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "entry", key = i64)]
pub(crate) struct Entry;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    number: u64,
    group: u64,
    text: String,
}

impl InGroup for Row {
    fn group(&self) -> Group {
        Group::new(self.group.into())
    }
}

impl Row {
    fn written(&self) -> Written {
        (self.number, self.group)
    }
}

/// The maximum number of rows. Calls choose the first ones more often.
const KEYS: i64 = 240;
const HOT: i64 = 40;

/// The number of groups at a time, and their lifetime. Erased groups have successors.
const GROUPS: usize = 4;
const GROUPS_FOR: u64 = 5_000_000_000;

/// An upper bound of a refusal's duration: a minute, and a margin for a slow machine.
const REFUSED_FOR: Duration = Duration::from_secs(90);

/// The time that a call waits for the server, and that a client waits before it asks again.
const FAILOVER: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the machine's time. All processes share this clock.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_nanos()).expect("before 2554")
}

/// Writes a note in one piece.
fn note(note: &Note) {
    let line = serde_json::to_string(note).expect("a note is JSON") + "\n";
    std::io::stdout().write_all(line.as_bytes()).expect("somebody reads it");
}

fn count(what: &str) {
    note(&Note::Count(what.to_owned()));
}

pub(crate) fn main(job: &Job) -> Result {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match (&*job.kind, job.campaign) {
            ("postgres", Campaign::Grouped) => run::<Postgres, Grouped<Json>>(job).await,
            ("postgres", _) => run::<Postgres, Json>(job).await,
            (_, Campaign::Grouped) => run::<MySql, Grouped<Json>>(job).await,
            _ => run::<MySql, Json>(job).await,
        }
    })
}

/// The address of the server, line by line.
#[derive(Default)]
struct Input {
    url: Mutex<String>,
    is_at_end: AtomicBool,
}

impl Input {
    fn read() -> Result<Arc<Self>> {
        let mut lines = BufReader::new(std::io::stdin()).lines();
        let url = lines.next().ok_or("no URL")??;
        let input = Arc::new(Self { url: url.into(), ..Self::default() });
        let shared = Arc::clone(&input);
        std::thread::spawn(move || {
            for url in lines.map_while(std::result::Result::ok) {
                *shared.lock() = url;
            }
            shared.is_at_end.store(true, Ordering::Relaxed);
        });
        Ok(input)
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.url.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect<DB: SupportedDatabase>(&self) -> Pool<DB> {
        connect_within(&self.lock(), FAILOVER)
    }
}

async fn run<DB: SupportedDatabase, E: Encoding<Row>>(job: &Job) -> Result {
    let input = Input::read()?;
    let sealing = u8::try_from(job.process % 2)?;
    let keyring = secrets(sealing, Some(1 - sealing))?;
    let packs: PackTable<Entry, Row, E> = loop {
        let pool = input.connect::<DB>();
        let opened = match job.role {
            Role::First => {
                let settings = Settings::default().pack_bytes(900);
                let settings = match job.campaign {
                    Campaign::Through => settings.write_through(),
                    _ => settings,
                };
                PackTable::open(&pool, &keyring, "entries", settings).await
            }
            _ => PackTable::open_existing(&pool, &keyring, "entries").await,
        };
        match opened {
            Err(PackError::Database(error)) if retry(&error).is_some() => {
                tokio::time::sleep(PAUSE).await;
            }
            opened => break opened?,
        }
    };
    let packs = if job.process % 4 < 2 { packs.cached(1 << 20) } else { packs };
    let client: Client<'_, E> = Client { job, packs, input, calls: AtomicU64::new(0) };
    if !matches!(job.role, Role::First | Role::Last) {
        tokio::join!(client.work::<DB>(1), client.work::<DB>(2), client.work::<DB>(3));
    }
    let last = match job.role {
        Role::First => Vec::new(),
        Role::Last => vec![Call::Merge(true), Call::Verify, Call::Range(0..=KEYS - 1, false)],
        // Every refusal ends.
        _ => vec![Call::Range(0..=KEYS - 1, false)],
    };
    let mut pool = client.input.connect::<DB>();
    for call in last {
        client.finish(&mut pool, &call, None).await;
    }
    Ok(())
}

struct Client<'j, E> {
    job: &'j Job,
    packs: PackTable<Entry, Row, E>,
    input: Arc<Input>,
    /// The number of calls.
    calls: AtomicU64,
}

enum Call {
    Put(Vec<(i64, Row)>),
    Delete(Vec<i64>),
    DeleteRange(RangeInclusive<i64>),
    Update(i64, Row),
    /// Puts a row and updates one, and commits or rolls back.
    Transaction([(i64, Row); 2], bool),
    Get(Vec<i64>),
    /// The order may be descending.
    Range(RangeInclusive<i64>, bool),
    /// The merger may take all rows.
    Merge(bool),
    Rekey,
    Train,
    Configure(Settings),
    Verify,
    Erase(u64),
}

fn id(key: i64) -> Internal<Entry> {
    Internal::from_key(key).expect("any integer is a key")
}

fn ids(keys: RangeInclusive<i64>) -> IdRange<Internal<Entry>> {
    IdRange::all().within(keys)
}

fn below(random: &mut Random, limit: i64) -> i64 {
    let limit = usize::try_from(limit).expect("positive");
    i64::try_from(random.below(limit)).expect("below an i64")
}

fn key(random: &mut Random) -> i64 {
    let keys = if random.below(2) == 0 { HOT } else { KEYS };
    below(random, keys)
}

fn keys(random: &mut Random, most: i64) -> Vec<i64> {
    (0..=below(random, most)).map(|_| key(random)).collect()
}

fn range(random: &mut Random, most: i64) -> RangeInclusive<i64> {
    let first = key(random);
    first..=(first + below(random, most)).min(KEYS - 1)
}

/// Returns a group of this time in seconds.
fn group(random: &mut Random) -> u64 {
    now() / GROUPS_FOR * GROUPS as u64 + random.below(GROUPS) as u64
}

impl<E: Encoding<Row>> Client<'_, E> {
    async fn work<DB: SupportedDatabase>(&self, task: u64) {
        let mut random = Random(self.job.seed ^ self.job.process << 32 ^ task << 16);
        let mut pool = self.input.connect::<DB>();
        while !self.input.is_at_end.load(Ordering::Relaxed) {
            let call = self.choose(&mut random);
            let moment = match random.below(24) {
                0 => Some(Moment::Polled(random.below(12))),
                1 => Some(Moment::Woken(random.below(12))),
                2 => Some(Moment::After(Duration::from_millis(random.below(7) as u64))),
                _ => None,
            };
            self.finish(&mut pool, &call, moment).await;
            if matches!(self.job.role, Role::Merger | Role::Keeper) {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    fn choose(&self, random: &mut Random) -> Call {
        match (self.job.role, random.below(20)) {
            (Role::Writer, 0..6) => Call::Put(vec![self.row(random)]),
            (Role::Writer, 6..8) => {
                let rows = 2 + random.below(11);
                Call::Put((0..rows).map(|_| self.row(random)).collect())
            }
            (Role::Writer, 8..10) => Call::Delete(keys(random, 3)),
            (Role::Writer, 10) => Call::DeleteRange(range(random, 8)),
            (Role::Writer, 11..14) => {
                let (key, row) = self.row(random);
                Call::Update(key, row)
            }
            (Role::Writer, 14..16) => {
                Call::Transaction([self.row(random), self.row(random)], random.below(3) > 0)
            }
            (Role::Reader, 0..4) => Call::Get(keys(random, 100)),
            (Role::Reader, 4..8) => Call::Range(range(random, 100), random.below(2) == 0),
            (Role::Merger, case) => Call::Merge(case < 10),
            (Role::Keeper, 0..3) => Call::Rekey,
            // A lost dictionary has a successor only after a minute: see docs/OPERATIONS.md.
            (Role::Keeper, 3..6) if self.job.campaign != Campaign::Forgetful => Call::Train,
            (Role::Keeper, 6..9) => {
                let bytes = [400, 900, 2_000, 6_000][random.below(4)];
                let settings = Settings::default().pack_bytes(bytes).erase_after(Duration::ZERO);
                Call::Configure(match self.job.campaign {
                    Campaign::Through => settings.write_through(),
                    _ => settings,
                })
            }
            (Role::Keeper, 9..11) if self.job.campaign == Campaign::Grouped => {
                Call::Erase(group(random))
            }
            (Role::Keeper, _) => Call::Verify,
            _ => Call::Get(keys(random, 1)),
        }
    }

    /// Returns a row with a value that is written only once.
    fn row(&self, random: &mut Random) -> (i64, Row) {
        let group = match self.job.campaign {
            Campaign::Grouped => group(random),
            _ => 0,
        };
        let number = self.job.process << 32 | self.calls.fetch_add(1, Ordering::Relaxed);
        let words = ["login", "logout", "order", "refund", "Zürich"];
        let text = (0..random.below(40)).map(|_| words[random.below(5)]).collect();
        (key(random), Row { number, group, text })
    }

    /// Repeats a call while earlier reads of this client cause its refusal.
    async fn finish<DB: SupportedDatabase>(
        &self,
        pool: &mut Pool<DB>,
        call: &Call,
        moment: Option<Moment>,
    ) {
        let mut refused = None;
        loop {
            let number = self.calls.fetch_add(1, Ordering::Relaxed);
            let attempt = self.attempt(pool, number, call);
            let Some(done) = (match moment {
                Some(moment) if refused.is_none() => moment.drop(attempt).await,
                _ => Some(attempt.await),
            }) else {
                return count("dropped calls");
            };
            let did = |is_effective| {
                note(&Note::Did { call: number, ended: now(), is_effective });
            };
            match done {
                Ok(()) => did(true),
                Err(PackError::Table(TableError::Older { .. })) => {
                    let (since, calls) = refused.get_or_insert((Instant::now(), 0));
                    *calls += 1;
                    if since.elapsed() < REFUSED_FOR {
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    note(&Note::Wrong(format!("a refusal has not ended after {calls} calls")));
                }
                Err(PackError::Database(error)) if retry(&error).is_some() => {
                    count("calls without a server");
                    tokio::time::sleep(PAUSE).await;
                    *pool = self.input.connect();
                    if refused.is_some() || self.job.role == Role::Last {
                        continue;
                    }
                }
                Err(PackError::Conflict(_)) => count("conflicts"),
                Err(PackError::Table(TableError::Outrun)) => count("calls that were outrun"),
                Err(PackError::Table(TableError::Training { .. })) => {
                    count("dictionaries of too few rows")
                }
                Err(PackError::Table(TableError::Unwritable {
                    source: FormatError::ErasedGroup,
                    ..
                })) => {
                    count("writes into erased groups");
                    // A call on many rows may have written some.
                    match call {
                        Call::Put(rows) if rows.len() > 1 => {}
                        _ => did(false),
                    }
                }
                Err(error) => {
                    let location = error.location().and_then(|location| location.expose_id());
                    note(&Note::Wrong(format!("{error:?}, at {location:?}")));
                }
            }
            if let Some((since, calls)) = refused {
                let ms = u64::try_from(since.elapsed().as_millis()).expect("minutes");
                note(&Note::Refused { calls, ms });
            }
            return;
        }
    }

    async fn attempt<DB: SupportedDatabase>(
        &self,
        pool: &Pool<DB>,
        number: u64,
        call: &Call,
    ) -> std::result::Result<(), PackError> {
        let (packs, began) = (&self.packs, now());
        let may = move |effects| note(&Note::May { call: number, began, effects });
        let saw = |values| note(&Note::Saw { began, ended: now(), values });
        let deletes = |keys: &mut dyn Iterator<Item = i64>| {
            may(keys.map(|key| (key, Op::Write(None))).collect());
        };
        match call {
            Call::Put(rows) => {
                // If a key occurs twice, its last row is written.
                let rows: BTreeMap<_, _> = rows.iter().cloned().collect();
                may(rows.iter().map(|(key, row)| (*key, Op::Write(Some(row.written())))).collect());
                let rows: Vec<_> = rows.into_iter().map(|(key, row)| (id(key), row)).collect();
                packs.put_all(pool, &rows).await
            }
            Call::Delete(keys) => {
                deletes(&mut keys.iter().copied());
                let ids: Vec<_> = keys.iter().map(|key| id(*key)).collect();
                packs.delete_all(pool, &ids).await
            }
            Call::DeleteRange(keys) => {
                deletes(&mut keys.clone());
                packs.delete_range(pool, ids(keys.clone())).await.map(drop)
            }
            Call::Update(key, row) => {
                let (key, row) = (*key, row.clone());
                let change = move |before: Option<Row>| {
                    let before = before.map(|before| before.written());
                    may(vec![(key, Op::Change(before, Some(row.written())))]);
                    Update::Put(row.clone())
                };
                packs.update(pool, id(key), change).await
            }
            Call::Transaction([(put, row), (updated, to)], commits) => {
                // The transaction has its own connection, because sqlx 0.9.0 loses a transaction that is dropped before it has
                // begun.
                let pool = pool.clone();
                let begin = tokio::spawn(async move { pool.begin().await });
                let mut transaction =
                    begin.await.expect("sqlx does not panic").map_err(PackError::Database)?;
                packs.put(&mut transaction, id(*put), row).await?;
                let seen = Arc::new(Mutex::new(None));
                let (before, after) = (Arc::clone(&seen), to.clone());
                let change = move |row: Option<Row>| {
                    *before.lock().expect("nobody panics in here") = row.map(|row| row.written());
                    Update::Put(after.clone())
                };
                packs.update(&mut transaction, id(*updated), change).await?;
                if !commits {
                    return transaction.rollback().await.map_err(PackError::Database);
                }
                let before = *seen.lock().expect("nobody panics in here");
                may(vec![
                    (*put, Op::Write(Some(row.written()))),
                    (*updated, Op::Change(before, Some(to.written()))),
                ]);
                transaction.commit().await.map_err(PackError::Database)
            }
            Call::Get(keys) => {
                let ids: Vec<_> = keys.iter().map(|key| id(*key)).collect();
                let rows = packs.get_all(pool, &ids).await?;
                let rows = rows.iter().map(|row| row.as_ref().map(Row::written));
                saw(keys.iter().copied().zip(rows).collect());
                Ok(())
            }
            Call::Range(keys, is_descending) => {
                let mut pages = match is_descending {
                    true => packs.pages_descending(ids(keys.clone())),
                    false => packs.pages(ids(keys.clone())),
                };
                let mut found = BTreeMap::new();
                while let Some(rows) = packs.next_page(pool, &mut pages).await? {
                    found
                        .extend(rows.into_iter().map(|(id, row)| (id.expose_key(), row.written())));
                }
                saw(keys.clone().map(|key| (key, found.get(&key).copied())).collect());
                Ok(())
            }
            Call::Merge(false) => packs.merge(pool).await.map(drop),
            Call::Merge(true) => {
                let left = packs.merge_all(pool).await?.rows_left;
                if self.job.role == Role::Last && left > 0 {
                    note(&Note::Wrong(format!("{left} rows were not merged")));
                }
                Ok(())
            }
            Call::Rekey => packs.rekey(pool, |_| {}).await.map(drop),
            Call::Train => packs.train(pool, 1_024).await,
            Call::Configure(settings) => packs.configure(pool, settings.clone()).await,
            Call::Verify => {
                let is_refusal = |problem: &TableError| matches!(problem, TableError::Older { .. });
                let mut problems = packs.verify(pool, |_| {}).await?.problems;
                problems.retain(|problem| !is_refusal(problem));
                if !problems.is_empty() {
                    note(&Note::Wrong(format!("verification: {problems:?}")));
                }
                Ok(())
            }
            Call::Erase(group) => {
                let erases = |ended| note(&Note::Erases { group: *group, began, ended });
                erases(None);
                packs.erase(pool, Group::new((*group).into())).await?;
                erases(Some(now()));
                Ok(())
            }
        }
    }
}
