//! Tables of packs for diesel and diesel-async.

use diesel::backend::Backend;
use diesel::connection::LoadConnection;
use diesel::deserialize::{self, FromSql};
use diesel::result::Error;
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::Binary;
#[cfg(feature = "diesel-async")]
use diesel_async::AsyncConnection;
#[cfg(feature = "diesel-async")]
use opaque_id_diesel::{AsyncSupportedBackend, run_async};
use opaque_id_diesel::{SupportedBackend, run};

use crate::encrypted_column::encrypted_column;
use crate::error;
use crate::pack_table::{names::*, pack_table};

/// The error of the calls of a [`PackTable`] or an [`EncryptedColumn`].
pub type PackError = error::PackError<Error>;

pack_table! {
    {[C: LoadConnection<Backend: SupportedBackend>] &mut C, run, PackError, [] []}

    /// A table of a resource's rows. The database keeps them compressed and encrypted.
    ///
    /// Its calls accept a connection, from a pool or not. A call in the caller's transaction is part of it.
    ///
    /// ```
    /// use diesel::connection::SimpleConnection;
    /// use diesel::prelude::*;
    /// use opaque_id_packs::diesel::PackTable;
    /// use opaque_id_packs::{Settings, Update};
    /// use opaque_id_diesel::{Dialect, IdRange, Internal, Keyring, MasterSecret, OpaqueId};
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
    /// let mut connection = SqliteConnection::establish(":memory:")?;
    /// let tables = PackTable::<Event, Entry>::create_sql(Dialect::Sqlite, "events");
    /// connection.batch_execute(&tables)?; // a migration
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let events = PackTable::<Event, Entry>::open(&mut connection, &keyring, "events", Settings::default())?;
    ///
    /// let id = Internal::generate();
    /// let login = Entry { actor: "ada".into(), action: "login".into() };
    /// events.put(&mut connection, id, &login)?;
    /// assert_eq!(events.get(&mut connection, id)?, Some(login));
    ///
    /// events.merge_all(&mut connection)?; // a thread does so, again and again
    /// events.update(&mut connection, id, |entry| match entry {
    ///     Some(entry) => Update::Put(Entry { action: "logout".into(), ..entry }),
    ///     None => Update::Keep,
    /// })?;
    /// let mut pages = events.pages(IdRange::all());
    /// while let Some(rows) = events.next_page(&mut connection, &mut pages)? {
    ///     assert_eq!(rows[0].1.action, "logout");
    /// }
    ///
    /// events.delete(&mut connection, id)?;
    /// assert_eq!(events.get(&mut connection, id)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct PackTable;
}

#[cfg(feature = "diesel-async")]
pack_table! {
    {[C: AsyncConnection<Backend: AsyncSupportedBackend>] &mut C, run_async, PackError, [async] [.await]}

    /// A [`PackTable`] for diesel-async.
    ///
    /// `opaque_id_diesel::AsyncUuidMap` has an example of a connection.
    pub struct AsyncPackTable;
}

encrypted_column! {
    {[C: LoadConnection<Backend: SupportedBackend>] &mut C, run, PackError, [] []}

    /// A column of an ordinary table. The database keeps its values compressed and encrypted.
    ///
    /// A model has a field of the type [`Encrypted<T, V>`](Encrypted) for columns of the type `Binary`.
    /// `encrypt` and `decrypt` convert it. Each needs the id of the row, because a value that the server has
    /// moved to another row or column is refused.
    ///
    /// ```
    /// use diesel::connection::SimpleConnection;
    /// use diesel::prelude::*;
    /// use opaque_id_diesel::{Dialect, Internal, Keyring, MasterSecret, OpaqueId};
    /// use opaque_id_packs::diesel::EncryptedColumn;
    /// use opaque_id_packs::{ColumnName, Encrypted, Settings};
    /// use serde::{Deserialize, Serialize};
    ///
    /// diesel::table! {
    ///     use diesel::sql_types::*;
    ///     use opaque_id_diesel::Id;
    ///     use super::Customer;
    ///     customers (id) {
    ///         id -> Id<Customer>,
    ///         name -> Text,
    ///         notes -> Nullable<Binary>,
    ///     }
    /// }
    ///
    /// #[derive(OpaqueId, Queryable, Insertable)]
    /// #[opaque_id(prefix = "customer")]
    /// #[diesel(table_name = customers)]
    /// pub struct Customer {
    ///     id: Internal<Customer>,
    ///     name: String,
    ///     notes: Option<Encrypted<Customer, Notes>>,
    /// }
    ///
    /// #[derive(Debug, PartialEq, Serialize, Deserialize)]
    /// pub struct Notes {
    ///     allergies: Vec<String>,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut connection = SqliteConnection::establish(":memory:")?;
    /// let tables = EncryptedColumn::<Customer, Notes>::create_sql(Dialect::Sqlite, "customers_notes")
    ///     + "CREATE TABLE customers (id BLOB NOT NULL PRIMARY KEY, name TEXT NOT NULL, notes BLOB);";
    /// connection.batch_execute(&tables)?; // a migration
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let notes: EncryptedColumn<Customer, Notes> =
    ///     EncryptedColumn::open(&mut connection, &keyring, "customers_notes", Settings::default())?;
    ///
    /// let id = Internal::generate();
    /// let encrypted = notes.encrypt(id, &Notes { allergies: vec!["nuts".into()] })?;
    /// diesel::insert_into(customers::table)
    ///     .values(Customer { id, name: "Ada".into(), notes: Some(encrypted) })
    ///     .execute(&mut connection)?;
    ///
    /// let ada: Customer = customers::table.first(&mut connection)?;
    /// if let Some(encrypted) = &ada.notes {
    ///     assert_eq!(notes.decrypt_on(&mut connection, ada.id, encrypted)?.allergies, ["nuts"]);
    ///     // In another row it is refused.
    ///     assert!(notes.decrypt(Internal::generate(), encrypted).is_err());
    /// }
    ///
    /// // After a rotation, or `train`, while the application runs.
    /// notes.rekey(&mut connection, &ColumnName::new("customers", "notes"), |_| ())?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct EncryptedColumn;
}

#[cfg(feature = "diesel-async")]
encrypted_column! {
    {[C: AsyncConnection<Backend: AsyncSupportedBackend>] &mut C, run_async, PackError, [async] [.await]}

    /// An [`EncryptedColumn`] for diesel-async.
    pub struct AsyncEncryptedColumn;
}

impl<T, V, DB: Backend> ToSql<Binary, DB> for Encrypted<T, V>
where
    [u8]: ToSql<Binary, DB>,
{
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
        self.body.as_slice().to_sql(out)
    }
}

impl<T, V, DB: Backend> FromSql<Binary, DB> for Encrypted<T, V>
where
    Vec<u8>: FromSql<Binary, DB>,
{
    fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
        Vec::from_sql(value).map(Self::from_bytes)
    }
}
