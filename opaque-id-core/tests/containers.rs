//! Ids in containers, enums and generic types: in views, in requests and in `trusted`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use opaque_id_core::{External, Internal, IntoModel, OpaqueId, View, trusted};
use serde::{Deserialize, Serialize};

use super::new_keyring;

resources! {
    User(prefix = "user", key = i64);
    Team(prefix = "team", key = i32);
}

type Users<V> = HashMap<Internal<User>, V>;

#[derive(Clone, Debug, PartialEq, View)]
#[view(into = RowView, derive(Debug, PartialEq, Serialize, Deserialize, IntoModel))]
struct Row {
    set: HashSet<Internal<User>>,
    sorted: BTreeSet<Internal<User>>,
    scores: BTreeMap<Internal<User>, f64>,
    pair: (Internal<User>, u8),
    array: [Internal<User>; 2],
    #[view(as = HashMap<External<User>, Option<External<Team>>>)]
    teams: Users<Option<Internal<Team>>>,
    by_name: HashMap<String, Internal<User>>,
    places: Vec<(String, (f64, f64), Internal<User>)>,
    members: BTreeMap<String, Vec<(Internal<User>, bool)>>,
    plain: (u8, (u8, String)),
    tags: HashMap<String, (u8, u8)>,
}

#[derive(View)]
#[view(into = ShownView)]
struct Shown {
    shared: Arc<[Internal<User>]>,
    result: Result<Internal<User>, String>,
}

fn user(key: i64) -> Internal<User> {
    Internal::from_key(key).expect("any integer")
}

fn team(key: i32) -> Internal<Team> {
    Internal::from_key(key).expect("any integer")
}

fn row() -> Row {
    Row {
        set: [user(1), user(2)].into(),
        sorted: [user(3), user(4)].into(),
        scores: [(user(5), 0.5)].into(),
        pair: (user(6), 7),
        array: [user(8), user(9)],
        teams: [(user(10), Some(team(11))), (user(12), None)].into(),
        by_name: [("Ada".to_owned(), user(13))].into(),
        places: vec![("home".to_owned(), (1.5, 2.5), user(14))],
        members: [("a".to_owned(), vec![(user(15), true)])].into(),
        plain: (1, (2, "x".to_owned())),
        tags: [("t".to_owned(), (1, 2))].into(),
    }
}

#[test]
fn each_part_of_a_container_is_sealed_opened_or_left() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let view: RowView = keyring.view(row());
    assert_eq!(view.pair, (keyring.seal(user(6)), 7));
    assert_eq!(view.teams[&keyring.seal(user(10))], Some(keyring.seal(team(11))));
    let sent: RowView = serde_json::from_str(&serde_json::to_string(&view)?)?;
    assert_eq!(sent.into_model(&keyring)?, row());
    let shown = Shown { shared: [user(1)].into(), result: Ok(user(2)) };
    let ShownView { shared, result } = keyring.view(shown);
    assert_eq!((&*shared, result), (&[keyring.seal(user(1))][..], Ok(keyring.seal(user(2)))));
    Ok(())
}

#[test]
fn an_error_says_where_in_a_container_it_is() {
    let (ours, theirs) = (new_keyring(0), new_keyring(0));
    let pointer = |change: &dyn Fn(&mut RowView)| {
        let mut view: RowView = ours.view(row());
        change(&mut view);
        let opened: Result<Row, _> = ours.accept(view);
        opened.expect_err("not ours").pointer()
    };
    let strange = theirs.seal(user(1));
    assert_eq!(pointer(&|view| view.array[1] = strange), "/array/1");
    assert_eq!(pointer(&|view| view.pair.0 = strange), "/pair/0");
    assert_eq!(pointer(&|view| view.places[0].2 = strange), "/places/0/2");
    // A set has no order, and the key of a map has no place of its own.
    assert_eq!(pointer(&|view| view.set = [strange].into()), "/set");
    assert_eq!(pointer(&|view| view.scores = [(strange, 0.)].into()), "/scores");
    assert_eq!(
        pointer(&|view| view.members = [("b".into(), vec![(strange, true)])].into()),
        "/members/0/0"
    );
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    #[serde(with = "trusted")]
    optional: Option<Vec<Internal<User>>>,
    #[serde(with = "trusted")]
    teams: Users<Vec<(Internal<Team>, String)>>,
    #[serde(with = "trusted")]
    array: [Option<Internal<User>>; 2],
    #[serde(with = "trusted")]
    sets: (HashSet<Internal<User>>, BTreeSet<Internal<User>>),
    #[serde(with = "trusted")]
    shared: Arc<Internal<User>>,
}

#[test]
fn trusted_accepts_containers_in_each_other() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job {
        optional: Some(vec![user(1)]),
        teams: [(user(2), vec![(team(3), "x".to_owned())])].into(),
        array: [Some(user(4)), None],
        sets: ([user(5)].into(), [user(6)].into()),
        shared: user(7).into(),
    };
    let text = serde_json::to_string(&job)?;
    let expected =
        r#"{"optional":[1],"teams":{"2":[[3,"x"]]},"array":[4,null],"sets":[[5],[6]],"shared":7}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Job>(&text)?, job);
    assert_eq!(postcard::from_bytes::<Job>(&postcard::to_stdvec(&job)?)?, job);
    let short = serde_json::from_str::<Job>(&expected.replace("[4,null]", "[4]"));
    let error = short.expect_err("one is missing").to_string();
    assert!(error.starts_with("invalid length 1, expected 2 elements"), "{error}");
    Ok(())
}

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Joined { user: Internal<User>, team: Internal<Team> },
    Left(Internal<User>),
    Moved(Internal<User>, String),
    Ping,
    Batch(Vec<Event>),
}

