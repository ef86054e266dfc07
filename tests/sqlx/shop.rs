//! The shop: rows, and the queries on them.

use opaque_id_sql::dialect::Retry;
use opaque_id_sqlx::{IdRange, Internal, OpaqueId, retry};
use sqlx::pool::PoolOptions;
use sqlx::{FromRow, Pool, QueryBuilder, Row};

use opaque_id_tests::Result;
use opaque_id_tests::conformance::shop::{self, IdOf, KeysOf, Shop, UserOf};
use opaque_id_tests::database::Database;
use opaque_id_tests::sql::fixed;

#[derive(Clone, Debug, OpaqueId, FromRow, PartialEq)]
#[opaque_id(prefix = "user")]
pub(crate) struct User {
    pub(crate) id: Internal<User>,
    pub(crate) team_id: Option<Internal<Team>>,
    pub(crate) name: String,
}

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
pub(crate) struct Team;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "event", key = Ulid)]
pub(crate) struct Event;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
pub(crate) struct Order;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "legacy", key = Uuid, form = "tagged")]
pub(crate) struct Legacy;

impl From<User> for shop::User<Internal<User>, Internal<Team>> {
    fn from(user: User) -> Self {
        Self { id: user.id, team_id: user.team_id, name: user.name }
    }
}

pub(crate) struct SqlxShop<DB: sqlx::Database> {
    pub(crate) pool: Pool<DB>,
}

#[cfg(feature = "older")]
type Builder<'q, DB> = QueryBuilder<'q, DB>;
#[cfg(not(feature = "older"))]
type Builder<'q, DB> = QueryBuilder<DB>;

macro_rules! read_ids {
    ($($name:ident: $id:ty),*) => {
        $(async fn $name(&self, expression: &str) -> Result<$id> {
            let select = ::opaque_id_tests::sql::fixed(format!("SELECT {expression} AS id"));
            Ok(sqlx::query_scalar(select).fetch_one(&self.pool).await?)
        })*
    };
}
pub(crate) use read_ids;

