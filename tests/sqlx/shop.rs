//! The shop: rows, and what is done with them.

use opaque_id_sqlx::{Internal, OpaqueId};
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
                    QueryBuilder::<$database>::new("INSERT INTO users (id, team_id, name) ")
                        .push_values(users, |mut row, user| {
                            row.push_bind(user.id).push_bind(user.team_id).push_bind(&user.name);
                        })
                        .build()
                        .execute(&self.pool)
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
                // As a tuple.
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
                QueryBuilder::<$database>::new("UPDATE users SET team_id = ")
                    .push_bind(user.team_id)
                    .push(", name = ")
                    .push_bind(&user.name)
                    .push(" WHERE id = ")
                    .push_bind(user.id)
                    .build()
                    .execute(&self.pool)
                    .await?;
                Ok(())
            }

            async fn delete_user(&self, id: IdOf<User>) -> Result {
                QueryBuilder::<$database>::new("DELETE FROM users WHERE id = ")
                    .push_bind(id)
                    .build()
                    .execute(&self.pool)
                    .await?;
                Ok(())
            }

            async fn add_keys(&self, keys: &KeysOf<Self>) -> Result {
                let (event, order, legacy, team) = *keys;
                let columns = "event_id, order_id, legacy_id, team_id";
                let insert = format!("INSERT INTO stored_keys ({columns}) VALUES (");
                let mut insert = QueryBuilder::<$database>::new(insert);
                let mut row = insert.separated(", ");
                row.push_bind(event).push_bind(order).push_bind(legacy).push_bind(team);
                row.push_unseparated(")");
                insert.build().execute(&self.pool).await?;
                Ok(())
            }

            async fn all_keys(&self) -> Result<Vec<KeysOf<Self>>> {
                let select = "SELECT event_id, order_id, legacy_id, team_id FROM stored_keys";
                Ok(sqlx::query_as(select).fetch_all(&self.pool).await?)
            }

            async fn add_legacy(&self, id: IdOf<Legacy>) -> Result {
                QueryBuilder::<$database>::new("INSERT INTO legacy (id) VALUES (")
                    .push_bind(id)
                    .push(")")
                    .build()
                    .execute(&self.pool)
                    .await?;
                Ok(())
            }

            async fn all_legacy(&self) -> Result<Vec<IdOf<Legacy>>> {
                Ok(sqlx::query_scalar("SELECT id FROM legacy ORDER BY id")
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
