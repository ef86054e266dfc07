//! Packs.

use std::convert::identity;

use opaque_id_packs::sqlx::PackTable;

use crate::shop::SqlxShop;
use opaque_id_tests::conformance::packs::PackShop;
use opaque_id_tests::conformance::shop::Shop;
use opaque_id_tests::{Result, pack_calls};

macro_rules! pack_shop {
    ($($database:ty),*) => {$(
        impl PackShop for SqlxShop<$database> {
            pack_calls!(PackTable, self, &self.pool, |transaction| &mut **transaction, identity);
        }
    )*};
}

pack_shop!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);
