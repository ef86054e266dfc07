//! Tables of packs for SeaORM.

use futures_timer::Delay;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use opaque_id_seaorm::{SupportedConnection, run};
use sea_orm::sea_query::{ArrayType, ColumnType, Nullable, Value, ValueType, ValueTypeErr};
use sea_orm::{
    ActiveValue, ColIdx, DatabaseConnection, DbErr, IntoActiveValue, QueryResult, Set, TryGetError,
    TryGetable,
};

use crate::encrypted_column::encrypted_column;
use crate::error;
use crate::pack_table::{names::*, pack_streams, pack_table};

/// The error of the calls of a [`PackTable`] or an [`EncryptedColumn`].
pub type PackError = error::PackError<DbErr>;

pack_table! {
    {[C: SupportedConnection] &C, run, PackError, [async] [.await]}

    /// A table of a resource's rows. The database keeps them compressed and encrypted.
    ///
    /// Its calls accept a `DatabaseConnection` or a `DatabaseTransaction`. A call in the caller's transaction
    /// is part of it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    /// use opaque_id_packs::seaorm::PackTable;
    /// use opaque_id_packs::{Settings, Update};
    /// use opaque_id_seaorm::{Dialect, IdRange, Internal, Keyring, MasterSecret, OpaqueId};
    /// use sea_orm::{ConnectionTrait, Database};
    /// use serde::{Deserialize, Serialize};
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
    /// let db = Database::connect("sqlite::memory:").await?;
    /// let tables = PackTable::<Event, Entry>::create_sql(Dialect::Sqlite, "events");
    /// db.execute_unprepared(&tables).await?; // in a migration: manager.get_connection()
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let events = PackTable::<Event, Entry>::open(&db, &keyring, "events", Settings::default()).await?;
    ///
    /// let id = Internal::generate();
    /// let login = Entry { actor: "ada".into(), action: "login".into() };
    /// events.put(&db, id, &login).await?;
    /// assert_eq!(events.get(&db, id).await?, Some(login));
    ///
    /// events.merge_all(&db).await?; // a task does so: `merge_every`
    /// events
    ///     .update(&db, id, |entry| match entry {
    ///         Some(entry) => Update::Put(Entry { action: "logout".into(), ..entry }),
    ///         None => Update::Keep,
    ///     })
    ///     .await?;
    /// let rows: Vec<_> = events.range(&db, IdRange::all()).try_collect().await?;
    /// assert_eq!(rows[0].1.action, "logout");
    ///
    /// events.delete(&db, id).await?;
    /// assert_eq!(events.get(&db, id).await?, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct PackTable;
}

pack_streams! { [] [] DatabaseConnection }

encrypted_column! {
    {[C: SupportedConnection] &C, run, PackError, [async] [.await]}

    /// A column of an ordinary table. The database keeps its values compressed and encrypted.
    ///
    /// An entity's model has a field of the type [`Encrypted<T, V>`](Encrypted). `encrypt` and `decrypt`
    /// convert it. Each needs the id of the row, because a value that the server has moved to another row or
    /// column is refused.
    ///
    /// ```
    /// mod customer {
    ///     use opaque_id_packs::Encrypted;
    ///     use opaque_id_seaorm::{Internal, OpaqueId};
    ///     use sea_orm::entity::prelude::*;
    ///     use serde::{Deserialize, Serialize};
    ///
    ///     #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    ///     #[sea_orm(table_name = "customers")]
    ///     #[opaque_id(prefix = "customer")]
    ///     pub struct Model {
    ///         #[sea_orm(primary_key, auto_increment = false)]
    ///         pub id: Internal<Model>,
    ///         pub name: String,
    ///         pub notes: Option<Encrypted<Model, Notes>>,
    ///     }
    ///
    ///     #[derive(Debug, PartialEq, Serialize, Deserialize)]
    ///     pub struct Notes {
    ///         pub allergies: Vec<String>,
    ///     }
    ///
    ///     #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    ///     pub enum Relation {}
    ///
    ///     impl ActiveModelBehavior for ActiveModel {}
    /// }
    ///
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use customer::Notes;
    /// use opaque_id_packs::seaorm::EncryptedColumn;
    /// use opaque_id_packs::{ColumnName, Settings};
    /// use opaque_id_seaorm::{Dialect, Internal, Keyring, MasterSecret};
    /// use sea_orm::{ActiveModelTrait, ConnectionTrait, Database, EntityTrait, Set};
    ///
    /// let db = Database::connect("sqlite::memory:").await?;
    /// let tables = EncryptedColumn::<customer::Model, Notes>::create_sql(Dialect::Sqlite, "customers_notes")
    ///     + "CREATE TABLE customers (id BLOB NOT NULL PRIMARY KEY, name TEXT NOT NULL, notes BLOB);";
    /// db.execute_unprepared(&tables).await?; // in a migration: manager.get_connection()
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let notes: EncryptedColumn<customer::Model, Notes> =
    ///     EncryptedColumn::open(&db, &keyring, "customers_notes", Settings::default()).await?;
    ///
    /// let id = Internal::generate();
    /// let encrypted = notes.encrypt(id, &Notes { allergies: vec!["nuts".into()] })?;
    /// customer::ActiveModel { id: Set(id), name: Set("Ada".into()), notes: Set(Some(encrypted)) }
    ///     .insert(&db)
    ///     .await?;
    ///
    /// let ada = customer::Entity::find_by_id(id).one(&db).await?.ok_or("no row")?;
    /// if let Some(encrypted) = &ada.notes {
    ///     assert_eq!(notes.decrypt_on(&db, ada.id, encrypted).await?.allergies, ["nuts"]);
    ///     // In another row it is refused.
    ///     assert!(notes.decrypt(Internal::generate(), encrypted).is_err());
    /// }
    ///
    /// // After a rotation, or `train`, while the application runs.
    /// notes.rekey(&db, &ColumnName::new("customers", "notes"), |_| ()).await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct EncryptedColumn;
}

impl<T, V> ValueType for Encrypted<T, V> {
    fn try_from(value: Value) -> Result<Self, ValueTypeErr> {
        <Vec<u8> as ValueType>::try_from(value).map(Self::from_bytes)
    }

    fn type_name() -> String {
        "Encrypted".to_owned()
    }

    fn array_type() -> ArrayType {
        <Vec<u8> as ValueType>::array_type()
    }

    /// `bytea` or `blob`. MySQL's `blob` has room for 65,535 bytes. Make the column a `LONGBLOB` for longer
    /// values.
    fn column_type() -> ColumnType {
        ColumnType::Blob
    }
}

impl<T, V> Nullable for Encrypted<T, V> {
    fn null() -> Value {
        <Vec<u8> as Nullable>::null()
    }
}

impl<T, V> From<Encrypted<T, V>> for Value {
    fn from(encrypted: Encrypted<T, V>) -> Self {
        encrypted.body.into()
    }
}

impl<T, V> IntoActiveValue<Encrypted<T, V>> for Encrypted<T, V> {
    fn into_active_value(self) -> ActiveValue<Self> {
        Set(self)
    }
}

impl<T, V> TryGetable for Encrypted<T, V> {
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Self, TryGetError> {
        Vec::try_get_by(row, index).map(Self::from_bytes)
    }
}
