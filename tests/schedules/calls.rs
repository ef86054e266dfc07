//! One call beside other calls that run between its statements, and answers that a server may give.

use std::time::Duration;

use opaque_id_core::IdRange;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_packs::__private::PackCall;
use opaque_id_packs::{Encoding, Group, Merged, Raw, Settings, TableError, Update};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::ConnectionState;
use opaque_id_sql::statement::{Answer, Statement};
use opaque_id_tests::{Result, random::Random};

use crate::world::{
    INSIDE, InThree, OUTSIDE, SteppedCall, Suspended, Table, World, create_sql, id, keyring, noise,
    number, refusal, similar, similar_rows, value,
};

/// Returns the answer to the first statement of a call.
fn answer_of<R>(world: &mut World, call: PackCall<'_, R>) -> Result<Answer> {
    world.run(SteppedCall::new(call, OUTSIDE).statement().ok_or("it reads")?)
}

#[test]
fn settings_that_change_while_they_are_read_are_not_refused() -> Result {
    let (mut world, table) = World::with_table()?;
    let settings = || Settings::default().pack_bytes(1_900).row_level(1).pack_level(1);
    let mut slow = SteppedCall::new(table.configure(settings().pack_bytes(500)), OUTSIDE);
    let answer = world.run(slow.statement().ok_or("it reads")?)?;
    world.finish_outside(table.configure(settings().pack_bytes(600)))?;
    slow.answer(answer);
    world.end(slow)?;
    assert_eq!(table.settings(), settings().pack_bytes(500));

    // A transaction sees the state at its beginning. A server that shows it later is refused.
    let old = "UPDATE entries_meta SET version = kept.version, body = kept.body FROM kept WHERE entries_meta.id = kept.id";
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta WHERE id = 0")?;
    world.finish_outside(table.configure(settings()))?;
    world.execute(old)?;
    let refused = refusal(world.finish_outside(table.configure(settings())))?;
    assert!(refused.to_string().contains("the settings (id 0) of entries_meta"));
    let mut inside = SteppedCall::new(table.configure(settings()), INSIDE);
    assert!(world.step(&mut inside)? && inside.statement().is_some());
    Ok(())
}

/// Another task of the same process sees newer writes between the read of packs and their use.
#[test]
fn packs_are_as_old_as_the_statement_that_has_read_them() -> Result {
    let rows = similar_rows();
    let (mut world, writer) = World::with_table()?;
    let reader = world.table(None)?;
    world.put_all(&writer, &rows)?;
    world.merge(&writer)?;
    world.finish_outside(writer.train(1_024))?;
    let write = |world: &mut World| -> Result {
        world.put_all(&writer, &rows)?;
        world.merge(&writer).map(drop)
    };
    write(&mut world)?;

    // The call waits for the dictionary.
    let seven = [id(7)];
    let mut slow = SteppedCall::new(reader.get(&seven), OUTSIDE);
    assert!(world.step(&mut slow)? && slow.statement().is_some());
    write(&mut world)?;
    world.read_outside(&reader, 7)?;
    assert_eq!(world.end(slow)?.remove(0), Some(similar(7)));

    // The call encrypts one pack after the other.
    world.finish_outside(writer.train(1_024))?;
    let mut rekey = SteppedCall::new(writer.rekey(None, None, |_| {}), OUTSIDE);
    for _ in 0..3 {
        assert!(world.step(&mut rekey)?);
    }
    write(&mut world)?;
    world.finish_outside(writer.get(&Vec::from_iter((0..2_000).map(id))))?;
    assert!(world.end(rekey)?.lost > 0);
    Ok(())
}

/// The client that adds its dictionary first is second to write the settings.
#[test]
fn the_later_of_two_new_dictionaries_stays() -> Result {
    let rows = similar_rows();
    let (mut world, table) = World::with_table()?;
    world.put_all(&table, &rows)?;
    let mut slow = SteppedCall::new(table.train(1_024), OUTSIDE);
    while world.count("entries_meta WHERE id = 1")? == 0 {
        assert!(world.step(&mut slow)?);
    }
    world.finish_outside(table.train(1_024))?;
    world.put_all(&table, &rows[..3])?;
    world.end(slow)?;
    assert_eq!(world.problems(&table)?, []);
    Ok(())
}

