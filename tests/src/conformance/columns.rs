//! The cases of encrypted columns, each written once.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::InternalId;
use opaque_id_core::{Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::{
    ColumnName, Conversion, Encoding, Encrypted, Fingerprint, Json, Location, Normalizer, Settings,
    TableError, TableName, Text,
};
use opaque_id_sql::Dialect;

use crate::conformance::cases::{error, message, rotate_while_clients_write};
use crate::conformance::dropped::Moment;
use crate::conformance::integers::IntegerShop;
use crate::conformance::mapping::{count, dialect};
use crate::conformance::packs::{Initials, incompressible, initial, keyring, panics, secrets};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::{IdOf, Shop, from_key, generate};
use crate::database::Database;
use crate::engine::Engine;
use crate::random::Random;
use crate::{Result, cases, sql};

/// A row of a user's profile in an ORM.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile<I, E, F> {
    pub id: I,
    pub notes: E,
    pub address: Option<E>,
    pub index: Option<F>,
}

pub type ProfileOf<S> = Profile<
    IdOf<<S as Shop>::User>,
    Encrypted<<S as Shop>::User, String>,
    Fingerprint<<S as Shop>::User>,
>;

/// The calls on a column of a connection as calls of a macro: their arguments and their results.
#[macro_export]
macro_rules! column_methods {
    ($write:ident $($with:tt)*) => {
        $crate::$write! {
            $($with)* [T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>] Self::Column<T, E>;
            refresh() -> ();
            configure(settings: ::opaque_id_packs::Settings) -> ();
            train(samples: &[String], bytes: usize) -> ();
            train_from_public(samples: &[String], bytes: usize) -> ();
            erase(group: ::opaque_id_packs::Group) -> ();
            encrypt_on(
                id: $crate::conformance::shop::IdOf<T>,
                value: &String
            ) -> ::opaque_id_packs::Encrypted<T, String>;
            decrypt_on(
                id: $crate::conformance::shop::IdOf<T>,
                encrypted: &::opaque_id_packs::Encrypted<T, String>
            ) -> String;
            rekey(
                column: &::opaque_id_packs::ColumnName,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Rekeyed;
            sweep(
                column: &::opaque_id_packs::ColumnName,
                unused_for: std::time::Duration,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Rekeyed;
            verify(
                column: &::opaque_id_packs::ColumnName,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Verified;
            convert(
                column: &::opaque_id_packs::ColumnName,
                to: ::opaque_id_packs::Conversion,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Converted;
            decrypt_or_plaintext(
                id: $crate::conformance::shop::IdOf<T>,
                encrypted: Option<&::opaque_id_packs::Encrypted<T, String>>,
                plaintext: Option<String>
            ) -> Option<String>;
        }
    };
}

/// The operations of every adapter on encrypted columns of strings, in the ORM's own way.
#[expect(clippy::ptr_arg, reason = "a column's values are of any type")]
pub trait ColumnShop: IntegerShop {
    type Column<T: OpaqueId, E: Encoding<String>>: Clone + Send + Sync;

    fn create_column<T: OpaqueId, E: Encoding<String>>(dialect: Dialect, name: &str) -> String;

    /// Without settings, the table must already have them.
    async fn open_column<T: OpaqueId, E: Encoding<String>>(
        &self,
        keyring: &SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<Self::Column<T, E>>;

    fn encrypt<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        id: IdOf<T>,
        value: &str,
    ) -> Result<Encrypted<T, String>>;
    fn decrypt<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        id: IdOf<T>,
        encrypted: &Encrypted<T, String>,
    ) -> std::result::Result<String, TableError>;
    fn is_current<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        encrypted: &Encrypted<T, String>,
    ) -> bool;
    async fn with_index<T: OpaqueId, E: Encoding<String>>(
        &self,
        column: Self::Column<T, E>,
        normalizer: Normalizer,
    ) -> Result<Self::Column<T, E>>;
    fn fingerprint<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        value: &str,
    ) -> Result<Fingerprint<T>>;
    fn accept_plaintext<T: OpaqueId, E: Encoding<String>>(
        column: Self::Column<T, E>,
        until: SystemTime,
    ) -> Self::Column<T, E>;

    column_methods!(declare_calls);

    async fn create_profiles(&self, database: &Database) -> Result {
        database.execute(match database.kind {
            Engine::Postgres => {
                "CREATE TABLE profiles (id UUID PRIMARY KEY, notes BYTEA NOT NULL, address BYTEA, address_index BYTEA)"
            }
            Engine::Sqlite => {
                "CREATE TABLE profiles (id BLOB PRIMARY KEY, notes BLOB NOT NULL, address BLOB, address_index BLOB)"
            }
            Engine::Mysql | Engine::Mariadb => {
                "CREATE TABLE profiles (id BINARY(16) PRIMARY KEY, notes LONGBLOB NOT NULL, address VARBINARY(900), address_index BINARY(16))"
            }
        })
    }
    async fn add_profile(&self, profile: &ProfileOf<Self>) -> Result;
    /// Returns the profiles in the order of ids.
    async fn profiles(&self) -> Result<Vec<ProfileOf<Self>>>;
    async fn update_profile(&self, profile: &ProfileOf<Self>) -> Result;
    /// Returns the profiles with this fingerprint in the blind index.
    async fn profiles_at(&self, address: &Fingerprint<Self::User>) -> Result<Vec<ProfileOf<Self>>>;
}

/// Writes the methods that are the same in every adapter. The expression is the calls' argument, and the path
/// converts their result into a future.
#[macro_export]
macro_rules! column_calls {
    ($column:ident, $self:ident, $on:expr, $done:path) => {
        type Column<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>> = $column<T, String, E>;

        fn create_column<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            dialect: ::opaque_id_sql::Dialect,
            name: &str,
        ) -> String {
            Self::Column::<T, E>::create_sql(dialect, name)
        }

        async fn open_column<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            keyring: &::opaque_id_core::keyring::SharedKeyring,
            name: ::opaque_id_packs::TableName,
            settings: Option<::opaque_id_packs::Settings>,
        ) -> Result<Self::Column<T, E>> {
            Ok(match settings {
                Some(settings) => $done($column::open($on, keyring, name, settings)).await?,
                None => $done($column::open_existing($on, keyring, name)).await?,
            })
        }

        fn encrypt<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            id: $crate::conformance::shop::IdOf<T>,
            value: &str,
        ) -> Result<::opaque_id_packs::Encrypted<T, String>> {
            Ok(column.encrypt(id, &value.to_owned())?)
        }

        fn decrypt<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            id: $crate::conformance::shop::IdOf<T>,
            encrypted: &::opaque_id_packs::Encrypted<T, String>,
        ) -> ::std::result::Result<String, ::opaque_id_packs::TableError> {
            column.decrypt(id, encrypted).map_err(|error| match error {
                ::opaque_id_packs::PackError::Table(problem) => problem,
                error => panic!("a call without a statement: {error}"),
            })
        }

        fn is_current<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            encrypted: &::opaque_id_packs::Encrypted<T, String>,
        ) -> bool {
            column.is_current(encrypted)
        }

        async fn with_index<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            column: Self::Column<T, E>,
            normalizer: ::opaque_id_packs::Normalizer,
        ) -> Result<Self::Column<T, E>> {
            let normalize = move |text: &String| normalizer.apply(text);
            Ok($done(column.with_index($on, normalize)).await?)
        }

        fn fingerprint<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            value: &str,
        ) -> Result<::opaque_id_packs::Fingerprint<T>> {
            Ok(column.fingerprint(&value.to_owned())?)
        }

        fn accept_plaintext<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: Self::Column<T, E>,
            until: ::std::time::SystemTime,
        ) -> Self::Column<T, E> {
            column.accept_plaintext_until(until)
        }

        $crate::column_methods!(delegate_calls [$self, $on, $done];);
    };
}