macro_rules! shop {
    ($database:ty, $explained:expr, $last_insert:ident) => {
        impl SqlxShop<$database> {
            pub(crate) fn select_users<'q>(rest: &str) -> Builder<'q, $database> {
                QueryBuilder::new(format!("SELECT id, team_id, name FROM users {rest}"))
            }

            pub(crate) async fn users(
                &self,
                select: &mut Builder<'_, $database>,
            ) -> Result<Vec<UserOf<Self>>> {
                let users: Vec<User> = select.build_query_as().fetch_all(&self.pool).await?;
                Ok(users.into_iter().map(Into::into).collect())
            }

            pub(crate) async fn execute(&self, query: &mut Builder<'_, $database>) -> Result {
                query.build().execute(&self.pool).await?;
                Ok(())
            }
        }

        impl Shop for SqlxShop<$database> {
            const ADAPTER: &'static str = if cfg!(feature = "older") { "sqlx08" } else { "sqlx" };
            type User = User;
            type Team = Team;
            type Event = Event;
            type Order = Order;
            type Legacy = Legacy;

            async fn connect(database: &Database) -> Result<Self> {
                Ok(Self { pool: Pool::connect(&database.url).await? })
            }

            async fn add_team(&self, name: &str) -> Result<IdOf<Team>> {
                let mut insert =
                    QueryBuilder::<$database>::new("INSERT INTO teams (name) VALUES (");
                insert.push_bind(name).push(")");
                $last_insert!(insert, &self.pool)
            }

            async fn add_user(&self, user: &UserOf<Self>) -> Result {
                self.add_users(std::slice::from_ref(user)).await
            }

            async fn add_users(&self, users: &[UserOf<Self>]) -> Result {
                for users in users.chunks(5_000) {
                    let mut insert = QueryBuilder::new("INSERT INTO users (id, team_id, name) ");
                    self.execute(insert.push_values(users, |mut row, user| {
                        row.push_bind(user.id).push_bind(user.team_id).push_bind(&user.name);
                    }))
                    .await?;
                }
                Ok(())
            }

            async fn find_user(&self, id: IdOf<User>) -> Result<Option<UserOf<Self>>> {
                let found = self.users(Self::select_users("WHERE id = ").push_bind(id)).await?;
                Ok(found.into_iter().next())
            }

            async fn find_users(&self, ids: &[IdOf<User>]) -> Result<Vec<UserOf<Self>>> {
                let mut select = Self::select_users("WHERE id IN (");
                let mut list = select.separated(", ");
                for id in ids {
                    list.push_bind(*id);
                }
                list.push_unseparated(") ORDER BY id");
                self.users(&mut select).await
            }

            async fn users_after(&self, id: IdOf<User>, limit: u8) -> Result<Vec<UserOf<Self>>> {
                let mut select = Self::select_users("WHERE id > ");
                select.push_bind(id).push(" ORDER BY id LIMIT ").push_bind(i64::from(limit));
                self.users(&mut select).await
            }

            async fn all_users(&self) -> Result<Vec<UserOf<Self>>> {
                self.users(&mut Self::select_users("ORDER BY id")).await
            }

            async fn users_without_team(&self) -> Result<Vec<UserOf<Self>>> {
                // The row is a tuple.
                let select = "SELECT id, team_id, name FROM users WHERE team_id IS NULL";
                let users = sqlx::query_as(select).fetch_all(&self.pool).await?.into_iter();
                Ok(users.map(|(id, team_id, name)| shop::User { id, team_id, name }).collect())
            }

            async fn members(&self, team: IdOf<Team>) -> Result<Vec<(UserOf<Self>, String)>> {
                #[derive(FromRow)]
                struct Member {
                    #[sqlx(flatten)]
                    user: User,
                    team_name: String,
                }
                let members: Vec<Member> = QueryBuilder::<$database>::new(
                    "SELECT users.id, team_id, users.name, teams.name AS team_name \
                     FROM users JOIN teams ON teams.id = team_id WHERE teams.id = ",
                )
                .push_bind(team)
                .push(" ORDER BY users.id")
                .build_query_as()
                .fetch_all(&self.pool)
                .await?;
                let members = members.into_iter();
                Ok(members.map(|member| (member.user.into(), member.team_name)).collect())
            }

            async fn update_user(&self, user: &UserOf<Self>) -> Result {
                let mut update = QueryBuilder::new("UPDATE users SET team_id = ");
                update.push_bind(user.team_id).push(", name = ").push_bind(&user.name);
                self.execute(update.push(" WHERE id = ").push_bind(user.id)).await
            }

            async fn delete_user(&self, id: IdOf<User>) -> Result {
                let mut delete = QueryBuilder::new("DELETE FROM users WHERE id = ");
                self.execute(delete.push_bind(id)).await
            }

            async fn add_keys(&self, keys: &KeysOf<Self>) -> Result {
                let columns = "event_id, order_id, legacy_id, team_id";
                let mut insert = QueryBuilder::new(format!("INSERT INTO stored_keys ({columns}) "));
                self.execute(insert.push_values([keys], |mut row, keys| {
                    row.push_bind(keys.0).push_bind(keys.1).push_bind(keys.2).push_bind(keys.3);
                }))
                .await
            }

            async fn all_keys(&self) -> Result<Vec<KeysOf<Self>>> {
                let select = "SELECT event_id, order_id, legacy_id, team_id FROM stored_keys";
                Ok(sqlx::query_as(select).fetch_all(&self.pool).await?)
            }

            async fn add_legacy(&self, id: IdOf<Legacy>) -> Result {
                let mut insert = QueryBuilder::new("INSERT INTO legacy (id) VALUES (");
                self.execute(insert.push_bind(id).push(")")).await
            }

            async fn legacy_between(
                &self,
                range: IdRange<Internal<Legacy>>,
            ) -> Result<Vec<Internal<Legacy>>> {
                Ok(QueryBuilder::<$database>::new("SELECT id FROM legacy WHERE id BETWEEN ")
                    .push_bind(range.first())
                    .push(" AND ")
                    .push_bind(range.last())
                    .push(" ORDER BY id")
                    .build_query_scalar()
                    .fetch_all(&self.pool)
                    .await?)
            }

            read_ids! {
                read_user_id: IdOf<User>,
                read_user_id_or_null: Option<IdOf<User>>,
                read_team_id: IdOf<Team>,
                read_order_id: IdOf<Order>
            }

            async fn explain(&self, explain: &str, id: IdOf<User>) -> Result<String> {
                let plan = sqlx::query(fixed(explain)).bind(id).fetch_one(&self.pool).await?;
                Ok(plan.try_get($explained)?)
            }

            type Transaction<'s> = sqlx::Transaction<'static, $database>;

            /// A connection with a prepared session does not return to the pool.
            async fn begin(&self, prepare: &str) -> Result<Self::Transaction<'_>> {
                if prepare.is_empty() {
                    return Ok(self.pool.begin().await?);
                }
                let options = self.pool.connect_options().as_ref().clone();
                let own = PoolOptions::<$database>::new().max_connections(1);
                let own = own.connect_with(options).await?;
                sqlx::raw_sql(fixed(prepare)).execute(&own).await?;
                Ok(own.begin().await?)
            }

            async fn execute(transaction: &mut Self::Transaction<'_>, statement: &str) -> Result {
                sqlx::raw_sql(fixed(statement)).execute(&mut **transaction).await?;
                Ok(())
            }

            async fn text(transaction: &mut Self::Transaction<'_>, select: &str) -> Result<String> {
                Ok(sqlx::query_scalar(fixed(select)).fetch_one(&mut **transaction).await?)
            }

            async fn commit(
                transaction: Self::Transaction<'_>,
            ) -> std::result::Result<(), (shop::Error, Option<Retry>)> {
                transaction.commit().await.map_err(|error| {
                    let retry = retry(&error);
                    (error.into(), retry)
                })
            }

            async fn rollback(transaction: Self::Transaction<'_>) -> Result {
                Ok(transaction.rollback().await?)
            }
        }
    };
}

macro_rules! returning {
    ($insert:ident, $pool:expr) => {
        Ok($insert.push(" RETURNING id").build_query_scalar().fetch_one($pool).await?)
    };
}

macro_rules! last_insert_id {
    ($insert:ident, $pool:expr) => {{
        let inserted = $insert.build().execute($pool).await?;
        Ok(Internal::from_key(i64::try_from(inserted.last_insert_id())?)?)
    }};
}

shop!(sqlx::Postgres, "QUERY PLAN", returning);
shop!(sqlx::MySql, "key", last_insert_id);
shop!(sqlx::Sqlite, "detail", returning);
