//! The API, and the files of its front end: the page, and the output of wasm-bindgen for `lib.rs`.

use std::error::Error;
use std::path::Path as FilePath;

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Result};
use axum::{Router, routing::get};
use browser::{Order, OrderView};
use opaque_id_axum::{Json, NotFound, Opened, Path};
use opaque_id_sqlx::{Internal, Keyring};
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;

#[derive(Clone, FromRef)]
struct App {
    pool: SqlitePool,
    keyring: Keyring,
}

async fn list(State(app): State<App>) -> Result<Json<Vec<OrderView>>> {
    let select = sqlx::query_as("SELECT id, item FROM orders ORDER BY id");
    let rows: Vec<(Internal<Order>, String)> =
        select.fetch_all(&app.pool).await.map_err(internal)?;
    let rows = rows.into_iter();
    Ok(Json(rows.map(|(id, item)| OrderView { id: app.keyring.seal(id), item }).collect()))
}

async fn show(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<Order>>,
) -> Result<Json<OrderView>> {
    let select = sqlx::query_scalar("SELECT item FROM orders WHERE id = ?").bind(id);
    let item = select.fetch_optional(&app.pool).await.map_err(internal)?.ok_or(NotFound)?;
    Ok(Json(OrderView { id: app.keyring.seal(id), item }))
}

async fn file(name: &str, kind: &'static str) -> Result<impl IntoResponse> {
    let folder = std::env::var_os("FRONT_END").unwrap_or("target/browser".into());
    let bytes = tokio::fs::read(FilePath::new(&folder).join(name)).await.map_err(internal)?;
    Ok(([(CONTENT_TYPE, kind)], bytes))
}

fn internal(error: impl Error) -> StatusCode {
    eprintln!("{error}");
    StatusCode::INTERNAL_SERVER_ERROR
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    // The database ends with its last connection.
    let pool = SqlitePoolOptions::new().min_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = pool.connect("sqlite::memory:").await?;
    sqlx::raw_sql("CREATE TABLE orders (id BLOB PRIMARY KEY, item TEXT NOT NULL)")
        .execute(&pool)
        .await?;
    for item in ["loom", "shuttle"] {
        let insert = sqlx::query("INSERT INTO orders VALUES (?, ?)");
        insert.bind(Internal::<Order>::generate()).bind(item).execute(&pool).await?;
    }
    let router = Router::new()
        .route("/", get(|| async { Html(include_str!("page.html")) }))
        .route("/browser.js", get(|| file("browser.js", "text/javascript")))
        .route("/browser_bg.wasm", get(|| file("browser_bg.wasm", "application/wasm")))
        .route("/orders", get(list))
        .route("/orders/{id}", get(show))
        .with_state(App { pool, keyring: Keyring::from_env()? });
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
