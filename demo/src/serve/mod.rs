//! The shop as a web app: an API with opaque ids, and a page that shows the stored rows behind them.

mod api;
mod guard;
mod problem;
mod secrets;
mod shop;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::FromRef;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::{Json, Router, middleware};
use opaque_id_axum::NotFound;
use opaque_id_seaorm::Keyring;
use opaque_id_seaorm::keyring::SharedKeyring;
use sea_orm::{DatabaseConnection, DbBackend};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::Result;
use secrets::Secrets;

/// Serve the shop as a web app, on this machine only, until Ctrl-C
///
/// It prints the URL of a page that shows rows in the database next to the API's answers, pages by cursor,
/// tampers with ids, and rotates and retires secrets. The API is described by /openapi.json. Refused ids are
/// logged with the reason. The page shows the reason, and the API's clients are not told it.
///
/// The secrets are generated at each start and kept only in memory.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The port; 0 picks a free one
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// A database for tables named `demo_…`: sqlite://shop.db?mode=rwc, postgres://… or mysql://…; if left
    /// out, a new SQLite file that is removed at the end
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<String>,
}

#[derive(Clone)]
struct App {
    database: DatabaseConnection,
    keyring: SharedKeyring,
    secrets: Arc<Mutex<Secrets>>,
}

impl FromRef<App> for Keyring {
    fn from_ref(app: &App) -> Self {
        app.keyring.current()
    }
}

pub(crate) async fn run(args: Args) -> Result {
    let events =
        Targets::new().with_default(LevelFilter::WARN).with_target("opaque_id", LevelFilter::INFO);
    tracing_subscriber::registry()
        .with(fmt::layer().with_writer(std::io::stderr))
        .with(events)
        .init();
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display());
    let secrets = Secrets::generate()?;
    let app = App {
        database: shop::open(args.database_url.as_deref().unwrap_or(&file)).await?,
        keyring: secrets.keyring(),
        secrets: Arc::new(Mutex::new(secrets)),
    };
    let database = app.database.clone();
    let port = args.port;
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .map_err(|error| format!("port {port}: {error}. `--port 0` picks one that is free"))?;
    let backend = match database.get_database_backend() {
        DbBackend::Sqlite => "SQLite",
        DbBackend::Postgres => "PostgreSQL",
        _ => "MySQL",
    };
    println!("The shop is at http://{}/ on {backend}. Ctrl-C stops it.", listener.local_addr()?);
    tokio::select! {
        // The server waits for a request's headers without a limit. This is enough on loopback, but a service
        // needs a proxy with a limit.
        done = axum::serve(listener, router(app)).with_graceful_shutdown(stopped()) => done?,
        () = stopped_for_long() => (),
    }
    Ok(database.close().await?)
}

async fn stopped() {
    if ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Clients may stay connected for a short time, unless there is another Ctrl-C.
async fn stopped_for_long() {
    stopped().await;
    let _ = tokio::time::timeout(Duration::from_secs(3), stopped()).await;
}

fn router(app: App) -> Router {
    let file =
        |kind, text: &'static str| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    let (api, document) = api::router().split_for_parts();
    api.route("/", file("text/html; charset=utf-8", include_str!("page.html")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("page.css")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("page.js")))
        .route("/demo/reasons/{table}/{id}", get(api::reason))
        .route("/openapi.json", get(|| async { Json(document) }))
        .fallback(|| async { NotFound })
        .layer(middleware::from_fn(guard::guard))
        .with_state(app)
}
