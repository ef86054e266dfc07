//! The fields that `#[derive(View)]` fills by types alone, and those that need an attribute.

use std::collections::HashMap;

use opaque_id_core::{External, Internal, OpaqueId, View};
use serde::Serialize;
use serde_json::Value;

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
    model: u8,
    keyring: bool,
}

#[derive(Clone, OpaqueId)]
#[opaque_id(prefix = "team", key = i32)]
struct Team {
    id: Internal<Team>,
    title: String,
}

/// An alias works, because only types count.
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
    // The derive uses these names too.
    model: u8,
    keyring: bool,
}

impl User {
    fn team_count(&self) -> usize {
        self.teams.len()
    }
}

fn initial(user: &User) -> Option<char> {
    user.name.chars().next()
}

fn team(key: i32) -> Team {
    Team { id: Internal::from_key(key).expect("any integer"), title: format!("team {key}") }
}

#[test]
fn a_view_is_filled_by_its_types() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let user = User {
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
        model: 7,
        keyring: true,
    };
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
    assert_eq!((view.model, view.keyring), (7, true));
    let views: Vec<UserView> = keyring.view(vec![user.clone(), user.clone()]);
    assert_eq!(views.len(), 2);
    let json = serde_json::to_string(&views)?;
    assert!(json.contains("\"displayName\":\"Ada\"") && !json.contains(user.secret));
    Ok(())
}

/// A row of a join, as `FromRow` and `Queryable` read it. It is not `Clone`.
struct CommentRow {
    id: Internal<Comment>,
    text: String,
    created_at: u32,
    author_id: Internal<Team>,
    author_name: String,
    author_seen: Option<u32>,
    editor_id: Option<Internal<Team>>,
    editor_name: Option<String>,
    editor_seen: Option<u32>,
    edited_at: Option<u32>,
    r#type: u8,
}

/// A view of its own, if it is not a part of another.
struct AuthorRow {
    id: Internal<Team>,
    name: String,
    seen: Option<u32>,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "comment")]
struct Comment;

mod views {
    use opaque_id_core::{External, View};

    use super::{AuthorRow, CommentRow, Team};

    #[derive(Debug, PartialEq, serde::Serialize)]
    pub(super) struct Seconds(u32);

    impl From<u32> for Seconds {
        fn from(seconds: u32) -> Self {
            Self(seconds)
        }
    }

    #[derive(Debug, PartialEq, serde::Serialize, View)]
    #[view(part, from = AuthorRow)]
    pub(super) struct Author {
        pub(super) id: External<Team>,
        #[view(rename = "name")]
        title: String,
        seen: Option<u32>,
    }

    #[derive(Debug, PartialEq, serde::Serialize, View)]
    #[view(part)]
    pub(super) struct When {
        #[view(into)]
        at: Seconds,
    }

    #[derive(Debug, PartialEq, serde::Serialize, View)]
    #[view(part)]
    pub(super) struct Content {
        text: String,
        r#type: u8,
    }

    /// The part is imported through another module, because it has its type's name.
    pub(super) mod deeper {
        use super::super::CommentRow;

        #[derive(Debug, PartialEq, serde::Serialize, opaque_id_core::View)]
        #[view(from = CommentRow)]
        pub(in super::super) struct CommentView {
            pub(in super::super) id: opaque_id_core::External<super::super::Comment>,
            text: String,
            #[view(prefix = "author_")]
            pub(in super::super) author: super::Author,
            #[view(prefix = "created_")]
            created: super::When,
            #[view(prefix = "editor_")]
            pub(in super::super) editor: Option<super::Author>,
            #[view(prefix = "edited_")]
            edited: Option<super::When>,
            r#type: u8,
        }
    }

    #[derive(Debug, PartialEq, serde::Serialize, View)]
    #[view(from = CommentRow)]
    pub(super) struct Short {
        #[view(into, rename = "created_at")]
        created: Seconds,
        #[view(prefix = "")]
        content: Content,
    }
}

#[test]
fn a_part_is_filled_by_its_prefix() {
    let keyring = new_keyring(0);
    let (id, author_id) = (Internal::generate(), Internal::from_key(7).expect("any integer"));
    let row = || CommentRow {
        id,
        text: "well said".to_owned(),
        created_at: 5,
        author_id,
        author_name: "Ada".to_owned(),
        author_seen: Some(3),
        editor_id: None,
        editor_name: None,
        editor_seen: None,
        edited_at: None,
        r#type: 9,
    };
    let view: views::deeper::CommentView = keyring.view(row());
    assert_eq!((view.id, view.author.id), (keyring.seal(id), keyring.seal(author_id)));
    let json = serde_json::to_value(&view).expect("JSON");
    assert_eq!(json["author"]["title"], "Ada");
    assert_eq!(json["author"]["seen"], 3);
    assert_eq!(
        (&json["created"]["at"], &json["text"], &json["type"]),
        (&5.into(), &"well said".into(), &9.into())
    );
    assert_eq!((&json["editor"], &json["edited"]), (&Value::Null, &Value::Null));
    let alone = AuthorRow { id: author_id, name: "Ada".to_owned(), seen: Some(3) };
    assert_eq!(view.author, keyring.view(alone));
    let short: views::Short = keyring.view(row());
    assert_eq!(
        serde_json::to_value(&short).expect("JSON"),
        serde_json::json!({ "created": 5, "content": { "text": "well said", "type": 9 } })
    );

    let edited = |seen| {
        let editor_name = Some("Grace".to_owned());
        let editor_id = Some(author_id);
        CommentRow { editor_id, editor_name, editor_seen: seen, edited_at: Some(6), ..row() }
    };
    for seen in [None, Some(4)] {
        let view: views::deeper::CommentView = keyring.view(edited(seen));
        let json = serde_json::to_value(&view).expect("JSON");
        assert_eq!(view.editor.map(|editor| editor.id), Some(keyring.seal(author_id)));
        assert_eq!(json["editor"]["seen"], serde_json::json!(seen));
        assert_eq!(json["edited"]["at"], 6);
    }
    // A part with a null in a required value is `None`.
    let view: views::deeper::CommentView =
        keyring.view(CommentRow { editor_name: None, ..edited(Some(4)) });
    assert_eq!(view.editor, None);
}

