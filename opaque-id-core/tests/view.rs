//! What `#[derive(View)]` fills by types alone, and what it needs a word for.

use std::collections::HashMap;

use opaque_id_core::{External, Internal, IntoView, OpaqueId, View};
use serde::Serialize;

use super::new_keyring;

#[derive(Clone, OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
    team: Option<Team>,
    teams: Vec<Team>,
    lead: Box<Team>,
    invited_by: Option<Internal<User>>,
    seats: HashMap<Internal<Team>, u8>,
    friends: Vec<Internal<User>>,
    tags: Vec<String>,
    name: String,
    secret: &'static str,
}

#[derive(Clone, OpaqueId)]
#[opaque_id(prefix = "team", key = i32)]
struct Team {
    id: Internal<Team>,
    title: String,
}

/// An alias is seen through, as only types count.
type TeamId = External<Team>;

#[derive(Debug, PartialEq, Serialize, View)]
#[view(from = Team)]
struct TeamCard {
    id: TeamId,
    title: String,
}

#[derive(Debug, PartialEq, Serialize, View)]
#[view(from = User)]
#[serde(rename_all = "camelCase")]
struct UserView {
    id: External<User>,
    team: Option<TeamCard>,
    teams: Vec<TeamCard>,
    lead: Box<TeamCard>,
    invited_by: Option<External<User>>,
    seats: HashMap<TeamId, u8>,
    friends: Vec<External<User>>,
    tags: Vec<String>,
    #[view(rename = "name")]
    display_name: String,
    #[view(with = initial)]
    initial: Option<char>,
    #[view(with = User::team_count)]
    team_count: usize,
}

/// Another view of the same model.
#[derive(Debug, PartialEq, View)]
#[view(from = User)]
struct UserName {
    name: String,
}

/// A view with what the model has not.
#[derive(Debug, PartialEq, View)]
#[view(from = Team)]
struct TeamWithCount {
    id: External<Team>,
    #[view(given)]
    count: u64,
}

impl User {
    fn team_count(&self) -> usize {
        self.teams.len()
    }
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "car")]
struct Car {
    id: Internal<Car>,
    model: String,
    keyring: bool,
    owner: Option<Internal<User>>,
}

/// The names of its fields are also the derive's own.
#[derive(View)]
#[view(from = Car)]
struct CarView {
    model: String,
    keyring: bool,
    #[view(with = Car::length)]
    length: usize,
    id: External<Car>,
    owner: Option<External<User>>,
}

impl Car {
    fn length(&self) -> usize {
        self.model.len()
    }
}

#[test]
fn no_name_of_a_field_is_in_the_way() {
    let keyring = new_keyring(0);
    let id = Internal::generate();
    let model = "2CV".to_owned();
    let view: CarView = keyring.view(Car { id, model, keyring: true, owner: None });
    assert_eq!((view.id, view.length), (keyring.seal(id), 3));
    assert_eq!((view.model.as_str(), view.keyring, view.owner), ("2CV", true, None));
}

fn initial(user: &User) -> Option<char> {
    user.name.chars().next()
}

fn team(key: i32) -> Team {
    Team { id: Internal::from_key(key).expect("any integer"), title: format!("team {key}") }
}

fn user() -> User {
    User {
        id: Internal::generate(),
        team: Some(team(1)),
        teams: vec![team(2), team(3)],
        lead: Box::new(team(4)),
        invited_by: None,
        seats: [(team(5).id, 7)].into(),
        friends: vec![Internal::generate()],
        tags: vec!["a".into()],
        name: "Ada".into(),
        secret: "never shown",
    }
}

#[test]
fn a_view_is_filled_by_its_types() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let user = user();
    let view: UserView = keyring.view(user.clone());
    assert_eq!(view.id, keyring.seal(user.id));
    assert_eq!(view.team.map(|team| team.id), Some(keyring.seal(team(1).id)));
    assert_eq!(view.teams[1].title, "team 3");
    assert_eq!(view.lead.id, keyring.seal(team(4).id));
    assert_eq!(view.invited_by, None);
    assert_eq!(view.seats[&keyring.seal(team(5).id)], 7);
    assert_eq!(view.friends, [keyring.seal(user.friends[0])]);
    assert_eq!(view.tags, ["a"]);
    assert_eq!((view.display_name.as_str(), view.initial), ("Ada", Some('A')));
    assert_eq!(view.team_count, 2);

    let name: UserName = keyring.view(user.clone());
    assert_eq!(name.name, "Ada");
    let views: Vec<UserView> = keyring.view(vec![user.clone(), user.clone()]);
    assert_eq!(views.len(), 2);
    let json = serde_json::to_string(&views)?;
    assert!(json.contains("\"displayName\":\"Ada\"") && !json.contains(user.secret));
    Ok(())
}

#[test]
fn what_the_model_has_not_is_given_beside_it() {
    let keyring = new_keyring(0);
    let views: Vec<TeamWithCount> = keyring.view(vec![(team(1), 3), (team(2), 0)]);
    assert_eq!(views[0].id, keyring.seal(team(1).id));
    assert_eq!((views[0].count, views[1].count), (3, 0));
    let one: TeamWithCount = (team(1), 3).into_view(&keyring);
    assert_eq!(one, views[0]);
}
