//! Several clients share a table of packs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use opaque_id_packs::{ByKey, Json, Settings, TableError};

use crate::Result;
use crate::conformance::dropped::{Moment, PoolShop};
use crate::conformance::mapping::count;
use crate::conformance::packs::{PackShop, create, fresh, incompressible, teams};
use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::Verdict;
use crate::conformance::shop::{IdOf, from_key, generate};
use crate::database::Database;
use crate::engine::Engine;
use crate::linearizable::{Event, Op, is_linearizable};
use crate::random::Random;

pub(super) async fn packs_in_the_callers_transaction<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    let packs =
        create::<S, S::User, ByKey, Json>(shop, database, Settings::default().pack_bytes(1_900))
            .await?;
    let mut ids: Vec<IdOf<S::User>> = (0..6).map(|_| generate()).collect();
    ids.sort();
    let row = |i: usize, text: &str| (ids[i], text.to_owned());
    shop.put_all(&packs, &[row(0, "a"), row(1, "b"), row(2, "c")]).await?;
    shop.merge_all(&packs).await?;
    for commit in [false, true] {
        let rows = [row(3, "d"), row(4, "e"), row(1, "B")];
        let seen = shop.packs_in_a_transaction(&packs, &rows, ids[0], ids[2], commit).await?;
        let texts = |texts: [Option<&str>; 4]| texts.map(|text| text.map(str::to_owned)).to_vec();
        assert_eq!(seen[..3], texts([Some("d"), Some("e"), Some("B"), None])[..3]);
        let all = match commit {
            false => [Some("a"), Some("b"), Some("c"), None],
            true => [None, Some("B"), Some("c!"), Some("d")],
        };
        assert_eq!(shop.get_all(&packs, &ids[..4]).await?, texts(all));
    }
    Ok(Passed)
}

/// A transaction has written a row and is idle, like the transaction of a debugger or a lost client.
pub(super) async fn packs_beside_an_idle_transaction<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    // SQLite has one writer at a time, and all others wait for it.
    if database.kind == Engine::Sqlite {
        return Ok(NotApplicable);
    }
    let settings = Settings::default().pack_bytes(700);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let rows = |text: &str| teams::<S>(0..400, |key| format!("{text} {}", key.wrapping_pow(19)));
    shop.put_all(&packs, &rows("old")?).await?;
    shop.merge_all(&packs).await?;
    shop.put_all(&packs, &rows("new")?).await?;
    // These are the locks of `put` and `update`: a row, and another row's pack.
    let last = "(SELECT id FROM (SELECT id FROM entries_packs ORDER BY id DESC LIMIT 1) AS last)";
    let idle = format!(
        "BEGIN; SELECT id FROM entries_recent WHERE id = 7 FOR UPDATE; \
         SELECT id FROM entries_packs WHERE id = {last} FOR UPDATE"
    );
    let merge = || {
        S::block_on(async {
            let shop = S::connect(database).await?;
            shop.merge_all(&fresh(&shop).await?).await
        })
    };
    let (merged, waited) = while_idle(database, &idle, merge)?;
    assert!(!waited, "the merger has waited for the transaction");
    let left = count(database, "entries_recent")?;
    assert!((2..100).contains(&left), "{left}");
    let left = left as u64;
    assert_eq!((merged.rows, merged.rows_left), (400 - left, left));
    assert_eq!((merged.packs_left, merged.packs_stuck), (2, 2));
    for (id, value) in rows("new")? {
        assert_eq!(shop.get(&packs, id).await?, Some(value));
    }
    let merged = shop.merge_all(&packs).await?;
    assert_eq!((merged.rows, merged.rows_left), (left, 0));

    // On MySQL, `update` takes these locks in a transaction if another client was faster: a pack, and the ids up to its
    // neighbors, where its new parts would be.
    let mut random = Random(7);
    let long = teams::<S>(0..400, |_| incompressible(&mut random, 100))?;
    shop.put_all(&packs, &long).await?;
    let pack = "SELECT id FROM entries_packs WHERE id <= 200 ORDER BY id DESC LIMIT 1 FOR UPDATE";
    let after = "SELECT id FROM entries_packs WHERE id > 200 ORDER BY id LIMIT 1 FOR UPDATE";
    let (merged, waited) = while_idle(database, &format!("BEGIN; {pack}; {after}"), merge)?;
    assert!(!waited, "the merger has waited for the transaction");
    let left = count(database, "entries_recent")?;
    assert!((2..200).contains(&left), "{left}");
    assert_eq!(merged.rows_left, left as u64);
    assert_eq!(shop.merge_all(&packs).await?.rows_left, 0);
    for (id, value) in long {
        assert_eq!(shop.get(&packs, id).await?, Some(value));
    }
    Ok(Passed)
}

/// Acts while a transaction of another connection is open. Returns whether the transaction timed out because the action waited for it.
fn while_idle<R: Send>(
    database: &Database,
    transaction: &str,
    act: impl FnOnce() -> Result<R> + Send,
) -> Result<(R, bool)> {
    let (begun, begins) = std::sync::mpsc::channel();
    let (ended, ends) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let idle = scope.spawn(move || {
            database.hold(transaction, move || {
                let _ = begun.send(());
                // MySQL and MariaDB wait longer for a lock.
                ends.recv_timeout(Duration::from_secs(40)).is_err()
            })
        });
        begins.recv()?;
        // This thread may have a runtime already.
        let acted = scope.spawn(act).join();
        let _ = ended.send(());
        let waited = idle.join().map_err(|_| "the transaction panicked")??;
        Ok((acted.map_err(|_| "it panicked")??, waited))
    })
}

