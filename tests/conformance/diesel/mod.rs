//! opaque-id-diesel, blocking and asynchronous.

#[macro_use]
mod own;
mod schema;

use std::ops::DerefMut;
use std::sync::Arc;

use diesel::prelude::*;
use diesel_async::pooled_connection::bb8::Pool;
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use futures_executor::block_on;
use opaque_id_core::page::PageRequest;
use opaque_id_core::resource::MappedResource;
use opaque_id_core::{External, IdRange};
use opaque_id_diesel::{AsyncSequence, AsyncUuidMap, Internal, OpaqueId, Sequence, UuidMap};
use opaque_id_packs::ByKey;
use opaque_id_packs::diesel::{AsyncPackTable, PackTable};
use opaque_id_sql::dialect::{Dialect, Retry};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::Case;
use crate::servers::Kind;
use crate::shop::{self, on_tokio};

use schema::{legacy, numbers, stored_keys, teams, unsigned_numbers, users};

#[derive(
    Clone,
    Debug,
    OpaqueId,
    PartialEq,
    Queryable,
    Selectable,
    Insertable,
    Identifiable,
    AsChangeset,
    Associations,
)]
#[opaque_id(prefix = "user")]
#[diesel(table_name = users, belongs_to(Team), treat_none_as_null = true)]
#[diesel(treat_none_as_default_value = false)]
pub struct User {
    id: Internal<User>,
    team_id: Option<Internal<Team>>,
    name: String,
}

#[derive(Clone, Debug, OpaqueId, PartialEq, Queryable, Selectable, Identifiable)]
#[opaque_id(prefix = "team", key = i64)]
#[diesel(table_name = teams)]
pub struct Team {
    id: Internal<Team>,
    name: String,
}

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "event", key = Ulid)]
pub struct Event;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
pub struct Order;

#[derive(Debug, OpaqueId, Queryable, Selectable, Insertable)]
#[opaque_id(prefix = "number", key = i32)]
#[diesel(table_name = numbers, treat_none_as_default_value = false)]
pub struct Number {
    id: Internal<Number>,
    next_id: Option<Internal<Number>>,
    team_id: Internal<Team>,
}

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "unsigned", key = u32)]
pub struct UnsignedNumber;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "legacy", key = Uuid, form = "tagged")]
pub struct Legacy;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
pub(crate) struct Invoice;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
pub(crate) struct Receipt;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = stored_keys)]
struct StoredKeys {
    event_id: Internal<Event>,
    order_id: Internal<Order>,
    legacy_id: Internal<Legacy>,
    team_id: Internal<Team>,
}

impl From<User> for shop::User<Internal<User>, Internal<Team>> {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            team_id: user.team_id,
            name: user.name,
        }
    }
}

impl From<&shop::User<Internal<User>, Internal<Team>>> for User {
    fn from(user: &shop::User<Internal<User>, Internal<Team>>) -> Self {
        Self {
            id: user.id,
            team_id: user.team_id,
            name: user.name.clone(),
        }
    }
}

