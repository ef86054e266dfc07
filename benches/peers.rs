//! From a stored key to a text and back, by this library and by its alternatives. `cargo xtask bench peers`.

use std::fmt::Debug;
use std::hint::black_box;

use cryptid_rs::{Codec, Config};
use fpe::ff1::{BinaryNumeralString, FF1};
use opaque_id_benches::{Bench, Result};
use opaque_id_core::form::TextBuffer;
use opaque_id_core::key::Uuid;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};
use squint::aes::cipher::KeyInit;
use type_safe_id::{StaticType, TypeSafeId};
use ulid::Ulid;
use uuid47::{Uuid128, UuidV47Key};

const KEYS: usize = 100;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64)]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", form = "uuid")]
struct Team;

#[derive(Default)]
struct TypedUser;

impl StaticType for TypedUser {
    const TYPE: &'static str = "user";
}

fn main() -> Result {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build()?;
    let mut bench = Bench::new("peers");
    compare(&mut bench, integers(&keyring));
    compare(&mut bench, uuids(&keyring));
    bench.run_counting_instructions()
}

struct Peer {
    write: (String, Box<dyn FnMut()>),
    read: (String, Box<dyn FnMut()>),
}

fn compare(bench: &mut Bench, peers: Vec<Peer>) {
    let (writes, reads): (Vec<_>, Vec<_>) =
        peers.into_iter().map(|peer| (peer.write, peer.read)).unzip();
    for direction in [writes, reads] {
        for (i, (name, run)) in direction.into_iter().enumerate() {
            match i {
                0 => bench.baseline(&name, KEYS, run),
                _ => bench.case(&name, KEYS, run),
            }
        }
    }
}

/// # Panics
/// If a text is not read as its key.
fn peer<K: Copy + Debug + PartialEq + 'static>(
    name: &str,
    keys: &'static [K],
    write: impl Fn(K) -> String + 'static,
    read: impl Fn(&str) -> K + 'static,
) -> Peer {
    let texts: Vec<String> = keys.iter().map(|key| write(*key)).collect();
    let again: Vec<K> = texts.iter().map(|text| read(text)).collect();
    assert_eq!(again, keys, "{name}");
    let write = move || keys.iter().for_each(|key| _ = black_box(write(*key)));
    let read = move || texts.iter().for_each(|text| _ = black_box(read(text)));
    Peer {
        write: (format!("{name}: write"), Box::new(write)),
        read: (format!("{name}: read"), Box::new(read)),
    }
}

/// A list is sealed and then written without allocating, like a view and its JSON.
fn ours<T: SealedResource<Internal = Internal<T>>>(
    name: &str,
    keyring: &Keyring,
    ids: Vec<Internal<T>>,
) -> Peer {
    let ids: &[Internal<T>] = ids.leak();
    let (sealing, writing, opening) = (keyring.clone(), keyring.clone(), keyring.clone());
    let mut externals: Vec<External<T>> = Vec::with_capacity(KEYS);
    let write = move || {
        externals.clear();
        externals.extend(ids.iter().map(|id| sealing.seal(*id)));
        let mut buffer = TextBuffer::new();
        black_box(&externals).iter().for_each(|id| _ = black_box(id.encode(&mut buffer)));
    };
    let read = move |text: &str| {
        let external: External<T> = text.parse().expect("an id");
        opening.open(external).expect("an id of this keyring")
    };
    let peer = peer(name, ids, move |id| writing.seal(id).to_string(), read);
    let write = (peer.write.0, Box::new(write) as _);
    Peer { write, ..peer }
}

