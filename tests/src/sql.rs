//! Statements on separate connections, outside of the adapter under test.

use sqlx::{Connection, MySqlConnection, PgConnection, Row, SqliteConnection};

use crate::Result;
use crate::engine::Engine;

/// Returns the only text that every version of sqlx runs. It is never freed.
pub fn fixed(sql: impl Into<String>) -> &'static str {
    sql.into().leak()
}

/// Does the same on a connection of each kind.
macro_rules! on {
    ($kind:expr, $url:expr, |$connection:ident| $act:expr) => {
        match $kind {
            Engine::Postgres => on!(PgConnection, $url, $connection, $act),
            Engine::Mysql | Engine::Mariadb => {
                on!(MySqlConnection, $url, $connection, $act)
            }
            Engine::Sqlite => on!(SqliteConnection, $url, $connection, $act),
        }
    };
    ($type:ty, $url:expr, $connection:ident, $act:expr) => {{
        let mut $connection = <$type>::connect($url).await?;
        let done = $act;
        $connection.close().await?;
        done
    }};
}

pub fn execute(kind: Engine, url: &str, sql: &str) -> Result {
    let sql = fixed(sql);
    on_a_thread(async || {
        on!(kind, url, |connection| sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)?);
        Ok(())
    })
}

/// Returns the first column of the first row.
pub fn text(kind: Engine, url: &str, select: &str) -> Result<String> {
    let select = fixed(select);
    on_a_thread(async || {
        Ok(on!(kind, url, |connection| {
            let text = sqlx::query_scalar(select);
            text.fetch_one(&mut connection).await?
        }))
    })
}

/// Returns the last column of all rows.
pub fn lines(kind: Engine, url: &str, select: &str) -> Result<String> {
    let select = fixed(select);
    on_a_thread(async || {
        Ok(on!(kind, url, |connection| {
            let rows = sqlx::query(select).fetch_all(&mut connection).await?;
            let lines = rows.iter().map(|row| row.try_get(row.len() - 1));
            lines.collect::<sqlx::Result<Vec<String>>>()?.join("\n")
        }))
    })
}

/// Runs statements that begin a transaction, acts while it is open, and rolls it back.
pub fn hold<R: Send>(
    kind: Engine,
    url: &str,
    begin: &str,
    act: impl FnOnce() -> R + Send,
) -> Result<R> {
    let begin = fixed(begin);
    on_a_thread(async || {
        Ok(on!(kind, url, |connection| {
            sqlx::raw_sql(begin).execute(&mut connection).await?;
            let acted = act();
            let rollback = sqlx::raw_sql("ROLLBACK");
            rollback.execute(&mut connection).await?;
            acted
        }))
    })
}

/// Runs a future on its own thread, because a caller may already be inside of a runtime.
pub fn on_a_thread<T: Send>(act: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(act())
            })
            .join()
            .map_err(|_| "the database's thread panicked")?
    })
}
