//! Packs.

use std::convert::identity;

use opaque_id_packs::seaorm::PackTable;

use crate::shop::SeaOrmShop;
use opaque_id_tests::conformance::packs::PackShop;
use opaque_id_tests::conformance::shop::Shop;
use opaque_id_tests::{Result, pack_calls};

impl PackShop for SeaOrmShop {
    pack_calls!(PackTable, self, &self.connection, |transaction| &*transaction, identity);
}
