//! Packs.

use std::convert::identity;

use opaque_id_core::OpaqueId;
use opaque_id_packs::seaorm::PackTable;
use opaque_id_packs::{ByKey, Encoding};
use sea_orm::TransactionTrait;

use crate::shop::SeaOrmShop;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::packs::{PackShop, RowOf, append};
use opaque_id_tests::conformance::shop::IdOf;
use opaque_id_tests::pack_calls;

impl PackShop for SeaOrmShop {
    pack_calls!(PackTable, self, &self.connection, identity);

    async fn packs_in_a_transaction<T: OpaqueId, E: Encoding<String>>(
        &self,
        packs: &Self::Packs<T, ByKey, E>,
        rows: &[RowOf<T>],
        deleted: IdOf<T>,
        appended: IdOf<T>,
        commit: bool,
    ) -> Result<Vec<Option<String>>> {
        let transaction = self.connection.begin().await?;
        packs.put_all(&transaction, rows).await?;
        packs.delete(&transaction, deleted).await?;
        packs.update(&transaction, appended, append("!".to_owned()).0).await?;
        let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
        let seen = packs.get_all(&transaction, &ids).await?;
        match commit {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        Ok(seen)
    }
}
