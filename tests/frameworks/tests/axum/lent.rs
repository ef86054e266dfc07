//! The extractors of `opaque_id_axum::lent`, with the same tests on routers without a keyring in their state.

#[allow(dead_code, clippy::duplicate_mod, reason = "pages need a state")]
#[path = "../../handlers.rs"]
mod handlers;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Router};
use opaque_id_axum::lent::{Form, Json, PageQuery, Path, Query};
use opaque_id_axum::{
    Accepted, NotFound, Opened, OpenedAny, Refusal, RequestKeyring, Viewed, lend_keyring,
    lend_keyring_by,
};
use opaque_id_core::{Internal, OpaqueId};
use opaque_id_tests_frameworks::old_ids::Layers;
use opaque_id_tests_frameworks::{Framework, Own, audiences, log, new_keyring, shop};

use super::{FromExtensions, Linked, Pages, envelope, linked, old_ids_routes, shop_routes, start};
use handlers::*;

opaque_id_tests_frameworks::tests!(FRAMEWORK);

const FRAMEWORK: Framework = Framework {
    shop: |app| start(shop(app)),
    envelope: |app| envelope(shop(app)),
    old_ids: |layers| start(old_ids(layers)),
    own: Own { no_keyring: Some(500), ..super::FRAMEWORK.own },
    ..super::FRAMEWORK
};

/// The state of a framework, without a keyring.
type Shop = State<shop::App>;
type RowKeyring = RequestKeyring;

fn paged<T: OpaqueId>(query: &PageQuery<T>) -> &opaque_id_axum::PageQuery<T> {
    &query.0
}

fn shop(app: shop::App) -> Router {
    let layer = lend_keyring(app.keyring.clone());
    shop_routes!().layer(layer).with_state(app)
}

fn old_ids(layers: Layers) -> Router {
    let keyring = layers.keyring.clone();
    old_ids_routes!(layers).layer(lend_keyring(keyring))
}

#[test]
fn without_the_layer_the_server_is_wrong_and_its_log_says_so() {
    let log = log::start();
    let seen = log.events("add the layer `lend_keyring`").len();
    let router = Router::new()
        .route("/path/{id}", get(item))
        .route("/query", get(search))
        .route("/json", post(order_items))
        .route("/form", post(accept_form))
        .route("/pages", get(page))
        .route("/keyring", get(async |_: RequestKeyring| ""))
        .route("/viewed", get(viewed));
    // A route that is added after the layer is outside of it.
    let outside = Router::new().layer(lend_keyring(new_keyring(0))).merge(router);
    let server = start(outside);
    let problem = r#"{"type":"about:blank","title":"Internal Server Error","status":500}"#;
    let gets = ["/path/7", "/path/x", "/query?item=7", "/pages", "/keyring", "/viewed"];
    let answers = gets.map(|path| server.get(path)).into_iter();
    for answer in answers.chain(["/json", "/form"].map(|path| server.post(path, "", ""))) {
        assert_eq!((answer.status, &*answer.body), (500, problem));
    }
    assert!(log.events("add the layer `lend_keyring`").len() >= seen + 8);
}

#[test]
fn the_inner_layer_counts() {
    let [outer, inner] = [0, 1].map(new_keyring);
    let routes = || Router::new().route("/rows/{id}", get(row_of_path)).route("/pages", get(page));
    let nested = routes().layer(lend_keyring(inner.clone()));
    let none = routes().layer(lend_keyring_by(|_| None));
    let router = routes().nest("/inner", nested).nest("/none", none);
    // A keyring in an extension or in the state is not lent.
    let router = router.layer(lend_keyring(outer.clone())).layer(Extension(new_keyring(2)));
    let server = start(router.with_state(new_keyring(3)));
    // A layer that lends none must not leave a partner the ids of another one.
    for path in ["/rows/7", "/pages"] {
        assert_eq!(server.get(&format!("/none{path}")).status, 500, "{path}");
    }
    for (prefix, keyring) in [("", &outer), ("/inner", &inner)] {
        for (other, expected) in [(&outer, 0), (&inner, 1)] {
            let status = if keyring.sealing_key_id() == other.sealing_key_id() { 200 } else { 404 };
            let row = Internal::<audiences::Row>::from_key(7).expect("a key");
            let (id, cursor) = (other.seal(row), other.seal_cursor(row));
            assert_eq!(server.get(&format!("{prefix}/rows/{id}")).status, status, "{expected}");
            let pages = server.get(&format!("{prefix}/pages?starting_after={cursor}"));
            assert_eq!(pages.status, status, "{expected}");
        }
    }
}
