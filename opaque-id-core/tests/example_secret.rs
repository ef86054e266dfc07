//! The secret of the examples is public. With it a keyring opens the examples and nothing else.

use std::time::{Duration, UNIX_EPOCH};

use opaque_id_core::__private::Label;
use opaque_id_core::form::SealedFormOf;
use opaque_id_core::hazmat::{AesBlock, Ff1};
use opaque_id_core::key::{Key, Uuid};
use opaque_id_core::keyring::{KeyId, SharedKeyring};
use opaque_id_core::old_ids::OldIds;
use opaque_id_core::resource::{InternalId, SealedResource};
use opaque_id_core::{
    Cursor, External, IdRange, Internal, Keyring, MasterSecret, OpaqueId, OpenError, Position,
};

use super::tool_resource;

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

/// Seals with the example secret by docs/FORMAT.md, like any reader of that file.
struct Forger {
    block: AesBlock,
    mac: AesBlock,
    cursor: [AesBlock; 2],
    tag: u128,
    short: Ff1,
}

impl Forger {
    fn of<T: OpaqueId>() -> Self {
        fn subkey<const N: usize>(label: Label, domain: &str) -> [u8; N] {
            MasterSecret::example().with_subkey(label, domain, |key| *key)
        }
        let cursor = subkey::<32>(Label::Cursor, T::DOMAIN);
        let (cursor, _) = cursor.as_chunks();
        Self {
            block: AesBlock::new(&subkey(Label::Block, T::DOMAIN)),
            mac: AesBlock::new(&subkey(Label::Mac, T::DOMAIN)),
            cursor: [AesBlock::new(&cursor[0]), AesBlock::new(&cursor[1])],
            tag: u64::from_be_bytes(subkey(Label::Tag, T::DOMAIN)).into(),
            short: Ff1::new(&subkey(Label::Short, T::DOMAIN)),
        }
    }

    /// Returns postcard's bytes of an id or a cursor.
    fn bytes(block: u128, mac: Option<&AesBlock>) -> Vec<u8> {
        let mut bytes = vec![0, MasterSecret::EXAMPLE_KEY_ID];
        bytes.extend(block.to_be_bytes());
        bytes.extend(
            mac.iter().flat_map(|mac| mac.encrypt(block).to_be_bytes().into_iter().take(5)),
        );
        bytes[0] = u8::try_from(bytes.len() - 1).expect("22 at most");
        bytes
    }

    fn text<T: OpaqueId>(&self, plaintext: u128) -> External<T> {
        let bytes = Self::bytes(self.block.encrypt(plaintext), None);
        postcard::from_bytes(&bytes).expect("an id")
    }

    fn short<T: OpaqueId>(&self, key: u128) -> External<T> {
        let key = u64::try_from(key).expect("36 bits");
        let mut bytes = vec![9, MasterSecret::EXAMPLE_KEY_ID];
        bytes.extend(self.short.encrypt(key << 26).to_be_bytes());
        postcard::from_bytes(&bytes).expect("an id")
    }

    fn tagged<T: OpaqueId>(&self, plaintext: u128) -> External<T> {
        let bytes = Self::bytes(self.block.encrypt(plaintext), Some(&self.mac));
        postcard::from_bytes(&bytes).expect("an id")
    }

    fn cursor<T: OpaqueId>(&self, plaintext: u128) -> Cursor<T> {
        let [block, mac] = &self.cursor;
        let bytes = Self::bytes(block.encrypt(plaintext), Some(mac));
        postcard::from_bytes(&bytes).expect("a cursor")
    }
}

/// Tries every way to open an id.
#[track_caller]
fn check<T: SealedResource>(keyring: &Keyring, id: External<T>, opens: bool)
where
    T::Form: SealedFormOf<T::Key>,
{
    assert_eq!(id.key_id().get(), MasterSecret::EXAMPLE_KEY_ID);
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
}