/// The same code with and without `.await`, for a connection on a backend.
macro_rules! shop {
    (
        $module:ident, $adapter:literal, $last_insert:ident, $insert_all:ident,
        plain: $plain:ident, unsigned: $unsigned:ident, map: $map:ident, sequence: $sequence:ident, packs: $packs:ident, retry: $retry:ident,
        connection: $connection:ty, connect: $connect:path, run: $run_query_dsl:path, manager: $manager:path,
        block_on: $block_on:expr, explained: $explained:literal,
        connections: $connections:ident, open: $open:ident, get: [$($get:tt)*] $(, await: $($await:tt)*)?
    ) => {
        pub(crate) mod $module {
            use diesel::dsl::sql;
            use diesel::prelude::{
                BelongingToDsl, BoolExpressionMethods, ExpressionMethods, GroupedBy,
                NullableExpressionMethods, OptionalExtension, QueryDsl, QueryableByName,
                SelectableHelper,
            };
            use diesel::sql_types::Text;
            use diesel::result::Error::BrokenTransactionManager;
            use diesel::{ConnectionError, ConnectionResult};
            use opaque_id_diesel::{Id, Internal};
            use $run_query_dsl;
            use $manager;

            use super::*;
            use crate::Result;
            use crate::database::Database;
            use crate::dropped::{Load, Moment, PoolShop};
            use crate::integers::{self, IntegerShop, NumberOf};
            use crate::keys::{KeyShop, sequence_calls};
            use crate::mapping::{MapShop, map_calls};
            use crate::packs::{PackShop, RowOf, append, pack_calls};
            use crate::shop::{IdOf, Keys, KeysOf, Shop, UserOf};

            pub(crate) struct DieselShop {
                connections: $connections<$connection>,
            }

            #[derive(QueryableByName)]
            struct Explained {
                #[diesel(column_name = $explained, sql_type = Text)]
                plan: String,
            }

            impl Shop for DieselShop {
                const ADAPTER: &'static str = $adapter;
                type User = User;
                type Team = Team;
                type Event = Event;
                type Order = Order;
                type Legacy = Legacy;

                fn block_on<T>(case: impl Future<Output = Result<T>>) -> Result<T> {
                    $block_on(case)
                }

                async fn connect(database: &Database) -> Result<Self> {
                    Self::open(database, 1).await
                }

                async fn add_team(&self, name: &str) -> Result<IdOf<Team>> {
                    let connection = &mut *self.connection().await?;
                    let insert = diesel::insert_into(teams::table).values(teams::name.eq(name));
                    $last_insert!(insert, connection $(, $($await)*)?)
                }

                async fn add_user(&self, user: &UserOf<Self>) -> Result {
                    let connection = &mut *self.connection().await?;
                    diesel::insert_into(users::table)
                        .values(User::from(user))
                        .execute(connection) $($($await)*)? ?;
                    Ok(())
                }

                async fn add_users(&self, users: &[UserOf<Self>]) -> Result {
                    let connection = &mut *self.connection().await?;
                    for users in users.chunks(5_000) {
                        let users: Vec<User> = users.iter().map(User::from).collect();
                        $insert_all!(users, connection $(, $($await)*)?);
                    }
                    Ok(())
                }

                async fn find_user(&self, id: IdOf<User>) -> Result<Option<UserOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let user = users::table
                        .find(id)
                        .select(User::as_select())
                        .first(connection) $($($await)*)?
                        .optional()?;
                    Ok(user.map(Into::into))
                }

                async fn find_users(&self, ids: &[IdOf<User>]) -> Result<Vec<UserOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let users: Vec<User> = users::table
                        .filter(users::id.eq_any(ids))
                        .order(users::id)
                        .load(connection) $($($await)*)? ?;
                    Ok(users.into_iter().map(Into::into).collect())
                }

                async fn users_after(&self, id: IdOf<User>, limit: u8) -> Result<Vec<UserOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let users: Vec<User> = users::table
                        .filter(users::id.gt(id))
                        .order(users::id.asc())
                        .limit(i64::from(limit))
                        .load(connection) $($($await)*)? ?;
                    Ok(users.into_iter().map(Into::into).collect())
                }

                async fn all_users(&self) -> Result<Vec<UserOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let users: Vec<User> =
                        users::table.order(users::id).load(connection) $($($await)*)? ?;
                    Ok(users.into_iter().map(Into::into).collect())
                }

                async fn users_without_team(&self) -> Result<Vec<UserOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let users: Vec<User> = users::table
                        .filter(users::team_id.is_null())
                        .load(connection) $($($await)*)? ?;
                    Ok(users.into_iter().map(Into::into).collect())
                }

                async fn members(&self, team: IdOf<Team>) -> Result<Vec<(UserOf<Self>, String)>> {
                    let connection = &mut *self.connection().await?;
                    let members: Vec<(User, Team)> = users::table
                        .inner_join(teams::table)
                        .filter(users::team_id.eq(team))
                        .order(users::id)
                        .select((User::as_select(), Team::as_select()))
                        .load(connection) $($($await)*)? ?;
                    Ok(members
                        .into_iter()
                        .map(|(user, team)| (user.into(), team.name))
                        .collect())
                }

                async fn update_user(&self, user: &UserOf<Self>) -> Result {
                    let connection = &mut *self.connection().await?;
                    let user = User::from(user);
                    diesel::update(&user).set(&user).execute(connection) $($($await)*)? ?;
                    Ok(())
                }

                async fn delete_user(&self, id: IdOf<User>) -> Result {
                    let connection = &mut *self.connection().await?;
                    diesel::delete(users::table.find(id)).execute(connection) $($($await)*)? ?;
                    Ok(())
                }

                async fn add_keys(&self, keys: &KeysOf<Self>) -> Result {
                    let connection = &mut *self.connection().await?;
                    diesel::insert_into(stored_keys::table)
                        .values(StoredKeys {
                            event_id: keys.event_id,
                            order_id: keys.order_id,
                            legacy_id: keys.legacy_id,
                            team_id: keys.team_id,
                        })
                        .execute(connection) $($($await)*)? ?;
                    Ok(())
                }

                async fn all_keys(&self) -> Result<Vec<KeysOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let keys: Vec<StoredKeys> =
                        stored_keys::table.load(connection) $($($await)*)? ?;
                    Ok(keys
                        .into_iter()
                        .map(|keys| Keys {
                            event_id: keys.event_id,
                            order_id: keys.order_id,
                            legacy_id: keys.legacy_id,
                            team_id: keys.team_id,
                        })
                        .collect())
                }

                async fn add_legacy(&self, id: IdOf<Legacy>) -> Result {
                    let connection = &mut *self.connection().await?;
                    diesel::insert_into(legacy::table)
                        .values(legacy::id.eq(id))
                        .execute(connection) $($($await)*)? ?;
                    Ok(())
                }

                async fn all_legacy(&self) -> Result<Vec<IdOf<Legacy>>> {
                    let connection = &mut *self.connection().await?;
                    Ok(legacy::table.select(legacy::id).order(legacy::id).load(connection) $($($await)*)? ?)
                }

                async fn read_user_id(&self, expression: &str) -> Result<IdOf<User>> {
                    let connection = &mut *self.connection().await?;
                    Ok(diesel::select(sql::<Id<User>>(&format!("{expression} AS id")))
                        .get_result(connection) $($($await)*)? ?)
                }

                async fn read_user_id_or_null(&self, expression: &str) -> Result<Option<IdOf<User>>> {
                    let connection = &mut *self.connection().await?;
                    Ok(diesel::select(sql::<diesel::sql_types::Nullable<Id<User>>>(&format!("{expression} AS id")))
                        .get_result(connection) $($($await)*)? ?)
                }

                async fn read_team_id(&self, expression: &str) -> Result<IdOf<Team>> {
                    let connection = &mut *self.connection().await?;
                    Ok(diesel::select(sql::<Id<Team>>(&format!("{expression} AS id")))
                        .get_result(connection) $($($await)*)? ?)
                }

                async fn read_order_id(&self, expression: &str) -> Result<IdOf<Order>> {
                    let connection = &mut *self.connection().await?;
                    Ok(diesel::select(sql::<Id<Order>>(&format!("{expression} AS id")))
                        .get_result(connection) $($($await)*)? ?)
                }

                async fn explain(&self, explain: &str, id: IdOf<User>) -> Result<String> {
                    let connection = &mut *self.connection().await?;
                    let plan: Explained = diesel::sql_query(explain)
                        .bind::<Id<User>, _>(id)
                        .get_result(connection) $($($await)*)? ?;
                    Ok(plan.plan)
                }
            }

            impl PackShop for DieselShop {
                pack_calls!($packs, self, &mut *self.connection().await? $(, $($await)*)?);

                async fn packs_in_a_transaction<T: opaque_id_core::OpaqueId>(
                    &self,
                    packs: &Self::Packs<T, ByKey>,
                    rows: &[RowOf<T>],
                    deleted: IdOf<T>,
                    appended: IdOf<T>,
                    commit: bool,
                ) -> Result<Vec<Option<String>>> {
                    let connection = &mut *self.connection().await?;
                    <$connection as $connect>::TransactionManager::begin_transaction(connection)
                        $($($await)*)? ?;
                    packs.put_all(connection, rows) $($($await)*)? ?;
                    packs.delete(connection, deleted) $($($await)*)? ?;
                    packs.update(connection, appended, append("!".to_owned()).0) $($($await)*)? ?;
                    let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
                    let seen = packs.get_all(connection, &ids) $($($await)*)? ?;
                    if commit {
                        <$connection as $connect>::TransactionManager::commit_transaction(connection)
                            $($($await)*)? ?;
                    } else {
                        <$connection as $connect>::TransactionManager::rollback_transaction(connection)
                            $($($await)*)? ?;
                    }
                    Ok(seen)
                }
            }

            impl MapShop for DieselShop {
                map_calls!($map, self, &mut *self.connection().await? $(, $($await)*)?);

                async fn in_a_transaction<T: MappedResource>(
                    &self,
                    map: &$map<T>,
                    prepare: &str,
                    first: &[External<T>],
                    hold: impl FnOnce(),
                    second: &[External<T>],
                    commit: bool,
                ) -> Result<Vec<IdOf<T>>> {
                    let connection = &mut *self.connection().await?;
                    if !prepare.is_empty() {
                        diesel::sql_query(prepare).execute(connection) $($($await)*)? ?;
                    }
                    <$connection as $connect>::TransactionManager::begin_transaction(connection)
                        $($($await)*)? ?;
                    let ids = map.get_or_insert_all(connection, first) $($($await)*)?;
                    hold();
                    let more = match ids {
                        Ok(_) => map.get_or_insert_all(connection, second) $($($await)*)?,
                        Err(_) => Ok(Vec::new()),
                    };
                    if commit && ids.is_ok() && more.is_ok() {
                        <$connection as $connect>::TransactionManager::commit_transaction(connection)
                            $($($await)*)? ?;
                    } else {
                        <$connection as $connect>::TransactionManager::rollback_transaction(connection)
                            $($($await)*)? ?;
                    }
                    Ok([ids?, more?].concat())
                }

                async fn retry_at_commit(
                    &self,
                    prepare: &str,
                    statement: &str,
                    hold: impl FnOnce() -> Result,
                ) -> Result<Option<Retry>> {
                    let connection = &mut *self.connection().await?;
                    diesel::sql_query(prepare).execute(connection) $($($await)*)? ?;
                    <$connection as $connect>::TransactionManager::begin_transaction(connection)
                        $($($await)*)? ?;
                    diesel::sql_query(statement).execute(connection) $($($await)*)? ?;
                    hold()?;
                    let committed =
                        <$connection as $connect>::TransactionManager::commit_transaction(connection)
                            $($($await)*)?;
                    match committed {
                        Ok(()) => Err("committed".into()),
                        Err(error) => Ok(opaque_id_diesel::$retry(connection, &error) $($($await)*)?),
                    }
                }
            }

            impl PoolShop for DieselShop {
                async fn pool(database: &Database, connections: u32) -> Result<Option<Self>> {
                    Ok(match $adapter {
                        "diesel" => None,
                        _ => Some(Self::open(database, connections).await?),
                    })
                }

                async fn close(self) -> Result {
                    Ok(())
                }

                fn spawn(load: Arc<Load<Self>>) -> JoinHandle<Result> {
                    tokio::spawn(async move { load.repeat().await })
                }

                async fn read_twice(
                    &self,
                    select: &str,
                    between: impl FnOnce() -> Result,
                ) -> Result<[String; 2]> {
                    let connection = &mut *self.connection().await?;
                    <$connection as $connect>::TransactionManager::begin_transaction(connection)
                        $($($await)*)? ?;
                    let select = || diesel::select(sql::<Text>(&format!("({select})")));
                    let before = select().get_result(connection) $($($await)*)? ?;
                    between()?;
                    let after = select().get_result(connection) $($($await)*)? ?;
                    <$connection as $connect>::TransactionManager::rollback_transaction(connection)
                        $($($await)*)? ?;
                    Ok([before, after])
                }

                async fn drop_in_a_transaction(
                    &self,
                    map: &$map<Invoice>,
                    first: &[External<Invoice>],
                    second: &[External<Invoice>],
                    moment: Moment,
                    rolls_back: bool,
                ) -> Result<bool> {
                    let connection = &mut *self.connection().await?;
                    <$connection as $connect>::TransactionManager::begin_transaction(connection)
                        $($($await)*)? ?;
                    map.get_or_insert_all(connection, first) $($($await)*)? ?;
                    let call = async { map.get_or_insert_all(connection, second) $($($await)*)? };
                    let done = moment.drop(call).await.transpose()?;
                    if rolls_back {
                        let rolled_back = <$connection as $connect>::TransactionManager::rollback_transaction(connection)
                            $($($await)*)?;
                        // After a dropped call MySQL's connection may be broken: the pool closes it.
                        if !matches!(rolled_back, Err(BrokenTransactionManager)) {
                            rolled_back?;
                        }
                    }
                    Ok(done.is_none())
                }
            }

            impl IntegerShop for DieselShop {
                type Number = Number;
                type Unsigned = UnsignedNumber;

                async fn add_number(&self, number: &NumberOf<Self>) -> Result {
                    let connection = &mut *self.connection().await?;
                    diesel::insert_into(numbers::table)
                        .values(Number {
                            id: number.id,
                            next_id: number.next_id,
                            team_id: number.team_id,
                        })
                        .execute(connection) $($($await)*)? ?;
                    Ok(())
                }

                async fn find_numbers(&self, ids: &[Internal<Number>]) -> Result<Vec<NumberOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let numbers: Vec<Number> = numbers::table
                        .filter(numbers::id.eq_any(ids))
                        .order(numbers::id)
                        .load(connection) $($($await)*)? ?;
                    let number = |number: Number| integers::Number {
                        id: number.id,
                        next_id: number.next_id,
                        team_id: number.team_id,
                    };
                    Ok(numbers.into_iter().map(number).collect())
                }

                async fn read_number_id(&self, expression: &str) -> Result<Internal<Number>> {
                    let connection = &mut *self.connection().await?;
                    Ok(diesel::select(sql::<Id<Number>>(&format!("{expression} AS id")))
                        .get_result(connection) $($($await)*)? ?)
                }

                $unsigned!(numbers $(, $($await)*)?);
            }

            impl KeyShop for DieselShop {
                sequence_calls!($sequence, self, &mut *self.connection().await? $(, $($await)*)?);

                async fn users_between(
                    &self,
                    range: IdRange<Internal<User>>,
                ) -> Result<Vec<UserOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let users: Vec<User> = users::table
                        .filter(users::id.between(range.first(), range.last()))
                        .order(users::id)
                        .load(connection) $($($await)*)? ?;
                    Ok(users.into_iter().map(Into::into).collect())
                }

                async fn legacy_between(
                    &self,
                    range: IdRange<Internal<Legacy>>,
                ) -> Result<Vec<Internal<Legacy>>> {
                    let connection = &mut *self.connection().await?;
                    Ok(legacy::table
                        .select(legacy::id)
                        .filter(legacy::id.between(range.first(), range.last()))
                        .order(legacy::id)
                        .load(connection) $($($await)*)? ?)
                }

                async fn users_of_page(
                    &self,
                    page: &PageRequest<Internal<User>>,
                ) -> Result<Vec<UserOf<Self>>> {
                    let connection = &mut *self.connection().await?;
                    let users = users::table
                        .filter(users::id.between(page.range().first(), page.range().last()))
                        .limit(page.fetch().into())
                        .into_boxed();
                    let users = match page.is_descending() {
                        true => users.order(users::id.desc()),
                        false => users.order(users::id),
                    };
                    let users: Vec<User> = users.load(connection) $($($await)*)? ?;
                    Ok(users.into_iter().map(Into::into).collect())
                }
            }

            async fn establish(url: &str, kind: Kind) -> ConnectionResult<$connection> {
                let mut connection = <$connection as $connect>::establish(url) $($($await)*)? ?;
                if kind == Kind::Sqlite {
                    diesel::sql_query("PRAGMA busy_timeout = 5000")
                        .execute(&mut connection) $($($await)*)?
                        .map_err(ConnectionError::CouldntSetupConfiguration)?;
                }
                Ok(connection)
            }

            impl DieselShop {
                async fn open(database: &Database, connections: u32) -> Result<Self> {
                    let url = database.path_or_url();
                    Ok(Self { connections: $open!(establish, url, database.kind, connections) })
                }

                pub(super) async fn connection(&self) -> Result<impl DerefMut<Target = $connection>> {
                    Ok(self.connections.$($get)*)
                }

                /// In a transaction of the caller's, which is rolled back.
                pub(super) async fn next_in_a_transaction(
                    &self,
                    sequence: &$sequence<Order>,
                ) -> Result<Internal<Order>> {
                    let connection = &mut *self.connection().await?;
                    <$connection as $connect>::TransactionManager::begin_transaction(connection)
                        $($($await)*)? ?;
                    let id = sequence.next(connection) $($($await)*)?;
                    <$connection as $connect>::TransactionManager::rollback_transaction(connection)
                        $($($await)*)? ?;
                    Ok(id?)
                }

                /// What `retry` says of an update, in a transaction that was rolled back for its error.
                pub(super) async fn retry_after_rollback(
                    &self,
                    prepare: &str,
                    update: &str,
                ) -> Result<Option<Retry>> {
                    let connection = &mut *self.connection().await?;
                    diesel::sql_query(prepare).execute(connection) $($($await)*)? ?;
                    <$connection as $connect>::TransactionManager::begin_transaction(connection)
                        $($($await)*)? ?;
                    let updated = diesel::sql_query(update).execute(connection) $($($await)*)?;
                    <$connection as $connect>::TransactionManager::rollback_transaction(connection)
                        $($($await)*)? ?;
                    match updated {
                        Ok(_) => Err("updated".into()),
                        Err(error) => Ok(opaque_id_diesel::$retry(connection, &error) $($($await)*)?),
                    }
                }
            }

            pub(super) fn own() -> crate::Cases {
                let cases: crate::Cases = own_cases!(DieselShop, $plain $(, $($await)*)?);
                [cases, $unsigned!(cases $(, $($await)*)?)].concat()
            }
        }
    };
}

