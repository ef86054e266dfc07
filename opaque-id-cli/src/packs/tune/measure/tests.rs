//! The recommendations for rows that are known.

use super::*;

/// Returns numbers that look random and are the same in each run.
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let next = |number: &u64| {
        let mut number = *number;
        number ^= number << 13;
        number ^= number >> 7;
        Some(number ^ number << 17)
    };
    std::iter::successors(Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), next).skip(8)
}

fn noise_bytes(seed: u64, len: usize) -> Vec<u8> {
    noise(seed).flat_map(u64::to_le_bytes).take(len).collect()
}

fn keyed(values: impl Iterator<Item = Vec<u8>>) -> Vec<(u128, Vec<u8>)> {
    (0..).zip(values).collect()
}

fn measured(rows: &[(u128, Vec<u8>)]) -> Report {
    let mut last = (0, 1);
    let report = tune(rows, |done, all| {
        assert!((last.0..=all).contains(&done));
        last = (done, all);
    });
    assert_eq!(last.0, last.1);
    report.expect("a sample")
}

fn find(report: &Report, layout: Layout, dictionary: usize) -> &Measurement {
    let mut found = report.measurements.iter();
    let found = found.find(|m| (m.layout, m.level, m.dictionary) == (layout, 3, dictionary));
    found.expect("measured")
}

#[test]
fn packs_pay_for_events_and_not_for_noise() {
    let event = |i: u64| {
        let random: Vec<_> = noise(i).take(3).collect();
        format!(
            r#"{{"actor":"user {}","what":"login","from":"10.0.{}.{}","session":"{:x}"}}"#,
            random[0] % 900,
            random[1] % 256,
            random[1] % 199,
            random[2]
        )
    };
    let events = measured(&keyed((0..4_000).map(|i| event(i).into_bytes())));
    assert!(events.recommendation.packs_pay);
    let printed = events.recommendation.to_string();
    assert!(printed.starts_with("Packs of up to "), "{printed}");

    let noise = measured(&keyed((0..200).map(|i| noise_bytes(i, 2_000))));
    assert!(!noise.recommendation.packs_pay);
    let printed = noise.recommendation.to_string();
    let column = "Packs do not pay for these rows: keep them in an encrypted column.";
    assert!(printed.starts_with(column), "{printed}");
    let column = noise.recommendation.column;
    assert_eq!((column.layout, column.rows_per_body()), (Layout::Rows, 1.0));
}

/// The rows have common phrases and noise. Packs are also compared with rows that have a dictionary.
#[test]
fn packs_do_not_pay_where_a_dictionary_is_enough() {
    let row = |i| {
        let phrases = noise(i).take(4).flat_map(|random| noise_bytes(random % 40, 300));
        phrases.chain(noise_bytes(i + 1_000, 600)).collect()
    };
    let report = measured(&keyed((0..600).map(row)));
    let ratio = |dictionary| find(&report, Layout::Rows, dictionary).ratio();
    assert!(ratio(16 << 10) > 2.0 * ratio(0));
    assert!(!report.recommendation.packs_pay);
}

/// The measured rows repeat each other, but not the training rows.
#[test]
fn dictionaries_are_measured_on_rows_that_did_not_train_them() {
    let training = (0..500).map(|i| noise_bytes(i, 400));
    let rest = (0..2_000).map(|i| noise_bytes(1_000 + i % 20, 400));
    let report = measured(&keyed(training.chain(rest)));
    let ratio = |dictionary| find(&report, Layout::Rows, dictionary).ratio();
    assert!((ratio(16 << 10) - ratio(0)).abs() < 0.01);
}

#[test]
fn a_sample_without_rows_is_an_error() {
    for count in [0, 1, MIN_ROWS - 1] {
        let rows = keyed((0..count).map(|_| b"Ada".to_vec()));
        let empty = keyed((0..10_000).map(|_| Vec::new()));
        let all = keyed(rows.into_iter().chain(empty).map(|(_, value)| value));
        let refused = tune(&all, |_, _| ()).expect_err("too few rows");
        assert!(refused.contains(&format!("found {count}:")), "{refused}");
    }
    let descending: Vec<_> = (0..100).map(|i| (100 - i, b"Ada".to_vec())).collect();
    assert!(tune(&descending, |_, _| ()).is_err());
}

#[test]
fn a_pack_is_as_large_as_it_may_be_and_a_larger_value_is_alone() {
    let codec = Codec::new(3, None).expect("no dictionary");
    // Compressible rows are between others, so the previous pack predicts little.
    let value = |i: u32| match i {
        i if i % 90 == 17 => {
            (0..9_000_u32).flat_map(|j| (i + j).wrapping_mul(0x9e37_79b9).to_be_bytes()).collect()
        }
        i if i / 40 % 2 == 0 => vec![b'a'; 300],
        i => (0..75).flat_map(|j| (i * 75 + j).wrapping_mul(0x9e37_79b9).to_be_bytes()).collect(),
    };
    let rows: Vec<_> = (0..400).map(|i| (i.into(), value(i))).collect();
    for limit in PACK_BYTES {
        let (mut rest, mut before, mut full) = (&rows[..], (2, 1), 0);
        while !rest.is_empty() {
            let (pack, plaintext, _) = pack(rest, limit, &mut before, &codec).expect("rows");
            let len = plaintext.len() + PackCipher::OVERHEAD;
            assert!(len <= limit || pack.rows.len() == 1, "{len} of {limit}");
            full += usize::from(len > limit / 2);
            rest = &rest[pack.rows.len()..];
        }
        assert!(full > 3, "{limit}: {full}");
    }
}
