//! Cases that take turns on one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use opaque_id_packs::Settings;
use opaque_id_packs::format::{Codec, PackCipher};
use opaque_id_sqlx::{Dialect, Keyring, MasterSecret};
use opaque_id_tests::Result;
use opaque_id_tests::random::Random;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::task::JoinSet;

use crate::report::{Report, Turn};
use crate::table::{Act, Layout, Packs, Record, Set, Table, rows};
use crate::{CLIENTS, Plan, values};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Merging {
    None,
    /// Every second.
    Beside,
    /// Of all rows, when the clients are done: it counts.
    After,
}

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) table: Arc<Table>,
    pub(crate) act: Act,
    pub(crate) clients: usize,
    pub(crate) merging: Merging,
    pub(crate) turn: Duration,
}

pub(crate) struct Bench {
    pub(crate) plan: Plan,
    pub(crate) pool: PgPool,
    pub(crate) keyring: Keyring,
    pub(crate) set: Arc<Set>,
    pub(crate) seed: AtomicU64,
}

impl Bench {
    /// With a connection for each client, and one for the rest.
    pub(crate) async fn connect(
        url: &str,
        plan: Plan,
        set: &Arc<Set>,
        clients: usize,
    ) -> Result<Self> {
        let connections = u32::try_from(clients)? + 1;
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .test_before_acquire(false)
            .connect(url)
            .await?;
        Ok(Self {
            plan,
            pool,
            keyring: Keyring::builder().sealing(0, MasterSecret::generate()).build()?,
            set: Arc::clone(set),
            seed: AtomicU64::new(0),
        })
    }

    pub(crate) async fn execute(&self, sql: &str) -> Result {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await?;
        Ok(())
    }

    pub(crate) async fn number(&self, sql: &str) -> Result<i64> {
        Ok(sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await?)
    }

    pub(crate) fn case(&self, name: &'static str, table: &Arc<Table>, act: Act) -> Case {
        Case {
            name,
            table: Arc::clone(table),
            act,
            clients: CLIENTS,
            merging: Merging::None,
            turn: self.plan.turn,
        }
    }

    pub(crate) async fn fill(&self, tables: &[Arc<Table>], len: usize) -> Result {
        let mut filling = JoinSet::new();
        for table in tables {
            let (table, pool) = (Arc::clone(table), self.pool.clone());
            filling.spawn(async move { table.fill(&pool, len).await });
        }
        while let Some(filled) = filling.join_next().await {
            filled??;
        }
        Ok(())
    }

    /// Fills tables one after the other by a connection of its own: a server process keeps the memory that it has needed.
    pub(crate) async fn fill_by_one(&self, tables: &[Arc<Table>], len: usize) -> Result {
        let options = PgConnectOptions::clone(&self.pool.connect_options());
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.connect_with(options).await?;
        for table in tables {
            table.fill(&pool, len).await?;
        }
        pool.close().await;
        Ok(())
    }

    pub(crate) async fn size(&self, table: &Table) -> Result<f64> {
        let mut bytes = 0;
        for relation in table.relations() {
            bytes += self.number(&format!("SELECT pg_total_relation_size('{relation}')")).await?;
        }
        Ok(bytes as f64 / 1e6)
    }

    /// Reads a table into the kernel's cache, its indexes last.
    pub(crate) async fn prewarm(&self, table: &Table) -> Result {
        for relation in table.relations() {
            let read = format!(
                "SELECT CAST(COALESCE(SUM(pg_prewarm(parts.oid, 'read')), 0) AS int8) FROM \
                 (SELECT c.oid FROM pg_class AS t JOIN pg_class AS c \
                 ON c.oid IN (t.oid, t.reltoastrelid) \
                 OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN (t.oid, t.reltoastrelid)) \
                 WHERE t.oid = CAST('{relation}' AS regclass) ORDER BY c.relkind = 'i', c.relkind DESC) AS parts"
            );
            self.number(&read).await?;
        }
        Ok(())
    }

    pub(crate) async fn measure(
        &self,
        group: &str,
        copies: usize,
        cases: &[Case],
        rounds: usize,
        report: &mut Report,
    ) -> Result {
        let mut turns: Vec<_> = cases.iter().map(|case| (case.name, Vec::new())).collect();
        for _ in 0..rounds {
            for (case, (_, turns)) in cases.iter().zip(&mut turns) {
                turns.push(self.turn(case).await?);
            }
        }
        report.add(group, copies, &turns)
    }