fn integers(keyring: &Keyring) -> Vec<Peer> {
    let keys: Vec<u64> =
        (0..KEYS as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).collect();
    let keys: &[u64] = keys.leak();
    let id = |key: &u64| Internal::<Order>::from_key(key.cast_signed()).expect("a key");
    let secret = [7; 32];
    let short = *secret.first_chunk::<16>().expect("16 of 32 bytes");

    let cipher = squint::aes::Aes128::new(&short.into());
    let (squinting, cipher) = (cipher.clone(), cipher);
    let harsh = || harsh::Harsh::builder().salt(secret).build().expect("a salt");
    let (hashing, harsh) = (harsh(), harsh());
    let (sqid, sqids) = (sqids::Sqids::default(), sqids::Sqids::default());
    let ff1 = || FF1::<aes::Aes128>::new(&short, 2).expect("a radix");
    let (encrypting, decrypting) = (ff1(), ff1());
    let codec = || Codec::new("order", &Config::new(&secret));
    let (encoding, decoding) = (codec(), codec());
    vec![
        ours("opaque-id (text form of i64)", keyring, keys.iter().map(id).collect()),
        peer(
            "squint",
            keys,
            move |key| squint::Id::<0>::new(key.cast_signed(), &squinting).to_string(),
            move |text| {
                let id: squint::Id<0> = text.parse().expect("an id");
                id.to_raw(&cipher).expect("a tag").cast_unsigned()
            },
        ),
        peer(
            "harsh",
            keys,
            move |key| hashing.encode(&[key]),
            move |text| harsh.decode(text).expect("an id")[0],
        ),
        peer(
            "sqids",
            keys,
            move |key| sqid.encode(&[key]).expect("an id"),
            move |text| sqids.decode(text)[0],
        ),
        peer(
            "fpe (FF1 of 128 bits)",
            keys,
            move |key| {
                let block = BinaryNumeralString::from_bytes_le(&u128::from(key).to_be_bytes());
                let block = encrypting.encrypt(&[], &block).expect("128 bits").to_bytes_le();
                Ulid::from_bytes(block.try_into().expect("16 bytes")).to_string()
            },
            move |text| {
                let block = Ulid::from_string(text).expect("a ULID").to_bytes();
                let block = BinaryNumeralString::from_bytes_le(&block);
                let block = decrypting.decrypt(&[], &block).expect("128 bits").to_bytes_le();
                u64::from_be_bytes(*block.last_chunk().expect("16 bytes"))
            },
        ),
        peer(
            "cryptid-rs",
            keys,
            move |key| encoding.encode(key),
            move |text| decoding.decode(text).expect("an id"),
        ),
    ]
}

fn uuids(keyring: &Keyring) -> Vec<Peer> {
    let keys: Vec<Uuid> = (0..KEYS).map(|_| Uuid::now_v7()).collect();
    let keys: &[Uuid] = keys.leak();
    let facade = UuidV47Key::new(7, 11);
    let its_own = |key: &Uuid| Uuid128::from_bytes(key.into_bytes()).expect("a UUID");
    let its_own: Vec<Uuid128> = keys.iter().map(its_own).collect();
    vec![
        ours("opaque-id (text form of Uuid7)", keyring, ids::<User>(keys)),
        ours("opaque-id (uuid form of Uuid7)", keyring, ids::<Team>(keys)),
        peer(
            "uuid47 (hides only the time)",
            its_own.leak(),
            move |key| key.encode_as_v4facade(&facade).to_string(),
            move |text| {
                let id: Uuid128 = text.parse().expect("a UUID");
                id.decode_from_v4facade(&facade)
            },
        ),
        peer(
            "type-safe-id (hides nothing)",
            keys,
            |key| TypeSafeId::<TypedUser>::from_uuid(key).to_string(),
            |text| text.parse::<TypeSafeId<TypedUser>>().expect("an id").uuid(),
        ),
        peer(
            "uuid (hides nothing)",
            keys,
            |key| key.to_string(),
            |text| text.parse().expect("a UUID"),
        ),
    ]
}

fn ids<T: SealedResource<Internal = Internal<T>, Key = opaque_id_core::key::Uuid7>>(
    keys: &[Uuid],
) -> Vec<Internal<T>> {
    let id = |key: &Uuid| Internal::from_key((*key).try_into().expect("a UUIDv7"));
    keys.iter().map(|key| id(key).expect("a key")).collect()
}
