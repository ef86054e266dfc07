//! The cases of a server's refusals and waits, and of the number of requests. Each case is written once.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opaque_id_sql::dialect::Retry;
use opaque_id_sql::mapping::Index;
use sqlx::{Connection, SqliteConnection};

use crate::conformance::cases::error;
use crate::conformance::keys::KeyShop;
use crate::conformance::mapping::{
    INDEXES, MapShop, Row, create, dialect, indexes, map, on_another_connection, random,
};
use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::IdOf;
use crate::database::Database;
use crate::engine::Engine;
use crate::sql;
use crate::{Result, cases};

/// Returns all cases by name for one adapter.
pub fn all<S: MapShop + KeyShop>() -> Cases {
    cases! {
        S, |shop, database, case| case(&shop, database).await;
        round_trips_match_the_guide
        a_wait_for_a_lock_is_a_conflict
        a_conflict_at_commit_is_recognized
        a_lost_connection_is_recognized
        a_limit_of_rows_hides_no_mapping
        integers_that_are_used_up
        a_column_of_text_is_an_error
    }
}

/// The server's own log has the statements of the guide's table for each call.
async fn round_trips_match_the_guide<S: MapShop + KeyShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    // The log of such a server is not available.
    if database.kind == Engine::Sqlite || !database.kind.is_contained() {
        return Ok(NotApplicable);
    }
    let is_mysql = database.kind != Engine::Postgres;
    // diesel does not return the last insert id.
    let has_no_insert_id = is_mysql && S::ADAPTER.starts_with("diesel");
    let maps = [create::<S>(database, Index::Unique)?, create::<S>(database, Index::Hashed)?];
    database.execute(&S::create_sequences_sql(dialect(database.kind)))?;
    let log = Log::start(database)?;
    let shop = match database.kind {
        // Its setting holds for new connections.
        Engine::Postgres => &S::connect(database).await?,
        _ => shop,
    };
    let extra = usize::from(has_no_insert_id);
    let of_list = usize::from(is_mysql);
    let mut expected = Vec::new();
    for (map, index) in maps.iter().zip(INDEXES) {
        let mut sends = |call: &str, count: Option<usize>| -> Result {
            expected.push((format!("{index}: {call}"), count));
            log.mark()
        };
        let (of_one, of_all) = match index {
            Index::Unique if !is_mysql => (1, 1),
            Index::Unique => (2 + extra, 2 + of_list),
            _ => (3, 3),
        };
        shop.get_or_insert(map, random(1)[0]).await?;
        shop.next(&S::sequence(1_000)).await?;
        sends("what is asked once per process, or for the first block of all", None)?;
        let (one, first) = shop.issue(map).await?;
        sends("issue", Some(1 + extra))?;
        let issued = shop.issue_all(map, 100).await?;
        sends("issue_all", Some(1 + of_list))?;
        let (all, ids): (Vec<_>, Vec<_>) = issued.into_iter().unzip();
        shop.find(map, one).await?;
        sends("find", Some(1))?;
        shop.find_all(map, &all).await?;
        sends("find_all", Some(1))?;
        shop.to_external(map, first).await?;
        sends("to_external", Some(1))?;
        shop.to_external_all(map, &ids).await?;
        sends("to_external_all", Some(1))?;
        let rows = ids.iter().map(|id| Row { id: *id });
        shop.view_all(map, rows.collect()).await?;
        sends("view_all", Some(1))?;
        shop.get_or_insert(map, one).await?;
        sends("get_or_insert, known", Some(1))?;
        shop.get_or_insert_all(map, &all).await?;
        sends("get_or_insert_all, known", Some(1))?;
        shop.get_or_insert(map, random(1)[0]).await?;
        sends("get_or_insert, new", Some(of_one))?;
        shop.get_or_insert_all(map, &random(100)).await?;
        sends("get_or_insert_all, new", Some(of_all))?;
        shop.delete(map, one).await?;
        sends("delete", Some(1))?;
        shop.delete_all(map, &all).await?;
        sends("delete_all", Some(1))?;
        shop.next(&S::sequence(1_000)).await?;
        sends("next", Some(1 + extra))?;
    }
    let sent = log.read()?;
    assert!(sent.len() >= expected.len());
    for ((call, expected), sent) in expected.into_iter().zip(sent) {
        assert_eq!(sent, expected.unwrap_or(sent), "{call}");
    }
    Ok(Passed)
}

