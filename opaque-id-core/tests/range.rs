//! Ranges of ids contain exactly the right ids, by cursors, by times, and by both.
#![expect(clippy::cast_possible_truncation, reason = "any bits will do")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::__private::id_from_bits;
use opaque_id_core::key::{TimeKey, Ulid, Uuid7};
use opaque_id_core::layout::{Int64Layout, Shards, Uuid6};
use opaque_id_core::{IdRange, Internal, OpaqueId, Position};
use proptest1::prelude::*;

use super::new_keyring;
use super::properties::{
    TextI32, TextInt, TextStructured, TextU32, TextUlid, TextUuid, TextUuid7, UuidI32, UuidInt,
    UuidStructured, UuidU32, UuidUuid7,
};

fn id<T: OpaqueId>(key: T::Key) -> Internal<T> {
    Internal::from_key(key).expect("a key of the resource")
}

/// Returns an id that is likely to be a neighbor of others or at an end.
fn near(any: u128, end: u8) -> u128 {
    match end % 4 {
        0 => any,
        1 => any % 3,
        2 => u128::MAX - any % 3,
        _ => any & !0xff | (any % 3),
    }
}

fn check_cursors<T: OpaqueId>(bits: [u128; 3]) -> Result<(), TestCaseError> {
    let [after, before, asked] = bits.map(id_from_bits::<Internal<T>>);
    let at = |id| Some(Position::from_row(id));
    let all = IdRange::all();
    prop_assert!(all.contains(asked) && !all.is_empty());
    let range = all.starting_after(at(after));
    prop_assert_eq!(range.contains(asked), asked > after);
    let range = all.ending_before(at(before));
    prop_assert_eq!(range.contains(asked), asked < before);
    let range = all.starting_after(at(after)).ending_before(at(before));
    prop_assert_eq!(range.contains(asked), after < asked && asked < before);
    prop_assert_eq!(range, all.ending_before(at(before)).starting_after(at(after)));
    if !range.is_empty() {
        // They are the neighbors, and ids of the resource.
        prop_assert!(after < range.first() && range.last() < before);
        prop_assert!(all.starting_after(at(after)).ending_before(at(range.first())).is_empty());
        prop_assert!(all.starting_after(at(range.last())).ending_before(at(before)).is_empty());
        let checked = Internal::<T>::from_key(range.last().expose_key());
        prop_assert!(checked.is_ok_and(|id| id == range.last()));
    }
    let nowhere: Option<Position<_>> = None;
    prop_assert_eq!(all.starting_after(nowhere).ending_before(nowhere), all);
    prop_assert!(all.ending_before(at(all.first())).is_empty());
    prop_assert!(all.starting_after(at(all.last())).is_empty());
    Ok(())
}

fn check_times<T: OpaqueId<Key: TimeKey>>(
    start: SystemTime,
    end: SystemTime,
    key: T::Key,
) -> Result<(), TestCaseError> {
    let asked = id::<T>(key);
    let range = IdRange::all().created_in(start..end);
    prop_assert_eq!(range.contains(asked), (start..end).contains(&asked.expose_time()));
    let range = range.starting_after(Some(Position::from_row(asked)));
    prop_assert!(!range.contains(asked));
    Ok(())
}

proptest! {
    #[test]
    fn cursors(bits: [u128; 3], ends: [u8; 3]) {
        let bits = [0, 1, 2].map(|i| near(bits[i], ends[i]));
        check_cursors::<TextUuid7>(bits)?;
        check_cursors::<UuidUuid7>(bits)?;
        check_cursors::<TextUlid>(bits)?;
        check_cursors::<TextStructured>(bits)?;
        check_cursors::<UuidStructured>(bits)?;
        check_cursors::<TextUuid>(bits)?;
        // Integers are the first bits.
        let low = bits.map(|bits| bits << 64);
        check_cursors::<TextInt>(low)?;
        check_cursors::<UuidInt>(low)?;
    }

    #[test]
    fn times(start in 0..1_u64 << 50, length in 0..1_u64 << 40, bits: u128) {
        let instant = |micros| UNIX_EPOCH + Duration::from_micros(micros);
        let (start, end) = (instant(start), instant(start + length));
        let millis = (bits % (1 << 42)) as u64;
        let uuid7 = Uuid7::from_parts(millis, bits as u16, bits as u64);
        check_times::<TextUuid7>(start, end, uuid7)?;
        check_times::<UuidUuid7>(start, end, uuid7)?;
        check_times::<TextUlid>(start, end, Ulid::from_parts(millis, bits))?;
    }
}

#[test]
fn ranges_end_where_the_integers_do() {
    fn check<T: OpaqueId<Internal = Internal<T>>>(first: T::Key, last: T::Key) {
        let all = IdRange::<Internal<T>>::all();
        assert_eq!((all.first(), all.last()), (id(first), id(last)));
    }
    check::<TextI32>(i32::MIN, i32::MAX);
    check::<UuidI32>(0, i32::MAX);
    check::<TextU32>(0, u32::MAX);
    check::<UuidU32>(0, u32::MAX);
    check::<UuidInt>(0, (1 << 60) - 1);
    let negative = Internal::<UuidI32>::from_key(-1).expect_err("negative");
    assert!(negative.to_string().contains("from 0 to 2^60 - 1"));
}

#[test]
fn the_uuid_form_ends_in_4199() {
    let late = UNIX_EPOCH + Duration::from_secs(80_000_000_000)..;
    assert!(!IdRange::<Internal<TextUuid7>>::all().created_in(late.clone()).is_empty());
    assert!(IdRange::<Internal<UuidUuid7>>::all().created_in(late).is_empty());
}

#[test]
fn bounds_of_layouts() {
    let start = UNIX_EPOCH + Duration::from_secs(1_645_557_742);
    let second = start..start + Duration::from_secs(1);
    let v6: Uuid6 = "1ec9414c-232a-6b00-b3c8-9f6bdeced846".parse().expect("a UUIDv6");
    let range = IdRange::<Internal<TextUuid>>::all().within(Uuid6::bounds(second.clone()));
    assert!(range.contains(id(v6.into())));
    assert_eq!(Uuid6::try_from(range.first().expose_key()).map(Uuid6::time), Ok(start));

    let layout = Int64Layout::with_node_bits(8).expect("0 to 16");
    let range = IdRange::<Internal<UuidInt>>::all().within(layout.bounds(second));
    assert_eq!(range.first().expose_key() >> 28, 1_645_557_742);
    assert_eq!(range.last().expose_key() >> 28, 1_645_557_742);

    let shards = Shards::with_bits(4).expect("1 to 16");
    let key = shards.key(7, 1_000).expect("room");
    let range = IdRange::<Internal<UuidStructured>>::all().within(shards.bounds(7, 1_000..=1_000));
    let rest = range.starting_after(Some(Position::from_row(id(key))));
    assert!(range.contains(id(key)) && rest.last() == range.last());
}

/// Stripe's `starting_after=<id>` works if an id cannot be made up.
#[test]
fn opened_ids_with_a_tag() {
    let keyring = new_keyring(0);
    let asked = keyring.seal(id::<TextInt>(42));
    let range = IdRange::all().starting_after(keyring.open(asked).ok());
    assert_eq!(range.first(), id(43));
    let asked = keyring.seal(id::<UuidInt>(42));
    let range = IdRange::all().ending_before(keyring.open(asked).ok());
    assert_eq!(range.last(), id(41));
}
