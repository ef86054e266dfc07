//! Seal, open, format and parse, compared with an AES-128 block that never leaves the vector registers.
//! `cargo xtask bench codec`.

use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::time::{Duration, SystemTime};

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use cipher::consts::U16;
use cipher::{Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockSizeUser};
use opaque_id_benches::{Bench, Result};
use opaque_id_core::form::TextBuffer;
use opaque_id_core::generator::Generate;
use opaque_id_core::hazmat::{AesBlock, Feistel, Ff1, Halves};
use opaque_id_core::key::{StructuredKey, Uuid7};
use opaque_id_core::page::Listing;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{AnyId, External, Internal, Keyring, MasterSecret, OpaqueId};

/// A run of these steps hides the cost of entering and leaving it.
const STEPS: usize = 1_000;

/// Tokens take longer.
const TOKENS: usize = 50;

fn main() -> Result {
    let mut bench = Bench::new("codec");
    permutations(&mut bench);
    ids(&mut bench);
    any_ids(&mut bench);
    tokens(&mut bench);
    bench.run_counting_instructions()
}

/// `STEPS` AES blocks within the `aes` crate's own backend. Each is the input of the next.
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

/// Each result is the next input.
fn permutations(bench: &mut Bench) {
    let key = [1; 16];
    let aes = aes::Aes128::new(&key.into());
    let registers = aes.clone();
    bench.baseline("AES block in registers", STEPS, move || {
        let mut block = black_box(1);
        registers.encrypt_with_backend(Chain(&mut block));
        black_box(block);
    });
    bench.case("AES block by the aes crate", STEPS, move || {
        chain(1, |block: u128| {
            let mut bytes = block.to_be_bytes().into();
            aes.encrypt_block(&mut bytes);
            u128::from_be_bytes(bytes.into())
        });
    });
    let uniform = Halves::with_uniform_nonce(1, 2).expect("in range");
    let halves = Halves::new(1, 2).expect("in range");
    let block = AesBlock::new(&key);
    directions(bench, "one block", block, 1, AesBlock::encrypt, AesBlock::decrypt);
    let two = Feistel::<2>::new(&[[1; 16], [2; 16]]);
    directions(bench, "two rounds", two, uniform, Feistel::encrypt, Feistel::decrypt);
    let four = Feistel::<4>::new(&[[1; 16], [2; 16], [3; 16], [4; 16]]);
    directions(bench, "four rounds", four, halves, Feistel::encrypt, Feistel::decrypt);
    let six = Feistel::<6>::new(&[[1; 16], [2; 16], [3; 16], [4; 16], [5; 16], [6; 16]]);
    bench.case("six rounds: encrypt", STEPS, move || {
        chain(halves, |x| six.encrypt(x));
    });
    directions(bench, "FF1", Ff1::new(&key), 1, Ff1::encrypt, Ff1::decrypt);
}

fn directions<C: Clone + 'static, T: Copy + 'static>(
    bench: &mut Bench,
    name: &str,
    cipher: C,
    first: T,
    encrypt: impl Fn(&C, T) -> T + 'static,
    decrypt: impl Fn(&C, T) -> T + 'static,
) {
    let same = cipher.clone();
    bench.case(&format!("{name}: encrypt"), STEPS, move || chain(first, |x| encrypt(&cipher, x)));
    bench.case(&format!("{name}: decrypt"), STEPS, move || chain(first, |x| decrypt(&same, x)));
}

fn chain<T>(first: T, step: impl Fn(T) -> T) {
    black_box((0..STEPS).fold(black_box(first), |x, _| step(x)));
}

/// `N` inputs at once depend on the result of the last `N`.
fn at_once<const N: usize, A: Copy, B: Hash>(inputs: &[A], act: impl Fn(A) -> B) {
    let mut waited = 0;
    for batch in 0..STEPS / N {
        let mut last = Bits(0);
        for (i, input) in inputs[batch * N + waited..][..N].iter().enumerate() {
            let result = black_box(act(*input));
            if i == N - 1 {
                result.hash(&mut last);
            }
        }
        // The CPU does not know that the value is zero.
        waited += usize::try_from(last.finish() & black_box(0)).unwrap_or_default();
    }
}

/// Combines all bits of a value without a branch that a CPU could predict.
struct Bits(u64);

