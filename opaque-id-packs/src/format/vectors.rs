use opaque_id_core::{Keyring, MasterSecret};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::*;

#[derive(Deserialize)]
struct Vectors {
    dictionary: String,
    vectors: Vec<Vector>,
    tables: Vec<Table>,
    indexes: Vec<Index>,
}

#[derive(Deserialize)]
pub(crate) struct Index {
    pub(crate) master: String,
    pub(crate) domain: String,
    pub(crate) column: String,
    pub(crate) context: String,
    pub(crate) key: String,
    pub(crate) fingerprints: Vec<(String, String, String)>,
}

#[derive(Deserialize)]
pub(crate) struct Table {
    pub(crate) master: String,
    pub(crate) key_id: u8,
    pub(crate) domain: String,
    pub(crate) table: String,
    pub(crate) context: String,
    pub(crate) settings: String,
    pub(crate) order: Vec<(String, String)>,
    pub(crate) groups: Vec<(String, String)>,
    pub(crate) bodies: Vec<Body>,
}

/// A body of kind 7 is part of another body.
#[derive(Deserialize)]
pub(crate) struct Body {
    pub(crate) kind: u8,
    id: String,
    pub(crate) version: i64,
    /// `None` means the subkey.
    key: Option<String>,
    dictionary: u16,
    nonce: String,
    plaintext: String,
    body: String,
    pub(crate) end: Option<String>,
    pub(crate) rows: Option<Vec<PackedRow>>,
    pub(crate) row: Option<String>,
    pub(crate) group: Option<String>,
    bytes: Option<String>,
}

/// A key, a value, and its group if the table has groups.
#[derive(Deserialize)]
pub(crate) struct PackedRow(
    pub(crate) String,
    pub(crate) String,
    #[serde(default)] pub(crate) Option<String>,
);

impl Body {
    pub(crate) fn id(&self) -> u128 {
        number(&self.id)
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        bytes(&self.body)
    }

    /// Opens the body, and encrypts it to the same bytes again.
    fn open(&self, cipher: &PackCipher, dictionary: &str) -> (Codec, Plaintext) {
        let number = self.dictionary;
        let dictionary = (number != 0).then(|| Dictionary::new(number, bytes(dictionary)));
        let codec = Codec::new(19, dictionary).expect("a dictionary");
        let (place, body) = (self.place(), self.body());
        let plaintext = cipher.open(place, &codec, &body).expect("a body");
        assert_eq!(*plaintext, bytes(&self.plaintext));
        let nonce = bytes(&self.nonce).try_into().expect("12 bytes");
        assert_eq!(cipher.encrypt_with(nonce, place, &codec, &plaintext), body);
        (codec, plaintext)
    }

    fn place(&self) -> Place {
        Place { kind: kind(self.kind), id: self.id(), version: self.version.cast_unsigned() }
    }

    pub(crate) fn is_mark(&self) -> bool {
        self.kind == 6 && self.plaintext.starts_with("00")
    }
}

impl Table {
    pub(crate) fn keyring(&self) -> Keyring {
        keyring(&self.master, self.key_id)
    }

    fn cipher(&self, key: Option<&str>) -> PackCipher {
        let cipher = match key {
            None => PackCipher::for_domain(&self.keyring(), &self.domain, &self.table),
            Some(key) => PackCipher::with_key(
                &Zeroizing::new(bytes(key).try_into().expect("32 bytes")),
                &self.table,
            ),
        };
        cipher.context(&self.context)
    }
}

fn keyring(master: &str, key_id: u8) -> Keyring {
    let master = MasterSecret::from_hex(master).expect("a secret");
    Keyring::builder().sealing(key_id, master).build().expect("a secret")
}

fn read() -> Vectors {
    let file = include_str!("packs-v1.json");
    serde_json::from_str(file).expect("vectors")
}

pub(crate) fn tables() -> Vec<Table> {
    read().tables
}

pub(crate) fn indexes() -> Vec<Index> {
    read().indexes
}

fn kind(number: u8) -> Kind {
    let kinds = [
        Kind::Row,
        Kind::Pack,
        Kind::Dictionary,
        Kind::Settings,
        Kind::Value,
        Kind::Key,
        Kind::Group,
    ];
    *kinds.iter().find(|kind| **kind as u8 == number).expect("a kind")
}

