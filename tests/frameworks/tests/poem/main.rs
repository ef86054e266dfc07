//! poem 3, by the code that docs/frameworks/poem.md shows.

#[allow(unreachable_pub, reason = "readers of the page have them in modules")]
mod extract;
#[allow(unreachable_pub, reason = "the same")]
mod handlers;

use opaque_id_tests_frameworks::{App, Invite, User, UserView, assert_shown};
use poem::listener::{Acceptor as _, Listener as _, TcpListener};
use poem::{EndpointExt as _, Route, Server, get, post};

#[tokio::test]
async fn refused_ids_have_one_answer() {
    let app = App::default();
    let routes = Route::new()
        .at("/users/:id", get(handlers::show))
        .at("/invitations", post(handlers::invite))
        .data(app.keyring.clone())
        .data(app.clone());
    let listener = TcpListener::bind("127.0.0.1:0").into_acceptor().await.expect("a port");
    let address = *listener.local_addr()[0].as_socket_addr().expect("TCP");
    let server = tokio::spawn(Server::new_with_acceptor(listener).run(routes));
    let checked = tokio::task::spawn_blocking(move || app.check(address)).await;
    server.abort();
    checked.expect("every answer is right");
}

#[test]
fn the_page_shows_this_code() {
    let page = include_str!("../../../../docs/frameworks/poem.md");
    assert_shown(page, [include_str!("extract.rs"), include_str!("handlers.rs")]);
}
