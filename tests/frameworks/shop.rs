//! The answers to clients: refused ids have one answer for all reasons, and every other answer is the
//! framework's.

use std::collections::{HashMap, HashSet};

use opaque_id_core::{AnyId, External, Internal, IntoModel, Keyring, OpaqueId};
use opaque_id_web::{NotFound, Opened, OpenedAny, Refusal};
use serde::{Deserialize, Serialize};
use serde_with::formats::CommaSeparator;
use serde_with::{DisplayFromStr, StringWithSeparator, serde_as};

use crate::client::{Answer, Server, assert_alike};
use crate::{Framework, Team, User, log, new_keyring};

/// A model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
pub struct Order;

/// The state of an application. Its methods are the handlers.
#[derive(Clone, Debug)]
pub struct App {
    /// The keyring.
    pub keyring: Keyring,
    user: Internal<User>,
}

impl App {
    /// `GET /users/{id}`
    pub fn find(&self, id: Internal<User>) -> Result<&'static str, NotFound> {
        (id == self.user).then_some("Ada").ok_or(NotFound)
    }

    /// `GET /teams/{team}/members/{user}/{year}`
    pub fn member(&self, member: (Opened<Team>, Opened<User>, u32)) -> Result<String, NotFound> {
        let (Opened(team), Opened(user), year) = member;
        Ok(format!("{} {} {year}", team.expose_key(), self.find(user)?))
    }

    /// `GET /named/{team}/members/{user}/{year}`
    pub fn member_by_name(&self, member: Member) -> Result<String, NotFound> {
        self.member((member.team, member.user, member.year))
    }

    /// `GET /search?user={user}&year=7`
    pub fn filter(&self, filter: Filter) -> Result<String, NotFound> {
        let name = filter.user.map(|user| self.find(user.0)).transpose()?;
        Ok(format!("{name:?} {:?}", filter.year))
    }

    /// `POST /teams`
    pub fn create(&self, team: NewTeam) -> Result<Created, Refusal> {
        if let Some(Opened(lead)) = team.lead {
            self.find(lead).map_err(|_| Refusal::no_row_in_body::<User>("/theLead"))?;
        }
        let ids = team.members.len()
            + team.roles.len()
            + team.scores.len()
            + team.distinct.map_or(0, |distinct| distinct.0)
            + usize::from(team.parent.parent.is_some());
        Ok(Created { name: team.name, ids })
    }

    /// `POST /orders`
    pub fn create_order(&self, request: CreateOrder) -> Result<&'static str, Refusal> {
        let order: NewOrder = self.keyring.accept(request)?;
        self.find(order.buyer).map_err(|_| Refusal::no_row_in_body::<User>("/buyer"))
    }

    /// `POST /invites`, a form
    pub fn invite(invite: &Invite) -> String {
        format!("{} {:?}", invite.year, invite.user)
    }
}

/// A path.
#[derive(Debug, Deserialize)]
pub struct Member {
    user: Opened<User>,
    team: Opened<Team>,
    year: u32,
}

/// A query.
#[derive(Debug, Deserialize)]
pub struct Filter {
    user: Option<Opened<User>>,
    year: Option<u32>,
}

/// A body.
#[derive(Debug, Deserialize)]
pub struct NewTeam {
    name: String,
    #[serde(rename = "theLead")]
    lead: Option<Opened<User>>,
    #[serde(default)]
    members: Vec<Opened<User>>,
    #[serde(default)]
    roles: HashMap<String, Opened<User>>,
    #[serde(default)]
    scores: HashMap<Opened<User>, u32>,
    #[serde(default)]
    distinct: Option<Distinct>,
    #[serde(flatten)]
    parent: Parent,
}

/// A body that compares its ids.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Vec<(Opened<User>, Opened<Team>)>")]
struct Distinct(usize);

impl TryFrom<Vec<(Opened<User>, Opened<Team>)>> for Distinct {
    type Error = &'static str;

