//! Clients that work offline and create their own UUIDs, and a server that stores integers.

use std::error::Error;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use opaque_id_sqlx::{Dialect, External, Internal, OpaqueId, UuidMap};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, FromRow, SqlitePool};

/// A row. Its key is a small integer.
#[derive(OpaqueId, FromRow)]
#[opaque_id(prefix = "note", key = i64, form = "mapped")]
struct Note {
    id: Internal<Note>,
    text: String,
}

/// A note in the API. Its id is a UUID that the client created.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct NoteOfApi {
    id: External<Note>,
    text: String,
}

#[derive(Clone)]
struct Shop {
    pool: SqlitePool,
    ids: UuidMap<Note>,
}

type Response<T> = Result<T, (StatusCode, String)>;

/// A database error can contain the row's values, so it goes to the log and not to the client.
fn failed(error: impl Error) -> (StatusCode, String) {
    eprintln!("{error:?}");
    (StatusCode::INTERNAL_SERVER_ERROR, "try again later".to_owned())
}

/// Sending notes again changes nothing, because the same UUID is the same row, and the first text stays. A
/// service with users also checks who owns a row.
async fn put_notes(State(shop): State<Shop>, Json(notes): Json<Vec<NoteOfApi>>) -> Response<()> {
    let mut transaction = shop.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let externals: Vec<_> = notes.iter().map(|note| note.id).collect();
    let ids = shop.ids.get_or_insert_all(&mut transaction, &externals).await.map_err(failed)?;
    for (id, note) in ids.into_iter().zip(notes) {
        sqlx::query("INSERT INTO notes (id, text) VALUES (?, ?) ON CONFLICT (id) DO NOTHING")
            .bind(id)
            .bind(note.text)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// One query reads the rows, and one all of their ids.
async fn get_notes(State(shop): State<Shop>) -> Response<Json<Vec<NoteOfApi>>> {
    let rows: Vec<Note> = sqlx::query_as("SELECT id, text FROM notes ORDER BY id")
        .fetch_all(&shop.pool)
        .await
        .map_err(failed)?;
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let externals = shop.ids.to_external_all(&shop.pool, &ids).await.map_err(failed)?;
    let notes = rows.into_iter().zip(externals);
    let notes = notes.filter_map(|(row, id)| Some(NoteOfApi { id: id?, text: row.text }));
    Ok(Json(notes.collect()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = SqlitePool::connect("sqlite:offline-clients.db?mode=rwc").await?;
    let ids = UuidMap::<Note>::unique("note_ids");
    let migration = ids.create_sql(Dialect::Sqlite)
        + "CREATE TABLE notes (id INTEGER PRIMARY KEY REFERENCES note_ids (id), text TEXT NOT NULL);";
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'notes'";
    if sqlx::query_scalar::<_, i64>(tables).fetch_one(&pool).await? == 0 {
        sqlx::raw_sql(AssertSqlSafe(migration)).execute(&pool).await?;
    }
    let router = Router::new().route("/notes", get(get_notes).put(put_notes));
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(axum::serve(listener, router.with_state(Shop { pool, ids })).await?)
}
