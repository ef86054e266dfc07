//! A test of the information in lengths when a client adds rows to a pack, like CRIME (Rizzo and Duong,
//! 2012). A value that repeats a part of a neighbor's value is compressed better.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::group::GroupKey;
use super::*;
use crate::dictionary::trained;

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
/// The number of lengths per guess. They move the guess over the steps of the padding.
const PROBES: usize = 128;

/// Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014.
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

/// An attacker cannot have the pack without the victim's row, so this attack is at its best.
struct Trial {
    secret: &'static str,
    rows: [Vec<(u128, Value)>; 2],
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
            let cipher = PackCipher::with_key(&key, "events");
            groups.insert(id, Some(Arc::new(GroupKey { id, version: 1, cipher })));
        }
        let group = |id: u128| are_grouped.then_some(id);
        let mut without = Vec::new();
        for key in 1..=NEIGHBORS {
            let note = random.text(20 + key as usize);
            let bytes = random.row(&format!("user{key}"), &note);
            without.push((2 * key, Value::new(bytes, group(key))));
        }
        let mut with = without.clone();
        let bytes = random.row("alice", secret);
        with.insert(15, (with[15].0 - 1, Value::new(bytes, group(0))));
        let (row, filler) = (random.row("mallory", "@"), random.text(PROBES));
        let codec = Codec::new(3, None).expect("no dictionary");
        Self { secret, rows: [with, without], row, filler, are_grouped, groups, codec }
    }

    fn difference(&self, guess: &str, filler: usize, padding: Padding) -> usize {
        let row = String::from_utf8(self.row.clone()).expect("a text");
        let bytes = row.replace('@', &format!("{guess}{}", &self.filler[..filler])).into_bytes();
        let [with, without] = self.rows.each_ref().map(|rows| {
            let mut rows = rows.clone();
            let group = self.are_grouped.then_some(NEIGHBORS + 1);
            rows.push((1_000, Value::new(bytes.clone(), group)));
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

struct Clinic {
    random: Random,
    people: Vec<(String, &'static str)>,
    codec: Codec,
}

impl Clinic {
    fn new(are_grouped: bool) -> Self {
        let mut random = Random(7);
        let people: Vec<_> =
            (0..400).map(|_| (random.text(14), SECRETS[random.below(SECRETS.len())])).collect();
        let mut rows = Vec::new();
        for (group, (name, illness)) in (0..).zip(&people) {
            for _ in 0..10 {
                let minute = random.below(60);
                let text = format!(
                    "2026-11-{minute:02}: patient {name}, diagnosis {illness}, {}",
                    random.text(30)
                );
                rows.push(Value::new(Vec::from(text), are_grouped.then_some(group)));
            }
        }
        let dictionary = trained("visits", &rows, 32 << 10).expect("a dictionary");
        let codec = Codec::new(3, Some(Dictionary::new(1, dictionary))).expect("a codec");
        Self { random, people, codec }
    }

    fn is_guessed(&mut self, person: usize) -> bool {
        let (name, illness) = self.people[person].clone();
        let (nobody, filler) = (self.random.text(14), self.random.text(PROBES));
        let len = |name: &str, guess: &str, filler: &str| {
            let text = format!("2026-11-30: patient {name}, diagnosis {guess}, {filler}");
            let row = Row::Value(text.into_bytes().into());
            let groups = GroupKeys::default();
            row.encode(&self.codec, Padding::None, &groups).expect("a row").len()
        };
        let score = |guess: &str| -> isize {
            let differences = (0..PROBES).map(|end| {
                let filler = &filler[..end];
                len(&name, guess, filler).cast_signed() - len(&nobody, guess, filler).cast_signed()
            });
            differences.sum()
        };
        let scores = SECRETS.map(score);
        let least = scores.iter().min().expect("a score");
        let first: Vec<_> = SECRETS.iter().zip(&scores).filter(|(_, it)| *it == least).collect();
        first.len() == 1 && *first[0].0 == illness
    }
}

/// Chance is one in ten. `OPAQUE_ID_TEST_TRIALS` sets the number of guesses.
#[test]
fn a_dictionary_says_nothing_of_the_rows_of_other_groups() {
    let trials = std::env::var("OPAQUE_ID_TEST_TRIALS").map_or(Ok(40), |it| it.parse());
    let trials: usize = trials.expect("a number");
    let guessed = |are_grouped, trials: usize| {
        let mut clinic = Clinic::new(are_grouped);
        (0..trials).filter(|person| clinic.is_guessed(*person)).count()
    };
    let (with, without) = (guessed(true, trials), guessed(false, trials));
    println!("guessed {with} of {trials} in groups, {without} of {trials} without");
    let most = trials as f64 * 0.1 + 4.0 * (trials as f64 * 0.09).sqrt();
    assert!((with as f64) < most, "guessed {with} of {trials} in groups");
    assert!(without as f64 > most, "the attack does not work: guessed {without} of {trials}");
}
