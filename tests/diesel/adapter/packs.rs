//! Packs.

use opaque_id_core::OpaqueId;
use opaque_id_packs::{ByKey, Encoding};
use opaque_id_tests::conformance::packs::{PackShop, RowOf, append};
use opaque_id_tests::conformance::shop::IdOf;
use opaque_id_tests::{Result, pack_calls};

use super::*;

impl PackShop for DieselShop {
    pack_calls!(PackTable, self, &mut *self.connection().await?, done);

    async fn packs_in_a_transaction<T: OpaqueId, E: Encoding<String>>(
        &self,
        packs: &Self::Packs<T, ByKey, E>,
        rows: &[RowOf<T>],
        deleted: IdOf<T>,
        appended: IdOf<T>,
        commits: bool,
    ) -> Result<Vec<Option<String>>> {
        let connection = &mut *self.connection().await?;
        done(begin(connection)).await?;
        done(packs.put_all(connection, rows)).await?;
        done(packs.delete(connection, deleted)).await?;
        done(packs.update(connection, appended, append("!".to_owned()).0)).await?;
        let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
        let seen = done(packs.get_all(connection, &ids)).await?;
        if commits {
            done(commit(connection)).await?;
        } else {
            done(rollback(connection)).await?;
        }
        Ok(seen)
    }
}