/// The log of a server while it is on.
struct Log<'d> {
    database: &'d Database,
    _only: Option<MutexGuard<'static, ()>>,
}

impl<'d> Log<'d> {
    /// If it is on for all sessions or none, one test uses it at a time.
    fn start(database: &'d Database) -> Result<Self> {
        static MYSQL: Mutex<()> = Mutex::new(());
        static MARIADB: Mutex<()> = Mutex::new(());
        let only = match database.kind {
            Engine::Mysql => Some(&MYSQL),
            Engine::Mariadb => Some(&MARIADB),
            Engine::Postgres | Engine::Sqlite => None,
        };
        let log = Self {
            database,
            _only: only.map(|only| only.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        match database.kind {
            Engine::Postgres => {
                let name = database.name();
                database.execute(&format!("ALTER DATABASE {name} SET log_statement = 'all'"))?;
            }
            _ => database.execute("TRUNCATE mysql.general_log; SET GLOBAL log_output = 'TABLE', GLOBAL general_log = ON")?,
        }
        Ok(log)
    }

    /// Counts later requests separately.
    fn mark(&self) -> Result {
        let mark = self.text_of_mark();
        self.database.execute(&format!("SELECT '{mark}'"))
    }

    fn text_of_mark(&self) -> String {
        format!("mark of {}", self.database.name())
    }

    /// Returns the number of requests about mappings and sequences before each mark.
    fn read(&self) -> Result<Vec<usize>> {
        let database = self.database;
        let sessions = database.sessions()?;
        let mark = self.text_of_mark();
        let log = match database.kind {
            Engine::Postgres => {
                let id = database.container_id().ok_or("not a container")?;
                let output = Command::new("docker").args(["logs", id]).output()?;
                let pids: BTreeSet<String> =
                    sessions.lines().map(|pid| format!("[{pid}]")).collect();
                let is_sent = |line: &&str| {
                    let words: Vec<&str> = line.split_whitespace().take(6).collect();
                    let is_of_session = words.iter().any(|word| pids.contains(*word));
                    (is_of_session || line.contains(&mark))
                        && (words.contains(&"execute") || words.contains(&"statement:"))
                };
                let log = String::from_utf8_lossy(&output.stderr);
                Vec::from_iter(log.lines().filter(is_sent)).join("\n")
            }
            _ => {
                let sessions = sessions.replace('\n', ",");
                sql::lines(
                    database.kind,
                    database.server_url(),
                    &format!(
                        "SELECT CONVERT(argument USING latin1) FROM mysql.general_log \
                         WHERE command_type IN ('Query', 'Execute') \
                         AND (thread_id IN ({sessions}) OR argument = 'SELECT ''{mark}''')"
                    ),
                )?
            }
        };
        let is_ours = |line: &&str| {
            ["que_ids", "hashed_ids", "opaque_id_sequences", "LAST_INSERT_ID"]
                .iter()
                .any(|name| line.contains(name))
        };
        let parts = log.split(&mark);
        Ok(parts.map(|part| part.lines().filter(is_ours).count()).collect())
    }
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        if self.database.kind != Engine::Postgres {
            let off = self.database.execute("SET GLOBAL general_log = OFF");
            off.expect("the server is there");
        }
    }
}

/// A wait for a lock is a conflict in the caller's transaction and outside of it, once, in any language of
/// the server's messages.
async fn a_wait_for_a_lock_is_a_conflict<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    let prepare = match database.kind {
        Engine::Sqlite => return Ok(NotApplicable),
        Engine::Postgres => "SET lock_timeout = '200ms'",
        Engine::Mysql | Engine::Mariadb => {
            "SET SESSION innodb_lock_wait_timeout = 1, SESSION lc_messages = 'de_DE'"
        }
    };
    if database.kind == Engine::Postgres {
        let name = database.name();
        database.execute(&format!("ALTER DATABASE {name} SET lock_timeout = '200ms'"))?;
    }
    for index in indexes() {
        let map = &create::<S>(database, index)?;
        let theirs = &random::<S::Invoice>(3);
        let mut waited = Vec::new();
        let wait = || {
            waited.push(on_another_connection(database, async |shop: S| {
                shop.in_a_transaction(map, prepare, theirs, || {}, &[], true).await
            }));
            if database.kind == Engine::Postgres {
                waited.push(on_another_connection(database, async |shop: S| {
                    let map = S::retry_for(map.clone(), Duration::ZERO);
                    shop.get_or_insert_all(&map, theirs).await
                }));
            }
        };
        shop.in_a_transaction(map, "", theirs, wait, &[], false).await?;
        for waited in waited {
            let error = error::<Vec<IdOf<S::Invoice>>>(waited);
            assert!(error.contains("retry the whole transaction"), "{error}");
        }
    }
    Ok(Passed)
}