/// Returns all cases by name for one adapter.
pub fn all<S: ColumnShop>() -> Cases {
    cases! {
        S, |shop, database, case| case(&shop, database).await;
        columns_come_back
        columns_that_were_altered
        columns_are_trained_and_rekeyed
        columns_that_lost_a_dictionary
        columns_follow_a_rotation
        columns_of_rows_by_integers
        columns_in_groups
        columns_are_found_by_value
        columns_are_encrypted_while_clients_write
        columns_that_cannot_be_converted
        columns_that_had_any_type
    }
}

const NAME: &str = "profiles_notes";

fn notes() -> ColumnName {
    ColumnName::new("profiles", "notes")
}

/// Creates the column's own table, and opens the column.
async fn create<S: ColumnShop, T: OpaqueId, E: Encoding<String>>(
    shop: &S,
    database: &Database,
    name: &str,
) -> Result<S::Column<T, E>> {
    database.execute(&S::create_column::<T, E>(dialect(database.kind), name))?;
    shop.open_column(&keyring(0)?, name.into(), Some(Settings::default())).await
}

/// Opens the column as another process.
async fn fresh<S: ColumnShop, T: OpaqueId, E: Encoding<String>>(
    shop: &S,
) -> Result<S::Column<T, E>> {
    shop.open_column(&keyring(0)?, NAME.into(), None).await
}

