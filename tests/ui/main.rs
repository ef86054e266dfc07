//! What must not compile, and what the compiler says then.
//!
//! `TRYBUILD=overwrite cargo test -p opaque-id-tests --test ui` rewrites the expectations.

use std::fmt::Display;

use opaque_id_core::{External, InternalId, OpaqueId};

#[test]
fn what_must_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/core/*.rs");
    cases.compile_fail("ui/derive/*.rs");
    cases.compile_fail("ui/diesel/*.rs");
    cases.compile_fail("ui/seaorm/*.rs");
    cases.compile_fail("ui/sqlx/*.rs");
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

/// Fails to compile, as ambiguous, if `$type` implements one of the traits.
macro_rules! assert_not_impl_any {
    ($type:ty: $($bound:path),+) => {{
        trait AmbiguousIfImplemented<A> {
            fn some_item() {}
        }
        impl<T: ?Sized> AmbiguousIfImplemented<()> for T {}
        $({
            struct Marker;
            impl<T: ?Sized + $bound> AmbiguousIfImplemented<Marker> for T {}
            <$type as AmbiguousIfImplemented<_>>::some_item();
        })+
    }};
}

/// What holds of every crate's `Internal<T>`.
macro_rules! assert_internal {
    ($($adapter:ident),+) => {
        $(
            assert_not_impl_any!($adapter::Internal<User>: serde::Serialize, serde::de::DeserializeOwned, Display);
            assert_not_impl_any!($adapter::Internal<User>: From<opaque_id_core::Uuid>, Into<opaque_id_core::Uuid>);
            assert_not_impl_any!($adapter::Internal<User>: std::ops::Deref, std::str::FromStr);
        )+
    };
}

#[test]
fn what_no_id_implements() {
    assert_internal!(
        opaque_id_core,
        opaque_id_diesel,
        opaque_id_seaorm,
        opaque_id_sqlx
    );
    assert_not_impl_any!(External<User>: PartialOrd, Ord);
}

#[test]
fn what_no_external_id_implements_of_sqlx() {
    use sqlx::{MySql, Postgres, Sqlite};

    assert_not_impl_any!(External<User>: sqlx::Type<Postgres>, sqlx::Type<MySql>, sqlx::Type<Sqlite>);
    assert_not_impl_any!(External<User>: sqlx::Encode<'static, Postgres>, sqlx::Decode<'static, Postgres>);
    assert_not_impl_any!(External<User>: sqlx::Encode<'static, MySql>, sqlx::Decode<'static, MySql>);
    assert_not_impl_any!(External<User>: sqlx::Encode<'static, Sqlite>, sqlx::Decode<'static, Sqlite>);
    assert_not_impl_any!(External<User>: sqlx::postgres::PgHasArrayType);
}

#[test]
fn what_no_external_id_implements_of_diesel() {
    use diesel::deserialize::FromSql;
    use diesel::expression::AsExpression;
    use diesel::mysql::Mysql;
    use diesel::pg::Pg;
    use diesel::serialize::ToSql;
    use diesel::sql_types::{BigInt, Binary, Text, Uuid};
    use diesel::sqlite::Sqlite;
    use opaque_id_diesel::Id;

    assert_not_impl_any!(External<User>: AsExpression<Id<User>>, AsExpression<Uuid>, AsExpression<Binary>);
    assert_not_impl_any!(External<User>: AsExpression<BigInt>, AsExpression<Text>);
    assert_not_impl_any!(External<User>: ToSql<Id<User>, Pg>, ToSql<Id<User>, Mysql>, ToSql<Id<User>, Sqlite>);
    assert_not_impl_any!(External<User>: FromSql<Id<User>, Pg>, FromSql<Id<User>, Mysql>, FromSql<Id<User>, Sqlite>);
    assert_not_impl_any!(External<User>: ToSql<Text, Sqlite>, FromSql<Text, Sqlite>);
}

#[test]
fn what_no_external_id_implements_of_seaorm() {
    use sea_orm::sea_query::{Nullable, ValueType};
    use sea_orm::{TryFromU64, TryGetable, Value};

    assert_not_impl_any!(External<User>: Into<Value>, ValueType, Nullable, TryGetable, TryFromU64);
}

#[test]
fn what_every_id_implements() {
    fn internal<I: Copy + Eq + Ord + std::hash::Hash + Send + Sync + std::fmt::Debug>() {}
    fn external<
        I: Copy
            + Eq
            + std::hash::Hash
            + Send
            + Sync
            + Display
            + std::str::FromStr
            + serde::Serialize
            + serde::de::DeserializeOwned,
    >() {
    }
    internal::<opaque_id_core::Internal<User>>();
    internal::<opaque_id_diesel::Internal<User>>();
    internal::<opaque_id_seaorm::Internal<User>>();
    internal::<opaque_id_sqlx::Internal<User>>();
    external::<External<User>>();
}

#[test]
fn ids_of_the_core_convert_both_ways() {
    let domain = opaque_id_core::Internal::<User>::generate();
    macro_rules! assert_converts {
        ($($adapter:ident),+) => {
            $(
                let stored: $adapter::Internal<User> = domain.into();
                assert_eq!(stored.as_repr(), domain.as_repr());
                assert_eq!(opaque_id_core::Internal::from(stored), domain);
            )+
        };
    }
    assert_converts!(opaque_id_diesel, opaque_id_seaorm, opaque_id_sqlx);
}
