//! Ids in the messages of a queue. They are sealed in a new message, and the worker opens them because it
//! does not trust messages.

use std::error::Error;

use opaque_id_sqlx::{External, Internal, Keyring, OpaqueId};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

/// The tables. The queue is one of them, and a broker's messages would be the same.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        item TEXT NOT NULL,
        is_shipped BOOLEAN NOT NULL DEFAULT FALSE
    );
    CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS dead_letters (body TEXT NOT NULL, reason TEXT NOT NULL)";

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64)] // not the short form, as nothing limits the rate of guesses
struct Order;

/// A message. A reader of the queue learns no key from it, and cannot make one up.
#[derive(Deserialize, Serialize)]
struct Ship {
    order: External<Order>,
}

struct Shop {
    pool: SqlitePool,
    keyring: Keyring,
}

impl Shop {
    /// Stores the order and the message, or neither.
    async fn place(&self, item: &str) -> Result<External<Order>, Box<dyn Error>> {
        let mut transaction = self.pool.begin().await?;
        let insert = sqlx::query_scalar("INSERT INTO orders (item) VALUES (?) RETURNING id");
        let id: Internal<Order> = insert.bind(item).fetch_one(&mut *transaction).await?;
        let order = self.keyring.seal(id);
        let insert = sqlx::query("INSERT INTO messages (body) VALUES (?)");
        insert.bind(serde_json::to_string(&Ship { order })?).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(order)
    }

    /// Handles the oldest message. An invalid message goes to the dead letters, so that it blocks no other.
    async fn work(&self) -> Result<Option<String>, Box<dyn Error>> {
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let oldest =
            "DELETE FROM messages WHERE id = (SELECT min(id) FROM messages) RETURNING body";
        let message = sqlx::query_scalar(oldest).fetch_optional(&mut *transaction).await?;
        let Some(body): Option<String> = message else { return Ok(None) };
        let done = match self.opened(&body) {
            Ok(id) => {
                let ship = "UPDATE orders SET is_shipped = TRUE WHERE id = ? RETURNING item";
                let item =
                    sqlx::query_scalar(ship).bind(id).fetch_optional(&mut *transaction).await?;
                item.map(|item: String| format!("shipped {item}")).ok_or("no such order".to_owned())
            }
            Err(reason) => Err(reason),
        };
        if let Err(reason) = &done {
            let insert = "INSERT INTO dead_letters (body, reason) VALUES (?, ?)";
            sqlx::query(insert).bind(body).bind(reason).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(Some(done.unwrap_or_else(|reason| format!("a dead letter: {reason}"))))
    }

    fn opened(&self, body: &str) -> Result<Internal<Order>, String> {
        let Ship { order } = serde_json::from_str(body).map_err(|error| error.to_string())?;
        self.keyring.open(order).map_err(|error| error.to_string())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = SqlitePool::connect("sqlite:queue.db?mode=rwc").await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let shop = Shop { pool, keyring: Keyring::from_env()? };
    let words: Vec<_> = std::env::args().skip(1).collect();
    match &words.iter().map(|word| &**word).collect::<Vec<_>>()[..] {
        ["place", item] => println!("{}", shop.place(item).await?),
        // The sender may be another service or an attacker.
        ["send", body] => {
            let insert = sqlx::query("INSERT INTO messages (body) VALUES (?)");
            insert.bind(*body).execute(&shop.pool).await?;
        }
        // A worker of a service would wait for the next message here.
        ["work"] => {
            while let Some(done) = shop.work().await? {
                println!("{done}");
            }
        }
        _ => return Err("expected place ITEM, send MESSAGE or work".into()),
    }
    Ok(())
}
