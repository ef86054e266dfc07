//! The shop's models and queries. None of them converts an id.

use std::path::Path;

use opaque_id_sqlx::{IdRange, Internal, OpaqueId, Position};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::Result;

#[derive(OpaqueId)]
#[opaque_id(prefix = "cus")]
pub(crate) struct Customer {
    pub(crate) id: Internal<Customer>,
    pub(crate) name: String,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
pub(crate) struct Order {
    pub(crate) id: Internal<Order>,
    pub(crate) customer: Internal<Customer>,
    pub(crate) item: String,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "inv", key = i64)]
pub(crate) struct Invoice {
    pub(crate) id: Internal<Invoice>,
    pub(crate) cents: i64,
}

/// An internal id that SQLite can store.
pub(crate) trait Stored:
    for<'q> sqlx::Encode<'q, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + 'static
{
}

impl<I> Stored for I where
    I: for<'q> sqlx::Encode<'q, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + 'static
{
}

pub(crate) struct Shop(SqlitePool);

impl Shop {
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
        let pool = SqlitePoolOptions::new().connect_with(options).await?;
        sqlx::raw_sql(
            "CREATE TABLE customers (
                 id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
                 name TEXT NOT NULL
             );
             CREATE TABLE orders (
                 id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
                 customer BLOB NOT NULL REFERENCES customers (id),
                 item TEXT NOT NULL
             );
             CREATE TABLE invoices (
                 id INTEGER PRIMARY KEY,
                 \"order\" BLOB NOT NULL REFERENCES orders (id),
                 cents INTEGER NOT NULL
             );",
        )
        .execute(&pool)
        .await?;
        Ok(Self(pool))
    }

    pub(crate) async fn insert_customer(&self, customer: &Customer) -> Result {
        sqlx::query("INSERT INTO customers (id, name) VALUES (?, ?)")
            .bind(customer.id)
            .bind(&customer.name)
            .execute(&self.0)
            .await?;
        Ok(())
    }

    pub(crate) async fn insert_order(&self, order: &Order) -> Result {
        sqlx::query("INSERT INTO orders (id, customer, item) VALUES (?, ?, ?)")
            .bind(order.id)
            .bind(order.customer)
            .bind(&order.item)
            .execute(&self.0)
            .await?;
        Ok(())
    }

    pub(crate) async fn insert_invoice(
        &self,
        order: Internal<Order>,
        cents: i64,
    ) -> Result<Internal<Invoice>> {
        let insert = "INSERT INTO invoices (\"order\", cents) VALUES (?, ?) RETURNING id";
        Ok(sqlx::query_scalar(insert).bind(order).bind(cents).fetch_one(&self.0).await?)
    }

    pub(crate) async fn customer(&self, id: Internal<Customer>) -> Result<Option<Customer>> {
        let select = "SELECT id, name FROM customers WHERE id = ?";
        let row = sqlx::query_as(select).bind(id).fetch_optional(&self.0).await?;
        Ok(row.map(|(id, name)| Customer { id, name }))
    }

    /// Returns a page ordered by key, and so by creation.
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

    /// Returns the key as the table stores it: 16 bytes in hexadecimal, or an integer.
    pub(crate) async fn stored_key<I: Stored>(&self, table: &'static str, id: I) -> Result<String> {
        let select = match table {
            "customers" => "SELECT lower(hex(id)) FROM customers WHERE id = ?",
            "orders" => "SELECT lower(hex(id)) FROM orders WHERE id = ?",
            _ => "SELECT CAST(id AS TEXT) FROM invoices WHERE id = ?",
        };
        Ok(sqlx::query_scalar(select).bind(id).fetch_one(&self.0).await?)
    }
}
