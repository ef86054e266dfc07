//! What is axum's: its own answers, rejections, and the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::response::IntoResponse;
use axum::routing::get;
use opaque_id_axum::{Form, Opened, Path, Refusal, Rejection};
use opaque_id_core::Internal;
use opaque_id_tests_frameworks::shop::{Invite, Team, User, assert_not_found};
use opaque_id_tests_frameworks::{Server, new_keyring};

use super::start;

/// Returns the ids of a user, of a team, and of a user by a retired secret, too.
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
    assert_eq!(answer("%FF"), "None 404 Not Found not a string of UTF-8");
}

/// Events by their fields, `resource` and `reason`.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {}={value:?}", field.name());
            }
        }
        let mut fields =
            Fields(format!("{} {}", event.metadata().target(), event.metadata().level()));
        event.record(&mut fields);
        self.0.lock().expect("no panics").push(fields.0);
    }
}

#[test]
fn the_reason_is_in_the_log_only() {
    use tracing_subscriber::layer::SubscriberExt;

    let events = Events::default();
    let log = tracing_subscriber::registry().with(events.clone());
    tracing::subscriber::with_default(log, || {
        let refusal = Refusal::no_row_in_body::<Team>("/team");
        let response = refusal.clone().into_response();
        assert_eq!(response.status(), 422);
        assert_eq!((refusal.resource(), refusal.pointer()), (Some("team"), Some("/team")));
    });
    assert_eq!(
        *events.0.lock().expect("no panics"),
        ["opaque_id INFO message=refused resource=\"team\" reason=no such row"]
    );
}
