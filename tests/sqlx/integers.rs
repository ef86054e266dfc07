//! Integer keys that are not a `BIGINT`.

use opaque_id_sqlx::{Internal, OpaqueId};
use sqlx::QueryBuilder;

use crate::shop::{SqlxShop, read_ids};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::integers::{IntegerShop, NumberOf, UnsignedOf};

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "number", key = i32)]
pub(crate) struct Number;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "unsigned", key = u32)]
pub(crate) struct Unsigned;

macro_rules! integer_shop {
    ($database:ty $(, $unsigned:item)*) => {
        impl IntegerShop for SqlxShop<$database> {
            type Number = Number;
            type Unsigned = Unsigned;

            async fn add_number(&self, number: &NumberOf<Self>) -> Result {
                let mut insert = QueryBuilder::new("INSERT INTO numbers (id, next_id, team_id) ");
                self.execute(insert.push_values([number], |mut row, number| {
                    row.push_bind(number.0).push_bind(number.1).push_bind(number.2);
                }))
                .await
            }

            async fn find_numbers(&self, ids: &[Internal<Number>]) -> Result<Vec<NumberOf<Self>>> {
                let mut select = QueryBuilder::<$database>::new(
                    "SELECT id, next_id, team_id FROM numbers WHERE id IN (",
                );
                let mut list = select.separated(", ");
                for id in ids {
                    list.push_bind(*id);
                }
                list.push_unseparated(") ORDER BY id");
                Ok(select.build_query_as().fetch_all(&self.pool).await?)
            }

            read_ids! { read_number_id: Internal<Number> }

            $($unsigned)*
        }
    };
}

integer_shop!(sqlx::Postgres);
integer_shop!(sqlx::Sqlite);
integer_shop!(
    sqlx::MySql,
    async fn add_unsigned(&self, (id, team_id): UnsignedOf<Self>) -> Result {
        sqlx::query("INSERT INTO unsigned_numbers (id, team_id) VALUES (?, ?)")
            .bind(id)
            .bind(team_id)
            .execute(&self.pool)
            .await?;
        Ok(())
    },
    async fn all_unsigned(&self) -> Result<Vec<UnsignedOf<Self>>> {
        let select = "SELECT id, team_id FROM unsigned_numbers ORDER BY id";
        Ok(sqlx::query_as(select).fetch_all(&self.pool).await?)
    }
);
