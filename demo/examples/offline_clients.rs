//! Clients that work offline and create their own UUIDs, and a server that stores integers. `cargo run -p demo
//! --example offline_clients`.

use std::error::Error;
use std::net::SocketAddr;

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

/// Stores what a client wrote since it was last online. Sending the same notes again changes nothing, because the same
/// UUID is the same row.
async fn put_notes(State(shop): State<Shop>, Json(notes): Json<Vec<NoteOfApi>>) -> Response<()> {
    let mut transaction = shop.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let externals: Vec<_> = notes.iter().map(|note| note.id).collect();
    let ids = shop.ids.get_or_insert_all(&mut transaction, &externals).await.map_err(failed)?;
    for (id, note) in ids.into_iter().zip(notes) {
        sqlx::query(
            "INSERT INTO notes (id, text) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET text = excluded.text",
        )
        .bind(id)
        .bind(note.text)
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// Returns all notes: one query for the rows, and one more for all of their ids.
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

async fn serve(shop: Shop) -> Result<SocketAddr, Box<dyn Error>> {
    let app = Router::new().route("/notes", get(get_notes).put(put_notes)).with_state(shop);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok(address)
}

/// An offline client, which writes notes and creates their ids.
#[derive(Default)]
struct Client {
    written: Vec<NoteOfApi>,
}

impl Client {
    fn write(&mut self, text: &str) {
        let id = External::random();
        println!("  offline, a client writes {text:?} as {id}");
        self.written.push(NoteOfApi { id, text: text.into() });
    }

    fn send(&self, server: SocketAddr) -> Result<(), Box<dyn Error + Send + Sync>> {
        ureq::put(format!("http://{server}/notes")).send_json(&self.written)?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("notes.db").display());
    let pool = SqlitePool::connect(&url).await?;
    let ids = UuidMap::<Note>::unique("note_ids");
    let migration = ids.create_sql(Dialect::Sqlite)
        + "CREATE TABLE notes (id INTEGER PRIMARY KEY REFERENCES note_ids (id), text TEXT NOT NULL);";
    sqlx::raw_sql(AssertSqlSafe(migration)).execute(&pool).await?;
    let server = serve(Shop { pool: pool.clone(), ids }).await?;

    let (mut phone, mut laptop) = (Client::default(), Client::default());
    phone.write("milk");
    laptop.write("call Ada");
    phone.write("bread");

    println!(
        "\n  both come online at the same time; each gets no response and sends its notes again"
    );
    let sent = phone.written.clone();
    let tasks = [phone, laptop].map(|client| {
        tokio::task::spawn_blocking(move || {
            client.send(server)?;
            client.send(server)
        })
    });
    for task in tasks {
        task.await?.map_err(|error| error.to_string())?;
    }

    println!("\n  what the server stores, and what it returns:");
    let rows: Vec<(i64, String)> =
        sqlx::query_as("SELECT id, text FROM notes ORDER BY id").fetch_all(&pool).await?;
    let get = move || {
        let mut response = ureq::get(format!("http://{server}/notes")).call()?;
        response.body_mut().read_json::<Vec<NoteOfApi>>()
    };
    let shown = tokio::task::spawn_blocking(get).await??;
    for ((id, text), note) in rows.iter().zip(&shown) {
        println!("  {id:>4}  {text:<10}  {}", note.id);
    }
    assert_eq!((rows.len(), shown.len()), (3, 3), "sent twice, stored once");
    assert!(sent.iter().all(|note| shown.contains(note)), "returned as written");
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("each note is stored once");
}
