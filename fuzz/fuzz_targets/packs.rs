//! The plaintexts of rows and packs, and their bodies: never a panic, no more memory than the limit of values
//! allows, and each read value is equal after writing and reading it again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use opaque_id_core::{Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::format::{
    Codec, Dictionary, FormatError, GroupKeys, Kind, MAX_LEN, Pack, PackCipher, Padding, Place, Row,
};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event")]
struct Event;

static CIPHER: LazyLock<PackCipher> = LazyLock::new(|| {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build();
    PackCipher::new::<Event>(&keyring.expect("one secret"), "events")
});

static CODECS: LazyLock<[Codec; 2]> = LazyLock::new(|| {
    let dictionary = Dictionary::new(1, br#"{"actor":"user 1","what":"login"}"#.to_vec());
    [None, Some(dictionary)].map(|dictionary| Codec::new(3, dictionary).expect("any bytes"))
});

/// The limit is the memory for values, their copies, and a few words per byte of input for their keys.
fn bounded<R>(input: &[u8], read: impl FnOnce() -> Result<R, FormatError>) -> Option<R> {
    let mut result = None;
    let info = allocation_counter::measure(|| result = read().ok());
    assert!(info.bytes_max <= (2 * MAX_LEN + 64 * input.len() + 1024) as u64);
    result
}

fuzz_target!(|input: (u128, &[u8])| {
    let (id, bytes) = input;
    let groups = GroupKeys::default();
    for codec in LazyLock::force(&CODECS) {
        if let Some(row) = bounded(bytes, || Row::decode(bytes, codec, &groups)) {
            let again = row.encode(codec, Padding::Padme, &groups).expect("a row");
            assert!(Row::decode(&again, codec, &groups) == Ok(row));
        }
        if let Some(pack) = bounded(bytes, || Pack::decode(id, bytes, codec, &groups)) {
            assert!(pack.rows.is_sorted_by(|(a, _), (b, _)| a < b));
            if let Some((key, value)) = pack.rows.last() {
                let found = Pack::find(id, bytes, codec, &groups, *key);
                assert!(found == Ok((pack.end, Some(value.clone()))));
            }
            let again = pack.encode(codec, Padding::Padme, &groups).expect("a pack");
            assert!(Pack::decode(id, &again, codec, &groups) == Ok(pack));
        }
        let place = Place { kind: Kind::Pack, id, version: 1 };
        assert!(CIPHER.open(place, codec, bytes).is_err());
    }
});
