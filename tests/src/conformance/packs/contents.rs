//! A table of packs behaves like a map from ids to values.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::time::Duration;

use opaque_id_core::key::{Key, Uuid};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::InternalId;
use opaque_id_core::{IdRange, OpaqueId};
use opaque_id_packs::{ByEncryptedKey, ByKey, CacheStats, Encoding, Json, Order, Settings, Update};

use crate::Result;
use crate::conformance::cases::error;
use crate::conformance::mapping::count;
use crate::conformance::packs::{
    Initials, PackShop, RowOf, create, fresh, incompressible, initial, keyring, panics, secrets,
    teams,
};
use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::Verdict;
use crate::conformance::shop::{IdOf, from_key, generate};
use crate::database::Database;
use crate::engine::Engine;
use crate::random::Random;

/// An erased group leaves no trace, even in a backup of rows and packs, and nothing else is lost.
pub(super) async fn packs_in_groups<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(3_000);
    let packs = create::<S, S::Team, ByKey, Initials>(shop, database, settings.clone()).await?;
    let ids: Vec<_> =
        (0..80).map(|key| from_key(key * 5)).collect::<std::result::Result<_, _>>()?;
    let map = compare::<S, S::Team, ByKey, Initials>(shop, &packs, &ids, 100).await?;
    compare_ranges::<S, S::Team, Initials>(shop, &packs, &ids, &map).await?;
    shop.delete_all(&packs, &ids).await?;

    // A rollback also removes the key that the transaction has made.
    let some = teams::<S>([1, 2], |key| format!("z{key}"))?;
    let [(appended, _), (deleted, _)] = [some[0].clone(), some[1].clone()];
    shop.packs_in_a_transaction(&packs, &some, deleted, appended, false).await?;
    shop.put(&packs, appended, &some[0].1).await?;
    let open = async |sealing| {
        let keyring = SharedKeyring::new(secrets(sealing, None)?);
        shop.open_packs::<S::Team, ByKey, Initials>(&keyring, settings.clone()).await
    };
    let other = open(0).await?;
    assert_eq!(shop.get(&other, appended).await?, Some("z1".to_owned()));

    let letter = |key: i64| char::from(b"abc"[usize::try_from(key % 3).unwrap_or(0)]);
    let rows = teams::<S>(1_000..1_300, |key| format!("{}{key}", letter(key)))?;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    let recent = teams::<S>(1_300..1_330, |key| format!("{}{key}", letter(key)))?;
    shop.put_all(&other, &recent).await?;
    let all: Vec<_> = [&some[..1], &rows, &recent].concat();
    let without = |letters: &str| -> Vec<_> {
        let is_left = |(_, text): &&RowOf<S::Team>| !text.starts_with(|it| letters.contains(it));
        all.iter().filter(is_left).cloned().collect()
    };
    assert_eq!(shop.scan(&packs).await?, all);
    // This dictionary would be empty because four groups share no text that many groups have.
    let refused = error(shop.train(&packs, 1_024).await);
    assert!(refused.contains("no text of 8 bytes or more occurs in 20 groups"), "{refused}");
    let samples: Vec<_> = (0..1_000).map(|i| format!("a{i}, b{i}, c{i}")).collect();
    shop.train_from_public(&packs, &samples, 1_024).await?;
    let rekeyed = shop.rekey(&packs, |_| {}).await?;
    assert!(rekeyed.packs > 1 && rekeyed.rows > 1 && rekeyed.lost == 0, "{rekeyed:?}");
    assert_eq!(shop.scan(&packs).await?, all);
    let tables = ["recent", "packs", "meta"];
    for table in tables {
        database
            .execute(&format!("CREATE TABLE backup_{table} AS SELECT * FROM entries_{table}"))?;
    }
    shop.erase(&packs, initial("a")).await?;
    for client in [&packs, &open(0).await?] {
        assert_eq!(shop.scan(client).await?, without("a"));
        assert_eq!(shop.get(client, rows[2].0).await?, None);
        assert_eq!(shop.verify(client, |_| {}).await?.problems, []);
    }
    // This client has not seen the erasure.
    let refused = shop.put(&other, rows[2].0, &"a new".to_owned()).await;
    assert!(error(refused).contains("its group is erased"));
    let refused = shop.append(&other, appended, String::new()).await;
    assert_eq!(refused?, Some("z1".to_owned()));
    shop.merge_all(&other).await?;
    assert_eq!(shop.scan(&packs).await?, without("a"));

    // A new secret replaces the old one, and bodies stay.
    let rotated =
        shop.open_packs::<S::Team, ByKey, Initials>(&keyring(1)?, settings.clone()).await?;
    let rekeyed = shop.rekey(&rotated, |_| {}).await?;
    assert_eq!((rekeyed.packs, rekeyed.rows, rekeyed.lost), (0, 0, 0));
    let packs = open(1).await?;
    assert_eq!(shop.scan(&packs).await?, without("a"));

    // A sweep rewrites packs without recent writes. It deletes the previous dictionary, but not too early.
    shop.train_from_public(&packs, &samples, 1_024).await?;
    shop.rekey(&packs, |_| {}).await?;
    shop.erase(&packs, initial("b")).await?;
    let hour = Duration::from_secs(3_600);
    let swept = shop.sweep(&packs, hour, |_| {}).await?;
    assert!(swept.packs > 0 && swept.lost == 0, "{swept:?}");
    assert_eq!((swept.dictionaries, swept.dictionaries_left), (0, 1));
    let swept = shop.sweep(&packs, Duration::ZERO, |_| {}).await?;
    assert_eq!((swept.packs, swept.rows, swept.dictionaries), (0, 0, 1));
    assert_eq!(shop.scan(&packs).await?, without("ab"));
    assert_eq!(shop.verify(&open(1).await?, |_| {}).await?.problems, []);

    // The backup is opened with the current keys and without keys.
    for table in tables {
        database.execute(&format!("DELETE FROM entries_{table}"))?;
        database.execute(&format!("INSERT INTO entries_{table} SELECT * FROM backup_{table}"))?;
    }
    let restored =
        shop.open_packs::<S::Team, ByKey, Initials>(&keyring(0)?, settings.clone()).await?;
    assert_eq!(shop.scan(&restored).await?, without("ab"));
    shop.merge_all(&restored).await?;
    assert_eq!(shop.scan(&restored).await?, without("ab"));
    database.execute("DELETE FROM entries_keys")?;
    let restored = shop.open_packs::<S::Team, ByKey, Initials>(&keyring(0)?, settings).await?;
    assert!(error(shop.scan(&restored).await).contains("cannot be read"));

    // Each of many statements creates new groups.
    let many = teams::<S>(20_000..32_000, |key| {
        char::from(b'A' + u8::try_from((key - 20_000) / 1_000).unwrap_or(0)).to_string()
    })?;
    shop.put_all(&restored, &many).await?;
    let last = &many[many.len() - 1];
    assert_eq!(shop.get(&restored, last.0).await?.as_ref(), Some(&last.1));
    Ok(Passed)
}