macro_rules! none {
    (numbers $($rest:tt)*) => {};
    (cases $($rest:tt)*) => {
        vec![("plain_unsigned_columns", |_| {
            Ok(crate::report::Outcome::NotApplicable)
        })]
    };
}

/// For MySQL and MariaDB.
macro_rules! unsigned {
    (numbers $(, $($await:tt)*)?) => {
        async fn add_unsigned(&self, (id, team_id): crate::integers::UnsignedOf<Self>) -> Result {
            let connection = &mut *self.connection().await?;
            diesel::insert_into(unsigned_numbers::table)
                .values((unsigned_numbers::id.eq(id), unsigned_numbers::team_id.eq(team_id)))
                .execute(connection) $($($await)*)? ?;
            Ok(())
        }

        async fn all_unsigned(&self) -> Result<Vec<crate::integers::UnsignedOf<Self>>> {
            let connection = &mut *self.connection().await?;
            Ok(unsigned_numbers::table
                .order(unsigned_numbers::id)
                .load(connection) $($($await)*)? ?)
        }
    };
    (cases $(, $($await:tt)*)?) => {{
        async fn plain_unsigned_columns(database: &Database) -> Result<crate::report::Outcome> {
            use schema::plain_unsigned::unsigned_numbers::dsl;

            let shop = DieselShop::connect(database).await?;
            database.execute(integers::create_sql(database.kind))?;
            let connection = &mut *shop.connection().await?;
            let row = |id, team| -> Result<_> { Ok((shop::from_key(id)?, shop::from_key(team)?)) };
            let rows: [(Internal<UnsignedNumber>, Internal<Team>); 2] =
                [row(1, 7)?, row(u32::MAX - 1, i64::MAX)?];
            for row in rows {
                diesel::insert_into(dsl::unsigned_numbers)
                    .values((dsl::id.eq(row.0), dsl::team_id.eq(row.1)))
                    .execute(connection) $($($await)*)? ?;
            }
            let found: Vec<(Internal<UnsignedNumber>, Internal<Team>)> = dsl::unsigned_numbers
                .filter(dsl::team_id.eq_any([rows[0].1, rows[1].1]))
                .order(dsl::id)
                .load(connection) $($($await)*)? ?;
            assert_eq!(found, rows);
            let negative: Internal<Team> = shop::from_key(-1)?;
            let refused = diesel::update(dsl::unsigned_numbers)
                .set(dsl::team_id.eq(negative))
                .execute(connection) $($($await)*)?;
            let message = crate::cases::message(&refused.expect_err("it is negative"));
            assert!(message.contains("no negative integers"), "{message}");
            Ok(crate::report::Outcome::Passed)
        }

        vec![("plain_unsigned_columns", |database| {
            DieselShop::block_on(plain_unsigned_columns(database))
        })]
    }};
}

