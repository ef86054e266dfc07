//! The shop's models and queries. None of them converts an id.

use std::path::Path;

use opaque_id_sqlx::{IdRange, Internal, OpaqueId, Position};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, SqlitePool};

use crate::Result;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", key = i64)]
pub(crate) struct User {
    pub(crate) id: Internal<User>,
    pub(crate) name: String,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
pub(crate) struct Order {
    pub(crate) id: Internal<Order>,
    pub(crate) user: Internal<User>,
    pub(crate) item: String,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "inv")]
pub(crate) struct Invoice {
    pub(crate) id: Internal<Invoice>,
    pub(crate) cents: i64,
}

pub(crate) struct Shop(SqlitePool);

impl Shop {
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
        let pool = SqlitePoolOptions::new().connect_with(options).await?;
        sqlx::raw_sql(
            "CREATE TABLE users (
                 id INTEGER PRIMARY KEY,
                 name TEXT NOT NULL
             );
             CREATE TABLE orders (
                 id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
                 user INTEGER NOT NULL REFERENCES users (id),
                 item TEXT NOT NULL
             );
             CREATE TABLE invoices (
                 id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
                 \"order\" BLOB NOT NULL REFERENCES orders (id),
                 cents INTEGER NOT NULL
             );",
        )
        .execute(&pool)
        .await?;
        Ok(Self(pool))
    }

    /// Without a key, the database creates the next one.
    pub(crate) async fn insert_user(
        &self,
        id: Option<Internal<User>>,
        name: &str,
    ) -> Result<Internal<User>> {
        let insert = "INSERT INTO users (id, name) VALUES (?, ?) RETURNING id";
        Ok(sqlx::query_scalar(insert).bind(id).bind(name).fetch_one(&self.0).await?)
    }

    pub(crate) async fn insert_order(&self, order: &Order) -> Result {
        sqlx::query("INSERT INTO orders (id, user, item) VALUES (?, ?, ?)")
            .bind(order.id)
            .bind(order.user)
            .bind(&order.item)
            .execute(&self.0)
            .await?;
        Ok(())
    }

    pub(crate) async fn insert_invoice(&self, order: Internal<Order>, cents: i64) -> Result {
        let insert = "INSERT INTO invoices (id, \"order\", cents) VALUES (?, ?, ?)";
        let id = Internal::<Invoice>::generate();
        sqlx::query(insert).bind(id).bind(order).bind(cents).execute(&self.0).await?;
        Ok(())
    }

    pub(crate) async fn user(&self, id: Internal<User>) -> Result<Option<User>> {
        let select = "SELECT id, name FROM users WHERE id = ?";
        let row = sqlx::query_as(select).bind(id).fetch_optional(&self.0).await?;
        Ok(row.map(|(id, name)| User { id, name }))
    }

    pub(crate) async fn has_invoice(&self, id: Internal<Invoice>) -> Result<bool> {
        let select = "SELECT EXISTS (SELECT 1 FROM invoices WHERE id = ?)";
        Ok(sqlx::query_scalar(select).bind(id).fetch_one(&self.0).await?)
    }

    pub(crate) async fn invoices_after(
        &self,
        after: Option<Position<Internal<Invoice>>>,
        limit: i64,
    ) -> Result<Vec<Invoice>> {
        let range = IdRange::all().starting_after(after);
        let select = "SELECT id, cents FROM invoices WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?";
        let rows: Vec<(Internal<Invoice>, i64)> = sqlx::query_as(select)
            .bind(range.first())
            .bind(range.last())
            .bind(limit)
            .fetch_all(&self.0)
            .await?;
        let invoices = rows.into_iter().map(|(id, cents)| Invoice { id, cents });
        Ok(invoices.collect())
    }

    /// Returns the keys as a table stores them, in their order, by an expression that shows one.
    pub(crate) async fn stored_keys(&self, shown: &str, table: &str) -> Result<Vec<String>> {
        let select = AssertSqlSafe(format!("SELECT {shown} FROM {table} ORDER BY id"));
        Ok(sqlx::query_scalar(select).fetch_all(&self.0).await?)
    }
}
