//! What a server may do to bodies: corrupt, swap, truncate, and announce more than there is.

use std::sync::LazyLock;

use opaque_id_core::{Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::format::{
    Codec, Dictionary, FormatError, GroupKeys, Kind, MAX_LEN, Pack, PackCipher, Padding, Place, Row,
};
use proptest1::prelude::*;

#[derive(OpaqueId)]
#[opaque_id(prefix = "event")]
struct Event;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

static NONE: LazyLock<GroupKeys> = LazyLock::new(GroupKeys::default);

fn keyring(key_id: u8) -> Keyring {
    let keyring = Keyring::builder().sealing(key_id, MasterSecret::generate());
    keyring.build().expect("a good secret")
}

fn place(kind: Kind, id: u128, version: u64) -> Place {
    Place { kind, id, version }
}

fn plain() -> Codec {
    Codec::new(3, None).expect("no dictionary")
}

static WORDS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let samples = (0..2_000).map(|i| format!("{{\"actor\":\"user {i}\",\"what\":\"login\"}}"));
    let samples: Vec<String> = samples.collect();
    zstd::dict::from_samples(&samples, 4_096).expect("enough samples")
});

fn trained(id: u16) -> Codec {
    Codec::new(3, Some(Dictionary::new(id, WORDS.clone()))).expect("a dictionary")
}

fn packs() -> impl Strategy<Value = Pack> {
    let values = prop::collection::vec(any::<u8>(), 0..40);
    let rows = prop::collection::btree_map(any::<u128>(), values, 0..20);
    (rows, any::<u128>(), any::<bool>()).prop_map(|(rows, id, has_end)| {
        let rows: Vec<_> = rows.into_iter().map(|(key, value)| (key, value.into())).collect();
        let first = rows.first().map_or(id, |(key, _)| id.min(*key));
        let last = rows.last().map_or(first, |(key, _)| *key);
        let end = last.checked_add(1).filter(|_| has_end);
        Pack { id: first, end, rows }
    })
}

fn paddings() -> impl Strategy<Value = Padding> {
    prop_oneof![Just(Padding::None), (0..300u16).prop_map(Padding::Steps), Just(Padding::Padme),]
}

proptest! {
    #[test]
    fn packs_come_back(pack in packs(), padding in paddings(), is_trained: bool, other: u128) {
        let codec = if is_trained { trained(1) } else { plain() };
        let plaintext = pack.encode(&codec, padding, &NONE).expect("keys ascend");
        prop_assert_eq!(padding.padded_len(plaintext.len()), plaintext.len());
        let keys = pack.rows.iter().map(|(key, _)| *key).chain([other]);
        for key in keys {
            let row = pack.rows.iter().find(|(found, _)| *found == key);
            let value = row.map(|(_, value)| value.clone());
            prop_assert_eq!(Pack::find(pack.id, &plaintext, &codec, &NONE, key), Ok((pack.end, value)));
        }
        prop_assert_eq!(Pack::decode(pack.id, &plaintext, &codec, &NONE), Ok(pack));
    }

    #[test]
    fn rows_come_back(value in prop::option::of(prop::collection::vec(any::<u8>(), 0..400)), padding in paddings()) {
        let row = value.map_or(Row::Deleted, |value| Row::Value(value.into()));
        let codec = plain();
        let plaintext = row.encode(&codec, padding, &NONE).expect("short");
        prop_assert_eq!(Row::decode(&plaintext, &codec, &NONE), Ok(row));
    }

    /// A plaintext is authentic, but a program with the secret may be wrong.
    #[test]
    fn no_plaintext_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), id: u128) {
        let codec = plain();
        let _ = Row::decode(&bytes, &codec, &NONE);
        if let Ok(pack) = Pack::decode(id, &bytes, &codec, &NONE) {
            prop_assert!(pack.rows.is_sorted_by(|(a, _), (b, _)| a < b));
            prop_assert!(pack.rows.iter().all(|(key, _)| *key >= id && pack.end.is_none_or(|end| *key < end)));
        }
    }

    #[test]
    fn an_edited_plaintext_is_another_pack_or_an_error(pack in packs(), at: prop::sample::Index, bit in 0..8u8) {
        let codec = plain();
        let mut plaintext = pack.encode(&codec, Padding::None, &NONE).expect("keys ascend");
        let at = at.index(plaintext.len());
        plaintext[at] ^= 1 << bit;
        let _ = Pack::decode(pack.id, &plaintext, &codec, &NONE);
        let _ = Pack::decode(pack.id, &plaintext[..at], &codec, &NONE);
    }
}

#[test]
fn a_body_opens_at_its_place_only() {
    let (ours, theirs) = (keyring(0), keyring(0));
    let codec = plain();
    let events = PackCipher::new::<Event>(&ours, "events");
    let body = events.encrypt(place(Kind::Row, 7, 1), &codec, b"Ada");
    let open = |cipher: &PackCipher, place| {
        let opened = cipher.open(place, &codec, &body);
        opened.map(|plaintext| plaintext.to_vec())
    };
    let here = place(Kind::Row, 7, 1);
    assert_eq!(open(&events, here), Ok(b"Ada".to_vec()));
    for other in [place(Kind::Pack, 7, 1), place(Kind::Row, 8, 1), place(Kind::Row, 7, 2)] {
        assert_eq!(open(&events, other), Err(FormatError::NotGenuine));
    }
    for other in [
        PackCipher::new::<Event>(&ours, "event"),
        PackCipher::new::<Order>(&ours, "events"),
        PackCipher::new::<Event>(&theirs, "events"),
    ] {
        assert_eq!(open(&other, here), Err(FormatError::NotGenuine));
    }
    let other = open(&PackCipher::new::<Event>(&keyring(1), "events"), here);
    assert!(matches!(other, Err(FormatError::UnknownKeyId { key_id, .. }) if key_id.get() == 0));
}

