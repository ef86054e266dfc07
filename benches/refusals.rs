//! The time of each refusal, over real HTTP on loopback: `cargo xtask bench refusals`. A client must not
//! learn from the time why an id was refused. Kinds take turns, so that other load of the machine affects all
//! of them alike.

use axum::extract::{FromRef, State};
use axum::{Router, routing::get};
use opaque_id_axum::{NotFound, Opened, Path};
use opaque_id_benches::{Bench, Client, Result};
use opaque_id_sqlx::{Internal, Keyring, MasterSecret, OpaqueId};
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", form = "tagged")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", form = "tagged")]
struct Team;

#[derive(Clone)]
struct App {
    pool: SqlitePool,
    keyring: Keyring,
}

impl FromRef<App> for Keyring {
    fn from_ref(app: &App) -> Self {
        app.keyring.clone()
    }
}

async fn show(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<User>>,
) -> std::result::Result<String, NotFound> {
    let name = sqlx::query_scalar("SELECT name FROM users WHERE id = ?").bind(id);
    name.fetch_optional(&app.pool).await.expect("a database").ok_or(NotFound)
}

fn main() -> Result {
    let keyring = |key_id| Keyring::builder().sealing(key_id, MasterSecret::generate()).build();
    let ours = keyring(0)?;
    let mut tampered = ours.seal(Internal::<User>::generate()).to_string();
    let last = if tampered.pop() == Some('0') { '1' } else { '0' };
    tampered.push(last);
    let id = Internal::<User>::generate();
    let no_row = ours.seal(id).to_string();
    let kinds = [
        ("malformed", no_row.to_uppercase()),
        ("tampered", tampered),
        ("another resource's", ours.seal(Internal::<Team>::generate()).to_string()),
        ("another secret's", keyring(0)?.seal(id).to_string()),
        ("retired", keyring(1)?.seal(id).to_string()),
    ];

    let runtime = tokio::runtime::Runtime::new()?;
    let address = runtime.block_on(async {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
        let create = sqlx::query("CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY, name TEXT)");
        create.execute(&pool).await?;
        let router = Router::new().route("/users/{id}", get(show));
        let router = router.with_state(App { pool, keyring: ours });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async { axum::serve(listener, router).await });
        Result::Ok(address)
    })?;

    let requests = |id: String| -> Result<_> {
        let mut client = Client::connect(address, &format!("users/{id}"), 404)?;
        Ok(move || client.ask().expect("the answer to all"))
    };
    let mut bench = Bench::new("refusals");
    bench.baseline("without a row", 1, requests(no_row)?);
    for (kind, id) in kinds {
        bench.case(kind, 1, requests(id)?);
    }
    bench.run()
}
