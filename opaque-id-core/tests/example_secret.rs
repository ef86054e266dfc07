//! The secret of the examples is public. With it a keyring opens the examples and nothing else.

use std::time::{Duration, UNIX_EPOCH};

use opaque_id_core::__private::{IdSubkeys, Label, id_from_bits};
use opaque_id_core::key::{AnyKey, Key, Repr};
use opaque_id_core::keyring::{KeyId, RuntimeResource, SharedKeyring};
use opaque_id_core::old_ids::OldIds;
use opaque_id_core::resource::{InternalId, SealedResource};
use opaque_id_core::{
    Cursor, External, IdRange, Internal, Keyring, MasterSecret, OpenError, Position,
};

use super::{kinds, tool_resource};

resources! {
    TextUuid7(prefix = "a_1", domain = "1", key = Uuid7, form = "text");
    TextUlid(prefix = "a_1", domain = "2", key = Ulid, form = "text");
    TextUuid(prefix = "a_1", domain = "3", key = Uuid, form = "text");
    TextI64(prefix = "a_1", domain = "4", key = i64, form = "text");
    TextU32(prefix = "a_1", domain = "5", key = u32, form = "text");
    TaggedStructured(prefix = "a_1", domain = "6", key = StructuredKey, form = "tagged");
    UuidUuid7(prefix = "a_1", domain = "7", key = Uuid7, form = "uuid");
    UuidStructured(prefix = "a_1", domain = "8", key = StructuredKey, form = "uuid");
    UuidU32(prefix = "a_1", domain = "9", key = u32, form = "uuid");
    ShortI64(prefix = "a_1", domain = "10", key = i64, form = "short");
}

fn with_example() -> [Keyring; 2] {
    let secret = MasterSecret::generate();
    let build = || {
        let keyring = Keyring::builder().sealing(0, secret.clone());
        let keyring = keyring.opening(MasterSecret::EXAMPLE_KEY_ID, MasterSecret::example());
        keyring.build().expect("two good secrets")
    };
    let before = Keyring::builder().sealing(0, secret.clone()).build();
    let shared = SharedKeyring::new(before.expect("a good secret"));
    shared.replace(build()).expect("one more secret");
    [build(), shared.current()]
}

/// Returns an id and a cursor of a key, sealed with the example secret as any reader of docs/FORMAT.md can.
fn forged<T: SealedResource>(key: AnyKey) -> (External<T>, Cursor<T>) {
    fn subkey<const N: usize>(label: Label, domain: &str) -> Vec<u8> {
        MasterSecret::example().with_subkey(label, domain, |key: &[u8; N]| key.to_vec())
    }
    let subkeys = [
        subkey::<16>(Label::Block, T::DOMAIN),
        subkey::<96>(Label::Feistel, T::DOMAIN),
        subkey::<8>(Label::Tag, T::DOMAIN),
        subkey::<16>(Label::Mac, T::DOMAIN),
        subkey::<32>(Label::Cursor, T::DOMAIN),
        subkey::<16>(Label::Short, T::DOMAIN),
    ];
    let subkeys: IdSubkeys = subkeys.concat().try_into().expect("184 bytes");
    let (kind, form) = kinds::<T::Key, T::Form>();
    let forger = RuntimeResource::with_subkeys(T::PREFIX, kind, form, |_| Some(&subkeys));
    let forger = forger.expect("a resource");
    let id = forger.seal_with(example_key_id(), key).expect("a key of the form");
    let cursor = forger.seal_cursor(key).expect("a key of the form");
    let cursor: Cursor<T> = cursor.parse().expect("a cursor");
    let mut bytes = postcard::to_stdvec(&cursor).expect("serializes");
    // The cursor has key id 0, in the byte after the length.
    bytes[1] = MasterSecret::EXAMPLE_KEY_ID;
    (id.parse().expect("an id"), postcard::from_bytes(&bytes).expect("a cursor"))
}

fn example_key_id() -> KeyId {
    KeyId::new(MasterSecret::EXAMPLE_KEY_ID).expect("3")
}

