//! Round trips of every key through each of its forms, changed ids, and parsers that never panic.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use fpe::ff1::{FF1, FlexibleNumeralString};
use opaque_id_core::__private::id_from_bits;
use opaque_id_core::form::{FormOf, SealedFormOf, Short, Tagged, Text, UuidForm};
use opaque_id_core::hazmat::{FF1_BITS, Ff1};
use opaque_id_core::key::{AnyKey, Key, Repr, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::resource::{MappedResource, SealedResource};
use opaque_id_core::{External, Internal, Keyring, OpaqueId};
use proptest1::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

use super::{bytes, four_secrets, tool_resource};

resources! {
    TextUuid7(prefix = "text_uuid7", key = Uuid7, form = "text");
    TaggedUuid7(prefix = "tagged_uuid7", key = Uuid7, form = "tagged");
    UuidUuid7(prefix = "uuid_uuid7", key = Uuid7, form = "uuid");
    TextUlid(prefix = "text_ulid", key = Ulid, form = "text");
    TaggedUlid(prefix = "tagged_ulid", key = Ulid, form = "tagged");
    TextStructured(prefix = "text_structured", key = StructuredKey, form = "text");
    TaggedStructured(prefix = "tagged_structured", key = StructuredKey, form = "tagged");
    UuidStructured(prefix = "uuid_structured", key = StructuredKey, form = "uuid");
    TextUuid(prefix = "text_uuid", key = Uuid, form = "text");
    TaggedUuid(prefix = "tagged_uuid", key = Uuid, form = "tagged");
    TextInt(prefix = "text_int", key = i64, form = "text");
    UuidInt(prefix = "uuid_int", key = i64, form = "uuid");
    ShortInt(prefix = "short_int", key = i64, form = "short");
    TextI32(prefix = "text_int", key = i32, form = "text");
    UuidI32(prefix = "uuid_int", key = i32, form = "uuid");
    ShortI32(prefix = "short_int", key = i32, form = "short");
    TextU32(prefix = "text_int", key = u32, form = "text");
    UuidU32(prefix = "uuid_int", key = u32, form = "uuid");
    ShortU32(prefix = "short_int", key = u32, form = "short");
    Mapped(prefix = "mapped", key = i64, form = "mapped");
    MappedUuid(prefix = "mapped_uuid", key = i64, form = "mapped_uuid");
}

fn keyring(secret: [u8; 32]) -> Keyring {
    Keyring::builder().sealing(2, secret).opening(1, bytes(0xa5)).build().expect("two secrets")
}

fn secret() -> impl Strategy<Value = [u8; 32]> {
    any::<[u8; 32]>()
        .prop_filter("not one byte", |secret| secret.iter().any(|byte| *byte != secret[0]))
}

/// Checks that an external id or a cursor can be read from its text, its JSON and its bytes. Returns the
/// number of bytes.
pub(crate) fn reads_back<V>(shown: V) -> Result<usize, TestCaseError>
where
    V: Debug + Display + PartialEq + FromStr + Serialize + DeserializeOwned,
{
    prop_assert!(shown.to_string().parse().is_ok_and(|parsed: V| parsed == shown));
    let json = serde_json::to_string(&shown).expect("serializes");
    prop_assert_eq!(&json, &format!("\"{shown}\""));
    prop_assert_eq!(&serde_json::from_str::<V>(&json).expect("reads back"), &shown);
    let bytes = postcard::to_stdvec(&shown).expect("serializes");
    prop_assert_eq!(&postcard::from_bytes::<V>(&bytes).expect("reads back"), &shown);
    Ok(bytes.len())
}

/// Checks that a mapped id is its UUID.
fn maps<T: MappedResource>(uuid: Uuid) -> Result<(), TestCaseError> {
    let external = External::<T>::from(uuid);
    prop_assert_eq!(external.to_uuid(), uuid);
    reads_back(external).map(|_| ())
}

/// Checks that an id is sealed, opened and renewed, and that a tool can open it.
fn round_trips<T>(secret: [u8; 32], bits: u128) -> Result<(), TestCaseError>
where
    T: SealedResource<Internal = Internal<T>>,
{
    let keyring = keyring(secret);
    let id: Internal<T> = id_from_bits(bits);
    let key = id.expose_key();
    let external: External<T> = keyring.seal(id);
    reads_back(external)?;

    prop_assert_eq!(keyring.open(external), Ok(id));
    prop_assert_eq!(Internal::from_key(key).ok(), Some(id));

    let tool = tool_resource::<T::Key, T::Form>(&keyring, T::PREFIX, T::DOMAIN);
    let (key, text) = (key.into_repr().to_any(), external.to_string());
    prop_assert_eq!(tool.open(&text), Ok((key, external.key_id())));
    prop_assert_eq!(tool.seal(key), Ok(text));
    let cursor = keyring.seal_cursor(id).to_string();
    prop_assert_eq!(tool.open_cursor(&cursor), Ok((key, external.key_id())));
    prop_assert_eq!(tool.seal_cursor(key), Ok(cursor));

    let newer = Keyring::builder().sealing(3, bytes(9)).opening(2, secret).build().expect("two");
    let renewed = newer.renew(external).expect("the old secret still opens");
    prop_assert_eq!((renewed.key_id().get(), newer.open(renewed)), (3, Ok(id)));
    prop_assert_eq!(newer.renew(renewed), Ok(renewed));
    Ok(())
}

proptest! {
    #[test]
    fn every_key_round_trips_through_every_form(
        secret in secret(), bits: u128,
    ) {
        round_trips::<TextUuid7>(secret, bits)?;
        round_trips::<TaggedUuid7>(secret, bits)?;
        round_trips::<UuidUuid7>(secret, bits)?;
        round_trips::<TextUlid>(secret, bits)?;
        round_trips::<TaggedUlid>(secret, bits)?;
        round_trips::<TextStructured>(secret, bits)?;
        round_trips::<TaggedStructured>(secret, bits)?;
        round_trips::<UuidStructured>(secret, bits)?;
        round_trips::<TextUuid>(secret, bits)?;
        round_trips::<TaggedUuid>(secret, bits)?;
        round_trips::<TextInt>(secret, bits)?;
        round_trips::<UuidInt>(secret, bits)?;
        round_trips::<ShortInt>(secret, bits)?;
        round_trips::<TextI32>(secret, bits)?;
        round_trips::<UuidI32>(secret, bits)?;
        round_trips::<ShortI32>(secret, bits)?;
        round_trips::<TextU32>(secret, bits)?;
        round_trips::<UuidU32>(secret, bits)?;
        round_trips::<ShortU32>(secret, bits)?;
        // The key has the shorter of the short ids.
        round_trips::<ShortInt>(secret, bits >> 28)?;
    }

    /// The strategies of this crate's features generate keys that fit the form.
    #[test]
    #[cfg(all(feature = "arbitrary1", feature = "proptest1"))]
    fn generated_ids_are_keys_of_their_resource(
        v7: Internal<UuidUuid7>, structured: Internal<UuidStructured>, int: Internal<UuidInt>, bytes: [u8; 16],
    ) {
        fn is_checked<T: OpaqueId<Internal = Internal<T>>>(id: Internal<T>) -> Result<(), TestCaseError> {
            prop_assert_eq!(Internal::from_key(id.expose_key()).ok(), Some(id));
            Ok(())
        }
        let mut source = arbitrary1::Unstructured::new(&bytes);
        is_checked::<UuidI32>(source.arbitrary().expect("16 bytes"))?;
        is_checked(v7)?;
        is_checked(structured)?;
        is_checked(int)?;
    }

    /// Opening checks the bits, and all other code uses the check.
    #[test]
    fn what_a_form_has_room_for_are_its_fixed_bits(bits: u128, int: i64) {
        fn agrees<F: FormOf<K>, K: Key>(repr: K::Repr) -> Result<(), TestCaseError> {
            prop_assert_eq!(F::check(repr).is_ok(), repr.has(F::FIXED));
            Ok(())
        }
        let uuid7 = id_from_bits::<Internal<UuidUuid7>>(bits).expose_key().into_repr();
        let structured = id_from_bits::<Internal<TextStructured>>(bits).expose_key().into_repr();
        let low = Uuid::from_u128(bits & uuid7.as_u128());
        for uuid in [Uuid::from_u128(bits), low, uuid7, structured, Uuid::from_u128(bits >> 2)] {
            agrees::<Text, Uuid7>(uuid)?;
            agrees::<UuidForm, Uuid7>(uuid)?;
            agrees::<Tagged, Ulid>(uuid)?;
            agrees::<Text, Uuid>(uuid)?;
            agrees::<Text, StructuredKey>(uuid)?;
            agrees::<UuidForm, StructuredKey>(uuid)?;
        }
        for int in [int, int >> 4, int >> 3, int >> 31] {
            agrees::<Text, i64>(int)?;
            agrees::<UuidForm, i64>(int)?;
            agrees::<Short, i64>(int)?;
            agrees::<UuidForm, i32>((int >> 32).try_into().expect("32 bits"))?;
        }
    }

    /// The other implementation is the `fpe` crate's.
    #[test]
    fn the_short_form_is_ff1(key: [u8; 16], block in 0..1_u64 << FF1_BITS) {
        let digits = (0..FF1_BITS).rev().map(|i| u16::from(block >> i & 1 == 1));
        let digits = FlexibleNumeralString::from(digits.collect::<Vec<_>>());
        let ff1 = FF1::<aes::Aes128>::new(&key, 2).expect("radix 2");
        let sealed = Vec::from(ff1.encrypt(&[], &digits).expect("62 digits"));
        let sealed = sealed.into_iter().fold(0, |sealed, digit| sealed << 1 | u64::from(digit));
        prop_assert_eq!(Ff1::new(&key).encrypt(block), sealed);
        prop_assert_eq!(Ff1::new(&key).decrypt(sealed), block);
    }

    #[test]
    fn every_uuid_is_a_mapped_id(bits: u128) {
        maps::<Mapped>(Uuid::from_u128(bits))?;
        maps::<MappedUuid>(Uuid::from_u128(bits))?;
    }

    #[test]
    fn no_string_panics_a_parser(text: String, near in "(text_uuid7|uuid_int)_[0-9a-zA-Zäß_-]{20,40}") {
        for text in [&text, &near] {
            let _ = text.parse::<External<TextUuid7>>();
            let _ = text.parse::<External<TaggedUuid7>>();
            let _ = text.parse::<External<UuidInt>>();
            let _ = Keyring::from_entries("entries", text);
            let _ = text.parse::<Uuid7>();
            let _ = text.parse::<Ulid>();
        }
    }

    #[test]
    fn no_bytes_panic_a_parser(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = postcard::from_bytes::<External<TextUuid7>>(&bytes);
        let _ = postcard::from_bytes::<External<TaggedUuid7>>(&bytes);
        let _ = postcard::from_bytes::<External<UuidInt>>(&bytes);
        let _ = serde_json::from_slice::<External<TextInt>>(&bytes);
    }

    #[test]
    fn a_parsed_id_has_one_text(body in "[0-9a-z]{26}") {
        let text = format!("text_uuid7_{body}");
        if let Ok(id) = text.parse::<External<TextUuid7>>() {
            prop_assert_eq!(id.to_string(), text);
        }
    }
}

/// Returns every change of a text in one character from `start` on.
pub(crate) fn changes<'t>(
    text: &'t str,
    start: usize,
    to: &'t str,
) -> impl Iterator<Item = String> + 't {
    (start..text.len()).flat_map(move |at| {
        let others = to.chars().filter(move |c| !text[at..].starts_with(*c));
        others.map(move |c| format!("{}{c}{}", &text[..at], &text[at + 1..]))
    })
}

