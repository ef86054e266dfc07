//! Cases that take turns on one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use opaque_id_packs::Settings;
use opaque_id_packs::format::Padding;
use opaque_id_sqlx::{Dialect, Keyring, MasterSecret};
use opaque_id_tests::Result;
use opaque_id_tests::random::Random;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Pool, Postgres};
use tokio::task::JoinSet;

use crate::report::{Report, Turn};
use crate::rows::{Rows, create_sql};
use crate::table::{Act, Column, Layout, Packs, Set, Table};
use crate::{CLIENTS, Plan};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Merging {
    None,
    Beside,
    /// Its time counts.
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

pub(crate) struct Bench<DB: Rows = Postgres> {
    pub(crate) plan: Plan,
    pub(crate) pool: Pool<DB>,
    pub(crate) keyring: Keyring,
    pub(crate) set: Arc<Set>,
    pub(crate) seed: AtomicU64,
}

impl<DB: Rows> Bench<DB> {
    pub(crate) async fn connect(
        url: &str,
        plan: Plan,
        set: &Arc<Set>,
        clients: usize,
    ) -> Result<Self> {
        let connections = u32::try_from(clients)? + 1;
        let pool = PoolOptions::new()
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
        DB::execute(&self.pool, sql).await
    }

    pub(crate) async fn plain(&self, set: &Arc<Set>, name: &str) -> Result<Arc<Table>> {
        let name = format!("{}_{name}", set.name);
        self.execute(&create_sql(DB::SQL, &name)).await?;
        Ok(Table::new::<DB>(name, Layout::Plain, set))
    }

    pub(crate) async fn column(
        &self,
        set: &Arc<Set>,
        name: &str,
        has_dictionary: bool,
    ) -> Result<Arc<Table>> {
        let name = format!("{}_{name}", set.name);
        let columns = Column::create_sql(DB::SQL, &name);
        let mut create = create_sql(DB::SQL, &name) + &columns;
        if DB::SQL == Dialect::Postgres {
            // The storage is that of packs because ciphertext does not compress.
            create += &format!("ALTER TABLE {name} ALTER body SET STORAGE EXTERNAL");
        }
        self.execute(&create).await?;
        let settings = Settings::default().padding(Padding::None, Padding::None);
        let column = Column::open(&self.pool, &self.keyring, &name, settings).await?;
        if has_dictionary {
            let size = self.plan.dictionary;
            column.train(&self.pool, set.samples(size), size).await?;
        }
        Ok(Table::new::<DB>(name, Layout::Column(column), set))
    }

    pub(crate) async fn packs(
        &self,
        set: &Arc<Set>,
        name: &str,
        settings: Settings,
        has_dictionary: bool,
    ) -> Result<Arc<Table>> {
        let name = format!("{}_{name}", set.name);
        self.execute(&Packs::create_sql(DB::SQL, &name)).await?;
        let packs = Packs::open(&self.pool, &self.keyring, &name, settings).await?;
        if has_dictionary {
            packs.put_all(&self.pool, &set.rows(0..set.len() / 5)?).await?;
            packs.train(&self.pool, self.plan.dictionary).await?;
        }
        Ok(Table::new::<DB>(name, Layout::Packs(packs), set))
    }
}

impl Bench {
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

    /// A separate connection, because a server process keeps its memory.
    pub(crate) async fn fill_by_one(&self, tables: &[Arc<Table>], len: usize) -> Result {
        let options = PgConnectOptions::clone(&self.pool.connect_options());
        let pool = PoolOptions::<Postgres>::new().max_connections(1);
        let pool = pool.connect_with(options).await?;
        for table in tables {
            table.fill(&pool, len).await?;
        }
        pool.close().await;
        Ok(())
    }

    pub(crate) async fn bytes(&self, table: &Table) -> Result<usize> {
        let mut bytes = 0;
        for relation in table.relations() {
            bytes += self.number(&format!("SELECT pg_total_relation_size('{relation}')")).await?;
        }
        Ok(usize::try_from(bytes)?)
    }

    /// Its indexes last.
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
                    let place = case.table.choose(case.act, &mut random);
                    case.table.act(&pool, case.act, place).await?;
                    done += 1;
                }
                Result::Ok(done)
            });
        }
        let mut done = 0;
        while let Some(client) = clients.join_next().await {
            done += client??;
        }
        if case.merging == Merging::After {
            case.table.merge(&self.pool).await?;
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
