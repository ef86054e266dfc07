use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::connection::{LoadConnection, TransactionManager};
use diesel::result::{DatabaseErrorKind, Error};
use opaque_id_core::__private::{Answer, Locked, Statement, Step, Steps};
use opaque_id_core::{Dialect, uuid_map};

use crate::MappingError;

uuid_map! {
    /// The mapping table of a resource, which leads from UUIDs outside to integers inside.
    ///
    /// Its calls take a connection, from a pool or not. In a transaction of the caller's they are part of
    /// it, and rolled back with it. `AsyncUuidMap` (feature `async`) is the same for diesel-async.
    ///
    /// ```
    /// use diesel::connection::SimpleConnection;
    /// use diesel::prelude::*;
    /// use opaque_id_diesel::{Dialect, External, OpaqueId, UuidMap};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let mut connection = SqliteConnection::establish(":memory:")?;
    /// let map = UuidMap::<Order>::unique("order_ids");
    /// connection.batch_execute(&map.create_sql(Dialect::Sqlite))?; // a migration
    ///
    /// let theirs: External<Order> = "order_01h2xcejqtf2nbrexx3vqjhp41".parse()?;
    /// let id = map.get_or_insert(&mut connection, theirs)?;
    /// assert_eq!(map.find(&mut connection, theirs)?, Some(id));
    /// assert_eq!(map.external_of(&mut connection, id)?, Some(theirs));
    ///
    /// let (ours, id) = map.issue(&mut connection)?;
    /// assert!(map.forget(&mut connection, ours)?);
    /// assert_eq!(map.external_of(&mut connection, id)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct UuidMap;
    on: [C: LoadConnection<Backend: MapBackend>] &mut C, run: run, error: MappingError,
    async: [] []
}

/// A backend that mapping tables are kept in: the features `postgres`, `mysql` and `sqlite` bring one
/// each. Sealed.
pub trait MapBackend: Backend + Run {}

/// The sealed half of [`MapBackend`].
pub trait Run: Backend {
    const DIALECT: Dialect;

    fn run<C: LoadConnection<Backend = Self>>(
        connection: &mut C,
        statement: &Statement,
    ) -> QueryResult<Answer>;
}

pub(crate) fn run<C: LoadConnection<Backend: MapBackend>>(
    connection: &mut C,
    work: &mut impl Steps,
) -> Result<(), MappingError> {
    if work.is_done() {
        return Ok(());
    }
    work.begun(is_in_transaction(connection)?);
    while let Some(step) = work.step(C::Backend::DIALECT) {
        let answer = answer(connection, &step);
        work.take(C::Backend::DIALECT, answer, is_conflict)?;
    }
    Ok(())
}

pub(crate) fn is_in_transaction<C: LoadConnection>(connection: &mut C) -> QueryResult<bool> {
    let transaction = C::TransactionManager::transaction_manager_status_mut(connection);
    Ok(transaction.transaction_depth()?.is_some())
}

fn answer<C: LoadConnection<Backend: MapBackend>>(
    connection: &mut C,
    step: &Step,
) -> Result<Answer, MappingError> {
    match step {
        Step::One(statement) => Ok(C::Backend::run(connection, statement)?),
        Step::Locked(step) if step.is_in_transaction => locked(connection, step),
        Step::Locked(step) => {
            if step.is_set_before() {
                C::Backend::run(connection, &step.set_isolation)?;
            }
            connection.transaction(|connection| {
                if !step.is_set_before() {
                    C::Backend::run(connection, &step.set_isolation)?;
                }
                locked(connection, step)
            })
        }
    }
}

fn locked<C: LoadConnection<Backend: MapBackend>>(
    connection: &mut C,
    step: &Locked,
) -> Result<Answer, MappingError> {
    let lock = C::Backend::run(connection, &step.lock)?;
    Ok(C::Backend::run(connection, step.under(&lock)?)?)
}

