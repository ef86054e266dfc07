//! A keyring's promises besides sealing: errors without secrets, counts, rotation.

use std::collections::BTreeSet;

use opaque_id_core::__private::Label;
use opaque_id_core::key::{Key, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::KeyId;
use opaque_id_core::{External, Internal, Keyring, KeyringError, MasterSecret, OpaqueId};

use super::bytes;

resources! {
    User(prefix = "user");
    Session(prefix = "session", form = "tagged");
    Order(prefix = "order", domain = "purchase", key = i64);
    /// A resource that was renamed from `order` and keeps its domain.
    Purchase(prefix = "purchase", key = i64);
    /// A resource with the domain of `Order` and `Purchase` and another kind of key.
    NewPurchase(prefix = "purchase_v2", domain = "purchase");
    /// A resource with the prefix of `User` and other ids.
    Customer(prefix = "user", domain = "customer");
    /// A resource with ids that look like cursors of `User`.
    UserCursor(prefix = "user_cursor", form = "tagged");
    /// A resource with a form that excludes this.
    TextCursor(prefix = "order_cursor");
}

const SECRET: &str = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";

fn keyring() -> Keyring {
    Keyring::from_entries("test", &format!("0:{SECRET}")).expect("one good entry")
}

#[test]
fn wrong_entries_are_named_and_never_printed() {
    let other = SECRET.replace("c0ffee", "decade");
    let key_id = "the key id must be 0, 1, 2 or 3";
    let one_byte =
        "all bytes are the same, so it is not a secret (`opaque-id keygen` generates an entry)";
    let example = MasterSecret::example().expose_hex(str::to_owned);
    for (entries, entry, problem) in [
        (SECRET.into(), 1, "missing colon; expected `key_id:64 hex digits`"),
        (format!("0:{SECRET},4:{other}"), 2, key_id),
        (format!("x:{SECRET}"), 1, key_id),
        (
            format!("\"0:{SECRET}\""),
            1,
            "it starts with a quotation mark; remove the quotation marks",
        ),
        (format!("{SECRET}:0"), 1, key_id),
        (
            format!("0:{SECRET}\n\n# a comment\n0:{other}"),
            2,
            "duplicate key id; an earlier secret has it",
        ),
        (format!("0:{SECRET},1:{SECRET}"), 2, "duplicate secret; a new key id needs a new secret"),
        (
            format!("0:{}", &SECRET[2..]),
            1,
            "expected 64 hex digits, found 62 (`opaque-id keygen` generates an entry)",
        ),
        (format!("0:{}g", &SECRET[1..]), 1, "invalid hex digit at position 64"),
        (format!("0:{}", "0".repeat(64)), 1, one_byte),
        (format!("0:{}", "07".repeat(32)), 1, one_byte),
        (
            format!("0:{example}"),
            1,
            "it is the secret of the documentation's examples, which everyone knows \
             (`opaque-id keygen` generates an entry)",
        ),
    ] {
        let error = Keyring::from_entries("test", &entries).expect_err(&entries);
        assert_eq!(error.to_string(), format!("invalid entry {entry} of test: {problem}"));
        let printed = format!("{error:?} {error}");
        assert!(!printed.contains("c0ffee00") && !printed.contains("decade"), "{printed}");
        assert!(!printed.contains(&example[..16]), "{printed}");
    }
    let none = Keyring::from_entries("test", "").expect_err("no entry").to_string();
    assert_eq!(none, "test has no entry (`opaque-id keygen` generates one)");
}

#[test]
fn builders_require_one_sealing_secret() {
    let none = Keyring::builder().build();
    assert!(matches!(none, Err(KeyringError::NoSealingSecret)));
    let two = Keyring::builder().sealing(0, bytes(1)).sealing(1, bytes(2));
    assert!(matches!(two.build(), Err(KeyringError::TwoSealingSecrets)));
    let error = Keyring::builder().sealing(7, bytes(1)).build().expect_err("7 is above 3");
    assert_eq!(error.to_string(), "invalid secret with key id 7: the key id must be 0, 1, 2 or 3");
}

#[test]
fn counts_are_exact_across_threads() {
    let keyring =
        Keyring::builder().sealing(1, bytes(1)).opening(0, bytes(2)).build().expect("two");
    let old = Keyring::builder().sealing(0, bytes(2)).build().expect("one");
    let [zero, one] = [0, 1].map(|id| KeyId::new(id).expect("below 4"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let id = Internal::<Session>::generate();
                let (new_id, old_id) = (keyring.seal(id), old.seal(id));
                for _ in 0..1_000 {
                    assert!(keyring.open(new_id).is_ok());
                    keyring.confirm(new_id); // It has a tag, and was counted.
                }
                assert!([old_id; 100].into_iter().all(|id| keyring.open(id).is_ok()));
                // Refused ids do not count.
                let wrong = keyring.seal(Internal::<User>::generate());
                assert!(old.open(wrong).is_err());
            });
        }
    });
    assert_eq!((keyring.opened_count(zero), keyring.opened_count(one)), (400, 4_000));
    assert_eq!(keyring.clone().opened_count(one), 4_000);
    assert_eq!(keyring.unconfirmed_count(one), 0);
    assert_eq!(keyring.key_ids().collect::<Vec<_>>(), [zero, one]);
}

