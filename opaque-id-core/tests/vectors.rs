//! The vectors of the wire format, made by an independent program.

use opaque_id_core::__private::Label;
use opaque_id_core::form::{SealedFormOf, Tagged, Text, UuidForm};
use opaque_id_core::hazmat::CycleWalk;
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::RuntimeResource;
use opaque_id_core::{Keyring, MasterSecret};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    master: String,
    key_id: u8,
    prefix: String,
    domain: String,
    kind: String,
    key: String,
    text: String,
    tagged: Option<String>,
    uuid: Option<String>,
    cycle_walk: CycleWalkVector,
}

#[derive(Deserialize)]
struct CycleWalkVector {
    input: String,
    output: String,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../../fixtures/format-v1.json")).expect("valid vectors")
}

fn check<K: Key, F: SealedFormOf<K>>(vector: &Vector, key: K, id: &str) {
    let secret = MasterSecret::from_hex(&vector.master).expect("64 hex digits");
    let keyring = Keyring::builder()
        .sealing(vector.key_id, secret)
        .build()
        .expect("a good secret");
    let resource = RuntimeResource::<K, F>::new(&keyring, &vector.prefix, &vector.domain)
        .expect("a good prefix");
    assert_eq!(resource.seal(key).as_deref(), Ok(id));
    let (opened, key_id) = resource.open(id).expect("a genuine id");
    assert_eq!((opened, key_id.get()), (key, vector.key_id));
}

#[test]
fn every_vector_seals_and_opens() {
    let vectors = vectors();
    assert!(vectors.len() >= 10);
    for vector in &vectors {
        if vector.kind == "int" {
            let key: i64 = vector.key.parse().expect("an integer");
            check::<_, Text>(vector, key, &vector.text);
            assert!(vector.tagged.is_none());
            if let Some(id) = &vector.uuid {
                check::<_, UuidForm>(vector, key, id);
            }
            continue;
        }
        let uuid: Uuid = vector.key.parse().expect("a UUID");
        let tagged = vector
            .tagged
            .as_deref()
            .expect("16-byte keys have a tagged form");
        match (vector.kind.as_str(), &vector.uuid) {
            ("uuid7", id) => {
                let key = Uuid7::try_from(uuid).expect("a UUIDv7");
                check::<_, Text>(vector, key, &vector.text);
                check::<_, Tagged>(vector, key, tagged);
                check::<_, UuidForm>(vector, key, id.as_deref().expect("has a uuid form"));
            }
            ("structured", id) => {
                let key = StructuredKey::try_from(uuid).expect("a structured key");
                check::<_, Text>(vector, key, &vector.text);
                check::<_, Tagged>(vector, key, tagged);
                check::<_, UuidForm>(vector, key, id.as_deref().expect("has a uuid form"));
            }
            ("ulid", None) => {
                check::<_, Text>(vector, Ulid::from(uuid), &vector.text);
                check::<_, Tagged>(vector, Ulid::from(uuid), tagged);
            }
            ("uuid", None) => {
                check::<_, Text>(vector, uuid, &vector.text);
                check::<_, Tagged>(vector, uuid, tagged);
            }
            (kind, _) => panic!("an unknown kind of key, or a form too many: {kind}"),
        }
    }
}

#[test]
fn every_cycle_walk() {
    for vector in vectors() {
        // The vectors walk under the `block` subkey, which only `text` shows from outside: find it by
        // HKDF here, as another implementation would.
        let master = MasterSecret::from_hex(&vector.master)
            .expect("64 hex digits")
            .to_hex();
        let master: Vec<u8> = (0..32)
            .map(|i| u8::from_str_radix(&master[2 * i..2 * i + 2], 16).expect("hex"))
            .collect();
        let mut key = [0; 16];
        hkdf::Hkdf::<sha2::Sha256>::new(Some(b"opaque-id.v1"), &master)
            .expand(format!("block\0{}", vector.domain).as_bytes(), &mut key)
            .expect("short enough");
        let walk = CycleWalk::new(&key);
        let block = |hex: &str| u128::from_str_radix(hex, 16).expect("hex");
        let (input, output) = (
            block(&vector.cycle_walk.input),
            block(&vector.cycle_walk.output),
        );
        assert_eq!(walk.encrypt(input), output);
        assert_eq!(walk.decrypt(output), input);
    }
}

#[test]
fn the_registry_of_labels_is_the_documents() {
    let (_, table) = include_str!("../../docs/FORMAT.md")
        .split_once("| label | domain | length | use |\n")
        .expect("the table of labels");
    let rows = table.lines().skip(1).take_while(|row| row.starts_with('|'));
    let documented: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(documented, Label::ALL.map(Label::as_str));
}
