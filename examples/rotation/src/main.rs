//! Secrets in a file that changes at run time. The keyring follows the file, and running requests keep their
//! keyring.

use std::error::Error;
use std::time::Duration;

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::Result;
use axum::routing::{get, post};
use axum::{Json, Router};
use opaque_id_axum::{NotFound, Opened, Path};
use opaque_id_sqlx::keyring::SharedKeyring;
use opaque_id_sqlx::{Internal, Keyring, OpaqueId, View};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

#[derive(OpaqueId, sqlx::FromRow, View)]
#[opaque_id(prefix = "user", key = i64)]
#[view(into = UserView, derive(Serialize))]
struct User {
    id: Internal<User>,
    name: String,
}

#[derive(Clone)]
struct App {
    pool: SqlitePool,
    keyring: SharedKeyring,
}

/// Returns the current keyring, for the extractors at the start of a request.
impl FromRef<App> for Keyring {
    fn from_ref(app: &App) -> Self {
        app.keyring.current()
    }
}

async fn show_user(
    State(App { pool, .. }): State<App>,
    State(keyring): State<Keyring>,
    Path(Opened(id)): Path<Opened<User>>,
) -> Result<Json<UserView>> {
    let user = sqlx::query_as("SELECT id, name FROM users WHERE id = ?").bind(id);
    let user: Option<User> = user.fetch_optional(&pool).await.map_err(internal)?;
    Ok(Json(keyring.view(user.ok_or(NotFound)?)))
}

#[derive(Deserialize)]
struct NewUser {
    name: String,
}

async fn add_user(
    State(App { pool, .. }): State<App>,
    State(keyring): State<Keyring>,
    Json(new): Json<NewUser>,
) -> Result<Json<UserView>> {
    let insert = sqlx::query_as("INSERT INTO users (name) VALUES (?) RETURNING id, name");
    let user: User = insert.bind(new.name).fetch_one(&pool).await.map_err(internal)?;
    Ok(Json(keyring.view(user)))
}

/// Handles `GET /secrets`. An operator checks it on every instance. Key ids are not secret.
async fn secrets(State(app): State<App>) -> String {
    let keyring = app.keyring.current();
    let opens: Vec<_> = keyring.key_ids().map(|key_id| key_id.to_string()).collect();
    format!("seals {}, opens {}", keyring.sealing_key_id(), opens.join(" "))
}

fn internal(error: sqlx::Error) -> StatusCode {
    eprintln!("{error}");
    StatusCode::INTERNAL_SERVER_ERROR
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let pool = SqlitePool::connect("sqlite:rotation.db?mode=rwc").await?;
    let table = "CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL)";
    sqlx::query(table).execute(&pool).await?;

    let read = || Keyring::from_file("keys");
    let keyring = SharedKeyring::new(read()?);
    // The watch ends when the server ends and drops it.
    let _watch = keyring.watch(Duration::from_millis(200), read, |replaced| match replaced {
        Ok(keyring) => eprintln!("secrets replaced: {} seals", keyring.sealing_key_id()),
        Err(error) => eprintln!("secrets not replaced: {error}"), // the former ones go on
    })?;

    let router = Router::new()
        .route("/users", post(add_user))
        .route("/users/{id}", get(show_user))
        .route("/secrets", get(secrets))
        .with_state(App { pool, keyring });
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, router).await?)
}
