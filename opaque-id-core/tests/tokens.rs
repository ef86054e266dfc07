//! Tokens: positions and grants open as they were sealed, for the same purpose, and not otherwise.

use std::time::{Duration, SystemTime};

use opaque_id_core::page::Listing;
use opaque_id_core::{IdError, Internal, Keyring, OpaqueId, OpenError};
use proptest1::prelude::*;

use super::properties::changes;
use super::{bytes, four_secrets, new_keyring};

resources! {
    User(prefix = "user");
    Invoice(prefix = "invoice", key = i64, form = "uuid");
    Small(prefix = "invoice", key = i32, form = "short");
    Order(prefix = "order", key = i64, form = "mapped");
    /// A renamed resource with the same domain, so the same resource for a secret.
    Renamed(prefix = "client", domain = "user");
}

const REFUSED: Result<(), IdError> = Err(IdError::Open(OpenError::NotGenuine));

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_000_000_750)
}

fn open<T: OpaqueId<Internal = Internal<T>>>(
    keyring: &Keyring,
    text: &str,
    purpose: &str,
) -> Result<(), IdError> {
    keyring.open_grant::<Internal<T>>(text, purpose, now()).map(|_| ())
}

fn by<T: OpaqueId<Internal = Internal<T>>, V>(name: &str, filter: &str) -> Listing<Internal<T>, V>
where
    V: serde::Serialize + serde::de::DeserializeOwned,
{
    Listing::new(name, &filter).expect("a text is JSON")
}

fn survives_no_change<T: OpaqueId<Internal = Internal<T>>>(id: Internal<T>) {
    let keyring = four_secrets();
    let later = now() + Duration::from_secs(60);
    let grant = keyring.grant(id, "unsubscribe", later);
    let by_name = by::<T, (String, Option<f64>)>("by name", "red");
    let values = ("Zoë\0".to_owned(), Some(0.1 + 0.2));
    let position = by_name.seal(&keyring, &values, id).expect("values are JSON");
    assert_eq!(keyring.open_grant(&grant, "unsubscribe", now()), Ok(id));
    assert_eq!(by_name.open(&keyring, &position), Ok((values, id)));
    assert_eq!(keyring.opened_count(keyring.sealing_key_id()), 2);
    let body = grant.strip_prefix(T::PREFIX).and_then(|rest| rest.strip_prefix("_grant_"));
    assert_eq!(body.map(str::len), Some(85));

    let alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
    let start = |kind: &str| T::PREFIX.len() + kind.len();
    let check = |changed: &str, opened: Result<(), IdError>| {
        let is_refused = matches!(opened, Err(IdError::Open(_) | IdError::MalformedToken { .. }));
        assert!(is_refused, "{changed}");
    };
    for changed in changes(&grant, start("_grant_"), alphabet) {
        check(&changed, open::<T>(&keyring, &changed, "unsubscribe"));
    }
    for changed in changes(&position, start("_position_"), alphabet) {
        check(&changed, by_name.open(&keyring, &changed).map(|_| ()));
    }
    assert_eq!(keyring.opened_count(keyring.sealing_key_id()), 2);
}

/// An observer cannot see that two tokens belong to one row.
#[test]
fn no_token_is_sealed_twice() {
    let keyring = new_keyring(0);
    let (id, expires) = (Internal::<User>::generate(), SystemTime::now());
    let [one, two] = [(); 2].map(|()| keyring.grant(id, "unsubscribe", expires));
    // Neither the nonce (12 of the bytes) nor the sealed part is equal.
    let same = one.bytes().zip(two.bytes()).skip("user_grant_".len()).filter(|(a, b)| a == b);
    assert!(same.count() < 30, "{one} {two}");
}

#[test]
fn a_changed_token_is_refused_whatever_the_form() {
    survives_no_change(Internal::<User>::generate());
    for key in [0, (1 << 60) - 1] {
        survives_no_change(Internal::<Invoice>::from_key(key).expect("below 2^60"));
    }
    for key in [i64::MIN, -1, i64::MAX] {
        survives_no_change(Internal::<Order>::from_key(key).expect("any integer"));
    }
}

#[test]
fn a_grant_is_for_one_purpose_until_its_time() {
    let (keyring, id) = (four_secrets(), Internal::<User>::generate());
    let grant = keyring.grant(id, "unsubscribe", now());
    for purpose in ["", "unsubscrib", "unsubscribe ", "Unsubscribe", "unsubscribe\0"] {
        assert_eq!(open::<User>(&keyring, &grant, purpose), REFUSED, "{purpose:?}");
    }
    // Times are in whole seconds.
    for (millis, opened) in [(0, Ok(id)), (249, Ok(id)), (250, Err(IdError::Expired))] {
        let now = now() - Duration::from_secs(1) + Duration::from_millis(millis);
        assert_eq!(keyring.open_grant(&grant, "unsubscribe", now), opened, "{millis}");
    }
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let long_ago = keyring.grant(id, "unsubscribe", before_1970);
    let opened =
        keyring.open_grant::<Internal<User>>(&long_ago, "unsubscribe", SystemTime::UNIX_EPOCH);
    assert_eq!(opened, Err(IdError::Expired));
}

