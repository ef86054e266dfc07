//! Cursors: the vectors of a second program in both directions, and a check that only sealed cursors open.

use opaque_id_core::form::{SealedFormOf, Text};
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::RuntimeResource;
use opaque_id_core::{
    Cursor, External, Internal, Keyring, MasterSecret, OpaqueId, OpenError, ParseError,
};
use serde::Deserialize;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "uuid")]
struct Invoice;

/// Ids in a mapping table, cursors by the keyring.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

/// The longest prefix.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "a23456789012345678901234567890123456789012345678901234567890123")]
struct Longest;

#[derive(Deserialize)]
struct Vector {
    master: String,
    key_id: u8,
    prefix: String,
    domain: String,
    kind: String,
    key: String,
    cursor: String,
}

fn check<K: Key>(vector: &Vector, key: K)
where
    Text: SealedFormOf<K>,
{
    let secret = MasterSecret::from_hex(&vector.master).expect("64 hex digits");
    let keyring = Keyring::builder().sealing(vector.key_id, secret).build().expect("a good secret");
    let resource = RuntimeResource::<K, Text>::new(&keyring, &vector.prefix, &vector.domain)
        .expect("a good prefix");
    assert_eq!(resource.seal_cursor(key).as_deref(), Ok(vector.cursor.as_str()));
    let (opened, key_id) = resource.open_cursor(&vector.cursor).expect("genuine");
    assert_eq!((opened, key_id.get()), (key, vector.key_id));
}

#[test]
fn every_vector_seals_and_opens() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../fixtures/cursors-v1.json")).expect("JSON");
    assert!(vectors.len() >= 10);
    for vector in &vectors {
        let uuid = || vector.key.parse::<Uuid>().expect("a UUID");
        match vector.kind.as_str() {
            "uuid7" => check(vector, Uuid7::try_from(uuid()).expect("a UUIDv7")),
            "structured" => check(vector, StructuredKey::try_from(uuid()).expect("a key")),
            "ulid" => check(vector, Ulid::from(uuid())),
            "uuid" => check(vector, uuid()),
            "int" => check(vector, vector.key.parse::<i64>().expect("an integer")),
            kind => panic!("an unknown kind of key: {kind}"),
        }
    }
}

fn keyring() -> Keyring {
    Keyring::builder()
        .sealing(0, MasterSecret::generate())
        .opening(1, MasterSecret::generate())
        .opening(2, MasterSecret::generate())
        .opening(3, MasterSecret::generate())
        .build()
        .expect("four secrets")
}

/// Every text that differs in one character of the alphabet.
fn changes(text: &str) -> impl Iterator<Item = String> + '_ {
    let body = text.len() - 34;
    (body..text.len()).flat_map(move |at| {
        "0123456789abcdefghjkmnpqrstvwxyz"
            .chars()
            .filter(move |c| !text[at..].starts_with(*c))
            .map(move |c| format!("{}{c}{}", &text[..at], &text[at + 1..]))
    })
}

fn survives_no_change<T: OpaqueId<Internal = Internal<T>>>(id: Internal<T>) {
    let keyring = keyring();
    let cursor = keyring.seal_cursor(id);
    let text = cursor.to_string();
    assert!(text.starts_with(&format!("{}_cursor_", T::PREFIX)));
    let parsed: Cursor<T> = text.parse().expect("its own text");
    assert_eq!(keyring.open_cursor(parsed).map(|position| position.id()), Ok(id));

    let mut count = 0;
    for changed in changes(&text) {
        let changed: Cursor<T> = changed.parse().expect("well formed");
        assert_eq!(keyring.open_cursor(changed), Err(OpenError::InvalidPlaintext));
        count += 1;
    }
    assert_eq!(count, 34 * 31);
    assert_eq!(keyring.opened_count(keyring.sealing_key_id()), 1);

    let json = serde_json::to_string(&cursor).expect("a string");
    assert_eq!(json, format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<Cursor<T>>(&json).ok(), Some(cursor));
    let bytes = postcard::to_allocvec(&cursor).expect("bytes");
    assert_eq!(bytes.len(), 1 + 22);
    assert_eq!(postcard::from_bytes::<Cursor<T>>(&bytes).ok(), Some(cursor));
}

#[test]
fn a_changed_cursor_is_refused_whatever_the_form() {
    survives_no_change(Internal::<User>::generate());
    survives_no_change(Internal::<Longest>::generate());
    for key in [0, 1, (1 << 60) - 1] {
        survives_no_change(Internal::<Invoice>::from_key(key).expect("below 2^60"));
    }
    for key in [i64::MIN, -1, i64::MAX] {
        survives_no_change(Internal::<Order>::from_key(key).expect("any integer"));
    }
}

/// The attack: made-up cursors, none of which may reveal its position in the list.
#[test]
fn made_up_cursors_are_no_oracle() {
    let keyring = keyring();
    let (mut ids, mut cursors) = (0, 0);
    for i in 0..20_000_u64 {
        let body = format!("{:034}", i * 7_919);
        let made_up: Cursor<User> = format!("user_cursor_{body}").parse().expect("well formed");
        cursors += u32::from(keyring.open_cursor(made_up).is_ok());
        // What paging by ids would open.
        let id: External<User> = format!("user_{}", &body[8..]).parse().expect("well formed");
        ids += u32::from(keyring.open(id).is_ok());
    }
    assert_eq!(cursors, 0);
    assert!(ids > 100, "one in 64: {ids}");
}

#[test]
fn a_cursor_is_of_one_resource_and_one_secret() {
    let keyring = keyring();
    let user = keyring.seal_cursor(Internal::<User>::generate());
    let body = user.to_string().split_off("user_cursor_".len());
    let foreign: Cursor<Order> = format!("order_cursor_{body}").parse().expect("well formed");
    assert_eq!(keyring.open_cursor(foreign), Err(OpenError::InvalidPlaintext));

    let other = Keyring::builder().sealing(1, MasterSecret::generate()).build().expect("one");
    assert!(matches!(
        other.open_cursor(user),
        Err(OpenError::UnknownKeyId { key_id, .. }) if key_id.get() == 0
    ));
    // Nor is a tagged id with the same prefix a cursor, or the other way round.
    #[derive(Debug, OpaqueId)]
    #[opaque_id(prefix = "user_cursor", domain = "user", form = "tagged")]
    struct UserCursor;
    let id: External<UserCursor> = user.to_string().parse().expect("the same shape");
    assert_eq!(keyring.open(id), Err(OpenError::InvalidPlaintext));
}

#[test]
fn invalid_cursors_are_refused() {
    for (text, message) in [
        (
            "user_7x1nhm7sq0r1qh4pewbejb04n3",
            "not a `user` cursor: it does not start with `user_cursor_`",
        ),
        (
            "order_cursor_84n6xqqngjsybxp4yj4s106cxa9rxgf0se",
            "not a `user` cursor: it does not start with `user_cursor_`",
        ),
        (
            "user_cursor_84n6",
            "not a `user` cursor: expected 34 characters after the prefix, found 4",
        ),
        (
            "user_cursor_84n6xqqngjsybxp4yj4s106cxa9rxgf0sE",
            "not a `user` cursor: character 46 is upper case; ids are lower case",
        ),
    ] {
        let error = text.parse::<Cursor<User>>().expect_err(text);
        assert!(matches!(error, ParseError::MalformedCursor { resource: "user", .. }));
        assert_eq!(error.to_string(), message);
    }
}
