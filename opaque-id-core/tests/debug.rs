//! No `Debug` shows key material: keys, ids, secrets, round keys, the state of generators.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::__private::ForkGuard;
use opaque_id_core::form::FormKind;
use opaque_id_core::generator::Generate;
use opaque_id_core::generator::{
    Clock, Int64Generator, PseudoOrderedGenerator, Random, StructuredKeyGenerator, SystemRandom,
    UlidGenerator, Uuid6Generator, Uuid7Generator, Uuid7Method, Uuid8Generator,
};
use opaque_id_core::hazmat::{AesBlock, Arbitrary, CycleWalk, Feistel, Halves};
use opaque_id_core::key::{AnyKey, Key, KeyKind, StructuredKey, Ulid, Uuid, Uuid7};
#[cfg(unix)]
use opaque_id_core::keyring::UnwrapByCommand;
use opaque_id_core::keyring::{RuntimeResource, SharedKeyring};
use opaque_id_core::layout::{DraftUuid7, Int64Layout, Shards, Uuid6, Uuid8Layout};
use opaque_id_core::old_ids::OldIds;
use opaque_id_core::{IdRange, Internal, Keyring, MasterSecret, Position};

use super::new_keyring;

resources! {
    User(prefix = "user");
    Invoice(prefix = "invoice", key = i64);
}

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_645_557_742)
    }
}

/// Asserts the exact output of `Debug` on one line and, except for white space and last commas, on many.
#[track_caller]
fn shows(value: &dyn Debug, expected: &str) {
    assert_eq!(format!("{value:?}"), expected);
    let bare = |text: String| {
        let text: String = text.split_whitespace().collect();
        text.replace(",}", "}").replace(",)", ")").replace(",]", "]")
    };
    assert_eq!(bare(format!("{value:#?}")), bare(expected.to_owned()));
}

