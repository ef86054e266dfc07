//! The cost of sealing ids into views and writing them as JSON, relative to the JSON of the same rows with plain UUIDs.
//! `cargo xtask bench views`.

use std::hint::black_box;

use opaque_id_benches::{Bench, Result};
use opaque_id_core::key::Uuid;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
use serde::Serialize;

const ROWS: usize = 1_000;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct Text;

#[derive(OpaqueId)]
#[opaque_id(prefix = "session", form = "tagged")]
struct Tagged;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", form = "uuid")]
struct UuidForm;

#[derive(Clone, Serialize)]
struct Row<I> {
    id: I,
    team_id: Option<I>,
    invited_by: Option<I>,
    name: &'static str,
    email: &'static str,
    created_at: &'static str,
    age: u32,
    logins: u64,
    is_active: bool,
    note: Option<&'static str>,
}

fn row<I>([id, team_id, invited_by]: [I; 3]) -> Row<I> {
    Row {
        id,
        team_id: Some(team_id),
        invited_by: Some(invited_by),
        name: "Ada Lovelace",
        email: "ada@example.com",
        created_at: "2026-11-22T21:38:00Z",
        age: 36,
        logins: 1_843,
        is_active: true,
        note: None,
    }
}

fn main() -> Result {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build()?;
    let keys: Vec<[Uuid; 3]> = (0..ROWS).map(|_| [(); 3].map(|()| Uuid::now_v7())).collect();
    let keys: &[[Uuid; 3]] = keys.leak();
    let mut bench = Bench::new("views");

    let mut write = json();
    bench.baseline("three ids: plain UUIDs", ROWS, move || write(&keys));
    three_ids::<Text>(&mut bench, "text", &keyring, keys);
    three_ids::<Tagged>(&mut bench, "tagged", &keyring, keys);
    three_ids::<UuidForm>(&mut bench, "uuid", &keyring, keys);

    let mut write = json();
    let plain: Vec<Row<Uuid>> = keys.iter().map(|ids| row(*ids)).collect();
    bench.baseline("ten fields: plain UUIDs", ROWS, move || write(&plain));
    ten_fields::<Text>(&mut bench, "text", &keyring, keys);
    ten_fields::<Tagged>(&mut bench, "tagged", &keyring, keys);
    ten_fields::<UuidForm>(&mut bench, "uuid", &keyring, keys);

    bench.run_counting_instructions()
}

/// Growing buffers would distort the result.
fn json<T: Serialize + ?Sized>() -> impl FnMut(&T) {
    let mut buffer = Vec::with_capacity(1 << 20);
    move |value| {
        buffer.clear();
        serde_json::to_writer(&mut buffer, value).expect("a buffer");
        black_box(&buffer);
    }
}

fn internal<T: SealedResource<Internal = Internal<T>, Key = opaque_id_core::key::Uuid7>>(
    keys: &[[Uuid; 3]],
) -> Vec<[Internal<T>; 3]> {
    let id = |key: Uuid| Internal::from_key(key.try_into().expect("a UUIDv7")).expect("a key");
    keys.iter().map(|keys| keys.map(id)).collect()
}

fn three_ids<T>(bench: &mut Bench, form: &str, keyring: &Keyring, keys: &[[Uuid; 3]])
where
    T: SealedResource<Internal = Internal<T>, Key = opaque_id_core::key::Uuid7>,
{
    let (keyring, ids, mut write) = (keyring.clone(), internal::<T>(keys), json());
    bench.case(&format!("three ids: {form}"), ROWS, move || {
        let seal = |ids: &[Internal<T>; 3]| ids.map(|id| keyring.seal(id));
        write(&ids.iter().map(seal).collect::<Vec<_>>());
    });
}

fn ten_fields<T>(bench: &mut Bench, form: &str, keyring: &Keyring, keys: &[[Uuid; 3]])
where
    T: SealedResource<Internal = Internal<T>, Key = opaque_id_core::key::Uuid7>,
{
    let (keyring, ids, mut write) = (keyring.clone(), internal::<T>(keys), json());
    bench.case(&format!("ten fields: {form}"), ROWS, move || {
        let seal = |ids: &[Internal<T>; 3]| row(ids.map(|id| keyring.seal(id)));
        write(&ids.iter().map(seal).collect::<Vec<_>>());
    });
}
