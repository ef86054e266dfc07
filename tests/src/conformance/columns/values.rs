//! Values of encrypted columns come back.

use std::collections::BTreeMap;
use std::time::Duration;

use opaque_id_core::OpaqueId;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_packs::{ColumnName, Json, Location, Settings};

use crate::Result;
use crate::conformance::cases::error;
use crate::conformance::columns::{ColumnShop, NAME, Profile, create, notes};
use crate::conformance::packs::{Initials, incompressible, initial, keyring, secrets};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::Verdict;
use crate::conformance::shop::{IdOf, from_key, generate};
use crate::database::Database;
use crate::engine::Engine;
use crate::random::Random;

pub(super) async fn columns_come_back<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
    shop.create_profiles(database).await?;
    let notes = create::<S, S::User, Json>(shop, database, NAME).await?;
    let addresses = create::<S, S::User, Json>(shop, database, "profiles_address").await?;
    let long: String = ("Zürich \\'\0").repeat(9_000);
    let mut expected = BTreeMap::new();
    for (text, address) in
        [("", None), ("a", Some("")), ("'; --\0", Some("1 \"Main\" St")), (&*long, None)]
    {
        let id = generate();
        let encrypted = |text| S::encrypt(&addresses, id, text);
        let profile = Profile {
            id,
            notes: S::encrypt(&notes, id, text)?,
            address: address.map(encrypted).transpose()?,
            index: None,
        };
        shop.add_profile(&profile).await?;
        expected.insert(id, (text.to_owned(), address.map(str::to_owned), profile));
    }
    let found = shop.profiles().await?;
    assert_eq!(found.len(), expected.len());
    for (profile, (id, (text, address, written))) in found.iter().zip(&expected) {
        assert_eq!((profile, &profile.id), (written, id));
        assert_eq!(S::decrypt(&notes, *id, &profile.notes)?, *text);
        let found = profile.address.as_ref().map(|found| S::decrypt(&addresses, *id, found));
        assert_eq!(found.transpose()?, *address);
        let shown = format!("{profile:?}");
        assert!(shown.contains("Encrypted(..)"), "{shown}");
    }
    let nulls = database.integer("COUNT(*)", "profiles WHERE address IS NULL")?;
    assert_eq!(nulls, 2);

    // The value changes to another one and to none. Each encryption of a value differs.
    let mut profile = found[2].clone();
    let again = S::encrypt(&notes, profile.id, "b")?;
    profile.notes = S::encrypt(&notes, profile.id, "b")?;
    assert_ne!(profile.notes, again);
    profile.address = None;
    shop.update_profile(&profile).await?;
    let found = shop.profiles().await?;
    assert_eq!(found[2], profile);
    assert_eq!(S::decrypt(&notes, profile.id, &found[2].notes)?, "b");

    let verified = shop.verify(&notes, &self::notes(), |_| {}).await?;
    assert_eq!((verified.values, verified.problems), (4, vec![]));
    let address = ColumnName::new("profiles", "address");
    let verified = shop.verify(&addresses, &address, |_| {}).await?;
    assert_eq!((verified.values, verified.problems), (1, vec![]));

    let text = incompressible(&mut Random(7), 4_000_000);
    let too_large = error(S::encrypt(&notes, profile.id, &text));
    let most = "a value of profiles_notes: expected a value of at most 3145728 bytes";
    assert!(too_large.contains(most), "{too_large}");
    Ok(Passed)
}