/// Tries every way to open the id and the cursor of a key.
fn check<T: SealedResource>(keyring: &Keyring, key: AnyKey, opens: bool) {
    let (id, cursor) = forged::<T>(key);
    assert_eq!(id.key_id(), example_key_id());
    let expected = if opens { Ok(()) } else { Err(OpenError::NotGenuine) };
    let is_example = keyring.open(id).map(|id| assert!(*id.as_repr() == T::Key::EXAMPLE));
    assert_eq!(is_example, expected, "{id}");
    assert_eq!(keyring.renew(id).map(|_| ()), expected);
    let accepted: Result<T::Internal, _> = keyring.accept(id);
    assert_eq!(accepted.is_ok(), opens);

    let text = id.to_string();
    assert_eq!(text.parse::<External<T>>().map(|id| keyring.open(id).is_ok()), Ok(opens));
    let tool = tool_resource::<T::Key, T::Form>(keyring, T::PREFIX, T::DOMAIN);
    assert_eq!(tool.open(&text).is_ok(), opens);
    let period = UNIX_EPOCH..UNIX_EPOCH + Duration::from_secs(9);
    let old = OldIds::<T>::builder(IdRange::all(), period);
    let old = old.form("none", |_| None, |_| String::new()).build(keyring);
    let old = old.expect("no old id looks like a new one");
    assert_eq!(old.open(&text, keyring).is_ok(), opens);

    let position = keyring.open_cursor(cursor).ok().map(Position::id);
    assert_eq!(position.is_some(), opens, "{cursor}");
    assert!(position.is_none_or(|id| *id.as_repr() == T::Key::EXAMPLE));
    assert_eq!(tool.open_cursor(&cursor.to_string()).is_ok(), opens);
}

fn opens_the_example_only<T: SealedResource<Internal = Internal<T>>>(keyring: &Keyring) {
    let example = T::Key::EXAMPLE.to_any();
    let examples = (External::<T>::example(), Cursor::<T>::example());
    assert_eq!(forged::<T>(example), examples, "as anybody can");
    check::<T>(keyring, example, true);
    for bits in [7 << 96 | 7 << 64 | 7, 1 << 80 | 1, u128::MAX >> 1] {
        let other = *id_from_bits::<Internal<T>>(bits).as_repr();
        check::<T>(keyring, other.to_any(), false);
    }
}

#[test]
fn the_example_secret_opens_the_examples_only() {
    for keyring in with_example() {
        opens_the_example_only::<TextUuid7>(&keyring);
        opens_the_example_only::<TextUlid>(&keyring);
        opens_the_example_only::<TextUuid>(&keyring);
        opens_the_example_only::<TextI64>(&keyring);
        opens_the_example_only::<TextU32>(&keyring);
        opens_the_example_only::<TaggedStructured>(&keyring);
        opens_the_example_only::<UuidUuid7>(&keyring);
        opens_the_example_only::<UuidStructured>(&keyring);
        opens_the_example_only::<UuidU32>(&keyring);
        opens_the_example_only::<ShortI64>(&keyring);
        let of_packs = keyring.with_subkey(example_key_id(), Label::Packs, "a", |_: &[u8; 32]| ());
        assert_eq!(of_packs, None);
    }
}

/// An audience of a public secret is public.
#[test]
fn audiences_of_the_example_secret_open_nothing() {
    let name = "partner";
    let secret = MasterSecret::example().with_subkey(Label::Audience, name, |key: &[u8; 32]| *key);
    let anybody = Keyring::builder().sealing(MasterSecret::EXAMPLE_KEY_ID, secret);
    let anybody = anybody.build().expect("not the example itself");
    for keyring in with_example() {
        for key in 2..9 {
            let id = Internal::<TextI64>::from_key(key).expect("any");
            assert!(keyring.for_audience(name).open(anybody.seal(id)).is_err());
        }
    }
}

#[test]
fn the_example_secret_does_not_seal() {
    let keyring = Keyring::builder()
        .sealing(MasterSecret::EXAMPLE_KEY_ID, MasterSecret::example())
        .opening(0, MasterSecret::generate());
    let error = keyring.build().expect_err("everyone knows it").to_string();
    assert_eq!(
        error,
        "invalid secret with key id 3: it is the secret of the documentation's examples, which everyone knows \
         (`opaque-id keygen` generates an entry)"
    );
}
