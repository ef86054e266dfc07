//! How much smaller packs are than values, by rows per pack, and for the whole set in one zstd frame of the same level:
//! `cargo xtask bench packs-ratios`.
//!
//! The sets are Debian's package index as apt has it, crates.io's index as cargo has it, by time, and the commits of the
//! repository that `cargo bench -p opaque-id-benches --bench packs-ratios -- --git REPOSITORY` names. A set that this
//! machine does not have is named, and left out. The first fifth of the rows trains the dictionaries, and the others are
//! measured, all of them. `cargo test` measures generated rows.

use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use opaque_id_benches::{Result, is_smoke, publish, sets};
use opaque_id_packs::format::{Codec, Dictionary, Pack, PackCipher, Padding, Row};

const LEVELS: [i32; 3] = [3, 9, 19];
const ROWS_PER_PACK: [usize; 7] = [1, 5, 10, 25, 50, 100, 1_000];
const DICTIONARY_KIB: [usize; 3] = [0, 32, 112];

fn main() -> Result {
    let mut csv =
        String::from("set,level,dictionary_kib,rows_per_pack,ratio,of_whole,stored_ratio\n");
    if is_smoke() {
        measure("events", &sets::generated(20_000), &[3], &mut csv)?;
    } else {
        for (name, rows) in sets::all() {
            measure(name, &rows, &LEVELS, &mut csv)?;
        }
    }
    publish("packs-ratios", &csv)
}

fn measure(name: &str, rows: &[Vec<u8>], levels: &[i32], csv: &mut String) -> Result {
    let (training, rows) = rows.split_at(rows.len() / 5);
    let values: usize = rows.iter().map(Vec::len).sum();
    println!(
        "\n{name}: {} rows, {} bytes each",
        rows.len(),
        values / rows.len()
    );
    for level in levels {
        let whole = frame(&Codec::new(*level, None)?, rows)?;
        let ratio = values as f64 / whole as f64;
        println!(
            "level {level}, the whole set {ratio:.2}{:26}of the whole, stored",
            ""
        );
        writeln!(csv, "{name},{level},0,all,{ratio:.4},1,")?;
        for kib in DICTIONARY_KIB {
            let dictionary = match kib {
                0 => None,
                _ => Some(Dictionary::new(
                    1,
                    zstd::dict::from_samples(training, kib << 10)?,
                )),
            };
            let codec = Codec::new(*level, dictionary)?;
            for count in ROWS_PER_PACK {
                let mut frames = 0;
                let mut stored = 0;
                for (i, rows) in rows.chunks(count).enumerate() {
                    frames += frame(&codec, rows)?;
                    stored += body(&codec, i * count, rows)?;
                }
                let ratio = values as f64 / frames as f64;
                let of_whole = whole as f64 / frames as f64;
                let stored = values as f64 / stored as f64;
                println!(
                    "{kib:>7} KiB dictionary {count:>5} rows {ratio:>7.2} {of_whole:>16.3} {stored:>9.2}"
                );
                writeln!(
                    csv,
                    "{name},{level},{kib},{count},{ratio:.4},{of_whole:.4},{stored:.4}"
                )?;
            }
        }
    }
    Ok(())
}

/// The bytes of values alone in one frame.
fn frame(codec: &Codec, rows: &[Vec<u8>]) -> Result<usize> {
    Ok(Row::Value(rows.concat())
        .encode(codec, Padding::None)?
        .len())
}

/// The bytes of a body as a table stores it, with keys like UUIDv7, a millisecond apart.
fn body(codec: &Codec, first: usize, rows: &[Vec<u8>]) -> Result<usize> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let key = |i: usize| (i as u128) << 80 | u128::from(hasher.hash_one(i)) << 10;
    let rows = (first..).map(key).zip(rows.iter().cloned());
    let pack = Pack {
        id: key(first),
        end: None,
        rows: rows.collect(),
    };
    let plaintext = pack.encode(codec, Padding::Steps(64))?;
    Ok(plaintext.len() + PackCipher::OVERHEAD)
}