/// Counts the changed ids that open. Each opens to another key.
fn opened_changes<K: Key, F: SealedFormOf<K>>(key: K) -> usize {
    let resource = tool_resource::<K, F>(&four_secrets(), "user", "user");
    let key = key.into_repr().to_any();
    let id = resource.seal(key).expect("a key of the form");
    // The changes include characters that no id has.
    let changes = changes(&id, 0, "0123456789abcdefghijklmnopqrstuvwxyzABC_-+ é");
    let opened = changes.filter_map(|changed| resource.open(&changed).ok());
    opened.inspect(|(other, _)| assert_ne!(*other, key, "two texts open to one key")).count()
}

#[test]
fn a_changed_id_is_refused_or_opens_to_another_key() {
    let uuid = Uuid::from_u128(0x0192_c1f0_7b1e_7a35_8f00_0000_0000_0001);
    let v7 = Uuid7::try_from(uuid).expect("a UUIDv7");
    let structured = StructuredKey::try_from(Uuid::from_u64_pair(42, 7)).expect("in range");
    // Of some 800 changes within the alphabet one in 64 looks like a UUIDv7, one in 256 like a structured
    // key, and any like a ULID. A uuid form has no bit that would show the change.
    assert!((1..60).contains(&opened_changes::<_, Text>(v7)));
    assert!(opened_changes::<_, Text>(structured) < 30);
    assert!(opened_changes::<_, Text>(Ulid::from(uuid)) > 700);
    assert!(opened_changes::<_, Text>(uuid) > 700);
    assert!(opened_changes::<_, UuidForm>(v7) > 400);
    assert!(opened_changes::<_, UuidForm>(structured) > 400);
}

