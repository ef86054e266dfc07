//! axum, by the extractors of opaque-id-axum.

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

use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use opaque_id_axum::{
    Form, Json, Links, NotFound, Opened, PageQuery, Path, Query, Refusal, map_refusal,
};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{External, Keyring};
use opaque_id_tests_frameworks::old_ids::{self, Item};
use opaque_id_tests_frameworks::shop::{self, Order, Team, User};
use opaque_id_tests_frameworks::{Framework, Own, Server, audiences, pages};

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
            .route("/rows/{id}", get(async |Path(id): Path<_>| audiences::key(&id)))
            .route("/rows", get(row_of_query).post(row_of_json))
            .route(
                "/forms",
                post(async |Form(body): Form<audiences::Body>| audiences::key(&body.row)),
            )
            .route("/pages", get(async |query: PageQuery<_>| audiences::page(&query)))
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

async fn show(
    State(App(app)): Shop,
    Path(Opened(id)): Path<Opened<User>>,
) -> Result<&'static str, NotFound> {
    app.find(id)
}

async fn member(
    State(App(app)): Shop,
    Path(member): Path<(Opened<Team>, Opened<User>, u32)>,
) -> Result<String, NotFound> {
    app.member(member)
}

async fn member_by_name(
    State(App(app)): Shop,
    Path(member): Path<shop::Member>,
) -> Result<String, NotFound> {
    app.member_by_name(member)
}

async fn order(Path(order): Path<External<Order>>) -> String {
    order.to_string()
}

async fn filter(
    State(App(app)): Shop,
    Query(filter): Query<shop::Filter>,
) -> Result<String, NotFound> {
    app.filter(filter)
}

async fn create(
    State(App(app)): Shop,
    Json(team): Json<shop::NewTeam>,
) -> Result<Json<shop::Created>, Refusal> {
    app.create(team).map(Json)
}

async fn create_order(
    State(App(app)): Shop,
    Json(request): Json<shop::CreateOrder>,
) -> Result<&'static str, Refusal> {
    app.create_order(request)
}

async fn invite(Form(invite): Form<shop::Invite>) -> String {
    shop::App::invite(&invite)
}

/// What axum's own extractor does with our type.
async fn theirs(axum::extract::Path(_): axum::extract::Path<Opened<User>>) {}

type Pages = State<App<pages::App>>;

async fn ascending(State(App(app)): Pages, query: pages::OfKeys) -> (Links, String) {
    app.ascending(&query)
}

async fn descending(State(App(app)): Pages, query: pages::OfKeys) -> (Links, String) {
    app.descending(&query)
}

async fn rests(
    State(App(app)): Pages,
    Query(filter): Query<pages::Filter>,
    query: pages::OfRests,
) -> Result<(Links, String), Refusal> {
    app.rests(&filter, &query)
}

async fn item(Path(Opened(id)): Path<Opened<Item>>) -> Result<String, NotFound> {
    old_ids::item(id)
}

async fn search(Query(both): Query<old_ids::Both>) -> String {
    old_ids::search(&both)
}

async fn order_items(Json(order): Json<old_ids::Order>) -> Result<String, Refusal> {
    old_ids::order(&order)
}

async fn row_of_query(Query(body): Query<audiences::Body>) -> String {
    audiences::key(&body.row)
}

async fn row_of_json(Json(body): Json<audiences::Body>) -> String {
    audiences::key(&body.row)
}

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
