//! Seal, open, format and parse, compared with a bare AES-128 block that never leaves the vector registers.
//!
//! `cargo xtask bench` prints the ratios. Chains (each result is the next input) measure latency; the
//! rest measures what a loop over independent ids costs.

use std::hint::black_box;
use std::time::Duration;

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use cipher::consts::U16;
use cipher::{Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockSizeUser};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opaque_id_core::form::TextBuffer;
use opaque_id_core::hazmat::{AesBlock, CycleWalk, Feistel, Halves};
use opaque_id_core::key::{Repr, Uuid7};
use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};

/// Steps of one measurement, so many that the cost of entering and leaving it vanishes.
const STEPS: u64 = 1_000;

const TAG: u64 = 0x3b98_3beb_3fa0_8574;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "session", form = "tagged")]
struct Session;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", form = "uuid")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64)]
struct Invoice;

/// `STEPS` AES blocks, each the input of the next, within the `aes` crate's own backend.
struct Chain<'a>(&'a mut u128);

impl BlockSizeUser for Chain<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Chain<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut block: Block<Self> = self.0.to_be_bytes().into();
        for _ in 0..STEPS {
            backend.encrypt_block((&mut block).into());
        }
        *self.0 = u128::from_be_bytes(block.into());
    }
}

fn permutations(c: &mut Criterion) {
    let mut group = c.benchmark_group("permutation");
    group.throughput(Throughput::Elements(STEPS));
    let key = [1; 16];
    let aes = aes::Aes128Enc::new(&key.into());
    group.bench_function("plain call of the aes crate", |b| {
        b.iter(|| {
            chain(1, |block: u128| {
                let mut bytes = block.to_be_bytes().into();
                aes.encrypt_block(&mut bytes);
                u128::from_be_bytes(bytes.into())
            })
        });
    });
    let block = AesBlock::new(&key);
    let blocks: Vec<u128> = (0..STEPS)
        .map(|i| block.encrypt(i.cast_signed().to_plaintext(TAG)))
        .collect();
    group.bench_function("one block, independent", |b| {
        b.iter(|| blocks.iter().for_each(|x| _ = black_box(block.encrypt(*x))));
    });
    group.bench_function("one block, decrypt, independent", |b| {
        b.iter(|| blocks.iter().for_each(|x| _ = black_box(block.decrypt(*x))));
    });
    group.bench_function("one block, decrypt and check tag", |b| {
        b.iter(|| {
            chain(1, |x| {
                let plaintext = block.decrypt(x);
                black_box(i64::from_plaintext(plaintext, black_box(TAG)));
                plaintext
            })
        });
    });
    group.bench_function("one block, decrypt and check tag, independent", |b| {
        b.iter(|| {
            blocks.iter().for_each(|x| {
                _ = black_box(i64::from_plaintext(block.decrypt(*x), black_box(TAG)));
            });
        });
    });
    let walk = CycleWalk::new(&key);
    group.bench_function("cycle walk", |b| b.iter(|| chain(1, |x| walk.encrypt(x))));
    // In the middle, next to what is compared with it: a CPU is faster in its first seconds.
    group.bench_function("bare AES block", |b| {
        b.iter(|| {
            let mut block = black_box(1);
            aes.encrypt_with_backend(Chain(&mut block));
            block
        });
    });
    group.bench_function("one block", |b| b.iter(|| chain(1, |x| block.encrypt(x))));
    group.bench_function("one block, decrypt", |b| {
        b.iter(|| chain(1, |x| block.decrypt(x)))
    });
    let two = Feistel::<2>::new(&[[1; 16], [2; 16]]);
    let halves = Halves::with_uniform_nonce(1, 2).expect("in range");
    group.bench_function("two rounds", |b| {
        b.iter(|| chain(halves, |x| two.encrypt(x)))
    });
    group.bench_function("two rounds, decrypt", |b| {
        b.iter(|| chain(halves, |x| two.decrypt(x)))
    });
    let four = Feistel::<4>::new(&[[1; 16], [2; 16], [3; 16], [4; 16]]);
    let halves = Halves::new(1, 2).expect("in range");
    group.bench_function("four rounds", |b| {
        b.iter(|| chain(halves, |x| four.encrypt(x)))
    });
    group.bench_function("four rounds, decrypt", |b| {
        b.iter(|| chain(halves, |x| four.decrypt(x)))
    });
    group.finish();
}