fn value(random: &mut Random) -> String {
    let words = ["login", "logout", "order", "refund", "Zürich", "\"quoted\"", "\\'\0;--"];
    let count = [0, 1, 3, 20, 400][random.below(5)];
    (0..count).map(|_| words[random.below(words.len())]).collect()
}

/// Does random operations on the table and on a map, and compares after each step.
async fn compare<S: PackShop, T: OpaqueId, O: Order, E: Encoding<String>>(
    shop: &S,
    packs: &S::Packs<T, O, E>,
    ids: &[IdOf<T>],
    steps: usize,
) -> Result<BTreeMap<IdOf<T>, String>> {
    let mut random = Random(7);
    let mut map = BTreeMap::new();
    for _ in 0..steps {
        let some = |most: usize, random: &mut Random| -> Vec<IdOf<T>> {
            let count = random.below(most) + 1;
            (0..count).map(|_| ids[random.below(ids.len())]).collect()
        };
        match random.below(8) {
            0 | 1 => {
                let rows: Vec<_> =
                    some(30, &mut random).into_iter().map(|id| (id, value(&mut random))).collect();
                shop.put_all(packs, &rows).await?;
                map.extend(rows);
            }
            2 => {
                let (id, value) = (some(1, &mut random)[0], value(&mut random));
                shop.put(packs, id, &value).await?;
                map.insert(id, value);
            }
            3 => {
                let deleted = some(5, &mut random);
                shop.delete_all(packs, &deleted).await?;
                map.retain(|id, _| !deleted.contains(id));
            }
            4 => {
                let (id, text) = (some(1, &mut random)[0], value(&mut random));
                let before = shop.append(packs, id, text.clone()).await?;
                assert_eq!(before.as_ref(), map.get(&id));
                map.entry(id).or_default().push_str(&text);
            }
            5 => {
                let asked = some(40, &mut random);
                let expected: Vec<_> = asked.iter().map(|id| map.get(id).cloned()).collect();
                assert_eq!(shop.get_all(packs, &asked).await?, expected);
                assert_eq!(shop.get(packs, asked[0]).await?, expected[0]);
            }
            6 => {
                shop.merge(packs).await?;
            }
            _ => {
                shop.merge_all(packs).await?;
            }
        }
    }
    let mut rows = shop.scan(packs).await?;
    rows.sort();
    assert_eq!(rows, Vec::from_iter(map.clone()));
    let verified = shop.verify(packs, |_| {}).await?;
    assert_eq!(verified.problems, []);
    Ok(map)
}

