//! What clients get, by real HTTP: refused ids have one answer, whatever the reason, and everything else is axum's.

mod audiences;
mod moving;
mod old_ids;
mod pages;
#[cfg(feature = "utoipa6")]
mod schema;
mod server;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use opaque_id_axum::{Form, Json, NotFound, Opened, Path, Query, Refusal, Rejection};
use opaque_id_core::{External, Internal, IntoModel, Keyring, MasterSecret, OpaqueId};
use serde::{Deserialize, Serialize};
use server::{Answer, Server, assert_alike};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", form = "tagged")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
struct Team;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

/// The table's one row.
type App = server::App<Internal<User>>;

impl App {
    fn find(&self, id: Internal<User>) -> Result<&'static str, NotFound> {
        (id == self.table).then_some("Ada").ok_or(NotFound)
    }
}

fn new_keyring(key_id: u8) -> Keyring {
    let keyring = Keyring::builder().sealing(key_id, MasterSecret::generate());
    keyring.build().expect("a good secret")
}

async fn show(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<User>>,
) -> Result<&'static str, NotFound> {
    app.find(id)
}

async fn member(
    State(app): State<App>,
    Path((Opened(team), Opened(user), year)): Path<(Opened<Team>, Opened<User>, u32)>,
) -> Result<String, NotFound> {
    let name = app.find(user)?;
    Ok(format!("{} {name} {year}", team.expose_key()))
}

#[derive(Deserialize)]
struct Member {
    user: Opened<User>,
    team: Opened<Team>,
    year: u32,
}

async fn member_by_name(
    State(app): State<App>,
    Path(member): Path<Member>,
) -> Result<String, NotFound> {
    let name = app.find(member.user.0)?;
    Ok(format!("{} {name} {}", member.team.0.expose_key(), member.year))
}

async fn pair(Path(pair): Path<HashMap<String, Opened<Team>>>) -> String {
    pair.len().to_string()
}

async fn order(Path(order): Path<External<Order>>) -> String {
    order.to_string()
}

#[derive(Deserialize)]
struct Filter {
    user: Option<Opened<User>>,
    year: Option<u32>,
}

async fn filter(State(app): State<App>, Query(filter): Query<Filter>) -> Result<String, NotFound> {
    let name = filter.user.map(|user| app.find(user.0)).transpose()?;
    Ok(format!("{name:?} {:?}", filter.year))
}

#[derive(Deserialize)]
struct NewTeam {
    name: String,
    #[serde(rename = "theLead")]
    lead: Option<Opened<User>>,
    #[serde(default)]
    members: Vec<Opened<User>>,
    #[serde(default)]
    roles: HashMap<String, Opened<User>>,
    #[serde(default)]
    scores: HashMap<Opened<User>, u32>,
    #[serde(flatten)]
    parent: Parent,
}

#[derive(Deserialize)]
struct Parent {
    parent: Option<Opened<Team>>,
}

#[derive(Serialize)]
struct Created {
    name: String,
    ids: usize,
}

async fn create(
    State(app): State<App>,
    Json(team): Json<NewTeam>,
) -> Result<Json<Created>, Refusal> {
    if let Some(Opened(lead)) = team.lead {
        app.find(lead).map_err(|_| Refusal::no_row_in_body::<User>("/theLead"))?;
    }
    let ids = team.members.len()
        + team.roles.len()
        + team.scores.len()
        + usize::from(team.parent.parent.is_some());
    Ok(Json(Created { name: team.name, ids }))
}

#[derive(Deserialize)]
struct Invite {
    user: Opened<User>,
    year: u32,
}

async fn invite(Form(invite): Form<Invite>) -> String {
    format!("{} {:?}", invite.year, invite.user)
}

/// A request whose ids the handler opens.
#[derive(Deserialize, IntoModel)]
#[model(into = NewOrder)]
struct CreateOrder {
    buyer: External<User>,
}

struct NewOrder {
    buyer: Internal<User>,
}

async fn create_order(
    State(app): State<App>,
    Json(request): Json<CreateOrder>,
) -> Result<&'static str, Refusal> {
    let order: NewOrder = app.keyring.accept(request)?;
    app.find(order.buyer).map_err(|_| Refusal::no_row_in_body::<User>("/buyer"))
}

async fn in_an_envelope(
    found: Result<Path<Opened<User>>, Rejection<axum::extract::rejection::PathRejection>>,
) -> String {
    match found {
        Ok(_) => "ok".to_owned(),
        Err(Rejection::Refused(refusal)) => {
            format!("{:?} {} {}", refusal.resource(), refusal.status(), refusal.reason())
        }
        Err(Rejection::Other(other)) => other.body_text(),
    }
}

