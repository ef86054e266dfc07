//! A keyring per request: partners who share rows, and a state whose secrets are replaced.

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use opaque_id_axum::{Form, Json, Opened, PageQuery, Path, Query};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
use serde::Deserialize;

use crate::server::{Answer, Server};

#[derive(OpaqueId)]
#[opaque_id(prefix = "row", key = i64)]
struct Row;

#[derive(Deserialize)]
struct Body {
    row: Opened<Row>,
}

fn key(Opened(id): Opened<Row>) -> String {
    id.expose_key().to_string()
}

async fn path(Path(id): Path<Opened<Row>>) -> String {
    key(id)
}

async fn query(Query(body): Query<Body>) -> String {
    key(body.row)
}

async fn json(Json(body): Json<Body>) -> String {
    key(body.row)
}

async fn form(Form(body): Form<Body>) -> String {
    key(body.row)
}

async fn page(query: PageQuery<Row>) -> String {
    let first = query.ascending().range().first();
    first.expose_key().to_string()
}

async fn sealed(Extension(keyring): Extension<Keyring>) -> String {
    let id = Internal::<Row>::from_key(7).expect("a key");
    keyring.seal(id).to_string()
}

/// Of a partner in the header `partner`, or of nobody.
async fn of_partner(
    State(keyring): State<SharedKeyring>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(partner) = request.headers().get("partner") {
        let name = partner.to_str().expect("a name");
        let keyring = keyring.current().for_audience(name);
        request.extensions_mut().insert(keyring);
    }
    next.run(request).await
}

fn start(keyring: &SharedKeyring) -> Server {
    let router = Router::new()
        .route("/rows/{id}", get(path))
        .route("/rows", get(query).post(json))
        .route("/forms", post(form))
        .route("/pages", get(page))
        .route("/sealed", get(sealed))
        .layer(from_fn_with_state(keyring.clone(), of_partner))
        .with_state(keyring.clone());
    Server::start(router)
}

fn send(server: &Server, line: &str, partner: Option<&str>, kind: &str, body: &str) -> Answer {
    let partner = partner.map(|name| format!("partner: {name}\r\n")).unwrap_or_default();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n{partner}");
    let of_body = format!("content-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}");
    Server::end(&mut server.begin(&(head + &of_body)), "")
}

/// Sends the id, and the cursor, of row 7 by each extractor.
fn send_all(server: &Server, keyring: &Keyring, partner: Option<&str>) -> Vec<(u16, String)> {
    let row = Internal::<Row>::from_key(7).expect("a key");
    let (id, cursor) = (keyring.seal(row), keyring.seal_cursor(row));
    let json = format!(r#"{{"row":"{id}"}}"#);
    let form = format!("row={id}");
    let requests = [
        (format!("GET /rows/{id}"), "", ""),
        (format!("GET /rows?row={id}"), "", ""),
        ("POST /rows".to_owned(), "application/json", &*json),
        ("POST /forms".to_owned(), "application/x-www-form-urlencoded", &*form),
        (format!("GET /pages?starting_after={cursor}"), "", ""),
    ];
    let answers = requests.map(|(line, kind, body)| send(server, &line, partner, kind, body));
    answers.map(|answer| (answer.status, answer.body)).into()
}

#[test]
fn each_partner_opens_its_own_ids_only() {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build().expect("a good secret");
    let server = start(&SharedKeyring::new(keyring.clone()));
    let [a, b] = ["a", "b"].map(|name| keyring.for_audience(name));
    let opened = ["7", "7", "7", "7", "8"].map(|body| (200, body.to_owned()));
    for (own, partner, others) in [
        (&a, Some("a"), [&b, &keyring]),
        (&b, Some("b"), [&a, &keyring]),
        (&keyring, None, [&a, &b]),
    ] {
        assert_eq!(send_all(&server, own, partner), opened);
        for other in others {
            let refused = send_all(&server, other, partner);
            assert_eq!(
                refused.iter().map(|(status, _)| *status).collect::<Vec<_>>(),
                [404, 404, 422, 422, 404]
            );
        }
    }
    let sealed = |partner| send(&server, "GET /sealed", partner, "", "");
    assert_eq!(
        sealed(Some("a")).body,
        a.seal(Internal::<Row>::from_key(7).expect("a key")).to_string()
    );
    assert_ne!(sealed(Some("b")).body, sealed(Some("a")).body);
    assert_eq!(sealed(None).status, 500, "not by the keyring of nobody");
}

#[test]
fn a_state_whose_secrets_are_replaced_is_read_at_each_request() {
    let [old, new] = [(); 2].map(|()| MasterSecret::generate());
    let only_old = Keyring::builder().sealing(0, old.clone()).build().expect("a good secret");
    let both = Keyring::builder().sealing(0, old).opening(1, new.clone()).build();
    let only_new = Keyring::builder().sealing(1, new).build().expect("a good secret");
    let shared = SharedKeyring::new(only_old);
    let server = start(&shared);
    let of_a = only_new.for_audience("a");
    for (keyring, partner) in [(&only_new, None), (&of_a, Some("a"))] {
        assert!(send_all(&server, keyring, partner).iter().all(|(status, _)| *status != 200));
    }
    shared.replace(both.expect("good secrets")).expect("both open");
    for (keyring, partner) in [(&only_new, None), (&of_a, Some("a"))] {
        assert!(send_all(&server, keyring, partner).iter().all(|(status, _)| *status == 200));
    }
}
