//! Features of sqlx alone: arrays, RETURNING, references and tuples, code generic over the database, macros.

use opaque_id_sqlx::key::Uuid;
use opaque_id_sqlx::resource::ReprOf;
use opaque_id_sqlx::{External, IdNewtype, Internal, OpaqueId};
use sqlx::{
    Any, AnyPool, Arguments, Encode, Executor, IntoArguments, Pool, QueryBuilder, Row, Type,
};

use crate::macros;
use crate::shop::{SqlxShop, Team, User};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::report::Outcome::{NotApplicable, Passed};
use opaque_id_tests::conformance::report::{Cases, Verdict};
use opaque_id_tests::conformance::shop::{self, Shop, generate};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct UserId(Internal<User>);

/// An id of a crate without a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, opaque_id_core::IdNewtype)]
struct DomainId(opaque_id_core::Internal<User>);

#[derive(sqlx::FromRow)]
struct Named {
    #[sqlx(try_from = "Internal<User>")]
    id: DomainId,
    name: String,
}

macro_rules! own {
    ($name:ident, $database:ty, $placeholder:literal, $overrides:ident, $toml:ident) => {
        pub(crate) fn $name() -> Cases {
            async fn open(database: &Database) -> Result<(SqlxShop<$database>, Vec<User>)> {
                let shop = SqlxShop::<$database>::connect(database).await?;
                shop.create_tables(database).await?;
                let users: Vec<User> = ["Ada", "Grace"]
                    .map(|name| User { id: generate(), team_id: None, name: name.to_owned() })
                    .into();
                for user in users.clone() {
                    shop.add_user(&shop::User::from(user)).await?;
                }
                Ok((shop, users))
            }

            fn run(
                database: &Database,
                case: impl AsyncFnOnce(SqlxShop<$database>, Vec<User>) -> Verdict,
            ) -> Verdict {
                SqlxShop::<$database>::block_on(async {
                    let (shop, users) = open(database).await?;
                    case(shop, users).await
                })
            }

            vec![
                ("newtypes", |database| {
                    run(database, async |shop, users| {
                        let select =
                            concat!("SELECT id, name FROM users WHERE id = ", $placeholder);
                        let id = UserId::from(users[1].id);
                        let row: (UserId, Option<String>) =
                            sqlx::query_as(select).bind(Some(&id)).fetch_one(&shop.pool).await?;
                        assert_eq!(row, (id, Some("Grace".to_owned())));
                        let found: Named =
                            sqlx::query_as(select).bind(id).fetch_one(&shop.pool).await?;
                        let back: Internal<User> = found.id.into();
                        assert_eq!((back, found.name), (users[1].id, "Grace".to_owned()));
                        let wrong = sqlx::query_scalar::<_, UserId>("SELECT 7");
                        let error = wrong.fetch_one(&shop.pool).await.expect_err("no UUID");
                        assert!(error.to_string().contains("invalid key for `user`"), "{error}");
                        Ok(Passed)
                    })
                }),
                ("bind_by_reference_and_read_a_tuple", |database| {
                    run(database, async |shop, users| {
                        let row: (Internal<User>, String) = sqlx::query_as(concat!(
                            "SELECT id, name FROM users WHERE id = ",
                            $placeholder
                        ))
                        .bind(&users[1].id)
                        .fetch_one(&shop.pool)
                        .await?;
                        assert_eq!(row, (users[1].id, "Grace".to_owned()));
                        Ok(Passed)
                    })
                }),
                ("code_generic_over_the_database", |database| {
                    run(database, async |shop, users| {
                        let select = concat!("SELECT name FROM users WHERE id = ", $placeholder);
                        let found = count::<_, User>(&shop.pool, select, users[0].id).await?;
                        assert_eq!(found, 1);
                        Ok(Passed)
                    })
                }),
                ("returning", |database| {
                    run(database, async |shop, users| {
                        // sqlx 0.8 does not know the names of the columns that MariaDB returns.
                        let is_nameless =
                            cfg!(feature = "older") && database.kind == Engine::Mariadb;
                        if database.kind == Engine::Mysql || is_nameless {
                            return Ok(NotApplicable);
                        }
                        let deleted = concat!(
                            "DELETE FROM users WHERE id = ",
                            $placeholder,
                            " RETURNING id, team_id, name"
                        );
                        let deleted: User =
                            sqlx::query_as(deleted).bind(users[0].id).fetch_one(&shop.pool).await?;
                        assert_eq!(deleted, users[0]);
                        Ok(Passed)
                    })
                }),
                ("any_driver", |database| {
                    run(database, async |_, _| any_driver(database, $placeholder).await)
                }),
                ("arrays", |database| {
                    if database.kind == Engine::Postgres {
                        arrays(database)
                    } else {
                        Ok(NotApplicable)
                    }
                }),
                ("what_no_type_closes", |database| {
                    run(database, async |shop, users| {
                        let key: Uuid = users[0].id.expose_key().into();
                        // The column is read as its stored type.
                        let select = concat!("SELECT id FROM users WHERE id = ", $placeholder);
                        let row =
                            sqlx::query(select).bind(users[0].id).fetch_one(&shop.pool).await?;
                        assert_eq!(row.get::<Uuid, _>(0), key);
                        // The case covers `Debug` of bound values.
                        let mut arguments = <$database as sqlx::Database>::Arguments::default();
                        arguments.add(users[0].id)?;
                        let bytes = format!("{:?}", key.as_bytes());
                        let bytes = bytes.trim_matches(['[', ']']);
                        assert!(format!("{arguments:?}").contains(bytes), "{arguments:?}");
                        // The case covers an external id within JSON.
                        fn accepts<V: for<'q> Encode<'q, $database>>() {}
                        accepts::<sqlx::types::Json<External<User>>>();
                        // The error has the database's own words.
                        let again = shop.add_user(&shop::User::from(users[0].clone())).await;
                        let error = again.expect_err("the same key");
                        let (shown, debugged) = (error.to_string(), format!("{error:?}"));
                        match database.kind {
                            Engine::Postgres => {
                                let detail = format!("Key (id)=({key}) already exists");
                                assert!(debugged.contains(&detail), "{debugged}");
                                assert!(!shown.contains(&key.to_string()), "{shown}");
                            }
                            Engine::Mysql | Engine::Mariadb => {
                                assert!(shown.contains("Duplicate entry '"), "{shown}");
                            }
                            Engine::Sqlite => assert!(shown.contains("users.id"), "{shown}"),
                        }
                        Ok(Passed)
                    })
                }),
                ("query_as_with_overrides", |database| {
                    run(database, async |shop, users| macros::$overrides(&shop.pool, &users).await)
                }),
                #[cfg(not(feature = "older"))]
                ("query_as_by_sqlx_toml", |database| {
                    run(database, async |shop, users| macros::$toml(&shop.pool, &users).await)
                }),
            ]
        }
    };
}

