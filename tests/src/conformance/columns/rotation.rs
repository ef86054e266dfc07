//! Encrypted columns follow new secrets and new dictionaries.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::InternalId;
use opaque_id_packs::{ColumnName, Json, Settings, TableError};

use crate::conformance::cases::{error, message, rotate_while_clients_write};
use crate::conformance::columns::{ColumnShop, NAME, Profile, add, create, fresh, notes, read};
use crate::conformance::mapping::{count, dialect};
use crate::conformance::packs::{keyring, panics, secrets};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::Verdict;
use crate::conformance::shop::IdOf;
use crate::database::Database;
use crate::sql;

pub(super) async fn columns_are_trained_and_rekeyed<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const ROWS: usize = 150;
    shop.create_profiles(database).await?;
    let notes = create::<S, S::User, Json>(shop, database, NAME).await?;
    let other = fresh::<S, S::User, Json>(shop).await?;
    let text = |i: usize| {
        format!(r#"{{"diagnosis":"hay fever","since":"19{}","dose":"{} mg"}}"#, i % 90 + 10, i * 7)
    };
    let rows = add(shop, &notes, (0..ROWS).map(text)).await?;
    assert!(error(shop.train(&notes, &[text(1)], 2_048).await).contains("more samples"));
    let samples: Vec<_> = (1_000..3_000).map(text).collect();
    shop.train(&notes, &samples, 2_048).await?;

    // Another process can read a value that is compressed with an unknown dictionary if it may ask for it.
    let plain = shop.profiles().await?.swap_remove(0);
    assert!(S::is_current(&other, &plain.notes) && !S::is_current(&notes, &plain.notes));
    let mut trained = plain.clone();
    trained.notes = S::encrypt(&notes, plain.id, &rows[0].1)?;
    assert!(trained.notes.as_bytes().len() < plain.notes.as_bytes().len());
    let unknown = S::decrypt(&other, plain.id, &trained.notes).err().ok_or("decrypted")?;
    assert!(matches!(&unknown, TableError::UnknownDictionary { dictionary: 1, .. }), "{unknown:?}");
    assert!(message(&unknown).contains("`refresh`"), "{unknown}");
    let third = fresh::<S, S::User, Json>(shop).await?;
    assert_eq!(S::decrypt(&third, plain.id, &trained.notes)?, rows[0].1);
    let refreshed = other.clone();
    assert_eq!(shop.decrypt_on(&other, plain.id, &trained.notes).await?, rows[0].1);
    assert_eq!(S::decrypt(&refreshed, plain.id, &trained.notes)?, rows[0].1);
    assert!(!S::is_current(&other, &plain.notes));
    shop.train(&notes, &samples, 4_096).await?;
    let latest = S::encrypt(&notes, plain.id, "a")?;
    assert!(S::decrypt(&other, plain.id, &latest).is_err());
    shop.refresh(&other).await?;
    assert_eq!(S::decrypt(&other, plain.id, &latest)?, "a");
    shop.configure(&other, Settings::default().row_level(19)).await?;

    // A row that the application changes after it was read keeps the application's value, and an unreadable
    // one stays. Rows are read in the order of their ids, 64 at once.
    let (changed, broken) = (rows[40].0, rows[20].0);
    let theirs = S::encrypt(&notes, changed, "written meanwhile")?;
    let update = |id: IdOf<S::User>, body: &[u8]| {
        let id = database.kind.uuid(*id.as_repr());
        format!("UPDATE profiles SET notes = {} WHERE id = {id}", database.kind.bytes(body))
    };
    database.execute(&update(broken, b"plain text, of before"))?;
    let (kind, url, sql) =
        (database.kind, database.url.clone(), update(changed, theirs.as_bytes()));
    let write = move |count: u64| {
        if count == 5 {
            sql::execute(kind, &url, &sql).expect("an update");
        }
    };
    let done = Arc::new(AtomicU64::new(0));
    let (counted, write_once) = (Arc::clone(&done), write.clone());
    let progress = move |count: u64| {
        write_once(count);
        counted.store(count, Ordering::Relaxed);
        if count == 100 {
            resume_unwind(Box::new("in the middle"));
        }
    };
    // It ends in the middle, like a killed process.
    {
        let column = self::notes();
        assert!(panics(shop.rekey(&notes, &column, progress)).await);
        assert_eq!(done.load(Ordering::Relaxed), 100);
    }
    let again = error(shop.rekey(&notes, &self::notes(), |_| {}).await);
    assert!(again.contains("expected format 1"), "{again}");
    // The value may have been compressed with the first dictionary.
    let swept = error(shop.sweep(&notes, &self::notes(), Duration::ZERO, |_| {}).await);
    assert!(swept.contains("expected format 1"), "{swept}");
    assert_eq!(count(database, "profiles_notes_meta")?, 3);
    let found = shop.profiles().await?;
    assert_eq!(found[20].notes.as_bytes(), b"plain text, of before");
    assert_eq!(found[40].notes, theirs);
    let mut repaired = found[20].clone();
    repaired.notes = S::encrypt(&notes, broken, &rows[20].1)?;
    shop.update_profile(&repaired).await?;
    let rekeyed = shop.rekey(&notes, &self::notes(), |_| {}).await?;
    assert_eq!((rekeyed.rows, rekeyed.lost), (0, 0));
    let hour = Duration::from_secs(3_600);
    let kept = shop.sweep(&notes, &self::notes(), hour, |_| {}).await?;
    assert_eq!((kept.dictionaries, kept.dictionaries_left), (0, 1));
    // The caller names a column without values, or the values of another encrypted column.
    let addresses = create::<S, S::User, Json>(shop, database, "profiles_address").await?;
    for theirs in [None, Some(S::encrypt(&addresses, broken, "London")?)] {
        repaired.address = theirs;
        shop.update_profile(&repaired).await?;
        let address = ColumnName::new("profiles", "address");
        // The values of another column are an error.
        let _ = shop.sweep(&notes, &address, Duration::ZERO, |_| {}).await;
        assert_eq!(count(database, "profiles_notes_meta")?, 3);
    }
    // The application writes a value back that it has read before, as it may after this sweep.
    shop.update_profile(&trained).await?;
    let kept = shop.sweep(&notes, &self::notes(), Duration::ZERO, |_| {}).await?;
    assert_eq!((kept.rows, kept.dictionaries, kept.dictionaries_left), (1, 0, 1));
    let swept = shop.sweep(&notes, &self::notes(), Duration::ZERO, |_| {}).await?;
    assert_eq!((swept.dictionaries, swept.dictionaries_left), (1, 0));
    let mut expected = rows;
    expected[40].1 = "written meanwhile".to_owned();
    assert_eq!(read(shop, &notes).await?, expected);
    assert!(shop.profiles().await?.iter().all(|profile| S::is_current(&notes, &profile.notes)));

    // Settings and dictionaries change to the new secret as well.
    let new = shop.open_column::<S::User, Json>(&keyring(1)?, NAME.into(), None).await?;
    assert!(!S::is_current(&new, &found[0].notes));
    let before = S::encrypt(&notes, changed, "before")?;
    database.execute(&update(changed, before.as_bytes()))?;
    let rekeyed = shop.rekey(&new, &self::notes(), write).await?;
    assert_eq!((rekeyed.rows, rekeyed.lost), (ROWS as u64 - 1, 1));
    let rekeyed = shop.rekey(&new, &self::notes(), |_| {}).await?;
    assert_eq!((rekeyed.rows, rekeyed.lost), (1, 0));
    let alone = shop.open_column(&secrets(1, None)?.into(), NAME.into(), None).await?;
    assert_eq!(read(shop, &alone).await?, expected);
    let verified = shop.verify(&alone, &self::notes(), |_| {}).await?;
    assert_eq!((verified.values, verified.problems), (ROWS as u64, vec![]));
    Ok(Passed)
}