#[test]
fn keys_and_ids() {
    let uuid = Uuid::from_u128(0x1ec9_414c_232a_6b00_b3c8_9f6b_dece_d846);
    shows(&Uuid7::generate(), "Uuid7(..)");
    shows(&AnyKey::Int(1_234_567), "AnyKey(..)");
    shows(&Ulid::generate(), "Ulid(..)");
    shows(&StructuredKey::generate(), "StructuredKey(..)");
    shows(&Uuid6::try_from(uuid).expect("a UUIDv6"), "Uuid6(..)");
    let draft = DraftUuid7::try_from(Uuid7::generate().into_repr());
    shows(&draft.map_err(|_| ()).ok(), "Some(DraftUuid7(..))");
    let user = Internal::<User>::generate();
    let invoice = Internal::<Invoice>::from_key(1_234_567).expect("any integer");
    shows(&user, "Internal<user>(..)");
    shows(&[Some(invoice)], "[Some(Internal<invoice>(..))]");
    let keyring = new_keyring(0);
    let shown = IdRange::all().up_to(invoice);
    let period = UNIX_EPOCH..UNIX_EPOCH + Duration::from_secs(9);
    let old_ids =
        format!(r#"OldIds {{ resource: "invoice", forms: ["integer"], period: {period:?}, .. }}"#);
    let old = OldIds::<Invoice>::builder(shown, period).integers();
    shows(&old, &format!("OldIdsBuilder {{ old_ids: {old_ids}, .. }}"));
    let old = old.build(&keyring).expect("integers do not look like ids");
    shows(&old, &old_ids);
    shows(
        &old.open_at(UNIX_EPOCH, "1234567", &keyring),
        r#"Ok(OpenedId { id: Internal<invoice>(..), old_form: Some("integer") })"#,
    );
    shows(
        &old.open_at(UNIX_EPOCH, "2000001", &keyring),
        r#"Err(NeverShown { resource: "invoice", old_form: "integer" })"#,
    );
    shows(
        &SharedKeyring::new(keyring),
        "SharedKeyring(RwLock { data: Keyring { sealing: KeyId(0), key_ids: [KeyId(0)], .. }, poisoned: false, .. })",
    );
    #[cfg(unix)]
    shows(
        &UnwrapByCommand::new("age").args(["--secret", "1234567"]),
        r#"UnwrapByCommand { program: "age", .. }"#,
    );
    shows(&Position::from_row(user), "Position(Internal<user>(..))");
    shows(
        &IdRange::all().starting_after(Some(Position::from_row(user))),
        "IdRange { first: Internal<user>(..), last: Internal<user>(..) }",
    );
    shows(&Shards::with_bits(4).expect("1 to 16"), "Shards { bits: 4 }");
    shows(&Int64Layout::with_node_bits(8).expect("0 to 16"), "Int64Layout { node_bits: 8 }");
    shows(&Halves::<Arbitrary>::new(1_234_567, 7_654_321), "Some(Halves(..))");
}

#[test]
fn generators() {
    let secret = MasterSecret::generate();
    let hour = Duration::from_secs(3_600);
    let layout = Int64Layout::with_node_bits(8).expect("0 to 16");
    // Checks the output after a first key, and again after so many of a stopped clock that they queue.
    macro_rules! shows_after {
        ($generator:expr, $expected:expr) => {{
            let generator = $generator;
            let expected = format!("{}, clock: Stopped, random: SystemRandom }}", $expected);
            for _ in 0..2_000 {
                let _ = generator.generate();
                let _ = generator.generate();
                shows(&generator, &expected);
            }
        }};
    }
    let sequencer = |name: &str| format!("{name} {{ sequencer: Sequencer(..)");
    shows_after!(UlidGenerator::with(Stopped, SystemRandom), sequencer("UlidGenerator"));
    let structured = StructuredKeyGenerator::with(Stopped, SystemRandom);
    shows_after!(structured, sequencer("StructuredKeyGenerator"));
    shows_after!(Uuid6Generator::with(Stopped, SystemRandom), sequencer("Uuid6Generator"));
    // The number is the count of forks (threads may count one twice), or the process id if no page is wiped.
    let guard = format!("{:?}", ForkGuard::new());
    let number = guard.strip_prefix("Guard(").and_then(|rest| rest.strip_suffix(")"));
    let number = number.and_then(|number| number.parse().ok());
    assert!(number.is_some_and(|it: u32| it < 64 || it == std::process::id()), "{guard}");
    let eights = Uuid8Layout::MILLIS_48;
    shows_after!(
        Uuid8Generator::with(eights, Stopped, SystemRandom),
        format!("Uuid8Generator {{ layout: {eights:?}, sequencer: Sequencer(..)")
    );
    shows_after!(
        Int64Generator::with(layout, 1, Stopped, SystemRandom).expect("a node"),
        format!(
            "Int64Generator {{ layout: Int64Layout {{ node_bits: 8 }}, node: 1, sequencer: Sequencer(..), guard: {guard}"
        )
    );
    for method in [Uuid7Method::Fraction, Uuid7Method::Counter, Uuid7Method::MonotonicRandom] {
        shows_after!(
            Uuid7Generator::with(method, Stopped, SystemRandom),
            format!("Uuid7Generator {{ method: {method:?}, sequencer: Sequencer(..)")
        );
    }
    shows_after!(
        PseudoOrderedGenerator::with(&secret, hour, 16, Stopped, SystemRandom).expect("a window"),
        "PseudoOrderedGenerator { windows: AesBlock { .. }, window: 3600s, prefix_bits: 16"
    );
    let _ = SystemRandom.next_u64();
    shows(&SystemRandom, "SystemRandom");
}

#[test]
fn secrets_and_what_is_derived_from_them() {
    let key = [0xc0; 16];
    shows(&AesBlock::new(&key), "AesBlock { .. }");
    shows(&CycleWalk::new(&key), "CycleWalk(AesBlock { .. })");
    shows(&Feistel::<2>::new(&[key; 2]), "Feistel<2> { .. }");
    shows(&Feistel::<4>::new(&[key; 4]), "Feistel<4> { .. }");
    let secret = MasterSecret::generate();
    shows(&secret, "MasterSecret(..)");
    let builder = Keyring::builder().sealing(0, secret.clone());
    shows(&builder, "KeyringBuilder { sealing: [(0, MasterSecret(..))], opening: [] }");
    let keyring = builder.build().expect("a good secret");
    shows(&keyring, "Keyring { sealing: KeyId(0), key_ids: [KeyId(0)], .. }");
    let ids = [Internal::<User>::generate()];
    shows(&ids.map(|id| keyring.open(keyring.seal(id))), "[Ok(Internal<user>(..))]");
    shows(
        &RuntimeResource::new(&keyring, "user", "user", KeyKind::I64, FormKind::TEXT)
            .expect("a prefix"),
        r#"RuntimeResource { prefix: "user", .. }"#,
    );
    shows(
        &secret.expose_hex(|hex| Keyring::from_entries("x", &format!("0:{}", &hex[1..]))),
        "Err(invalid entry 1 of x: expected 64 hex digits, found 63 (`opaque-id keygen` generates an entry))",
    );
    shows(
        &secret.expose_hex(|hex| MasterSecret::from_hex(&format!("{}x", &hex[1..]))),
        "Err(Invalid(Secret(NotHex { position: 64 })))",
    );
}
