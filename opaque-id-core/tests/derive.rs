//! The derive in unfriendly surroundings: a renamed crate, shadowed names, bounds.

#![allow(dead_code)]

/// A crate that re-exports the core under another name.
mod vendored {
    pub(crate) use opaque_id_core as ids;
}

#[derive(vendored::ids::OpaqueId)]
#[opaque_id(prefix = "renamed", crate = "crate::derive::vendored::ids")]
struct Renamed;

mod hostile {
    struct Option;
    struct Result;
    struct Some;
    trait Sized {}
    mod core {}
    mod std {}
    mod opaque_id_core {}
    struct Ulid;

    #[derive(::opaque_id_core::OpaqueId)]
    #[opaque_id(prefix = "hostile", key = i64, form = "uuid")]
    pub(crate) struct Hostile;

    #[derive(::opaque_id_core::OpaqueId)]
    #[opaque_id(prefix = "sorted", key = Ulid)]
    pub(crate) struct Sorted;
}

#[derive(opaque_id_core::OpaqueId)]
#[opaque_id(prefix = "bounded")]
struct Bounded<const N: usize, T: Clone>
where
    T: Send,
{
    items: [T; N],
}

#[derive(opaque_id_core::OpaqueId)]
#[opaque_id(prefix = "status")]
#[opaque_id(domain = "state", key = Ulid, form = "tagged")]
enum Status {
    Open,
    Closed(u8),
}

/// The keys are the path of a kind, and a kind under another name.
mod by_path {
    use opaque_id_core::key::StructuredKey as Key;

    #[derive(opaque_id_core::OpaqueId)]
    #[opaque_id(prefix = "parcel", key = opaque_id_core::key::Ulid)]
    pub(crate) struct Parcel;

    #[derive(opaque_id_core::OpaqueId)]
    #[opaque_id(prefix = "item", key = Key, form = "uuid")]
    pub(crate) struct Item;
}

#[test]
fn constants_match_the_attribute() {
    use opaque_id_core::OpaqueId;

    assert_eq!((Renamed::PREFIX, Renamed::DOMAIN), ("renamed", "renamed"));
    assert_eq!(hostile::Hostile::PREFIX, "hostile");
    assert_eq!(<Bounded<3, u8> as OpaqueId>::PREFIX, "bounded");
    assert_eq!((Status::PREFIX, Status::DOMAIN), ("status", "state"));
    fn kind<T: OpaqueId>() -> &'static str {
        <T::Key as opaque_id_core::key::Key>::KIND
    }
    assert_eq!(kind::<Status>(), "ULID");
    assert_eq!(kind::<hostile::Sorted>(), "ULID");
    assert_eq!(kind::<by_path::Parcel>(), "ULID");
    assert_eq!(kind::<by_path::Item>(), "structured key");
}
