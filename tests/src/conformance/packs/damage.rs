//! Packs that somebody has altered or put back.

use std::collections::BTreeMap;

use opaque_id_core::IdRange;
use opaque_id_packs::{ByKey, Json, Location, Settings, TableError};

use crate::conformance::cases::{error, message};
use crate::conformance::mapping::count;
use crate::conformance::packs::{
    Initials, PackShop, create, fresh, incompressible, keyring, teams,
};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::Verdict;
use crate::conformance::shop::from_key;
use crate::database::Database;
use crate::random::Random;

/// A server, or anyone with its password, may change a table like this.
pub(super) async fn packs_that_were_altered<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    // These digits occur nowhere else in a message.
    const FIRST: i64 = 9_000_000_000;
    let settings = Settings::default().pack_bytes(256);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let mut random = Random(9);
    let rows = teams::<S>(FIRST..FIRST + 50, |_| incompressible(&mut random, 40))?;
    let id = |place: usize| rows[place].0;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    shop.put(&packs, id(7), &"recent".to_owned()).await?;
    let pack = |place| {
        database.integer("id", &format!("entries_packs ORDER BY id LIMIT 1 OFFSET {place}"))
    };
    let (second, third) = (pack(1)?, pack(2)?);
    let inside = from_key(second)?;
    let update = |set: &str| {
        database.execute(&format!("UPDATE entries_packs SET {set} WHERE id = {second}"))
    };
    let put_back = "DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM kept";

    database.execute("CREATE TABLE kept AS SELECT * FROM entries_packs")?;
    // Each change has an error that `verify` must report, and must not break other rows.
    for (harm, expected) in [
        ("version = version + 1", "not genuine"),
        (&format!("body = (SELECT body FROM kept WHERE id = {third})"), "not genuine"),
        ("body = SUBSTR(body, 1, 40)", "not genuine"),
        ("body = SUBSTR(body, 1, 2)", "expected at least"),
        // `opaque-id packs restore` leaves this body if it ends early.
        ("body = SUBSTR(body, 1, 0)", "expected at least"),
        ("", "a gap"),
    ] {
        match harm {
            "" => database.execute(&format!("DELETE FROM entries_packs WHERE id = {second}"))?,
            set => update(set)?,
        }
        let fresh = fresh(shop).await?;
        let read = shop.get(&fresh, inside).await.err().ok_or("read what is not genuine")?;
        let scan = shop.scan(&fresh).await.err().ok_or("scanned what is not genuine")?;
        let verified = shop.verify(&fresh, |_| {}).await?;
        assert_eq!(verified.problems.len(), 1, "{harm}: {:?}", verified.problems);
        let problem = &verified.problems[0];
        for (message, debug) in [
            (message(&*read), format!("{read:?}")),
            (message(&*scan), format!("{scan:?}")),
            (message(problem), format!("{problem:?}")),
        ] {
            assert!(message.contains(expected), "{harm}: {message}");
            assert!(message.contains("a pack of entries_packs"), "{message}");
            // A client may see the message.
            assert!(!(message + &debug).contains(&second.to_string()), "{debug}");
        }
        let shown = problem.location().and_then(Location::expose_id);
        assert!(shown == Some(&*second.to_string()) || expected == "a gap", "{shown:?}");
        // All other rows are still there.
        assert_eq!(shop.get(&fresh, id(7)).await?.as_deref(), Some("recent"));
        assert!(verified.packs > 3 && verified.recent_rows == 1);
        database.execute(put_back)?;
    }
    assert_eq!(shop.verify(&packs, |_| {}).await?.problems, []);

    // Rows of an unreadable pack stay, and the others are merged.
    update("version = version + 1")?;
    let client = fresh(shop).await?;
    shop.put(&client, inside, &"waits".to_owned()).await?;
    shop.put(&client, id(49), &"merged".to_owned()).await?;
    assert!(error(shop.merge_all(&client).await).contains("a pack of entries_packs"));
    let left = count(database, "entries_recent")?;
    assert!((1..=2).contains(&left), "{left}");
    assert_eq!(shop.get(&client, inside).await?.as_deref(), Some("waits"));
    assert_eq!(shop.get(&client, id(49)).await?.as_deref(), Some("merged"));
    update("version = version - 1")?;
    shop.merge_all(&client).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    database.execute("DELETE FROM kept; INSERT INTO kept SELECT * FROM entries_packs")?;

    // Rows without a pack stay as well.
    let first = pack(0)?;
    database.execute(&format!("DELETE FROM entries_packs WHERE id = {first}"))?;
    shop.put(&client, id(0), &"waits".to_owned()).await?;
    shop.put(&client, id(49), &"merged again".to_owned()).await?;
    assert!(error(shop.merge_all(&client).await).contains("a gap"));
    assert_eq!(count(database, "entries_recent")?, 1);
    let again = format!("INSERT INTO entries_packs SELECT * FROM kept WHERE id = {first}");
    database.execute(&again)?;
    shop.merge_all(&client).await?;
    assert_eq!(shop.get(&client, id(0)).await?.as_deref(), Some("waits"));
    assert_eq!(count(database, "entries_recent")?, 0);
    database.execute("DELETE FROM kept; INSERT INTO kept SELECT * FROM entries_packs")?;

    // An old state is complete. Only a process that has seen a newer one can tell.
    let packs = S::cache_packs(packs, 1 << 20);
    for place in 0..3 {
        shop.put(&packs, id(place), &"new".to_owned()).await?;
    }
    shop.merge_all(&packs).await?;
    assert_eq!(shop.get(&packs, id(0)).await?.as_deref(), Some("new"));
    database.execute(put_back)?;
    let old = error(shop.get(&packs, id(0)).await);
    assert!(old.contains("times or more, found"), "{old}");
    let client = fresh(shop).await?;
    assert_eq!(shop.get(&client, id(0)).await?.as_deref(), Some("waits"));
    // The lost state had the same number of replacements. A client with a cache does not confuse them.
    for place in 0..3 {
        shop.put(&client, id(place), &"after the crash".to_owned()).await?;
    }
    shop.merge_all(&client).await?;
    assert_eq!(shop.get(&packs, id(0)).await?.as_deref(), Some("after the crash"));

    // New settings would have another order and no dictionary.
    database.execute("DELETE FROM entries_meta")?;
    let opened = error(fresh(shop).await);
    assert!(opened.contains("restore entries_meta from a backup"), "{opened}");
    assert_eq!(count(database, "entries_meta")?, 0);
    Ok(Passed)
}