    fn try_from(pairs: Vec<(Opened<User>, Opened<Team>)>) -> Result<Self, Self::Error> {
        let (users, teams): (HashSet<_>, HashSet<_>) = pairs.iter().copied().unzip();
        match users.len() == pairs.len() && teams.len() == pairs.len() {
            true => Ok(Self(pairs.len())),
            false => Err("two are the same"),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Parent {
    parent: Option<Opened<Team>>,
}

/// An answer.
#[derive(Debug, Serialize)]
pub struct Created {
    name: String,
    ids: usize,
}

/// A form.
#[derive(Debug, Deserialize)]
pub struct Invite {
    user: Opened<User>,
    year: u32,
}

/// A body with ids that the handler opens.
#[derive(Debug, Deserialize, IntoModel)]
#[model(into = NewOrder)]
pub struct CreateOrder {
    buyer: External<User>,
}

/// A model.
#[derive(Debug)]
pub struct NewOrder {
    /// A user.
    pub buyer: Internal<User>,
}

/// The body of `POST /accepted`. The extractor opens its ids.
#[derive(Debug, Deserialize)]
pub struct Accept<A> {
    /// Orders.
    pub orders: Vec<A>,
    /// A plain value.
    pub year: u32,
}

/// `GET /lists` and `POST /lists`, a form
#[derive(Debug, Deserialize)]
pub struct Lists {
    #[serde(default)]
    id: Vec<Opened<User>>,
    owner: Option<Opened<User>>,
    order: Option<External<Order>>,
    year: Option<u32>,
    q: Option<String>,
}

impl Lists {
    /// Shows the sent values.
    pub fn show(&self) -> String {
        let Self { id, owner, order, year, q } = self;
        format!("{} {} {} {year:?} {q:?}", id.len(), owner.is_some(), order.is_some())
    }
}

/// An id of a user or a team.
#[derive(AnyId, Debug)]
pub enum Node {
    /// A user.
    User(Internal<User>),
    /// A team.
    Team(Internal<Team>),
}

/// `POST /nodes`
#[derive(Debug, Deserialize)]
pub struct Move {
    /// A node.
    pub parent: OpenedAny<Node>,
    /// A plain value.
    pub year: Option<u32>,
}

/// `GET /parsed`
#[serde_as]
#[derive(Debug, Deserialize)]
pub struct Parsed {
    #[serde_as(as = "StringWithSeparator::<CommaSeparator, Opened<User>>")]
    ids: Vec<Opened<User>>,
    #[serde_as(as = "Option<DisplayFromStr>")]
    #[serde(default)]
    order: Option<External<Order>>,
    year: Option<u32>,
}

impl Parsed {
    /// Shows the sent values.
    pub fn show(&self) -> String {
        format!("{} {} {:?}", self.ids.len(), self.order.is_some(), self.year)
    }
}

/// Returns an application's own answer to each refusal: its status and its body.
pub fn envelope(refusal: &Refusal) -> (u16, String) {
    let place = refusal.pointer().unwrap_or("the URL");
    (refusal.status().as_u16(), format!("nothing at {place}"))
}

/// A server with one user, and refused ids.
#[derive(Debug)]
pub struct Shop {
    /// The server.
    pub server: Server,
    /// The refused ids with the reasons.
    pub refused: Vec<(&'static str, String)>,
    /// The server's keyring.
    pub keyring: Keyring,
    /// The id of the user.
    pub user: String,
    /// The id of a team.
    pub team: String,
}

/// Starts a server with one user.
pub fn shop(framework: &Framework) -> Shop {
    start(framework.shop)
}

fn start(start: fn(App) -> Server) -> Shop {
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
    let app = App { keyring: keyring.clone(), user };
    Shop { server: start(app), refused, user: good, team: keyring.seal(team).to_string(), keyring }
}

const NOT_FOUND: &str = r#"{"type":"about:blank","title":"Not Found","status":404}"#;

/// Checks that an answer is that of a missing row.
#[track_caller]
pub fn assert_not_found(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 404, "{what}: {answer:?}");
    assert_eq!(answer.body, NOT_FOUND, "{what}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
}

pub fn every_refusal_in_a_path_is_the_same_answer(framework: &Framework) {
    let shop = shop(framework);
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

/// Otherwise a request with another fault would show which ids were ever genuine.
pub fn what_else_is_wrong_with_a_request_does_not_depend_on_its_ids(framework: &Framework) {
    let shop = shop(framework);
    let (server, team, own) = (&shop.server, &shop.team, framework.own);
    let retired = shop.refused.iter().find(|(what, _)| *what == "retired");
    let (_, retired) = retired.expect("one of them");
    let whole = |answer: Answer| (answer.status, answer.bytes_without_date());
    let post = |kind: &str, path: &str, body: String| {
        whole(server.post(path, &format!("application/{kind}"), &body))
    };
    let get = |path: String| whole(server.get(&path));
    let answers = |id: &str| {
        [
            (own.path, get(format!("/teams/{team}/members/{id}/seven"))),
            (own.path, get(format!("/named/{team}/members/{id}/seven"))),
            (400, get(format!("/search?user={id}&year=seven"))),
            (400, get(format!("/search?user={id}&user={id}"))),
            (own.json, post("json", "/teams", format!(r#"{{"theLead":"{id}","name":7}}"#))),
            (own.json, post("json", "/teams", format!(r#"{{"theLead":"{id}","theLead":"{id}"}}"#))),
            (own.json, post("json", "/teams", format!(r#"{{"theLead":"{id}"}}"#))),
            (400, post("json", "/teams", format!(r#"{{"theLead":"{id}","name":"a""#))),
            (own.form, post("x-www-form-urlencoded", "/invites", format!("user={id}&year=seven"))),
        ]
    };
    for (genuine, made_up) in answers(&shop.user).into_iter().zip(answers(retired)) {
        assert_eq!(genuine, made_up);
        let (expected, (status, answer)) = genuine;
        assert_eq!(status, expected, "{answer:?}");
    }
    // Values of other types have the same answer.
    for id in ["7", "null", "true", "0.5", "[[7],{}]", r#"{"a":[{}]}"#] {
        let (status, _) = post("json", "/teams", format!(r#"{{"members":[{id}],"name":"a"}}"#));
        assert_eq!(status, 422, "{id}");
        let (_, answer) = post("json", "/teams", format!(r#"{{"members":[{id}],"name":7}}"#));
        assert!(answer.contains(framework.own.integer), "{answer}");
    }
    let (status, _) = post("json", "/teams", " ".repeat(3_000_000));
    assert_eq!(status, 413);
}

/// Refused ids differ if genuine ids without a row differ.
pub fn a_body_that_compares_its_ids_has_one_answer(framework: &Framework) {
    let shop = shop(framework);
    let team = |key| shop.keyring.seal(Internal::<Team>::from_key(key).expect("a key")).to_string();
    let renewed = new_keyring(1).seal(Internal::<User>::generate()).to_string();
    let genuine = [(shop.user.clone(), team(1)), (shop.refused[11].1.clone(), team(2))];
    let forged =
        [(renewed, "team_0".to_owned() + &"1".repeat(25)), ("7".to_owned(), team(2) + "0")];
    let all = [&genuine[..], &forged].concat();
    let post = |pairs: &[&(String, String)]| {
        let body = serde_json::json!({ "name": "a", "distinct": pairs }).to_string();
        let answer = shop.server.post("/teams", "application/json", &body);
        (answer.status, answer.body.contains("two are the same"))
    };
    for (i, one) in all.iter().enumerate() {
        for (j, two) in all.iter().enumerate() {
            let third = &all[(j + 1) % all.len()];
            let status = if i < 2 && j < 2 { 200 } else { 422 };
            let expected = if i == j { (framework.own.json, true) } else { (status, false) };
            assert_eq!(post(&[one, two]), expected, "{i} {j}");
            let is_repeated = i == j || third == one || third == two;
            assert_eq!(post(&[one, two, third]).1, is_repeated, "{i} {j}");
        }
    }
}

pub fn everything_else_is_the_frameworks_answer(framework: &Framework) {
    let shop = shop(framework);
    let (user, team) = (&shop.user, &shop.team);
    for (path, status) in [
        (format!("/teams/{team}/members/{user}/seven"), framework.own.path),
        (format!("/named/{team}/members/{user}/-1"), framework.own.path),
        (format!("/search?user={user}&year=seven"), 400),
        (format!("/search?user={user}&user={user}"), 400),
        ("/nowhere".to_owned(), 404),
    ] {
        let answer = shop.server.get(&path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_ne!(answer.header("content-type"), Some("application/problem+json"));
    }
    assert_eq!(shop.server.get("/search").status, 200);
}

/// Nothing opens without a keyring. The client learns nothing, and the log states the remedy.
pub fn the_frameworks_own_extractors_are_an_error_of_the_server(framework: &Framework) {
    let log = log::start();
    let [bare, layered] = [framework.shop, framework.envelope].map(start);
    for (shop, expected) in [(&bare, framework.own.no_keyring), (&layered, Some(500))] {
        let path = format!("/theirs/{}", shop.user);
        let body = format!(r#"{{"user":"{}","year":7}}"#, shop.user);
        for (answer, own) in [
            (shop.server.get(&path), framework.own.path),
            (shop.server.post("/theirs", "application/json", &body), framework.own.json),
        ] {
            assert_eq!(answer.status, expected.unwrap_or(own));
            assert!(!answer.body.contains("keyring"), "{answer:?}");
            if expected.is_some() {
                assert_eq!(
                    answer.body,
                    r#"{"type":"about:blank","title":"Internal Server Error","status":500}"#
                );
            }
        }
        assert_eq!(shop.keyring.opened_count(shop.keyring.sealing_key_id()), 0);
    }
    let event = "opaque_id: no keyring for an id: extract it by `Path`, `Query`, `Form` or `Json` of opaque-id-axum or opaque-id-actix";
    let events = log.events(event);
    assert!(events.len() >= 4 && events.iter().all(|event| event.starts_with("ERROR")));
    // Other errors of these extractors are the client's.
    let answer = layered.server.post("/theirs", "application/json", r#"{"year":"x"}"#);
    assert_eq!(answer.status, framework.own.json);
    let id = format!("{:?}", bare.user);
    assert!(serde_json::from_str::<Opened<User>>(&id).is_err());
    assert!(bare.user.parse::<Opened<User>>().is_err());
}

pub fn lists_and_empty_values_are_those_of_forms(framework: &Framework) {
    const FORM: &str = "application/x-www-form-urlencoded";

    let shop = shop(framework);
    let user = &shop.user;
    let order = "order_01h2xcejqtf2nbrexx3vqjhp41";
    for (pairs, expected) in [
        (String::new(), "0 false false None None"),
        (format!("id={user}&q=x&id={user}"), r#"2 false false None Some("x")"#),
        (format!("id={user}&owner={user}&order={order}"), "1 true true None None"),
        (format!("owner=&id={user}&q=&order=&year="), r#"1 false false None Some("")"#),
        (format!("owner&id={user}&id=&year=7"), "1 false false Some(7) None"),
        ("id=&id=".to_owned(), "0 false false None None"),
    ] {
        assert_eq!(shop.server.get(&format!("/lists?{pairs}")).body, expected, "{pairs}");
        assert_eq!(shop.server.post("/lists", FORM, &pairs).body, expected, "{pairs}");
    }
    let map = shop.server.get("/map?a=1&a=2&b=3").body;
    assert_eq!(map, r#"{"a": "2", "b": "3"}"#, "the last one, as ever");
    for (what, id) in shop.refused.iter().filter(|(what, _)| *what != "without a row") {
        for pairs in [format!("id={user}&id={id}"), format!("owner={id}&q="), format!("order={id}")]
        {
            assert_not_found(&shop.server.get(&format!("/lists?{pairs}")), what);
            let answer = shop.server.post("/lists", FORM, &pairs);
            // actix-web's forms have a limit of 16 kB.
            assert!(answer.status == 422 || *what == "long", "{what}: {answer:?}");
        }
    }
    let form = shop.server.post("/lists", FORM, &format!("id={user}&id=7"));
    assert!(form.body.contains(r#""pointer":"/id/1""#), "{}", form.body);
    let form = shop.server.post("/invites", FORM, "user=&year=7");
    assert!(form.body.contains(r#""pointer":"/user""#), "not optional: {}", form.body);
    let other = |id: &str| {
        let answer = shop.server.get(&format!("/lists?id={user}&id={id}&owner=&year=x"));
        (answer.status, answer.body)
    };
    let (status, body) = other(user);
    assert_eq!((status, &body), (400, &other("7").1));
    assert!(body.contains("invalid digit"), "{body}");
}

pub fn an_id_of_several_resources_has_the_same_answers(framework: &Framework) {
    let shop = shop(framework);
    let (user, team) = (&shop.user, &shop.team);
    let post = |id: &str, year: &str| {
        let body = format!(r#"{{"parent":{id},"year":{year}}}"#);
        shop.server.post("/nodes", "application/json", &body)
    };
    for (id, expected) in [(user, "User(Internal<user>(..))"), (team, "Team(Internal<team>(..))")] {
        assert_eq!(shop.server.get(&format!("/nodes/{id}")).body, expected);
        assert_eq!(post(&format!("{id:?}"), "7").body, expected);
    }
    let mut whole = vec![];
    let order = ("no variant's", "order_01h2xcejqtf2nbrexx3vqjhp41".to_owned());
    let with_row = ["without a row", "another resource's"];
    for (what, id) in shop.refused.iter().chain([&order]).filter(|it| !with_row.contains(&it.0)) {
        assert_not_found(&shop.server.get(&format!("/nodes/{id}")), what);
        whole.push(post(&format!("{id:?}"), "7"));
        let padded = format!("{:<1$}", format!("{id:?}"), 100);
        let genuine = format!("{:<1$}", format!("{user:?}"), padded.len());
        assert_eq!(post(&padded, r#""x""#).body, post(&genuine, r#""x""#).body);
    }
    whole.extend(["7", "true", "[]", "null"].map(|id| post(id, "7")));
    assert!(whole.iter().all(|answer| answer.status == 422));
    assert!(whole[0].body.contains(r#""pointer":"/parent","detail":"no such `id`""#));
    assert_alike(whole);
}

/// The field parses by serde_with.
pub fn ids_that_a_field_parses_have_the_same_answers(framework: &Framework) {
    let shop = shop(framework);
    let user = &shop.user;
    let order = "order_01h2xcejqtf2nbrexx3vqjhp41";
    let get = |query: String| shop.server.get(&format!("/parsed?{query}"));
    assert_eq!(get(format!("ids={user},{user}&order={order}")).body, "2 true None");
    for (what, id) in shop.refused.iter().filter(|(what, _)| *what != "without a row") {
        assert_not_found(&get(format!("ids={user},{id}")), what);
        assert_not_found(&get(format!("ids={user}&order={id}")), what);
        assert_eq!(get(format!("ids={id}&year=x")).body, get(format!("ids={user}&year=x")).body);
    }
}

pub fn requests_are_accepted_in_the_extractor(framework: &Framework) {
    let shop = shop(framework);
    let post = |buyer: &str, year: &str| {
        let body = format!(
            r#"{{"orders":[{{"buyer":"{}"}},{{"buyer":"{buyer}"}}],"year":{year}}}"#,
            shop.user
        );
        shop.server.post("/accepted", "application/json", &body)
    };
    assert_eq!(post(&shop.user, "7").body, "2 of 7");
    let mut whole = vec![];
    for (what, id) in shop.refused.iter().filter(|(what, _)| *what != "without a row") {
        let answer = post(id, "7");
        assert_eq!(answer.status, 422, "{what}");
        whole.push(answer);
    }
    assert!(whole[0].body.contains(r#""pointer":"/orders/1/buyer","detail":"no such `user`""#));
    assert_alike(whole);
    // Other faults do not show which id is genuine.
    let (_, retired) = shop.refused.iter().find(|(what, _)| *what == "retired").expect("one");
    let (genuine, made_up) = (post(&shop.user, r#""x""#), post(retired, r#""x""#));
    assert_eq!((genuine.status, genuine.body), (framework.own.json, made_up.body));
    let enveloped = start(framework.envelope);
    let body = r#"{"orders":[{"buyer":"7"}],"year":7}"#;
    let answer = enveloped.server.post("/accepted", "application/json", body);
    assert_eq!((answer.status, &*answer.body), (422, "nothing at /orders/0/buyer"));
}

/// `envelope` has a middleware that creates a span for each request.
pub fn refusals_are_logged_in_the_span_of_their_request(framework: &Framework) {
    let log = log::start();
    let shop = start(framework.envelope);
    let path = format!("/users/7?of={:?}", std::thread::current().id());
    assert_eq!(shop.server.get(&path).status, 404);
    let events = log.events(&path);
    assert_eq!(events.len(), 1, "{events:?}");
    let span = format!("INFO request{{method=GET path={path}}}: opaque_id: ");
    let refused = format!("{span}refused resource=\"user\" reason=not a `user` id");
    assert!(events[0].starts_with(&refused), "{events:?}");
}

pub fn mapped_ids_are_parsed(framework: &Framework) {
    let shop = shop(framework);
    let id = "order_01h2xcejqtf2nbrexx3vqjhp41";
    assert_eq!(shop.server.get(&format!("/orders/{id}")).body, id);
    assert_not_found(&shop.server.get("/orders/7"), "malformed");
    assert_not_found(&shop.server.get(&format!("/orders/{}", shop.user)), "another resource's");
}

pub fn refusals_in_a_body_say_where(framework: &Framework) {
    let shop = shop(framework);
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
        // The hostile ids are texts here and valid in JSON.
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
    // serde reports no place inside of flattened values.
    let answer = post(r#"{"name":"a","parent":"7"}"#);
    assert_eq!((answer.status, answer.body), (422, expected("", "team")));
    // Errors that do not concern ids are the framework's.
    let json = framework.own.json;
    for (body, status) in
        [(r#"{"name":7}"#, json), ("{", 400), (r#"{"name":"a"#, 400), ("{}", json)]
    {
        let answer = post(body);
        assert_eq!(answer.status, status, "{body}");
        assert!(!answer.body.starts_with('{'), "{answer:?}");
    }
    assert_eq!(shop.server.post("/teams", "text/plain", &all).status, framework.own.content_type);
}

pub fn requests_have_the_same_answers_whoever_opens_them(framework: &Framework) {
    let shop = shop(framework);
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

/// A missing row has the same envelope.
pub fn every_refusal_has_the_envelope_of_an_application(framework: &Framework) {
    let shop = start(framework.envelope);
    assert_eq!(shop.server.get(&format!("/users/{}", shop.user)).body, "Ada");
    let mut whole = Vec::new();
    for (what, id) in &shop.refused {
        let answer = shop.server.get(&format!("/users/{id}"));
        assert_eq!((answer.status, &*answer.body), (404, "nothing at the URL"), "{what}");
        whole.push(answer);
        let body = format!(r#"{{"name":"a","theLead":"{id}"}}"#);
        let answer = shop.server.post("/teams", "application/json", &body);
        assert_eq!((answer.status, &*answer.body), (422, "nothing at /theLead"), "{what}");
    }
    assert_alike(whole);
    let answer = shop.server.post("/teams", "application/json", "{}");
    assert_eq!(answer.status, framework.own.json);
    assert!(answer.body.contains("missing field `name`"), "{answer:?}");
}

/// The server has one thread. An extractor waits on it for its body while others run.
pub fn extractors_that_wait_keep_their_own_keyring_and_refusals(framework: &Framework) {
    let shop = shop(framework);
    let body = format!(r#"{{"name":"a","theLead":"{}"}}"#, shop.user);
    let (first, rest) = body.split_at(12);
    let length = body.len();
    let mut waiting = shop.server.begin(&format!(
        "POST /teams HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{first}"
    ));
    assert_not_found(&shop.server.get("/users/7"), "another request");
    assert_not_found(&shop.server.get("/orders/7"), "another request");
    let theirs = shop.server.get(&format!("/theirs/{}", shop.user));
    let expected = framework.own.no_keyring.unwrap_or(framework.own.path);
    assert_eq!(theirs.status, expected, "no keyring of the waiting one");
    let answer = Server::end(&mut waiting, rest);
    assert_eq!(answer.body, r#"{"name":"a","ids":0}"#);
    // A refusal of another request does not affect this one: the framework rejects a name that is a number.
    assert_not_found(&shop.server.get("/orders/7"), "another request");
    let answer = shop.server.post("/teams", "application/json", r#"{"name":7}"#);
    assert_ne!(answer.header("content-type"), Some("application/problem+json"));
}

pub fn forms_are_bodies(framework: &Framework) {
    const FORM: &str = "application/x-www-form-urlencoded";

    let shop = shop(framework);
    let user = &shop.user;
    let good = format!("user={user}&year=7");
    assert_eq!(shop.server.post("/invites", FORM, &good).body, "7 Opened(Internal<user>(..))");
    let answer = shop.server.post("/invites", FORM, "user=7&year=7");
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains(r#""pointer":"/user""#), "{answer:?}");
    let answer = shop.server.post("/invites", FORM, &format!("user={user}&year=x"));
    assert_eq!(answer.status, framework.own.form);
}