own!(postgres, sqlx::Postgres, "$1", postgres_overrides, postgres_toml);
own!(mysql, sqlx::MySql, "?", mysql_overrides, mysql_toml);
own!(sqlite, sqlx::Sqlite, "?", sqlite_overrides, sqlite_toml);

#[cfg(not(feature = "older"))]
async fn count<DB, T>(pool: &Pool<DB>, select: &'static str, id: T::Internal) -> sqlx::Result<usize>
where
    DB: sqlx::Database,
    T: OpaqueId<Internal = Internal<T>>,
    ReprOf<T>: for<'q> Encode<'q, DB> + Type<DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c Pool<DB>: Executor<'c, Database = DB>,
{
    Ok(sqlx::query(select).bind(id).fetch_all(pool).await?.len())
}

#[cfg(feature = "older")]
async fn count<DB, T>(pool: &Pool<DB>, select: &'static str, id: T::Internal) -> sqlx::Result<usize>
where
    DB: sqlx::Database,
    T: OpaqueId<Internal = Internal<T>>,
    ReprOf<T>: for<'q> Encode<'q, DB> + Type<DB>,
    for<'q> DB::Arguments<'q>: IntoArguments<'q, DB>,
    for<'c> &'c Pool<DB>: Executor<'c, Database = DB>,
{
    Ok(sqlx::query(select).bind(id).fetch_all(pool).await?.len())
}

/// A program that chooses its database when it starts.
async fn any_driver(database: &Database, placeholder: &'static str) -> Verdict {
    sqlx::any::install_default_drivers();
    let pool = AnyPool::connect(&database.url).await?;
    let ids = [Internal::<Team>::from_key(7)?, Internal::from_key(i64::MAX)?];
    for id in ids {
        let mut insert = QueryBuilder::<Any>::new("INSERT INTO teams (id, name) VALUES (");
        insert.push(placeholder).push(", 'Analysts')");
        insert.build().bind(id).execute(&pool).await?;
    }
    let mut select = QueryBuilder::<Any>::new("SELECT id, NULL FROM teams WHERE id = ");
    let found: (Internal<Team>, Option<Internal<Team>>) =
        select.push(placeholder).build_query_as().bind(ids[1]).fetch_one(&pool).await?;
    assert_eq!(found, (ids[1], None));
    Ok(Passed)
}

fn arrays(database: &Database) -> Verdict {
    SqlxShop::<sqlx::Postgres>::block_on(async {
        let shop = SqlxShop::<sqlx::Postgres>::connect(database).await?;
        shop.create_tables(database).await?;
        let ids: Vec<Internal<User>> = (0..3).map(|_| generate()).collect();
        sqlx::query("INSERT INTO users (id, name) SELECT id, 'x' FROM UNNEST($1) AS id")
            .bind(&ids)
            .execute(&shop.pool)
            .await?;
        let found: Vec<Internal<User>> =
            sqlx::query_scalar("SELECT id FROM users WHERE id = ANY($1) ORDER BY id")
                .bind(&ids[1..])
                .fetch_all(&shop.pool)
                .await?;
        assert_eq!(found, ids[1..]);
        let aggregated: Vec<Internal<User>> =
            sqlx::query_scalar("SELECT array_agg(id ORDER BY id) FROM users")
                .fetch_one(&shop.pool)
                .await?;
        assert_eq!(aggregated, ids);
        let newtypes: Vec<UserId> = sqlx::query_scalar("SELECT $1")
            .bind(found.iter().copied().map(UserId::from).collect::<Vec<_>>())
            .fetch_one(&shop.pool)
            .await?;
        assert_eq!(newtypes, [UserId(ids[1]), UserId(ids[2])]);
        let with_null: Vec<Option<Internal<User>>> = sqlx::query_scalar("SELECT $1")
            .bind([Some(ids[0]), None])
            .fetch_one(&shop.pool)
            .await?;
        assert_eq!(with_null, [Some(ids[0]), None]);
        // An array of a narrow column.
        let narrow: Vec<Internal<Team>> =
            sqlx::query_scalar("SELECT ARRAY[7::int4]").fetch_one(&shop.pool).await?;
        assert_eq!(narrow, [Internal::from_key(7)?]);
        Ok(Passed)
    })
}
