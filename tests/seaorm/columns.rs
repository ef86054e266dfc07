//! Encrypted columns.

use std::convert::identity;

use opaque_id_packs::seaorm::EncryptedColumn;
use opaque_id_packs::{Encrypted, Fingerprint};
use opaque_id_seaorm::Internal;
use opaque_id_tests::conformance::columns::{self, ColumnShop, ProfileOf};
use opaque_id_tests::database::Database;
use opaque_id_tests::{Result, column_calls};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
};

use crate::entity::{profile, user};
use crate::shop::{SeaOrmShop, create_table};

impl From<profile::Model>
    for columns::Profile<
        Internal<user::Model>,
        Encrypted<user::Model, String>,
        Fingerprint<user::Model>,
    >
{
    fn from(profile: profile::Model) -> Self {
        let profile::Model { id, notes, address, address_index: index } = profile;
        Self { id, notes, address, index }
    }
}

fn active(profile: &ProfileOf<SeaOrmShop>) -> profile::ActiveModel {
    let columns::Profile { id, notes, address, index: address_index } = profile.clone();
    profile::Model { id, notes, address, address_index }.into_active_model()
}

impl ColumnShop for SeaOrmShop {
    column_calls!(EncryptedColumn, self, &self.connection, identity);

    /// The entity defines the table.
    async fn create_profiles(&self, _: &Database) -> Result {
        create_table(&self.connection, profile::Entity).await
    }

    async fn add_profile(&self, profile: &ProfileOf<Self>) -> Result {
        let inserted = active(profile).insert(&self.connection).await?;
        assert_eq!(ProfileOf::<Self>::from(inserted), *profile);
        Ok(())
    }

    async fn profiles(&self) -> Result<Vec<ProfileOf<Self>>> {
        let select = profile::Entity::find().order_by_asc(profile::Column::Id);
        Ok(select.all(&self.connection).await?.into_iter().map(Into::into).collect())
    }

    async fn profiles_at(
        &self,
        address: &Fingerprint<user::Model>,
    ) -> Result<Vec<ProfileOf<Self>>> {
        let index = profile::Column::AddressIndex.eq(address.clone());
        let found = profile::Entity::find().filter(index).all(&self.connection).await?;
        Ok(found.into_iter().map(Into::into).collect())
    }

    async fn update_profile(&self, profile: &ProfileOf<Self>) -> Result {
        active(profile).reset_all().update(&self.connection).await?;
        Ok(())
    }
}
