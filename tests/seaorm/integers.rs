//! Integer keys that are not a `BIGINT`.

use opaque_id_seaorm::Internal;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, Set};

use crate::entity::{number, unsigned_number};
use crate::shop::SeaOrmShop;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::integers::{IntegerShop, NumberOf, UnsignedOf};

impl IntegerShop for SeaOrmShop {
    type Number = number::Model;
    type Unsigned = unsigned_number::Model;

    async fn add_number(&self, number: &NumberOf<Self>) -> Result {
        let number = number::ActiveModel {
            id: Set(number.0),
            next_id: Set(number.1),
            team_id: Set(number.2),
        };
        number.insert(&self.connection).await?;
        Ok(())
    }

    async fn find_numbers(&self, ids: &[Internal<number::Model>]) -> Result<Vec<NumberOf<Self>>> {
        let numbers = number::Entity::find()
            .filter(number::Column::Id.is_in(ids.iter().copied()))
            .order_by_asc(number::Column::Id)
            .all(&self.connection)
            .await?;
        let number = |number: number::Model| (number.id, number.next_id, number.team_id);
        Ok(numbers.into_iter().map(number).collect())
    }

    async fn read_number_id(&self, expression: &str) -> Result<Internal<number::Model>> {
        Ok(self.select(expression).await?.try_get("", "id")?)
    }

    async fn add_unsigned(&self, (id, team_id): UnsignedOf<Self>) -> Result {
        let number = unsigned_number::ActiveModel { id: Set(id), team_id: Set(team_id) };
        number.insert(&self.connection).await?;
        Ok(())
    }

    async fn all_unsigned(&self) -> Result<Vec<UnsignedOf<Self>>> {
        let numbers = unsigned_number::Entity::find()
            .order_by_asc(unsigned_number::Column::Id)
            .all(&self.connection)
            .await?;
        Ok(numbers.into_iter().map(|number| (number.id, number.team_id)).collect())
    }
}
