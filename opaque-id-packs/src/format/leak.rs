//! What the server learns from lengths when a client adds rows to a pack: a test in the manner of CRIME (Rizzo and Duong, 2012). A
//! value that repeats a part of a neighbor's is compressed better than one that does not.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::group::GroupKey;
use super::*;

const SECRETS: [&str; 10] = [
    "Hodgkin lymphoma",
    "bipolar disorder",
    "HIV positive",
    "type 2 diabetes",
    "chlamydia",
    "multiple sclerosis",
    "pregnant, week 9",
    "alcohol dependence",
    "hepatitis C",
    "schizophrenia",
];
const TRIALS: usize = 20;
const NEIGHBORS: u128 = 30;
/// How many lengths each guess is tried in, which moves it over the steps of the padding.
const PROBES: usize = 128;

/// A generator of numbers (Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below it")
    }

    fn text(&mut self, len: usize) -> String {
        (0..len).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz012345"[self.below(32)])).collect()
    }

    fn row(&mut self, user: &str, note: &str) -> Vec<u8> {
        let [minute, ip, trace] = [self.next() % 60, self.next() % 256, self.next()];
        format!(
            r#"{{"at":"2026-11-23T11:{minute:02}Z","actor":"{user}","ip":"10.0.7.{ip}","action":"note.create","note":"{note}","trace":"{trace:016x}"}}"#
        )
        .into_bytes()
    }
}

/// A pack of rows with one of the victim's, and one without it, which the attacker cannot have: the attack is at its best.
struct Trial {
    secret: &'static str,
    rows: [Vec<(u128, Value)>; 2],
    /// Of the attacker.
    row: Vec<u8>,
    filler: String,
    are_grouped: bool,
    groups: GroupKeys,
    codec: Codec,
}

impl Trial {
    fn new(random: &mut Random, are_grouped: bool) -> Self {
        let secret = SECRETS[random.below(SECRETS.len())];
        let mut groups = GroupKeys::default();
        for id in 0..=NEIGHBORS + 1 {
            let key = Zeroizing::new([id.to_le_bytes()[0]; 32]);
            let cipher = PackCipher::of_key(&key, "events");
            groups.insert(id, Some(Arc::new(GroupKey { id, version: 1, cipher })));
        }
        let group = |id: u128| are_grouped.then_some(id);
        let mut without = Vec::new();
        for key in 1..=NEIGHBORS {
            let note = random.text(20 + key as usize);
            let bytes = random.row(&format!("user{key}"), &note);
            without.push((2 * key, Value { bytes, group: group(key) }));
        }
        let mut with = without.clone();
        let bytes = random.row("alice", secret);
        with.insert(15, (with[15].0 - 1, Value { bytes, group: group(0) }));
        let (row, filler) = (random.row("mallory", "@"), random.text(PROBES));
        let codec = Codec::new(3, None).expect("no dictionary");
        Self { secret, rows: [with, without], row, filler, are_grouped, groups, codec }
    }

    /// Returns by how much the victim's row makes a pack longer whose last row has a guess.
    fn difference(&self, guess: &str, filler: usize, padding: Padding) -> usize {
        let row = String::from_utf8(self.row.clone()).expect("a text");
        let bytes = row.replace('@', &format!("{guess}{}", &self.filler[..filler])).into_bytes();
        let [with, without] = self.rows.each_ref().map(|rows| {
            let mut rows = rows.clone();
            let group = self.are_grouped.then_some(NEIGHBORS + 1);
            rows.push((1_000, Value { bytes: bytes.clone(), group }));
            let pack = Pack { id: 0, end: None, rows };
            pack.encode(&self.codec, padding, &self.groups).expect("a pack").len()
        });
        with - without
    }

    fn is_guessed(&self) -> bool {
        let score = |guess: &&&str| -> usize {
            (0..PROBES).map(|filler| self.difference(guess, filler, Padding::Steps(64))).sum()
        };
        SECRETS.iter().min_by_key(score) == Some(&self.secret)
    }
}

#[test]
fn lengths_say_nothing_of_the_rows_of_other_groups() {
    let mut random = Random(7);
    let guessed = (0..TRIALS).filter(|_| Trial::new(&mut random, false).is_guessed()).count();
    println!("guessed {guessed} of {TRIALS} without groups");
    assert!(guessed > TRIALS / 2);
    for _ in 0..TRIALS {
        let trial = Trial::new(&mut random, true);
        let difference = |guess| trial.difference(guess, 7, Padding::None);
        let expected = difference("anything else");
        assert!(SECRETS.into_iter().all(|guess| difference(guess) == expected));
    }
}
