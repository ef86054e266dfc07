//! Lists are arrays: `= ANY($1)` accepts a `Vec` or a slice.

use opaque_id_core::OpaqueId;
use opaque_id_core::resource::ReprOf;
use sqlx::postgres::{PgHasArrayType, PgTypeInfo};

use crate::Internal;

// 4 list

impl<T: OpaqueId> PgHasArrayType for Internal<T>
where
    ReprOf<T>: PgHasArrayType,
{
    fn array_type_info() -> PgTypeInfo {
        <ReprOf<T> as PgHasArrayType>::array_type_info()
    }

    fn array_compatible(ty: &PgTypeInfo) -> bool {
        <ReprOf<T> as PgHasArrayType>::array_compatible(ty)
    }
}
