//! No `Debug` shows key material: keys, ids, secrets, round keys, the state of generators.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::form::Text;
use opaque_id_core::generator::Generate;
use opaque_id_core::generator::{
    Clock, Int64Generator, PseudoOrderedGenerator, Random, StructuredKeyGenerator, SystemRandom,
    UlidGenerator, Uuid6Generator, Uuid7Generator, Uuid7Method, Uuid8Generator,
};
use opaque_id_core::hazmat::{AesBlock, Arbitrary, CycleWalk, Feistel, Halves};
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::{RuntimeResource, SharedKeyring, UnwrapByCommand};
use opaque_id_core::layout::{DraftUuid7, Int64Layout, Shards, Uuid6, Uuid8Layout};
use opaque_id_core::legacy::Acceptor;
use opaque_id_core::{IdRange, Internal, Keyring, MasterSecret, OpaqueId, Position};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64)]
struct Invoice;

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_645_557_742)
    }
}

/// Fails if what `Debug` prints, plainly or in many lines, has five digits in a row, of any base: settings are
/// shorter, and hidden values print none.
#[track_caller]
fn hides(value: &dyn Debug) {
    for printed in [format!("{value:?}"), format!("{value:#?}")] {
        let run = printed
            .split(|c: char| !c.is_ascii_hexdigit())
            .filter(|run| run.bytes().any(|byte| byte.is_ascii_digit()))
            .find(|run| run.len() >= 5);
        assert_eq!(run, None, "{printed}");
    }
}

#[test]
fn keys_and_ids() {
    let uuid = Uuid::from_u128(0x1ec9_414c_232a_6b00_b3c8_9f6b_dece_d846);
    hides(&Uuid7::generate());
    hides(&Ulid::generate());
    hides(&StructuredKey::generate());
    hides(&Uuid6::try_from(uuid).expect("a UUIDv6"));
    let draft = DraftUuid7::try_from(Uuid7::generate().into_repr());
    hides(&draft.map_err(|_| ()).ok());
    let user = Internal::<User>::generate();
    let invoice = Internal::<Invoice>::from_key(1_234_567).expect("any integer");
    hides(&user);
    hides(&[Some(invoice)]);
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build().expect("a good secret");
    let shown = IdRange::all().up_to(invoice);
    let old = Acceptor::<Invoice>::builder(shown, UNIX_EPOCH..UNIX_EPOCH + Duration::from_secs(9));
    let old = old.integers();
    hides(&old);
    let old = old.build(&keyring).expect("integers do not look like ids");
    hides(&old);
    hides(&old.accept_at(UNIX_EPOCH, "1234567", &keyring));
    hides(&old.accept_at(UNIX_EPOCH, "1234568", &keyring));
    hides(&SharedKeyring::new(keyring));
    hides(&UnwrapByCommand::new("age").args(["--secret", "1234567"]));
    hides(&Position::of_row(user));
    hides(&IdRange::all().starting_after(Some(Position::of_row(user))));
    hides(&Shards::with_bits(4).expect("1 to 16"));
    hides(&Int64Layout::with_node_bits(8).expect("0 to 16"));
    hides(&Halves::<Arbitrary>::new(1_234_567, 7_654_321));
}

#[test]
fn generators() {
    let secret = MasterSecret::generate();
    let hour = Duration::from_secs(3_600);
    let layout = Int64Layout::with_node_bits(8).expect("0 to 16");
    // After a first key, and again after so many of a stopped clock that they stand in line.
    macro_rules! hides_after {
        ($count:expr, $generator:expr) => {{
            let generator = $generator;
            for _ in 0..$count {
                let _ = generator.generate();
                let _ = generator.generate();
                hides(&generator);
            }
        }};
    }
    for count in [1, 2_000] {
        hides_after!(count, UlidGenerator::with(Stopped, SystemRandom));
        hides_after!(count, StructuredKeyGenerator::with(Stopped, SystemRandom));
        hides_after!(count, Uuid6Generator::with(Stopped, SystemRandom));
        hides_after!(
            count,
            Uuid8Generator::with(Uuid8Layout::MILLIS_48, Stopped, SystemRandom)
        );
        hides_after!(
            count,
            Int64Generator::with(layout, 1, Stopped, SystemRandom).expect("a node")
        );
        for method in [
            Uuid7Method::Fraction,
            Uuid7Method::Counter,
            Uuid7Method::MonotonicRandom,
        ] {
            hides_after!(count, Uuid7Generator::with(method, Stopped, SystemRandom));
        }
        hides_after!(
            count,
            PseudoOrderedGenerator::with(&secret, hour, 16, Stopped, SystemRandom)
                .expect("a window")
        );
    }
    let _ = SystemRandom.next_u64();
    hides(&SystemRandom);
}

#[test]
fn secrets_and_what_is_derived_from_them() {
    let key = [0xc0; 16];
    hides(&AesBlock::new(&key));
    hides(&CycleWalk::new(&key));
    hides(&Feistel::<2>::new(&[key; 2]));
    hides(&Feistel::<4>::new(&[key; 4]));
    let secret = MasterSecret::generate();
    hides(&secret);
    let builder = Keyring::builder().sealing(0, secret.clone());
    hides(&builder);
    let keyring = builder.build().expect("a good secret");
    hides(&keyring);
    let ids = [Internal::<User>::generate()];
    hides(&ids.map(|id| keyring.open(keyring.seal(id))));
    hides(&RuntimeResource::<i64, Text>::new(&keyring, "user", "user").expect("a prefix"));
    hides(&Keyring::from_entries(
        "x",
        &format!("0:{}", &secret.to_hex()[1..]),
    ));
    hides(&MasterSecret::from_hex(&format!(
        "{}x",
        &secret.to_hex()[1..]
    )));
}
