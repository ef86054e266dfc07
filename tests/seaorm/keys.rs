//! Ranges of keys, and sequences.

use std::convert::identity;

use opaque_id_core::IdRange;
use opaque_id_core::page::PageRequest;
use opaque_id_seaorm::Sequence;
use opaque_id_sql::Dialect;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use crate::entity::{Order, legacy, user};
use crate::shop::SeaOrmShop;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::keys::KeyShop;
use opaque_id_tests::conformance::shop::{IdOf, UserOf};
use opaque_id_tests::sequence_calls;

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
        page: &PageRequest<IdOf<user::Model>>,
    ) -> Result<Vec<UserOf<Self>>> {
        let order = match page.is_descending() {
            true => sea_orm::Order::Desc,
            false => sea_orm::Order::Asc,
        };
        let is_between = user::Column::Id.between(page.range().first(), page.range().last());
        let users = user::Entity::find().filter(is_between).order_by(user::Column::Id, order);
        self.users(users.limit(u64::from(page.fetch()))).await
    }
}