/// Neither CREATE TABLE … AS SELECT nor `pg_restore -t` copies a primary key. MySQL then has two rows of one key.
pub(super) async fn packs_without_primary_keys<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    let settings = Settings::default();
    let packs = create::<S, S::Team, ByKey, Initials>(shop, database, settings.clone()).await?;
    for (id, value) in teams::<S>(0..3, |key| format!("a{key}"))? {
        shop.put(&packs, id, &value).await?;
    }
    let open = || async {
        let (keyring, settings) = (keyring(0)?, settings.clone());
        shop.open_packs::<S::Team, ByKey, Initials>(&keyring, settings).await
    };
    for table in ["recent", "packs", "meta", "keys"] {
        let expected = format!("a primary key over id of entries_{table}");
        database.execute(&format!(
            "ALTER TABLE entries_{table} RENAME TO kept;
             CREATE TABLE entries_{table} AS SELECT * FROM kept"
        ))?;
        let refused = error(open().await);
        assert!(refused.contains(&expected), "{refused}");
        let [problem] = &shop.verify(&packs, |_| {}).await?.problems[..] else {
            panic!("expected a problem of {table}");
        };
        assert!(problem.to_string().contains(&expected), "{problem}");
        // A unique index suffices.
        database.execute(&format!("CREATE UNIQUE INDEX key_of_{table} ON entries_{table} (id)"))?;
        open().await?;
        database.execute(&format!(
            "DROP TABLE entries_{table}; ALTER TABLE kept RENAME TO entries_{table}"
        ))?;
    }
    assert_eq!(shop.verify(&packs, |_| {}).await?.problems, []);
    Ok(Passed)
}

/// A pack of a backup is restored in full although it was split since. It overlaps packs with acknowledged rows.
pub(super) async fn packs_that_are_put_back<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(600);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let mut random = Random(11);
    let mut rows = |keys: std::ops::Range<i64>, step| {
        teams::<S>(keys.step_by(step), |_| incompressible(&mut random, 60))
    };
    shop.put_all(&packs, &rows(0..1_000, 10)?).await?;
    shop.merge_all(&packs).await?;
    database.execute("CREATE TABLE kept AS SELECT * FROM entries_packs")?;
    let split = rows(0..1_000, 3)?;
    shop.put_all(&packs, &split).await?;
    shop.merge_all(&packs).await?;

    // These are the second pack and the first row after it.
    let second = database.integer("id", "kept ORDER BY id LIMIT 1 OFFSET 1")?;
    database.execute(&format!(
        "DELETE FROM entries_packs WHERE id = {second};
         INSERT INTO entries_packs SELECT * FROM kept WHERE id = {second}"
    ))?;
    let fresh = fresh(shop).await?;
    let put_back = from_key(second)?;
    let overlap = "reaches into it";
    // A point read does not fetch the next pack. Every other call does.
    assert!(shop.get(&fresh, put_back).await?.is_some());
    assert!(shop.append(&fresh, put_back, "!".to_owned()).await.is_err());
    for is_descending in [false, true] {
        assert!(error(shop.range(&fresh, IdRange::all(), is_descending).await).contains(overlap));
    }
    let verified = shop.verify(&fresh, |_| {}).await?;
    let [TableError::Overlap { location, .. }] = &verified.problems[..] else {
        panic!("expected an overlap, found {:?}", verified.problems);
    };
    assert_eq!(location.expose_id(), Some(&*second.to_string()));

    // A merger does not split the pack at an old row, because the split would hide newer acknowledged rows.
    let new = rows(second..second + 3, 1)?;
    shop.put_all(&fresh, &new).await?;
    assert!(error(shop.merge_all(&fresh).await).contains(overlap));
    let mut expected: BTreeMap<_, _> = split.into_iter().collect();
    expected.extend(new);
    // Only the rows of the pack itself are old.
    let mut old = 0;
    for (id, value) in expected {
        old += u32::from(shop.get(&fresh, id).await? != Some(value));
    }
    assert!((1..20).contains(&old), "{old}");
    Ok(Passed)
}
