//! The audit log of a shop: who did what, and when. No client can change it, the database cannot read it, and
//! it takes little space.

use std::error::Error;
use std::time::{Duration, SystemTime};

use opaque_id_packs::Settings;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_sqlx::{
    Dialect, External, IdRange, Internal, Keyring, MasterSecret, OpaqueId, trusted,
};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, SqlitePool};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

/// An entry of the log. Its id is a UUIDv7 and contains the time. The database has no column of its content.
#[derive(Debug, Deserialize, OpaqueId, PartialEq, Serialize)]
#[opaque_id(prefix = "entry")]
struct Entry {
    actor: String,
    action: Action,
    /// The order's key. The log is as private as the table of orders, and an external id would end with its
    /// secret.
    #[serde(with = "trusted")]
    order: Internal<Order>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Place,
    Pay,
    Ship,
}

struct Shop {
    pool: SqlitePool,
    keyring: Keyring,
    log: PackTable<Entry, Entry>,
}

impl Shop {
    async fn open(pool: SqlitePool) -> Result<Self> {
        let migration = PackTable::<Entry, Entry>::create_sql(Dialect::Sqlite, "audit")
            + "CREATE TABLE orders (id BLOB NOT NULL PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents > 0));";
        sqlx::raw_sql(AssertSqlSafe(migration)).execute(&pool).await?;
        let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
        let log = PackTable::open(&pool, &keyring, "audit", Settings::default()).await?;
        Ok(Self { pool, keyring, log })
    }

    /// Both rows exist or neither.
    async fn place(&self, actor: &str, cents: i64) -> Result<Internal<Order>> {
        let order = Internal::generate();
        let mut transaction = self.pool.begin().await?;
        let entry = Entry { actor: actor.to_owned(), action: Action::Place, order };
        self.log.put(&mut transaction, Internal::generate(), &entry).await?;
        sqlx::query("INSERT INTO orders (id, cents) VALUES (?, ?)")
            .bind(order)
            .bind(cents)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(order)
    }

    async fn follow(&self, actor: &str, action: Action, orders: &[Internal<Order>]) -> Result {
        let entry =
            |order: &Internal<Order>| Entry { actor: actor.to_owned(), action, order: *order };
        let entries: Vec<_> =
            orders.iter().map(|order| (Internal::generate(), entry(order))).collect();
        Ok(self.log.put_all(&self.pool, &entries).await?)
    }

    async fn done_since(&self, since: SystemTime) -> Result<Vec<String>> {
        let range = IdRange::all().created_in(since..);
        let mut pages = self.log.pages_descending(range);
        let mut done = Vec::new();
        while let Some(page) = self.log.next_page(&self.pool, &mut pages).await? {
            for (id, entry) in page {
                let id: External<Entry> = self.keyring.seal(id);
                let order = self.keyring.seal(entry.order);
                done.push(format!("{id}  {:<6} {:?} {order}", entry.actor, entry.action));
            }
        }
        Ok(done)
    }

    async fn sizes(&self) -> Result<(usize, f64)> {
        let mut pages = self.log.scan();
        let mut plain = 0;
        while let Some(page) = self.log.next_page(&self.pool, &mut pages).await? {
            for (_, entry) in page {
                plain += serde_json::to_vec(&entry)?.len();
            }
        }
        let stored = "SELECT (SELECT total(length(body)) FROM audit_packs) + (SELECT total(length(body)) FROM audit_recent) \
            + (SELECT total(length(body)) FROM audit_meta)";
        let stored: f64 = sqlx::query_scalar(stored).fetch_one(&self.pool).await?;
        Ok((plain, stored))
    }
}

#[tokio::main]
async fn main() -> Result {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("audit-log.db").display());
    let shop = Shop::open(SqlitePool::connect(&url).await?).await?;
    // A merger may run in one process or in every process, because mergers do not interfere.
    let merger = tokio::spawn({
        let (log, pool) = (shop.log.clone(), shop.pool.clone());
        async move {
            let every = Duration::from_millis(100);
            log.merge_every(&pool, every, |merged| {
                if let Err(error) = merged {
                    eprintln!("the merger waits: {error}");
                }
            })
            .await;
        }
    });

    let mut orders = Vec::new();
    for cents in 1..=500 {
        orders.push(shop.place("ada", cents).await?);
    }
    let refused = shop.place("bob", 0).await;
    assert!(refused.is_err(), "an order of nothing");
    for action in [Action::Pay, Action::Ship] {
        for orders in orders.chunks(100) {
            shop.follow("system", action, orders).await?;
        }
    }
    let noon = SystemTime::now();
    tokio::time::sleep(Duration::from_millis(2)).await;
    shop.follow("carol", Action::Ship, &orders[..3]).await?;

    println!("  what was done since then, the latest first:");
    let since = shop.done_since(noon).await?;
    since.iter().for_each(|line| println!("  {line}"));
    assert_eq!(since.len(), 3);

    let all = shop.done_since(SystemTime::UNIX_EPOCH).await?;
    assert_eq!(all.len(), 500 + 2 * 500 + 3);
    assert!(!all.iter().any(|line| line.contains("bob")), "rolled back");

    shop.log.train(&shop.pool, 4 << 10).await?;
    shop.log.merge_all(&shop.pool).await?;
    shop.log.rekey(&shop.pool, |_| {}).await?;
    let (plain, stored) = shop.sizes().await?;
    println!(
        "\n  {} entries, {plain} bytes as JSON; the database has {stored} bytes, such as",
        all.len()
    );
    let body: Vec<u8> = sqlx::query_scalar("SELECT body FROM audit_packs ORDER BY id DESC LIMIT 1")
        .fetch_one(&shop.pool)
        .await?;
    let digits: String = body[..32].iter().map(|byte| format!("{byte:02x}")).collect();
    println!("  {digits}…");
    assert!(stored < plain as f64 / 2.0);

    let verified = shop.log.verify(&shop.pool, |_| {}).await?;
    assert_eq!((verified.packed_rows, verified.problems.len()), (1_503, 0));
    merger.abort();
    Ok(())
}
