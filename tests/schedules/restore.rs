//! Tables with damaged packs, and restores from backups.

use std::collections::BTreeMap;

use opaque_id_packs::__private::{Damage, RuntimePacks};
use opaque_id_packs::{Encoding, Settings, TableError};
use opaque_id_sql::statement::Value;
use opaque_id_tests::{Result, random::Random};

use crate::world::{OUTSIDE, SteppedCall, World, id, noise, value};

/// A page that ends with an unreadable pack continues after it, even if the pack before it is missing.
#[test]
fn a_scan_goes_on_past_packs_that_are_missing_or_corrupt() -> Result {
    const ROWS: i64 = 7;
    for lost in 1..ROWS - 1 {
        let (mut world, table) = World::with_table()?;
        // Pages have two packs, each of one row.
        let settings = Settings::default().pack_bytes(1 << 20);
        world.finish(table.configure(settings))?;
        let mut random = Random(7);
        for key in 0..ROWS {
            world.put(&table, key, &noise(&mut random, 700_000))?;
        }
        world.merge(&table)?;
        world.execute(&format!(
            "DELETE FROM entries_packs WHERE id = {lost};
             UPDATE entries_packs SET version = version + 1 WHERE id = {lost} + 1"
        ))?;
        let packs = tool(&mut world)?;
        let (mut keys, mut problems) = (Vec::new(), Vec::new());
        let mut rest = packs.scan();
        let mut pages = 0;
        while let Some(page) = world.finish(packs.next_page(&mut rest))? {
            keys.extend(page.rows.into_iter().map(|(key, _)| key));
            problems.extend(page.problems);
            pages += 1;
            assert!(pages < 3 * ROWS, "{lost}: it goes on forever");
        }
        let mut expected: Vec<_> = (0..ROWS).collect();
        expected.retain(|key| *key != lost && *key != lost + 1);
        assert_eq!(keys, expected);
        assert_eq!(problems.len(), 2, "{lost}: {problems:?}");
    }
    Ok(())
}

/// Opens the table as `opaque-id packs` does.
pub(crate) fn tool<E: Encoding<Vec<u8>>>(world: &mut World<E>) -> Result<RuntimePacks<i64>> {
    world.finish(RuntimePacks::open(&world.keyring, "entry", "entries", false)?)
}

fn damage(world: &mut World, packs: &RuntimePacks<i64>) -> Result<Vec<Damage>> {
    let verified = world.finish_outside(packs.verify(None, None, |_| {}))?;
    Ok(RuntimePacks::<i64>::damage(&verified, false).collect())
}

fn is_whole(world: &mut World) -> Result<bool> {
    let packs = tool(world)?;
    Ok(damage(world, &packs)?.is_empty())
}

/// Returns the calls that restore the damaged packs.
fn restores(world: &mut World, backup: &mut World) -> Result<Vec<SteppedCall<'static, bool>>> {
    let (packs, theirs) = (tool(world)?, tool(backup)?);
    let restore = |damage| {
        let rows = backup.finish(theirs.rows_of(damage))?;
        Ok(SteppedCall::new(packs.restore(damage, rows), OUTSIDE))
    };
    damage(world, &packs)?.into_iter().map(restore).collect()
}

/// Two clients restore the same packs from different backups, next to a writer and a merger, and may die half-way. Writes
/// meanwhile are not lost, and another run repairs all damage.
#[test]
fn several_may_restore_the_same_packs() -> Result {
    const ROWS: u32 = 40;
    let mut world = World::new(false)?;
    let rows = |step, number| {
        let row = |key: u32| (id(key.into()), value(number + key));
        Vec::from_iter((0..ROWS).step_by(step).map(row))
    };
    let mut backups = Vec::new();
    for step in [1, 3] {
        let (mut backup, table) = world.another()?;
        backup.put_all(&table, &rows(step, 1_000))?;
        backup.merge(&table)?;
        backups.push(backup);
    }
    let table = world.tables[0].clone();
    world.put_all(&table, &rows(1, 2_000))?;
    world.merge(&table)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_packs")?;
    for seed in 0..300 {
        let mut random = Random(seed);
        world.execute(
            "DELETE FROM entries_recent; DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM kept",
        )?;
        world.execute(match seed % 4 {
            0 => "DELETE FROM entries_packs",
            1 => "DELETE FROM entries_packs WHERE id BETWEEN 4 AND 20",
            2 => "DELETE FROM entries_packs WHERE id > 20",
            _ => "UPDATE entries_packs SET body = x'00' WHERE id < 10; DELETE FROM entries_packs WHERE id BETWEEN 10 AND 30",
        })?;
        world.reopen()?;
        let table = world.tables[0].clone();
        let mut running = Vec::new();
        for backup in &mut backups {
            running.extend(restores(&mut world, backup)?);
        }
        let mut written = BTreeMap::new();
        let mut merge = SteppedCall::new(table.merge(true), OUTSIDE);
        for number in 0..200 {
            match random.below(8) {
                0 => {
                    let key = i64::try_from(random.below(40))?;
                    world.put(&table, key, &value(number))?;
                    written.insert(key, number);
                }
                1..=3 if world.step(&mut merge)? => {}
                1..=3 => merge = SteppedCall::new(table.merge(true), OUTSIDE),
                _ if running.is_empty() => break,
                _ => {
                    let chosen = random.below(running.len());
                    let goes_on = world.step(&mut running[chosen])?;
                    if !goes_on || random.below(30) == 0 {
                        running.swap_remove(chosen);
                    }
                }
            }
        }
        drop(running);
        for restore in restores(&mut world, &mut backups[0])? {
            world.end(restore)?;
        }
        let packs = tool(&mut world)?;
        let left = damage(&mut world, &packs)?;
        assert!(left.is_empty(), "seed {seed}: {} left", left.len());
        for (key, expected) in written {
            assert_eq!(world.read(&table, key)?, Some(expected), "seed {seed}, key {key}");
        }
    }
    Ok(())
}

