//! The types of columns.

use diesel::dsl::sql;
use opaque_id_tests::conformance::types::{Key, Read, Shape, TypeShop};

use super::*;
#[allow(unused_imports, reason = "each database has some of them")]
use crate::types::{Bytes, ReadAs};
#[allow(unused_imports, reason = "PostgreSQL has it")]
use opaque_id_core::key::Uuid;

impl TypeShop for DieselShop {
    async fn read(&self, key: Key, shape: Shape, query: &str) -> Result<[Read; 2]> {
        let expression = query.trim_start_matches("SELECT ");
        macro_rules! read {
            ($type:ty) => {{
                let select = diesel::select(sql::<<$type as ReadAs>::Sql>(expression));
                run!(self.get_result::<$type>(select))
            }};
        }
        Ok(typed_keys!(read, (key, shape)))
    }
}