/// Adds rows with these texts as notes, in the order of their ids.
async fn add<S: ColumnShop>(
    shop: &S,
    column: &S::Column<S::User, Json>,
    texts: impl IntoIterator<Item = String>,
) -> Result<Vec<(IdOf<S::User>, String)>> {
    let mut rows = Vec::new();
    for text in texts {
        let id = generate();
        let notes = S::encrypt(column, id, &text)?;
        shop.add_profile(&Profile { id, notes, address: None, index: None }).await?;
        rows.push((id, text));
    }
    rows.sort();
    Ok(rows)
}

/// Returns all notes, decrypted.
async fn read<S: ColumnShop>(
    shop: &S,
    column: &S::Column<S::User, Json>,
) -> Result<Vec<(IdOf<S::User>, String)>> {
    let mut rows = Vec::new();
    for profile in shop.profiles().await? {
        rows.push((profile.id, shop.decrypt_on(column, profile.id, &profile.notes).await?));
    }
    Ok(rows)
}

async fn columns_come_back<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
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
async fn columns_in_groups<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
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

/// Changes to values by a server, or by an attacker with its password.
async fn columns_that_were_altered<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
    shop.create_profiles(database).await?;
    let notes = create::<S, S::User, Json>(shop, database, NAME).await?;
    let addresses = create::<S, S::User, Json>(shop, database, "profiles_address").await?;
    let rows = add(shop, &notes, ["Ada".to_owned(), "Grace".to_owned()]).await?;
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
async fn columns_that_lost_a_dictionary<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
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

async fn columns_are_trained_and_rekeyed<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
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
async fn columns_follow_a_rotation<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
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

/// Keys have 64, 32 and, where the database has them, 32 unsigned bits. The database generates the primary key, so one statement
/// inserts a row whose value is bound to another unique column.
async fn columns_of_rows_by_integers<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
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

const ADDRESS: &str = "profiles_address";

/// The column of addresses with its index and its plaintext.
fn address() -> ColumnName {
    ColumnName::new("profiles", "address").index("address_index").plaintext("address_text")
}

/// Opens the column of addresses by these secrets, with an index that ignores case.
async fn addresses<S: ColumnShop>(
    shop: &S,
    keyring: impl Into<SharedKeyring>,
) -> Result<S::Column<S::User, Text>> {
    let column =
        shop.open_column(&keyring.into(), ADDRESS.into(), Some(Settings::default())).await?;
    shop.with_index(column, Normalizer::Caseless).await
}

async fn columns_are_found_by_value<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
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

