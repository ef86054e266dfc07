//! The cases that every adapter passes on every database, each written once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use opaque_id_core::key::{StructuredKey, Uuid};
use opaque_id_core::resource::{InternalId, SealedResource};
use opaque_id_core::{External, IdRange, Keyring, MasterSecret};

use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::{IdOf, Shop, User, UserOf, from_key, generate};
use crate::database::Database;
use crate::engine::Engine;
use crate::{Result, cases};

/// Returns all cases by name for one adapter.
pub fn all<S: Shop>() -> Cases {
    cases! {
        S, |shop, database, case| {
            shop.create_tables(database).await?;
            case(&shop, database).await
        };
        insert_and_find
        update_and_delete
        nulls
        joins
        lists
        every_kind_of_key_is_stored_natively
        order_is_the_order_of_ids
        range_scan_by_key_is_time_order
        keys_made_by_the_database
        uuidv7_made_by_the_database
        ten_thousand_rows_in_bulk
        explain_shows_the_primary_key
        two_tasks_insert_a_hundred_each
        invalid_values_are_reported
        external_ids_find_their_rows
    }
}

fn user<S: Shop>(team_id: Option<IdOf<S::Team>>, name: &str) -> UserOf<S> {
    User { id: generate(), team_id, name: name.to_owned() }
}

fn users<S: Shop>(count: usize) -> Vec<UserOf<S>> {
    (0..count).map(|number| user::<S>(None, &format!("user {number}"))).collect()
}

async fn insert_and_find<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let team = shop.add_team("Analysts").await?;
    let (ada, grace) = (user::<S>(Some(team), "Ada"), user::<S>(None, "Grace"));
    shop.add_user(&ada).await?;
    shop.add_user(&grace).await?;
    assert_eq!(shop.find_user(ada.id).await?, Some(ada));
    assert_eq!(shop.find_user(grace.id).await?, Some(grace));
    assert_eq!(shop.find_user(generate()).await?, None);
    Ok(Passed)
}

async fn update_and_delete<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let team = shop.add_team("Analysts").await?;
    let mut ada = user::<S>(None, "Ada");
    let grace = user::<S>(None, "Grace");
    shop.add_users(&[ada.clone(), grace.clone()]).await?;
    ada.team_id = Some(team);
    ada.name = "Ada Lovelace".into();
    shop.update_user(&ada).await?;
    assert_eq!(shop.all_users().await?, [ada.clone(), grace.clone()]);
    ada.team_id = None;
    shop.update_user(&ada).await?;
    assert_eq!(shop.find_user(ada.id).await?, Some(ada.clone()));
    shop.delete_user(ada.id).await?;
    assert_eq!(shop.all_users().await?, [grace]);
    Ok(Passed)
}

async fn nulls<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let team = shop.add_team("Analysts").await?;
    let (ada, grace) = (user::<S>(Some(team), "Ada"), user::<S>(None, "Grace"));
    shop.add_users(&[ada, grace.clone()]).await?;
    assert_eq!(shop.users_without_team().await?, [grace]);
    assert_eq!(shop.read_user_id_or_null("NULL").await?, None);
    Ok(Passed)
}

async fn joins<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let analysts = shop.add_team("Analysts").await?;
    let admirals = shop.add_team("Admirals").await?;
    let ada = user::<S>(Some(analysts), "Ada");
    let mary = user::<S>(Some(analysts), "Mary");
    let grace = user::<S>(Some(admirals), "Grace");
    shop.add_users(&[mary.clone(), grace, ada.clone(), user::<S>(None, "Nobody")]).await?;
    let analyst = |user| (user, "Analysts".to_owned());
    assert_eq!(shop.members(analysts).await?, [analyst(ada), analyst(mary)]);
    Ok(Passed)
}

async fn lists<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let users = users::<S>(100);
    shop.add_users(&users).await?;
    let mut ids: Vec<_> = users[10..20].iter().map(|user| user.id).collect();
    ids.reverse();
    ids.push(generate());
    assert_eq!(shop.find_users(&ids).await?, users[10..20]);
    assert_eq!(shop.find_users(&ids[..1]).await?, users[19..20]);
    Ok(Passed)
}

