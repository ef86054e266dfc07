//! Ids of several resources open only as ids of their own resource.

use std::mem::discriminant;

use opaque_id_core::{AnyId, IdError, Internal, OpenError};

use super::properties::changes;
use super::{four_secrets, new_keyring};

resources! {
    User(prefix = "user");
    Admin(prefix = "user_admin", form = "tagged");
    Order(prefix = "order", key = i64, form = "short");
    Other(prefix = "use");
}

#[derive(AnyId, Clone, Copy, Debug, PartialEq)]
enum Node {
    User(Internal<User>),
    Admin(Internal<Admin>),
    Order(Internal<Order>),
}

fn nodes() -> [Node; 4] {
    let order = |key| Node::Order(Internal::from_key(key).expect("any integer"));
    // The second order has the length of the text form.
    [Node::User(Internal::generate()), Node::Admin(Internal::generate()), order(42), order(-1)]
}

#[test]
fn each_id_opens_as_what_it_is_and_no_change_makes_it_another() {
    let keyring = four_secrets();
    for node in nodes() {
        let text = keyring.seal_any(&node);
        assert_eq!(keyring.open_any(&text), Ok(node));
        for changed in changes(&text, 0, "0123456789abcdefghijklmnopqrstuvwxyzABC_-+ \0é") {
            if let Ok(opened) = keyring.open_any::<Node>(&changed) {
                assert_eq!(discriminant(&opened), discriminant(&node), "{changed}");
                assert_ne!(opened, node, "{changed}");
            }
        }
    }
}

/// `user_admin` begins with `user`, and `user` begins with `use`.
#[test]
fn a_prefix_is_compared_as_a_whole() {
    let keyring = new_keyring(0);
    let other = keyring.seal(Internal::<Other>::generate()).to_string();
    let user = keyring.seal_any(&nodes()[0]);
    let cursor = keyring.seal_cursor(Internal::<User>::generate()).to_string();
    let upper = user.to_uppercase();
    for text in ["", "_", "user", "_user_", "\0", "é_é", "42", &other, &cursor, &upper] {
        let error = keyring.open_any::<Node>(text).expect_err(text);
        assert!(matches!(error, IdError::OtherPrefix { .. }), "{text}: {error}");
        let expected = "expected an id that starts with `user_`, `user_admin_` or `order_`";
        assert_eq!(error.to_string(), expected);
    }
    // The prefix of one resource is before the body of another.
    for text in ["user_", "user_admin_", &user.replace("user_", "user_admin_")] {
        let opened = keyring.open_any::<Node>(text);
        assert!(matches!(opened, Err(IdError::Malformed { .. })), "{text}: {opened:?}");
    }
}

#[test]
fn another_secret_opens_no_tag() {
    let [_, admin, order, _] = nodes();
    for node in [admin, order] {
        let opened = new_keyring(0).open_any::<Node>(&new_keyring(0).seal_any(&node));
        assert_eq!(opened, Err(IdError::Open(OpenError::NotGenuine)));
    }
}
