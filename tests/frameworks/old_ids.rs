//! Old ids below a layer, until a date, with headers.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::old_ids::{Counts, OldIds};
use opaque_id_core::{External, IdError, IdRange, Internal, IntoModel, Keyring, OpaqueId};
use opaque_id_web::{NotFound, OldIdsLayer, Opened, Refusal};
use serde::Deserialize;

use crate::client::{Answer, Server, assert_alike};
use crate::{Framework, new_keyring};

/// A model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "item", key = i64)]
pub struct Item;

/// A model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "shop")]
pub struct Shop;

/// `GET /items/{id}`, `GET /new/{id}`
pub fn item(id: Internal<Item>) -> Result<String, NotFound> {
    match id.expose_key() {
        key @ 1..=100 => Ok(key.to_string()),
        _ => Err(NotFound),
    }
}

/// `GET /texts/{text}`
pub fn read(opened: Result<Opened<Item>, IdError>) -> Result<String, Refusal> {
    let key = |Opened(id): Opened<Item>| id.expose_key().to_string();
    opened.map(key).map_err(Refusal::in_url::<Item>)
}

/// A query.
#[derive(Debug, Deserialize)]
pub struct Both {
    item: Opened<Item>,
    shop: Option<Opened<Shop>>,
}

/// `GET /search?item=7`
pub fn search(both: &Both) -> String {
    format!("{} {}", both.item.0.expose_key(), both.shop.is_some())
}

/// A body.
#[derive(Debug, Deserialize)]
pub struct Order {
    items: Vec<Opened<Item>>,
}

/// `POST /accepted`
#[derive(Debug, Deserialize, IntoModel)]
#[model(into = Basket)]
pub struct CreateBasket {
    items: Vec<External<Item>>,
    item: Option<External<Item>>,
}

/// A model.
#[derive(Debug)]
pub struct Basket {
    items: Vec<Internal<Item>>,
    item: Option<Internal<Item>>,
}

/// `POST /accepted`
pub fn accepted(basket: &Basket) -> String {
    let all = basket.items.iter().chain(&basket.item);
    all.map(|item| item.expose_key().to_string()).collect::<Vec<_>>().join(" ")
}

/// `POST /orders`
pub fn order(order: &Order) -> Result<String, Refusal> {
    let missing = |item: &Opened<Item>| !(1..=100).contains(&item.0.expose_key());
    match order.items.iter().position(missing) {
        Some(place) => Err(Refusal::no_row_in_body::<Item>(format!("/items/{place}"))),
        None => Ok(order.items.len().to_string()),
    }
}

fn key(key: i64) -> Internal<Item> {
    Internal::from_key(key).expect("a key")
}

const DAY: Duration = Duration::from_secs(86_400);

/// The old ids of a server: items on all routes but `/new/{id}`, and shops on all.
#[derive(Debug)]
pub struct Layers {
    /// The keyring.
    pub keyring: Keyring,
    /// The inner layer.
    pub items: OldIdsLayer,
    /// The outer layer.
    pub shops: OldIdsLayer,
}

struct Moved {
    server: Server,
    keyring: Keyring,
    items: Arc<OldIds<Item>>,
}

/// Starts a server. Items up to 1,000 were shown as integers, and 100 of them have rows. Shops were shown as
/// UUIDs.
fn moved(framework: &Framework, end: SystemTime) -> Moved {
    let keyring = new_keyring(0);
    let shown = IdRange::all().up_to(key(1_000));
    let items = OldIds::<Item>::builder(shown, UNIX_EPOCH + 20_000 * DAY..end)
        .integers()
        .documentation("https://shop.example/ids")
        .build(&keyring);
    let items = Arc::new(items.expect("integers do not look like ids"));
    let shops = OldIds::<Shop>::builder(IdRange::all(), UNIX_EPOCH..end).uuids();
    let shops = shops.build(&keyring).expect("UUIDs do not look like ids");
    let layers = Layers {
        keyring: keyring.clone(),
        items: OldIdsLayer::new().of(items.clone()),
        shops: OldIdsLayer::new().of(shops),
    };
    Moved { server: (framework.old_ids)(layers), keyring, items }
}

fn in_a_year() -> SystemTime {
    SystemTime::now() + 365 * DAY
}

fn notice(answer: &Answer) -> [Option<&str>; 3] {
    ["deprecation", "sunset", "link"].map(|name| answer.header(name))
}

