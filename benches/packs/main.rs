//! The size and speed of tables of packs on PostgreSQL: `cargo xtask bench packs`. They are relative to plain rows, and to rows that are
//! encrypted one by one with and without a dictionary.
//!
//! All tables have the same rows: Debian's package index from apt, or another set of [`sets`] without it. Rows encrypted one by one are
//! compressed by zstd at level 3 and sealed by AES-256-GCM-SIV. Their dictionary has the size of the packs' dictionary and is trained from
//! the same rows. Each row is read and written with one statement.
//!
//! `--minutes 1` appends for a minute instead of ten; `--only values,grouped,columns,databases,sizes,reads,writes,appends,memory` measures
//! some groups only; `--reads 1000` is another limit of the disk's reads per second; `--git REPOSITORY` adds a set.

mod columns;
mod databases;
mod grouped;
mod groups;
mod report;
mod rows;
mod sets;
mod table;
mod turns;
mod values;

use std::env;
use std::sync::Arc;
use std::time::Duration;

use opaque_id_benches::{is_smoke, publish};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers::{self, Container, Durability, Limits};

use sqlx::{MySql, Postgres, Sqlite};

use self::databases::databases;
use self::report::Report;
use self::table::Set;
use self::turns::Bench;

const CLIENTS: usize = 8;
const WRITERS: usize = 16;

/// Includes the files that the kernel caches. The server leaves about half for them.
const MEMORY: u32 = 192;

const COPIES: [usize; 4] = [1, 2, 4, 6];

#[derive(Clone, Copy)]
struct Plan {
    turn: Duration,
    rounds: usize,
    /// The baseline's turn is a tenth.
    append: Duration,
    append_rounds: usize,
    dictionary: usize,
    copies: &'static [usize],
    reads: u32,
}

impl Plan {
    fn chosen() -> Result<Self> {
        let number = |flag: &str, default: usize| match option(flag) {
            Some(number) => number.parse(),
            None => Ok(default),
        };
        Ok(match is_smoke() {
            true => Self {
                turn: Duration::from_millis(20),
                rounds: 1,
                append: Duration::from_millis(200),
                append_rounds: 1,
                dictionary: 1 << 10,
                copies: &[1],
                reads: 0,
            },
            false => Self {
                turn: Duration::from_secs(1),
                rounds: 5,
                append: Duration::from_secs(20),
                append_rounds: number("--minutes", 10)? * 3,
                dictionary: 64 << 10,
                copies: &COPIES,
                reads: u32::try_from(number("--reads", 100)?)?,
            },
        })
    }
}

fn option(flag: &str) -> Option<String> {
    env::args().skip_while(|arg| arg != flag).nth(1)
}

fn is_chosen(group: &str) -> bool {
    option("--only").is_none_or(|groups| groups.split(',').any(|name| name == group))
}

fn main() -> Result {
    if !Engine::asked_for()?.contains(&Engine::Postgres) {
        return Ok(());
    }
    let plan = Plan::chosen()?;
    let sets = match is_smoke() {
        true => vec![("events", sets::generated(4_000))],
        false => sets::all(),
    };
    let sets = sets.into_iter().map(|(name, values)| Arc::new(Set { name, values }));
    let sets: Vec<_> = sets.collect();
    let runtime = tokio::runtime::Runtime::new()?;
    let mut report = Report::default();
    if is_chosen("values") {
        for set in &sets {
            runtime.block_on(values::values(set, plan.dictionary, &mut report))?;
        }
    }
    if is_chosen("grouped") {
        for set in &sets {
            runtime.block_on(grouped::grouped(set, plan.dictionary, &mut report))?;
        }
    }
    if is_chosen("columns") {
        let servers = servers::start(&[Engine::Postgres])?;
        let database = Database::create(Engine::Postgres, &servers[&Engine::Postgres])?;
        runtime.block_on(columns::columns(&database.url, plan, &mut report))?;
    }
    if is_chosen("databases") {
        let kinds = if is_smoke() { &[Engine::Sqlite][..] } else { &Engine::ALL };
        for (kind, server) in servers::start(kinds)? {
            let database = Database::create(kind, &server)?;
            let (url, set, report) = (&database.url, &sets[0], &mut report);
            runtime.block_on(async {
                match kind {
                    Engine::Postgres => databases::<Postgres>(kind, url, set, plan, report).await,
                    Engine::Sqlite => databases::<Sqlite>(kind, url, set, plan, report).await,
                    Engine::Mysql | Engine::Mariadb => {
                        databases::<MySql>(kind, url, set, plan, report).await
                    }
                }
            })?;
        }
    }
    if is_smoke() {
        let servers = servers::start(&[Engine::Postgres])?;
        let database = Database::create(Engine::Postgres, &servers[&Engine::Postgres])?;
        runtime.block_on(async {
            let bench = Bench::connect(&database.url, plan, &sets[0], WRITERS).await?;
            bench.unlimited(&sets, &mut report).await?;
            bench.limited(&mut report).await
        })?;
    } else {
        let first = sets.first().ok_or("this machine has no rows")?;
        if ["sizes", "reads", "writes", "appends"].into_iter().any(is_chosen) {
            let server = Container::start(Engine::Postgres, Durability::Full)?;
            runtime.block_on(async {
                let bench = Bench::connect(&server.url, plan, first, WRITERS).await?;
                bench.unlimited(&sets, &mut report).await
            })?;
        }
        if is_chosen("memory") {
            let limits = Limits {
                memory: Some(MEMORY),
                iops: Some(plan.reads),
                options: vec!["-c".to_owned(), format!("shared_buffers={}MB", MEMORY / 4)],
            };
            let server = Container::start_limited(Engine::Postgres, &limits)?;
            runtime.block_on(async {
                let bench = Bench::connect(&server.url, plan, first, CLIENTS).await?;
                bench.limited(&mut report).await
            })?;
        }
    }
    publish("packs", &report.csv)
}