/// Whether it is another transaction's fault. diesel keeps no codes, but for one kind.
pub(crate) fn is_conflict(error: &Error) -> bool {
    let Error::DatabaseError(kind, information) = error else {
        return false;
    };
    matches!(kind, DatabaseErrorKind::SerializationFailure)
        || [
            "deadlock detected",
            "canceling statement due to lock timeout",
            "Deadlock found when trying to get lock",
            "Lock wait timeout exceeded",
            "Record has changed since last read",
            "Failed to read auto-increment value from storage engine",
            "database is locked",
            "database table is locked",
        ]
        .iter()
        .any(|message| information.message().contains(message))
}

/// Implements [`MapBackend`]; the type of a row is the backend's own.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! map_backend {
    ($backend:ty, $dialect:ident, $row:ty) => {
        impl $crate::mapping::MapBackend for $backend {}

        impl $crate::mapping::Run for $backend {
            const DIALECT: ::opaque_id_core::Dialect = ::opaque_id_core::Dialect::$dialect;

            fn run<C: ::diesel::connection::LoadConnection<Backend = Self>>(
                connection: &mut C,
                statement: &::opaque_id_core::__private::Statement,
            ) -> ::diesel::QueryResult<::opaque_id_core::__private::Answer> {
                use ::diesel::RunQueryDsl;

                let query = $crate::mapping::query!($backend, statement);
                $crate::mapping::run_query!(statement, $row, query, connection)
            }
        }

        #[cfg(feature = "async")]
        impl $crate::asynchronous::AsyncMapBackend for $backend {}

        #[cfg(feature = "async")]
        impl $crate::asynchronous::AsyncRun for $backend {
            async fn run<C: ::diesel_async::AsyncConnection<Backend = Self>>(
                connection: &mut C,
                statement: &::opaque_id_core::__private::Statement,
            ) -> ::diesel::QueryResult<::opaque_id_core::__private::Answer> {
                use ::diesel_async::RunQueryDsl;

                let query = $crate::mapping::query!($backend, statement);
                $crate::mapping::run_query!(statement, $row, query, connection, .await)
            }
        }
    };
}

/// The query of a statement, with its values bound.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! query {
    ($backend:ty, $statement:ident) => {{
        let mut query = ::diesel::sql_query(&$statement.sql).into_boxed::<$backend>();
        for value in &$statement.values {
            query = match value {
                ::opaque_id_core::__private::Value::Text(text) => {
                    query.bind::<::diesel::sql_types::Text, _>(text.as_str())
                }
                ::opaque_id_core::__private::Value::Bytes(bytes) => {
                    query.bind::<::diesel::sql_types::Binary, _>(bytes.as_slice())
                }
            };
        }
        query
    }};
}

/// Runs a query, with or without `.await`.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! run_query {
    ($statement:ident, $row:ty, $query:ident, $connection:ident $(, $($await:tt)*)?) => {{
        if $statement.returns_rows {
            let rows: Vec<$row> = $query.load($connection)$($($await)*)??;
            let rows = rows.into_iter().map(<$row>::into_pair).collect::<::diesel::QueryResult<_>>()?;
            Ok(::opaque_id_core::__private::Answer::Rows(rows))
        } else {
            let count = $query.execute($connection)$($($await)*)??;
            Ok(::opaque_id_core::__private::Answer::Changed {
                rows: count as u64,
                // diesel does not tell.
                insert_id: None,
            })
        }
    }};
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) use {map_backend, query, run_query};

/// A row where UUIDs are stored as byte strings.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
#[derive(diesel::QueryableByName)]
pub(crate) struct BinaryRow {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    id: i64,
    #[diesel(sql_type = diesel::sql_types::Binary)]
    uuid: Vec<u8>,
}

#[cfg(any(feature = "mysql", feature = "sqlite"))]
impl BinaryRow {
    pub(crate) fn into_pair(self) -> QueryResult<(i64, opaque_id_core::Uuid)> {
        let uuid = opaque_id_core::Uuid::from_slice(&self.uuid);
        let uuid = uuid.map_err(|error| Error::DeserializationError(Box::new(error)))?;
        Ok((self.id, uuid))
    }
}
