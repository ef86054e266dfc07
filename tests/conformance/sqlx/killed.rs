//! A server that is killed in the middle of its work, and started again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opaque_id_core::External;
use opaque_id_sql::mapping::Index;
use opaque_id_sqlx::Internal;
use sqlx::{AssertSqlSafe, Pool};

use super::SqlxShop;
use super::mapping::Invoice;
use crate::database::execute;
use crate::mapping::{INDEXES, dialect, map, random};
use crate::report::Outcome::{self, NotApplicable, Passed};
use crate::servers::{Container, Durability, Kind};
use crate::shop::on_tokio;
use crate::{Cases, Result};

const TASKS: usize = 8;

type Acknowledged = Mutex<HashMap<External<Invoice>, Internal<Invoice>>>;

macro_rules! killed {
    ($name:ident, $database:ty) => {
        pub(super) fn $name() -> Cases {
            /// Maps until it is told to stop or the server is gone, and keeps what the server said.
            async fn load(
                pool: &Pool<$database>,
                index: Index,
                theirs: &[External<Invoice>],
                acknowledged: &Acknowledged,
                stop: &AtomicBool,
            ) {
                let map = map::<SqlxShop<$database>>(index);
                for chunk in theirs.chunks(3).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let Ok(ids) = map.get_or_insert_all(pool, chunk).await else {
                        return;
                    };
                    let Ok(ours) = map.issue(pool).await else {
                        return;
                    };
                    let mut acknowledged = acknowledged.lock().expect("no task panics in here");
                    for (external, id) in chunk.iter().copied().zip(ids).chain([ours]) {
                        let earlier = acknowledged.insert(external, id);
                        assert!(earlier.is_none_or(|earlier| earlier == id));
                    }
                }
            }

            /// Runs all tasks with both indexes, and `meanwhile` beside them.
            fn run(
                url: &str,
                theirs: &[External<Invoice>],
                acknowledged: &[Acknowledged; 2],
                meanwhile: impl FnOnce() -> Result,
            ) -> Result {
                let stop = &AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let tasks: Vec<_> = (0..TASKS)
                        .map(|task| {
                            scope.spawn(move || {
                                let mut theirs = theirs.to_vec();
                                theirs.rotate_left(task * 31);
                                on_tokio(async {
                                    let pool = Pool::connect(url).await?;
                                    let which = task % 2;
                                    load(&pool, INDEXES[which], &theirs, &acknowledged[which], stop).await;
                                    Ok(())
                                })
                            })
                        })
                        .collect();
                    let done = meanwhile();
                    stop.store(true, Ordering::Relaxed);
                    for task in tasks {
                        task.join().map_err(|_| "a task panicked")??;
                    }
                    done
                })
            }

            /// Until the server has acknowledged this many mappings of each index.
            fn wait_for(count: usize, acknowledged: &[Acknowledged; 2]) -> Result {
                let deadline = Instant::now() + Duration::from_secs(60);
                let len = |ids: &Acknowledged| ids.lock().expect("no task panics in here").len();
                while acknowledged.iter().any(|ids| len(ids) < count) {
                    if Instant::now() > deadline {
                        return Err(format!("not {count} mappings in a minute").into());
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(())
            }

            /// Each UUID has one integer and each integer one UUID, and nothing that the server said was
            /// in vain.
            fn check(url: &str, acknowledged: &[Acknowledged; 2]) -> Result {
                on_tokio(async {
                    let pool = Pool::<$database>::connect(url).await?;
                    for (index, acknowledged) in INDEXES.into_iter().zip(acknowledged) {
                        let (externals, ids): (Vec<_>, Vec<_>) = {
                            let acknowledged = acknowledged.lock().expect("no task is left");
                            acknowledged.iter().map(|(external, id)| (*external, Some(*id))).unzip()
                        };
                        assert_eq!(map::<SqlxShop<$database>>(index).find_all(&pool, &externals).await?, ids);
                        let counts: (i64, i64, i64) = sqlx::query_as(AssertSqlSafe(format!(
                            "SELECT COUNT(*), COUNT(DISTINCT id), COUNT(DISTINCT uuid) FROM {index}_ids"
                        )))
                        .fetch_one(&pool)
                        .await?;
                        assert_eq!((counts.0, counts.0), (counts.1, counts.2), "{index}");
                    }
                    Ok(())
                })
            }

            fn case(kind: Kind) -> Result<Outcome> {
                if !kind.is_contained() {
                    return Ok(NotApplicable);
                }
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
                let theirs = random(600);
                let acknowledged = Default::default();
                run(&url(&server), &theirs, &acknowledged, || {
                    wait_for(500, &acknowledged)?;
                    server.kill()
                })?;
                server.start_again()?;
                check(&url(&server), &acknowledged)?;
                // It goes on where it was.
                run(&url(&server), &theirs, &acknowledged, || wait_for(700, &acknowledged))?;
                check(&url(&server), &acknowledged)?;
                Ok(Passed)
            }

            vec![("mapped_ids_survive_a_killed_server", |database| case(database.kind))]
        }
    };
}

killed!(postgres, sqlx::Postgres);
killed!(mysql, sqlx::MySql);
killed!(sqlite, sqlx::Sqlite);