macro_rules! returning {
    ($insert:expr, $connection:ident $(, $($await:tt)*)?) => {
        Ok($insert.returning(teams::id).get_result($connection) $($($await)*)? ?)
    };
}

macro_rules! last_insert_id {
    ($insert:expr, $connection:ident $(, $($await:tt)*)?) => {{
        $insert.execute($connection) $($($await)*)? ?;
        Ok(diesel::select(sql::<Id<Team>>("CAST(LAST_INSERT_ID() AS SIGNED)"))
            .get_result($connection) $($($await)*)? ?)
    }};
}

macro_rules! one_statement {
    ($users:ident, $connection:ident $(, $($await:tt)*)?) => {
        diesel::insert_into(users::table)
            .values($users)
            .execute($connection) $($($await)*)? ?
    };
}

/// diesel-async has no batches for SQLite, as they are more than one statement there.
macro_rules! on_the_blocking_connection {
    ($users:ident, $connection:ident, .await) => {
        $connection
            .spawn_blocking(|connection| {
                let insert = diesel::insert_into(users::table).values($users);
                diesel::RunQueryDsl::execute(insert, connection)
            })
            .await?
    };
}

/// No call of a blocking adapter can be dropped: the tests need no pool.
macro_rules! alone {
    ($establish:ident, $url:ident, $kind:expr, $connections:ident) => {{
        debug_assert_eq!($connections, 1);
        Mutex::new($establish($url, $kind).await?)
    }};
}

