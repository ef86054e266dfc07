//! `uuid`, `bigint` and `integer`; lists are arrays: `eq_any` accepts a `Vec`.

use opaque_id_core::OpaqueId;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_sql::dialect::{Dialect, Failure};
use sea_orm::sea_query::value::postgres_array::NotU8;
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::postgres::{PgDatabaseError, PgRow};
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};
use sea_orm::{ColIdx, QueryResult, TryGetError, TryGetable, TryGetableArray};

use crate::Internal;
use crate::internal::decode_error;

// 3 read

pub(crate) fn column_type<I: ColIdx>(row: &PgRow, index: I) -> Option<String> {
    let value = row.try_get_raw(index.as_sqlx_postgres_index()).ok()?;
    (!value.is_null()).then(|| value.type_info().name().to_owned())
}

// 4 list

impl<T: OpaqueId> NotU8 for Internal<T> {}

impl<T: OpaqueId> TryGetableArray for Internal<T>
where
    Vec<ReprOf<T>>: TryGetable,
{
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Vec<Self>, TryGetError> {
        Vec::<ReprOf<T>>::try_get_by(row, index)?
            .into_iter()
            .map(|repr| Self::from_repr(repr).map_err(decode_error))
            .collect()
    }
}

// 6 mapping

/// Returns what an error of this database says of a retry.
pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<PgDatabaseError>()?;
    Some(Dialect::Postgres.failure(error.code()))
}