/// Each kind has the same bytes in the same order, in the database's own column type for them.
async fn every_kind_of_key_is_stored_natively<S: Shop>(shop: &S, database: &Database) -> Verdict {
    let uuid = Uuid::from_u128(0x0192_c1f0_7b1e_7a35_8f00_0000_0000_0001);
    let keys = (
        from_key(uuid.into())?,
        from_key(StructuredKey::with_sequence(0x0102_0304_0506)?)?,
        from_key(Uuid::from_u128(0xfffe_fdfc << 96))?,
        from_key(-12_345)?,
    );
    shop.add_keys(&keys).await?;
    assert_eq!(shop.all_keys().await?, [keys]);

    let hex = |column: &str| match database.kind {
        Engine::Postgres => {
            format!("SELECT encode(uuid_send({column}), 'hex') FROM stored_keys")
        }
        _ => format!("SELECT lower(hex({column})) FROM stored_keys"),
    };
    assert_eq!(database.text(&hex("event_id"))?, uuid.simple().to_string());
    assert_eq!(database.text(&hex("legacy_id"))?, format!("fffefdfc{:024}", 0));
    assert!(database.text(&hex("order_id"))?.starts_with("0000010203040506"));
    assert_eq!(database.integer("team_id", "stored_keys")?, -12_345);
    if database.kind == Engine::Sqlite {
        let storage = "SELECT typeof(event_id) || ' ' || typeof(team_id) FROM stored_keys";
        assert_eq!(database.text(storage)?, "blob integer");
    }
    Ok(Passed)
}

async fn order_is_the_order_of_ids<S: Shop>(shop: &S, _: &Database) -> Verdict {
    // The keys are spread over all 2^128, so that the sign bit of every byte counts.
    const GOLDEN: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mut ids = Vec::new();
    for number in 0..64_u128 {
        ids.push(from_key(Uuid::from_u128(number.wrapping_mul(GOLDEN)))?);
    }
    for edge in [u128::MAX, 1 << 127, (1 << 127) - 1] {
        ids.push(from_key(Uuid::from_u128(edge))?);
    }
    for id in &ids {
        shop.add_legacy(*id).await?;
    }
    ids.sort();
    assert_eq!(shop.legacy_between(IdRange::all()).await?, ids);
    Ok(Passed)
}

async fn range_scan_by_key_is_time_order<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let users = users::<S>(50);
    for user in users.iter().rev() {
        shop.add_user(user).await?;
    }
    assert_eq!(shop.users_after(users[19].id, 10).await?, users[20..30]);
    assert_eq!(shop.users_after(users[44].id, 10).await?, users[45..]);
    assert_eq!(shop.users_after(users[49].id, 10).await?, []);
    Ok(Passed)
}

async fn keys_made_by_the_database<S: Shop>(shop: &S, database: &Database) -> Verdict {
    let first = shop.add_team("first").await?;
    let second = shop.add_team("second").await?;
    assert!(first < second);
    database.execute("INSERT INTO teams (name) VALUES ('third')")?;
    let third = shop.read_team_id("(SELECT MAX(id) FROM teams)").await?;
    assert!(second < third);
    Ok(Passed)
}

async fn uuidv7_made_by_the_database<S: Shop>(shop: &S, database: &Database) -> Verdict {
    if database.kind != Engine::Postgres {
        return Ok(NotApplicable);
    }
    if database.text("SELECT current_setting('server_version_num')")?.as_str() < "180000" {
        return Ok(NotApplicable);
    }
    database.execute("INSERT INTO users (id, name) VALUES (uuidv7(), 'Ada')")?;
    let made = shop.read_user_id("(SELECT id FROM users)").await?;
    let found = shop.find_user(made).await?.ok_or("no such user")?;
    assert_eq!(found.name, "Ada");
    Ok(Passed)
}

async fn ten_thousand_rows_in_bulk<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let users = users::<S>(10_000);
    shop.add_users(&users).await?;
    assert_eq!(shop.all_users().await?, users);
    Ok(Passed)
}

async fn explain_shows_the_primary_key<S: Shop>(shop: &S, database: &Database) -> Verdict {
    // diesel's own driver and sqlx 0.8 request the columns before the rows. MySQL does not report the columns
    // of a plan.
    if matches!(S::ADAPTER, "diesel" | "sqlx08" | "seaorm11") && database.kind == Engine::Mysql {
        return Ok(NotApplicable);
    }
    let users = users::<S>(1_000);
    shop.add_users(&users).await?;
    let (analyze, explain, placeholder, used) = match database.kind {
        Engine::Postgres => ("ANALYZE users", "EXPLAIN", "$1", "users_pkey"),
        Engine::Mysql | Engine::Mariadb => {
            ("ANALYZE TABLE users", "EXPLAIN FORMAT=TRADITIONAL", "?", "PRIMARY")
        }
        Engine::Sqlite => ("ANALYZE", "EXPLAIN QUERY PLAN", "?", "sqlite_autoindex_users_1"),
    };
    database.execute(analyze)?;
    for condition in ["=", ">"] {
        let statement =
            format!("{explain} SELECT name FROM users WHERE id {condition} {placeholder}");
        let plan = shop.explain(&statement, users[990].id).await?;
        assert!(plan.contains(used), "{statement}: {plan}");
    }
    Ok(Passed)
}

