//! The output of `#[derive(IdNewtype)]` for a type of the application.

use std::fmt::Debug;

use opaque_id_core::resource::InternalId;
use opaque_id_core::{AnyId, External, IdNewtype, Internal, IntoView, OpaqueId, trusted};
use serde::{Deserialize, Serialize};

use super::new_keyring;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, OpaqueId)]
#[opaque_id(prefix = "part", key = i64)]
struct Part;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, OpaqueId)]
#[opaque_id(prefix = "user", form = "tagged", internal = r#UserId)]
struct User;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct PartId(Internal<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct r#UserId(Internal<User>);

/// One newtype serves all resources of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct Id<T: OpaqueId = Part>(Internal<T>)
where
    T: Ord + Copy + std::hash::Hash + Debug;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    #[serde(with = "trusted")]
    part: PartId,
    #[serde(with = "trusted")]
    parts: Option<Vec<PartId>>,
}

#[derive(Debug, PartialEq, AnyId)]
enum Node {
    Part(PartId),
    User(UserId),
}

fn part(key: i64) -> PartId {
    PartId(Internal::from_key(key).expect("any integer"))
}

#[test]
fn a_newtype_is_an_internal_id() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let id = part(42);
    let shown: External<Part> = keyring.seal(id);
    assert_eq!(PartId::from(keyring.open(shown)?), id);
    assert_eq!(keyring.view::<_, External<Part>>(id), shown);
    assert_eq!(keyring.accept::<_, PartId>(shown)?, id);
    let ids: Vec<External<Part>> = vec![id].into_view(&keyring);
    assert_eq!(keyring.accept::<_, Vec<PartId>>(ids)?, [id]);
    // The conversions work in both directions, and by the trait that adapters read and write with.
    let internal: Internal<Part> = id.into();
    assert_eq!((PartId::from(internal), internal.expose_key()), (id, 42));
    assert_eq!(PartId::from_repr(42)?, id);
    assert_eq!(format!("{id:?}"), "PartId(Internal<part>(..))");
    assert_eq!(opaque_id_core::keyring::log_id(id).to_string(), "part(..)");
    // The instance of another resource works too.
    let generic: Id<User> = keyring.open(keyring.seal(UserId(Internal::generate())))?.convert();
    assert_eq!(keyring.open(keyring.seal(generic))?.0, Internal::from(generic));
    Ok(())
}

/// `Opened<User>` and every other way of opening an id return the newtype.
#[test]
fn a_resource_can_name_its_newtype() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    let id = UserId(Internal::generate());
    let opened: UserId = keyring.open(keyring.seal(id))?;
    assert_eq!(opened, id);
    let text = keyring.seal_any(&Node::User(id));
    assert_eq!(keyring.open_any::<Node>(&text)?, Node::User(id));
    let text = keyring.seal_any(&Node::Part(part(7)));
    assert_eq!(keyring.open_any::<Node>(&text)?, Node::Part(part(7)));
    Ok(())
}

#[test]
fn jobs_have_newtypes() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job { part: part(5), parts: Some(vec![part(6)]) };
    let text = serde_json::to_string(&job)?;
    assert_eq!(text, r#"{"part":5,"parts":[6]}"#);
    assert_eq!(serde_json::from_str::<Job>(&text)?, job);
    Ok(())
}

/// The derives name everything by its path.
mod without_a_prelude {
    #![no_implicit_prelude]

    #[derive(::opaque_id_core::OpaqueId)]
    #[opaque_id(prefix = "wheel", key = u32)]
    pub(super) struct Wheel;

    #[derive(
        ::std::clone::Clone,
        ::std::marker::Copy,
        ::std::fmt::Debug,
        ::std::cmp::PartialEq,
        ::std::cmp::Eq,
        ::std::cmp::PartialOrd,
        ::std::cmp::Ord,
        ::std::hash::Hash,
        ::opaque_id_core::IdNewtype,
    )]
    pub(super) struct WheelId(::opaque_id_core::Internal<Wheel>);

    #[derive(::opaque_id_core::View, ::opaque_id_core::IntoModel)]
    #[view(from = Event)]
    #[model(into = Event)]
    pub(super) enum EventView {
        Made { wheel: ::opaque_id_core::External<Wheel> },
        Lost(::opaque_id_core::External<Wheel>),
        Counted,
    }

    #[derive(::std::fmt::Debug, ::std::cmp::PartialEq)]
    pub(super) enum Event {
        Made { wheel: WheelId },
        Lost(WheelId),
        Counted,
    }
}

#[test]
fn the_derives_need_no_prelude() -> Result<(), Box<dyn std::error::Error>> {
    use without_a_prelude::{Event, EventView, WheelId};
    let keyring = new_keyring(0);
    let id = || Internal::from_key(7).map(WheelId::from).expect("any integer");
    for event in [|id| Event::Made { wheel: id }, Event::Lost, |_| Event::Counted] {
        let view: EventView = keyring.view(event(id()));
        assert_eq!(keyring.accept::<_, Event>(view)?, event(id()));
    }
    Ok(())
}