/// Erasing a group leaves nothing of it, even in a backup, and no other value is lost.
pub(super) async fn columns_in_groups<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
    shop.create_profiles(database).await?;
    let column = create::<S, S::User, Initials>(shop, database, NAME).await?;
    let mut texts = BTreeMap::new();
    for i in 0..30 {
        let (id, text) = (generate(), format!("{}{i}", ["a", "b", "c"][i % 3]));
        let notes = shop.encrypt_on(&column, id, &text).await?;
        shop.add_profile(&Profile { id, notes, address: None, index: None }).await?;
        texts.insert(id, text);
    }
    let open = async |keyring: SharedKeyring| {
        shop.open_column::<S::User, Initials>(&keyring, NAME.into(), None).await
    };
    // The remaining notes without groups, as another process reads them.
    let is_left = async |column: &S::Column<S::User, Initials>, erased: &str| -> Result {
        for profile in shop.profiles().await? {
            let (id, text) = (profile.id, &texts[&profile.id]);
            let found = shop.decrypt_on(column, id, &profile.notes).await;
            match text.starts_with(|it| erased.contains(it)) {
                true => assert!(error(found).contains("its group is erased")),
                false => assert_eq!(found?, *text),
            }
        }
        Ok(())
    };
    is_left(&column, "").await?;
    let other = open(keyring(0)?).await?;
    is_left(&other, "").await?;
    for table in ["profiles", "profiles_notes_meta"] {
        database.execute(&format!("CREATE TABLE backup_of_{table} AS SELECT * FROM {table}"))?;
    }
    shop.erase(&column, initial("a")).await?;
    is_left(&column, "a").await?;
    is_left(&open(keyring(0)?).await?, "a").await?;
    let id = generate();
    let refused = shop.encrypt_on(&other, id, &"a new".to_owned()).await;
    assert!(error(refused).contains("its group is erased"));
    // The value is moved to another row.
    let profiles = shop.profiles().await?;
    let moved = shop.decrypt_on(&column, id, &profiles[1].notes).await;
    assert!(error(moved).contains("not genuine"));

    // The first change is another secret without new values. The second is a dictionary: it requires new ones.
    let rotated = open(keyring(1)?).await?;
    let rekeyed = shop.rekey(&rotated, &notes(), |_| {}).await?;
    assert_eq!((rekeyed.rows, rekeyed.lost), (0, 0));
    assert_eq!(shop.profiles().await?, profiles);
    is_left(&open(SharedKeyring::new(secrets(1, None)?)).await?, "a").await?;
    let samples: Vec<_> = (0..2_000).map(|i| format!("b {i} a user of the shop {i}")).collect();
    let refused = error(shop.train(&rotated, &samples, 1_024).await);
    assert!(refused.contains("no text of 8 bytes or more occurs in 20 groups"), "{refused}");
    shop.train_from_public(&rotated, &samples, 1_024).await?;
    let rekeyed = shop.rekey(&rotated, &notes(), |_| {}).await?;
    assert_eq!((rekeyed.rows, rekeyed.lost), (20, 0));
    is_left(&other, "a").await?;
    assert_eq!(shop.verify(&other, &notes(), |_| {}).await?.problems, []);
    // A sweep leaves marks in place of erased values.
    let swept = shop.sweep(&rotated, &notes(), Duration::ZERO, |_| {}).await?;
    assert!(swept.rows > 0 && swept.lost == 0, "{swept:?}");
    is_left(&other, "a").await?;
    assert_eq!(shop.verify(&rotated, &notes(), |_| {}).await?.problems, []);
    let again = shop.sweep(&rotated, &notes(), Duration::ZERO, |_| {}).await?;
    assert_eq!((again.rows, again.dictionaries_left), (0, 0));

    for table in ["profiles", "profiles_notes_meta"] {
        database.execute(&format!("DELETE FROM {table}"))?;
        database.execute(&format!("INSERT INTO {table} SELECT * FROM backup_of_{table}"))?;
    }
    is_left(&open(keyring(0)?).await?, "a").await?;
    // New settings would create other ids for the same groups.
    database.execute("DELETE FROM profiles_notes_meta")?;
    let (keyring_0, settings) = (keyring(0)?, Some(Settings::default()));
    let begun = shop.open_column::<S::User, Initials>(&keyring_0, NAME.into(), settings).await;
    assert!(error(begun).contains("restore profiles_notes_meta from a backup"));
    database
        .execute("INSERT INTO profiles_notes_meta SELECT * FROM backup_of_profiles_notes_meta")?;
    database.execute("DELETE FROM profiles_notes_keys")?;
    let restored = open(keyring(0)?).await?;
    let profile = shop.profiles().await?.remove(0);
    let found = shop.decrypt_on(&restored, profile.id, &profile.notes).await;
    assert!(error(found).contains("the key of its group"));
    Ok(Passed)
}