impl Hasher for Bits {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 ^= bits;
    }

    fn write_u128(&mut self, bits: u128) {
        self.write(&bits.to_le_bytes());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn ids(bench: &mut Bench) {
    let keyring = || {
        let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
        keyring.build().expect("a good secret")
    };
    // The keyring is one of several, so that nothing depends on a single one.
    let others: [Keyring; 8] = core::array::from_fn(|_| keyring());
    let keyring = &others[3];
    let uuid7 = |i: u64| Uuid7::from_parts(1_700_000_000_000 + i, 0, i.wrapping_mul(0x9e37_79b9));
    let structured = |_: u64| StructuredKey::generate();

    macro_rules! resources {
        ($($name:literal $resource:ident $form:literal $key:ty, $keys:expr;)*) => {$(
            #[derive(OpaqueId)]
            #[opaque_id(prefix = "user", domain = $name, key = $key, form = $form)]
            struct $resource;
            resource::<$resource>(bench, $name, keyring, $keys);
        )*};
    }
    resources! {
        "text Uuid7" TextUuid7 "text" Uuid7, uuid7;
        "text i64" TextI64 "text" i64, u64::cast_signed;
        "short i64" ShortI64 "short" i64, u64::cast_signed;
        "tagged Uuid7" TaggedUuid7 "tagged" Uuid7, uuid7;
        "uuid Uuid7" UuidUuid7 "uuid" Uuid7, uuid7;
        "uuid StructuredKey" UuidStructured "uuid" StructuredKey, structured;
        "uuid i64" UuidI64 "uuid" i64, u64::cast_signed;
    }
}

fn any_ids(bench: &mut Bench) {
    #[derive(OpaqueId)]
    #[opaque_id(prefix = "team")]
    struct Team;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "order", key = i64)]
    struct Order;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "user")]
    struct User;

    #[derive(AnyId, Clone, Copy)]
    enum Node {
        Team(Internal<Team>),
        Order(Internal<Order>),
        User(Internal<User>),
    }

    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build().expect("a good secret");
    let text = |_| keyring.seal(Internal::<User>::generate()).to_string();
    let texts: Vec<_> = (0..STEPS).map(text).collect();
    let (opener, one_of_one) = (keyring.clone(), texts.clone());
    bench.case("one resource: parse and open", STEPS, move || {
        for text in &one_of_one {
            let id: External<User> = text.parse().expect("an id");
            _ = black_box(opener.open(id).expect("genuine"));
        }
    });
    bench.case("any resource: parse and open", STEPS, move || {
        for text in &texts {
            _ = black_box(keyring.open_any::<Node>(text).expect("genuine"));
        }
    });
}

fn tokens(bench: &mut Bench) {
    #[derive(OpaqueId)]
    #[opaque_id(prefix = "user")]
    struct User;

    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring: &Keyring = Box::leak(Box::new(keyring.build().expect("a good secret")));
    let id = Internal::<User>::generate();
    let now = SystemTime::now();
    let grant = keyring.grant(id, "unsubscribe", now + Duration::from_secs(86_400));
    let listing = Listing::<Internal<User>, String>::new("users by name", &("team", 7));
    let listing: &Listing<_, _> = Box::leak(Box::new(listing.expect("JSON")));
    let name = "Ada Lovela".to_owned();
    let position = listing.seal(keyring, &name, id).expect("JSON");
    let mut case = |what: &str, run: Box<dyn Fn()>| {
        bench.case(what, TOKENS, move || (0..TOKENS).for_each(|_| run()));
    };
    case(
        "audience: derive and seal an id",
        Box::new(move || _ = black_box(keyring.for_audience("partner-a").seal(id))),
    );
    case(
        "grant: seal",
        Box::new(move || _ = black_box(keyring.grant(black_box(id), "unsubscribe", now))),
    );
    case(
        "grant: open",
        Box::new(move || {
            let opened = keyring.open_grant::<Internal<User>>(&grant, "unsubscribe", now);
            black_box(opened.expect("genuine"));
        }),
    );
    case(
        "position: seal",
        Box::new(move || _ = black_box(listing.seal(keyring, &name, id).expect("JSON"))),
    );
    case(
        "position: open",
        Box::new(move || _ = black_box(listing.open(keyring, &position).expect("genuine"))),
    );
}

fn resource<T>(bench: &mut Bench, name: &str, keyring: &Keyring, keys: impl Fn(u64) -> T::Key)
where
    T: SealedResource<Internal = Internal<T>>,
{
    let ids = (0..=STEPS as u64).map(|i| Internal::<T>::from_key(keys(i)).expect("a key"));
    let ids: &[Internal<T>] = ids.collect::<Vec<_>>().leak();
    let externals = ids.iter().map(|id| keyring.seal(*id));
    let externals: &[External<T>] = externals.collect::<Vec<_>>().leak();
    let texts = externals.iter().map(External::to_string);
    let texts: &[String] = texts.collect::<Vec<_>>().leak();
    let mut case = |what: &str, run: Box<dyn Fn(&Keyring)>| {
        let keyring = keyring.clone();
        bench.case(&format!("{name}: {what}"), STEPS, move || run(&keyring));
    };
    macro_rules! at_once {
        ($($n:literal)*) => {$(
            case(concat!("seal ", $n, " at once"), Box::new(move |keyring| {
                at_once::<$n, _, _>(ids, |id| keyring.seal(id));
            }));
            case(concat!("open ", $n, " at once"), Box::new(move |keyring| {
                at_once::<$n, _, _>(externals, |id| keyring.open(id).expect("an id of this keyring"));
            }));
        )*};
    }
    at_once!(1 8 64 1000);
    case(
        "format",
        Box::new(move |_| {
            let mut buffer = TextBuffer::new();
            externals[..STEPS].iter().for_each(|id| _ = black_box(id.encode(&mut buffer)));
        }),
    );
    case(
        "parse",
        Box::new(move |_| {
            texts[..STEPS].iter().for_each(|text| _ = black_box(text.parse::<External<T>>()));
        }),
    );
}
