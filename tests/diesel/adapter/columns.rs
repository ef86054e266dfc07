//! Encrypted columns.

use opaque_id_tests::conformance::columns::{ColumnShop, ProfileOf};
use opaque_id_tests::{Result, column_calls};

use super::*;

impl ColumnShop for DieselShop {
    column_calls!(EncryptedColumn, self, &mut *self.connection().await?, done);

    async fn add_profile(&self, profile: &ProfileOf<Self>) -> Result {
        let connection = &mut *self.connection().await?;
        let insert = diesel::insert_into(profiles::table).values(Profile::from(profile));
        done(insert.execute(connection)).await?;
        Ok(())
    }

    async fn profiles(&self) -> Result<Vec<ProfileOf<Self>>> {
        let connection = &mut *self.connection().await?;
        let select = profiles::table.order(profiles::id).select(Profile::as_select());
        let profiles: Vec<Profile> = done(select.load(connection)).await?;
        Ok(profiles.into_iter().map(Into::into).collect())
    }

    async fn update_profile(&self, profile: &ProfileOf<Self>) -> Result {
        let connection = &mut *self.connection().await?;
        let profile = Profile::from(profile);
        done(diesel::update(&profile).set(&profile).execute(connection)).await?;
        Ok(())
    }
}