#[test]
fn made_up_ids_do_not_count_as_opened() {
    let keyring = keyring();
    let key_id = keyring.sealing_key_id();
    let mut opened = 0;
    for i in 0..10_000_u32 {
        // A stranger sends 26 characters of the alphabet.
        let text = format!("user_{:026}", u64::from(i) * 7_919);
        let made_up: External<User> = text.parse().expect("well formed");
        opened += u64::from(keyring.open(made_up).is_ok());
    }
    assert!(opened > 50, "one in 64 looks like a UUIDv7: {opened}");
    assert_eq!(keyring.opened_count(key_id), 0);
    assert_eq!(keyring.unconfirmed_count(key_id), opened);

    // An id that was never opened does not count either.
    let fresh = self::keyring();
    let unopened = fresh.seal(Internal::<User>::generate());
    fresh.confirm(unopened);
    assert_eq!(fresh.opened_count(unopened.key_id()), 0);
    assert_eq!(fresh.unconfirmed_count(unopened.key_id()), 0);

    let found = keyring.seal(Internal::<User>::generate());
    assert!(keyring.open(found).is_ok());
    keyring.confirm(found);
    assert_eq!(keyring.opened_count(key_id), 1);
    assert_eq!(keyring.unconfirmed_count(key_id), opened);

    let order = keyring.seal(Internal::<Order>::from_key(1).expect("any integer"));
    assert!(keyring.open(order).is_ok());
    assert_eq!(keyring.opened_count(key_id), 2);
}

#[test]
fn a_domain_survives_a_new_prefix_and_belongs_to_one_kind_of_key() {
    let keyring = keyring();
    assert!(keyring.prepare::<Order>().is_ok());
    assert!(keyring.prepare::<Purchase>().is_ok());
    let order = Internal::<Order>::from_key(42).expect("any integer");
    let renamed = keyring.seal(order).to_string().replace("order_", "purchase_");
    let renamed: External<Purchase> = renamed.parse().expect("well formed");
    assert_eq!(keyring.open(renamed).map(Internal::expose_key), Ok(42));
    let error = keyring.prepare::<NewPurchase>().expect_err("UUIDs, not integers");
    assert_eq!(
        error.to_string(),
        "the domain `purchase` belongs to integer keys, but `purchase_v2` uses it for UUIDv7 keys: \
         set `domain = \"…\"` to another name in its `#[opaque_id(…)]`"
    );
    // Without `prepare` each use panics.
    for _ in 0..2 {
        let sealed = std::panic::catch_unwind(|| keyring.seal(Internal::<NewPurchase>::generate()));
        assert!(sealed.is_err());
    }
    // Other resources are not affected.
    assert_eq!(keyring.open(keyring.seal(order)), Ok(order));
    // Another secret has other domains.
    let other = Keyring::builder().sealing(0, bytes(9)).build().expect("one");
    assert!(other.prepare::<NewPurchase>().is_ok());
}

#[test]
fn a_prefix_belongs_to_one_resource() {
    let keyring = keyring();
    for _ in 0..2 {
        assert!(keyring.prepare::<User>().is_ok());
        let error = keyring.prepare::<Customer>().expect_err("the same prefix");
        assert!(matches!(error, KeyringError::Prefix { prefix: "user", .. }), "{error}");
        let error = keyring.prepare::<UserCursor>().expect_err("looks like a cursor");
        assert!(matches!(error, KeyringError::CursorPrefix { resource: "user", .. }), "{error}");
        assert!(keyring.prepare::<Order>().is_ok());
        assert!(keyring.prepare::<TextCursor>().is_ok());
    }
    // The order is reversed.
    let other = Keyring::builder().sealing(0, bytes(9)).build().expect("one");
    assert!(other.prepare::<UserCursor>().is_ok());
    let error = other.prepare::<User>().expect_err("its cursors look like ids");
    assert!(matches!(error, KeyringError::CursorPrefix { resource: "user", .. }), "{error}");
}

