//! Ids in logs, in a separate process because they are revealed for all of it.

use std::thread;

use opaque_id_core::form::FormKind;
use opaque_id_core::key::{AnyKey, KeyKind};
use opaque_id_core::keyring::{RuntimeResource, SharedKeyring, log_id, reveal_in_logs};
use opaque_id_core::{External, IdError, Internal, Keyring, MasterSecret, OpaqueId};

macro_rules! resources {
    ($($name:ident($($options:tt)*);)*) => {$(
        #[derive(OpaqueId)]
        #[opaque_id($($options)*)]
        struct $name;
    )*};
}

resources! {
    Part(prefix = "part", key = i64);
    User(prefix = "user");
    Tagged(prefix = "tagged", form = "tagged");
    Short(prefix = "short", key = i32, form = "short");
    InUuid(prefix = "in_uuid", form = "uuid");
    Mapped(prefix = "mapped", key = i64, form = "mapped");
    AsUuid(prefix = "as_uuid", key = i64, form = "mapped_uuid");
    // A resource with another kind of key in a taken domain, so sealing panics.
    Taken(prefix = "taken", domain = "part", key = Ulid);
}

fn refused<T: OpaqueId>(text: &str) {
    let error = text.parse::<External<T>>().expect_err("no API accepts it");
    assert!(matches!(error, IdError::Malformed { .. }), "{error:?}");
    let says = "it is an id of a log, which no API accepts; open it by `opaque-id open`";
    let with_source = format!(
        "{error} {}",
        std::error::Error::source(&error).map_or(String::new(), ToString::to_string)
    );
    assert!(with_source.contains(says), "{with_source}");
}

fn check<T: OpaqueId>(keyring: &Keyring, id: Internal<T>, key: AnyKey, kind: KeyKind) {
    let shown = format!("{:?}", Some(id));
    let start = format!("Some(Internal<{}>(", T::PREFIX);
    let text = shown.strip_prefix(&start).and_then(|rest| rest.strip_suffix("))")).expect(&shown);
    assert_eq!(log_id(id).to_string(), text);
    let body = text.strip_prefix(&format!("{}_log", T::PREFIX)).expect(text);
    refused::<T>(text);
    refused::<User>(text);
    let of_logs = keyring.for_audience("logs");
    let resource = RuntimeResource::new(&of_logs, T::PREFIX, T::DOMAIN, kind, FormKind::TEXT)
        .expect("a resource");
    let opened = resource.open(&format!("{}_{body}", T::PREFIX)).expect("it was sealed for logs");
    assert_eq!(opened, (key, keyring.sealing_key_id()));
}

fn all(keyring: &Keyring) {
    let uuid = opaque_id_core::key::Uuid7::from_parts(1, 2, 3);
    let bytes = AnyKey::Bytes(uuid.into());
    let expect = "a key of each";
    check::<Part>(keyring, Internal::from_key(42).expect(expect), AnyKey::Int(42), KeyKind::I64);
    check::<User>(keyring, Internal::from_key(uuid).expect(expect), bytes, KeyKind::UUID7);
    check::<Tagged>(keyring, Internal::from_key(uuid).expect(expect), bytes, KeyKind::UUID7);
    check::<Short>(keyring, Internal::from_key(7).expect(expect), AnyKey::Int(7), KeyKind::I32);
    check::<InUuid>(keyring, Internal::from_key(uuid).expect(expect), bytes, KeyKind::UUID7);
    check::<Mapped>(keyring, Internal::from_key(9).expect(expect), AnyKey::Int(9), KeyKind::I64);
    check::<AsUuid>(keyring, Internal::from_key(9).expect(expect), AnyKey::Int(9), KeyKind::I64);
}

#[test]
fn ids_are_revealed_for_logs_alone() -> Result<(), Box<dyn std::error::Error>> {
    let id = Internal::<Part>::from_key(42)?;
    assert_eq!(format!("{id:?}"), "Internal<part>(..)");

    let (old, new) = (MasterSecret::generate(), MasterSecret::generate());
    let build = |builder: opaque_id_core::keyring::KeyringBuilder| builder.build();
    let first = build(Keyring::builder().sealing(0, old.clone()))?;
    let shared = SharedKeyring::new(first.clone());
    reveal_in_logs(&shared);
    all(&first);
    let taken = Internal::<Taken>::generate();
    assert_eq!(format!("{taken:?} {}", log_id(taken)), "Internal<taken>(..) taken(..)");
    // It is not an id of an API, even if it has its own secret.
    assert!(!format!("{id:?}").contains(&first.seal(id).to_string()["part_".len()..]));

    // While secrets are replaced, each thread shows an id that one of them sealed.
    let both = build(Keyring::builder().sealing(0, old.clone()).opening(1, new.clone()))?;
    let second = build(Keyring::builder().sealing(1, new.clone()).opening(0, old.clone()))?;
    let texts = || {
        [&first, &second].map(|keyring| {
            keyring.for_audience("logs").seal(id).to_string().replace("part_", "part_log")
        })
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let expected = texts().map(|text| format!("Internal<part>({text})"));
                for _ in 0..2_000 {
                    let shown = format!("{id:?}");
                    assert!(expected.contains(&shown), "{shown}");
                }
            });
        }
        for keyring in [&both, &second, &both, &second] {
            shared.replace(keyring.clone()).expect("both open");
        }
    });
    all(&second);
    Ok(())
}