#[test]
fn a_body_names_its_dictionary_and_its_format() {
    use FormatError::{Dictionary, Truncated, Version};
    let cipher = PackCipher::new::<Event>(&keyring(0), "events");
    let place = place(Kind::Row, 7, 1);
    let mut body = cipher.encrypt(place, &trained(258), b"Ada");
    assert_eq!(PackCipher::dictionary_id(&body), Ok(258));
    let found = cipher.open(place, &trained(1), &body).err();
    assert!(matches!(found, Some(Dictionary { expected: 1, found: 258, .. })));
    body[0] = 2 << 2;
    let found = PackCipher::dictionary_id(&body);
    assert!(matches!(found, Err(Version { found: 2, .. })));
    let found = PackCipher::dictionary_id(&[4]);
    assert!(matches!(found, Err(Truncated { found: 1, .. })));
}

#[test]
fn a_bomb_is_refused_before_it_is_decompressed() {
    let codec = plain();
    let frame = |len: usize| {
        let frame = zstd::bulk::compress(&vec![0; len], 3).expect("zeros");
        let mut plaintext = vec![2];
        let mut rest = frame.len() - 4;
        while rest >= 0x80 {
            plaintext.push(u8::try_from(rest & 0x7f).expect("7 bits") | 0x80);
            rest >>= 7;
        }
        plaintext.push(u8::try_from(rest).expect("7 bits"));
        plaintext.extend(&frame[4..]);
        plaintext
    };
    assert!(Row::decode(&frame(MAX_LEN), &codec, &NONE).is_ok());
    let found = Row::decode(&frame(MAX_LEN + 1), &codec, &NONE);
    assert!(matches!(found, Err(FormatError::TooLong { max: MAX_LEN, .. })));
    let long = Row::Value(vec![0; MAX_LEN + 1].into());
    assert!(long.encode(&codec, Padding::None, &NONE).is_err());
}

#[test]
fn a_pack_of_many_frames_comes_back_and_is_no_bomb() {
    let codec = plain();
    let rows: Vec<(u128, _)> =
        (0..40).map(|key| (key, vec![u8::try_from(key).expect("small"); 9_000].into())).collect();
    let pack = Pack { id: 0, end: None, rows };
    let plaintext = pack.encode(&codec, Padding::None, &NONE).expect("keys ascend");
    for (key, value) in &pack.rows {
        let found = Pack::find(0, &plaintext, &codec, &NONE, *key);
        assert_eq!(found, Ok((None, Some(value.clone()))));
    }
    assert_eq!(Pack::decode(0, &plaintext, &codec, &NONE), Ok(pack));
    // Frames that are as long as all values may be, of rows that are shorter.
    let frame = &zstd::bulk::compress(&vec![0; MAX_LEN], 3).expect("zeros")[4..];
    let len = u8::try_from(frame.len() & 0x7f).expect("7 bits") | 0x80;
    let frame = [&[2, len, u8::try_from(frame.len() >> 7).expect("short")], frame].concat();
    let bomb = [&[2, 2, 0, 0, 1, 1, 2, 0, 1][..], &frame, &frame].concat();
    let found = Pack::decode(0, &bomb, &codec, &NONE);
    assert!(matches!(found, Err(FormatError::TooLong { max: 1, .. })), "{found:?}");
}

#[test]
fn one_codec_serves_threads_at_the_same_time() {
    let codec = trained(1);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let codec = &codec;
            scope.spawn(move || {
                for i in 0..200 {
                    let value = format!("{{\"actor\":\"user {thread}\",\"what\":\"login {i}\"}}");
                    let row = Row::Value(value.into_bytes().into());
                    let plaintext = row.encode(codec, Padding::None, &NONE).expect("short");
                    assert_eq!(Row::decode(&plaintext, codec, &NONE), Ok(row));
                    // A failure leaves nothing behind for the next value.
                    assert!(Row::decode(&plaintext[..plaintext.len() - 1], codec, &NONE).is_err());
                }
            });
        }
    });
}

#[test]
fn a_dictionary_that_zstd_refuses_is_an_error_at_once() {
    let truncated = WORDS[..40].to_vec();
    let refused = Codec::new(3, Some(Dictionary::new(1, truncated)));
    assert!(matches!(refused, Err(FormatError::Zstd(_))), "{refused:?}");
}

#[test]
fn keys_must_ascend_from_the_id_to_the_end() {
    let codec = plain();
    let encode = |id, end, keys: &[u128]| {
        let rows = keys.iter().map(|key| (*key, Vec::new().into())).collect();
        Pack { id, end, rows }.encode(&codec, Padding::None, &NONE).is_ok()
    };
    assert!(encode(5, Some(7), &[5, 6]));
    assert!(encode(0, None, &[0, u128::MAX]));
    assert!(!encode(6, Some(7), &[5]));
    assert!(!encode(5, Some(7), &[5, 7]));
    assert!(!encode(5, None, &[6, 6]));
    assert!(!encode(5, None, &[6, 5]));
}
