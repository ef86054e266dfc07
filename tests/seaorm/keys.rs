//! Ranges of keys, and sequences.

use std::convert::identity;

use opaque_id_core::page::PageRequest;
use opaque_id_core::{IdRange, Position};
use opaque_id_seaorm::Sequence;
use opaque_id_sql::Dialect;
use sea_orm::entity::prelude::*;
#[cfg(not(feature = "older"))]
use sea_orm::sea_query::ExprTrait;
use sea_orm::{QueryOrder, QuerySelect, QueryTrait};

use crate::entity::{Order, legacy, person, user};
use crate::shop::SeaOrmShop;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::keys::{KeyShop, Nickname, Person};
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

    async fn legacy_between(
        &self,
        range: IdRange<IdOf<legacy::Model>>,
    ) -> Result<Vec<IdOf<legacy::Model>>> {
        Ok(legacy::Entity::find()
            .select_only()
            .column(legacy::Column::Id)
            .filter(legacy::Column::Id.between(range.first(), range.last()))
            .order_by_asc(legacy::Column::Id)
            .into_tuple()
            .all(&self.connection)
            .await?)
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
        page: &PageRequest<Nickname<Self>>,
    ) -> Result<Vec<Person<Self>>> {
        use person::Column::{Id, Nickname};

        let order = order(page.is_descending());
        let beyond = page.position().map(|(name, id)| match (name, page.is_descending()) {
            (Some(name), false) => {
                Nickname.gt(name).or(Nickname.eq(name).and(Id.gt(*id))).or(Nickname.is_null())
            }
            (None, false) => Nickname.is_null().and(Id.gt(*id)),
            (Some(name), true) => Nickname.lt(name).or(Nickname.eq(name).and(Id.lt(*id))),
            (None, true) => Nickname.is_not_null().or(Id.lt(*id)),
        });
        let people = person::Entity::find()
            .apply_if(beyond, QueryFilter::filter)
            .order_by(Nickname.is_null(), order.clone())
            .order_by(Nickname, order.clone())
            .order_by(Id, order)
            .limit(u64::from(page.fetch()));
        let people = people.all(&self.connection).await?;
        Ok(people.into_iter().map(|person| (person.id, person.nickname)).collect())
    }
}