#[test]
fn an_integer_has_one_short_id() {
    let keyring = keyring(bytes(7));
    let text = tool_resource::<i64, Text>(&keyring, "user", "user");
    let short = tool_resource::<i64, Short>(&keyring, "user", "user");
    let narrow = tool_resource::<i32, Short>(&keyring, "user", "user");
    for key in [0, 1, 42, (1 << 31) - 1, 1 << 31, (1 << 36) - 1, 1 << 36, i64::MAX, -1, i64::MIN] {
        let any = AnyKey::Int(key);
        let (long_id, id) = (text.seal(any).expect("any"), short.seal(any).expect("any"));
        let is_short = (0..1 << 36).contains(&key);
        assert_eq!(id.len(), "user_".len() + if is_short { 13 } else { 26 }, "{key}");
        assert_eq!(short.open(&long_id).is_err(), is_short, "{key}");
        assert_eq!(id == long_id, !is_short);
        let in_32_bits = i32::try_from(key).ok();
        assert_eq!(narrow.open(&id).ok().map(|(key, _)| key), in_32_bits.map(Repr::to_any));
        assert_eq!(in_32_bits.map(|_| narrow.seal(any)), in_32_bits.map(|_| Ok(id.clone())));
        if in_32_bits.is_some() {
            assert_eq!(narrow.seal_cursor(any), short.seal_cursor(any));
        }
    }
    // The ids have a first bit that is not zero, or another length.
    let id = short.seal(AnyKey::Int(42)).expect("any");
    for first in "ghjkmnpqrstvwxyz".chars() {
        assert!(short.open(&format!("user_{first}{}", &id[6..])).is_err());
    }
    for len in (0..13).chain(14..26).chain(27..40) {
        assert!(short.open(&format!("user_{}", "0".repeat(len))).is_err());
    }
}

