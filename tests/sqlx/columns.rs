//! Encrypted columns.

use std::convert::identity;

use opaque_id_packs::Encrypted;
use opaque_id_packs::sqlx::EncryptedColumn;
use opaque_id_sqlx::Internal;
use opaque_id_tests::conformance::columns::{self, ColumnShop, ProfileOf};
use opaque_id_tests::{Result, column_calls};
use sqlx::{FromRow, QueryBuilder};

use crate::shop::{SqlxShop, User};

#[derive(FromRow)]
struct Profile {
    id: Internal<User>,
    notes: Encrypted<User, String>,
    address: Option<Encrypted<User, String>>,
}

impl From<Profile> for columns::Profile<Internal<User>, Encrypted<User, String>> {
    fn from(profile: Profile) -> Self {
        Self { id: profile.id, notes: profile.notes, address: profile.address }
    }
}

macro_rules! column_shop {
    ($($database:ty),*) => {$(
        impl ColumnShop for SqlxShop<$database> {
            column_calls!(EncryptedColumn, self, &self.pool, identity);

            async fn add_profile(&self, profile: &ProfileOf<Self>) -> Result {
                let mut insert = QueryBuilder::<$database>::new("INSERT INTO profiles VALUES (");
                let mut row = insert.separated(", ");
                row.push_bind(profile.id).push_bind(&profile.notes).push_bind(&profile.address);
                row.push_unseparated(")");
                insert.build().execute(&self.pool).await?;
                Ok(())
            }

            async fn profiles(&self) -> Result<Vec<ProfileOf<Self>>> {
                let select = "SELECT id, notes, address FROM profiles ORDER BY id";
                let profiles: Vec<Profile> = sqlx::query_as(select).fetch_all(&self.pool).await?;
                Ok(profiles.into_iter().map(Into::into).collect())
            }

            async fn update_profile(&self, profile: &ProfileOf<Self>) -> Result {
                QueryBuilder::<$database>::new("UPDATE profiles SET notes = ")
                    .push_bind(&profile.notes)
                    .push(", address = ")
                    .push_bind(&profile.address)
                    .push(" WHERE id = ")
                    .push_bind(profile.id)
                    .build()
                    .execute(&self.pool)
                    .await?;
                Ok(())
            }
        }
    )*};
}

column_shop!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);
