//! The order of statements, for every answer that a database may give.

use super::super::Index;
use super::*;
use crate::call::{Driver, RunError, Step};
use crate::dialect::Failure;
use crate::statement::Column;

const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite];

/// A table whose column an earlier call has checked.
fn table(index: Index) -> Table {
    let table = Table::new("order_ids", index);
    table.column_is_checked();
    table
}

fn uuids(count: u128) -> Vec<Uuid> {
    (0..count).map(Uuid::from_u128).collect()
}

/// Runs the call against a table with the rows `known`, until it is done, as an ORM that does not return the last
/// insert id.
fn run(call: &mut MappingCall, dialect: Dialect, known: &mut Vec<(i64, Uuid)>) -> usize {
    let mut steps = 0;
    while let Some(statement) = call.next(dialect) {
        steps += 1;
        if call.next == Next::CheckServer || call.checks_column(dialect) {
            let answer = call.answer(dialect, false, Answer::Rows(Vec::new()));
            answer.expect("no refusal");
            continue;
        }
        if matches!(call.next, Next::Insert | Next::LockAndInsert) {
            for uuid in call.table.insertion_order(&call.missing) {
                if known.iter().all(|row| row.1 != uuid) {
                    let id = known.iter().map(|row| row.0).max().unwrap_or(0) + 1;
                    known.push((id, uuid));
                }
            }
        }
        let part = call.missing.part(call.passed, longest_list(dialect));
        let rows = known.iter().filter(|row| part.contains(&row.1));
        let rows = rows.map(|(id, uuid)| vec![Cell::Integer(*id), Cell::Uuid(*uuid)]);
        let answer = match statement.columns {
            [] => Answer::Changed { rows: 1, insert_id: None },
            _ => Answer::Rows(rows.collect()),
        };
        call.answer(dialect, false, answer).expect("no refusal");
    }
    steps
}

#[test]
fn known_ids_need_one_statement() {
    for dialect in DIALECTS {
        let mut known: Vec<_> = (1..).zip(uuids(10)).collect();
        let all = || table(Index::Unique);
        let asked = uuids(10);
        for mut call in [
            MappingCall::find(all(), asked.clone()),
            MappingCall::get_or_insert(all(), asked.clone()),
        ] {
            assert_eq!(run(&mut call, dialect, &mut known), 1);
            assert_eq!(call.into_found().len(), 10);
        }
        let mut nothing = MappingCall::find(all(), Vec::new());
        assert_eq!(run(&mut nothing, dialect, &mut known), 0);
    }
}

/// Literals for a list of any length would make MySQL read the whole index.
#[test]
fn a_long_list_is_searched_and_deleted_in_parts() {
    let parts = 3;
    let len = (parts - 1) * longest_list(Dialect::MySql) + 7;
    let all = uuids(len as u128);
    let mut known: Vec<_> = (1..).zip(all.iter().copied().skip(1)).step_by(2).collect();
    let expected = known.clone();
    let mut find = MappingCall::find(table(Index::Unique), all.clone());
    assert_eq!(run(&mut find, Dialect::MySql, &mut known), parts);
    let mut found = find.into_found();
    found.sort_unstable();
    assert_eq!(found, expected);

    let mut delete = MappingCall::delete(table(Index::Unique), all);
    assert_eq!(run(&mut delete, Dialect::MySql, &mut known), parts);
    assert_eq!(delete.count(), 3);

    let mut back = MappingCall::to_external(table(Index::Unique), (0..1_000 * 2).collect());
    assert_eq!(run(&mut back, Dialect::MySql, &mut known), parts);
}

#[test]
fn new_ids_are_inserted_once() {
    for index in [Index::Unique, Index::Hashed] {
        for dialect in DIALECTS {
            let table = table(index);
            let mut known = Vec::new();
            let mut first = MappingCall::get_or_insert(table.clone(), vec![Uuid::max()]);
            run(&mut first, dialect, &mut known);
            // Checks of the first call are done.
            let mut call = MappingCall::get_or_insert(table, uuids(5));
            let steps = run(&mut call, dialect, &mut known);
            let expected = match (dialect, index) {
                (Dialect::MySql, _) | (Dialect::Postgres, Index::Hashed) => 3,
                _ => 2,
            };
            assert_eq!(steps, expected, "{dialect:?} {index}");
            let mut found = call.into_found();
            found.sort_unstable();
            assert_eq!(found, known[1..]);
        }
    }
}

/// The integers between the first and the last of a list are not guessed if another insert may be there.
#[test]
fn a_list_with_a_gap_is_read() {
    let mut call = MappingCall::issue(table(Index::Unique), uuids(3));
    let mut rows: Vec<_> = [1, 2, 4].into_iter().zip(uuids(3)).collect();
    assert_eq!(run(&mut call, Dialect::MySql, &mut rows), 3);
    assert_eq!(call.into_found(), rows);
}