/// One of 2^26 made-up ids opens, so 1,000,000 are all refused except in one of 67 runs.
#[test]
fn a_made_up_short_id_is_refused() {
    let keyring = keyring(bytes(8));
    let opened = (0..1_000_000_u64).filter(|n| {
        let mut made_up = vec![9, 2];
        made_up.extend((n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2).to_be_bytes());
        let id: External<ShortInt> = postcard::from_bytes(&made_up).expect("an id");
        keyring.open(id).is_ok()
    });
    assert!(opened.count() <= 1);
    for bytes in [&[9, 4, 0, 0, 0, 0, 0, 0, 0, 0][..], &[9, 0, 64, 0, 0, 0, 0, 0, 0, 0], &[1, 0]] {
        assert!(postcard::from_bytes::<External<ShortInt>>(bytes).is_err());
    }
}

#[test]
fn a_changed_id_of_an_integer_or_with_a_tag_is_always_refused() {
    let uuid = Uuid::from_u128(0x0192_c1f0_7b1e_7a35_8f00_0000_0000_0001);
    for key in [0, 1, 42, -1, i64::MAX, i64::MIN] {
        assert_eq!(opened_changes::<_, Text>(key), 0);
        assert_eq!(opened_changes::<_, Short>(key), 0);
    }
    for key in [0, 1, 42, (1_i64 << 60) - 1] {
        assert_eq!(opened_changes::<_, UuidForm>(key), 0);
    }
    assert_eq!(opened_changes::<_, Tagged>(Uuid7::try_from(uuid).expect("a UUIDv7")), 0);
    assert_eq!(opened_changes::<_, Tagged>(Ulid::from(uuid)), 0);
    assert_eq!(opened_changes::<_, Tagged>(uuid), 0);
}