fn chain<T>(first: T, step: impl Fn(T) -> T) -> T {
    (0..STEPS).fold(black_box(first), |x, _| step(x))
}

fn ids(c: &mut Criterion) {
    let mut group = c.benchmark_group("id");
    group.throughput(Throughput::Elements(STEPS));
    let keyring = Keyring::builder()
        .sealing(0, MasterSecret::generate())
        .build()
        .expect("a good secret");
    // A keyring among others: nothing may depend on there being one.
    let _others: Vec<Keyring> = (0..8)
        .map(|_| {
            Keyring::builder()
                .sealing(0, MasterSecret::generate())
                .build()
                .expect("a good secret")
        })
        .collect();
    macro_rules! resource {
        ($name:literal, $resource:ty, $keys:expr) => {
            let internal: Vec<Internal<$resource>> = (0..STEPS)
                .map($keys)
                .map(|key| Internal::from_key(key).expect("a key"))
                .collect();
            let external: Vec<External<$resource>> =
                internal.iter().map(|id| keyring.seal(*id)).collect();
            let texts: Vec<String> = external.iter().map(External::to_string).collect();
            group.bench_function(concat!("seal ", $name), |b| {
                b.iter(|| {
                    internal
                        .iter()
                        .for_each(|id| _ = black_box(keyring.seal(*id)))
                });
            });
            group.bench_function(concat!("open ", $name), |b| {
                b.iter(|| {
                    external
                        .iter()
                        .for_each(|id| _ = black_box(keyring.open(*id)))
                });
            });
            group.bench_function(concat!("seal_all ", $name), |b| {
                b.iter(|| {
                    keyring
                        .seal_all(internal.iter().copied())
                        .for_each(|id| _ = black_box(id))
                });
            });
            group.bench_function(concat!("open_all ", $name), |b| {
                b.iter(|| {
                    keyring
                        .open_all(external.iter().copied())
                        .for_each(|id| _ = black_box(id))
                });
            });
            group.bench_function(concat!("seal and format ", $name), |b| {
                let mut buffer = TextBuffer::new();
                b.iter(|| {
                    internal.iter().for_each(|id| {
                        black_box(keyring.seal(*id).encode(&mut buffer));
                    })
                });
            });
            group.bench_function(concat!("seal_all and format ", $name), |b| {
                let mut buffer = TextBuffer::new();
                b.iter(|| {
                    keyring.seal_all(internal.iter().copied()).for_each(|id| {
                        black_box(id.encode(&mut buffer));
                    })
                });
            });
            group.bench_function(concat!("format ", $name), |b| {
                let mut buffer = TextBuffer::new();
                b.iter(|| {
                    external.iter().for_each(|id| {
                        black_box(id.encode(&mut buffer));
                    })
                });
            });
            group.bench_function(concat!("parse ", $name), |b| {
                b.iter(|| {
                    texts
                        .iter()
                        .for_each(|text| _ = black_box(text.parse::<External<$resource>>()))
                });
            });
        };
    }
    let uuid7 = |i: u64| Uuid7::from_parts(1_700_000_000_000 + i, 0, i.wrapping_mul(0x9e37_79b9));
    resource!("text", User, uuid7);
    resource!("tagged", Session, uuid7);
    resource!("uuid", Order, uuid7);
    resource!("text, integer", Invoice, |i| i.cast_signed());
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500));
    targets = permutations, ids
}
criterion_main!(benches);