/// Creates a table with `rows` addresses in plaintext, and returns their ids.
async fn plaintext<S: ColumnShop>(
    shop: &S,
    database: &Database,
    rows: usize,
) -> Result<Vec<IdOf<S::User>>> {
    shop.create_profiles(database).await?;
    database.execute(&S::create_column::<S::User, Text>(dialect(database.kind), ADDRESS))?;
    database.execute("ALTER TABLE profiles ADD COLUMN address_text VARCHAR(200) CHECK (LENGTH(address_text) <= 200)")?;
    let mut ids: Vec<IdOf<S::User>> = (0..rows).map(|_| generate()).collect();
    ids.sort();
    let values = ids.iter().enumerate().map(|(i, id)| {
        let (id, empty) = (database.kind.uuid(*id.as_repr()), database.kind.bytes(b"n"));
        format!("({id}, {empty}, {})", text(&format!("Zürich {i}")))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    database.execute(&format!("INSERT INTO profiles (id, notes, address_text) VALUES {values}"))?;
    Ok(ids)
}

fn text(text: &str) -> String {
    format!("'{text}'")
}

/// Reads all addresses as an application does while both forms are accepted.
async fn read_addresses<S: ColumnShop>(
    shop: &S,
    database: &Database,
    column: &S::Column<S::User, Text>,
) -> Result<Vec<Option<String>>> {
    let profiles = shop.profiles().await?;
    let plain = database.lines("SELECT COALESCE(address_text, '-') FROM profiles ORDER BY id")?;
    let mut read = Vec::new();
    for (profile, plain) in profiles.into_iter().zip(plain.lines()) {
        let plain = Some(plain.to_owned()).filter(|plain| plain != "-");
        read.push(
            shop.decrypt_or_plaintext(column, profile.id, profile.address.as_ref(), plain).await?,
        );
    }
    Ok(read)
}

/// A column is encrypted while one client writes plaintext and another one encrypts, and while the conversion is dropped at every await.
async fn columns_are_encrypted_while_clients_write<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const ROWS: usize = 150;
    let ids = plaintext(shop, database, ROWS).await?;
    let (column, kind) = (addresses(shop, keyring(0)?).await?, database.kind);
    let indexed = shop.convert(&column, &address(), Conversion::Index, |_| {}).await?;
    assert_eq!((indexed.rows, indexed.plaintext, indexed.unindexed), (ROWS as u64, ROWS as u64, 0));
    assert_eq!(shop.profiles_at(&S::fingerprint(&column, "ZÜRICH 7")?).await?[0].id, ids[7]);
    database.execute("CREATE UNIQUE INDEX addresses ON profiles (address_index)")?;

    // The first client has the rows of even numbers, and the second one has the others.
    let write = async |_: S, number: usize, rounds: &mut dyn Iterator<Item = usize>| {
        for round in rounds {
            for (place, id) in ids.iter().enumerate().skip(number).step_by(2 * 5) {
                let new = format!("Round {} of {place}", round + 1);
                let index = kind.bytes(S::fingerprint(&column, &new)?.as_bytes());
                let set = match number {
                    0 => format!("address_text = {}", text(&new)),
                    _ => format!(
                        "address = {}, address_text = NULL",
                        kind.bytes(S::encrypt(&column, *id, &new)?.as_bytes())
                    ),
                };
                let row = kind.uuid(*id.as_repr());
                database.execute(&format!(
                    "UPDATE profiles SET {set}, address_index = {index} WHERE id = {row}"
                ))?;
            }
        }
        Ok(())
    };
    let convert = async |shop: S, wait: &dyn Fn()| {
        wait();
        let name = address();
        for polls in 1.. {
            let call = shop.convert(&column, &name, Conversion::Encrypted, |_| {});
            if Moment::Polled(polls).drop(call).await.transpose()?.is_some() {
                break;
            }
        }
        wait();
        Ok(())
    };
    let rounds: [usize; 2] = rotate_while_clients_write(database, 1, write, convert)?;
    let expected: Vec<_> = (0..ROWS)
        .map(|place| match place % 10 {
            number @ (0 | 1) => Some(format!("Round {} of {place}", rounds[number])),
            _ => Some(format!("Zürich {place}")),
        })
        .collect();
    // The first client has written plaintext until now.
    let refused = error(read_addresses(shop, database, &column).await);
    assert!(refused.contains("a value of profiles_address is in plaintext"), "{refused}");
    let hour = Duration::from_secs(3_600);
    let over = S::accept_plaintext(column.clone(), SystemTime::now() - hour);
    assert!(read_addresses(shop, database, &over).await.is_err());
    let both = S::accept_plaintext(column.clone(), SystemTime::now() + hour);
    assert_eq!(read_addresses(shop, database, &both).await?, expected);
    let problems = shop.verify(&column, &address(), |_| {}).await?.problems;
    assert!(
        !problems.is_empty()
            && problems.iter().all(|problem| matches!(problem, TableError::Plaintext { .. })),
        "{problems:?}"
    );
    let converted = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    assert_eq!((converted.plaintext, converted.unindexed, converted.problems), (0, 0, vec![]));
    assert_eq!(read_addresses(shop, database, &column).await?, expected);
    assert_eq!(shop.verify(&column, &address(), |_| {}).await?.problems, []);
    let again = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    assert_eq!((again.rows, again.lost), (0, 0));

    // The first attempt to go back ends early.
    let killed = |count: u64| {
        if count >= 64 {
            resume_unwind(Box::new("in the middle"))
        }
    };
    let name = address();
    assert!(panics(shop.convert(&column, &name, Conversion::Plaintext, killed)).await);
    let back = shop.convert(&column, &address(), Conversion::Plaintext, |_| {}).await?;
    assert_eq!((back.plaintext, back.problems), (ROWS as u64, vec![]));
    assert_eq!(database.integer("COUNT(*)", "profiles WHERE address IS NOT NULL")?, 0);
    assert_eq!(read_addresses(shop, database, &both).await?, expected);
    Ok(Passed)
}

/// Rows that cannot be converted are named, and all others are converted.
async fn columns_that_cannot_be_converted<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
    const ROWS: usize = 70;
    let ids = plaintext(shop, database, ROWS).await?;
    let column = addresses(shop, keyring(0)?).await?;
    database.execute("CREATE UNIQUE INDEX addresses ON profiles (address_index)")?;
    let row = |place: usize| database.kind.uuid(*ids[place].as_repr());
    // The fingerprints of two rows are equal, one text is empty, and one has characters that SQL escapes.
    for (place, new) in [(3, text("ZÜRICH 2")), (5, text("")), (6, text("100%_''x"))] {
        database.execute(&format!(
            "UPDATE profiles SET address_text = {new} WHERE id = {}",
            row(place)
        ))?;
    }
    // A client has written plaintext over an encrypted value.
    let theirs = database.kind.bytes(S::encrypt(&column, ids[7], "Rome")?.as_bytes());
    database.execute(&format!("UPDATE profiles SET address = {theirs} WHERE id = {}", row(7)))?;
    let converted = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    let [TableError::Duplicate { location, .. }] = &converted.problems[..] else {
        return Err(format!("{:?}", converted.problems).into());
    };
    assert_eq!(location.expose_id(), Some(&*ids[3].as_repr().to_string()));
    assert_eq!((converted.rows, converted.plaintext, converted.unindexed), (ROWS as u64 - 1, 1, 1));
    database.execute(&format!(
        "UPDATE profiles SET address_text = {} WHERE id = {}",
        text("Bern"),
        row(3)
    ))?;
    let converted = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    assert_eq!((converted.rows, converted.plaintext), (1, 0));
    let read = read_addresses(shop, database, &column).await?;
    let read: Vec<_> = read[2..8].iter().map(|text| text.as_deref().unwrap_or_default()).collect();
    assert_eq!(read, ["Zürich 2", "Bern", "Zürich 4", "", "100%_'x", "Zürich 7"]);

    // A value from another row, one that is cut off, and one that the old column refuses stay as they are, and the others are plaintext again.
    let moved = format!(
        "(SELECT address FROM (SELECT address FROM profiles WHERE id = {}) AS other)",
        row(2)
    );
    let short = database.kind.bytes(&[4, 0, 0, 7]);
    let long = S::encrypt(&column, ids[10], &"x".repeat(201))?;
    for (place, body) in [(8, moved), (9, short), (10, database.kind.bytes(long.as_bytes()))] {
        database
            .execute(&format!("UPDATE profiles SET address = {body} WHERE id = {}", row(place)))?;
    }
    let back = shop.convert(&column, &address(), Conversion::Plaintext, |_| {}).await?;
    let [.., TableError::Refused { location, .. }] = &back.problems[..] else {
        return Err(format!("{:?}", back.problems).into());
    };
    assert_eq!(location.expose_id(), Some(&*ids[10].as_repr().to_string()));
    assert_eq!((back.plaintext, back.encrypted, back.problems.len()), (ROWS as u64 - 3, 3, 3));

    // The values are JSON, and a column is missing.
    let strings = shop.open_column::<S::User, Json>(&keyring(0)?, ADDRESS.into(), None).await;
    assert!(error(strings).contains("to contain json, found raw"));
    let missing =
        ColumnName::new("profiles", "address").index("address_index").plaintext("no_such");
    assert!(shop.convert(&column, &missing, Conversion::Encrypted, |_| {}).await.is_err());

    // The caller names columns of other data.
    let is_mysql = matches!(database.kind, Engine::Mysql | Engine::Mariadb);
    let latin1 = if is_mysql { "CHARACTER SET latin1" } else { "" };
    database.execute(&format!("ALTER TABLE profiles ADD COLUMN digits VARCHAR(200) {latin1}"))?;
    for (encrypted, index, refusal, is_refused) in [
        ("notes", "address_index", "the column of encrypted values has other values", true),
        ("address", "notes", "fingerprints has another type or length", true),
        ("digits", "address_index", "operator", database.kind == Engine::Postgres),
        ("digits", "address_index", "has another type", is_mysql),
    ] {
        let other = ColumnName::new("profiles", encrypted).index(index).plaintext("address_text");
        if is_refused {
            let refused = error(shop.convert(&column, &other, Conversion::Encrypted, |_| {}).await);
            assert!(refused.contains(refusal), "{refused}");
        }
    }
    Ok(Passed)
}