/// Secrets are rotated while clients write. No write is lost, and nothing needs the old secret after `rekey`.
pub(super) async fn columns_follow_a_rotation<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const WRITERS: usize = 3;
    const ROWS: usize = 20;
    shop.create_profiles(database).await?;
    database.execute(&S::create_column::<S::User, Json>(dialect(database.kind), NAME))?;
    let shared = SharedKeyring::new(secrets(0, Some(1))?);
    let settings = Some(Settings::default());
    let notes = shop.open_column::<S::User, Json>(&shared, NAME.into(), settings).await?;
    let rows = add(shop, &notes, (0..WRITERS * ROWS).map(|_| "0".to_owned())).await?;
    // Each client has its own rows, and writes the round into all of them.
    let write = async |shop: S, number: usize, rounds: &mut dyn Iterator<Item = usize>| {
        let notes = shop.open_column::<S::User, Json>(&shared, NAME.into(), None).await?;
        for round in rounds {
            for (id, _) in rows.iter().skip(number).step_by(WRITERS) {
                let notes = S::encrypt(&notes, *id, &(round + 1).to_string())?;
                shop.update_profile(&Profile { id: *id, notes, address: None, index: None })
                    .await?;
            }
        }
        Ok(())
    };
    // It waits for the end of all earlier writes.
    let rotate = async |shop: S, wait: &dyn Fn()| {
        wait();
        shared.replace(secrets(1, Some(0))?)?;
        // Writers also write values that are not current, or are faster.
        for _ in 0..3 {
            shop.rekey(&notes, &self::notes(), |_| {}).await?;
        }
        wait();
        shop.rekey(&notes, &self::notes(), |_| {}).await?;
        shared.replace(secrets(1, None)?)?;
        wait();
        Ok(())
    };
    let rounds: [_; WRITERS] = rotate_while_clients_write(database, 2, write, rotate)?;
    let new = shop.open_column(&secrets(1, None)?.into(), NAME.into(), None).await?;
    for (place, (id, text)) in read(shop, &new).await?.into_iter().enumerate() {
        assert_eq!(id, rows[place].0);
        assert_eq!(text, rounds[place % WRITERS].to_string(), "row {place}");
    }
    Ok(Passed)
}