/// The adapter's `retry` recognizes the conflict after any reaction of the ORM. MySQL and MariaDB have
/// such conflicts only in clusters.
async fn a_conflict_at_commit_is_recognized<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    const COUNT: &str = "INSERT INTO probe SELECT COUNT(*) FROM probe";
    const UPDATE: &str = "UPDATE probe SET n = n + 1";
    // A group of MySQL writes to no table without a primary key. PostgreSQL's transactions insert the same.
    let key = match database.kind {
        Engine::Postgres => "",
        _ => " PRIMARY KEY",
    };
    database
        .execute(&format!("CREATE TABLE probe (n BIGINT{key}); INSERT INTO probe VALUES (0)"))?;
    let mut reader = None;
    let said = match database.kind {
        // Each counts without the row of the other.
        Engine::Postgres => {
            let serializable =
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE";
            let theirs = format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {COUNT}; COMMIT");
            let theirs = || database.execute(&theirs);
            shop.retry_at_commit(serializable, COUNT, theirs).await?
        }
        // The file cannot be written while it is read.
        Engine::Sqlite => {
            let read = || {
                reader = Some(sql::on_a_thread(async || {
                    let mut reader = SqliteConnection::connect(&database.url).await?;
                    let select = sqlx::raw_sql("BEGIN; SELECT n FROM probe");
                    select.execute(&mut reader).await?;
                    Ok(reader)
                })?);
                Ok(())
            };
            shop.retry_at_commit("PRAGMA busy_timeout = 0", UPDATE, read).await?
        }
        Engine::Mysql | Engine::Mariadb if database.kind.is_contained() => {
            return Ok(NotApplicable);
        }
        Engine::Mysql | Engine::Mariadb => {
            // On the same node it would wait for this transaction.
            let elsewhere = || {
                let update = format!("SET SESSION innodb_lock_wait_timeout = 1; {UPDATE}");
                let mut tries = (0..10).map(|_| database.execute(&update));
                tries.find(Result::is_ok).ok_or("expected a cluster")?
            };
            shop.retry_at_commit("SET @a = 1", UPDATE, elsewhere).await?
        }
    };
    assert_eq!(said, Some(Retry::Again));
    Ok(Passed)
}

/// A server or a pooler closes connections for maintenance, because they were idle, or on request. MySQL and
/// MariaDB report this only to the next statement.
async fn a_lost_connection_is_recognized<S: MapShop>(_: &S, database: &Database) -> Verdict {
    const UPDATE: &str = "UPDATE probe SET n = n + 1";
    if database.kind == Engine::Sqlite {
        return Ok(NotApplicable);
    }
    database.execute("CREATE TABLE probe (n BIGINT PRIMARY KEY); INSERT INTO probe VALUES (0)")?;
    let shop = S::connect(database).await?;
    let close = || database.close_connections();
    let said = shop.retry_at_commit("SELECT 1", UPDATE, close).await?;
    assert_eq!(said, Some(Retry::Elsewhere));
    if database.kind != Engine::Postgres {
        let idle = || {
            std::thread::sleep(Duration::from_secs(2));
            Ok(())
        };
        let shop = S::connect(database).await?;
        let said = shop.retry_at_commit("SET SESSION wait_timeout = 1", UPDATE, idle).await?;
        assert_eq!(said, Some(Retry::Elsewhere));
    }
    Ok(Passed)
}

