//! What it costs to fill views and to write them as JSON, as ratios to the JSON of the same rows with raw keys.
//! `cargo xtask bench views`.

#![allow(missing_docs, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use opaque_id_core::key::Uuid;
use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId, View};
use serde::Serialize;

const ROWS: u64 = 1_000;

#[derive(Clone, Debug, OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
    team_id: Option<Internal<Team>>,
    invited_by: Option<Internal<User>>,
    name: String,
    age: u32,
    active: bool,
}

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
struct Team;

#[derive(Debug, Serialize, View)]
#[view(from = User)]
struct UserView {
    id: External<User>,
    team_id: Option<External<Team>>,
    invited_by: Option<External<User>>,
    name: String,
    age: u32,
    active: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Raw {
    id: Uuid,
    team_id: Option<i64>,
    invited_by: Option<Uuid>,
    name: String,
    age: u32,
    active: bool,
}

fn by_hand(keyring: &Keyring, users: Vec<User>) -> Vec<UserView> {
    users
        .into_iter()
        .map(|user| UserView {
            id: keyring.seal(user.id),
            team_id: user.team_id.map(|id| keyring.seal(id)),
            invited_by: user.invited_by.map(|id| keyring.seal(id)),
            name: user.name,
            age: user.age,
            active: user.active,
        })
        .collect()
}

fn views(c: &mut Criterion) {
    let mut group = c.benchmark_group("view");
    group.throughput(Throughput::Elements(ROWS));
    let keyring = Keyring::builder()
        .sealing(0, MasterSecret::generate())
        .build()
        .expect("a secret");
    let users: Vec<User> = (0..ROWS)
        .map(|number| User {
            id: Internal::generate(),
            team_id: Internal::from_key(number.cast_signed()).ok(),
            invited_by: Some(Internal::generate()),
            name: format!("user {number}"),
            age: 42,
            active: true,
        })
        .collect();
    let raw: Vec<Raw> = users
        .iter()
        .map(|user| Raw {
            id: user.id.expose_key().into(),
            team_id: user.team_id.map(Internal::expose_key),
            invited_by: user.invited_by.map(|id| id.expose_key().into()),
            name: user.name.clone(),
            age: user.age,
            active: user.active,
        })
        .collect();
    // Growing buffers would be measured otherwise.
    let mut json = Vec::with_capacity(1 << 20);

    group.bench_function("filled by hand", |b| {
        b.iter_batched(
            || users.clone(),
            |users| by_hand(&keyring, users),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("filled by the derive", |b| {
        b.iter_batched(
            || users.clone(),
            |users| -> Vec<UserView> { keyring.view(users) },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("JSON of raw keys", |b| {
        b.iter_batched(
            || raw.clone(),
            |raw| {
                json.clear();
                serde_json::to_writer(&mut json, &raw).expect("a buffer");
                black_box(json.len())
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("filled by the derive, and JSON", |b| {
        b.iter_batched(
            || users.clone(),
            |users| {
                let views: Vec<UserView> = keyring.view(users);
                json.clear();
                serde_json::to_writer(&mut json, &views).expect("a buffer");
                black_box(json.len())
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50);
    targets = views
}
criterion_main!(benches);
