//! Integer keys that are not a `BIGINT`.

use diesel::dsl::sql;
use opaque_id_diesel::Id;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::integers::{self, IntegerShop, NumberOf, UnsignedOf};

use super::*;

impl IntegerShop for DieselShop {
    type Number = Number;
    type Unsigned = UnsignedNumber;

    async fn add_number(&self, number: &NumberOf<Self>) -> Result {
        let connection = &mut *self.connection().await?;
        done(
            diesel::insert_into(numbers::table)
                .values(Number {
                    id: number.id,
                    next_id: number.next_id,
                    team_id: number.team_id,
                })
                .execute(connection),
        )
        .await?;
        Ok(())
    }

    async fn find_numbers(&self, ids: &[Internal<Number>]) -> Result<Vec<NumberOf<Self>>> {
        let connection = &mut *self.connection().await?;
        let numbers: Vec<Number> = done(
            numbers::table
                .filter(numbers::id.eq_any(ids))
                .order(numbers::id)
                .load(connection),
        )
        .await?;
        let number = |number: Number| integers::Number {
            id: number.id,
            next_id: number.next_id,
            team_id: number.team_id,
        };
        Ok(numbers.into_iter().map(number).collect())
    }

    async fn read_number_id(&self, expression: &str) -> Result<Internal<Number>> {
        let connection = &mut *self.connection().await?;
        Ok(done(
            diesel::select(sql::<Id<Number>>(&format!("{expression} AS id")))
                .get_result(connection),
        )
        .await?)
    }

    async fn add_unsigned(&self, row: UnsignedOf<Self>) -> Result {
        server::add_unsigned(&mut *self.connection().await?, row).await
    }

    async fn all_unsigned(&self) -> Result<Vec<UnsignedOf<Self>>> {
        server::all_unsigned(&mut *self.connection().await?).await
    }
}