async fn compare_ranges<S: PackShop, T: OpaqueId, E: Encoding<String>>(
    shop: &S,
    packs: &S::Packs<T, ByKey, E>,
    ids: &[IdOf<T>],
    map: &BTreeMap<IdOf<T>, String>,
) -> Result
where
    T::Key: Key<Repr: Copy>,
{
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    for (first, last) in [(0, sorted.len() - 1), (3, 40), (50, 50), (60, 20)] {
        let key = |place: usize| T::Key::from_checked(*sorted[place].as_repr());
        let range = IdRange::all().within(key(first)..=key(last));
        let mut expected: Vec<_> = map
            .iter()
            .filter(|(id, _)| range.contains(**id))
            .map(|(id, value)| (*id, value.clone()))
            .collect();
        assert_eq!(shop.range(packs, range, false).await?, expected);
        expected.reverse();
        assert_eq!(shop.range(packs, range, true).await?, expected);
    }
    Ok(())
}

pub(super) async fn packs_behave_like_a_map<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(700);
    let packs = create::<S, S::User, ByKey, Json>(shop, database, settings).await?;
    // The ids are below and above a resource's own keys.
    let mut ids: Vec<IdOf<S::User>> = (0..80).map(|_| generate()).collect();
    ids.sort();
    assert_eq!(shop.scan(&packs).await?, []);
    let packs = S::cache_packs(packs, 20_000);
    let map = compare::<S, S::User, ByKey, Json>(shop, &packs, &ids, 150).await?;
    assert!(count(database, "entries_packs")? > 3);
    compare_ranges::<S, S::User, Json>(shop, &packs, &ids, &map).await?;
    shop.merge_all(&packs).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    compare_ranges::<S, S::User, Json>(shop, &packs, &ids, &map).await?;

    // A panic in a closure changes neither the row nor the connection.
    let update = shop.update(&packs, ids[0], |_| resume_unwind(Box::new("in a closure")));
    assert!(panics(update).await);
    assert_eq!(shop.get(&packs, ids[0]).await?.as_ref(), map.get(&ids[0]));

    // Another client finds the same settings, although it would begin with others.
    let again = shop
        .open_packs::<S::User, ByKey, Json>(&keyring(0)?, Settings::default().pack_bytes(15_960))
        .await?;
    assert_eq!(shop.scan(&again).await?, Vec::from_iter(map));
    Ok(Passed)
}

