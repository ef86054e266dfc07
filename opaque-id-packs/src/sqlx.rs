//! Tables of packs for sqlx.

use futures_timer::Delay;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use opaque_id_sqlx::{ArgumentBuffer, SupportedConnection, SupportedDatabase, run};
use sqlx::encode::IsNull;
use sqlx::error::{BoxDynError, UnexpectedNullError};
use sqlx::{Acquire, Database, Decode, Encode, Pool, Type, ValueRef};

use crate::encrypted_column::encrypted_column;
use crate::error;
use crate::pack_table::{names::*, pack_streams, pack_table};

/// The error of the calls of a [`PackTable`] or an [`EncryptedColumn`].
pub type PackError = error::PackError<sqlx::Error>;

pack_table! {
    {['c, A: Acquire<'c, Database: SupportedDatabase, Connection: SupportedConnection> + Send] A, run, PackError, [async] [.await]}

    /// A table of a resource's rows. The database keeps them compressed and encrypted.
    ///
    /// Its calls accept a pool, a connection or a transaction, like sqlx's `Acquire`. A call in the caller's
    /// transaction is part of it.
    ///
    /// A call and a transaction may be dropped at any time. `begin` of sqlx 0.9.0 must not be dropped, for
    /// example by a timeout around a whole request. The pool's connection would stay in a transaction, and
    /// later calls on it would succeed and be rolled back in the end. `tokio::spawn(async move {
    /// pool.begin().await }).await` is safe.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    /// use opaque_id_packs::sqlx::PackTable;
    /// use opaque_id_packs::{Settings, Update};
    /// use opaque_id_sqlx::{Dialect, IdRange, Internal, Keyring, MasterSecret, OpaqueId};
    /// use serde::{Deserialize, Serialize};
    /// use sqlx::{QueryBuilder, SqlitePool};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "event")]
    /// struct Event;
    ///
    /// #[derive(Debug, PartialEq, Serialize, Deserialize)]
    /// struct Entry {
    ///     actor: String,
    ///     action: String,
    /// }
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// let tables = PackTable::<Event, Entry>::create_sql(Dialect::Sqlite, "events");
    /// QueryBuilder::new(tables).build().execute(&pool).await?; // a migration
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let events = PackTable::<Event, Entry>::open(&pool, &keyring, "events", Settings::default()).await?;
    ///
    /// let id = Internal::generate();
    /// let login = Entry { actor: "ada".into(), action: "login".into() };
    /// events.put(&pool, id, &login).await?;
    /// assert_eq!(events.get(&pool, id).await?, Some(login));
    ///
    /// events.merge_all(&pool).await?; // a task does so: `merge_every`
    /// events
    ///     .update(&pool, id, |entry| match entry {
    ///         Some(entry) => Update::Put(Entry { action: "logout".into(), ..entry }),
    ///         None => Update::Keep,
    ///     })
    ///     .await?;
    /// let rows: Vec<_> = events.range(&pool, IdRange::all()).try_collect().await?;
    /// assert_eq!(rows[0].1.action, "logout");
    /// # events.put(&pool, Internal::generate(), &rows[0].1).await?;
    /// # let mut rows: Vec<_> = events.range(&pool, IdRange::all()).try_collect().await?;
    /// # rows.reverse();
    /// # let descending: Vec<_> = events.range_descending(&pool, IdRange::all()).try_collect().await?;
    /// # assert!(descending == rows && rows[0].0 > rows[1].0);
    ///
    /// events.delete(&pool, id).await?;
    /// assert_eq!(events.get(&pool, id).await?, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct PackTable;
}

pack_streams! { [DB: SupportedDatabase] [, DB] Pool<DB> }

encrypted_column! {
    {['c, A: Acquire<'c, Database: SupportedDatabase, Connection: SupportedConnection> + Send] A, run, PackError, [async] [.await]}

    /// A column of an ordinary table. The database keeps its values compressed and encrypted.
    ///
    /// A model has a field of the type [`Encrypted<T, V>`](Encrypted) that sqlx binds and decodes. `encrypt`
    /// and `decrypt` convert it. Each needs the id of the row, because a value that the server has moved to
    /// another row or column is refused.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_packs::sqlx::EncryptedColumn;
    /// use opaque_id_packs::{ColumnName, Encrypted, Settings};
    /// use opaque_id_sqlx::{Dialect, Internal, Keyring, MasterSecret, OpaqueId};
    /// use serde::{Deserialize, Serialize};
    /// use sqlx::{QueryBuilder, SqlitePool};
    ///
    /// #[derive(OpaqueId, sqlx::FromRow)]
    /// #[opaque_id(prefix = "customer")]
    /// struct Customer {
    ///     id: Internal<Customer>,
    ///     name: String,
    ///     notes: Option<Encrypted<Customer, Notes>>,
    /// }
    ///
    /// #[derive(Debug, PartialEq, Serialize, Deserialize)]
    /// struct Notes {
    ///     allergies: Vec<String>,
    /// }
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// let tables = EncryptedColumn::<Customer, Notes>::create_sql(Dialect::Sqlite, "customers_notes")
    ///     + "CREATE TABLE customers (id BLOB NOT NULL PRIMARY KEY, name TEXT NOT NULL, notes BLOB);";
    /// QueryBuilder::new(tables).build().execute(&pool).await?; // a migration
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let notes: EncryptedColumn<Customer, Notes> =
    ///     EncryptedColumn::open(&pool, &keyring, "customers_notes", Settings::default()).await?;
    ///
    /// let id = Internal::generate();
    /// let encrypted = notes.encrypt(id, &Notes { allergies: vec!["nuts".into()] })?;
    /// sqlx::query("INSERT INTO customers (id, name, notes) VALUES (?, ?, ?)")
    ///     .bind(id)
    ///     .bind("Ada")
    ///     .bind(&encrypted)
    ///     .execute(&pool)
    ///     .await?;
    ///
    /// let ada: Customer = sqlx::query_as("SELECT * FROM customers").fetch_one(&pool).await?;
    /// if let Some(encrypted) = &ada.notes {
    ///     assert_eq!(notes.decrypt_on(&pool, ada.id, encrypted).await?.allergies, ["nuts"]);
    ///     // In another row it is refused.
    ///     assert!(notes.decrypt(Internal::generate(), encrypted).is_err());
    /// }
    ///
    /// // After a rotation, or `train`, while the application runs.
    /// notes.rekey(&pool, &ColumnName::new("customers", "notes"), |_| ()).await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct EncryptedColumn;
}

impl<T, V, DB: Database> Type<DB> for Encrypted<T, V>
where
    Vec<u8>: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <Vec<u8> as Type<DB>>::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        <Vec<u8> as Type<DB>>::compatible(ty)
    }
}

impl<'q, T, V, DB: Database> Encode<'q, DB> for Encrypted<T, V>
where
    Vec<u8>: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buf: &mut ArgumentBuffer<'q, DB>) -> Result<IsNull, BoxDynError> {
        self.body.encode_by_ref(buf)
    }

    fn produces(&self) -> Option<DB::TypeInfo> {
        self.body.produces()
    }

    fn size_hint(&self) -> usize {
        self.body.size_hint()
    }
}

impl<'r, T, V, DB: Database> Decode<'r, DB> for Encrypted<T, V>
where
    Vec<u8>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        // SQLite's driver would read NULL as no bytes.
        match value.is_null() {
            true => Err(UnexpectedNullError.into()),
            false => Vec::decode(value).map(Self::from_bytes),
        }
    }
}
