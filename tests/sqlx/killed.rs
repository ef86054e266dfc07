//! A server that is killed in the middle of its work, and started again: once, or as often as `OPAQUE_ID_TEST_KILLS`
//! says.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use opaque_id_core::External;
use opaque_id_packs::Settings;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_sqlx::{Internal, Keyring, Sequence, UuidMap};
use sqlx::pool::PoolOptions;
use sqlx::{AssertSqlSafe, Pool};
use tokio::task::JoinSet;

use crate::mapping::Invoice;
use crate::shop::{Order, SqlxShop, User};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::keys::number;
use opaque_id_tests::conformance::mapping::{INDEXES, dialect, keyring, map, random};
use opaque_id_tests::conformance::report::Cases;
use opaque_id_tests::conformance::report::Outcome::{self, NotApplicable, Passed};
use opaque_id_tests::conformance::shop::on_tokio;
use opaque_id_tests::kind::Kind;
use opaque_id_tests::servers::{Container, Durability};
use opaque_id_tests::sql::execute;

const WRITERS: u32 = 16;
const MERGERS: u32 = 2;

/// What the server has acknowledged, and what was wrong about it.
#[derive(Default)]
struct Record {
    /// For each index.
    mapped: [HashMap<External<Invoice>, Internal<Invoice>>; 2],
    numbers: BTreeSet<u64>,
    packed: HashMap<Internal<User>, String>,
    lost: usize,
    twice: usize,
    errors: BTreeMap<String, usize>,
}

impl Record {
    fn map(&mut self, which: usize, ids: &[(External<Invoice>, Internal<Invoice>)]) {
        for (external, id) in ids {
            let earlier = self.mapped[which].insert(*external, *id);
            self.twice += usize::from(earlier.is_some_and(|earlier| earlier != *id));
        }
    }

    fn acknowledged(&self) -> usize {
        self.mapped.iter().map(HashMap::len).sum::<usize>() + self.numbers.len() + self.packed.len()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [unique, hashed] = self.mapped.each_ref().map(HashMap::len);
        let (numbers, packed) = (self.numbers.len(), self.packed.len());
        let (lost, twice) = (self.lost, self.twice);
        write!(
            f,
            "acknowledged {unique} mappings (unique), {hashed} (hashed), {numbers} numbers, {packed} packed rows; {lost} lost, {twice} twice"
        )?;
        for (error, count) in &self.errors {
            write!(f, "; {count} × {error}")?;
        }
        Ok(())
    }
}

/// What all writers share.
struct Work {
    theirs: Vec<External<Invoice>>,
    keyring: Keyring,
    record: Mutex<Record>,
    stops: AtomicBool,
}