async fn two_tasks_insert_a_hundred_each<S: Shop>(shop: &S, database: &Database) -> Verdict {
    on_threads(2, |_| {
        S::block_on(async {
            let shop = S::connect(database).await?;
            for number in 0..100 {
                shop.add_user(&user::<S>(None, &format!("user {number}"))).await?;
            }
            Ok(())
        })
    })?;
    let mut ids: Vec<_> = shop.all_users().await?.iter().map(|user| user.id).collect();
    assert!(ids.is_sorted());
    ids.dedup();
    assert_eq!(ids.len(), 200);
    Ok(Passed)
}

/// Returns the messages of an error and all its sources.
pub fn message(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let messages: Vec<String> = sources.map(ToString::to_string).collect();
    messages.join(": ")
}

/// Returns the message of a call's error.
pub fn error<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => message(&*error),
    }
}

/// Runs a task on as many threads, each with its number, and returns the results.
pub fn on_threads<T: Send>(
    count: usize,
    task: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let task = &task;
    std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..count).map(|number| scope.spawn(move || task(number))).collect();
        tasks.into_iter().map(|task| task.join().map_err(|_| "a task panicked")?).collect()
    })
}

/// Rotates secrets while clients write, each on its own thread and connection. The function that `rotate`
/// gets waits until each client has written this number of further rounds. After two rounds, all earlier ones
/// have ended. Returns the number of rounds of each client.
pub fn rotate_while_clients_write<S: Shop, const CLIENTS: usize>(
    database: &Database,
    rounds: usize,
    write: impl AsyncFn(S, usize, &mut dyn Iterator<Item = usize>) -> Result + Sync,
    rotate: impl AsyncFnOnce(S, &dyn Fn()) -> Result + Send,
) -> Result<[usize; CLIENTS]> {
    let is_done = AtomicBool::new(false);
    let written = [const { AtomicUsize::new(0) }; CLIENTS];
    let client = |number: usize| {
        let mut numbers = (0..).take_while(|round| {
            written[number].store(*round, Ordering::SeqCst);
            !is_done.load(Ordering::SeqCst)
        });
        S::block_on(async { write(S::connect(database).await?, number, &mut numbers).await })
    };
    let client = &client;
    std::thread::scope(|scope| -> Result {
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        let wait = || {
            let before = written.each_ref().map(|written| written.load(Ordering::SeqCst));
            let is_new = |(written, before): (&AtomicUsize, _)| {
                written.load(Ordering::SeqCst) >= before + rounds
            };
            while !clients.iter().any(|client| client.is_finished())
                && !written.iter().zip(before).all(is_new)
            {
                std::thread::yield_now();
            }
        };
        // This thread already has a runtime, so the rotation runs on another one.
        let rotate = || S::block_on(async { rotate(S::connect(database).await?, &wait).await });
        let rotated = std::thread::scope(|scope| scope.spawn(rotate).join());
        is_done.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        rotated.map_err(|_| "the rotation panicked")?
    })?;
    Ok(written.map(AtomicUsize::into_inner))
}

fn assert_reported<I: InternalId>(read: Result<I>, value: &str, resource: &str, fault: &str) {
    let error = error(read);
    assert!(
        error.contains(&format!("invalid key for `{resource}`")) && error.contains(fault),
        "{value}: {error}"
    );
    assert!(!error.contains("6d17"), "{value}: {error}");
}