pub(super) async fn packs_of_integers_have_their_order<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    let settings = Settings::default().pack_bytes(300);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let mut ids = Vec::new();
    for key in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
        ids.push(from_key(key)?);
    }
    for key in 0..90_i64 {
        ids.push(from_key((key - 45) * 1_000_003)?);
    }
    let map = compare::<S, S::Team, ByKey, Json>(shop, &packs, &ids, 100).await?;
    compare_ranges::<S, S::Team, Json>(shop, &packs, &ids, &map).await?;
    shop.merge_all(&packs).await?;
    assert_eq!(count(database, "entries_recent")?, 0);

    // A merger takes fewer rows at once, and other rows of their pack follow.
    let rows = |keys: std::ops::Range<i64>| {
        teams::<S>(keys.map(|key| key << 40), |key| format!("{:x}", (key >> 40).wrapping_pow(9)))
    };
    shop.configure(&packs, Settings::default().pack_bytes(15_960)).await?;
    for keys in [10_000..11_000, 1..1_500] {
        shop.put_all(&packs, &rows(keys)?).await?;
        shop.merge_all(&packs).await?;
        assert_eq!(count(database, "entries_recent")?, 0);
    }

    // The values have the maximum size, and a merger writes two at once.
    let mut random = Random(7);
    let mut text = |len| incompressible(&mut random, len);
    let key = 500 << 40;
    for key in [key + 1, key + 2] {
        let (id, text) = (from_key(key)?, text(3_600_000));
        shop.put(&packs, id, &text).await?;
        shop.merge_all(&packs).await?;
        assert_eq!(shop.get(&packs, id).await?, Some(text));
    }
    // A few large values among many small ones make their average meaningless.
    let mut mixed = rows(600..1_500)?;
    for row in mixed.iter_mut().take(3) {
        row.1 = text(2_500_000);
    }
    for row in &mixed[..3] {
        shop.put(&packs, row.0, &row.1).await?;
    }
    shop.put_all(&packs, &mixed[3..]).await?;
    shop.merge_all(&packs).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    let ids: Vec<_> = mixed[..4].iter().map(|(id, _)| *id).collect();
    let values: Vec<_> = mixed[..4].iter().map(|(_, text)| Some(text.clone())).collect();
    assert_eq!(shop.get_all(&packs, &ids).await?, values);
    // `update` writes into a pack and into the recent table.
    for _ in 0..2 {
        let (id, text) = (from_key(key + 1)?, text(200_000));
        let to = text.clone();
        shop.update(&packs, id, move |_| Update::Put(to.clone())).await?;
        assert_eq!(shop.get(&packs, id).await?, Some(text));
    }
    let too_large = error(shop.put(&packs, from_key(key)?, &text(4_000_000)).await);
    let expected = "expected a value of at most 3145728 bytes after compression";
    assert!(too_large.contains(expected), "{too_large}");
    Ok(Passed)
}

pub(super) async fn packs_by_encrypted_key<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(500);
    let packs = create::<S, S::Team, ByEncryptedKey, Json>(shop, database, settings).await?;
    let ids = (0..60).map(from_key).collect::<std::result::Result<Vec<_>, _>>()?;
    compare::<S, S::Team, ByEncryptedKey, Json>(shop, &packs, &ids, 80).await?;
    // The other order has another column type, so the statement fails before the settings are compared.
    assert!(fresh(shop).await.is_err());
    Ok(Passed)
}

pub(super) async fn packs_that_are_written_through<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    let settings = Settings::default().pack_bytes(600).write_through();
    let packs = create::<S, S::Legacy, ByKey, Json>(shop, database, settings).await?;
    let mut ids = vec![from_key(Uuid::nil())?, from_key(Uuid::max())?];
    for number in 0..60_u128 {
        ids.push(from_key(Uuid::from_u128(number << 121 | number))?);
    }
    let map = compare::<S, S::Legacy, ByKey, Json>(shop, &packs, &ids, 80).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    compare_ranges::<S, S::Legacy, Json>(shop, &packs, &ids, &map).await?;
    let large = incompressible(&mut Random(3), 200_000);
    for id in &ids[..2] {
        shop.put(&packs, *id, &large).await?;
        assert_eq!(shop.get(&packs, *id).await?.as_ref(), Some(&large));
    }

    // Clients that also write into the recent table would not see each other.
    let changed = error(shop.configure(&packs, Settings::default()).await);
    assert!(changed.contains("found rows that are written through"), "{changed}");
    let resized = Settings::default().pack_bytes(900).write_through();
    shop.configure(&packs, resized).await?;
    Ok(Passed)
}

