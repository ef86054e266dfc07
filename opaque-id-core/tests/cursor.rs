//! Cursors: only sealed ones open.

use opaque_id_core::{Cursor, External, IdError, Internal, OpaqueId, OpenError};

use super::properties::{changes, reads_back};
use super::{four_secrets, new_keyring};

resources! {
    User(prefix = "user");
    Invoice(prefix = "invoice", key = i64, form = "uuid");
    /// A resource with ids in a mapping table and cursors of the keyring.
    Order(prefix = "order", key = i64, form = "mapped");
    UserCursor(prefix = "user_cursor", domain = "user", form = "tagged");
    /// A resource with the longest prefix.
    Longest(prefix = "a23456789012345678901234567890123456789012345678901234567890123");
}

fn survives_no_change<T: OpaqueId<Internal = Internal<T>>>(id: Internal<T>) {
    let keyring = four_secrets();
    let cursor = keyring.seal_cursor(id);
    let text = cursor.to_string();
    assert!(text.starts_with(&format!("{}_cursor_", T::PREFIX)));
    assert_eq!(keyring.open_cursor(cursor).map(|position| position.id()), Ok(id));

    let mut count = 0;
    for changed in changes(&text, text.len() - 34, "0123456789abcdefghjkmnpqrstvwxyz") {
        let changed: Cursor<T> = changed.parse().expect("well formed");
        assert_eq!(keyring.open_cursor(changed), Err(OpenError::NotGenuine));
        count += 1;
    }
    assert_eq!(count, 34 * 31);
    assert_eq!(keyring.opened_count(keyring.sealing_key_id()), 1);

    // The bytes are the 22 and their number.
    assert_eq!(reads_back(cursor).ok(), Some(1 + 22));
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

/// An attacker makes up cursors, and none of them may reveal its position in the list.
#[test]
fn made_up_cursors_are_no_oracle() {
    let keyring = four_secrets();
    let (mut ids, mut cursors) = (0, 0);
    for i in 0..20_000_u64 {
        let body = format!("{:034}", i * 7_919);
        let made_up: Cursor<User> = format!("user_cursor_{body}").parse().expect("well formed");
        cursors += u32::from(keyring.open_cursor(made_up).is_ok());
        // Paging by ids would open this.
        let id: External<User> = format!("user_{}", &body[8..]).parse().expect("well formed");
        ids += u32::from(keyring.open(id).is_ok());
    }
    assert_eq!(cursors, 0);
    assert!(ids > 100, "one in 64: {ids}");
}

#[test]
fn a_cursor_is_of_one_resource_and_one_secret() {
    let keyring = four_secrets();
    let user = keyring.seal_cursor(Internal::<User>::generate());
    let body = user.to_string().split_off("user_cursor_".len());
    let foreign: Cursor<Order> = format!("order_cursor_{body}").parse().expect("well formed");
    assert_eq!(keyring.open_cursor(foreign), Err(OpenError::NotGenuine));

    let unknown = new_keyring(1).open_cursor(user);
    assert!(matches!(unknown, Err(OpenError::UnknownKeyId { key_id, .. }) if key_id.get() == 0));
    // A tagged id with the same prefix is not a cursor, and a cursor is not such an id.
    let id: External<UserCursor> = user.to_string().parse().expect("the same shape");
    assert_eq!(keyring.open(id), Err(OpenError::NotGenuine));
}

#[test]
fn invalid_cursors_are_refused() {
    let (prefix, body) =
        ("it does not start with `user_cursor_`", "84n6xqqngjsybxp4yj4s106cxa9rxgf0s");
    for (text, problem) in [
        ("user_7x1nhm7sq0r1qh4pewbejb04n3", prefix),
        (&format!("order_cursor_{body}e"), prefix),
        ("user_cursor_84n6", "expected 34 characters after the prefix, found 4"),
        (&format!("user_cursor_{body}E"), "character 46 is upper case; ids are lower case"),
    ] {
        let error = text.parse::<Cursor<User>>().expect_err(text);
        assert!(matches!(error, IdError::MalformedToken { resource: "user", kind: "cursor", .. }));
        assert_eq!(error.to_string(), format!("not a `user` cursor: {problem}"));
    }
}

/// Cursors of mapped resources are sealed, too.
#[cfg(feature = "async-graphql7")]
#[test]
fn a_mapped_resource_has_pages_in_graphql() {
    use opaque_id_core::graphql::page_request;

    let (keyring, id) = (new_keyring(1), Internal::<Order>::from_key(42).expect("an id"));
    let page = |cursor: String| page_request::<Order>(&keyring, Some(cursor), None, None, None, 9);
    let request = page(keyring.seal_cursor(id).to_string()).expect("a cursor of orders");
    assert_eq!(request.position().map(|position| position.id()), Some(id));
    assert!(page("order_cursor_0".to_owned()).is_err());
}
