//! Connections of each kind to each database, and the adapter on each of them.

mod async_mysql;
mod async_postgres;
mod async_sqlite;
mod blocking_mysql;
mod blocking_postgres;
mod blocking_sqlite;

use opaque_id_tests::conformance::report::Case;
use opaque_id_tests::conformance::suite;
use opaque_id_tests::engine::Engine;

pub(crate) fn suites() -> Vec<Case> {
    let mut suites = Vec::new();
    macro_rules! suites {
        ($($kind:ident: $module:ident),*) => {
            $({
                use $module::adapter::{DieselShop, own};
                suites.extend(suite::<DieselShop>(Engine::$kind, own::cases()));
            })*
        };
    }
    suites! {
        Postgres: blocking_postgres, Mysql: blocking_mysql, Mariadb: blocking_mysql, Sqlite: blocking_sqlite,
        Postgres: async_postgres, Mysql: async_mysql, Mariadb: async_mysql, Sqlite: async_sqlite
    }
    suites
}
