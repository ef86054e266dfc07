//! The conversions of `#[derive(IntoModel)]` by types alone, and the places of its errors.

use opaque_id_core::{External, Internal, IntoModel};
use serde::{Deserialize, Deserializer};

use super::new_keyring;

resources! {
    Team(prefix = "team", key = i64);
}

#[derive(Debug, Default, PartialEq)]
struct NewUser {
    team_id: Option<Internal<Team>>,
    friends: Vec<Internal<Team>>,
    address: Address,
    nested: Vec<Address>,
    name: String,
    bio: String,
    roles: Vec<String>,
    is_new: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Address {
    owner: Option<Internal<Team>>,
    city: String,
}

#[derive(Deserialize, IntoModel)]
#[model(into = NewUser, default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateUser {
    team_id: Option<External<Team>>,
    #[serde(rename = "the/friends~")]
    friends: Vec<External<Team>>,
    address: CreateAddress,
    nested: Vec<CreateAddress>,
    #[model(rename = "name")]
    display_name: String,
    #[model(with = trimmed)]
    bio: String,
    roles: Vec<String>,
}

#[derive(Deserialize, IntoModel)]
#[model(into = Address)]
#[serde(rename_all(deserialize = "SCREAMING-KEBAB-CASE", serialize = "camelCase"))]
struct CreateAddress {
    #[serde(default)]
    owner: Option<External<Team>>,
    city: String,
}

#[derive(Deserialize, IntoModel)]
#[model(into = Flat)]
struct CreateFlat {
    #[serde(flatten)]
    address: CreateAddress,
    #[serde(rename(deserialize = "leader"))]
    lead: Box<External<Team>>,
}

#[derive(serde::Deserialize, IntoModel)]
#[serde(transparent)]
#[model(into = Flat, given(address: Address))]
struct Leader {
    lead: Box<External<Team>>,
}

#[derive(Debug)]
struct Flat {
    address: Address,
    lead: Box<Internal<Team>>,
}

fn trimmed(bio: String) -> String {
    bio.trim().to_owned()
}

fn team(key: i64) -> Internal<Team> {
    Internal::from_key(key).expect("any integer")
}

#[test]
fn a_request_is_opened_by_its_types_and_an_error_points_at_the_field_by_the_names_of_serde()
-> Result<(), Box<dyn std::error::Error>> {
    let (ours, theirs) = (new_keyring(0), new_keyring(0));
    let id = |key| ours.seal(team(key)).to_string();
    let json = serde_json::json!({
        "teamId": id(1), "the/friends~": [id(2), id(3)],
        "address": { "OWNER": id(4), "CITY": "Paris" },
        "nested": [{ "CITY": "Rome" }, { "OWNER": id(5), "CITY": "Oslo" }],
        "displayName": "Ada", "bio": " short ", "roles": ["admin"],
    });
    let user: NewUser = ours.accept(serde_json::from_value::<CreateUser>(json.clone())?)?;
    let address = |owner, city: &str| Address { owner, city: city.to_owned() };
    let expected = NewUser {
        team_id: Some(team(1)),
        friends: vec![team(2), team(3)],
        address: address(Some(team(4)), "Paris"),
        nested: vec![address(None, "Rome"), address(Some(team(5)), "Oslo")],
        name: "Ada".to_owned(),
        bio: "short".to_owned(),
        roles: vec!["admin".to_owned()],
        is_new: false,
    };
    assert_eq!(user, expected);
    let flat = serde_json::json!({ "CITY": "Paris", "leader": id(1) });
    let flat: Flat = ours.accept(serde_json::from_value::<CreateFlat>(flat)?)?;
    assert_eq!((*flat.lead, flat.address), (team(1), address(None, "Paris")));

    let bad = theirs.seal(team(1)).to_string();
    for pointer in ["/teamId", "/the~1friends~0/1", "/address/OWNER", "/nested/1/OWNER"] {
        let mut json = json.clone();
        *json.pointer_mut(pointer).expect("the field") = bad.clone().into();
        let accepted: Result<NewUser, _> = ours.accept(serde_json::from_value::<CreateUser>(json)?);
        let error = accepted.expect_err(pointer);
        assert_eq!((&*error.pointer(), error.resource()), (pointer, "team"));
        assert!(!error.to_string().contains(&bad));
    }
    for pointer in ["/OWNER", "/leader"] {
        let mut json = serde_json::json!({ "OWNER": id(1), "CITY": "Paris", "leader": id(1) });
        *json.pointer_mut(pointer).expect("the field") = bad.clone().into();
        let accepted: Result<Flat, _> = ours.accept(serde_json::from_value::<CreateFlat>(json)?);
        assert_eq!(accepted.expect_err(pointer).pointer(), pointer);
    }
    let leader: Leader = serde_json::from_value(bad.into())?;
    let accepted: Result<Flat, _> = ours.accept((leader, address(None, "Paris")));
    assert_eq!(accepted.expect_err("of another keyring").pointer(), "");
    Ok(())
}

/// A type like SeaORM's `ActiveValue`.
#[derive(Debug, Default, PartialEq)]
enum Active<T> {
    Set(T),
    #[default]
    NotSet,
}

#[derive(Debug, Default, PartialEq)]
struct ActiveUser {
    id: Active<i64>,
    team_id: Active<Option<Internal<Team>>>,
    name: Active<String>,
}

#[derive(Deserialize, IntoModel)]
#[model(into = ActiveUser, with = Active::Set, default)]
struct Insert {
    team_id: Option<External<Team>>,
    name: String,
}

#[derive(Deserialize, IntoModel)]
#[model(into = ActiveUser, with = patched, default)]
struct Patch {
    /// The id may be left out, null, or given.
    #[serde(default, deserialize_with = "present")]
    team_id: Option<Option<External<Team>>>,
    name: Option<String>,
}

fn patched<T>(value: Option<T>) -> Active<T> {
    value.map_or(Active::NotSet, Active::Set)
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

#[test]
fn active_models_and_patches() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let id = keyring.seal(team(1)).to_string();
    let insert = serde_json::json!({ "team_id": id, "name": "Ada" });
    let user: ActiveUser = keyring.accept(serde_json::from_value::<Insert>(insert)?)?;
    assert_eq!(user.id, Active::NotSet);
    assert_eq!(user.team_id, Active::Set(Some(team(1))));
    assert_eq!(user.name, Active::Set("Ada".into()));
    for (json, team_id) in [
        (serde_json::json!({}), Active::NotSet),
        (serde_json::json!({ "team_id": null }), Active::Set(None)),
        (serde_json::json!({ "team_id": id }), Active::Set(Some(team(1)))),
    ] {
        let user: ActiveUser = keyring.accept(serde_json::from_value::<Patch>(json)?)?;
        assert_eq!((user.team_id, user.name), (team_id, Active::NotSet));
    }
    Ok(())
}
