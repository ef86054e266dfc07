//! Old ids are accepted in canonical spelling, up to the last shown key, until the date, and never as other
//! keys.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::old_ids::{OldIds, OldIdsBuilder};
use opaque_id_core::resource::{InternalId, SealedResource};
use opaque_id_core::{
    External, IdError, IdRange, Internal, Keyring, KeyringError, OpenError, Position,
};
use proptest1::prelude::*;

use super::new_keyring as keyring;

resources! {
    User(prefix = "user");
    TaggedUser(prefix = "user", domain = "tagged", form = "tagged");
    UuidUser(prefix = "user", domain = "uuid", form = "uuid");
    File(prefix = "file", key = Uuid);
    Item(prefix = "item", key = StructuredKey, form = "uuid");
    Order(prefix = "order", key = i64);
    ShortOrder(prefix = "order", key = i64, form = "short");
    Team(prefix = "team", key = u32, form = "uuid");
}

fn end() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(2_000_000_000)
}

fn all<T: SealedResource>() -> OldIdsBuilder<T> {
    OldIds::builder(IdRange::all(), UNIX_EPOCH..end())
}

/// Returns the key that a text is accepted as.
fn accepted<T: SealedResource>(
    old_ids: &OldIds<T>,
    keyring: &Keyring,
    text: &str,
) -> Result<T::Internal, IdError> {
    old_ids.open_at(end() - Duration::from_nanos(1), text, keyring).map(|accepted| accepted.id)
}

fn order(key: i64) -> Internal<Order> {
    Internal::from_key(key).expect("a key")
}

#[test]
fn integers_are_accepted_up_to_the_last_one_until_the_date() {
    let keyring = keyring(0);
    let orders = OldIds::<Order>::builder(IdRange::all().up_to(order(5_012)), UNIX_EPOCH..end())
        .integers()
        .exact_bound()
        .build(&keyring)
        .expect("integers do not look like ids");
    let accept = |text: &str| accepted(&orders, &keyring, text);

    assert_eq!(accept("5012"), Ok(order(5_012)));
    assert_eq!(accept("-1"), Ok(order(-1)));
    let new = |key| keyring.seal(order(key)).to_string();
    assert_eq!(accept(&new(42)), Ok(order(42)));
    // New ids have no bound.
    assert_eq!(accept(&new(5_013)), Ok(order(5_013)));
    assert!(matches!(accept("5013"), Err(IdError::NeverShown { .. })));
    for text in ["042", "+42"] {
        assert_eq!(accept(text), Ok(order(42)), "{text}");
    }
    for text in ["42 ", " 42", "4_2", "0x2a", "", "4.0", "٤٢", "99999999999999999999"] {
        assert!(matches!(accept(text), Err(IdError::Malformed { .. })), "{text}");
    }
    assert!(matches!(
        orders.open_at(end(), "42", &keyring),
        Err(IdError::OldIdsEnded { old_form: "integer", .. })
    ));
    assert!(orders.open_at(end(), &new(42), &keyring).is_ok());

    let counts: Vec<_> = orders
        .counts()
        .map(|counts| (counts.old_form, counts.accepted, counts.ended, counts.not_shown))
        .collect();
    assert_eq!(counts, [(None, 3, 0, 0), (Some("integer"), 4, 1, 1)]);
}

#[test]
fn uuids_ulids_and_type_ids_are_accepted_in_the_spellings_of_their_parsers() {
    let keyring = keyring(1);
    let users = all::<User>().uuids().ulids().type_ids("user").type_ids("usr");
    let users = users.build(&keyring).expect("no secret has key id 0");
    let id = Internal::<User>::generate();
    let uuid = *id.as_repr();
    let ulid = Ulid::from(uuid).to_string();
    let body = ulid.to_lowercase();
    for text in [
        uuid.to_string(),
        uuid.to_string().to_uppercase(),
        uuid.simple().to_string(),
        uuid.urn().to_string(),
        uuid.braced().to_string(),
        ulid.clone(),
        body.clone(),
        format!("user_{body}"),
        format!("usr_{body}"),
    ] {
        assert_eq!(accepted(&users, &keyring, &text), Ok(id), "{text}");
    }
    for text in [
        format!("USER_{body}"),
        format!("user_{ulid}"),
        format!("users_{body}"),
        // The UUID does not have version 7.
        Uuid::nil().to_string(),
    ] {
        assert!(accepted(&users, &keyring, &text).is_err(), "{text}");
    }
    let other = keyring.seal(Internal::<Item>::generate()).to_string();
    assert!(matches!(accepted(&users, &keyring, &other), Err(IdError::Malformed { .. })));
    assert!(matches!(
        accepted(&users, &keyring, &keyring.seal(order(1)).to_string()),
        Err(IdError::OtherResource { .. })
    ));
}