/// Only paths name serde's traits, and the models have none of them.
mod written {
    use opaque_id_core::{External, IdNewtype, Internal, IntoModel, OpaqueId, View};

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
    pub(super) struct OwnerId(pub(super) Internal<super::Team>);

    #[derive(Debug, PartialEq, OpaqueId, View)]
    #[opaque_id(prefix = "part", key = i64)]
    #[view(
        into = PartView,
        derive(Clone, serde::Serialize, serde::Deserialize, opaque_id_core::IntoModel),
        attr(model(given(password: String)))
    )]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Part {
        pub(super) id: Internal<Self>,
        #[view(as = External<super::Team>)]
        pub(super) owner_id: OwnerId,
        pub(super) spares: Option<Vec<opaque_id_core::Internal<Part>>>,
        #[view(as = Vec<UsageView>)]
        pub(super) usages: Vec<Usage>,
        #[view(skip)]
        pub(super) password: String,
        #[serde(default)]
        pub(super) r#type: u8,
        #[cfg(not(test))]
        absent: Absent,
        #[cfg(test)]
        #[serde(rename = "trusted")]
        pub(super) present: bool,
    }

    #[derive(Debug, PartialEq, View)]
    #[view(into = UsageView, derive(Clone, serde::Serialize, serde::Deserialize, IntoModel))]
    pub(super) enum Usage {
        By {
            team: Internal<super::Team>,
            hours: u8,
        },
        #[serde(rename = "instead")]
        InsteadOf(Internal<Part>),
        Unused,
    }
}

#[test]
fn a_model_writes_its_view() -> Result<(), Box<dyn std::error::Error>> {
    use written::{OwnerId, Part, PartView, Usage};

    let keyring = new_keyring(0);
    let (id, team) = (Internal::from_key(7)?, Internal::from_key(8)?);
    let part = |password: &str, r#type| Part {
        id,
        owner_id: OwnerId(team),
        spares: Some(vec![id]),
        usages: vec![Usage::By { team, hours: 9 }, Usage::InsteadOf(id), Usage::Unused],
        password: password.to_owned(),
        r#type,
        present: true,
    };
    let view: PartView = keyring.view(part("never shown", 3));
    let (id, team) = (keyring.seal(id), keyring.seal(team));
    let mut json = serde_json::json!({
        "id": id, "ownerId": team, "spares": [id], "type": 3, "trusted": true,
        "usages": [{ "By": { "team": team, "hours": 9 } }, { "instead": id }, "Unused"],
    });
    assert_eq!((view.id, serde_json::to_value(view.clone())?), (id, json.clone()));
    json.as_object_mut().ok_or("an object")?.remove("type");
    let read: PartView = serde_json::from_value(json)?;
    assert_eq!(keyring.accept((read, "given".to_owned())), Ok(part("given", 0)));
    Ok(())
}

#[test]
fn a_model_of_a_macro_in_a_function_writes_its_view() {
    macro_rules! model {
        ($model:ident, $view:ident, $id:ty, $is_new:path, $leak:path) => {
            #[derive(View)]
            #[view(into = $view, derive(opaque_id_core::IntoModel))]
            struct $model {
                id: $id,
                #[view(as = String, into, attr(model(with = $leak)))]
                name: &'static str,
                #[view(given)]
                count: u8,
                #[view(as = bool, with = $is_new, attr(model(with = u8::from)))]
                age: u8,
            }
        };
    }
    model!(Local, LocalView, Option<Internal<User>>, Local::is_new, String::leak);
    impl Local {
        fn is_new(&self) -> bool {
            self.age == self.count
        }
    }
    let keyring = new_keyring(0);
    let id = Internal::generate();
    let local = Local { id: Some(id), name: "Ada", count: 1, age: 1 };
    let view: LocalView = keyring.view((local, 2));
    assert_eq!((view.id, &*view.name), (Some(keyring.seal(id)), "Ada"));
    assert_eq!((view.count, view.age), (2, true));
    let local: Local = keyring.accept(view).expect("ids of this keyring");
    assert_eq!((local.id, local.name, local.count, local.age), (Some(id), "Ada", 2, 1));
}
