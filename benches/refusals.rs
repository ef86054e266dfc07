//! The time of each refusal, over real HTTP on loopback: `cargo xtask bench refusals`. A client must not
//! learn from the time why an id was refused. Kinds take turns, so that other load of the machine affects all
//! of them alike.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use axum::extract::{FromRef, State};
use axum::{Router, routing::get};
use opaque_id_axum::{NotFound, Opened, Path};
use opaque_id_benches::is_smoke;
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
) -> Result<String, NotFound> {
    let name = sqlx::query_scalar("SELECT name FROM users WHERE id = ?").bind(id);
    name.fetch_optional(&app.pool).await.expect("a database").ok_or(NotFound)
}

fn main() {
    let rounds = if is_smoke() { 10 } else { 100_000 };
    let keyring = |key_id| Keyring::builder().sealing(key_id, MasterSecret::generate()).build();
    let ours = keyring(0).expect("a good secret");
    let mut tampered = ours.seal(Internal::<User>::generate()).to_string().into_bytes();
    let last = tampered.len() - 1;
    tampered[last] = if tampered[last] == b'0' { b'1' } else { b'0' };
    let id = Internal::<User>::generate();
    let kinds = [
        ("without a row", ours.seal(id).to_string()),
        ("malformed", ours.seal(id).to_string().to_uppercase()),
        ("tampered", String::from_utf8(tampered).expect("ASCII")),
        ("another resource's", ours.seal(Internal::<Team>::generate()).to_string()),
        ("another secret's", keyring(0).expect("a good secret").seal(id).to_string()),
        ("retired", keyring(1).expect("a good secret").seal(id).to_string()),
    ];

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let address = runtime.block_on(async {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await;
        let pool = pool.expect("a database");
        let create = sqlx::query("CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY, name TEXT)");
        create.execute(&pool).await.expect("a table");
        let router = Router::new().route("/users/{id}", get(show));
        let router = router.with_state(App { pool, keyring: ours });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async { axum::serve(listener, router).await });
        address
    });

    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let requests =
        kinds.each_ref().map(|(_, id)| format!("GET /users/{id} HTTP/1.1\r\nhost: shop\r\n\r\n"));
    let mut answer = [0; 1024];
    let mut times = kinds.each_ref().map(|_| Vec::with_capacity(rounds));
    for round in 0..rounds {
        for turn in 0..kinds.len() {
            let kind = (round + turn) % kinds.len();
            let start = Instant::now();
            stream.write_all(requests[kind].as_bytes()).expect("a request");
            let len = stream.read(&mut answer).expect("an answer");
            times[kind].push(start.elapsed());
            assert!(answer[..len].starts_with(b"HTTP/1.1 404"), "the answer to all");
        }
    }

    println!("{rounds} requests each; times as ratios to those of an id without a row\n");
    println!("{:<20} {:>8} {:>8} {:>8} {:>8}", "", "mean", "10 %", "median", "99 %");
    let mut base = None;
    for ((kind, _), mut times) in kinds.into_iter().zip(times) {
        times.sort_unstable();
        let mean = times.iter().sum::<Duration>() / u32::try_from(rounds).unwrap_or(u32::MAX);
        let figures = [mean, times[rounds / 10], times[rounds / 2], times[rounds / 100 * 99]];
        let base = *base.get_or_insert(figures);
        print!("{kind:<20}");
        for (figure, base) in figures.iter().zip(base) {
            print!(" {:>8.3}", figure.as_secs_f64() / base.as_secs_f64());
        }
        println!("   median {:.1} µs", figures[2].as_secs_f64() * 1e6);
    }
}
