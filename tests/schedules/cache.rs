//! The hit rate of a client's cache while others change rows: `cargo test -p opaque-id-tests --test schedules -- cache
//! --nocapture`.

use opaque_id_packs::Settings;
use opaque_id_tests::Result;
use opaque_id_tests::random::Random;

use crate::world::{World, id, noise};

const ROWS: usize = 2_000;
const READS: usize = 20_000;

/// Returns the row to read next. It is uniform or follows Zipf's law: the n-th row is read 1/n times as often as the first.
fn next(random: &mut Random, is_zipf: bool) -> Result<i64> {
    let row = match is_zipf {
        false => random.below(ROWS),
        true => {
            // Each power of two has as many reads as the next one.
            let octave = 1 << random.below(11);
            let rank = (octave + random.below(octave) - 1) % ROWS;
            // The most frequently read rows are not neighbors.
            rank * 787 % ROWS
        }
    };
    Ok(i64::try_from(row)?)
}

/// A client reads 20,000 times. After each 100 reads another client changes some random rows and merges them.
#[test]
fn a_cache_has_the_unchanged_packs() -> Result {
    println!("| rows | reads | changed per 100 reads | hits |");
    for (name, settings, is_zipf, changed, expected) in [
        ("default", Settings::default(), false, 0, 98),
        ("default", Settings::default(), false, 1, 97),
        ("default", Settings::default(), true, 1, 97),
        ("large", Settings::default().pack_bytes(15_960), false, 0, 99),
        ("large", Settings::default().pack_bytes(15_960), false, 1, 97),
        ("large", Settings::default().pack_bytes(15_960), true, 1, 97),
        ("large", Settings::default().pack_bytes(15_960), false, 20, 80),
    ] {
        let mut world = World::new(false)?;
        let writer = world.tables[0].clone();
        world.finish(writer.configure(settings.row_level(1).pack_level(1)))?;
        let reader = world.table(None)?;
        reader.set_cache(64 << 20);
        let mut random = Random(7);
        let rows: Vec<_> = (0..2_000).map(|key| (id(key), noise(&mut random, 200))).collect();
        world.put_all(&writer, &rows)?;
        world.merge(&writer)?;
        for i in 0..READS {
            if i % 100 == 0 {
                for _ in 0..changed {
                    let key = i64::try_from(random.below(ROWS))?;
                    world.put(&writer, key, &noise(&mut random, 200))?;
                }
                world.merge(&writer)?;
            }
            let key = next(&mut random, is_zipf)?;
            assert!(world.read_outside(&reader, key)?.is_some());
        }
        let stats = reader.cache_stats();
        assert_eq!(stats.hits + stats.misses, READS as u64);
        let hits = stats.hits as f64 * 100.0 / READS as f64;
        let reads = if is_zipf { "Zipf" } else { "uniform" };
        println!("| {name} | {reads} | {changed} | {hits:.1} % |");
        assert!(hits >= f64::from(expected), "{name} {reads} {changed}: {hits}");
    }
    Ok(())
}
