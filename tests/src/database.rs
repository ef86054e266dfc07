//! A separate database for each test. It is removed when the test is over, however it ended.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sqlx::mysql::MySqlConnectOptions;

use crate::Result;
use crate::engine::Engine;
use crate::servers::{self, Server};
use crate::sql;

pub struct Database {
    pub kind: Engine,
    pub url: String,
    name: String,
    server_url: String,
    container_id: Option<String>,
    /// The folder of SQLite's file.
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    pub fn create(kind: Engine, server: &Server) -> Result<Self> {
        let container_id = server.container_id().map(str::to_owned);
        Self::on(kind, &server.url, container_id)
    }

    /// Creates another database on the same server.
    pub fn another(&self) -> Result<Self> {
        Self::on(self.kind, &self.server_url, self.container_id.clone())
    }

    fn on(kind: Engine, server_url: &str, container_id: Option<String>) -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("opaque_id_test_{}_{number}", std::process::id());
        let (url, folder) = if kind == Engine::Sqlite {
            // The file is temporary, so it is in memory if there is such a folder.
            let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
            let file = folder.path().join("shop.db");
            (format!("sqlite://{}?mode=rwc", file.display()), Some(folder))
        } else {
            sql::execute(kind, server_url, &format!("CREATE DATABASE {name}"))?;
            let (url, settings) = server_url.split_once('?').unwrap_or((server_url, ""));
            let (start, _) = url.rsplit_once('/').ok_or("a server's URL ends with a database")?;
            let url = format!("{start}/{name}?{settings}");
            if container_id.is_none() {
                wait_for_all(kind, &url)?;
            }
            (url, None)
        };
        Ok(Self {
            kind,
            url,
            name,
            server_url: server_url.to_owned(),
            container_id,
            _folder: folder,
        })
    }

    /// Returns the first column of the first row, read outside of the adapter under test.
    pub fn text(&self, select: &str) -> Result<String> {
        sql::text(self.kind, &self.url, select)
    }

    /// Reads an integer, like [`text`](Self::text).
    pub fn integer(&self, expression: &str, from: &str) -> Result<i64> {
        Ok(self.text(&format!("SELECT CONCAT({expression}) FROM {from}"))?.parse()?)
    }

    /// Returns the last column of all rows, read outside of the adapter under test.
    pub fn lines(&self, select: &str) -> Result<String> {
        sql::lines(self.kind, &self.url, select)
    }

    /// Returns the number of awaited locks of this database according to the server. SQLite has no server.
    pub fn lock_waits(&self) -> Result<Option<usize>> {
        let waits = match self.kind {
            Engine::Sqlite => return Ok(None),
            Engine::Postgres => {
                "SELECT CAST(COUNT(*) AS TEXT) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) \
                 WHERE NOT l.granted AND a.datname = current_database()"
            }
            Engine::Mysql => {
                "SELECT CAST(COUNT(*) AS CHAR) FROM performance_schema.data_lock_waits AS w \
                 JOIN performance_schema.data_locks AS l ON l.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID \
                 WHERE l.OBJECT_SCHEMA = DATABASE()"
            }
            // Its views of locks are a snapshot. It is renewed only if it has not been read for 100 ms.
            Engine::Mariadb => {
                let table = format!("table `{}`.", self.name);
                let status = self.lines("SHOW ENGINE INNODB STATUS")?;
                let waits = |line: &&str| line.contains(&table) && line.contains(" waiting");
                return Ok(Some(status.lines().filter(waits).count()));
            }
        };
        Ok(Some(self.text(waits)?.trim().parse()?))
    }

    /// Returns the number of connections to this database in a transaction on MariaDB. Its view of
    /// transactions is also such a snapshot.
    pub fn mariadb_transactions(&self) -> Result<usize> {
        let ours = self.sessions()?;
        let status = self.lines("SHOW ENGINE INNODB STATUS")?;
        let (mut is_active, mut found) = (false, 0);
        for line in status.lines() {
            if line.starts_with("---TRANSACTION") {
                is_active = line.contains(", ACTIVE");
            } else if let Some(thread) = line.strip_prefix("MariaDB thread id ") {
                let id = thread.split(',').next();
                found += usize::from(is_active && ours.lines().any(|our| Some(our) == id));
            }
        }
        Ok(found)
    }

    pub fn execute(&self, sql: &str) -> Result {
        sql::execute(self.kind, &self.url, sql)
    }

    /// Returns the server's numbers of all sessions in this database, each on a line.
    pub fn sessions(&self) -> Result<String> {
        let name = &self.name;
        let select = match self.kind {
            Engine::Sqlite => return Ok(String::new()),
            Engine::Postgres => {
                format!("SELECT pid::text FROM pg_stat_activity WHERE datname = '{name}'")
            }
            // MySQL's process list fails if a statement of another session contains bytes (error 3854).
            Engine::Mysql => format!(
                "SELECT CAST(processlist_id AS CHAR) FROM performance_schema.threads WHERE processlist_db = '{name}'"
            ),
            Engine::Mariadb => format!(
                "SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE db = '{name}'"
            ),
        };
        sql::lines(self.kind, &self.server_url, &select)
    }

    /// Closes all connections to this database, like a server that shuts down.
    pub fn close_connections(&self) -> Result {
        match self.kind {
            Engine::Sqlite => Ok(()),
            Engine::Postgres => self.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
            ),
            Engine::Mysql | Engine::Mariadb => {
                // One may have ended meanwhile.
                self.sessions()?.lines().for_each(|id| drop(self.execute(&format!("KILL {id}"))));
                Ok(())
            }
        }
    }

    /// Runs statements that begin a transaction, acts while it is open, and rolls it back.
    pub fn hold<R: Send>(&self, begin: &str, act: impl FnOnce() -> R + Send) -> Result<R> {
        sql::hold(self.kind, &self.url, begin, act)
    }

    /// Returns the server's own client. It reads statements from standard input, and continues after an error
    /// or stops.
    pub fn client(&self, stops: bool) -> Result<Command> {
        let mut client = match (&self.container_id, self.kind) {
            (_, Engine::Sqlite) => {
                servers::install("sqlite3")?;
                let mut client = Command::new("sqlite3");
                client.args(stops.then_some("-bail")).arg(self.path_or_url());
                return Ok(client);
            }
            (Some(id), kind) => {
                let mut client = Command::new("docker");
                client.args(["exec", "--interactive", id]);
                client.args(match kind {
                    Engine::Postgres => ["psql", "--host=127.0.0.1", "--username=postgres"],
                    Engine::Mysql => ["mysql", "--host=127.0.0.1", "--user=root"],
                    _ => ["mariadb", "--host=127.0.0.1", "--user=root"],
                });
                // The container has no TLS, and this client would require it.
                client.args((kind == Engine::Mariadb).then_some("--skip-ssl"));
                client.arg(&self.name);
                client
            }
            (None, Engine::Postgres) => {
                let mut client = Command::new("psql");
                client.arg(&self.url);
                client
            }
            (None, kind) => {
                let options: MySqlConnectOptions = self.url.parse()?;
                let mut client = Command::new(kind.name());
                client
                    .args(["--protocol=tcp", "--host", options.get_host()])
                    .arg(format!("--port={}", options.get_port()))
                    .arg(format!("--user={}", options.get_username()))
                    .arg(&self.name);
                client
            }
        };
        client.args(match (self.kind, stops) {
            (Engine::Postgres, true) => Some("--set=ON_ERROR_STOP=1"),
            (Engine::Mysql | Engine::Mariadb, false) => Some("--force"),
            _ => None,
        });
        Ok(client)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL of another database on the same server.
    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    pub fn container_id(&self) -> Option<&str> {
        self.container_id.as_deref()
    }

    pub fn path_or_url(&self) -> &str {
        self.url
            .strip_prefix("sqlite://")
            .and_then(|url| url.split('?').next())
            .unwrap_or(&self.url)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = match self.kind {
            Engine::Sqlite => return,
            Engine::Postgres => format!("DROP DATABASE {} WITH (FORCE)", self.name),
            Engine::Mysql | Engine::Mariadb => format!("DROP DATABASE {}", self.name),
        };
        if let Err(error) = sql::execute(self.kind, &self.server_url, &drop) {
            eprintln!("{drop}: {error}");
        }
    }
}

/// Waits for a new database. Behind a load balancer each connection may use another node that does not have
/// it yet.
fn wait_for_all(kind: Engine, url: &str) -> Result {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut in_a_row = 0;
    while in_a_row < 8 {
        match sql::execute(kind, url, "SELECT 1") {
            Ok(()) => in_a_row += 1,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => in_a_row = 0,
        }
    }
    Ok(())
}