async fn invalid_values_are_reported<S: Shop>(shop: &S, database: &Database) -> Verdict {
    const V4: &str = "6d179ed1fd65480ba47577983c28dd10";
    let bytes = |hex: &str| match database.kind {
        Engine::Postgres => format!("'\\x{hex}'::bytea"),
        _ => format!("X'{hex}'"),
    };
    let uuid = |hex: &str| match database.kind {
        Engine::Postgres => format!("'{hex}'::uuid"),
        _ => format!("X'{hex}'"),
    };
    let text = |text: &str| match database.kind {
        Engine::Postgres => format!("'{text}'::text"),
        Engine::Sqlite => format!("'{text}'"),
        Engine::Mysql | Engine::Mariadb => {
            format!("CAST('{text}' AS CHAR CHARACTER SET utf8mb4)")
        }
    };
    const COLUMNS: &str = "`BINARY(16)`";
    const INTEGER: &str = "a 64-bit integer";
    const TYPE: &str = "a value of type ";

    for (value, fault) in [
        (bytes(&V4[2..]), COLUMNS),
        (bytes(&format!("{V4}00")), COLUMNS),
        (text("6d179ed1-fd65-480b-a475-77983c28dd10"), TYPE),
        (text("6d179ed1fd65480b"), TYPE),
        ("7".to_owned(), TYPE),
        (uuid(V4), "expected a UUIDv7, found version 4"),
    ] {
        assert_reported(shop.read_user_id(&value).await, &value, "user", fault);
    }
    // diesel and SeaORM report NULL themselves.
    let expected = match S::ADAPTER {
        "sqlx" | "sqlx08" => "invalid key for `team`: it is NULL",
        "seaorm" | "seaorm11" => {
            "null value was encountered while decoding \"id\", a key of `team`"
        }
        _ => "Unexpected null for non-null column",
    };
    for null in ["NULL", "(SELECT team_id FROM users)"] {
        let message = error(shop.read_team_id(null).await);
        assert!(message.contains(expected), "{message}");
    }
    let double = match database.kind {
        Engine::Postgres => "1.9::float8",
        Engine::Sqlite => "1.9",
        Engine::Mysql | Engine::Mariadb => "CAST(1.9 AS DOUBLE)",
    };
    assert_reported(shop.read_team_id(double).await, double, "team", TYPE);
    for (value, fault) in [(text("abc"), TYPE), (bytes("01"), INTEGER)] {
        let read = shop.read_team_id(&value).await;
        if S::ADAPTER == "diesel" && matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
            // diesel's own driver converts text into numbers before the type can be checked.
            let message = error(read);
            assert!(message.contains("Numeric overflow"), "{value}: {message}");
        } else {
            assert_reported(read, &value, "team", fault);
        }
    }
    let order = uuid(V4);
    assert_reported(shop.read_order_id(&order).await, &order, "order", "below 2^60");

    match database.kind {
        Engine::Postgres => {}
        Engine::Mysql => {
            let decimal = "CAST(7 AS DECIMAL)";
            assert_reported(shop.read_team_id(decimal).await, decimal, "team", "AS SIGNED)");
        }
        Engine::Mariadb | Engine::Sqlite => {
            let theirs = match database.kind {
                Engine::Mariadb => "0192c1f0-7b1e-7a35-8f00-000000000001",
                // Numeric affinity turns digits into a number.
                _ => "123e4567",
            };
            database.execute("CREATE TABLE theirs (id UUID NOT NULL)")?;
            database.execute(&format!("INSERT INTO theirs VALUES ('{theirs}')"))?;
            let theirs = "(SELECT id FROM theirs)";
            assert_reported(shop.read_user_id(theirs).await, theirs, "user", COLUMNS);
        }
    }
    Ok(Passed)
}

async fn external_ids_find_their_rows<S: Shop>(shop: &S, _: &Database) -> Verdict {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let ada = user::<S>(Some(shop.add_team("Analysts").await?), "Ada");
    shop.add_user(&ada).await?;
    let asked: External<S::User> =
        serde_json::from_str(&serde_json::to_string(&keyring.seal(ada.id))?)?;
    let found = shop.find_user(keyring.open(asked)?).await?;
    assert_eq!(found, Some(ada));
    Ok(Passed)
}

/// Returns the internal id of a client's made-up id: a random key.
pub fn opened_made_up_id<T: SealedResource>() -> T::Internal {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build().expect("a good secret");
    let made_up = (0_u32..).filter_map(|n| format!("{}_{n:026}", T::PREFIX).parse().ok());
    made_up.filter_map(|id: External<T>| keyring.open(id).ok()).next().expect("one in 64 opens")
}

/// SECURITY.md names the calls of an ORM with an effect that no type prevents.
pub fn says_what_no_type_closes(calls: &str) {
    let document = include_str!("../../../SECURITY.md");
    assert!(document.contains(calls), "SECURITY.md lacks {calls}");
}
