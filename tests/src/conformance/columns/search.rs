//! A blind index finds values.

use opaque_id_core::resource::InternalId;
use opaque_id_packs::{ColumnName, Conversion, Normalizer, Settings, TableError, TableName, Text};

use crate::Result;
use crate::conformance::cases::error;
use crate::conformance::columns::{
    ADDRESS, ColumnShop, NAME, Profile, ProfileOf, address, addresses,
};
use crate::conformance::dropped::Moment;
use crate::conformance::mapping::dialect;
use crate::conformance::packs::{keyring, secrets};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::Verdict;
use crate::conformance::shop::generate;
use crate::database::Database;

pub(super) async fn columns_are_found_by_value<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    shop.create_profiles(database).await?;
    for name in [NAME, ADDRESS, "profiles_other"] {
        database.execute(&S::create_column::<S::User, Text>(dialect(database.kind), name))?;
    }
    database.execute("CREATE UNIQUE INDEX addresses ON profiles (address_index)")?;
    let settings = Some(Settings::default());
    let notes =
        shop.open_column::<S::User, Text>(&keyring(0)?, NAME.into(), settings.clone()).await?;
    // Two processes have different secrets for new values, and open the column at the same time.
    let (old, new) = (
        addresses(shop, secrets(0, Some(1))?).await?,
        addresses(shop, secrets(1, Some(0))?).await?,
    );
    let of = |column: &_, text: &str| -> Result<ProfileOf<S>> {
        let id = generate();
        let notes = S::encrypt(&notes, id, "")?;
        let address = Some(S::encrypt(column, id, text)?);
        Ok(Profile { id, notes, address, index: Some(S::fingerprint(column, text)?) })
    };
    let (ada, grace) = (of(&old, "Ada@Example.org")?, of(&new, "grace@example.org")?);
    shop.add_profile(&ada).await?;
    shop.add_profile(&grace).await?;
    for column in [&old, &new] {
        for (text, expected) in
            [("ADA@example.ORG", Some(&ada)), ("grace@example.org", Some(&grace)), ("ada", None)]
        {
            let found = shop.profiles_at(&S::fingerprint(column, text)?).await?;
            assert_eq!(found.first(), expected, "{text}");
        }
        // A unique index refuses the value, whichever secret encrypts it.
        assert!(shop.add_profile(&of(column, "ADA@EXAMPLE.ORG")?).await.is_err());
    }
    assert_eq!(S::fingerprint(&old, "a")?.as_bytes().len(), 16);
    // The address of another person under another column or context has another fingerprint.
    let other = TableName::new("profiles_other").context("tenant 42");
    let other = shop.open_column::<S::User, Text>(&keyring(0)?, other, settings).await?;
    let shown = error(S::fingerprint(&other, "a"));
    assert!(shown.contains("expected a blind index"), "{shown}");
    // The call is dropped at each await until it ends.
    let mut calls =
        (1..).map(|polls| (polls, shop.with_index(other.clone(), Normalizer::Caseless)));
    let other = loop {
        let (polls, call) = calls.next().expect("endless");
        if let Some(indexed) = Moment::Polled(polls).drop(call).await.transpose()? {
            break indexed;
        }
    };
    drop(calls);
    assert_ne!(S::fingerprint(&other, "a")?, S::fingerprint(&old, "a")?);
    let tenant = TableName::new("profiles_other").context("tenant 42");
    let again = shop.open_column::<S::User, Text>(&keyring(0)?, tenant, None).await?;
    let again = shop.with_index(again, Normalizer::Caseless).await?;
    assert_eq!(S::fingerprint(&other, "a")?, S::fingerprint(&again, "a")?);

    // Without the old secret, all is found, and an update of another field keeps the bytes of the value.
    shop.rekey(&new, &address(), |_| {}).await?;
    let alone = addresses(shop, secrets(1, None)?).await?;
    let mut found =
        shop.profiles_at(&S::fingerprint(&alone, "ada@example.org")?).await?.swap_remove(0);
    assert_eq!(
        shop.decrypt_on(&alone, ada.id, found.address.as_ref().ok_or("no address")?).await?,
        "Ada@Example.org"
    );
    let retired = addresses(shop, secrets(0, None)?).await;
    assert!(error(retired).contains("no secret with key id 1"));
    found.notes = S::encrypt(&notes, ada.id, "changed")?;
    shop.update_profile(&found).await?;
    assert_eq!(
        shop.profiles_at(&S::fingerprint(&alone, "ada@example.org")?).await?,
        [found.clone()]
    );

    // A server that swaps fingerprints, removes one, or cuts one off is found.
    let indexed = ColumnName::new("profiles", "address").index("address_index");
    let verify = async || shop.verify(&alone, &indexed, |_| {}).await;
    assert_eq!(verify().await?.problems, []);
    let row = database.kind.uuid(*ada.id.as_repr());
    let right = found.index.as_ref().ok_or("no fingerprint")?.as_bytes();
    for wrong in
        [database.kind.bytes(&[7; 16]), "NULL".to_owned(), database.kind.bytes(&right[..15])]
    {
        database
            .execute(&format!("UPDATE profiles SET address_index = {wrong} WHERE id = {row}"))?;
        let problems = verify().await?.problems;
        let [TableError::Fingerprint { location, .. }] = &problems[..] else {
            return Err(format!("{wrong}: {problems:?}").into());
        };
        assert_eq!(location.expose_id(), Some(&*ada.id.as_repr().to_string()));
        let converted = shop.convert(&alone, &indexed, Conversion::Index, |_| {}).await?;
        assert_eq!((converted.rows, converted.unindexed), (1, 0));
        assert_eq!(verify().await?.problems, []);
    }
    let shown = error(
        shop.convert(&other, &ColumnName::new("profiles", "address"), Conversion::Index, |_| {})
            .await,
    );
    assert!(shown.contains("found only one of them"), "{shown}");
    Ok(Passed)
}