#[track_caller]
fn check_cursor<T: SealedResource>(keyring: &Keyring, cursor: Cursor<T>, opens: bool)
where
    T::Form: SealedFormOf<T::Key>,
{
    let position = keyring.open_cursor(cursor).ok().map(Position::id);
    assert_eq!(position.is_some(), opens, "{cursor}");
    assert!(position.is_none_or(|id| *id.as_repr() == T::Key::EXAMPLE));
    let tool = tool_resource::<T::Key, T::Form>(keyring, T::PREFIX, T::DOMAIN);
    assert_eq!(tool.open_cursor(&cursor.to_string()).is_ok(), opens);
}

fn check_examples<T: SealedResource>(keyring: &Keyring)
where
    T::Form: SealedFormOf<T::Key>,
{
    check(keyring, External::<T>::example(), true);
    check_cursor(keyring, Cursor::<T>::example(), true);
}

/// Forges ids and cursors of the example's key and of another one.
fn forge<T: SealedResource>(
    keyring: &Keyring,
    example: u128,
    other: u128,
    id: impl Fn(&Forger, u128) -> External<T>,
    cursor: impl Fn(u128) -> u128,
) where
    T::Form: SealedFormOf<T::Key>,
{
    let forger = Forger::of::<T>();
    assert_eq!(id(&forger, example), External::example(), "as anybody can");
    check(keyring, id(&forger, example), true);
    check(keyring, id(&forger, other), false);
    assert_eq!(forger.cursor::<T>(cursor(example)), Cursor::example());
    check_cursor(keyring, forger.cursor::<T>(cursor(example)), true);
    check_cursor(keyring, forger.cursor::<T>(cursor(other)), false);
}

#[test]
fn the_example_secret_opens_the_examples_only() {
    for keyring in with_example() {
        let ulid = <TextUlid as OpaqueId>::Key::EXAMPLE.as_u128();
        forge::<TextUlid>(&keyring, ulid, 7, Forger::text, |key| key);
        let structured = <TaggedStructured as OpaqueId>::Key::EXAMPLE.as_u128();
        forge::<TaggedStructured>(&keyring, structured, 7, Forger::tagged, |key| key);
        // The tag follows an integer in an id, and zeros follow it in a cursor.
        let integer = |forger: &Forger, key| key << 64 | forger.tag;
        let zeros = |key| key << 64;
        forge::<TextI64>(&keyring, 1, 2, |f, key| f.text(integer(f, key)), zeros);
        forge::<TextU32>(&keyring, 1, 2, |f, key| f.text(integer(f, key)), zeros);
        forge::<ShortI64>(&keyring, 1, 2, Forger::short, zeros);
        // Without a tag, any UUIDv8 with the key id is sealed.
        fn made_up<T: SealedResource>(keyring: &Keyring)
        where
            T::Form: SealedFormOf<T::Key>,
        {
            check_examples::<T>(keyring);
            let ids = (0_u128..64).filter_map(|n| {
                let bits = n << 122 | n << 90 | n << 56 | n;
                let uuid = Uuid::from_u128(bits & !(0xf << 76 | 3 << 62) | 8 << 76 | 2 << 62);
                uuid.to_string().parse::<External<T>>().ok()
            });
            let of_example = |id: &External<T>| id.key_id().get() == MasterSecret::EXAMPLE_KEY_ID;
            let made_up: Vec<_> = ids.filter(of_example).collect();
            assert!(made_up.len() > 9);
            for id in made_up {
                check(keyring, id, false);
            }
        }
        made_up::<UuidUuid7>(&keyring);
        made_up::<UuidStructured>(&keyring);
        check_examples::<TextUuid7>(&keyring);
        check_examples::<TextUuid>(&keyring);
        check_examples::<UuidU32>(&keyring);

        let key_id = KeyId::new(MasterSecret::EXAMPLE_KEY_ID).expect("3");
        let of_packs = keyring.with_subkey(key_id, Label::Packs, "a", |_: &[u8; 32]| ());
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
