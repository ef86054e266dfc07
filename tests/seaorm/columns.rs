//! Encrypted columns.

use std::convert::identity;

use opaque_id_packs::seaorm::EncryptedColumn;
use opaque_id_packs::{Encrypted, Fingerprint, Json, Settings};
use opaque_id_seaorm::{Internal, IntoModel};
use opaque_id_tests::conformance::columns::{self, ColumnShop, ProfileOf};
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::conformance::packs::keyring;
use opaque_id_tests::conformance::report::Outcome::Passed;
use opaque_id_tests::conformance::report::Verdict;
use opaque_id_tests::database::Database;
use opaque_id_tests::{Result, column_calls};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, Set,
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
    column_calls!(EncryptedColumn, user::Model, self, &self.connection, identity);

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

struct Columns {
    notes: EncryptedColumn<user::Model, String>,
    address: EncryptedColumn<user::Model, String>,
}

#[derive(IntoModel)]
#[model(
    into = profile::ActiveModel,
    with = Set,
    default,
    given(id: Internal<user::Model>, id = Set(id)),
    columns = Columns,
    error = Box<dyn std::error::Error + Send + Sync>
)]
struct NewProfile {
    #[model(encrypt)]
    notes: String,
    #[model(encrypt)]
    address: Option<String>,
}

pub(crate) async fn a_request_encrypts(shop: &SeaOrmShop, database: &Database) -> Verdict {
    shop.create_profiles(database).await?;
    let secrets = keyring(0)?;
    let open = async |name: &str| {
        database.execute(&SeaOrmShop::create_column::<user::Model, Json>(
            dialect(database.kind),
            name,
        ))?;
        shop.open_column(&secrets, name.into(), Some(Settings::default())).await
    };
    let columns = Columns { notes: open("notes").await?, address: open("addresses").await? };
    let id = Internal::generate();
    let (notes, address) = ("hay fever".to_owned(), "ada@example.org".to_owned());
    let new = NewProfile { notes: notes.clone(), address: Some(address.clone()) };
    let added = new.encrypt(&secrets.current(), id, &columns)?.insert(&shop.connection).await?;
    assert_eq!((added.id, columns.notes.decrypt(id, &added.notes)?), (id, notes));
    let found = added.address.ok_or("an address")?;
    assert_eq!(columns.address.decrypt(id, &found)?, address);
    Ok(Passed)
}
