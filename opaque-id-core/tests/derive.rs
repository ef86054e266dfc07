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

/// A fragment such as `$t:ty` is in a group without delimiters.
mod fragments {
    use opaque_id_core::{External, Internal, IntoModel, OpaqueId, View};

    struct Row {
        author_id: Option<Internal<Author>>,
        author_nick: Option<String>,
    }

    enum Event {
        Written(Internal<Author>),
    }

    macro_rules! types {
        ($key:ty, $nick:ty, $author:ty, $row:ty, $event:path, $kind:ty) => {
            #[derive(OpaqueId)]
            #[opaque_id(prefix = "author", key = $key)]
            struct Author;

            #[derive(OpaqueId)]
            #[opaque_id(prefix = "sorted", key = $kind)]
            struct Sorted;

            #[derive(View)]
            #[view(part)]
            struct AuthorView {
                id: External<Author>,
                nick: $nick,
            }

            #[derive(View)]
            #[view(from = $row)]
            struct RowView {
                #[view(prefix = "author_")]
                author: $author,
            }

            #[derive(View, IntoModel)]
            #[view(from = $event)]
            #[model(into = $event)]
            enum EventView {
                Written(External<Author>),
            }

            #[derive(IntoModel)]
            #[model(into = $row)]
            struct NewRow {
                author_id: Option<External<Author>>,
                author_nick: $nick,
            }
        };
    }

    types!(Ulid, Option<String>, Option<AuthorView>, Row, Event, Ulid);
}

/// The derives warn of nothing in the user's crate.
#[deny(warnings)]
mod quiet {
    use opaque_id_core::{External, Internal, IntoModel, OpaqueId, View};

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "quiet")]
    struct Quiet {
        id: Internal<Quiet>,
        #[deprecated]
        old: u8,
        _spare: u8,
        request: u8,
        keyring: u8,
    }

    #[derive(View)]
    #[view(from = Quiet)]
    struct QuietView {
        id: External<Quiet>,
        #[deprecated]
        old: u8,
        _spare: u8,
    }

    #[derive(IntoModel)]
    #[model(into = Quiet, given(request: u8, keyring: u8))]
    struct NewQuiet {
        id: External<Quiet>,
        #[deprecated]
        old: u8,
        _spare: u8,
    }
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
