//! rocket 0.5, by the code that docs/frameworks/rocket.md shows.

#[allow(unreachable_pub, reason = "readers of the page have them in modules")]
mod extract;
#[allow(unreachable_pub, reason = "the same")]
mod handlers;

use std::net::SocketAddr;

use opaque_id_tests_frameworks::{App, Invite, User, UserView, assert_shown};
use rocket::config::LogLevel;
use rocket::fairing::AdHoc;
use rocket::{Config, routes};
use tokio::sync::mpsc;

#[tokio::test]
async fn refused_ids_have_one_answer() {
    let app = App::default();
    let (port, mut ports) = mpsc::channel(1);
    let config = Config { port: 0, log_level: LogLevel::Off, ..Config::default() };
    let server = rocket::custom(config)
        .mount("/", routes![handlers::show, handlers::invite])
        .manage(app.keyring.clone())
        .manage(app.clone())
        .attach(AdHoc::on_liftoff("port", |server| {
            Box::pin(async move { port.send(server.config().port).await.expect("a test") })
        }));
    let server = tokio::spawn(server.launch());
    let address = SocketAddr::from(([127, 0, 0, 1], ports.recv().await.expect("a server")));
    let checked = tokio::task::spawn_blocking(move || app.check(address)).await;
    server.abort();
    checked.expect("every answer is right");
}

#[test]
fn the_page_shows_this_code() {
    let page = include_str!("../../../../docs/frameworks/rocket.md");
    assert_shown(page, [include_str!("extract.rs"), include_str!("handlers.rs")]);
}
