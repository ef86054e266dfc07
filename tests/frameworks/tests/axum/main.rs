//! axum, by the extractors of opaque-id-axum.

#[path = "../../handlers.rs"]
mod handlers;
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
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use opaque_id_axum::{
    Form, Json, Links, NotFound, Opened, PageQuery, Path, Query, Refusal, map_refusal,
};
use opaque_id_core::Keyring;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_tests_frameworks::shop::{self, User};
use opaque_id_tests_frameworks::{Framework, Own, Server, audiences, pages};

use handlers::*;

opaque_id_tests_frameworks::tests!(FRAMEWORK);

const FRAMEWORK: Framework = Framework {
    shop: |app| start(shop(app)),
    envelope: |app| {
        start(shop(app).layer(map_refusal(|refusal| {
            let (status, body) = shop::envelope(refusal);
            (StatusCode::from_u16(status).expect("a status"), body)
        })))
    },
    pages: |app| {
        let lists = Router::new()
            .route("/ascending", get(ascending))
            .route("/descending", get(descending))
            .route("/rests", get(rests));
        start(Router::new().nest("/v1", lists).with_state(App(app)))
    },
    old_ids: |layers| {
        let router = Router::new()
            .route("/items/{id}", get(item))
            .route("/search", get(search))
            .route("/orders", post(order_items))
            .layer(layers.items)
            .route("/new/{id}", get(item))
            .layer(layers.shops)
            .with_state(layers.keyring);
        start(router)
    },
    audiences: |keyring| {
        let router = Router::new()
            .route("/rows/{id}", get(row_of_path))
            .route("/rows", get(row_of_query).post(row_of_json))
            .route("/forms", post(row_of_form))
            .route("/pages", get(page))
            .route("/sealed", get(async |Extension(keyring)| audiences::sealed(&keyring)))
            .layer(from_fn_with_state(keyring.clone(), of_partner))
            .with_state(keyring);
        start(router)
    },
    own: Own {
        path: 400,
        json: 422,
        integer: "name: invalid type: integer",
        form: 422,
        content_type: 415,
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

fn shop(app: shop::App) -> Router {
    Router::new()
        .route("/users/{id}", get(show))
        .route("/teams/{team}/members/{user}/{year}", get(member))
        .route("/named/{team}/members/{user}/{year}", get(member_by_name))
        .route("/orders/{id}", get(order))
        .route("/search", get(filter))
        .route("/teams", post(create))
        .route("/orders", post(create_order))
        .route("/invites", get(invite).post(invite))
        .route("/theirs/{id}", get(theirs))
        .with_state(App(app))
}

type Shop = State<App<shop::App>>;
type Pages = State<App<pages::App>>;
type Linked = (Links, String);

fn linked(page: Linked) -> Linked {
    page
}

/// What axum's own extractor does with our type.
async fn theirs(axum::extract::Path(_): axum::extract::Path<Opened<User>>) {}

async fn of_partner(
    State(keyring): State<SharedKeyring>,
    mut request: Request,
    next: Next,
) -> Response {
    let partner = request.headers().get("partner").map(|name| name.as_bytes());
    if let Some(keyring) = audiences::of_partner(&keyring, partner) {
        request.extensions_mut().insert(keyring);
    }
    next.run(request).await
}
