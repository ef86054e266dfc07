//! actix-web, by the extractors of opaque-id-actix.

use std::net::SocketAddr;
use std::sync::mpsc;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{Data, ReqData, ServiceConfig, get, head, post, resource, route, scope};
use actix_web::{App, CustomizeResponder, Error, HttpMessage, HttpResponse, HttpServer};
use opaque_id_actix::{
    Accepted, Form, Json, Links, NotFound, Opened, OpenedAny, PageQuery, Path, Query, Refusal,
    RequestKeyring, Viewed, map_refusal, panic_on_raw_ids,
};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{Keyring, OpaqueId};
use opaque_id_tests_frameworks::{
    Framework, Own, Server, User, audiences, log, new_keyring, pages, shop,
};
use tracing::Instrument as _;

use handlers::*;

#[path = "../../handlers.rs"]
mod handlers;

opaque_id_tests_frameworks::tests!(FRAMEWORK);

const FRAMEWORK: Framework = Framework {
    shop: |app| start(move |config| shop(&app, config)),
    envelope: |app| {
        start(move |config| {
            let envelope = map_refusal(|refusal| {
                let (status, body) = shop::envelope(refusal);
                HttpResponse::build(StatusCode::from_u16(status).expect("a status")).body(body)
            });
            let all = scope("").wrap(envelope).wrap(from_fn(in_a_span));
            let all = all.configure(|config| shop(&app, config));
            config.service(all);
        })
    },
    pages: |app| {
        start(move |config| {
            let lists = scope("/v1")
                .route("/ascending", get().to(ascending))
                .route("/descending", get().to(descending))
                .route("/rests", get().to(rests));
            config.app_data(app.keyring.clone()).app_data(Data::new(app.clone())).service(lists);
        })
    },
    old_ids: |layers| {
        start(move |config| {
            let items = scope("")
                .wrap(layers.items.clone())
                .route("/items/{id}", get().to(item))
                .route("/texts/{text}", get().to(read))
                .route("/search", get().to(search))
                .route("/orders", post().to(order_items))
                .route("/accepted/{id}", get().to(accept_item))
                .route("/accepted", post().to(accept_basket))
                .route("/forms", post().to(accept_form));
            let all = scope("")
                .wrap(layers.shops.clone())
                .route("/new/{id}", get().to(item))
                .service(items);
            config.app_data(Data::new(layers.keyring.clone())).service(all);
        })
    },
    audiences: |keyring| {
        start(move |config| {
            let rows =
                resource("/rows").route(get().to(row_of_query)).route(post().to(row_of_json));
            let all = scope("")
                .wrap(from_fn(lend_partner_keyring))
                .service(rows)
                .route("/rows/{id}", get().to(row_of_path))
                .route("/forms", route().to(row_of_form))
                .route("/pages", get().to(page))
                .route("/viewed", get().to(viewed))
                .route("/viewed", head().to(viewed))
                .route(
                    "/sealed",
                    get().to(async |keyring: ReqData<Keyring>| audiences::sealed(&keyring)),
                );
            config.app_data(keyring.clone()).service(all);
        })
    },
    raw_ids: |value| {
        start(move |config| {
            let all = scope("")
                .wrap(panic_on_raw_ids([value]))
                .route("/body", get().to(async |Query(Text { text }): Query<Text>| text))
                .route(
                    "/header",
                    get().to(async |Query(Text { text }): Query<Text>| {
                        HttpResponse::Ok().append_header(("location", text)).finish()
                    }),
                );
            config.app_data(new_keyring(0)).service(all);
        })
    },
    own: Own {
        path: 404,
        json: 400,
        integer: "invalid type: integer",
        form: 400,
        content_type: 400,
        no_keyring: None,
    },
};

/// Starts a server with one thread. It ends with the tests.
fn start(configure: impl Fn(&mut ServiceConfig) + Clone + Send + 'static) -> Server {
    let (sender, started) = mpsc::channel::<SocketAddr>();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async {
            let server = HttpServer::new(move || App::new().configure(configure.clone()));
            let server = server.workers(1).bind("127.0.0.1:0").expect("a port");
            sender.send(server.addrs()[0]).expect("a test");
            server.run().await.expect("a server");
        });
    });
    Server::new(started.recv().expect("a server"), ())
}

