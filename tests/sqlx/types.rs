//! The types of columns.

use opaque_id_sqlx::Internal;
use opaque_id_sqlx::key::Uuid;
use opaque_id_tests::conformance::types::{Key, Read, Shape, TypeShop};
use opaque_id_tests::sql::fixed;
use opaque_id_tests::{Result, read_keys};

use crate::integers::{Number, Unsigned};
use crate::shop::{Legacy, SqlxShop, Team};

macro_rules! type_shop {
    ($database:ty; $($keys:tt)*) => {
        impl TypeShop for SqlxShop<$database> {
            async fn read(&self, key: Key, shape: Shape, query: &str) -> Result<[Read; 2]> {
                macro_rules! read {
                    ($type:ty) => {
                        sqlx::query_scalar::<_, $type>(fixed(query)).fetch_one(&self.pool).await
                    };
                }
                Ok(read_keys!(read, (key, shape); $($keys)*))
            }
        }
    };
}

type_shop!(
    sqlx::Postgres;
    I32 i32 => Internal<Number>, I64 i64 => Internal<Team>, Uuid Uuid => Internal<Legacy>;
    lists I32 i32 => Internal<Number>, I64 i64 => Internal<Team>, Uuid Uuid => Internal<Legacy>
);
type_shop!(
    sqlx::MySql;
    I32 i32 => Internal<Number>, U32 u32 => Internal<Unsigned>, I64 i64 => Internal<Team>,
    Uuid Uuid => Internal<Legacy>
);
type_shop!(
    sqlx::Sqlite;
    I32 i32 => Internal<Number>, I64 i64 => Internal<Team>, Uuid Uuid => Internal<Legacy>
);