#[derive(Deserialize)]
struct Vector {
    master: String,
    key_id: u8,
    domain: String,
    table: String,
    padding: String,
    #[serde(flatten)]
    body: Body,
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digits).collect()
}

pub(crate) fn number(hex: &str) -> u128 {
    u128::from_str_radix(hex, 16).expect("hex")
}

#[test]
fn vectors_come_out_in_both_directions() {
    let Vectors { dictionary, vectors, .. } = read();
    assert!(vectors.len() >= 30);
    let groups = GroupKeys::default();
    for Vector { master, key_id, domain, table, padding, body: vector } in vectors {
        let cipher = PackCipher::for_domain(&keyring(&master, key_id), &domain, &table);
        let padding = match &*padding {
            "none" => Padding::None,
            "padme" => Padding::Padme,
            step => Padding::Steps(step.parse().expect("a step")),
        };
        let (codec, plaintext) = vector.open(&cipher, &dictionary);
        let place = vector.place();

        let again = if let Some(rows) = vector.rows {
            let pack = Pack::decode(place.id, &plaintext, &codec, &groups).expect("a pack");
            let rows =
                rows.iter().map(|PackedRow(key, value, _)| (number(key), bytes(value).into()));
            let expected =
                Pack { id: place.id, end: vector.end.as_deref().map(number), rows: rows.collect() };
            assert_eq!(pack, expected);
            let again = pack.encode(&codec, padding, &groups).expect("a pack");
            assert_eq!(Pack::decode(place.id, &again, &codec, &groups), Ok(pack));
            again
        } else {
            let row = Row::decode(&plaintext, &codec, &groups).expect("a row");
            let value = vector.row.map(|value| Row::Value(bytes(&value).into()));
            assert_eq!(row, value.unwrap_or(Row::Deleted));
            row.encode(&codec, padding, &groups).expect("a row")
        };
        // This version of zstd may write other frames of about the same length. They have the dictionary's
        // id, and the vectors' frames omit it.
        let most = plaintext.len() / 8 + if vector.dictionary == 0 { 0 } else { 4 };
        assert!(again == plaintext || again.len().abs_diff(plaintext.len()) <= most);
    }
}

#[test]
fn bodies_of_tables_come_out_in_both_directions() {
    let Vectors { dictionary, tables, .. } = read();
    assert!(tables.len() >= 3);
    let mut kinds = std::collections::BTreeSet::new();
    for table in &tables {
        let keys = table.bodies.iter().map(|body| body.key.as_deref());
        let keys: std::collections::BTreeSet<_> = keys.collect();
        for vector in &table.bodies {
            kinds.insert(vector.kind);
            let (place, body) = (vector.place(), vector.body());
            let cipher = table.cipher(vector.key.as_deref());
            let (codec, plaintext) = vector.open(&cipher, &dictionary);
            let opens = |place, body: &[u8]| cipher.open(place, &codec, body).is_ok();
            for bit in 0..8 * body.len() {
                let mut flipped = body.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(place, &flipped), "bit {bit} of kind {}", vector.kind);
            }
            assert!((0..body.len()).all(|len| !opens(place, &body[..len])));
            for other in (1..=7).filter(|other| *other != vector.kind) {
                assert!(!opens(Place { kind: kind(other), ..place }, &body));
            }
            assert!(!opens(Place { id: place.id ^ 1, ..place }, &body));
            assert!(!opens(Place { version: place.version ^ 1, ..place }, &body));
            for other in keys.iter().filter(|other| **other != vector.key.as_deref()) {
                assert!(table.cipher(*other).open(place, &codec, &body).is_err());
            }
            let context = table.cipher(vector.key.as_deref()).context("another");
            assert!(context.open(place, &codec, &body).is_err());
            if let Some(expected) = &vector.bytes {
                let row = Row::decode(&plaintext, &codec, &GroupKeys::default()).expect("a value");
                assert_eq!(row, Row::Value(bytes(expected).into()));
            }
        }
    }
    assert_eq!(kinds, [1, 2, 3, 4, 6, 7].into());
}
