//! Packs.

use std::convert::identity;

use opaque_id_core::OpaqueId;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{ByKey, Encoding};

use crate::shop::SqlxShop;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::packs::{PackShop, RowOf, append};
use opaque_id_tests::conformance::shop::IdOf;
use opaque_id_tests::pack_calls;

macro_rules! pack_shop {
    ($($database:ty),*) => {$(
        impl PackShop for SqlxShop<$database> {
            pack_calls!(PackTable, self, &self.pool, identity);

            async fn packs_in_a_transaction<T: OpaqueId, E: Encoding<String>>(
                &self,
                packs: &Self::Packs<T, ByKey, E>,
                rows: &[RowOf<T>],
                deleted: IdOf<T>,
                appended: IdOf<T>,
                commit: bool,
            ) -> Result<Vec<Option<String>>> {
                let mut transaction = self.pool.begin().await?;
                packs.put_all(&mut transaction, rows).await?;
                packs.delete(&mut transaction, deleted).await?;
                packs.update(&mut transaction, appended, append("!".to_owned()).0).await?;
                let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
                let seen = packs.get_all(&mut *transaction, &ids).await?;
                match commit {
                    true => transaction.commit().await?,
                    false => transaction.rollback().await?,
                }
                Ok(seen)
            }
        }
    )*};
}

pack_shop!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);