/// Others have deleted the first and the last, and inserted them again with another id between.
#[test]
fn a_list_whose_ends_are_inserted_again_is_read() {
    for insert_id in [Some(1), None] {
        let [a, b, c] = [0, 1, 2].map(Uuid::from_u128);
        let mut call = MappingCall::get_or_insert(table(Index::Unique), vec![a, b, c]);
        while call.next != Next::Insert {
            let nothing = call.answer(Dialect::MySql, false, Answer::Rows(Vec::new()));
            nothing.expect("no refusal");
        }
        let rows = 3;
        let inserted = call.answer(Dialect::MySql, false, Answer::Changed { rows, insert_id });
        inserted.expect("no refusal");
        let mut known = vec![(4, a), (2, b), (6, c)];
        run(&mut call, Dialect::MySql, &mut known);
        assert_eq!(call.into_found(), known);
    }
}

/// Whatever integers a server returns.
#[test]
fn a_list_at_the_ends_of_the_integers_is_read_or_known() {
    const MAX: i64 = i64::MAX;
    for (ids, steps) in [([MAX - 2, MAX - 1, MAX], 2), ([i64::MIN, 0, MAX], 3), ([3, 2, 1], 3)] {
        let mut call = MappingCall::issue(table(Index::Unique), uuids(3));
        let mut rows: Vec<_> = ids.into_iter().zip(uuids(3)).collect();
        assert_eq!(run(&mut call, Dialect::MySql, &mut rows), steps);
        assert_eq!(call.into_found(), rows);
    }
}

#[test]
fn the_last_insert_id_is_the_integer_of_the_only_id() {
    let mut call = MappingCall::issue(table(Index::Unique), uuids(1));
    let inserted = Answer::Changed { rows: 1, insert_id: Some(7) };
    call.answer(Dialect::MySql, true, inserted).expect("no refusal");
    assert!(call.is_done());
    assert_eq!(call.into_found(), [(7, Uuid::nil())]);
}

#[test]
fn ids_that_others_always_delete_are_given_up() {
    let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids(1));
    let mut steps = 0;
    while call.next(Dialect::MySql).is_some() {
        steps += 1;
        let nothing = call.answer(Dialect::MySql, false, Answer::Rows(Vec::new()));
        nothing.expect("no refusal");
    }
    assert!(steps < 100 && call.into_found().is_empty());
}

/// As when the integers are used up: the row that is in the way is another's.
#[test]
fn a_key_that_is_never_found_is_an_error() {
    let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids(1));
    let mut driver = Driver::new(&mut call, Dialect::MySql, false);
    let nothing = || Ok::<_, &str>(Answer::Rows(Vec::new()));
    for _ in 0..100 {
        let statement = match driver.next_step() {
            Some(Step::Run(statement)) => statement,
            Some(Step::Wait(_)) => continue,
            None => panic!("expected another statement"),
        };
        let answer = match statement.columns {
            [] => Err("1062"),
            _ => nothing(),
        };
        match driver.answer(answer.map_err(|error| (error, Failure::Duplicate))) {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, RunError::Call(MappingError::Counter { .. })));
                return;
            }
        }
    }
    panic!("expected an error");
}

/// Each of which is in the way of an insert.
#[test]
fn a_list_that_others_insert_one_by_one_is_found() {
    let uuids = uuids(30);
    let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids.clone());
    let mut driver = Driver::new(&mut call, Dialect::MySql, false);
    let mut known = Vec::new();
    while let Some(Step::Run(statement)) = driver.next_step() {
        let answer = match statement.columns {
            [] => {
                known.push(uuids[known.len()]);
                Err("1062")
            }
            [Column::Text] => Ok(Answer::Rows(Vec::new())),
            _ => {
                let rows = (1..).zip(&known);
                let row = |(id, uuid): (i64, &Uuid)| vec![Cell::Integer(id), Cell::Uuid(*uuid)];
                Ok(Answer::Rows(rows.map(row).collect()))
            }
        };
        let answered = driver.answer(answer.map_err(|error| (error, Failure::Duplicate)));
        answered.expect("no error");
    }
    assert_eq!(known.len(), 30);
}

/// Others delete what was inserted, or it is not visible yet.
#[test]
fn an_insert_without_effect_is_not_run_again_at_once() {
    let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids(1));
    let mut driver = Driver::new(&mut call, Dialect::Postgres, false);
    let (mut inserts, mut waits) = (0, 0);
    while let Some(step) = driver.next_step() {
        match step {
            Step::Wait(_) => waits += 1,
            Step::Run(statement) => {
                inserts += u32::from(statement.sql.starts_with("INSERT"));
                let answer = Ok::<_, &str>(Answer::Rows(Vec::new()));
                let answered = driver.answer(answer.map_err(|error| (error, Failure::Other)));
                answered.expect("no error");
            }
        }
    }
    assert_eq!((inserts, waits), (ROUNDS, ROUNDS - 1));
}

