//! Encrypted columns.

use std::convert::identity;

use opaque_id_packs::format::Padding;
use opaque_id_packs::sqlx::{EncryptedColumn, PackTable};
use opaque_id_packs::{ColumnName, Encrypted, Fingerprint, Settings, Update};
use opaque_id_sqlx::{Dialect, Internal};
use opaque_id_tests::conformance::columns::{self, ColumnShop, ProfileOf};
use opaque_id_tests::conformance::packs::{Initials, secrets};
use opaque_id_tests::conformance::report::Outcome::{NotApplicable, Passed};
use opaque_id_tests::conformance::report::{Cases, Verdict};
use opaque_id_tests::conformance::shop::Shop;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::{Result, column_calls};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{Executor, FromRow, MySql, QueryBuilder};

use crate::shop::{SqlxShop, Team, User};

#[derive(FromRow)]
struct Profile {
    id: Internal<User>,
    notes: Encrypted<User, String>,
    address: Option<Encrypted<User, String>>,
    address_index: Option<Fingerprint<User>>,
}

impl From<Profile>
    for columns::Profile<Internal<User>, Encrypted<User, String>, Fingerprint<User>>
{
    fn from(profile: Profile) -> Self {
        let Profile { id, notes, address, address_index: index } = profile;
        Self { id, notes, address, index }
    }
}

macro_rules! column_shop {
    ($($database:ty),*) => {$(
        impl ColumnShop for SqlxShop<$database> {
            column_calls!(EncryptedColumn, User, self, &self.pool, identity);

            async fn add_profile(&self, profile: &ProfileOf<Self>) -> Result {
                let mut insert = QueryBuilder::new("INSERT INTO profiles (id, notes, address, address_index) ");
                self.execute(insert.push_values([profile], |mut row, profile| {
                    row.push_bind(profile.id).push_bind(&profile.notes).push_bind(&profile.address);
                    row.push_bind(&profile.index);
                }))
                .await
            }

            async fn profiles(&self) -> Result<Vec<ProfileOf<Self>>> {
                let select = "SELECT id, notes, address, address_index FROM profiles ORDER BY id";
                let profiles: Vec<Profile> = sqlx::query_as(select).fetch_all(&self.pool).await?;
                Ok(profiles.into_iter().map(Into::into).collect())
            }

            async fn profiles_at(&self, address: &Fingerprint<User>) -> Result<Vec<ProfileOf<Self>>> {
                let mut select = QueryBuilder::new(
                    "SELECT id, notes, address, address_index FROM profiles WHERE address_index = ",
                );
                let select = select.push_bind(address).build_query_as::<Profile>();
                Ok(select.fetch_all(&self.pool).await?.into_iter().map(Into::into).collect())
            }

            async fn update_profile(&self, profile: &ProfileOf<Self>) -> Result {
                let mut update = QueryBuilder::new("UPDATE profiles SET notes = ");
                update.push_bind(&profile.notes).push(", address = ").push_bind(&profile.address);
                update.push(", address_index = ").push_bind(&profile.index);
                self.execute(update.push(" WHERE id = ").push_bind(profile.id)).await
            }
        }
    )*};
}

column_shop!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);

pub(crate) fn cases() -> Cases {
    vec![
        ("rekey_cuts_off_no_value_outside_of_strict_mode", |database| match database.kind {
            Engine::Mysql | Engine::Mariadb => {
                SqlxShop::<MySql>::block_on(rekey_outside_of_strict_mode(database))
            }
            Engine::Postgres | Engine::Sqlite => Ok(NotApplicable),
        }),
        ("a_snapshot_hides_no_keys_and_dictionaries", |database| match database.kind {
            Engine::Mysql => SqlxShop::<MySql>::block_on(read_beside_a_snapshot(database)),
            // A locking read of a newer row is a conflict.
            Engine::Mariadb | Engine::Postgres | Engine::Sqlite => Ok(NotApplicable),
        }),
    ]
}

