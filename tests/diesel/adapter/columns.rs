//! Encrypted columns.

use opaque_id_packs::Fingerprint;
use opaque_id_tests::conformance::columns::{ColumnShop, ProfileOf};
use opaque_id_tests::{Result, column_calls};

use super::shop::all;
use super::*;

impl ColumnShop for DieselShop {
    column_calls!(EncryptedColumn, User, self, &mut *self.connection().await?, done);

    async fn add_profile(&self, profile: &ProfileOf<Self>) -> Result {
        run!(self.execute(diesel::insert_into(profiles::table).values(Profile::from(profile))))?;
        Ok(())
    }

    async fn profiles(&self) -> Result<Vec<ProfileOf<Self>>> {
        let profiles = profiles::table.order(profiles::id).select(Profile::as_select());
        Ok(all(run!(self.load(profiles))?))
    }

    async fn profiles_at(&self, address: &Fingerprint<User>) -> Result<Vec<ProfileOf<Self>>> {
        let profiles = profiles::table.filter(profiles::address_index.eq(address));
        Ok(all(run!(self.load(profiles.select(Profile::as_select())))?))
    }

    async fn update_profile(&self, profile: &ProfileOf<Self>) -> Result {
        let profile = Profile::from(profile);
        run!(self.execute(diesel::update(&profile).set(&profile)))?;
        Ok(())
    }
}