/// A list that is filtered by an old id shows whether it is accepted.
#[test]
fn the_bound_is_not_a_count() {
    /// Returns the last accepted key, as any client can find it.
    fn bound<T: SealedResource>(
        last: T::Internal,
        form: impl FnOnce(OldIdsBuilder<T>) -> OldIdsBuilder<T>,
        text: impl Fn(u64) -> String,
    ) -> u64 {
        let keyring = keyring(0);
        let shown = IdRange::all().up_to(Position::from_row(last));
        let old_ids = form(OldIds::<T>::builder(shown, UNIX_EPOCH..end()));
        let old_ids = old_ids.build(&keyring).expect("no old id looks like a new one");
        let mut accepts = 0;
        for bit in (0..63).rev() {
            let key = accepts | 1 << bit;
            if accepted(&old_ids, &keyring, &text(key)).is_ok() {
                accepts = key;
            }
        }
        accepts
    }
    let small = [(0, 0), (1, 10), (10, 10), (11, 20), (99, 100), (101, 200)];
    let large = [(5_012, 6_000), (6_000, 6_000), (i64::MAX, i64::MAX)];
    for (last, round) in small.into_iter().chain(large) {
        let found = bound::<Order>(order(last), OldIdsBuilder::integers, |key| key.to_string());
        assert_eq!(Ok(round), i64::try_from(found), "{last}");
    }
    let team = |key: u32| Internal::<Team>::from_key(key).expect("a key");
    for (last, round) in [(5_012, 6_000), (u32::MAX - 1, u32::MAX)] {
        let found = bound::<Team>(team(last), OldIdsBuilder::integers, |key| key.to_string());
        assert_eq!(found, u64::from(round));
    }
    let item = |sequence| {
        let key = StructuredKey::with_sequence(sequence).expect("below 2^60");
        Internal::<Item>::from_key(key).expect("a key")
    };
    let text = |sequence| Uuid::from_u64_pair(sequence, (1 << 60) - 1).to_string();
    for (last, round) in [(5_012, 6_000), ((1 << 60) - 9, (1 << 60) - 1)] {
        assert_eq!(bound::<Item>(item(last), OldIdsBuilder::uuids, text), round);
    }
}