/// Rows that a sweep has written before it sees a new dictionary need the previous one.
#[test]
fn a_sweep_keeps_dictionaries_beside_training() -> Result {
    let rows = similar_rows();
    let (mut world, table) = World::with_table()?;
    world.put_all(&table, &rows)?;
    world.merge(&table)?;
    world.finish_outside(table.train(1_024))?;
    world.finish_outside(table.train(1_024))?;
    let other = world.table(None)?;
    world.finish_outside(table.rekey(None, None, |_| {}))?;
    let mut sweep = SteppedCall::new(table.rekey(None, Some(Duration::ZERO), |_| {}), OUTSIDE);
    for _ in 0..2 {
        assert!(world.step(&mut sweep)?);
    }
    world.finish_outside(other.train(1_024))?;
    world.put_all(&other, &rows[1_000..])?;
    let swept = world.end(sweep)?;
    assert_eq!((swept.dictionaries, swept.dictionaries_left), (0, 1));
    assert_eq!(world.problems(&table)?, []);
    // A sweep that finds nothing to encrypt deletes them.
    for deleted in [0, 2] {
        let swept = world.finish_outside(table.rekey(None, Some(Duration::ZERO), |_| {}))?;
        assert_eq!((swept.dictionaries, swept.dictionaries_left), (deleted, 2 - deleted));
    }
    assert_eq!(world.problems(&other)?, []);
    Ok(())
}

/// Bodies that are rewritten for erased groups already have the current dictionary.
#[test]
fn a_sweep_beside_erasures_deletes_dictionaries() -> Result {
    let mut world = World::<InThree>::with(keyring()?, false)?;
    let table = world.tables[0].clone();
    let rows = Vec::from_iter((0..60).map(|key| (id(key.into()), value(key))));
    world.put_all(&table, &rows)?;
    for _ in 0..2 {
        let samples = (0..2_000).map(|key| Ok(similar(key).into())).collect();
        world.finish_outside(table.train_from(samples, 1_024))?;
        world.merge(&table)?;
    }
    world.finish_outside(table.rekey(None, None, |_| {}))?;
    world.finish_outside(table.erase(Group::new(0)))?;
    let swept = world.finish_outside(table.rekey(None, Some(Duration::ZERO), |_| {}))?;
    assert!(swept.packs > 0 && swept.dictionaries == 1, "{swept:?}");
    Ok(())
}

/// Calls read the key before the erasure or before its commit, or the erasure is dropped after its statement.
#[test]
fn a_process_reads_no_rows_of_groups_that_it_has_erased() -> Result {
    let mut world = World::<InThree>::with(keyring()?, false)?;
    let table = world.tables[0].clone();
    world.put_all(&table, &Vec::from_iter((0..3).map(|key| (id(key.into()), value(key)))))?;
    let first = [id(0)];
    let mut slow = SteppedCall::new(table.get(&first), OUTSIDE);
    world.step(&mut slow)?;
    let key = world.run(slow.statement().ok_or("it reads the key")?)?;
    world.finish_outside(table.erase(Group::new(0)))?;
    slow.answer(key);
    assert_eq!(world.end(slow)?, [Some(value(0))]);
    assert_eq!(world.read_outside(&table, 0)?, None);

    world.execute("CREATE TABLE before AS SELECT * FROM entries_keys")?;
    world.finish(table.erase(Group::new(1)))?;
    world.execute("CREATE TABLE after AS SELECT * FROM entries_keys")?;
    for (shown, found) in [("before", Some(value(1))), ("after", None)] {
        world.execute(&format!(
            "DELETE FROM entries_keys; INSERT INTO entries_keys SELECT * FROM {shown}"
        ))?;
        assert_eq!(world.read_outside(&table, 1)?, found, "{shown} the commit");
    }

    assert_eq!(world.read_outside(&table, 2)?, Some(value(2)));
    let erasure = SteppedCall::new(table.erase(Group::new(2)), OUTSIDE);
    world.run(erasure.statement().ok_or("it erases")?)?;
    drop(erasure);
    assert_eq!(world.read_outside(&table, 2)?, None);
    Ok(())
}

/// On MySQL at READ COMMITTED, a locking read that waits for a pack sees its split, but not the new packs.
#[test]
fn an_update_that_has_waited_for_a_split_reads_again() -> Result {
    let (mut world, table) = World::with_table()?;
    for key in 0..10 {
        world.put(&table, key.into(), &value(key))?;
    }
    let change = |before: Option<Vec<u8>>| {
        assert_eq!(before.as_deref().map(number), Some(9));
        Update::Put(value(10))
    };
    let mut update = SteppedCall::new(table.update(id(9), change), INSIDE);
    world.merge(&table)?;
    let first = answer_of(&mut world, table.update(id(0), |_| Update::Keep))?;
    update.answer(first);
    world.end(update)?;
    assert_eq!(world.read(&table, 9)?, Some(10));
    Ok(())
}