/// A dropped call has all of its effect or none, perhaps a little later, and does not harm the pool.
pub(super) async fn packs_with_dropped_calls<S: PackShop + PoolShop>(
    _: &S,
    database: &Database,
) -> Verdict {
    let Some(shop) = S::pool(database, 2).await? else {
        return Ok(NotApplicable);
    };
    let settings = Settings::default().pack_bytes(300);
    let packs = create::<S, S::Team, ByKey, Json>(&shop, database, settings).await?;
    let mut dropped = 0;
    let mut keys = 0_i64;
    for polls in 0..100 {
        let dropped_before = dropped;
        for moment in [Moment::Polled(polls), Moment::Woken(polls)] {
            let text = |key| format!("{key} {}", "x".repeat(40));
            let rows = teams::<S>(keys..keys + 20, text)?;
            keys += 20;
            let (id, value) = rows[7].clone();
            let put = moment.drop(shop.put_all(&packs, &rows)).await.transpose()?;
            let merged = moment.drop(shop.merge_all(&packs)).await.transpose()?;
            let found = shop.get(&packs, id).await?;
            assert!(found.as_ref() == Some(&value) || (found.is_none() && put.is_none()));

            let appended =
                moment.drop(shop.append(&packs, id, "!".to_owned())).await.transpose()?;
            let found = shop.get(&packs, id).await?.unwrap_or_default();
            assert!(found.replace('!', "") == value || put.is_none());
            assert!(found.ends_with('!') || appended.is_none() || put.is_none());
            let calls = [put.is_none(), merged.is_none(), appended.is_none()];
            dropped += calls.into_iter().filter(|is_dropped| *is_dropped).count();
        }
        if dropped == dropped_before {
            break;
        }
    }
    assert!(dropped > 5, "{dropped}");
    shop.merge_all(&packs).await?;
    assert_eq!(shop.verify(&packs, |_| {}).await?.problems, []);
    shop.close().await?;
    Ok(Passed)
}

/// Every client does everything to the same few rows while some merge. The recorded calls on each row must be linearizable.
pub(super) async fn sixteen_clients_and_mergers_of_packs<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const CLIENTS: usize = 16;
    const MERGERS: usize = 2;
    for through in [false, true] {
        if through {
            database.execute(
                "DROP TABLE entries_recent; DROP TABLE entries_packs; DROP TABLE entries_meta",
            )?;
        }
        let settings = Settings::default().pack_bytes(400);
        let settings = if through { settings.write_through() } else { settings };
        create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
        let clock = AtomicU64::new(0);
        let tick = || clock.fetch_add(1, Ordering::SeqCst);
        let histories = Mutex::new(BTreeMap::<i64, Vec<Event<String>>>::new());
        let is_done = AtomicBool::new(false);
        let client = |number: usize| -> Result {
            let mut random = Random(number as u64 * 1_000 + u64::from(through));
            S::block_on(async {
                let shop = S::connect(database).await?;
                let packs = fresh(&shop).await?;
                let packs =
                    if number.is_multiple_of(2) { S::cache_packs(packs, 1 << 20) } else { packs };
                for turn in 0..12 {
                    let key = i64::try_from(random.below(12))?;
                    let id = from_key::<IdOf<S::Team>>(key)?;
                    // The values are so long that packs are split, even by two clients at once.
                    let noise = incompressible(&mut random, 40);
                    let text = format!("{number}.{turn} {noise} ");
                    let began = tick();
                    let done = match random.below(4) {
                        0 => shop.put(&packs, id, &text).await.map(|()| Op::Write(Some(text))),
                        1 if random.below(3) == 0 => {
                            shop.delete_all(&packs, &[id]).await.map(|()| Op::Write(None))
                        }
                        1 | 2 => shop.append(&packs, id, text.clone()).await.map(|before| {
                            let after = before.clone().unwrap_or_default() + &text;
                            Op::Change(before, Some(after))
                        }),
                        _ => shop.get(&packs, id).await.map(Op::Read),
                    };
                    let ended = tick();
                    // A call has no effect if the other clients were faster for ten seconds.
                    let op = match done {
                        Err(error) if error.to_string() == TableError::Outrun.to_string() => {
                            continue;
                        }
                        done => done?,
                    };
                    let event = Event { op, began, ended, is_certain: true };
                    let mut histories = histories.lock().expect("no client panics in here");
                    histories.entry(key).or_default().push(event);
                }
                Ok(())
            })
        };
        let merger = || -> Result {
            S::block_on(async {
                let shop = S::connect(database).await?;
                let packs = fresh(&shop).await?;
                while !is_done.load(Ordering::Relaxed) {
                    shop.merge_all(&packs).await?;
                }
                Ok(())
            })
        };
        std::thread::scope(|scope| -> Result {
            let clients: Vec<_> =
                (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
            let mergers: Vec<_> = (0..MERGERS).map(|_| scope.spawn(merger)).collect();
            let done: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            is_done.store(true, Ordering::Relaxed);
            for merger in mergers {
                merger.join().map_err(|_| "a merger panicked")??;
            }
            for client in done {
                client.map_err(|_| "a client panicked")??;
            }
            Ok(())
        })?;

        // The final rows count as well.
        let packs = fresh(shop).await?;
        shop.merge_all(&packs).await?;
        for (key, mut history) in histories.into_inner()? {
            let read = shop.get(&packs, from_key(key)?).await?;
            let (began, ended) = (tick(), tick());
            history.push(Event { op: Op::Read(read), began, ended, is_certain: true });
            assert!(is_linearizable(&history), "key {key}: {history:#?}");
        }
        assert_eq!(shop.verify(&packs, |_| {}).await?.problems, Vec::<TableError>::new());
        assert_eq!(count(database, "entries_recent")?, 0);
        assert!(count(database, "entries_packs")? > 2);
    }
    Ok(Passed)
}
