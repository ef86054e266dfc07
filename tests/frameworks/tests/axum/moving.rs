//! docs/MOVING.md, step by step: a live API moves from integers to external ids. Instances of two steps run side by side
//! on one database, and clients take ids from one to the other.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use opaque_id_axum::{NotFound, OldIdsLayer, Opened, Path};
use opaque_id_core::old_ids::OldIds;
use opaque_id_sqlx::{IdRange, Internal, Keyring, OpaqueId, View};
use serde::Serialize;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;

use opaque_id_tests_frameworks::client::{Server, assert_alike};
use opaque_id_tests_frameworks::new_keyring;

#[derive(OpaqueId, sqlx::FromRow, View)]
#[opaque_id(prefix = "order", key = i64)]
#[view(into = NewView, derive(Serialize))]
struct Order {
    id: Internal<Order>,
    item: String,
}

/// The view until now.
#[derive(Serialize)]
struct OldView {
    id: i64,
    item: String,
}

#[derive(Clone)]
struct App {
    keyring: Keyring,
    table: SqlitePool,
}

impl FromRef<App> for Keyring {
    fn from_ref(app: &App) -> Self {
        app.keyring.clone()
    }
}

impl App {
    async fn orders(&self) -> Vec<Order> {
        let orders = sqlx::query_as("SELECT id, item FROM orders ORDER BY id");
        orders.fetch_all(&self.table).await.expect("a database")
    }

    async fn order(&self, id: Internal<Order>) -> Result<Order, NotFound> {
        let order = sqlx::query_as("SELECT id, item FROM orders WHERE id = ?").bind(id);
        let order = order.fetch_optional(&self.table).await.expect("a database");
        order.ok_or(NotFound)
    }
}

fn old(order: Order) -> OldView {
    OldView { id: order.id.expose_key(), item: order.item }
}

async fn old_list(State(app): State<App>) -> Json<Vec<OldView>> {
    Json(app.orders().await.into_iter().map(old).collect())
}

async fn new_list(State(app): State<App>) -> Json<Vec<NewView>> {
    Json(app.keyring.view(app.orders().await))
}

/// Today's handler. It knows only integers.
async fn todays(
    State(app): State<App>,
    axum::extract::Path(id): axum::extract::Path<i64>,
) -> Result<Json<OldView>, StatusCode> {
    let id = Internal::from_key(id).map_err(|_| StatusCode::NOT_FOUND)?;
    let order = app.order(id).await.map_err(|NotFound| StatusCode::NOT_FOUND)?;
    Ok(Json(old(order)))
}

async fn old_answer(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<Order>>,
) -> Result<Json<OldView>, NotFound> {
    Ok(Json(old(app.order(id).await?)))
}

async fn new_answer(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<Order>>,
) -> Result<Json<NewView>, NotFound> {
    Ok(Json(app.keyring.view(app.order(id).await?)))
}

fn layer(app: &App, shown: IdRange<Internal<Order>>, period: Range<SystemTime>) -> OldIdsLayer {
    let orders = OldIds::<Order>::builder(shown, period).integers();
    OldIdsLayer::new().of(orders.build(&app.keyring).expect("integers do not look like ids"))
}

fn current_api() -> Router<App> {
    Router::new().route("/orders", get(old_list)).route("/orders/{id}", get(todays))
}

fn that_accepts() -> Router<App> {
    Router::new().route("/orders", get(old_list)).route("/orders/{id}", get(old_answer))
}

fn that_answers() -> Router<App> {
    Router::new().route("/orders", get(new_list)).route("/orders/{id}", get(new_answer))
}

/// Returns the ids that an instance shows in its list.
fn ids(instance: &Server) -> Vec<String> {
    let list: Vec<serde_json::Value> =
        serde_json::from_str(&instance.get("/orders").body).expect("JSON");
    let ids = list.iter().map(|order| match &order["id"] {
        serde_json::Value::String(id) => id.clone(),
        number => number.to_string(),
    });
    ids.collect()
}

/// Returns whether a client with ids from one instance gets all rows from the other.
fn serves(from: &Server, to: &Server) -> bool {
    let ids = ids(from);
    assert!(!ids.is_empty());
    ids.iter().all(|id| to.get(&format!("/orders/{id}")).status == 200)
}

#[test]
fn an_api_moves_without_an_outage() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:");
    let pool = runtime.block_on(pool).expect("a database");
    let execute = |sql: &'static str| {
        let done = runtime.block_on(sqlx::raw_sql(sql).execute(&pool));
        done.expect("a statement");
    };
    execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)");
    execute("INSERT INTO orders (item) VALUES ('tea'), ('rice'), ('soap')");
    let app = App { table: pool.clone(), keyring: new_keyring(0) };
    let start = |router: Router<App>| super::start(router.with_state(app.clone()));

    let now = SystemTime::now();
    let period = now..now + Duration::from_secs(183 * 86_400);
    let today = start(current_api());
    let accepting = start(that_accepts().layer(layer(&app, IdRange::all(), period.clone())));
    let answering = start(that_answers().layer(layer(&app, IdRange::all(), period.clone())));

    // Instances of today and of step 1 serve each other's clients, in both directions.
    assert!(serves(&today, &accepting) && serves(&accepting, &today));
    // Step 2 fails without step 1 and works with it.
    assert!(!serves(&answering, &today));
    assert!(serves(&accepting, &answering) && serves(&answering, &accepting));
    let stored_by_a_client = ids(&today);
    let everyone = answering.get("/orders/11").status;
    assert_eq!(everyone, 404, "no such row yet");

    // Step 3 sets the bound.
    let last = runtime.block_on(sqlx::query_scalar("SELECT max(id) FROM orders").fetch_one(&pool));
    let last: Internal<Order> = last.expect("a row");
    let bounded = IdRange::all().up_to(last);
    let bound = start(that_answers().layer(layer(&app, bounded, period)));
    assert!(serves(&answering, &bound) && serves(&bound, &answering));
    // The bound is rounded up, and the ids are beyond it.
    for _ in 4..=11 {
        execute("INSERT INTO orders (item) VALUES ('salt')");
    }
    assert!(serves(&answering, &bound) && serves(&bound, &answering));
    for id in &stored_by_a_client {
        let answer = bound.get(&format!("/orders/{id}"));
        assert_eq!(answer.status, 200);
        assert!(answer.header("sunset").is_some());
        assert!(answer.body.starts_with(r#"{"id":"order_"#), "{}", answer.body);
    }
    assert_eq!(answering.get("/orders/11").status, 200, "why step 3 must not be skipped");
    assert_eq!(bound.get("/orders/11").status, 404);

    // Step 4 is the end of old ids.
    let ended = start(that_answers().layer(layer(&app, bounded, now..SystemTime::now())));
    assert!(serves(&bound, &ended) && serves(&ended, &bound));
    let removed = start(that_answers());
    assert!(serves(&ended, &removed) && serves(&removed, &ended));
    for id in &stored_by_a_client {
        let answer = ended.get(&format!("/orders/{id}"));
        assert_eq!(answer.status, 404);
        assert_alike([answer, removed.get("/orders/never")]);
    }
}