fn shop(app: &shop::App, config: &mut ServiceConfig) {
    config
        .app_data(app.keyring.clone())
        .app_data(Data::new(app.clone()))
        .route("/users/{id}", get().to(show))
        .route("/teams/{team}/members/{user}/{year}", get().to(member))
        .route("/named/{team}/members/{user}/{year}", get().to(member_by_name))
        .route("/orders/{id}", get().to(order))
        .route("/search", get().to(filter))
        .route("/teams", post().to(create))
        .route("/orders", post().to(create_order))
        .route("/invites", post().to(invite))
        .route("/accepted", post().to(accepted_orders))
        .route("/lists", get().to(lists_of_query))
        .route("/lists", post().to(lists_of_form))
        .route("/map", get().to(map))
        .route("/nodes/{id}", get().to(node))
        .route("/nodes", post().to(move_node))
        .route("/parsed", get().to(parsed))
        .route("/theirs", post().to(their_json))
        .route("/theirs/{id}", get().to(theirs));
}

type Shop = Data<shop::App>;
type Pages = Data<pages::App>;
type RowKeyring = RequestKeyring;
type FromExtensions<T> = ReqData<T>;
type Linked = CustomizeResponder<String>;

fn linked((links, body): (Links, String)) -> Linked {
    links.to(body)
}

fn paged<T: OpaqueId>(query: &PageQuery<T>) -> &PageQuery<T> {
    query
}

/// The behavior of actix-web's own extractor with our type.
async fn theirs(_: actix_web::web::Path<Opened<User>>) -> &'static str {
    ""
}

async fn their_json(_: actix_web::web::Json<shop::Invite>) -> &'static str {
    ""
}

#[derive(serde::Deserialize)]
struct Text {
    text: String,
}

async fn in_a_span(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let path = request.uri().path_and_query().map(ToString::to_string);
    let span = tracing::info_span!("request", method = %request.method(), path = %path.unwrap_or_default());
    next.call(request).instrument(span).await
}

async fn lend_partner_keyring(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let keyring = request.app_data::<SharedKeyring>().expect("configured");
    let partner = request.headers().get("partner").map(|name| name.as_bytes());
    let keyring = audiences::partner_keyring(keyring, partner);
    if let Some(keyring) = keyring {
        request.extensions_mut().insert(keyring);
    }
    next.call(request).await
}

/// After a rotation the `Keyring` would no longer open the ids that the `SharedKeyring` seals.
#[test]
fn an_application_has_one_keyring() {
    let rows = |config: &mut ServiceConfig| {
        config
            .route("/rows/{id}", get().to(row_of_path))
            .route("/viewed", get().to(viewed))
            .route("/sealed", get().to(sealed));
    };
    let keyring = new_keyring(0);
    let (shared, one) = (SharedKeyring::new(keyring.clone()), keyring.clone());
    let both = start(move |config| {
        config.app_data(Data::new(keyring.clone())).app_data(shared.clone()).configure(rows);
    });
    let log = log::start();
    for (server, event) in [
        (
            both,
            "expected one keyring of `App::app_data`, found a `Keyring` and a `SharedKeyring`: remove the `Keyring`",
        ),
        (start(rows), "no keyring: call `App::app_data` with one"),
    ] {
        for path in ["/rows/row_7", "/viewed", "/sealed"] {
            let answer = server.get(path);
            assert_eq!(answer.status, 500);
            assert!(!answer.body.contains("app_data"), "{answer:?}");
        }
        assert!(!log.events(&format!("ERROR opaque_id: {event}")).is_empty());
    }
    let expected = audiences::sealed(&one);
    let server = start(move |config| {
        config.app_data(one.clone()).configure(rows);
    });
    assert_eq!(server.get("/sealed").body, expected);
}

async fn sealed(RequestKeyring(keyring): RequestKeyring) -> String {
    audiences::sealed(&keyring)
}

async fn refuse(_: ServiceRequest, _: Next<impl MessageBody>) -> Result<ServiceResponse, Error> {
    Err(NotFound.into())
}

/// The refusal is an error, and actix-web converts it into a response further out.
#[test]
fn the_refusal_of_a_middleware_has_the_envelope() {
    let server = start(|config| {
        let all = scope("").wrap(from_fn(refuse));
        let all = all.wrap(map_refusal(|_| HttpResponse::Gone().body("mine")));
        config.service(all.route("/", get().to(HttpResponse::Ok)));
    });
    let answer = server.get("/");
    assert_eq!((answer.status, &*answer.body), (410, "mine"));
}