#[test]
fn a_time_bounds_what_was_shown() {
    let keyring = keyring(1);
    let shown = IdRange::all().created_in(..UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let users = OldIds::<User>::builder(shown, UNIX_EPOCH..end()).uuids();
    let users = users.build(&keyring).expect("uuids do not look like ids");
    let at = |seconds: u64| Uuid::from_u128(u128::from(seconds * 1_000) << 80 | 7 << 76 | 2 << 62);
    assert!(accepted(&users, &keyring, &at(1_699_999_999).to_string()).is_ok());
    assert!(matches!(
        accepted(&users, &keyring, &at(1_700_000_000).to_string()),
        Err(IdError::NeverShown { old_form: "uuid", .. })
    ));
}

/// A TypeID with the resource's own prefix looks like a new id with key id 0, and one in 64 of them opens.
#[test]
fn type_ids_are_never_taken_for_new_ids() {
    let with_key_id_0 = keyring(0);
    let refused = all::<User>().type_ids("user").build(&with_key_id_0);
    assert!(matches!(
        refused,
        Err(KeyringError::AmbiguousOldIds { old_form: "typeid", key_id, .. }) if key_id.get() == 0
    ));
    // Other prefixes and the other form have other texts.
    assert!(all::<User>().type_ids("usr").build(&with_key_id_0).is_ok());
    assert!(all::<TaggedUser>().type_ids("user").build(&with_key_id_0).is_ok());

    let keyring = keyring(1);
    let users = all::<User>().type_ids("user").build(&keyring).expect("key id 1");
    let mut opened_by_chance = 0;
    for _ in 0..10_000 {
        let id = Internal::<User>::generate();
        let text = format!("user_{}", Ulid::from(*id.as_repr()).to_string().to_lowercase());
        assert_eq!(accepted(&users, &keyring, &text), Ok(id));
        // The keyring gets a secret with key id 0 after `OldIds` were built.
        assert!(matches!(
            accepted(&users, &with_key_id_0, &text),
            Err(IdError::Ambiguous { resource: "user", .. })
        ));
        let taken: External<User> = text.parse().expect("the same form");
        opened_by_chance += u32::from(with_key_id_0.open(taken).is_ok());
    }
    assert!(opened_by_chance > 0, "what the refusals are for");
}

/// The uuid form accepts only kinds of keys without UUIDs of version 8.
#[test]
fn uuids_do_not_look_like_the_uuid_form() {
    let keyring = keyring(0);
    let users = all::<UuidUser>().uuids().build(&keyring).expect("version 7");
    let items = all::<Item>().uuids().build(&keyring).expect("no version");
    for _ in 0..10_000 {
        let (user, item) = (Internal::<UuidUser>::generate(), Internal::<Item>::generate());
        assert_eq!(accepted(&users, &keyring, &user.as_repr().to_string()), Ok(user));
        assert_eq!(accepted(&users, &keyring, &keyring.seal(user).to_string()), Ok(user));
        assert_eq!(accepted(&items, &keyring, &item.as_repr().to_string()), Ok(item));
    }
}

#[test]
fn old_forms_that_look_like_new_ids_are_refused_at_the_start() {
    // An old API showed a version-8 UUID for each team.
    let read = |text: &str| text.strip_prefix("00000000-0000-8000-8000-0000")?.parse().ok();
    let write = |key: u32| format!("00000000-0000-8000-8000-0000{key:08}");
    let refused = all::<Team>().form("version 8", read, write).build(&keyring(0));
    assert!(matches!(refused, Err(KeyringError::AmbiguousOldIds { old_form: "version 8", .. })));
}

/// `build` compares only some keys.
#[test]
fn an_old_id_that_looks_like_a_new_one_is_never_opened_as_one() {
    // The old ids are TypeIDs with reversed digits, so the first digit can be any.
    let read = |text: &str| {
        let digits: String = text.strip_prefix("file_")?.chars().rev().collect();
        let ulid: Ulid = digits.to_uppercase().parse().ok()?;
        Some(ulid.into_repr())
    };
    let write = |key: Uuid| {
        let digits = Ulid::from(key).to_string().to_lowercase();
        format!("file_{}", digits.chars().rev().collect::<String>())
    };
    let (files, keyring) = (0..4)
        .map(keyring)
        .find_map(|keyring| {
            let files = all::<File>().form("reversed", read, write);
            Some((files.build(&keyring).ok()?, keyring))
        })
        .expect("no sample has this key id");
    let (mut as_old, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let file = Internal::<File>::from_key(Internal::<User>::generate().expose_key().into());
        let file = file.expect("a key");
        match accepted(&files, &keyring, &write(*file.as_repr())) {
            Ok(id) => {
                assert_eq!(id, file);
                as_old += 1;
            }
            Err(error) => {
                assert!(matches!(error, IdError::Ambiguous { .. }), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(as_old > 0 && refused > 0);
}

#[test]
fn a_text_of_two_forms_is_refused_unless_they_agree() {
    let keyring = keyring(0);
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    let read = move |text: &str| reversed(text).parse().ok();
    let write = move |key: i64| reversed(&key.to_string());
    let orders = all::<Order>().integers().form("reversed", read, write);
    let orders = orders.build(&keyring).expect("not like new ids");
    assert_eq!(accepted(&orders, &keyring, "7"), Ok(order(7)));
    assert_eq!(accepted(&orders, &keyring, "7007"), Ok(order(7_007)));
    assert!(matches!(
        accepted(&orders, &keyring, "12"),
        Err(IdError::Ambiguous { resource: "order", .. })
    ));
}

#[test]
fn sqids_are_accepted_in_canonical_texts() {
    fn one(numbers: &[u64]) -> Option<i64> {
        match *numbers {
            [number] => number.try_into().ok(),
            _ => None,
        }
    }
    fn with_sqids(builder: OldIdsBuilder<Order>) -> OldIdsBuilder<Order> {
        let [reader, writer] = [(); 2].map(|()| sqids::Sqids::default());
        let read = move |text: &str| one(&reader.decode(text));
        let write =
            move |key| writer.encode(&[u64::try_from(key).unwrap_or(0)]).unwrap_or_default();
        builder.form("sqid", read, write)
    }

    let keyring = keyring(0);
    let orders = with_sqids(all()).build(&keyring).expect("not like new ids");
    let sqids = sqids::Sqids::default();
    let sqid = sqids.encode(&[42]).expect("a sqid");
    assert_eq!(accepted(&orders, &keyring, &sqid), Ok(order(42)));
    // Several texts decode to one number, and only one of them was ever shown.
    let texts = (0..5_000u32).map(|i| format!("{i:x}"));
    let aliases = texts.filter(|text| one(&sqids.decode(text)).is_some());
    let aliases = aliases.filter(|text| sqids.encode(&sqids.decode(text)).as_ref() != Ok(text));
    let mut count = 0;
    for alias in aliases {
        assert!(accepted(&orders, &keyring, &alias).is_err(), "{alias}");
        count += 1;
    }
    assert!(count > 0, "sqids has aliases");
}

#[test]
fn old_ids_without_a_form_or_a_key_are_refused() {
    let nothing = |old_ids: Result<OldIds<Order>, KeyringError>| {
        let error = old_ids.expect_err("nothing to accept").to_string();
        assert!(error.ends_with("name a form of old ids, and a range of keys that is not empty"));
    };
    nothing(all().build(&keyring(0)));
    let empty = IdRange::all().up_to(order(1)).starting_after(Some(Position::from_row(order(1))));
    nothing(OldIds::builder(empty, UNIX_EPOCH..end()).integers().build(&keyring(0)));
}

#[test]
fn what_headers_have_no_room_for_is_refused_at_the_start() {
    let build = |period, address: &str| {
        let orders = OldIds::<Order>::builder(IdRange::all(), period).integers();
        let error = orders.documentation(address).build(&keyring(0)).err();
        error.map(|error| error.to_string())
    };
    let is_of = |error: Option<String>, what: &str| error.is_some_and(|error| error.contains(what));
    let good = "https://shop.example/docs/ids?move=1#old";
    assert_eq!(build(UNIX_EPOCH..end(), good), None);
    for address in ["", "a b", "a>; rel=\"next\"", "a\r\nSet-Cookie: b=c", "é"] {
        let error = build(UNIX_EPOCH..end(), address);
        assert!(is_of(error, "the address of their documentation"), "{address}");
    }
    let year = Duration::from_secs(365 * 86_400);
    for period in
        [end()..UNIX_EPOCH, UNIX_EPOCH - year..end(), UNIX_EPOCH..UNIX_EPOCH + 8_100 * year]
    {
        assert!(is_of(build(period, good), "their period must start in 1970"));
    }
}

#[test]
fn retired_and_tampered_ids_are_not_old() {
    let (ours, theirs) = (keyring(0), keyring(1));
    let orders = all::<Order>().integers().build(&ours).expect("not like new ids");
    let retired = accepted(&orders, &ours, &theirs.seal(order(1)).to_string());
    assert!(matches!(retired, Err(IdError::Open(OpenError::UnknownKeyId { .. }))));
    let tampered = accepted(&orders, &ours, &keyring(0).seal(order(1)).to_string());
    assert!(matches!(tampered, Err(IdError::Open(OpenError::NotGenuine))));
}

#[test]
fn a_resource_moves_from_the_text_form_to_the_short_one() {
    let ours = keyring(0);
    let last = Internal::<ShortOrder>::from_key(5_000).expect("any");
    let builder = || {
        OldIds::<ShortOrder>::builder(
            IdRange::all().up_to(Position::from_row(last)),
            UNIX_EPOCH..end(),
        )
    };
    let orders = builder().text_form().build(&ours).expect("never a new id");
    let (text, old_form) = (|key| ours.seal(order(key)).to_string(), Some("text"));
    for (key, at, opened) in
        [(42, UNIX_EPOCH, true), (5_001, UNIX_EPOCH, false), (42, end(), false)]
    {
        let found = orders.open_at(at, &text(key), &ours);
        assert_eq!(found.is_ok(), opened, "{key}");
        assert!(found.is_err() || found.is_ok_and(|found| found.old_form == old_form));
    }
    // The integer has no shorter id, so its text is the new id.
    for key in [1 << 36, -1] {
        let found = orders.open(&text(key), &ours).expect("a new id");
        assert_eq!((found.old_form, found.id.expose_key()), (None, key));
    }
    // Every accepted id counts once for its secret, and refused ids do not count.
    let key_id = ours.sealing_key_id();
    assert_eq!((ours.opened_count(key_id), ours.unconfirmed_count(key_id)), (1, 2));
    assert!(orders.open(&text(42), &keyring(0)).is_err());
    assert!(builder().build(&ours).is_err(), "nothing to accept");
}

proptest! {
    #[test]
    fn integers_keep_their_value_and_other_texts_are_refused(text in "[0-9a-z_\\-]{0,40}|.{0,20}", uuid: u128) {
        let keyring = keyring(1);
        let users = all::<User>().uuids().ulids().type_ids("user").build(&keyring);
        let users = users.expect("no secret has key id 0");
        let orders = all::<Order>().integers().build(&keyring).expect("not like new ids");
        prop_assert!(accepted(&users, &keyring, &text).is_err());
        if let Ok(id) = accepted(&orders, &keyring, &text) {
            prop_assert_eq!(Ok(*id.as_repr()), text.parse());
        }
        let uuid = Uuid::from_u128(uuid);
        prop_assert_eq!(
            accepted(&users, &keyring, &uuid.to_string()).is_ok(),
            Uuid7::check(uuid).is_ok()
        );
    }
}