impl Work {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no writer panics in here")
    }

    /// Until the server has acknowledged so many more.
    async fn wait_for(&self, more: usize) -> Result {
        let wanted = self.record().acknowledged() + more;
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.record().acknowledged() < wanted {
            if Instant::now() > deadline {
                return Err(format!("not {more} in a minute; {}", self.record()).into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

/// The words of what is at the bottom.
fn cause(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

fn kills() -> Result<Option<u32>> {
    let kills = std::env::var("OPAQUE_ID_TEST_KILLS").ok();
    Ok(kills.map(|kills| kills.parse()).transpose()?)
}

macro_rules! killed {
    ($name:ident, $database:ty) => {
        pub(crate) fn $name() -> Cases {
            /// One call of each kind; none is acknowledged if one fails.
            async fn write_once(
                pool: &Pool<$database>,
                map: &UuidMap<Invoice>,
                which: usize,
                sequence: &Sequence<Order>,
                packs: &PackTable<User, String>,
                theirs: &[External<Invoice>],
                work: &Work,
            ) -> Result {
                let (one, rest) = theirs.split_first().ok_or("no chunk is empty")?;
                let id = map.get_or_insert(pool, *one).await?;
                work.record().map(which, &[(*one, id)]);

                let ours = map.issue_all(pool, 3).await?;
                work.record().map(which, &ours);

                let number = number(sequence.next(pool).await?);
                let is_new = work.record().numbers.insert(number);
                work.record().twice += usize::from(!is_new);

                let mut transaction = pool.begin().await?;
                let ids = map.get_or_insert_all(&mut transaction, rest).await?;
                let ours = map.issue(&mut transaction).await?;
                transaction.commit().await?;
                let theirs = rest.iter().copied().zip(ids).chain([ours]);
                work.record().map(which, &Vec::from_iter(theirs));

                let row = (Internal::generate(), format!("row {number}"));
                packs.put(pool, row.0, &row.1).await?;
                work.record().packed.extend([row]);
                Ok(())
            }

            async fn merge(pool: Pool<$database>, packs: PackTable<User, String>, work: Arc<Work>) {
                while !work.stops.load(Ordering::Relaxed) {
                    if let Err(error) = packs.merge_all(&pool).await {
                        *work.record().errors.entry(cause(&error)).or_default() += 1;
                    }
                }
            }

            async fn write(
                pool: Pool<$database>,
                packs: PackTable<User, String>,
                writer: usize,
                work: Arc<Work>,
            ) {
                let which = writer % 2;
                let map = map::<SqlxShop<$database>>(INDEXES[which]);
                let sequence = Sequence::new().block(10);
                let mut theirs = work.theirs.clone();
                theirs.rotate_left(writer * 31);
                for theirs in theirs.chunks(3).cycle() {
                    if work.stops.load(Ordering::Relaxed) {
                        return;
                    }
                    let written =
                        write_once(&pool, &map, which, &sequence, &packs, theirs, &work).await;
                    if let Err(error) = written {
                        *work.record().errors.entry(cause(&*error)).or_default() += 1;
                    }
                }
            }

            /// Writes until the server has acknowledged so many more, and then does what is wanted.
            async fn round(
                url: &str,
                work: &Arc<Work>,
                more: usize,
                end: impl FnOnce() -> Result,
            ) -> Result {
                let options = PoolOptions::new().acquire_timeout(Duration::from_secs(2));
                let pool = options.max_connections(WRITERS + MERGERS).connect(url).await?;
                work.stops.store(false, Ordering::Relaxed);
                let packs =
                    PackTable::open(&pool, &work.keyring, "entries", Settings::inline()).await?;
                let mut writers = JoinSet::new();
                for writer in 0..WRITERS as usize {
                    writers.spawn(write(pool.clone(), packs.clone(), writer, Arc::clone(work)));
                }
                for _ in 0..MERGERS {
                    writers.spawn(merge(pool.clone(), packs.clone(), Arc::clone(work)));
                }
                let done = work.wait_for(more).await.and_then(|()| end());
                work.stops.store(true, Ordering::Relaxed);
                while let Some(written) = writers.join_next().await {
                    written?;
                }
                done
            }

            /// Each UUID has one integer and each integer one UUID, and nothing that the server said was
            /// in vain.
            async fn check(url: &str, work: &Work) -> Result {
                let pool = Pool::<$database>::connect(url).await?;
                for (which, index) in INDEXES.into_iter().enumerate() {
                    let (externals, ids): (Vec<_>, Vec<_>) =
                        work.record().mapped[which].clone().into_iter().unzip();
                    let found =
                        map::<SqlxShop<$database>>(index).find_all(&pool, &externals).await?;
                    let counts: (i64, i64, i64) = sqlx::query_as(AssertSqlSafe(format!(
                        "SELECT COUNT(*), COUNT(DISTINCT id), COUNT(DISTINCT uuid) FROM {index}_ids"
                    )))
                    .fetch_one(&pool)
                    .await?;
                    let mut record = work.record();
                    record.lost += found.iter().filter(|found| found.is_none()).count();
                    let others = ids.iter().zip(&found);
                    record.twice += others
                        .filter(|(id, found)| found.is_some_and(|found| found != **id))
                        .count();
                    record.twice += usize::try_from(2 * counts.0 - counts.1 - counts.2)?;
                }
                let packs =
                    PackTable::<User, String>::open_existing(&pool, &work.keyring, "entries")
                        .await?;
                let (ids, values): (Vec<_>, Vec<_>) =
                    work.record().packed.clone().into_iter().unzip();
                let found = packs.get_all(&pool, &ids).await?;
                let verified = packs.verify(&pool, |_| {}).await?;
                if !verified.problems.is_empty() {
                    return Err(format!("{:?}", verified.problems).into());
                }
                let lost = values
                    .iter()
                    .zip(&found)
                    .filter(|(value, found)| found.as_ref() != Some(value));
                work.record().lost += lost.count();
                match work.record() {
                    record if record.lost + record.twice == 0 => Ok(()),
                    record => Err(record.to_string().into()),
                }
            }

            fn run(kind: Kind) -> Result<Outcome> {
                let mut server = Container::start(kind, Durability::Full)?;
                execute(kind, &server.url, "CREATE DATABASE shop")?;
                let url = |server: &Container| {
                    let start = server.url.rsplit_once('/').map_or("", |(start, _)| start);
                    format!("{start}/shop")
                };
                for index in INDEXES {
                    let create = map::<SqlxShop<$database>>(index).create_sql(dialect(kind));
                    execute(kind, &url(&server), &create)?;
                }
                execute(kind, &url(&server), &Sequence::<Order>::create_sql(dialect(kind)))?;
                execute(
                    kind,
                    &url(&server),
                    &PackTable::<User, String>::create_sql(dialect(kind), "entries"),
                )?;
                let work = Arc::new(Work {
                    theirs: random(600),
                    keyring: keyring()?,
                    record: Mutex::default(),
                    stops: AtomicBool::default(),
                });
                let kills = kills()?;
                for _ in 0..kills.unwrap_or(1) {
                    on_tokio(round(&url(&server), &work, 1_000, || server.kill()))?;
                    server.start_again()?;
                    on_tokio(check(&url(&server), &work))?;
                }
                // It goes on where it was.
                on_tokio(round(&url(&server), &work, 500, || Ok(())))?;
                on_tokio(check(&url(&server), &work))?;
                if let Some(kills) = kills {
                    println!("{kind}: {kills} kills, {}", work.record());
                }
                Ok(Passed)
            }

            vec![("acknowledged_rows_survive_a_killed_server", |database| {
                match database.kind.is_contained() {
                    true => run(database.kind),
                    false => Ok(NotApplicable),
                }
            })]
        }
    };
}

killed!(postgres, sqlx::Postgres);
killed!(mysql, sqlx::MySql);
killed!(sqlite, sqlx::Sqlite);