/// A rewritten pack is sent once and is then served from the cache.
pub(super) async fn packs_in_a_cache<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(700);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let rows = teams::<S>(0..60, |key| format!("{key} {}", key.wrapping_pow(19)))?;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    let cached = S::cache_packs(fresh(shop).await?, 1 << 20);
    assert_eq!(S::cache_stats(&packs), CacheStats::default());
    let counts = |stats: CacheStats| (stats.hits, stats.misses);
    let (last, ids) = (rows[59].0, rows.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    for round in 0..5 {
        let value = format!("changed {round}");
        shop.put(&packs, rows[7].0, &value).await?;
        shop.merge_all(&packs).await?;
        for read in 0..4 {
            assert_eq!(shop.get(&cached, rows[7].0).await?.as_ref(), Some(&value));
            // The other pack has not changed.
            assert_eq!(shop.get(&cached, last).await?.as_ref(), Some(&rows[59].1));
            let misses = round + 1 + 1;
            let reads = 8 * round + 2 * (read + 1);
            assert_eq!(counts(S::cache_stats(&cached)), (reads - misses, misses));
        }
    }
    // A row of the recent table needs no pack.
    let before = S::cache_stats(&cached);
    shop.put(&packs, rows[7].0, &rows[7].1).await?;
    assert_eq!(shop.get(&cached, rows[7].0).await?.as_ref(), Some(&rows[7].1));
    assert_eq!(S::cache_stats(&cached), before);
    shop.merge_all(&packs).await?;

    // One call reads all: first all packs but one are sent, and then none.
    let all = rows.iter().map(|(_, value)| Some(value.clone())).collect::<Vec<_>>();
    assert_eq!(shop.get_all(&cached, &ids).await?, all);
    let first = S::cache_stats(&cached);
    assert_eq!(shop.get_all(&cached, &ids).await?, all);
    let second = S::cache_stats(&cached);
    let count = u64::try_from(count(database, "entries_packs")?)?;
    assert_eq!(counts(first), (before.hits + 1, before.misses + count - 1));
    assert_eq!(counts(second), (first.hits + count, first.misses));
    let bytes = database.integer("SUM(LENGTH(body))", "entries_packs")?;
    assert_eq!(second.bytes_saved - first.bytes_saved, u64::try_from(bytes)?);
    Ok(Passed)
}

/// The number of packs that a statement reads does not depend on their total.
pub(super) async fn packs_that_are_many<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    // Other servers do not count reads by table, or count them late.
    let (setup, counter) = match database.kind {
        Engine::Mysql => (
            "DO 0",
            "performance_schema.table_io_waits_summary_by_table \
             WHERE OBJECT_SCHEMA = DATABASE() AND OBJECT_NAME = 'entries_packs'",
        ),
        Engine::Mariadb => (
            "SET GLOBAL userstat = 1",
            "information_schema.TABLE_STATISTICS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'entries_packs'",
        ),
        _ => return Ok(NotApplicable),
    };
    database.execute(setup)?;
    let column = if database.kind == Engine::Mysql { "COUNT_FETCH" } else { "ROWS_READ" };
    let read = || database.integer(&format!("COALESCE(SUM({column}), 0)"), counter);

    let settings = Settings::default().pack_bytes(256);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let rows = teams::<S>(0..3_000, |key| format!("{key} {}", key.wrapping_pow(19)))?;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    assert!(count(database, "entries_packs")? > 150);

    let before = read()?;
    for (id, value) in &rows[1_500..1_510] {
        assert_eq!(shop.get(&packs, *id).await?.as_ref(), Some(value));
    }
    let got = read()? - before;
    assert!((10..=100).contains(&got), "{got} for ten rows");

    let before = read()?;
    let some: Vec<_> = rows.iter().step_by(100).cloned().collect();
    let ids: Vec<_> = some.iter().map(|(id, _)| *id).collect();
    let values: Vec<_> = some.into_iter().map(|(_, value)| Some(value)).collect();
    assert_eq!(shop.get_all(&packs, &ids).await?, values);
    let got = read()? - before;
    assert!((30..=400).contains(&got), "{got} for thirty rows at once");

    for is_descending in [false, true] {
        let before = read()?;
        let range = IdRange::all().within(2_000..=2_030);
        assert_eq!(shop.range(&packs, range, is_descending).await?.len(), 31);
        let got = read()? - before;
        // The ids of a whole page are sent.
        assert!((2..=600).contains(&got), "{got} for a range");
    }

    let before = read()?;
    shop.put_all(&packs, &teams::<S>(3_000..3_010, |key| key.to_string())?).await?;
    assert_eq!(shop.merge_all(&packs).await?.rows, 10);
    let got = read()? - before;
    assert!((2..=100).contains(&got), "{got} for rows at the end that are merged");
    Ok(Passed)
}
