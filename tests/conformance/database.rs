//! A database of its own for each test, removed when the test is over, however it ended.

use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::{Connection, MySqlConnection, PgConnection, Row, SqliteConnection};

use crate::Result;
use crate::servers::{Kind, Server};

pub(crate) struct Database {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    name: String,
    server_url: String,
    /// Of SQLite's file.
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    pub(crate) fn create(kind: Kind, server: &Server) -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("opaque_id_test_{}_{number}", std::process::id());
        let (url, folder) = if kind == Kind::Sqlite {
            let folder = tempfile::tempdir()?;
            let file = folder.path().join("shop.db");
            (
                format!("sqlite://{}?mode=rwc", file.display()),
                Some(folder),
            )
        } else {
            execute(kind, &server.url, &format!("CREATE DATABASE {name}"))?;
            let (url, settings) = server.url.split_once('?').unwrap_or((&server.url, ""));
            let (start, _) = url
                .rsplit_once('/')
                .ok_or("a server's URL ends with a database")?;
            (format!("{start}/{name}?{settings}"), None)
        };
        Ok(Self {
            kind,
            url,
            name,
            server_url: server.url.clone(),
            _folder: folder,
        })
    }

    /// The first column of the first row, read outside of the adapter under test.
    pub(crate) fn text(&self, select: &str) -> Result<String> {
        text(self.kind, &self.url, select)
    }

    /// The last column of all rows, read outside of the adapter under test.
    pub(crate) fn lines(&self, select: &str) -> Result<String> {
        lines(self.kind, &self.url, select)
    }

    pub(crate) fn execute(&self, sql: &str) -> Result {
        execute(self.kind, &self.url, sql)
    }

    /// The path of SQLite's file, or the URL.
    pub(crate) fn path_or_url(&self) -> &str {
        self.url
            .strip_prefix("sqlite://")
            .and_then(|url| url.split('?').next())
            .unwrap_or(&self.url)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = match self.kind {
            Kind::Sqlite => return,
            Kind::Postgres => format!("DROP DATABASE {} WITH (FORCE)", self.name),
            Kind::Mysql | Kind::Mariadb => format!("DROP DATABASE {}", self.name),
        };
        if let Err(error) = execute(self.kind, &self.server_url, &drop) {
            eprintln!("{drop}: {error}");
        }
    }
}

pub(crate) fn execute(kind: Kind, url: &str, sql: &str) -> Result {
    let sql = sqlx::AssertSqlSafe(sql);
    on_a_thread(async || {
        match kind {
            Kind::Postgres => {
                let mut connection = PgConnection::connect(url).await?;
                sqlx::raw_sql(sql).execute(&mut connection).await?;
                connection.close().await?;
            }
            Kind::Mysql | Kind::Mariadb => {
                let mut connection = MySqlConnection::connect(url).await?;
                sqlx::raw_sql(sql).execute(&mut connection).await?;
                connection.close().await?;
            }
            Kind::Sqlite => {
                let mut connection = SqliteConnection::connect(url).await?;
                sqlx::raw_sql(sql).execute(&mut connection).await?;
                connection.close().await?;
            }
        }
        Ok(())
    })
}

pub(crate) fn text(kind: Kind, url: &str, select: &str) -> Result<String> {
    let select = sqlx::AssertSqlSafe(select);
    on_a_thread(async || {
        Ok(match kind {
            Kind::Postgres => {
                let mut connection = PgConnection::connect(url).await?;
                sqlx::query_scalar(select)
                    .fetch_one(&mut connection)
                    .await?
            }
            Kind::Mysql | Kind::Mariadb => {
                let mut connection = MySqlConnection::connect(url).await?;
                sqlx::query_scalar(select)
                    .fetch_one(&mut connection)
                    .await?
            }
            Kind::Sqlite => {
                let mut connection = SqliteConnection::connect(url).await?;
                sqlx::query_scalar(select)
                    .fetch_one(&mut connection)
                    .await?
            }
        })
    })
}

fn lines(kind: Kind, url: &str, select: &str) -> Result<String> {
    macro_rules! lines {
        ($connection:ty) => {{
            let mut connection = <$connection>::connect(url).await?;
            let rows = sqlx::query(sqlx::AssertSqlSafe(select))
                .fetch_all(&mut connection)
                .await?;
            let lines = rows.iter().map(|row| row.try_get(row.len() - 1));
            lines.collect::<sqlx::Result<Vec<String>>>()?.join("\n")
        }};
    }
    on_a_thread(async || {
        Ok(match kind {
            Kind::Postgres => lines!(PgConnection),
            Kind::Mysql | Kind::Mariadb => lines!(MySqlConnection),
            Kind::Sqlite => lines!(SqliteConnection),
        })
    })
}

/// On a thread of its own, as a caller may be inside of a runtime already.
pub(crate) fn on_a_thread<T: Send>(act: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?
                    .block_on(act())
            })
            .join()
            .map_err(|_| "the database's thread panicked")?
    })
}