/// A table has lost all but its first pack, and that one is corrupt. No statement contains all packs. A client that restores it
/// may die between any two statements.
#[test]
fn a_large_loss_is_restored_in_parts() -> Result {
    const ROWS: i64 = 50;
    let mut world = World::new(false)?;
    let (mut backup, table) = world.another()?;
    let mut random = Random(7);
    for key in 0..ROWS {
        backup.put(&table, key, &noise(&mut random, 20_000))?;
    }
    backup.merge(&table)?;
    for deaths in 0..4 {
        world.execute(
            "DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM first;
             UPDATE entries_packs SET body = x'00'",
        )?;
        for death in (0..=deaths).rev() {
            let mut restore = restores(&mut world, &mut backup)?.remove(0);
            let mut steps = 0;
            while let Some(statement) = restore.statement() {
                for value in &statement.values {
                    assert!(!matches!(value, Value::Bytes(bytes) if bytes.len() > 300_000));
                }
                world.step(&mut restore)?;
                steps += 1;
                if death > 0 && steps == 2 {
                    break;
                }
            }
            assert_eq!(restore.result().ok(), (death == 0).then_some(true));
        }
        assert!(is_whole(&mut world)?);
        let mut pages = table.scan();
        let mut rows = 0;
        while let Some(page) = world.finish(table.next_page(&mut pages))? {
            rows += page.len();
        }
        assert_eq!(i64::try_from(rows)?, ROWS);
    }
    Ok(())
}

/// The value is larger than the usual limit of a statement.
#[test]
fn a_large_value_is_restored() -> Result {
    for large in 0..3 {
        let mut world = World::new(false)?;
        let (mut backup, table) = world.another()?;
        let mut random = Random(7);
        for key in 0..3 {
            let len = if key == large { 700_000 } else { 200 };
            backup.put(&table, key, &noise(&mut random, len))?;
        }
        backup.merge(&table)?;
        world.execute("UPDATE entries_packs SET body = x'00'")?;
        let mut restore = restores(&mut world, &mut backup)?.remove(0);
        let mut steps = 0;
        while world.step(&mut restore)? {
            steps += 1;
            assert!(steps < 20, "it goes on forever");
        }
        assert!(restore.result()?);
        assert!(is_whole(&mut world)?);
    }
    Ok(())
}

/// A lagging server may show the newer pack to the next client.
#[test]
fn a_pack_older_than_seen_is_not_restored_without_force() -> Result {
    let (mut world, table) = World::with_table()?;
    world.put(&table, 1, &value(1))?;
    world.merge(&table)?;
    let packs = tool(&mut world)?;
    assert!(damage(&mut world, &packs)?.is_empty());
    let earlier = "UPDATE entries_packs SET version = first.version, body = first.body FROM first";
    world.execute(earlier)?;
    let verified = world.finish_outside(packs.verify(None, None, |_| {}))?;
    assert!(matches!(verified.problems[..], [TableError::Older { .. }]), "{:?}", verified.problems);
    let damage = |is_forced| RuntimePacks::<i64>::damage(&verified, is_forced).count();
    assert_eq!((damage(false), damage(true)), (0, 1));
    Ok(())
}

/// Until its body is restored, a pack does not count as empty, even for a client that has the empty first pack in its cache.
#[test]
fn a_pack_that_is_being_restored_is_refused() -> Result {
    let mut world = World::new(false)?;
    let (mut backup, table) = world.another()?;
    let mut random = Random(7);
    for key in 0..50 {
        backup.put(&table, key, &noise(&mut random, 20_000))?;
    }
    backup.merge(&table)?;
    let reader = world.tables[0].clone();
    reader.set_cache(1 << 20);
    assert_eq!(world.read_outside(&reader, 1)?, None);
    world.execute("DELETE FROM entries_packs")?;
    let mut restore = restores(&mut world, &mut backup)?.remove(0);
    let mut refused = 0;
    while world.step(&mut restore)? {
        match world.read_outside(&reader, 1) {
            Ok(found) => assert!(found.is_some(), "it is in the backup"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 2 && world.read_outside(&reader, 1)?.is_some());
    Ok(())
}