macro_rules! events {
    ($($name:ident($($serde:tt)*);)*) => {$(
        #[derive(Debug, PartialEq, Serialize, Deserialize, View, IntoModel)]
        #[view(from = Event)]
        #[model(into = Event)]
        #[serde(rename_all = "snake_case", $($serde)*)]
        enum $name {
            Joined {
                #[view(rename = "user")]
                #[model(rename = "user")]
                r#type: External<User>,
                team: External<Team>,
            },
            #[view(rename = "Left")]
            #[model(rename = "Left")]
            Gone(External<User>),
            Moved(External<User>, String),
            Ping,
            Batch(Vec<$name>),
        }
    )*};
}

events! {
    Tagged();
    InContent(tag = "kind", content = "data");
    Bare(untagged);
}

#[test]
fn an_enum_has_the_variants_of_its_model() -> Result<(), Box<dyn std::error::Error>> {
    let (ours, theirs) = (new_keyring(0), new_keyring(0));
    let events = [
        Event::Joined { user: user(1), team: team(2) },
        Event::Left(user(3)),
        Event::Moved(user(4), "x".to_owned()),
        Event::Ping,
        Event::Batch(vec![Event::Ping, Event::Left(user(5))]),
    ];
    let error = |error: opaque_id_core::RequestError| error.pointer();
    // The places are those of serde's output.
    let expected = [
        ["/joined/type", "/gone", "/moved/0", "", "/batch/1/gone"],
        ["/data/type", "/data", "/data/0", "", "/data/1/data"],
        ["/type", "", "/0", "", "/1"],
    ];
    for (i, event) in events.iter().enumerate() {
        let view: Tagged = ours.view(event.clone());
        let sent: Tagged = serde_json::from_str(&serde_json::to_string(&view)?)?;
        assert_eq!(ours.accept::<_, Event>(sent)?, *event);
        let places = [
            theirs.accept::<Tagged, Event>(ours.view(event.clone())).map_err(error),
            theirs.accept::<InContent, Event>(ours.view(event.clone())).map_err(error),
            theirs.accept::<Bare, Event>(ours.view(event.clone())).map_err(error),
        ];
        for (place, expected) in places.into_iter().zip(expected) {
            match place {
                Ok(ping) => assert_eq!(ping, Event::Ping),
                Err(place) => assert_eq!(place, expected[i]),
            }
        }
    }
    Ok(())
}

/// serde requires `T: Serialize` unless the bounds are given.
#[derive(Debug, PartialEq, View)]
#[view(
    into = RefView,
    derive(Debug, PartialEq, Serialize, Deserialize, IntoModel),
    attr(serde(bound(serialize = "D: Serialize", deserialize = "D: Deserialize<'de>")))
)]
struct Ref<T: OpaqueId, D = u8>
where
    D: PartialEq,
{
    id: Internal<T>,
    data: D,
    #[view(as = Option<Box<RefView<T, D>>>)]
    next: Option<Box<Ref<T, D>>>,
}

#[test]
fn a_generic_view_needs_no_bounds_for_its_ids() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let model = |key| Ref { id: user(key), data: "x".to_owned(), next: None };
    let model = || Ref { next: Some(Box::new(model(2))), ..model(1) };
    let view: RefView<User, String> = keyring.view(model());
    let sent: RefView<User, String> = serde_json::from_str(&serde_json::to_string(&view)?)?;
    assert_eq!(sent.into_model(&keyring)?, model());
    Ok(())
}

#[derive(Debug, PartialEq)]
struct NewUser {
    id: Internal<User>,
    team: Internal<Team>,
    r#type: &'static str,
    name: String,
}

#[derive(Deserialize, IntoModel)]
#[model(into = NewUser, given(id: Internal<User>, r#type: &'static str))]
struct CreateUser {
    team: External<Team>,
    name: String,
}

#[derive(IntoModel)]
#[model(into = NewUser, given(id = user(1), r#type = ["user", "admin"][1]))]
struct Complete {
    team: External<Team>,
    name: String,
}

#[test]
fn given_fields_come_with_the_request() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let body = || CreateUser { team: keyring.seal(team(2)), name: "Ada".to_owned() };
    let new: NewUser = keyring.accept((body(), user(1), "admin"))?;
    let expected = || NewUser { id: user(1), team: team(2), r#type: "admin", name: "Ada".into() };
    assert_eq!(new, expected());
    let all: Vec<NewUser> = keyring.accept(vec![(body(), user(1), "admin")])?;
    assert_eq!(all, [expected()]);
    // A request is no tuple if all of these fields are computed, so that an extractor can read it.
    let request = Complete { team: keyring.seal(team(2)), name: "Ada".to_owned() };
    assert_eq!(keyring.accept::<_, NewUser>(request)?, expected());
    Ok(())
}