/// What axum's own extractor does with our type.
async fn theirs(axum::extract::Path(_): axum::extract::Path<Opened<User>>) {}

struct Shop {
    server: Server,
    /// Each of them with the reason why it is refused.
    refused: Vec<(&'static str, String)>,
    keyring: Keyring,
    user: String,
    team: String,
}

fn shop() -> Shop {
    let [keyring, other, before] = [0, 0, 1].map(new_keyring);
    let user = Internal::generate();
    let team = Internal::<Team>::from_key(7).expect("a key");
    let good = keyring.seal(user).to_string();
    let mut tampered = good.clone().into_bytes();
    let last = tampered.last_mut().expect("not empty");
    *last = if *last == b'0' { b'1' } else { b'0' };

    let refused = vec![
        ("malformed", "42".to_owned()),
        ("upper case", good.to_uppercase()),
        ("NUL", format!("{good}%00")),
        ("a slash", format!("{good}%2F..")),
        ("not UTF-8", "user_%FF%FE".to_owned()),
        ("long", "user_".to_owned() + &"0".repeat(30_000)),
        ("line feeds", "user_%0d%0aSet-Cookie:%20a=b".to_owned()),
        ("tampered", String::from_utf8(tampered).expect("ASCII")),
        ("another resource's", keyring.seal(team).to_string()),
        ("another secret's", other.seal(user).to_string()),
        ("retired", before.seal(user).to_string()),
        ("without a row", keyring.seal(Internal::<User>::generate()).to_string()),
    ];
    let app = App { keyring: keyring.clone(), table: user };
    let router = Router::new()
        .route("/users/{id}", get(show))
        .route("/teams/{team}/members/{user}/{year}", get(member))
        .route("/named/{team}/members/{user}/{year}", get(member_by_name))
        .route("/pairs/{first}/{second}", get(pair))
        .route("/orders/{id}", get(order))
        .route("/search", get(filter))
        .route("/teams", post(create))
        .route("/orders", post(create_order))
        .route("/invites", get(invite).post(invite))
        .route("/envelope/{id}", get(in_an_envelope))
        .route("/arity/{team}/{user}", get(show))
        .route("/theirs/{id}", get(theirs))
        .with_state(app);
    Shop {
        server: Server::start(router),
        refused,
        user: good,
        team: keyring.seal(team).to_string(),
        keyring,
    }
}

const NOT_FOUND: &str = r#"{"type":"about:blank","title":"Not Found","status":404}"#;

fn assert_not_found(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 404, "{what}: {answer:?}");
    assert_eq!(answer.body, NOT_FOUND, "{what}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
}

#[test]
fn every_refusal_in_a_path_is_the_same_answer() {
    let shop = shop();
    let (user, team) = (&shop.user, &shop.team);
    assert_eq!(shop.server.get(&format!("/users/{user}")).body, "Ada");
    assert_eq!(shop.server.get(&format!("/teams/{team}/members/{user}/7")).body, "7 Ada 7");
    assert_eq!(shop.server.get(&format!("/named/{team}/members/{user}/7")).body, "7 Ada 7");
    let mut whole = Vec::new();
    for (what, id) in &shop.refused {
        for path in [
            format!("/users/{id}"),
            format!("/teams/{team}/members/{id}/7"),
            format!("/named/{team}/members/{id}/7"),
            format!("/search?user={id}"),
            format!("/search?year=7&user={id}"),
        ] {
            let answer = shop.server.get(&path);
            assert_not_found(&answer, what);
            whole.push(answer);
        }
    }
    assert_alike(whole);
}

#[test]
fn everything_else_is_axums_answer() {
    let shop = shop();
    let (user, team) = (&shop.user, &shop.team);
    for (path, status) in [
        (format!("/teams/{team}/members/{user}/seven"), 400),
        (format!("/named/{team}/members/{user}/-1"), 400),
        (format!("/search?user={user}&year=seven"), 400),
        (format!("/search?user={user}&user={user}"), 400),
        (format!("/arity/{team}/{user}"), 500),
        ("/nowhere".to_owned(), 404),
    ] {
        let answer = shop.server.get(&path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_ne!(answer.header("content-type"), Some("application/problem+json"));
    }
    for path in [format!("/pairs/{team}/{team}"), "/search".to_owned()] {
        assert_eq!(shop.server.get(&path).status, 200);
    }
    assert_not_found(&shop.server.get(&format!("/pairs/{team}/{user}")), "a map");
}

/// Otherwise a request with something else wrong would say which ids were genuine once.
#[test]
fn what_else_is_wrong_with_a_request_does_not_depend_on_its_ids() {
    let shop = shop();
    let (server, team) = (&shop.server, &shop.team);
    let retired = shop.refused.iter().find(|(what, _)| *what == "retired");
    let (_, retired) = retired.expect("one of them");
    let whole = |answer: Answer| (answer.status, answer.bytes_without_date());
    let post = |kind: &str, path: &str, body: String| {
        whole(server.post(path, &format!("application/{kind}"), &body))
    };
    let get = |path: String| whole(server.get(&path));
    let answers = |id: &str| {
        [
            (400, get(format!("/teams/{team}/members/{id}/seven"))),
            (400, get(format!("/named/{team}/members/{id}/seven"))),
            (400, get(format!("/search?user={id}&year=seven"))),
            (400, get(format!("/search?user={id}&user={id}"))),
            (400, get(format!("/invites?user={id}&year=seven"))),
            (422, post("json", "/teams", format!(r#"{{"theLead":"{id}","name":7}}"#))),
            (422, post("json", "/teams", format!(r#"{{"theLead":"{id}","theLead":"{id}"}}"#))),
            (422, post("json", "/teams", format!(r#"{{"theLead":"{id}"}}"#))),
            (400, post("json", "/teams", format!(r#"{{"theLead":"{id}","name":"a""#))),
            (422, post("x-www-form-urlencoded", "/invites", format!("user={id}&year=seven"))),
        ]
    };
    for (genuine, made_up) in answers(&shop.user).into_iter().zip(answers(retired)) {
        assert_eq!(genuine, made_up);
        let (expected, (status, answer)) = genuine;
        assert_eq!(status, expected, "{answer:?}");
    }
    // So it is with values of other types.
    for id in ["7", "null", "true", "0.5", "[[7],{}]", r#"{"a":[{}]}"#] {
        let (status, _) = post("json", "/teams", format!(r#"{{"members":[{id}],"name":"a"}}"#));
        assert_eq!(status, 422, "{id}");
        let (_, answer) = post("json", "/teams", format!(r#"{{"members":[{id}],"name":7}}"#));
        assert!(answer.contains("name: invalid type: integer"), "{answer}");
    }
    let (status, _) = post("json", "/teams", " ".repeat(3_000_000));
    assert_eq!(status, 413);
}

#[test]
fn mapped_ids_are_parsed() {
    let shop = shop();
    let id = "order_01h2xcejqtf2nbrexx3vqjhp41";
    assert_eq!(shop.server.get(&format!("/orders/{id}")).body, id);
    assert_not_found(&shop.server.get("/orders/7"), "malformed");
    assert_not_found(&shop.server.get(&format!("/orders/{}", shop.user)), "another resource's");
}

#[test]
fn refusals_in_a_body_say_where() {
    let shop = shop();
    let post = |body: &str| shop.server.post("/teams", "application/json", body);
    let (user, team) = (&shop.user, &shop.team);
    let all = format!(
        r#"{{"name":"a","theLead":"{user}","members":["{user}"],"roles":{{"b":"{user}"}},"scores":{{"{user}":7}},"parent":"{team}"}}"#
    );
    assert_eq!(post(&all).body, r#"{"name":"a","ids":4}"#);

    let expected = |pointer: &str, resource: &str| {
        format!(
            r#"{{"type":"about:blank","title":"Unprocessable Content","status":422,"errors":[{{"pointer":"{pointer}","detail":"no such `{resource}`"}}]}}"#
        )
    };
    let mut bad: Vec<String> = Vec::new();
    for (what, id) in &shop.refused {
        // The hostile ones are texts here, and fit JSON.
        bad.push(format!(r#""{id}""#));
        if *what != "without a row" {
            let answer = post(&format!(r#"{{"name":"a","members":["{user}","{id}"]}}"#));
            assert_eq!(
                (answer.status, answer.body),
                (422, expected("/members/1", "user")),
                "{what}"
            );
        }
    }
    bad.extend(
        ["7", "-7", "0.5", "true", "[]", "{}", r#"["user_"]"#, r#""\u0000""#].map(str::to_owned),
    );
    let mut whole = Vec::new();
    for id in bad {
        let answer = post(&format!(r#"{{"name":"a","theLead":{id}}}"#));
        assert_eq!((answer.status, &answer.body), (422, &expected("/theLead", "user")), "{id}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        whole.push(answer);
    }
    assert_alike(whole);

    let answer = post(r#"{"name":"a","roles":{"x/y~\"z":"7"}}"#);
    assert_eq!(answer.body, expected(r#"/roles/x~1y~0\"z"#, "user"));
    let answer = post(r#"{"name":"a","scores":{"7":1}}"#);
    assert_eq!(answer.body, expected("/scores/7", "user"));
    // serde knows no place inside of what is flattened.
    let answer = post(r#"{"name":"a","parent":"7"}"#);
    assert_eq!((answer.status, answer.body), (422, expected("", "team")));
    // And what is not about ids is axum's.
    for (body, status) in [(r#"{"name":7}"#, 422), ("{", 400), (r#"{"name":"a"#, 400), ("{}", 422)]
    {
        let answer = post(body);
        assert_eq!(answer.status, status, "{body}");
        assert!(!answer.body.starts_with('{'), "{answer:?}");
    }
    assert_eq!(shop.server.post("/teams", "text/plain", &all).status, 415);
}

#[test]
fn requests_have_the_same_answers_whoever_opens_them() {
    let shop = shop();
    let post = |id: &str| {
        let body = format!(r#"{{"buyer":{id}}}"#);
        shop.server.post("/orders", "application/json", &body)
    };
    let text = |id: &str| post(&format!(r#""{id}""#));
    assert_eq!(text(&shop.user).body, "Ada");
    let mut whole = Vec::new();
    for id in ["7", "-7", "0.5", "true", "null", "[]", "{}", r#"["user_"]"#] {
        let answer = post(id);
        assert_eq!(answer.status, 422, "{id}: {answer:?}");
        whole.push(answer);
    }
    for (what, id) in &shop.refused {
        let answer = text(id);
        assert_eq!(answer.status, 422, "{what}: {answer:?}");
        assert!(answer.body.contains(r#""pointer":"/buyer","detail":"no such `user`""#));
        whole.push(answer);
    }
    assert_alike(whole);
}

/// The server has one thread, on which an extractor waits for its body while others run.
#[test]
fn extractors_that_wait_keep_their_own_keyring_and_refusals() {
    let shop = shop();
    let body = format!(r#"{{"name":"a","theLead":"{}"}}"#, shop.user);
    let (first, rest) = body.split_at(12);
    let length = body.len();
    let mut waiting = shop.server.begin(&format!(
        "POST /teams HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{first}"
    ));
    assert_not_found(&shop.server.get("/users/7"), "another request");
    assert_not_found(&shop.server.get("/orders/7"), "another request");
    let theirs = shop.server.get(&format!("/theirs/{}", shop.user));
    assert_eq!(theirs.status, 400, "no keyring of the waiting one");
    let answer = Server::end(&mut waiting, rest);
    assert_eq!(answer.body, r#"{"name":"a","ids":0}"#);
    // A refusal of another request is not this one's: a name that is a number is axum's to reject.
    assert_not_found(&shop.server.get("/orders/7"), "another request");
    let answer = shop.server.post("/teams", "application/json", r#"{"name":7}"#);
    assert_ne!(answer.header("content-type"), Some("application/problem+json"));
}

#[test]
fn forms_are_bodies_and_queries() {
    const FORM: &str = "application/x-www-form-urlencoded";

    let shop = shop();
    let user = &shop.user;
    let good = format!("user={user}&year=7");
    assert_eq!(shop.server.post("/invites", FORM, &good).body, "7 Opened(Internal<user>(..))");
    let answer = shop.server.post("/invites", FORM, "user=7&year=7");
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains(r#""pointer":"/user""#), "{answer:?}");
    assert_not_found(&shop.server.get("/invites?user=7&year=7"), "a query");
    assert_eq!(shop.server.post("/invites", FORM, &format!("user={user}&year=x")).status, 422);
    assert_eq!(shop.server.get(&format!("/invites?user={user}&year=x")).status, 400);
}

#[test]
fn an_envelope_of_ones_own_gets_the_reason() {
    let shop = shop();
    let answer = |id: &str| shop.server.get(&format!("/envelope/{id}")).body;
    assert_eq!(answer(&shop.user), "ok");
    assert_eq!(
        answer("7"),
        "Some(\"user\") 404 Not Found not a `user` id: it does not start with the prefix and an underscore"
    );
    assert!(answer(&shop.refused[10].1).contains("the keyring has no secret with key id 1"));
    assert_eq!(answer("%FF"), "None 404 Not Found not a string of UTF-8");
}

/// Nothing opens without a keyring, and the message says what to write.
#[test]
fn axums_own_extractors_open_nothing() {
    let shop = shop();
    let answer = shop.server.get(&format!("/theirs/{}", shop.user));
    assert_eq!(answer.status, 400);
    assert!(
        answer.body.contains("extract ids by `Path`, `Query`, `Form` or `Json` of opaque-id-axum")
    );
    let id = format!("{:?}", shop.user);
    assert!(serde_json::from_str::<Opened<User>>(&id).is_err());
    assert_eq!(shop.keyring.opened_count(shop.keyring.sealing_key_id()), 0);
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
