//! Packs.

use opaque_id_tests::conformance::packs::PackShop;
use opaque_id_tests::conformance::shop::Shop;
use opaque_id_tests::{Result, pack_calls};

use super::*;

impl PackShop for DieselShop {
    pack_calls!(
        PackTable,
        self,
        &mut *self.connection().await?,
        |transaction| &mut **transaction,
        done
    );
}
