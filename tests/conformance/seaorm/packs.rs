//! Packs.

use opaque_id_core::OpaqueId;
use opaque_id_packs::ByKey;
use opaque_id_packs::seaorm::PackTable;
use sea_orm::TransactionTrait;

use super::SeaOrmShop;
use crate::Result;
use crate::packs::{PackShop, RowOf, append, pack_calls};
use crate::shop::IdOf;

impl PackShop for SeaOrmShop {
    pack_calls!(PackTable, self, &self.connection, .await);

    async fn packs_in_a_transaction<T: OpaqueId>(
        &self,
        packs: &Self::Packs<T, ByKey>,
        rows: &[RowOf<T>],
        deleted: IdOf<T>,
        appended: IdOf<T>,
        commit: bool,
    ) -> Result<Vec<Option<String>>> {
        let transaction = self.connection.begin().await?;
        packs.put_all(&transaction, rows).await?;
        packs.delete(&transaction, deleted).await?;
        packs
            .update(&transaction, appended, append("!".to_owned()).0)
            .await?;
        let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
        let seen = packs.get_all(&transaction, &ids).await?;
        match commit {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        Ok(seen)
    }
}
