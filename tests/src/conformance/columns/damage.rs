//! Encrypted columns that somebody has altered, and columns that lost a dictionary.

use opaque_id_core::resource::InternalId;
use opaque_id_core::{Keyring, MasterSecret};
use opaque_id_packs::{Json, Location, Settings, TableName};

use crate::conformance::cases::{error, message};
use crate::conformance::columns::{ColumnShop, NAME, add, create, fresh, notes};
use crate::conformance::dropped::Moment;
use crate::conformance::mapping::dialect;
use crate::conformance::packs::{keyring, secrets};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::Verdict;
use crate::database::Database;

/// Changes to values by a server, or by an attacker with its password.
pub(super) async fn columns_that_were_altered<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    shop.create_profiles(database).await?;
    let notes = create::<S, S::User, Json>(shop, database, NAME).await?;
    let addresses = create::<S, S::User, Json>(shop, database, "profiles_address").await?;
    let rows = add(shop, &notes, ["Ada".to_owned(), "Grace".to_owned()]).await?;
    database.execute(
        "ALTER TABLE profiles_notes_meta RENAME TO kept_meta;
         CREATE TABLE profiles_notes_meta AS SELECT * FROM kept_meta",
    )?;
    let no_key = "a primary key over id of profiles_notes_meta";
    assert!(error(fresh::<S, S::User, Json>(shop).await).contains(no_key));
    let problems = shop.verify(&notes, &self::notes(), |_| {}).await?.problems;
    assert!(problems[0].to_string().contains(no_key), "{problems:?}");
    database.execute(
        "DROP TABLE profiles_notes_meta; ALTER TABLE kept_meta RENAME TO profiles_notes_meta",
    )?;
    let (first, second) = (rows[0].0, rows[1].0);
    let mut written = shop.profiles().await?;
    written[0].address = Some(S::encrypt(&addresses, first, "London")?);
    shop.update_profile(&written[0]).await?;
    let body = written[0].notes.as_bytes();

    let mut harms = vec![
        (database.kind.bytes(written[1].notes.as_bytes()), "not genuine"), // another row
        ("address".to_owned(), "not genuine"),                             // another column
        (database.kind.bytes(&body[..40]), "not genuine"),
        (database.kind.bytes(&body[..2]), "expected at least"),
        (database.kind.bytes(b""), "expected at least"),
        (database.kind.bytes(b"plain text, which is longer than a tag"), "expected format 1"),
    ];
    for place in [0, 5, 20, body.len() - 1] {
        let mut flipped = body.to_owned();
        flipped[place] ^= 1;
        let expected = if place == 0 { "cannot be read" } else { "not genuine" };
        harms.push((database.kind.bytes(&flipped), expected));
    }
    let row = database.kind.uuid(*first.as_repr());
    let digits = first.as_repr().to_string();
    for (harm, expected) in harms {
        database.execute(&format!("UPDATE profiles SET notes = {harm} WHERE id = {row}"))?;
        let harmed = shop.profiles().await?;
        let refused = S::decrypt(&notes, first, &harmed[0].notes).err().ok_or("decrypted")?;
        let on = error(shop.decrypt_on(&notes, first, &harmed[0].notes).await);
        let verified = shop.verify(&notes, &self::notes(), |_| {}).await?;
        assert_eq!((verified.values, &verified.problems[..]), (1, &[refused.clone()][..]));
        let rekeyed = shop.rekey(&notes, &self::notes(), |_| {}).await;
        let shown = message(&refused);
        assert_eq!(on, shown);
        // `rekey` leaves a value alone if it looks current.
        match S::is_current(&notes, &harmed[0].notes) {
            true => assert_eq!(rekeyed?.rows, 0),
            false => assert_eq!(error(rekeyed), shown),
        }
        assert!(shown.contains(expected), "{harm}: {shown}");
        assert!(shown.starts_with("a value of profiles_notes"), "{shown}");
        // A client may be shown the message.
        assert!(!format!("{shown} {refused:?}").contains(&digits), "{shown}");
        assert_eq!(refused.location().and_then(Location::expose_id), Some(&*digits));
        assert_eq!(S::decrypt(&notes, second, &harmed[1].notes)?, rows[1].1);
    }

    // Decryption fails for another column, another context, another resource, and another secret.
    assert!(S::decrypt(&addresses, first, &written[0].notes).is_err());
    let open = |keyring, name: TableName, settings| async move {
        shop.open_column::<S::User, Json>(&keyring, name, settings).await
    };
    let context = TableName::new(NAME).context("tenant 42");
    // The settings are bound to the context as well.
    assert!(error(open(keyring(0)?, context.clone(), None).await).contains("not genuine"));
    database
        .execute(&S::create_column::<S::User, Json>(dialect(database.kind), "profiles_other"))?;
    let of_tenant = TableName::new("profiles_other").context("tenant 42");
    let tenant = open(keyring(0)?, of_tenant, Some(Settings::default())).await?;
    let encrypted = S::encrypt(&tenant, first, "Ada")?;
    assert_eq!(S::decrypt(&tenant, first, &encrypted)?, "Ada");
    assert!(S::decrypt(&notes, first, &encrypted).is_err());
    let wrong = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let refused = error(open(wrong.into(), NAME.into(), None).await);
    assert!(refused.contains("the settings (id 0) of profiles_notes_meta"), "{refused}");
    let retired = open(secrets(1, None)?.into(), NAME.into(), None).await;
    assert!(error(retired).contains("no secret with key id 0"));

    // Without settings, a column in use does not start again.
    database.execute("DELETE FROM profiles_notes_meta")?;
    let missing = error(fresh::<S, S::User, Json>(shop).await);
    assert!(missing.contains("the tables profiles_notes_… have no settings"), "{missing}");
    assert!(error(shop.refresh(&notes).await).contains("have no settings"));
    Ok(Passed)
}