    pub(crate) async fn turn(&self, case: &Case) -> Result<Turn> {
        let before = self.counters().await?;
        let merger = match (case.merging, &case.table.layout) {
            (Merging::Beside, Layout::Packs(packs)) => {
                let (packs, pool) = (packs.clone(), self.pool.clone());
                Some(tokio::spawn(async move {
                    let report = |merged| {
                        if let Err(error) = merged {
                            eprintln!("merger: {error}");
                        }
                    };
                    packs.merge_every(&pool, Duration::from_secs(1), report).await;
                }))
            }
            _ => None,
        };
        let start = Instant::now();
        let mut clients = JoinSet::new();
        for _ in 0..case.clients {
            let (case, pool) = (case.clone(), self.pool.clone());
            let mut random = Random(self.seed.fetch_add(1 << 40, Ordering::Relaxed));
            clients.spawn(async move {
                let mut done = 0_u64;
                while start.elapsed() < case.turn {
                    case.table.act(&pool, case.act, &mut random).await?;
                    done += 1;
                }
                Result::Ok(done)
            });
        }
        let mut done = 0;
        while let Some(client) = clients.join_next().await {
            done += client??;
        }
        if let (Merging::After, Layout::Packs(packs)) = (case.merging, &case.table.layout) {
            packs.merge_all(&self.pool).await?;
        }
        let done = done as f64;
        let per_second = done / start.elapsed().as_secs_f64();
        if let Some(merger) = merger {
            merger.abort();
        }
        let after = self.counters().await?;
        let per_operation = |i: usize| (after[i] - before[i]) as f64 / done;
        Ok(Turn { per_second, wal: per_operation(0), reads: per_operation(1) })
    }

    /// Returns the bytes of the log so far, and the container's reads of disks, which its control group counts.
    pub(crate) async fn counters(&self) -> Result<[i64; 2]> {
        let wal = "SELECT CAST(pg_current_wal_insert_lsn() - '0/0' AS int8)";
        let wal = self.number(wal).await?;
        let mut reads = 0;
        for file in ["blkio/blkio.throttle.io_serviced", "io.stat"] {
            let read = format!("SELECT COALESCE(pg_read_file('/sys/fs/cgroup/{file}', true), '')");
            let text: String =
                sqlx::query_scalar(AssertSqlSafe(read)).fetch_one(&self.pool).await?;
            for line in text.lines() {
                let counted = line.split_once(" Read ").map(|(_, count)| count);
                let counted = counted.or_else(|| line.split_once("rios=")?.1.split(' ').next());
                reads += counted.map_or(Ok(0), str::parse::<i64>)?;
            }
        }
        Ok([wal, reads])
    }
}

impl Table {
    pub(crate) async fn create(
        bench: &Bench,
        set: &Arc<Set>,
        name: &str,
        is_encrypted: Option<bool>,
    ) -> Result<Arc<Self>> {
        let name = format!("{}_{name}", set.name);
        let mut create = format!("CREATE TABLE {name} (id UUID PRIMARY KEY, body BYTEA NOT NULL);");
        let layout = match is_encrypted {
            None => Layout::Plain,
            Some(has_dictionary) => {
                // As that of packs: ciphertext does not compress.
                create += &format!("ALTER TABLE {name} ALTER body SET STORAGE EXTERNAL");
                let dictionary = match has_dictionary {
                    true => Some(values::trained(set, bench.plan.dictionary)?),
                    false => None,
                };
                let cipher = PackCipher::new::<Record>(&bench.keyring, &name);
                Layout::Sealed(Codec::new(3, dictionary)?, cipher)
            }
        };
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&bench.pool).await?;
        Ok(Arc::new(Self::new(name, layout, set)))
    }

    /// With a dictionary of the first rows, if it is to have one.
    pub(crate) async fn create_packs(
        bench: &Bench,
        set: &Arc<Set>,
        name: &str,
        settings: Settings,
        has_dictionary: bool,
    ) -> Result<Arc<Self>> {
        let name = format!("{}_{name}", set.name);
        let create = Packs::create_sql(Dialect::Postgres, &name);
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&bench.pool).await?;
        let packs = Packs::open(&bench.pool, &bench.keyring, &name, settings).await?;
        if has_dictionary {
            packs.put_all(&bench.pool, &rows(set, 0, set.len() / 5)?).await?;
            packs.train(&bench.pool, bench.plan.dictionary).await?;
        }
        Ok(Arc::new(Self::new(name, Layout::Packs(packs), set)))
    }
}