macro_rules! in_a_pool {
    ($establish:ident, $url:ident, $kind:expr, $connections:ident) => {{
        let (mut config, kind) = (ManagerConfig::default(), $kind);
        // The test of a connection could be dropped as well, and MySQL's driver would not recover from that.
        config.recycling_method = RecyclingMethod::Fast;
        config.custom_setup = Box::new(move |url| Box::pin($establish(url, kind)));
        let manager = AsyncDieselConnectionManager::new_with_config($url, config);
        Pool::builder()
            .max_size($connections)
            .build(manager)
            .await?
    }};
}

shop!(
    blocking_postgres, "diesel", returning, one_statement, plain: plain_uuid, unsigned: none, map: UuidMap, sequence: Sequence, packs: PackTable, retry: retry,
    connection: PgConnection, connect: diesel::Connection,
    run: diesel::RunQueryDsl, manager: diesel::connection::TransactionManager, block_on: block_on, explained: "QUERY PLAN",
    connections: Mutex, open: alone, get: [lock().await]
);
shop!(
    blocking_mysql, "diesel", last_insert_id, one_statement, plain: plain_binary, unsigned: unsigned, map: UuidMap, sequence: Sequence, packs: PackTable, retry: retry,
    connection: MysqlConnection, connect: diesel::Connection,
    run: diesel::RunQueryDsl, manager: diesel::connection::TransactionManager, block_on: block_on, explained: "key",
    connections: Mutex, open: alone, get: [lock().await]
);
shop!(
    blocking_sqlite, "diesel", returning, one_statement, plain: plain_binary, unsigned: none, map: UuidMap, sequence: Sequence, packs: PackTable, retry: retry,
    connection: SqliteConnection, connect: diesel::Connection,
    run: diesel::RunQueryDsl, manager: diesel::connection::TransactionManager, block_on: block_on, explained: "detail",
    connections: Mutex, open: alone, get: [lock().await]
);
shop!(
    async_postgres, "diesel-async", returning, one_statement, plain: plain_uuid, unsigned: none, map: AsyncUuidMap, sequence: AsyncSequence, packs: AsyncPackTable, retry: retry_async,
    connection: AsyncPgConnection, connect: diesel_async::AsyncConnection,
    run: diesel_async::RunQueryDsl, manager: diesel_async::TransactionManager, block_on: on_tokio, explained: "QUERY PLAN",
    connections: Pool, open: in_a_pool, get: [get().await?], await: .await
);
shop!(
    async_mysql, "diesel-async", last_insert_id, one_statement, plain: plain_binary, unsigned: unsigned, map: AsyncUuidMap, sequence: AsyncSequence, packs: AsyncPackTable, retry: retry_async,
    connection: AsyncMysqlConnection, connect: diesel_async::AsyncConnection,
    run: diesel_async::RunQueryDsl, manager: diesel_async::TransactionManager, block_on: on_tokio, explained: "key",
    connections: Pool, open: in_a_pool, get: [get().await?], await: .await
);
shop!(
    async_sqlite, "diesel-async", returning, on_the_blocking_connection, plain: plain_binary, unsigned: none, map: AsyncUuidMap, sequence: AsyncSequence, packs: AsyncPackTable, retry: retry_async,
    connection: SyncConnectionWrapper<SqliteConnection>, connect: diesel_async::AsyncConnection,
    run: diesel_async::RunQueryDsl, manager: diesel_async::TransactionManager, block_on: on_tokio, explained: "detail",
    connections: Pool, open: in_a_pool, get: [get().await?], await: .await
);

pub(crate) fn suites() -> Vec<Case> {
    let mut suites = Vec::new();
    macro_rules! suites {
        ($($kind:ident: $module:ident),*) => {
            $(suites.extend(crate::suite::<$module::DieselShop>(Kind::$kind, $module::own()));)*
        };
    }
    suites! {
        Postgres: blocking_postgres, Mysql: blocking_mysql, Mariadb: blocking_mysql, Sqlite: blocking_sqlite,
        Postgres: async_postgres, Mysql: async_mysql, Mariadb: async_mysql, Sqlite: async_sqlite
    }
    suites
}
