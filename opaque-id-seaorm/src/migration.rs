//! Columns and tables for migrations. A column is `uuid`, `BINARY(16)`, a 16-byte `BLOB` or an integer,
//! depending on the key and the database.
//!
//! ```
//! use opaque_id_seaorm::migration::{id_column_null, pk_id};
//! use opaque_id_seaorm::OpaqueId;
//! use sea_orm::DbBackend;
//! use sea_orm::sea_query::{SqliteQueryBuilder, Table};
//!
//! #[derive(OpaqueId)]
//! #[opaque_id(prefix = "user")]
//! struct User;
//!
//! let backend = DbBackend::Sqlite; // in a migration: manager.get_database_backend()
//! let users = Table::create()
//!     .table("users")
//!     .col(pk_id::<User>(backend, "id"))
//!     .col(id_column_null::<User>(backend, "invited_by"))
//!     .to_owned();
//! assert_eq!(
//!     users.to_string(SqliteQueryBuilder),
//!     r#"CREATE TABLE "users" ( "id" blob(16) NOT NULL PRIMARY KEY, "invited_by" blob(16) NULL )"#,
//! );
//! ```

use opaque_id_core::OpaqueId;
use opaque_id_core::resource::{MappedResource, ReprOf};
use opaque_id_sql::sequence;
use sea_orm::sea_query::{ColumnDef, ColumnType, IntoIden, ValueType};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

use crate::mapping::run::dialect;
use crate::{Internal, UuidMap};

/// Returns the primary key column of a resource's table. An integer is auto-incremented. If a mapping table
/// makes the integers, use [`id_column`] with `primary_key()`.
pub fn pk_id<T: OpaqueId>(backend: DbBackend, name: impl IntoIden) -> ColumnDef
where
    ReprOf<T>: ValueType,
{
    let mut column = id_column::<T>(backend, name);
    column.primary_key();
    if !matches!(Internal::<T>::column_type(), ColumnType::Uuid) {
        column.auto_increment();
    }
    column
}

/// Returns a column of a resource's internal ids, such as a foreign key.
pub fn id_column<T: OpaqueId>(backend: DbBackend, name: impl IntoIden) -> ColumnDef
where
    ReprOf<T>: ValueType,
{
    column::<T>(backend, name).not_null().take()
}

/// Returns the same column as [`id_column`], with NULL allowed.
pub fn id_column_null<T: OpaqueId>(backend: DbBackend, name: impl IntoIden) -> ColumnDef
where
    ReprOf<T>: ValueType,
{
    column::<T>(backend, name).null().take()
}

/// SeaORM 1.1 keeps two NULL clauses.
fn column<T: OpaqueId>(backend: DbBackend, name: impl IntoIden) -> ColumnDef
where
    ReprOf<T>: ValueType,
{
    let column_type = match (Internal::<T>::column_type(), backend) {
        // SeaORM's own column for UUIDs is called `uuid_text` on SQLite.
        (ColumnType::Uuid, DbBackend::Sqlite) => ColumnType::Binary(16),
        (column_type, _) => column_type,
    };
    ColumnDef::new_with_type(name, column_type)
}

/// Creates a mapping table: in `up`, with `manager.get_connection()`.
///
/// # Errors
/// The database's.
pub async fn create_map<T: MappedResource>(
    connection: &impl ConnectionTrait,
    map: &UuidMap<T>,
) -> Result<(), DbErr> {
    let sql = map.create_sql(dialect(connection.get_database_backend())?);
    connection.execute_unprepared(&sql).await?;
    Ok(())
}

/// Drops a mapping table: in `down`, with `manager.get_connection()`.
///
/// # Errors
/// The database's.
pub async fn drop_map<T: MappedResource>(
    connection: &impl ConnectionTrait,
    map: &UuidMap<T>,
) -> Result<(), DbErr> {
    connection.execute_unprepared(&map.drop_sql()).await?;
    Ok(())
}

/// Creates the table of all [`Sequence`](crate::Sequence)s: in `up`, with `manager.get_connection()`.
///
/// # Errors
/// The database's.
pub async fn create_sequences(connection: &impl ConnectionTrait) -> Result<(), DbErr> {
    let sql = sequence::create_sql(dialect(connection.get_database_backend())?);
    connection.execute_unprepared(&sql).await?;
    Ok(())
}

/// Drops the table of all [`Sequence`](crate::Sequence)s: in `down`, with `manager.get_connection()`.
///
/// # Errors
/// The database's.
pub async fn drop_sequences(connection: &impl ConnectionTrait) -> Result<(), DbErr> {
    connection.execute_unprepared("DROP TABLE opaque_id_sequences").await?;
    Ok(())
}