#[test]
fn a_token_is_of_one_list_one_resource_and_one_secret() {
    let (keyring, id) = (four_secrets(), Internal::<User>::generate());
    let position = by::<User, _>("by name", "red").seal(&keyring, &"Ada".to_owned(), id);
    let position = position.expect("a text is JSON");
    for (name, filter) in [("by name", "blue"), ("by team", "red"), ("by name\0\"red\"", "")] {
        let opened = by::<User, String>(name, filter).open(&keyring, &position).map(|_| ());
        assert_eq!(opened, REFUSED, "{name} {filter}");
    }
    // The position is of the same list, with the values of another version of the application.
    let opened = by::<User, u64>("by name", "red").open(&keyring, &position);
    assert_eq!(opened, Err(IdError::Open(OpenError::NotGenuine)));
    // The token has another kind and the same body.
    let grant = position.replace("_position_", "_grant_");
    assert_eq!(open::<User>(&keyring, &grant, "by name\0\"red\""), REFUSED);
    // The token has another resource and the same body.
    let grant = keyring.grant(id, "x", now() + Duration::from_secs(60));
    assert_eq!(open::<Order>(&keyring, &grant.replace("user_", "order_"), "x"), REFUSED);
    assert_eq!(open::<Renamed>(&keyring, &grant.replace("user_", "client_"), "x"), Ok(()));
    // The key does not fit the resource.
    let large = Internal::<Invoice>::from_key(1 << 40).expect("below 2^60");
    let large = keyring.grant(large, "x", now() + Duration::from_secs(60));
    assert_eq!(open::<Small>(&four_secrets(), &large, "x"), REFUSED);

    let unknown = open::<User>(&new_keyring(1), &grant, "x");
    assert!(matches!(unknown, Err(IdError::Open(OpenError::UnknownKeyId { .. }))));
    assert_eq!(open::<User>(&new_keyring(0), &grant, "x"), REFUSED);
    assert_eq!(open::<User>(&keyring.for_audience("a"), &grant, "x"), REFUSED);
    let rotated = Keyring::builder().sealing(1, bytes(9)).opening(0, bytes(1)).build();
    let rotated = rotated.expect("two secrets");
    assert_eq!(open::<User>(&rotated, &grant, "x"), Ok(()));
    assert_eq!(
        rotated.key_ids().map(|key_id| rotated.opened_count(key_id)).collect::<Vec<_>>(),
        [1, 0]
    );
}

#[test]
fn a_text_that_is_no_token_says_why() {
    let keyring = four_secrets();
    let grant = keyring.grant(Internal::<User>::generate(), "x", now());
    let prefix = "it does not start with `user_grant_`";
    let upper = "character 12 is upper case; ids are lower case";
    for (text, problem) in [
        ("", prefix.to_owned()),
        ("user_7x1nhm7sq0r1qh4pewbejb04n3", prefix.to_owned()),
        (&grant.replace("grant", "position"), prefix.to_owned()),
        ("user_grant_", "it is cut off, or has more characters than its bytes need".to_owned()),
        (
            &grant[..grant.len() - 2],
            "it is cut off, or has more characters than its bytes need".to_owned(),
        ),
        ("user_grant_Z", upper.to_owned()),
        ("user_grant_0u", "invalid character at position 13".to_owned()),
        (&format!("user_grant_zz{}", "0".repeat(70)), "its key id is above 3".to_owned()),
    ] {
        let error = open::<User>(&keyring, text, "x").expect_err(text);
        assert!(matches!(error, IdError::MalformedToken { kind: "grant", .. }), "{text}");
        assert_eq!(error.to_string(), format!("not a `user` grant: {problem}"));
        assert_eq!(error.http_status(), 404);
    }
}

#[test]
fn values_that_are_not_json_are_an_error_before_a_client_has_them() {
    let (keyring, id) = (four_secrets(), Internal::<User>::generate());
    let error = by::<User, f64>("by score", "").seal(&keyring, &f64::INFINITY, id);
    let error = error.expect_err("infinity is not JSON").to_string();
    assert!(error.starts_with("the sort values cannot be written"), "{error}");
    let not_a_time = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let error = Listing::<Internal<User>, u8>::new("by score", &not_a_time).expect_err("not JSON");
    assert!(error.to_string().starts_with("the filter cannot be written"), "{error}");
}

proptest! {
    #[test]
    fn values_are_read_as_they_were(text: String, number: i64, large: u128, score in proptest1::num::f64::NORMAL) {
        let keyring = four_secrets();
        let listing = by::<User, (String, i64, u128, f64, Option<bool>)>(&text, &text);
        let (values, id) = ((text, number, large, score, None), Internal::generate());
        let sealed = listing.seal(&keyring, &values, id).expect("JSON");
        prop_assert_eq!(listing.open(&keyring, &sealed), Ok((values, id)));
    }

    #[test]
    fn any_text_is_answered(text in "(user_(grant|position)_)?[0-9a-zA-Z_]{0,120}") {
        let keyring = four_secrets();
        prop_assert!(open::<User>(&keyring, &text, "x").is_err());
        prop_assert!(by::<User, u8>("by age", "").open(&keyring, &text).is_err());
    }
}
