//! axum, by the extractors of opaque-id-axum.

#[path = "../../handlers.rs"]
mod handlers;
mod lent;
mod moving;
mod own;
#[path = "utoipa"]
mod utoipa5 {
    use ::utoipa5 as utoipa;

    mod document;
}
#[path = "utoipa"]
mod utoipa6 {
    use ::utoipa6 as utoipa;

    #[allow(clippy::duplicate_mod, reason = "each version of utoipa has the same sources")]
    mod document;
}

use std::ops::Deref;

use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use opaque_id_axum::{
    Accepted, Form, Json, Links, NotFound, Opened, OpenedAny, PageQuery, Path, Query, Refusal,
    RequestKeyring, Viewed, lend_keyring_by, map_refusal, panic_on_raw_ids,
};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{Keyring, OpaqueId};
use opaque_id_tests_frameworks::old_ids::Layers;
use opaque_id_tests_frameworks::{
    Framework, Own, Server, User, audiences, new_keyring, pages, shop,
};
use tracing::Instrument as _;

use handlers::*;

opaque_id_tests_frameworks::tests!(FRAMEWORK);

/// The routes of shops, by the handlers in scope.
macro_rules! shop_routes {
    () => {
        axum::Router::new()
            .route("/users/{id}", get(show))
            .route("/teams/{team}/members/{user}/{year}", get(member))
            .route("/named/{team}/members/{user}/{year}", get(member_by_name))
            .route("/orders/{id}", get(order))
            .route("/search", get(filter))
            .route("/teams", post(create))
            .route("/orders", post(create_order))
            .route("/accepted", post(accepted_orders))
            .route("/invites", get(invite).post(invite))
            .route("/lists", get(lists_of_query).post(lists_of_form))
            .route("/map", get(map))
            .route("/nodes/{id}", get(node))
            .route("/nodes", post(move_node))
            .route("/parsed", get(parsed))
            .route("/theirs/{id}", get($crate::theirs))
            .route("/theirs", post($crate::their_json))
    };
}

macro_rules! old_ids_routes {
    ($layers:ident) => {
        axum::Router::new()
            .route("/items/{id}", get(item))
            .route("/texts/{text}", get(read))
            .route("/search", get(search))
            .route("/orders", post(order_items))
            .route("/accepted/{id}", get(accept_item))
            .route("/accepted", post(accept_basket))
            .route("/forms", post(accept_form))
            .layer($layers.items)
            .route("/new/{id}", get(item))
            .layer($layers.shops)
    };
}

use {old_ids_routes, shop_routes};

fn shop(app: shop::App) -> Router {
    shop_routes!().with_state(App(app))
}

fn old_ids(layers: Layers) -> Router {
    old_ids_routes!(layers).with_state(layers.keyring)
}

fn envelope(router: Router) -> Server {
    let envelope = map_refusal(|refusal| {
        let (status, body) = shop::envelope(refusal);
        (StatusCode::from_u16(status).expect("a status"), body)
    });
    start(router.layer(envelope).layer(from_fn(in_a_span)))
}

const FRAMEWORK: Framework = Framework {
    shop: |app| start(shop(app)),
    envelope: |app| envelope(shop(app)),
    pages: |app| {
        let lists = Router::new()
            .route("/ascending", get(ascending))
            .route("/descending", get(descending))
            .route("/rests", get(rests));
        start(Router::new().nest("/v1", lists).with_state(App(app)))
    },
    old_ids: |layers| start(old_ids(layers)),
    audiences: |keyring| {
        let router = Router::new()
            .route("/rows/{id}", get(row_of_path))
            .route("/rows", get(row_of_query).post(row_of_json))
            .route("/forms", post(row_of_form))
            .route("/pages", get(page))
            .route(
                "/sealed",
                get(async |RequestKeyring(keyring): RequestKeyring| audiences::sealed(&keyring)),
            )
            .route("/viewed", get(viewed))
            .layer(lend_keyring_by({
                let keyring = keyring.clone();
                move |request| partner_keyring(&keyring, request)
            }))
            .with_state(keyring);
        start(router)
    },
    raw_ids: |value| {
        let router = Router::new()
            .route("/body", get(async |Query(Text { text }): Query<Text>| text))
            .route("/header", get(async |Query(Text { text }): Query<Text>| [("location", text)]))
            .layer(panic_on_raw_ids([value]))
            .with_state(new_keyring(0));
        start(router)
    },
    own: Own {
        path: 400,
        json: 422,
        integer: "name: invalid type: integer",
        form: 422,
        content_type: 415,
        no_keyring: None,
    },
};

/// The state, with the keyring in it.
#[derive(Clone)]
struct App<T>(T);

impl<T> Deref for App<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl FromRef<App<shop::App>> for Keyring {
    fn from_ref(app: &App<shop::App>) -> Self {
        app.0.keyring.clone()
    }
}

impl FromRef<App<pages::App>> for Keyring {
    fn from_ref(app: &App<pages::App>) -> Self {
        app.0.keyring.clone()
    }
}

fn start(router: Router) -> Server {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async { axum::serve(listener, router).await });
    Server::new(address, runtime)
}

async fn in_a_span(request: Request, next: Next) -> Response {
    let path = request.uri().path_and_query().map(ToString::to_string);
    let span = tracing::info_span!("request", method = %request.method(), path = %path.unwrap_or_default());
    next.run(request).instrument(span).await
}

type Shop = State<App<shop::App>>;
type Pages = State<App<pages::App>>;
type RowKeyring = State<Keyring>;
type FromExtensions<T> = Extension<T>;
type Linked = (Links, String);

fn linked(page: Linked) -> Linked {
    page
}

fn paged<T: OpaqueId>(query: &PageQuery<T>) -> &PageQuery<T> {
    query
}

/// The behavior of axum's own extractors with our type.
async fn theirs(axum::extract::Path(_): axum::extract::Path<Opened<User>>) {}

async fn their_json(axum::Json(_): axum::Json<shop::Invite>) {}

fn partner_keyring(keyring: &SharedKeyring, request: &Request) -> Option<Keyring> {
    audiences::partner_keyring(
        keyring,
        request.headers().get("partner").map(|name| name.as_bytes()),
    )
}

#[derive(serde::Deserialize)]
struct Text {
    text: String,
}
