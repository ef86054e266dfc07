//! An API that showed integers moves to external ids in the steps of docs/MOVING.md, one step per start.

use std::error::Error;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::Result;
use axum::routing::get;
use axum::{Json, Router};
use opaque_id_axum::{NotFound, OldIdsLayer, Opened, Path};
use opaque_id_sqlx::old_ids::OldIds;
use opaque_id_sqlx::{IdRange, Internal, Keyring, KeyringError, OpaqueId, View};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT NOT NULL);
    INSERT INTO orders (item) SELECT value FROM json_each('[\"tea\", \"milk\", \"rice\"]')
        WHERE NOT EXISTS (SELECT 1 FROM orders)";

/// The result of `SELECT max(id) FROM orders` after the last instance of step 1 ended.
const LAST_OLD: i64 = 3;

/// The period of accepting old ids, in seconds since 1970: from the rollout of step 2 until a date
/// that clients know. This date is far away.
const PERIOD: Range<u64> = 1_790_000_000..4_102_444_800;

/// `OrderView` is the view from step 2 on.
#[derive(OpaqueId, sqlx::FromRow, View)]
#[opaque_id(prefix = "order", key = i64)]
#[view(into = OrderView, derive(Serialize))]
struct Order {
    id: Internal<Order>,
    item: String,
}

/// The view until step 1.
#[derive(Serialize)]
struct OldOrderView {
    id: i64,
    item: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    Old(OldOrderView),
    New(OrderView),
}

#[derive(Clone, FromRef)]
struct App {
    pool: SqlitePool,
    keyring: Keyring,
    step: u8,
}

impl App {
    fn show(&self, order: Order) -> Shown {
        match self.step {
            ..2 => Shown::Old(OldOrderView { id: order.id.expose_key(), item: order.item }),
            2.. => Shown::New(self.keyring.view(order)),
        }
    }
}

/// Accepts new ids, and old ones if the layer does.
async fn show_order(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<Order>>,
) -> Result<Json<Shown>> {
    let order = sqlx::query_as("SELECT id, item FROM orders WHERE id = ?").bind(id);
    let order: Option<Order> = order.fetch_optional(&app.pool).await.map_err(internal)?;
    Ok(Json(app.show(order.ok_or(NotFound)?)))
}

async fn list_orders(State(app): State<App>) -> Result<Json<Vec<Shown>>> {
    let orders = sqlx::query_as("SELECT id, item FROM orders ORDER BY id");
    let orders: Vec<Order> = orders.fetch_all(&app.pool).await.map_err(internal)?;
    Ok(Json(orders.into_iter().map(|order| app.show(order)).collect()))
}

fn internal(error: sqlx::Error) -> StatusCode {
    eprintln!("{error}");
    StatusCode::INTERNAL_SERVER_ERROR
}

#[derive(Deserialize)]
struct NewOrder {
    item: String,
}

async fn add_order(State(app): State<App>, Json(new): Json<NewOrder>) -> Result<Json<Shown>> {
    let insert = sqlx::query_as("INSERT INTO orders (item) VALUES (?) RETURNING id, item");
    let order = insert.bind(new.item).fetch_one(&app.pool).await.map_err(internal)?;
    Ok(Json(app.show(order)))
}

/// Returns the accepted old ids: all in steps 1 and 2, and in step 3 only ids that were ever shown.
fn old_ids(step: u8, keyring: &Keyring) -> Result<OldIdsLayer, KeyringError> {
    let shown = match step {
        ..3 => IdRange::all(),
        3.. => IdRange::all().within(0..=LAST_OLD),
    };
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let orders = OldIds::<Order>::builder(shown, at(PERIOD.start)..at(PERIOD.end)).integers();
    // By default the bound is a round number, because it reveals how many orders there were. Three are too
    // few to hide.
    let orders = orders.exact_bound();
    Ok(OldIdsLayer::new().of(orders.build(keyring)?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let step = std::env::args().nth(1).and_then(|step| step.parse().ok());
    let step = step.filter(|step| (1..=4).contains(step)).ok_or("expected a step, from 1 to 4")?;
    let pool = SqlitePool::connect("sqlite:moving.db?mode=rwc").await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let keyring = Keyring::from_env()?;
    let mut router = Router::new()
        .route("/orders", get(list_orders).post(add_order))
        .route("/orders/{id}", get(show_order));
    if step < 4 {
        router = router.layer(old_ids(step, &keyring)?);
    }
    let router = router.with_state(App { pool, keyring, step });
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, router).await?)
}