/// Keys have 64, 32 and, where the database has them, 32 unsigned bits. The database generates the primary key, so one statement
/// inserts a row whose value is bound to another unique column.
pub(super) async fn columns_of_rows_by_integers<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    let bits = [i64::MIN, -1, 0, 7, i64::MAX].map(|key| Ok((key, from_key(key)?)));
    by_integers::<S, S::Team>(shop, database, "BIGINT", bits).await?;
    let bits = [i32::MIN, -1, 0, 7, i32::MAX].map(|key| Ok((key.into(), from_key(key)?)));
    by_integers::<S, S::Number>(shop, database, "INTEGER", bits).await?;
    if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        let bits = [0, 1, 7, u32::MAX - 1, u32::MAX];
        let bits = bits.map(|key| Ok((key.into(), from_key(key)?)));
        by_integers::<S, S::Unsigned>(shop, database, "INTEGER UNSIGNED", bits).await?;
    }
    Ok(Passed)
}

async fn by_integers<S: ColumnShop, T: OpaqueId>(
    shop: &S,
    database: &Database,
    ty: &str,
    ids: [Result<(i64, IdOf<T>)>; 5],
) -> Result {
    let (row, bytes) = match database.kind {
        Engine::Postgres => ("INTEGER GENERATED ALWAYS AS IDENTITY", "BYTEA"),
        Engine::Sqlite => ("INTEGER", "BLOB"),
        Engine::Mysql | Engine::Mariadb => ("INTEGER AUTO_INCREMENT", "BLOB"),
    };
    // These words are reserved.
    let [table, key, value] = match database.kind {
        Engine::Mysql | Engine::Mariadb => ["`order`", "`index`", "`group`"],
        _ => [r#""order""#, r#""index""#, r#""group""#],
    };
    database.execute(&format!(
        "CREATE TABLE {table} (place {row} PRIMARY KEY, {key} {ty} NOT NULL UNIQUE, {value} {bytes})"
    ))?;
    let column = ColumnName::new("order", "group").keyed_by("index");
    let group = create::<S, T, Json>(shop, database, "order_group").await?;
    let ids = ids.into_iter().collect::<Result<Vec<_>>>()?;
    for (number, id) in &ids {
        let encrypted = S::encrypt(&group, *id, "a group")?;
        let encrypted = match number {
            7 => "NULL".to_owned(),
            _ => database.kind.bytes(encrypted.as_bytes()),
        };
        database.execute(&format!(
            "INSERT INTO {table} ({key}, {value}) VALUES ({number}, {encrypted})"
        ))?;
    }
    let new = shop.open_column::<T, Json>(&keyring(1)?, "order_group".into(), None).await?;
    let rekeyed = shop.rekey(&new, &column, |_| {}).await?;
    assert_eq!((rekeyed.rows, rekeyed.lost), (4, 0));
    let alone =
        shop.open_column::<T, Json>(&secrets(1, None)?.into(), "order_group".into(), None).await?;
    let verified = shop.verify(&alone, &column, |_| {}).await?;
    assert_eq!((verified.values, verified.problems), (4, vec![]));
    // The last row's value is in the first row.
    let first = ids[0].0;
    let body = S::encrypt(&alone, ids[4].1, "b")?;
    let body = database.kind.bytes(body.as_bytes());
    database.execute(&format!("UPDATE {table} SET {value} = {body} WHERE {key} = {first}"))?;
    let verified = shop.verify(&alone, &column, |_| {}).await?;
    let shown: Vec<_> = verified
        .problems
        .iter()
        .map(|problem| problem.location().and_then(Location::expose_id).map(str::to_owned))
        .collect();
    assert_eq!((verified.values, shown), (3, vec![Some(first.to_string())]));
    database.execute(&format!("DROP TABLE {table}; DROP TABLE order_group_meta"))?;
    Ok(())
}

pub(super) async fn columns_of_requests_and_views<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    shop.create_profiles(database).await?;
    let columns = [
        create::<S, S::User, Json>(shop, database, NAME).await?,
        create::<S, S::User, Json>(shop, database, "profiles_address").await?,
    ];
    let keyring = keyring(0)?.current();
    for address in [Some("ada@example.org"), None] {
        let (id, notes, shown) =
            shop.add_by_request(columns.clone(), &keyring, "hay fever", address).await?;
        assert_eq!((&*notes, shown.as_deref()), ("hay fever", address));
        let stored = shop.profiles().await?.pop().ok_or("a row")?;
        assert_eq!(keyring.open(id)?, stored.id);
        assert_eq!(S::decrypt(&columns[0], stored.id, &stored.notes)?, notes);
    }
    Ok(Passed)
}