/// A failover takes back a dictionary and the settings, and the process goes on to encrypt with it.
pub(super) async fn columns_that_lost_a_dictionary<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    shop.create_profiles(database).await?;
    let notes = create::<S, S::User, Json>(shop, database, NAME).await?;
    database.execute("CREATE TABLE before_train AS SELECT * FROM profiles_notes_meta")?;
    let text = |i: usize| format!(r#"{{"diagnosis":"hay fever","dose":"{} mg"}}"#, i * 7);
    let samples: Vec<_> = (0..2_000).map(text).collect();
    shop.train(&notes, &samples, 2_048).await?;
    let rows = add(shop, &notes, (0..3).map(text)).await?;
    let reader = fresh::<S, S::User, Json>(shop).await?;
    database.execute("DELETE FROM profiles_notes_meta")?;
    database.execute("INSERT INTO profiles_notes_meta SELECT * FROM before_train")?;

    // A process that only reads may have no right to write it back.
    assert!(error(shop.refresh(&reader).await).contains("the settings (id 0)"));
    assert_eq!(database.integer("COUNT(*)", "profiles_notes_meta")?, 1);

    // The call is dropped at each await until it ends.
    let mut calls = (1..).map(|polls| (polls, shop.refresh(&notes)));
    let older = loop {
        let (polls, call) = calls.next().expect("endless");
        if let Some(done) = Moment::Polled(polls).drop(call).await {
            break error(done);
        }
    };
    drop(calls);
    assert!(older.contains("the settings (id 0) of profiles_notes_meta"), "{older}");
    let other = fresh::<S, S::User, Json>(shop).await?;
    for (profile, (id, text)) in shop.profiles().await?.iter().zip(&rows) {
        assert_eq!(profile.id, *id);
        assert_eq!(S::decrypt(&other, *id, &profile.notes)?, *text);
    }
    Ok(Passed)
}
