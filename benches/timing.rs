//! A test whether times depend on secret data, in the manner of dudect (Reparaz, Balasch and Verbauwhede,
//! *Dude, is my code constant time?*, 2017): `cargo xtask bench timing`. Batches of one fixed input and of
//! random ones are measured in random order, and Welch's t-test compares their times. Nothing is asserted. By
//! the `aes` crate alone: `cargo bench -p opaque-id-benches --features opaque-id-core/portable --bench
//! timing`.

use std::hint::black_box;
use std::time::Instant;

use opaque_id_benches::is_smoke;
use opaque_id_core::generator::{Random, SystemRandom};
use opaque_id_core::hazmat::{AesBlock, CycleWalk};
use opaque_id_core::key::{Uuid, Uuid7};
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};

/// The clock is too coarse for one input.
const BATCH: usize = 32;

/// The percentages of all batches, fastest first, that are compared, because interrupts lengthen batches of
/// both classes.
const SHARES: [usize; 4] = [100, 99, 90, 50];

macro_rules! resources {
    ($($resource:ident $form:literal $key:ty;)*) => {$(
        #[derive(OpaqueId)]
        #[opaque_id(prefix = "user", domain = $form, key = $key, form = $form)]
        struct $resource;
    )*};
}
resources! {
    Text "text" i64;
    Short "short" i64;
    Tagged "tagged" Uuid;
    UuidForm "uuid" Uuid7;
}

fn main() {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build().expect("a good secret");
    let aes = AesBlock::new(&random().to_ne_bytes());
    let walk = CycleWalk::new(&random().to_ne_bytes());

    print!("{:36}", "Welch's t of the fastest");
    SHARES.iter().for_each(|share| print!("{share:>7} %"));
    println!("\n{:36} beyond ±4.5 the times differ", "");
    compare("cycle walk, which takes its time", random(), random, |block| walk.encrypt(block));
    let key = || random().to_ne_bytes();
    compare("AES: expand a key", key(), key, |key| AesBlock::new(&key).encrypt(1));
    compare("AES: encrypt", random(), random, |block| aes.encrypt(block));
    compare("AES: decrypt", random(), random, |block| aes.decrypt(block));
    let int = || SystemRandom.next_u64().cast_signed();
    resource::<Text>(&keyring, "text, i64", int, Some(25));
    let small = || (SystemRandom.next_u64() >> 28).cast_signed();
    resource::<Short>(&keyring, "short, i64", small, Some(12));
    resource::<Tagged>(&keyring, "tagged, Uuid", || Uuid::from_u128(random()), Some(8));
    let uuid7 = || Uuid7::from_parts(SystemRandom.next_u64() >> 18, 0, SystemRandom.next_u64());
    resource::<UuidForm>(&keyring, "uuid, Uuid7", uuid7, None);
}

fn random() -> u128 {
    u128::from(SystemRandom.next_u64()) << 64 | u128::from(SystemRandom.next_u64())
}

/// If the last digits are checked (a tag, or a block that decrypts to one), ids are refused as well: with a
/// wrong last digit, and with this number of random digits.
fn resource<T>(keyring: &Keyring, name: &str, key: impl Fn() -> T::Key, checked: Option<usize>)
where
    T: SealedResource<Internal = Internal<T>>,
{
    let id = || Internal::<T>::from_key(key()).expect("a key of the form");
    let genuine = || keyring.seal(id());
    compare(&format!("{name}: seal"), id(), id, |id| keyring.seal(id));
    compare(&format!("{name}: open"), genuine(), genuine, |id| keyring.open(id).is_ok());
    let Some(checked) = checked else { return };
    let text = genuine().to_string();
    let ending = |digits: &[u8]| -> External<T> {
        let start = &text[..text.len() - digits.len()];
        format!("{start}{}", digits.escape_ascii()).parse().expect("an id")
    };
    let random = || {
        let bits = random();
        let digit = |i| b"0123456789abcdefghjkmnpqrstvwxyz"[(bits >> (5 * i)) as usize % 32];
        ending(&(0..checked).map(digit).collect::<Vec<_>>())
    };
    let last = if text.ends_with('0') { b"1" } else { b"0" };
    compare(&format!("{name}: refuse"), ending(last), random, |id| keyring.open(id).is_ok());
}

fn compare<I: Copy, O>(name: &str, fixed: I, random: impl Fn() -> I, act: impl Fn(I) -> O) {
    let rounds = if is_smoke() { 1 } else { 1_000 };
    let mut times: Vec<(f64, usize)> = Vec::new();
    for _ in 0..rounds {
        // Inputs are created long before they are measured, because the CPU's state depends on their
        // creation.
        let batch = |_| {
            let class = (SystemRandom.next_u64() & 1) as usize;
            (class, std::array::from_fn(|_| [fixed, random()][class]))
        };
        let batches: Vec<(usize, [I; BATCH])> = (0..1_000).map(batch).collect();
        for (class, inputs) in black_box(&batches) {
            let start = Instant::now();
            for input in inputs {
                black_box(act(*input));
            }
            times.push((start.elapsed().as_secs_f64(), *class));
        }
    }
    times.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    print!("{name:36}");
    for share in SHARES {
        let fastest = &times[..times.len() * share / 100];
        let class =
            |class| fastest.iter().filter(move |(_, it)| *it == class).map(|(time, _)| *time);
        let [(fixed, fixed_error), (random, random_error)] =
            [0, 1].map(|it| mean_and_error(class(it)));
        print!("{:>9.1}", (fixed - random) / (fixed_error + random_error).sqrt());
    }
    println!();
}

fn mean_and_error(sample: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = sample.clone().count() as f64;
    let mean = sample.clone().sum::<f64>() / count;
    let variance = sample.map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance / count)
}
