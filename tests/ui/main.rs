//! Code that must not compile. `cases` compares our messages, and the rest checks facts about types.

mod cases;
mod clippy;

use std::any::TypeId;
use std::collections::HashSet;
use std::fmt::Display;

use opaque_id_core::form::{FormOf, Tagged};
use opaque_id_core::key::Uuid7;
use opaque_id_core::resource::InternalId;
use opaque_id_core::{External, Keyring, MasterSecret, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
struct Team;

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

/// Checks the facts about every crate's `Internal<T>`.
macro_rules! assert_internal {
    ($($adapter:ident),+) => {
        $(
            assert_not_impl_any!($adapter::Internal<User>: serde::Serialize, serde::de::DeserializeOwned, Display);
            assert_not_impl_any!($adapter::Internal<User>: From<opaque_id_core::key::Uuid>, Into<opaque_id_core::key::Uuid>);
            assert_not_impl_any!($adapter::Internal<User>: std::ops::Deref, std::str::FromStr);
            // It neither is nor becomes an id of another resource.
            assert_not_impl_any!($adapter::Internal<User>: Into<$adapter::Internal<Order>>, PartialEq<$adapter::Internal<Order>>);
            assert_not_impl_any!($adapter::Internal<User>: InternalId<Resource = Order>);
            assert_not_impl_any!(External<User>: Into<$adapter::Internal<User>>);
        )+
    };
}

#[test]
fn what_no_id_implements() {
    assert_internal!(opaque_id_core, opaque_id_diesel, opaque_id_seaorm, opaque_id_sqlx);
    assert_not_impl_any!(External<User>: PartialOrd<External<Order>>, Into<External<Order>>);
    assert_not_impl_any!(Tagged: FormOf<i64>);
}

/// The types differ, so each conversion between them is explicit.
#[test]
fn each_crate_has_an_internal_id_of_its_own() {
    let types = [
        TypeId::of::<opaque_id_core::Internal<User>>(),
        TypeId::of::<opaque_id_diesel::Internal<User>>(),
        TypeId::of::<opaque_id_seaorm::Internal<User>>(),
        TypeId::of::<opaque_id_sqlx::Internal<User>>(),
    ];
    assert_eq!(HashSet::from(types).len(), types.len());
}

/// The compiler infers the id's type here, so there is only one choice.
#[test]
fn what_an_external_id_opens_to_is_an_internal_id_of_the_same_resource() {
    fn open(keyring: &Keyring, id: External<User>) -> Option<Uuid7> {
        keyring.open(id).ok().map(|id| id.expose_key())
    }
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
    let keyring = keyring.build().expect("a keyring");
    let id = opaque_id_core::Internal::<User>::generate();
    assert_eq!(open(&keyring, keyring.seal(id)), Some(id.expose_key()));
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
fn what_no_id_implements_of_diesel() {
    use diesel::deserialize::{FromSql, Queryable};
    use diesel::expression::AsExpression;
    use diesel::mysql::Mysql;
    use diesel::pg::Pg;
    use diesel::serialize::ToSql;
    use diesel::sql_types::{BigInt, Binary, Text, Uuid};
    use diesel::sqlite::Sqlite;
    use opaque_id_diesel::{Id, Internal};

    assert_not_impl_any!(External<User>: AsExpression<Id<User>>, AsExpression<Uuid>, AsExpression<Binary>);
    assert_not_impl_any!(External<User>: AsExpression<BigInt>, AsExpression<Text>);
    assert_not_impl_any!(External<User>: ToSql<Id<User>, Pg>, ToSql<Id<User>, Mysql>, ToSql<Id<User>, Sqlite>);
    assert_not_impl_any!(External<User>: FromSql<Id<User>, Pg>, FromSql<Id<User>, Mysql>, FromSql<Id<User>, Sqlite>);
    assert_not_impl_any!(External<User>: ToSql<Text, Sqlite>, FromSql<Text, Sqlite>);
    assert_not_impl_any!(External<User>: Queryable<Id<User>, Pg>, Queryable<Id<User>, Mysql>, Queryable<Id<User>, Sqlite>);

    assert_not_impl_any!(Internal<User>: AsExpression<Id<Order>>, AsExpression<Id<Team>>);
    // Whatever its key is, it goes to plain columns of that only.
    assert_not_impl_any!(Internal<Team>: ToSql<Uuid, Pg>, ToSql<Binary, Mysql>, ToSql<Binary, Sqlite>);
    assert_not_impl_any!(Internal<User>: ToSql<BigInt, Pg>, ToSql<BigInt, Mysql>, ToSql<BigInt, Sqlite>);
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

#[test]
fn a_connection_of_a_diesel_pool_is_one_for_maps() {
    use diesel::SqliteConnection;
    use diesel::connection::SimpleConnection;
    use diesel::r2d2::{ConnectionManager, Pool};
    use opaque_id_diesel::{Dialect, UuidMap};

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    struct Order;

    let manager = ConnectionManager::<SqliteConnection>::new(":memory:");
    let pool = Pool::builder().max_size(1).build(manager).expect("a pool");
    let mut connection = pool.get().expect("a connection");
    let map = UuidMap::<Order>::unique("order_ids");
    let create = map.create_sql(Dialect::Sqlite);
    connection.batch_execute(&create).expect("a table");
    let (external, id) = map.issue(&mut connection).expect("issued");
    assert_eq!(map.find(&mut connection, external).expect("asked"), Some(id));
}

#[test]
fn connections_of_diesel_async_are_some_for_maps_of_blocking_code() {
    use diesel::connection::LoadConnection;
    use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
    use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
    use opaque_id_diesel::SupportedBackend;

    fn is_for_maps<C: LoadConnection<Backend: SupportedBackend>>() {}
    is_for_maps::<AsyncConnectionWrapper<AsyncPgConnection>>();
    is_for_maps::<AsyncConnectionWrapper<AsyncMysqlConnection>>();
}

/// So that a handler can call a map or a sequence: its future moves between threads.
#[test]
fn what_futures_can_be_sent() {
    use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
    use opaque_id_diesel::AsyncUuidMap;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    struct Order;

    /// Calls a table in a handler's future, on a connection acquired inside it.
    macro_rules! handler {
        ($table:ty, $on:ty, $name:ident, |$calls:ident, $id:ident| $($call:expr),+) => {{
            #[allow(unused, reason = "a pool is not changed by its use, and a sequence needs no id")]
            async fn handler($calls: $table, mut $name: $on, $id: External<Order>) {
                $(let _ = $call.await;)+
                drop(($calls, $name));
            }
            fn probe(table: $table, on: $on, id: External<Order>) -> impl Future + Send {
                handler(table, on, id)
            }
            let _ = probe;
        }};
    }
    macro_rules! calls {
        ($map:ty, $on:ty, |$name:ident| $call:expr) => {
            handler!(
                $map,
                $on,
                $name,
                |map, id| map.get_or_insert_all($call, &[id]),
                map.find($call, id),
                map.issue($call),
                map.delete($call, id)
            )
        };
    }
    macro_rules! numbers {
        ($sequence:ty, $on:ty, |$name:ident| $call:expr) => {
            handler!(
                $sequence,
                $on,
                $name,
                |sequence, id| sequence.next($call),
                sequence.next_all($call, 9)
            )
        };
    }
    type Sqlx = opaque_id_sqlx::UuidMap<Order>;
    type SeaOrm = opaque_id_seaorm::UuidMap<Order>;
    calls!(Sqlx, sqlx::PgPool, |on| &on);
    calls!(Sqlx, sqlx::Transaction<'static, sqlx::MySql>, |on| &mut on);
    calls!(Sqlx, sqlx::pool::PoolConnection<sqlx::Sqlite>, |on| &mut *on);
    calls!(SeaOrm, sea_orm::DatabaseConnection, |on| &on);
    calls!(SeaOrm, sea_orm::DatabaseTransaction, |on| &on);
    calls!(AsyncUuidMap<Order>, AsyncPgConnection, |on| &mut on);
    calls!(AsyncUuidMap<Order>, AsyncMysqlConnection, |on| &mut on);

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "item", key = opaque_id_core::key::StructuredKey)]
    struct Item;

    type Diesel = opaque_id_diesel::AsyncSequence<Item>;
    numbers!(opaque_id_sqlx::Sequence<Item>, sqlx::PgPool, |on| &on);
    numbers!(opaque_id_sqlx::Sequence<Item>, sqlx::MySqlPool, |on| &on);
    numbers!(opaque_id_seaorm::Sequence<Item>, sea_orm::DatabaseConnection, |on| &on);
    numbers!(Diesel, AsyncPgConnection, |on| &mut on);
    numbers!(Diesel, AsyncMysqlConnection, |on| &mut on);
}

/// Names that both sides of two glob imports have would be ambiguous where they are used.
#[test]
fn globs_of_ours_hide_no_name_of_an_orm() {
    mod with_diesel {
        use diesel::prelude::*;
        use diesel::sql_types::*;
        use opaque_id_diesel::*;

        pub(super) type Names = (Text, Uuid, BigInt, PgConnection, Internal<super::User>);
    }
    mod with_sqlx {
        use opaque_id_sqlx::*;
        use sqlx::*;

        pub(super) type Names = (error::BoxDynError, types::Text<u8>, External<super::User>);
    }
    mod with_seaorm {
        use opaque_id_seaorm::*;
        use sea_orm::entity::prelude::*;

        pub(super) type Names = (DbErr, Uuid, External<super::User>);
    }
    assert!(size_of::<(with_diesel::Names, with_sqlx::Names, with_seaorm::Names)>() > 0);
}