/// MySQL and MariaDB omit rows from an answer without an error.
async fn a_limit_of_rows_hides_no_mapping<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    if !matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        return Ok(NotApplicable);
    }
    for index in indexes() {
        let map = &create::<S>(database, index)?;
        for limit in [0, 1, 3] {
            let (known, new) = (random(5), random(5));
            let before = shop.get_or_insert_all(map, &known).await?;
            let limited = format!("SET SESSION sql_select_limit = {limit}");
            let both = [&known[..], &new].concat();
            let found = shop.in_a_transaction(map, &limited, &known, || {}, &both, true).await?;
            let after = shop.find_all(map, &both).await?.into_iter().flatten();
            let expected: Vec<_> = before.into_iter().chain(after).collect();
            assert_eq!(found, expected);
        }
    }
    Ok(Passed)
}

/// The row with the next integer belongs to another UUID.
async fn integers_that_are_used_up<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    const LAST: &str = "9223372036854775807";
    for index in indexes() {
        let map = &create::<S>(database, index)?;
        let known = random(1)[0];
        let id = shop.get_or_insert(map, known).await?;
        database.execute(&match database.kind {
            Engine::Postgres => {
                format!("ALTER TABLE {index}_ids ALTER COLUMN id RESTART WITH {LAST}")
            }
            Engine::Mysql | Engine::Mariadb => {
                format!("ALTER TABLE {index}_ids AUTO_INCREMENT = {LAST}")
            }
            Engine::Sqlite => format!("UPDATE sqlite_sequence SET seq = {LAST}"),
        })?;
        let map = &S::retry_for(map.clone(), Duration::from_millis(100));
        if database.kind == Engine::Postgres {
            let counter = format!("the counter of the table {index}_ids");
            let used_up = error(shop.get_or_insert_all(map, &random(3)).await);
            assert!(used_up.contains(&counter), "{used_up}");
            // A replica with rows that were copied without the counter is in this state.
            database.execute(&format!("ALTER TABLE {index}_ids ALTER COLUMN id RESTART WITH 1"))?;
            let behind = error(shop.get_or_insert(map, random(1)[0]).await);
            assert!(behind.contains(&counter), "{behind}");
            let restart = format!("ALTER TABLE {index}_ids ALTER COLUMN id RESTART WITH {LAST}");
            database.execute(&restart)?;
        }
        // Some calls use the last integer and others do not.
        let _ = shop.get_or_insert(map, random(1)[0]).await;
        let alone = error(shop.get_or_insert(map, random(1)[0]).await);
        let many = error(shop.get_or_insert_all(map, &random(3)).await);
        let in_a_transaction = shop.in_a_transaction(map, "", &random(1), || {}, &[], true).await;
        for error in [alone, many, error(in_a_transaction)] {
            assert!(!error.contains("deleted"), "{error}");
        }
        assert_eq!(shop.find(map, known).await?, Some(id));
    }
    Ok(Passed)
}

/// MySQL would compare the text with 16 bytes and find nothing.
async fn a_column_of_text_is_an_error<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    if !matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        return Ok(NotApplicable);
    }
    database.execute(
        "CREATE TABLE unique_ids (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, uuid CHAR(36) NOT NULL UNIQUE)",
    )?;
    let map = &map::<S>(Index::Unique);
    for _ in 0..2 {
        let error = error(shop.find(map, random(1)[0]).await);
        assert!(
            error.contains("found char(36) in the column uuid of the table unique_ids"),
            "{error}"
        );
    }
    Ok(Passed)
}