#[test]
fn a_lock_that_locks_nothing_is_refused() {
    for (dialect, message) in
        [(Dialect::Postgres, "READ COMMITTED"), (Dialect::MySql, "opaque_id_slots")]
    {
        let mut call = MappingCall::get_or_insert(table(Index::Hashed), uuids(2));
        let nothing = |call: &mut MappingCall| call.answer(dialect, true, Answer::Rows(Vec::new()));
        while call.next != Next::Lock {
            nothing(&mut call).expect("no refusal");
        }
        let refusal = nothing(&mut call).expect_err("no rows");
        let error = super::super::MappingError::<std::fmt::Error>::from(RunError::Call(refusal));
        assert!(error.to_string().contains(message));
    }
}

#[test]
fn a_hashed_index_is_refused_on_a_cluster() {
    for is_in_transaction in [false, true] {
        let mut call = MappingCall::get_or_insert(table(Index::Hashed), uuids(2));
        while call.next != Next::CheckServer {
            let nothing = Answer::Rows(Vec::new());
            let answer = call.answer(Dialect::MySql, is_in_transaction, nothing);
            answer.expect("no refusal");
        }
        let rows = vec![vec![Cell::Text("wsrep_on".to_owned()), Cell::Text("ON".to_owned())]];
        let refused = call.answer(Dialect::MySql, is_in_transaction, Answer::Rows(rows));
        assert!(matches!(refused, Err(MappingError::Cluster { .. })));
    }
}

/// Until there is a row, SQLite's column may still get any type.
#[test]
fn a_column_of_rows_is_checked_until_it_has_one() {
    let rows = Table::of_rows("orders", "id", "public_id");
    let first = |answer: Option<&str>| {
        let mut call = MappingCall::find(rows.clone(), uuids(1));
        let asks = call.checks_column(Dialect::Sqlite);
        let answer = answer
            .map(|found| ["public_id", found].map(|text| Cell::Text(text.to_owned())).to_vec());
        let rows = Answer::Rows(answer.into_iter().collect());
        (asks, call.answer(Dialect::Sqlite, false, rows).is_err())
    };
    assert_eq!(first(Some("null")), (true, false));
    assert_eq!(first(Some("text")), (true, true));
    assert_eq!(first(None), (true, false));
    assert_eq!(first(None), (false, false));
}

/// Two clones check the column and the server at the same time, and one of them is faster.
#[test]
fn what_another_call_has_checked_does_not_end_this_one() {
    for (index, check) in [
        (Index::Unique, Next::Find),
        (Index::Hashed, Next::Find),
        (Index::Hashed, Next::CheckServer),
    ] {
        let table = Table::new("order_ids", index);
        let mut slow = MappingCall::get_or_insert(table.clone(), uuids(1));
        let mut fast = MappingCall::get_or_insert(table, uuids(1));
        for call in [&mut slow, &mut fast] {
            while call.next != check {
                let nothing = Answer::Rows(Vec::new());
                let answer = call.answer(Dialect::MySql, false, nothing);
                answer.expect("no refusal");
            }
            assert!(check != Next::Find || call.checks_column(Dialect::MySql));
        }
        let mut known = Vec::new();
        run(&mut fast, Dialect::MySql, &mut known);
        assert_eq!(fast.into_found(), known);
        run(&mut slow, Dialect::MySql, &mut known);
        assert_eq!(slow.into_found(), known, "{check:?} of {index}");
    }
}

/// Made-up ids, in a list with a real one, or in a call that is dropped: none of them is kept out.
#[test]
fn only_ids_with_a_mapping_are_kept_out_of_a_cache() {
    let now = Instant::now();
    let cache = Arc::new(Cache::new(100));
    let delete =
        |uuids| MappingCall::delete(table(Index::Unique), uuids).evicting(Arc::clone(&cache));
    drop(delete(uuids(10)));

    let mut known = vec![(1, Uuid::from_u128(3))];
    cache.insert_all(&known, true, now, now);
    let mut call = delete(uuids(10));
    assert_eq!(run(&mut call, Dialect::Sqlite, &mut known), 2);
    let all: Vec<_> = (1..).zip(uuids(10)).collect();
    cache.insert_all(&all, true, now, now);
    let served = uuids(10).into_iter().filter(|uuid| cache.id(*uuid).is_some());
    assert_eq!(served.count(), 9);
    assert_eq!(cache.id(Uuid::from_u128(3)), None);
}