macro_rules! parameter {
    () => {
        K
    };
}

/// A resource with a parameter as its key. The derive cannot see this.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "generic", key = parameter!())]
struct Generic<K: Key>(K);

#[test]
fn instances_with_different_keys_do_not_share_subkeys() {
    let keyring = keyring();
    let id = keyring.seal(Internal::<Generic<Uuid7>>::generate());
    let other: External<Generic<Ulid>> = id.to_string().parse().expect("the same prefix");
    let opened = std::panic::catch_unwind(|| keyring.open(other));
    assert!(opened.is_err(), "{opened:?}");
    assert!(keyring.prepare::<Generic<Ulid>>().is_err());
    assert!(keyring.prepare::<Generic<Uuid7>>().is_ok());
    assert!(keyring.open(id).is_ok());
}

#[test]
fn a_subkey_is_that_of_its_label_domain_and_secret() {
    let keyring = keyring();
    let key_id = keyring.sealing_key_id();
    let subkey = |label, domain| keyring.with_subkey(key_id, label, domain, |key: &[u8; 4]| *key);
    let check = subkey(Label::Check, "").expect("the sealing secret");
    let check = u32::from_be_bytes(check);
    assert_eq!(
        keyring.check_value(key_id).map(|value| value.to_string()),
        Some(format!("{check:08x}"))
    );
    assert_ne!(subkey(Label::Window, ""), subkey(Label::Check, ""));
    assert_ne!(subkey(Label::Check, "user"), subkey(Label::Check, ""));
    let absent = KeyId::new(3).expect("0 to 3");
    let none = keyring.with_subkey(absent, Label::Check, "", |key: &[u8; 4]| *key);
    assert_eq!(none, None);
}

#[test]
fn any_uuid_is_a_key_where_none_is_checked() {
    #[derive(Debug, OpaqueId)]
    #[opaque_id(prefix = "file", key = Uuid)]
    struct File;

    let id = Internal::<File>::random();
    assert_eq!(id.expose_key().get_version_num(), 4);
    assert_ne!(id, Internal::random());
    // The first rows of a table can have UUIDv4, and the later ones UUIDv7.
    let ids: Vec<Internal<File>> = (0..1_000).map(|_| Internal::generate_v7()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert!(ids.iter().all(|id| id.expose_key().get_version_num() == 7));
    let uuid = Uuid::from_u128(7);
    assert_eq!(Internal::<File>::from(uuid).expose_key(), uuid);
    // The order of external ids is unrelated to their keys, and each id has one place in it.
    let keyring = Keyring::builder().sealing(0, bytes(1)).build().expect("a good secret");
    let ids = (0..99).map(|key| keyring.seal(Internal::<File>::from(Uuid::from_u128(key))));
    let ids: Vec<_> = ids.collect();
    assert!(!ids.is_sorted());
    assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>().len(), 99);
}

#[test]
fn audiences_open_only_their_own_ids() {
    let (old, new) = (MasterSecret::generate(), MasterSecret::generate());
    let before = Keyring::builder().sealing(0, old.clone()).build().expect("a good secret");
    let after = Keyring::builder().sealing(1, new).opening(0, old).build().expect("good secrets");
    let names = ["partner-a", "partner-b", "", "Kanzlei Müller"];
    let keyrings: Vec<_> = names.iter().map(|name| after.for_audience(name)).collect();
    let id = Internal::<Session>::generate();
    for (i, keyring) in keyrings.iter().enumerate() {
        let external = keyring.seal(id);
        assert_eq!(after.for_audience(names[i]).open(external), Ok(id));
        assert!(after.open(external).is_err());
        assert!(keyring.open(after.seal(id)).is_err());
        assert!(keyring.open_cursor(after.seal_cursor(id)).is_err());
        let others = keyrings.iter().enumerate().filter(|(other, _)| *other != i);
        assert!(others.into_iter().all(|(_, other)| other.open(external).is_err()));
        // The audience's keyring rotates with the keyring, and its ids count.
        let old_id = before.for_audience(names[i]).seal(id);
        assert_eq!(keyring.renew(old_id), Ok(external));
        assert_eq!(
            keyring.check_value(keyring.sealing_key_id()),
            after.for_audience(names[i]).check_value(keyring.sealing_key_id())
        );
    }
    let key_id = before.sealing_key_id();
    assert_eq!(after.opened_count(key_id), 4);
    assert_eq!(keyrings[0].sealing_key_id(), after.sealing_key_id());
}
