//! Requests per second of an application that lists a hundred rows, with opaque ids and with plain UUIDs, on SQLite and
//! PostgreSQL. `cargo xtask bench application`.

use std::net::SocketAddr;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use opaque_id_benches::{Bench, Client};
use opaque_id_sqlx::key::Uuid;
use opaque_id_sqlx::{Internal, Keyring, MasterSecret, OpaqueId, View};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers;
use serde::Serialize;

const ROWS: i64 = 100;
const CLIENTS: usize = 4;
const REQUESTS: usize = 25;

#[derive(OpaqueId, sqlx::FromRow, View)]
#[opaque_id(prefix = "user")]
#[view(into = UserView, derive(Serialize))]
struct User {
    id: Internal<User>,
    team_id: Internal<Team>,
    name: String,
    email: String,
    created_at: String,
    age: i64,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "team")]
struct Team;

#[derive(Serialize, sqlx::FromRow)]
struct PlainUser {
    id: Uuid,
    team_id: Uuid,
    name: String,
    email: String,
    created_at: String,
    age: i64,
}

const SELECT: &str =
    "SELECT id, team_id, name, email, created_at, age FROM users ORDER BY id LIMIT 100";

macro_rules! application {
    ($name:ident, $pool:ty, $create:literal, $insert:literal) => {
        async fn $name(url: &str) -> Result<SocketAddr> {
            type App = ($pool, Keyring);

            async fn plain(State((pool, _)): State<App>) -> Json<Vec<PlainUser>> {
                let users = sqlx::query_as(SELECT).fetch_all(&pool).await;
                Json(users.expect("a database"))
            }

            async fn opaque(State((pool, keyring)): State<App>) -> Json<Vec<UserView>> {
                let users: Vec<User> =
                    sqlx::query_as(SELECT).fetch_all(&pool).await.expect("a database");
                Json(keyring.view(users))
            }

            let pool = <$pool>::connect(url).await?;
            sqlx::query($create).execute(&pool).await?;
            for number in 0..ROWS {
                sqlx::query($insert)
                    .bind(Internal::<User>::generate())
                    .bind(Internal::<Team>::generate())
                    .bind(format!("User {number}"))
                    .bind(format!("user{number}@example.com"))
                    .bind("2026-11-22T21:38:00Z")
                    .bind(number)
                    .execute(&pool)
                    .await?;
            }
            let secret = MasterSecret::generate();
            let keyring = Keyring::builder().sealing(0, secret).build()?;
            let router = Router::new().route("/plain", get(plain)).route("/opaque", get(opaque));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let app = router.with_state((pool, keyring));
            tokio::spawn(async { axum::serve(listener, app).await });
            Ok(address)
        }
    };
}

application!(
    sqlite,
    sqlx::SqlitePool,
    "CREATE TABLE users (id BLOB PRIMARY KEY, team_id BLOB NOT NULL, name TEXT NOT NULL, email TEXT NOT NULL,
     created_at TEXT NOT NULL, age INTEGER NOT NULL)",
    "INSERT INTO users VALUES (?, ?, ?, ?, ?, ?)"
);

application!(
    postgres,
    sqlx::PgPool,
    "CREATE TABLE users (id UUID PRIMARY KEY, team_id UUID NOT NULL, name TEXT NOT NULL, email TEXT NOT NULL,
     created_at TEXT NOT NULL, age BIGINT NOT NULL)",
    "INSERT INTO users VALUES ($1, $2, $3, $4, $5, $6)"
);

fn main() -> Result {
    let mut kinds = Engine::asked_for()?;
    kinds.retain(|kind| matches!(kind, Engine::Sqlite | Engine::Postgres));
    let started = servers::start(&kinds)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut bench = Bench::new("application");
    let mut databases = Vec::new();
    for (kind, server) in &started {
        let database = Database::create(*kind, server)?;
        let address = runtime.block_on(async {
            match kind {
                Engine::Sqlite => sqlite(&database.url).await,
                _ => postgres(&database.url).await,
            }
        })?;
        databases.push(database);
        let requests = CLIENTS * REQUESTS;
        let (plain, opaque) = (clients(address, "plain")?, clients(address, "opaque")?);
        bench.baseline(&format!("{kind}: plain UUIDs"), requests, plain);
        bench.case(&format!("{kind}: opaque ids"), requests, opaque);
    }
    bench.run()
}

fn clients(address: SocketAddr, route: &str) -> Result<impl FnMut() + 'static> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::connect(address, route, 200)?);
    }
    Ok(move || {
        std::thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| (0..REQUESTS).for_each(|_| client.ask().expect("an answer")));
            }
        });
    })
}
