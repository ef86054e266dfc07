//! Ranges of keys, and sequences.

use std::convert::identity;

use opaque_id_core::page::PageRequest;
use opaque_id_core::{IdRange, Position};
use opaque_id_seaorm::{PageSql, Sequence, SqlPart};
use opaque_id_sql::Dialect;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use crate::entity::{Order, person, team, user};
use crate::shop::SeaOrmShop;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::keys::{KeyShop, Person, Sorted};
use opaque_id_tests::conformance::shop::{IdOf, UserOf};
use opaque_id_tests::sequence_calls;

fn order(is_descending: bool) -> sea_orm::Order {
    match is_descending {
        true => sea_orm::Order::Desc,
        false => sea_orm::Order::Asc,
    }
}

impl KeyShop for SeaOrmShop {
    sequence_calls!(Sequence, self, &self.connection, identity);

    async fn users_between(&self, range: IdRange<IdOf<user::Model>>) -> Result<Vec<UserOf<Self>>> {
        let is_between = user::Column::Id.between(range.first(), range.last());
        self.users(user::Entity::find().filter(is_between).order_by_asc(user::Column::Id)).await
    }

    async fn users_of_page(
        &self,
        page: &PageRequest<Position<IdOf<user::Model>>>,
    ) -> Result<Vec<UserOf<Self>>> {
        let order = order(page.is_descending());
        let is_between = user::Column::Id.between(page.range().first(), page.range().last());
        let users = user::Entity::find().filter(is_between).order_by(user::Column::Id, order);
        self.users(users.limit(u64::from(page.fetch()))).await
    }

    async fn people_of_page(
        &self,
        page: PageSql<'_, Sorted, IdOf<team::Model>>,
        limit: u32,
    ) -> Result<Vec<Person<Self>>> {
        let values = page.condition().into_iter().filter_map(|part| match part {
            SqlPart::Sql(_) => None,
            SqlPart::Value("nickname", (nickname, ..)) => Some(Value::from(nickname.clone())),
            SqlPart::Value("score", (_, score, _)) => Some((*score).into()),
            SqlPart::Value(_, (.., seen)) => Some(seen.clone().into()),
            SqlPart::Key(id) => Some((*id).into()),
        });
        let condition = Expr::cust_with_values(page.condition_from(1), values.collect::<Vec<_>>());
        let mut people = person::Entity::find().filter(condition).limit(u64::from(limit));
        for (term, descends) in page.order() {
            people = people.order_by(Expr::cust(term), order(descends));
        }
        let people = people.expr_as(Expr::cust("CAST(seen AS CHAR(19))"), "seen_text");
        Ok(people.into_tuple().all(&self.connection).await?)
    }
}