/// Plaintext of other types comes back as it was, and bytes that are no text stay.
async fn columns_that_had_any_type<S: ColumnShop>(shop: &S, database: &Database) -> Verdict {
    let id = plaintext(shop, database, 1).await?.remove(0);
    let settings = Some(Settings::default());
    let column = shop.open_column::<S::User, Text>(&keyring(0)?, ADDRESS.into(), settings).await?;
    let (types, text_type, bytes_type): (&[_], _, _) = match database.kind {
        Engine::Postgres => (
            &[
                ("INTEGER", "-7"),
                ("NUMERIC(9, 2)", "-1.50"),
                ("DATE", "2024-02-03"),
                ("BOOLEAN", "true"),
                ("JSON", r#"{"a":  1.50}"#),
                ("JSONB", r#"{"a": 1.50}"#),
                // In small letters, the caller does not say that it has JSON.
                ("jsonb", r#"{"a": 1.50}"#),
            ],
            "TEXT",
            "BYTEA",
        ),
        Engine::Mysql | Engine::Mariadb => (
            &[
                ("BIGINT UNSIGNED", "18446744073709551615"),
                ("DECIMAL(9, 2)", "-1.50"),
                ("DATE", "2024-02-03"),
                ("ENUM('a', 'b')", "b"),
                ("VARCHAR(9) CHARACTER SET latin1", "Zürich"),
                ("VARBINARY(9)", "Zürich"),
                ("JSON", r#"{"a": 1}"#),
            ],
            "CHAR",
            "VARBINARY(9)",
        ),
        Engine::Sqlite => (&[("INTEGER", "-7"), ("TEXT COLLATE NOCASE", "Zürich")], "TEXT", "BLOB"),
    };
    for (place, (of, value)) in types.iter().enumerate() {
        let name = format!("plain_{place}");
        database.execute(&format!("ALTER TABLE profiles ADD COLUMN {name} {of}"))?;
        database.execute(&format!("UPDATE profiles SET {name} = {}", text(value)))?;
        let address = ColumnName::new("profiles", "address");
        let address = match of.starts_with("JSON") {
            true => address.plaintext_json(&name),
            false => address.plaintext(&name),
        };
        let converted = shop.convert(&column, &address, Conversion::Encrypted, |_| {}).await?;
        assert_eq!((converted.rows, converted.plaintext), (1, 0), "{of}: {converted:?}");
        let encrypted = shop.profiles().await?.remove(0).address.ok_or("no address")?;
        assert_eq!(S::decrypt(&column, id, &encrypted)?, *value, "{of}");
        let back = shop.convert(&column, &address, Conversion::Plaintext, |_| {}).await?;
        assert_eq!((back.rows, back.plaintext), (1, 1), "{of}: {back:?}");
        let found = database.text(&format!("SELECT CAST({name} AS {text_type}) FROM profiles"))?;
        assert_eq!(found, *value, "{of}");
    }
    if database.kind == Engine::Postgres {
        // PostgreSQL would read it as NULL on the way back.
        database.execute("ALTER TABLE profiles ADD COLUMN nothing JSONB DEFAULT 'null'")?;
        let address = ColumnName::new("profiles", "address").plaintext_json("nothing");
        shop.convert(&column, &address, Conversion::Encrypted, |_| {}).await?;
        let back = shop.convert(&column, &address, Conversion::Plaintext, |_| {}).await?;
        assert_eq!((back.encrypted, back.problems.len()), (1, 1), "{back:?}");
        database.execute("UPDATE profiles SET address = NULL")?;
    }
    let bytes = database.kind.bytes(b"a\xffb");
    database.execute(&format!("ALTER TABLE profiles ADD COLUMN plain_bytes {bytes_type}"))?;
    database.execute(&format!("UPDATE profiles SET plain_bytes = {bytes}"))?;
    let address = ColumnName::new("profiles", "address").plaintext("plain_bytes");
    let converted = shop.convert(&column, &address, Conversion::Encrypted, |_| {}).await;
    let shown = converted.map_or_else(|error| message(&*error), |it| format!("{:?}", it.problems));
    assert!(shown.contains("expected text"), "{shown}");
    let left = format!("profiles WHERE plain_bytes = {bytes} AND address IS NULL");
    assert_eq!(database.integer("COUNT(*)", &left)?, 1);
    Ok(Passed)
}