/// A locking read shows rows that are newer than the transaction's snapshot.
async fn read_beside_a_snapshot(database: &Database) -> Verdict {
    type Entries = PackTable<Team, String, Initials>;
    type Notes = EncryptedColumn<User, String>;
    let pool = MySqlPoolOptions::new().connect(&database.url).await?;
    let keyring = secrets(0, None)?;
    database.execute(&Entries::create_sql(Dialect::MySql, "entries"))?;
    database.execute(&Notes::create_sql(Dialect::MySql, "notes"))?;
    let entries = || Entries::open(&pool, &keyring, "entries", Settings::default());
    let notes = || Notes::open(&pool, &keyring, "notes", Settings::default());
    let (entries, newer, notes, newer_notes) =
        (entries().await?, entries().await?, notes().await?, notes().await?);
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT COUNT(*) FROM entries_recent").execute(&mut *transaction).await?;

    let (first, second) = (Internal::from_key(1)?, Internal::from_key(2)?);
    newer.put(&pool, first, &"a1".to_owned()).await?;
    let samples: Vec<_> = (0..1_000).map(|i| format!("a{i}, b{i}, c{i}")).collect();
    newer.train_from_public(&pool, &samples, 1_024).await?;
    newer.put(&pool, second, &"a2, b2, c2".to_owned()).await?;
    newer_notes.train_from_public(&pool, &samples, 1_024).await?;
    let (id, note) = (Internal::generate(), "a3, b3, c3".to_owned());
    let encrypted = newer_notes.encrypt(id, &note)?;

    // The first attempt finds no row.
    let append = |found: Option<String>| Update::Put(found.unwrap_or("a".to_owned()) + "!");
    entries.update(&mut *transaction, first, append).await?;
    entries.update(&mut *transaction, second, append).await?;
    assert_eq!(notes.decrypt_on(&mut *transaction, id, &encrypted).await?, note);
    transaction.commit().await?;
    let found = newer.get_all(&pool, &[first, second]).await?;
    assert_eq!(found, ["a1!", "a2, b2, c2!"].map(|text| Some(text.to_owned())));
    Ok(Passed)
}

/// A server in non-strict mode cuts off a value that is too long for its column.
async fn rekey_outside_of_strict_mode(database: &Database) -> Verdict {
    type Notes = EncryptedColumn<User, String>;
    let pool = MySqlPoolOptions::new()
        .after_connect(|connection, _| {
            Box::pin(async {
                connection.execute("SET sql_mode = 'ANSI_QUOTES'").await?;
                Ok(())
            })
        })
        .connect(&database.url)
        .await?;
    database.execute(&Notes::create_sql(Dialect::MySql, "notes"))?;
    database
        .execute("CREATE TABLE users_notes (id BINARY(16) PRIMARY KEY, notes VARBINARY(100))")?;
    let settings = Settings::default().padding(Padding::None, Padding::None);
    let old = Notes::open(&pool, &secrets(0, None)?, "notes", settings.clone()).await?;
    let (id, text) = (Internal::generate(), "hay fever".to_owned());
    let insert = sqlx::query("INSERT INTO users_notes VALUES (?, ?)").bind(id);
    insert.bind(old.encrypt(id, &text)?).execute(&pool).await?;

    // The padded value is longer than the column.
    let notes = Notes::open_existing(&pool, &secrets(1, Some(0))?, "notes").await?;
    notes.configure(&pool, settings.padding(Padding::Steps(200), Padding::None)).await?;
    let column = ColumnName::new("users_notes", "notes");
    assert!(notes.rekey(&pool, &column, |_| ()).await.is_err());
    let select = sqlx::query_scalar("SELECT notes FROM users_notes");
    let found: Encrypted<User, String> = select.fetch_one(&pool).await?;
    assert_eq!(notes.decrypt(id, &found)?, text);

    database.execute("ALTER TABLE users_notes MODIFY notes LONGBLOB")?;
    assert_eq!(notes.rekey(&pool, &column, |_| ()).await?.rows, 1);
    assert!(notes.verify(&pool, &column, |_| ()).await?.problems.is_empty());
    Ok(Passed)
}