pub fn an_accepted_old_id_is_opened_with_a_notice(framework: &Framework) {
    let end = UNIX_EPOCH + 90_000 * DAY;
    let Moved { server, keyring, items } = moved(framework, end);
    let expected = [
        Some("@1728000000"),
        Some("Fri, 31 May 2216 00:00:00 GMT"),
        Some(r#"<https://shop.example/ids>; rel="deprecation"; type="text/html""#),
    ];
    let json = "application/json";
    for (answer, body) in [
        (server.get("/items/42"), "42"),
        (server.get("/texts/42"), "42"),
        (server.get("/search?item=7"), "7 false"),
        (server.post("/orders", json, r#"{"items":[1,"2"]}"#), "2"),
    ] {
        assert_eq!((answer.status, &*answer.body), (200, body));
        assert_eq!(notice(&answer), expected);
    }
    let new = keyring.seal(key(42));
    for answer in [
        server.get(&format!("/items/{new}")),
        server.get(&format!("/texts/{new}")),
        server.get(&format!("/search?item={new}")),
        server.post("/orders", json, &format!(r#"{{"items":["{new}"]}}"#)),
        server.post("/orders", json, r#"{"items":[]}"#),
    ] {
        assert_eq!(answer.status, 200);
        assert_eq!(notice(&answer), [None; 3]);
    }
    let counts: Vec<Counts> = items.counts().collect();
    assert_eq!((counts[0].accepted, counts[1].accepted), (4, 5));
    assert_alike(vec![server.get("/texts/1001"), server.get("/items/1001")]);
}

pub fn requests_accept_old_ids(framework: &Framework) {
    let Moved { server, keyring, .. } = moved(framework, in_a_year());
    let new = keyring.seal(key(42));
    let post = |body: &str| server.post("/accepted", "application/json", body);
    let answer = post(&format!(r#"{{"items":[1,"2","{new}"],"item":7}}"#));
    assert_eq!((answer.status, &*answer.body), (200, "1 2 42 7"));
    assert!(notice(&answer)[0].is_some());
    let answer = post(&format!(r#"{{"items":["{new}"]}}"#));
    assert_eq!((answer.status, &*answer.body), (200, "42"));
    assert_eq!(notice(&answer), [None; 3]);
    let form = server.post("/forms", "application/x-www-form-urlencoded", "items=1&items=2&item=7");
    assert_eq!((form.status, &*form.body), (200, "1 2 7"));
    assert_eq!(server.get("/accepted/7").body, "7");
    let mut answers = vec![];
    let other = format!(r#""{}""#, External::<Item>::example());
    // The ids were never shown, are no integers, have another secret, or are no ids at all.
    for id in ["1001", r#""4_2""#, &other, "7.5", "18446744073709551615", r#""""#] {
        let answer = post(&format!(r#"{{"items":[1,{id}]}}"#));
        assert_eq!(answer.status, 422, "{id}");
        assert!(answer.body.contains(r#""pointer":"/items/1""#), "{}", answer.body);
        answers.push(answer);
    }
    assert_alike(answers);
    for id in ["1001", "4_2"] {
        assert_eq!(server.get(&format!("/accepted/{id}")).status, 404, "{id}");
    }
}

pub fn layers_add_up_and_bound_what_is_accepted(framework: &Framework) {
    let Moved { server, keyring, .. } = moved(framework, in_a_year());
    let uuid = Internal::<Shop>::generate().expose_key().to_string();
    // The ids belong to the outer layer, and to both.
    let answer = server.get(&format!("/search?item={}&shop={uuid}", keyring.seal(key(1))));
    assert_eq!((answer.status, &*answer.body), (200, "1 true"));
    assert_eq!(notice(&answer)[0], Some("@0"));
    let answer = server.get(&format!("/search?item=1&shop={uuid}"));
    assert_eq!((answer.status, &*answer.body), (200, "1 true"));
    // This route is outside of the layer for items.
    assert_eq!(server.get("/new/42").status, 404);
}

pub fn every_refusal_is_the_same_answer(framework: &Framework) {
    let Moved { server, keyring, .. } = moved(framework, in_a_year());
    let ended = moved(framework, SystemTime::now());
    let other = External::<Item>::example();
    let new = keyring.seal(key(101));
    let mut answers = vec![ended.server.get("/items/42")];
    // The ids were never shown, are no integers, have no row (old and new), have another secret, or are
    // malformed.
    for id in ["1001", "4_2", "101", &new.to_string(), &other.to_string(), "x", "%2042"] {
        let answer = server.get(&format!("/items/{id}"));
        assert_eq!(answer.status, 404, "{id}");
        answers.push(answer);
    }
    assert_alike(answers);

    // The reasons are the same in a body.
    let mut answers = vec![];
    let (new, other) = (format!(r#""{new}""#), format!(r#""{other}""#));
    for id in ["1001", "101", r#""4_2""#, &new, &other] {
        let body = format!(r#"{{"items":[{id}]}}"#);
        let answer = server.post("/orders", "application/json", &body);
        assert_eq!(answer.status, 422, "{body}");
        answers.push(answer);
    }
    assert_alike(answers);

    for (body, pointer) in [
        (r#"{"items":[1,1001]}"#, "/items/1"),
        (r#"{"items":["4_2"]}"#, "/items/0"),
        (r#"{"items":[1.0]}"#, "/items/0"),
        (r#"{"items":[18446744073709551615]}"#, "/items/0"),
        (r#"{"items":[true]}"#, "/items/0"),
    ] {
        let answer = server.post("/orders", "application/json", body);
        assert_eq!(answer.status, 422, "{body}");
        assert!(answer.body.contains(&format!(r#""pointer":"{pointer}""#)), "{}", answer.body);
    }
}
