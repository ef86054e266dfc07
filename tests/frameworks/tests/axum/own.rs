//! The parts of axum alone: its own answers, rejections, and the log.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum_extra::routing::{RouterExt as _, TypedPath};
use opaque_id_axum::{Form, Json, Opened, Path, Refusal, Rejection, Viewed, lend_keyring};
use opaque_id_core::{External, Internal, Keyring};
use opaque_id_tests_frameworks::shop::{Invite, assert_not_found};
use opaque_id_tests_frameworks::{Server, Team, User, log, new_keyring};

use super::start;

/// Returns the ids of a user, of a team, and of a user by a retired secret.
fn server() -> (Server, [String; 3]) {
    let keyring = new_keyring(0);
    let user = Internal::<User>::generate();
    let team = Internal::<Team>::from_key(7).expect("a key");
    let ids = [
        keyring.seal(user).to_string(),
        keyring.seal(team).to_string(),
        new_keyring(1).seal(user).to_string(),
    ];
    let router = Router::new()
        .route("/arity/{team}/{user}", get(async |Path(_): Path<Opened<User>>| ""))
        .route("/pairs/{first}/{second}", get(pair))
        .route("/rejection/{id}", get(rejection))
        .route("/invites", get(async |Form(_): Form<Invite>| ""))
        .with_state(keyring);
    (start(router), ids)
}

async fn pair(Path(pair): Path<HashMap<String, Opened<Team>>>) -> String {
    pair.len().to_string()
}

async fn rejection(found: Result<Path<Opened<User>>, Rejection<PathRejection>>) -> String {
    match found {
        Ok(_) => "ok".to_owned(),
        Err(Rejection::Refused(refusal)) => {
            format!("{:?} {} {}", refusal.resource(), refusal.status(), refusal.reason())
        }
        Err(Rejection::Other(other)) => other.body_text(),
    }
}

#[test]
fn a_form_of_a_get_request_is_a_query() {
    let (server, [user, _, retired]) = server();
    assert_eq!(server.get(&format!("/invites?user={user}&year=7")).status, 200);
    for id in ["7", &retired] {
        assert_not_found(&server.get(&format!("/invites?user={id}&year=7")), "a query");
    }
    let own = [&user, &retired].map(|id| server.get(&format!("/invites?user={id}&year=x")));
    assert_eq!((own[0].status, &own[0].body), (400, &own[1].body));
}

#[test]
fn ids_are_values_of_a_map() {
    let (server, [user, team, _]) = server();
    assert_eq!(server.get(&format!("/pairs/{team}/{team}")).body, "2");
    assert_not_found(&server.get(&format!("/pairs/{team}/{user}")), "a map");
}

#[test]
fn a_type_that_does_not_fit_the_route_is_axums_answer() {
    let (server, [user, team, _]) = server();
    assert_eq!(server.get(&format!("/arity/{team}/{user}")).status, 500);
}

#[test]
fn a_rejection_has_the_reason() {
    let (server, [user, _, retired]) = server();
    let answer = |id: &str| server.get(&format!("/rejection/{id}")).body;
    assert_eq!(answer(&user), "ok");
    assert_eq!(
        answer("7"),
        "Some(\"user\") 404 Not Found not a `user` id: it does not start with the prefix and an underscore"
    );
    assert!(answer(&retired).contains("the keyring has no secret with key id 1"));
    assert_eq!(answer("%FF"), "None 404 Not Found expected a string of UTF-8");
}

#[test]
fn the_reason_is_in_the_log_only() {
    let log = log::start();
    let refusal = Refusal::no_row_in_body::<Team>("/of_this_test");
    let response = refusal.clone().into_response();
    assert_eq!(response.status(), 422);
    assert_eq!((refusal.resource(), refusal.pointer()), (Some("team"), Some("/of_this_test")));
    let event = "INFO opaque_id: refused resource=\"team\" reason=no such row";
    assert!(log.events("").contains(&event.to_owned()));
}

#[derive(Clone)]
struct App {
    keyring: Keyring,
}

impl FromRef<App> for Keyring {
    fn from_ref(app: &App) -> Self {
        app.keyring.clone()
    }
}

#[derive(serde::Deserialize, TypedPath)]
#[typed_path("/typed/{id}/{year}")]
struct Typed {
    id: External<User>,
    year: u32,
}

async fn typed(Path(Typed { id, year }): Path<Typed>) -> String {
    format!("{id} {year}")
}

/// The state is the `Arc` of axum's own documentation.
#[test]
fn a_state_is_shared_and_an_extractor_is_optional() {
    let keyring = new_keyring(0);
    let user = keyring.seal(Internal::<User>::generate()).to_string();
    let optional = async |path: Option<Path<Opened<User>>>| path.is_some().to_string();
    let router = Router::new()
        .typed_get(typed)
        .route("/optional", get(optional))
        .route("/optional/{id}", get(optional))
        .route("/json", post(async |body: Option<Json<Opened<User>>>| body.is_some().to_string()))
        .with_state(Arc::new(App { keyring }));
    let server = start(router);
    assert_eq!(server.get("/optional").body, "false");
    assert_eq!(server.get(&format!("/optional/{user}")).body, "true");
    assert_not_found(&server.get("/optional/7"), "not none");
    let json = "application/json";
    assert_eq!(server.post("/json", json, &format!("{user:?}")).body, "true");
    assert_eq!(server.post("/json", json, "7").status, 422);
    assert_eq!(server.post("/json", json, "").status, 400, "not none");
    assert_eq!(server.post("/json", "text/plain", "").status, 415);
    let no_type = server.begin("POST /json HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
    assert_eq!(Server::end(&mut { no_type }, "").body, "false");

    let path = Path(Typed { id: user.parse().expect("an id"), year: 7 });
    assert_eq!(path.to_string(), format!("/typed/{user}/7"));
    assert_eq!(server.get(&path.to_string()).body, format!("{user} 7"));
    assert_not_found(&server.get("/typed/7/7"), "a typed path");
    assert_eq!(server.get(&format!("/typed/{user}/x")).status, 400);
}

/// A view without its layer is an error, but not in its status.
#[test]
fn a_view_has_the_status_of_its_tuple() {
    let view = async || (StatusCode::CREATED, [("x-a", "b")], Viewed::by(|_| 7));
    let layer = lend_keyring(new_keyring(0));
    let server = start(Router::new().route("/", get(view)).layer(layer));
    let answer = server.get("/");
    assert_eq!((answer.status, &*answer.body), (201, "7"));
    assert_eq!(answer.header("x-a"), Some("b"));
    let server = start(Router::new().route("/", get(view)));
    assert!(server.get("/").body.contains(r#""status":500"#));
}