/// Another merger splits the packs of this merger, or writes them first.
#[test]
fn a_merger_moves_all_rows_or_says_how_many_are_left() -> Result {
    for steps in 1..12 {
        let mut world = World::new(false)?;
        let [slow_table, fast_table] = [0, 1].map(|i| world.tables[i].clone());
        let rows: Vec<_> = (0..200).map(|key| (id(key), value(7))).collect();
        world.put_all(&slow_table, &rows)?;
        let mut slow = SteppedCall::new(slow_table.merge(true), OUTSIDE);
        for _ in 0..steps {
            world.step(&mut slow)?;
        }
        // The merger is dropped half-way and has split packs.
        let mut fast = SteppedCall::new(fast_table.merge(true), OUTSIDE);
        for _ in 0..5 {
            world.step(&mut fast)?;
        }
        drop(fast);
        let merged = world.end(slow)?;
        assert_eq!(merged.rows_left, 0, "after {steps} statements");
        assert_eq!(world.count("entries_recent")?, 0, "after {steps} statements");
    }
    Ok(())
}

/// A crash removes a dictionary, and another client uses its number again. Or the server has kept both.
#[test]
fn another_dictionary_of_the_same_number_changes_no_value() -> Result {
    let line = |key: i64, word: &str| {
        format!(r#"{{"actor":"user {key:06}","role":"{word}","agent":"Mozilla/5.0 (X11; Linux x86_64; rv:109.0)"}}"#)
            .into_bytes()
    };
    let rows = |word| (0..2_000).map(|key| (id(key), line(key, word))).collect::<Vec<_>>();
    let (mut world, first) = World::with_table()?;
    let second = world.table(None)?;
    world.put_all(&first, &rows("admin"))?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish_outside(first.train(1_024))?;
    world.execute("DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM kept")?;
    world.put_all(&second, &rows("guest"))?;
    world.finish_outside(second.train(1_024))?;
    // This row needs the lost dictionary.
    world.put_all(&first, &[(id(7), line(7, "admin"))])?;
    assert!(world.read_outside(&second, 7).is_err());
    let fresh = world.table(None)?;
    assert!(world.read_outside(&fresh, 7).is_err());
    // A client that opens the table again forgets the dictionary and writes with the table's own.
    world.finish_outside(fresh.configure(Settings::default()))?;
    world.finish_outside(first.configure(Settings::default()))?;
    world.put_all(&first, &[(id(7), line(7, "admin"))])?;
    assert_eq!(world.read_outside(&fresh, 7)?, Some(line(7, "admin")));
    Ok(())
}

/// The table has an unreadable dictionary that nothing uses, and settings that a transaction sees in an old state.
#[test]
fn settings_are_changed_or_the_call_ends() -> Result {
    let (mut world, table) = World::with_table()?;
    world.put_all(&table, &similar_rows())?;
    world.execute("INSERT INTO entries_meta VALUES (3, 1, x'00')")?;
    world.finish_outside(table.train(1_024))?;
    assert_eq!(world.count("entries_meta WHERE id = 4")?, 1);
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta WHERE id = 0")?;
    world.finish_outside(table.configure(Settings::default().pack_bytes(15_960)))?;
    let old = "UPDATE entries_meta SET version = kept.version, body = kept.body FROM kept WHERE entries_meta.id = kept.id";
    world.execute(old)?;
    // The settings are older than this client knows.
    let ended = refusal(world.finish(table.configure(Settings::default())))?;
    assert_eq!(ended, TableError::Outrun);
    Ok(())
}

#[test]
fn a_deletion_waits_no_longer_than_the_settings_say() -> Result {
    let (mut world, table) = World::with_table()?;
    let settings = Settings::default().pack_bytes(4_000);
    world.finish(table.configure(settings.clone()))?;
    for key in 0..9 {
        world.put(&table, key, &value(1))?;
    }
    world.merge(&table)?;
    let merge = |world: &mut World| -> Result<(u64, u64)> {
        let merged = world.finish(table.merge(false))?;
        Ok((merged.rows, merged.rows_left))
    };
    world.finish(table.delete(&[id(3)]))?;
    for _ in 0..2 {
        assert_eq!(merge(&mut world)?, (0, 1), "it waits for an hour");
    }
    let at_once = settings.erase_after(Duration::ZERO);
    world.finish(table.configure(at_once))?;
    assert_eq!(merge(&mut world)?, (1, 0));
    // A row that is no deletion waits for more rows, and moves together with a deletion.
    world.put(&table, 4, &value(2))?;
    for _ in 0..2 {
        assert_eq!(merge(&mut world)?, (0, 1));
    }
    world.finish(table.delete(&[id(5)]))?;
    assert_eq!(merge(&mut world)?, (2, 0));
    assert_eq!((world.read(&table, 3)?, world.read(&table, 4)?), (None, Some(2)));

    // More rows than one statement reads precede the deletion. Together they are less than a quarter of the largest pack.
    let largest = Settings::default().pack_bytes(1 << 20).erase_after(Duration::ZERO);
    world.finish(table.configure(largest))?;
    let rows: Vec<_> = (0..1_900).map(|key| (id(key), vec![0; 4])).collect();
    world.put_all(&table, &rows)?;
    world.merge(&table)?;
    world.put_all(&table, &rows[..900])?;
    assert_eq!(merge(&mut world)?, (0, 900));
    world.put_all(&table, &rows[..1_500])?;
    world.finish(table.delete(&[id(1_899)]))?;
    assert_eq!(merge(&mut world)?, (1_501, 0));
    assert_eq!(world.read(&table, 1_899)?, None);
    Ok(())
}

/// The range is larger than a page and has rows of both tiers.
#[test]
fn a_range_is_deleted() -> Result {
    for is_written_through in [false, true] {
        let mut world = World::new(is_written_through)?;
        let table = world.tables[0].clone();
        let rows: Vec<_> = (0..3_000).map(|key| (id(key), value(7))).collect();
        world.put_all(&table, &rows)?;
        world.merge(&table)?;
        world.put(&table, 2_000, &value(8))?;
        world.put(&table, 3_000, &value(9))?;
        let delete = || table.delete_range(IdRange::all().within(1_000..=2_999));
        assert_eq!(world.finish_outside(delete())?, 2_000);
        for (key, found) in
            [(999, Some(7)), (1_000, None), (2_000, None), (2_999, None), (3_000, Some(9))]
        {
            assert_eq!(world.read(&table, key)?, found, "{key}");
        }
        world.merge(&table)?;
        assert_eq!((world.count("entries_recent")?, world.read(&table, 2_000)?), (0, None));
        assert_eq!(world.finish_outside(delete())?, 0);
    }
    Ok(())
}

#[test]
fn rows_beside_one_that_cannot_be_read_are_merged() -> Result {
    let (mut world, table) = World::with_table()?;
    for key in 0..20 {
        world.put(&table, key, &value(7))?;
    }
    world.execute("UPDATE entries_recent SET version = version - 1 WHERE id = 7")?;
    for _ in 0..2 {
        let refused = refusal(world.merge(&table))?;
        assert!(matches!(refused, TableError::Unreadable { .. }), "{refused}");
        assert_eq!(world.count("entries_recent")?, 1);
    }
    world.finish(table.delete(&[id(7)]))?;
    assert_eq!(world.merge(&table)?.rows, 1);
    Ok(())
}

/// On MySQL, a transaction sees the current state of a pack that it has written through, and the initial state of the others.
#[test]
fn packs_that_were_split_since_a_transaction_began_are_no_gaps() -> Result {
    let mut world = World::new(true)?;
    let table = world.tables[0].clone();
    for key in 0..10 {
        world.put(&table, key.into(), &value(7 + key))?;
    }
    let Answer::Rows(mut rows) = answer_of(&mut world, table.get(&[id(0)]))? else {
        return Err("it reads".into());
    };
    // The pack claims to be the only one.
    rows[0][4] = rows[0][1].clone();
    let mixture = Answer::Rows(rows);
    let nine = [id(9)];
    let refused = |connection, is_page| {
        let mut pages = table.scan();
        let call = match is_page {
            true => table.next_page(&mut pages).map(drop),
            false => table.get(&nine).map(drop),
        };
        let mut running = SteppedCall::new(call, connection);
        running.answer(mixture.clone());
        refusal(running.result())
    };
    let in_mysql = ConnectionState { dialect: Dialect::MySql, ..INSIDE };
    for is_page in [false, true] {
        assert_eq!(refused(in_mysql, is_page)?, TableError::Outrun);
    }
    // A client that changes the row reads the current one.
    let mut update = SteppedCall::new(table.update(id(9), |_| Update::Put(value(1))), in_mysql);
    update.answer(mixture.clone());
    assert!(update.statement().ok_or("it reads again")?.sql.contains("FOR UPDATE"));
    update.answer(mixture.clone());
    assert!(matches!(update.state, Suspended::Ended(Err(TableError::Outrun))));
    let in_postgres = ConnectionState { dialect: Dialect::Postgres, ..INSIDE };
    for connection in [ConnectionState { is_in_transaction: false, ..in_mysql }, in_postgres] {
        let refused = refused(connection, false)?;
        assert!(matches!(refused, TableError::Gap { .. }), "{refused}");
    }
    Ok(())
}

/// Rows that a transaction has locked stay, even if they are more than a merger reads at once. The rows behind them are merged.
#[test]
fn rows_behind_locked_ones_are_merged() -> Result {
    const LOCKED: i64 = 20;
    let (mut world, table) = World::with_table()?;
    world.finish(table.configure(Settings::default().pack_bytes(1 << 20)))?;
    let mut random = Random(7);
    for key in 0..2 * LOCKED {
        world.put(&table, key, &noise(&mut random, 20_000))?;
    }
    let same = "r.version = l.version";
    let unlocked = format!("{same} AND r.id >= {LOCKED}");
    for _ in 0..2 {
        let merge = SteppedCall::new(table.merge(true), OUTSIDE);
        let (merged, _) = world.end_with(merge, |world, statement| {
            let sql = statement.sql.replace(same, &unlocked).into();
            world.run(&Statement { sql, ..statement.clone() })
        })?;
        assert_eq!(world.count("entries_recent")?, LOCKED);
        assert_eq!(merged.rows_left, 20);
    }
    Ok(())
}

const UNCHANGED: Answer = Answer::Changed { rows: 0, insert_id: None };

/// Merges the packs that have enough rows, while another client has locked all packs or none.
fn merge_beside_locks(world: &mut World, table: &Table, is_locked: bool) -> Result<Merged> {
    let merge = SteppedCall::new(table.merge(false), OUTSIDE);
    let (merged, _) = world.end_with(merge, |world, statement| {
        match is_locked && statement.sql.contains("UPDATE entries_packs") {
            true => Ok(UNCHANGED),
            false => world.run(statement),
        }
    })?;
    Ok(merged)
}

/// The pack of an overdue deletion may be locked when the merger comes.
#[test]
fn a_locked_pack_does_not_postpone_a_deletion() -> Result {
    let (mut world, table) = World::with_table()?;
    let second = Duration::from_secs(1);
    let settings = Settings::default().pack_bytes(4_000).erase_after(second);
    world.finish_outside(table.configure(settings))?;
    world.put_all(&table, &Vec::from_iter((0..9).map(|key| (id(key), value(1)))))?;
    world.merge(&table)?;
    world.finish(table.delete(&[id(3)]))?;
    assert_eq!(merge_beside_locks(&mut world, &table, false)?.rows_left, 1);
    std::thread::sleep(second);
    assert_eq!(merge_beside_locks(&mut world, &table, true)?.rows_left, 1);
    assert_eq!(merge_beside_locks(&mut world, &table, false)?.rows_left, 0);
    Ok(())
}

/// A pack has a header, so it is a little longer than its only row.
#[test]
fn the_longest_value_can_be_merged() -> Result {
    let bytes = noise(&mut Random(1), 4 << 20);
    for is_written_through in [false, true] {
        let mut world = World::new(is_written_through)?;
        let table = world.tables[0].clone();
        let (mut longest, mut too_long) = (1 << 20, bytes.len());
        while longest + 1 < too_long {
            let len = longest.midpoint(too_long);
            match world.put(&table, 7, &bytes[..len].to_owned()) {
                Ok(()) => longest = len,
                Err(_) => too_long = len,
            }
        }
        assert!((3_000_000..3 << 20).contains(&longest), "{longest}");
        world.put_all(&table, &[(id(3), value(3)), (id(8), value(8))])?;
        assert_eq!(world.merge(&table)?.rows_left, 0);
        world.finish_outside(table.rekey(None, None, |_| {}))?;
        assert_eq!(world.read_outside(&table, 7)?.map(|value| value.len()), Some(longest));
    }
    Ok(())
}

/// Each statement may lose a race against a client that re-encrypts the groups' keys.
#[test]
fn many_rows_of_groups_are_written_although_each_statement_is_lost_once() -> Result {
    let mut world = World::<InThree>::with(keyring()?, false)?;
    let table = world.tables[0].clone();
    let rows = Vec::from_iter((0..12_000).map(|key| (id(key.into()), value(key % 3))));
    let put = table.put(rows.iter().map(|(id, value)| (*id, value)));
    let mut lost = 0;
    world.end_with(SteppedCall::new(put, INSIDE), |world, statement| {
        let is_write = statement.sql.contains("INTO entries_recent");
        lost += u32::from(is_write);
        if is_write && lost % 2 == 1 { Ok(UNCHANGED) } else { world.run(statement) }
    })?;
    assert!(lost > 22, "{lost}");
    assert_eq!(world.count("entries_recent")?, 12_000);
    Ok(())
}

/// The caller may roll back a transaction, so no dictionary is trained in one. It may have opened a table.
#[test]
fn settings_of_a_transaction_that_was_rolled_back_are_forgotten() -> Result {
    let (mut world, table) = World::with_table()?;
    world.put_all(&table, &similar_rows())?;
    let refused = refusal(world.end(SteppedCall::new(table.train(1_024), INSIDE)))?.to_string();
    assert!(refused.contains("expected `train` outside of a transaction"), "{refused}");

    let settings = Some(Settings::default());
    let keyring = SharedKeyring::from(&world.keyring);
    let open_grouped = Table::<InThree>::open(keyring.clone(), "grouped".into(), settings.clone());
    world.execute(&create_sql::<InThree>("grouped"))?;
    let refused = refusal(world.finish(open_grouped?))?.to_string();
    assert!(refused.contains("expected the first `open` outside of a transaction"), "{refused}");

    let open = || Table::<Raw>::open(keyring.clone(), "plain".into(), settings.clone());
    world.execute(&create_sql::<Raw>("plain"))?;
    world.execute("BEGIN")?;
    let table = world.finish(open()?)?;
    world.finish(table.put([(id(1), &value(1))]))?;
    world.execute("ROLLBACK")?;
    for connection in [INSIDE, OUTSIDE] {
        let put = table.put([(id(1), &value(1))]);
        let refused = refusal(world.end(SteppedCall::new(put, connection)))?;
        assert!(matches!(refused, TableError::NotCreated { .. }), "{refused}");
    }
    world.finish_outside(open()?)?;
    world.finish_outside(table.put([(id(1), &value(1))]))?;
    Ok(())
}

/// The metric also counts rows of a locked pack and rows of keys without a pack.
#[test]
fn all_rows_that_stay_are_counted() -> Result {
    const ROWS: u32 = 2_500;
    let (mut world, table) = World::with_table()?;
    let rows = |first| Vec::from_iter((0..ROWS).map(|i| (id(first + i64::from(i)), value(i))));
    world.put_all(&table, &rows(0))?;
    let merge = SteppedCall::new(table.merge(true), OUTSIDE);
    let (merged, statements) =
        world.end_with(merge, |world, statement| match statement.columns.is_empty() {
            true => Ok(UNCHANGED),
            false => world.run(statement),
        })?;
    assert_eq!((merged.rows, merged.rows_left), (0, ROWS.into()));
    assert_eq!((merged.packs_left, merged.packs_stuck), (1, 1));
    // A survey, a read and a write happen twice because the pack may have changed meanwhile.
    assert_eq!(statements, 6);

    world.merge(&table)?;
    world.execute("DELETE FROM entries_packs WHERE id > 2000")?;
    world.put_all(&table, &rows(1_990))?;
    let missing = refusal(world.merge(&table))?;
    assert!(matches!(missing, TableError::Gap { .. }), "{missing}");
    let left = world.count("entries_recent")?;
    assert!((i64::from(ROWS) - 20..i64::from(ROWS)).contains(&left), "{left}");
    Ok(())
}

/// The metrics and `merge_every` report the age of unmerged rows.
#[test]
fn unmerged_rows_are_counted_and_have_an_age() -> Result {
    let (mut world, table) = World::with_table()?;
    world.finish(table.configure(Settings::default().pack_bytes(4_000)))?;
    let rows = Vec::from_iter((0..100).map(|key| (id(key.into()), value(key))));
    world.put_all(&table, &rows)?;
    world.merge(&table)?;
    let merge = |world: &mut World, is_locked| merge_beside_locks(world, &table, is_locked);
    let packs = |merged: &Merged| (merged.packs_left, merged.packs_stuck);
    // The rows belong to two packs.
    world.put_all(&table, &[rows[0].clone(), rows[99].clone()])?;
    let first = merge(&mut world, false)?;
    assert_eq!((packs(&first), first.left_for), ((2, 0), Duration::ZERO));
    let second = merge(&mut world, false)?;
    assert_eq!((packs(&second), second.stuck_for), ((2, 0), Duration::ZERO));
    assert!(second.left_for > Duration::ZERO);
    // One pack has enough rows and is locked.
    world.put_all(&table, &rows[..10])?;
    let third = merge(&mut world, true)?;
    assert_eq!((packs(&third), third.stuck_for), ((2, 1), Duration::ZERO));
    let fourth = merge(&mut world, true)?;
    assert_eq!(packs(&fourth), (2, 1));
    assert!(fourth.left_for > second.left_for && fourth.stuck_for > Duration::ZERO);
    assert!(fourth.left_for > fourth.stuck_for);
    let fifth = merge(&mut world, false)?;
    assert_eq!((packs(&fifth), fifth.stuck_for), ((1, 0), Duration::ZERO));
    world.merge(&table)?;
    world.put(&table, 0, &value(7))?;
    assert_eq!(merge(&mut world, false)?.left_for, Duration::ZERO);
    Ok(())
}

/// A merger that finds unknown settings or dictionaries reads them before it writes.
#[test]
fn a_merger_follows_the_settings_of_the_table() -> Result {
    let (mut world, table) = World::with_table()?;
    let other = world.table(None)?;
    let merge = |world: &mut World, table: &Table| -> Result<usize> {
        Ok(world.end_with(SteppedCall::new(table.merge(true), OUTSIDE), World::run)?.1)
    };
    world.finish(other.configure(Settings::default().pack_bytes(15_960)))?;
    assert_ne!(table.settings(), Settings::default().pack_bytes(15_960));
    assert_eq!(merge(&mut world, &table)?, 3, "a survey, the settings, a survey");
    assert_eq!(table.settings(), Settings::default().pack_bytes(15_960));
    assert_eq!(merge(&mut world, &table)?, 1);

    let rows = similar_rows();
    world.put_all(&table, &rows)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish_outside(table.train(1_024))?;
    // A failover loses the dictionary, and rows are written with it until the next merge.
    let lose = "DELETE FROM entries_meta; INSERT INTO entries_meta SELECT * FROM kept";
    world.execute(lose)?;
    world.put_all(&table, &rows[..3])?;
    let fresh = world.table(None)?;
    assert!(world.read_outside(&fresh, 2).is_err());
    merge(&mut world, &table)?;
    for client in [&fresh, &world.table(None)?] {
        assert_eq!(world.read_outside(client, 2)?, Some(similar(2)));
    }

    // Another client has trained a dictionary with the lost one's number.
    let (mut world, table) = World::with_table()?;
    let other = world.table(None)?;
    world.put_all(&table, &rows)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish_outside(table.train(1_024))?;
    world.execute(lose)?;
    world.finish_outside(other.train(1_024))?;
    merge(&mut world, &table)?;
    world.put_all(&table, &rows[..3])?;
    for client in [&other, &world.table(None)?] {
        assert_eq!(world.read_outside(client, 2)?, Some(similar(2)));
    }
    assert_eq!(world.merge(&other)?.rows, 3);
    Ok(())
}

#[test]
fn packs_that_are_split_while_they_are_verified_are_no_gaps() -> Result {
    let (mut world, table) = World::with_table()?;
    let put = |world: &mut World, keys: std::ops::Range<i64>, step_by| -> Result {
        for key in keys.step_by(step_by) {
            world.put(&table, key, &value(u32::try_from(key)?))?;
        }
        world.merge(&table).map(drop)
    };
    put(&mut world, 0..10_000, 25)?;
    let mut verify = SteppedCall::new(table.verify(None, None, |_| {}), OUTSIDE);
    // The pack at the end of the last page is split, and so is a pack that was already read.
    for key in (0..10_000).step_by(97) {
        if !world.step(&mut verify)? {
            break;
        }
        put(&mut world, key..key + 20, 3)?;
        put(&mut world, 0..10_000, 25 + usize::try_from(key)? % 7)?;
    }
    let verified = world.end(verify)?;
    assert_eq!(verified.problems, []);
    assert!(verified.packs > 128);
    Ok(())
}

/// SECURITY.md says that a reader cannot check the order of recent rows.
#[test]
fn a_recent_row_that_is_put_back_is_believed() -> Result {
    let (mut world, table) = World::with_table()?;
    let read = |world: &mut World| -> Result<Option<u32>> {
        Ok(world.read_outside(&table, 1)?.as_deref().map(number))
    };
    for (old, is_deleted) in [(Some(1), false), (None, true)] {
        match is_deleted {
            false => world.put(&table, 1, &value(1))?,
            true => world.finish(table.delete(&[id(1)]))?,
        }
        world.execute("CREATE TABLE kept AS SELECT * FROM entries_recent")?;
        world.put(&table, 1, &value(2))?;
        world.merge(&table)?;
        assert_eq!(read(&mut world)?, Some(2));
        world.execute("INSERT INTO entries_recent SELECT * FROM kept; DROP TABLE kept")?;
        assert_eq!(read(&mut world)?, old);
        world.merge(&table)?;
        assert_eq!(read(&mut world)?, old);
    }
    Ok(())
}

/// The settings were deleted and written again, or restored from before a dictionary was trained.
#[test]
fn settings_that_are_older_than_the_rows_are_noticed() -> Result {
    let (mut world, table) = World::with_table()?;
    let rows = similar_rows();
    world.put_all(&table, &rows)?;
    world.execute("CREATE TABLE kept AS SELECT * FROM entries_meta")?;
    world.finish_outside(table.train(1_024))?;
    world.put_all(&table, &rows[..3])?;
    let verify = |world: &mut World| -> Result<Vec<TableError>> {
        let fresh = world.table(None)?;
        world.problems(&fresh)
    };
    assert_eq!(verify(&mut world)?, []);
    world.execute(
        "DELETE FROM entries_meta WHERE id = 0; INSERT INTO entries_meta SELECT * FROM kept",
    )?;
    let problems = verify(&mut world)?;
    let [TableError::Settings { reason, .. }] = &problems[..] else {
        panic!("expected a problem of the settings, found {problems:?}");
    };
    assert!(reason.contains("expected dictionary 1"), "{reason}");
    Ok(())
}

/// Runs a call on a server that loses the commit of one of its statements, for each of them. Rows of group 2 may be lost.
fn lose_each_commit<E: Encoding<Vec<u8>>>(
    start: impl Fn(&Table<E>) -> PackCall<'static, ()>,
) -> Result<usize> {
    let tables = ["packs", "recent", "meta", "keys"];
    let tables = &tables[..if E::IS_GROUPED { 4 } else { 3 }];
    let copy = |world: &mut World<E>, from: &str, to: &str| {
        tables.iter().try_for_each(|table| {
            world.execute(&format!(
                "CREATE TABLE IF NOT EXISTS {to}_{table} AS SELECT * FROM {from}_{table};
                 DELETE FROM {to}_{table}; INSERT INTO {to}_{table} SELECT * FROM {from}_{table}"
            ))
        })
    };
    let rows = (0..2_000).filter(|key| !E::IS_GROUPED || key % 3 < 2);
    let rows = Vec::from_iter(rows.map(|key: u32| (id(key.into()), numbered(key))));
    let ids = Vec::from_iter(rows.iter().map(|(id, _)| *id));
    let mut world = World::<E>::with(keyring()?, false)?;
    let table = world.table(None)?;
    world.finish_outside(table.configure(Settings::default()))?;
    let (packed, recent) = rows.split_at(rows.len() / 2);
    world.put_all(&table, packed)?;
    for _ in 0..2 {
        if !E::IS_GROUPED {
            world.finish_outside(table.train(1_024))?;
        }
        world.merge(&table)?;
    }
    world.put_all(&table, recent)?;
    copy(&mut world, "entries", "base")?;
    for lost in 0.. {
        copy(&mut world, "base", "entries")?;
        let table = world.table(None)?;
        let mut call = SteppedCall::new(start(&table), OUTSIDE);
        for _ in 0..lost {
            world.step(&mut call)?;
        }
        copy(&mut world, "entries", "before")?;
        if !world.step(&mut call)? {
            return Ok(lost);
        }
        copy(&mut world, "before", "entries")?;
        // The call may fail.
        let ended = world.end(call).map_err(|problem| problem.to_string());
        let table = world.table(None).map_err(|problem| format!("{lost}, {ended:?}: {problem}"))?;
        let found = world.finish_outside(table.get(&ids))?;
        let is_kept =
            |(found, (_, value)): (&Option<Vec<u8>>, &(_, Vec<u8>))| found.as_ref() == Some(value);
        assert!(found.iter().zip(&rows).all(is_kept), "{lost}, {ended:?}");
    }
    unreachable!()
}

/// After an asynchronous failover, a pooler may move a call to such a server.
#[test]
fn a_server_that_has_lost_a_commit_loses_no_other_row() -> Result {
    const NOW: Option<Duration> = Some(Duration::ZERO);
    let (key, value) = (id(2), &numbered(2));
    let statements = [
        lose_each_commit::<Raw>(|table| table.put([(key, value)]).map(drop))?,
        lose_each_commit::<InThree>(|table| table.put([(key, value)]).map(drop))?,
        lose_each_commit::<Raw>(|table| table.merge(true).map(drop))?,
        lose_each_commit::<InThree>(|table| table.merge(true).map(drop))?,
        lose_each_commit::<Raw>(|table| table.rekey(None, None, |_| {}).map(drop))?,
        lose_each_commit::<Raw>(|table| table.rekey(None, NOW, |_| {}).map(drop))?,
        lose_each_commit::<InThree>(|table| table.rekey(None, NOW, |_| {}).map(drop))?,
        lose_each_commit::<InThree>(|table| table.erase(Group::new(2)).map(drop))?,
        lose_each_commit::<Raw>(|table| table.train(1_024).map(drop))?,
    ];
    println!("{statements:?}");
    Ok(())
}

/// Returns a value that has its number and most bytes in common with others.
fn numbered(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &similar(number.into())].concat()
}
