//! The types of columns.

use opaque_id_seaorm::Internal;
use opaque_id_tests::conformance::types::{Key, Read, Shape, TypeShop};
use opaque_id_tests::{Result, read_keys};
use sea_orm::Statement;
use sea_orm::entity::prelude::*;

use crate::entity::{legacy, number, team, unsigned_number};
use crate::shop::{SeaOrmShop, one};

impl TypeShop for SeaOrmShop {
    async fn read(&self, key: Key, shape: Shape, query: &str) -> Result<[Read; 2]> {
        let select = Statement::from_string(self.connection.get_database_backend(), query);
        let row = one(&self.connection, select).await?;
        macro_rules! read {
            ($type:ty) => {
                row.try_get_by::<$type, _>(0)
            };
        }
        Ok(read_keys!(
            read, (key, shape);
            I32 i32 => Internal<number::Model>, U32 u32 => Internal<unsigned_number::Model>,
            I64 i64 => Internal<team::Model>, Uuid Uuid => Internal<legacy::Model>;
            lists I32 i32 => Internal<number::Model>, I64 i64 => Internal<team::Model>,
            Uuid Uuid => Internal<legacy::Model>
        ))
    }
}
