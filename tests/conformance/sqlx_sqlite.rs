use std::error::Error;

use opaque_id_sqlx::{
    External, Internal, InternalId, Key, Keyring, OpaqueId, ReprOf, StructuredKey, Ulid, Uuid,
    Uuid7,
};
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};
use sqlx::{Database, Encode, Executor, FromRow, IntoArguments, Pool, QueryBuilder, Sqlite, Type};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[derive(Debug, OpaqueId, FromRow, PartialEq)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
    team_id: Option<Internal<Team>>,
    name: String,
}

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
struct Team;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "event", key = Ulid)]
struct Event;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
struct Order;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "legacy", key = Uuid, form = "tagged")]
struct Legacy;

/// A database of its own for each test; it is gone with its last connection.
async fn database() -> Result<SqlitePool> {
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect("sqlite::memory:")
        .await?;
    sqlx::raw_sql(include_str!("../schema.sql"))
        .execute(&pool)
        .await?;
    Ok(pool)
}

async fn insert(pool: &SqlitePool, user: &User) -> Result {
    sqlx::query("INSERT INTO users (id, team_id, name) VALUES (?, ?, ?)")
        .bind(user.id)
        .bind(user.team_id)
        .bind(&user.name)
        .execute(pool)
        .await?;
    Ok(())
}

fn user(team_id: Option<Internal<Team>>, name: &str) -> User {
    User {
        id: Internal::generate(),
        team_id,
        name: name.into(),
    }
}

#[tokio::test]
async fn rows_go_in_and_come_out() -> Result {
    let pool = database().await?;
    // The database makes the key.
    let insert_team = "INSERT INTO teams (name) VALUES ('Analysts') RETURNING id";
    let team: Internal<Team> = sqlx::query_scalar(insert_team).fetch_one(&pool).await?;
    let (ada, grace) = (user(Some(team), "Ada"), user(None, "Grace"));
    insert(&pool, &ada).await?;
    insert(&pool, &grace).await?;

    for user in [&ada, &grace] {
        let found: User = sqlx::query_as("SELECT id, team_id, name FROM users WHERE id = ?")
            .bind(user.id)
            .fetch_one(&pool)
            .await?;
        assert_eq!(&found, user);
    }
    let tuple: (Internal<User>, Option<Internal<Team>>) =
        sqlx::query_as("SELECT id, team_id FROM users WHERE team_id IS NULL")
            .fetch_one(&pool)
            .await?;
    assert_eq!(tuple, (grace.id, None));
    let joined: Internal<User> = sqlx::query_scalar(
        "SELECT users.id FROM users JOIN teams ON teams.id = team_id WHERE teams.id = ?",
    )
    .bind(team)
    .fetch_one(&pool)
    .await?;
    assert_eq!(joined, ada.id);
    Ok(())
}

#[tokio::test]
async fn query_as_takes_a_type_override() -> Result {
    let pool = database().await?;
    let ada = user(None, "Ada");
    insert(&pool, &ada).await?;
    let found = sqlx::query_as!(
        User,
        r#"SELECT id AS "id: _", team_id AS "team_id: Internal<Team>", name FROM users WHERE id = ?"#,
        ada.id
    )
    .fetch_one(&pool)
    .await?;
    assert_eq!(found, ada);
    Ok(())
}

#[tokio::test]
async fn lists_are_built_by_the_query_builder() -> Result {
    let pool = database().await?;
    let users: Vec<User> = (0..100).map(|i| user(None, &i.to_string())).collect();
    QueryBuilder::<Sqlite>::new("INSERT INTO users (id, team_id, name) ")
        .push_values(&users, |mut row, user| {
            row.push_bind(user.id)
                .push_bind(user.team_id)
                .push_bind(&user.name);
        })
        .build()
        .execute(&pool)
        .await?;

    let mut query =
        QueryBuilder::<Sqlite>::new("SELECT id, team_id, name FROM users WHERE id IN (");
    let mut list = query.separated(", ");
    for user in &users[10..20] {
        list.push_bind(user.id);
    }
    list.push_unseparated(") ORDER BY id");
    let found: Vec<User> = query.build_query_as().fetch_all(&pool).await?;
    assert_eq!(found, users[10..20]);
    Ok(())
}

#[tokio::test]
async fn a_range_scan_is_time_order_and_uses_the_primary_key() -> Result {
    let pool = database().await?;
    let users: Vec<User> = (0..50).map(|i| user(None, &i.to_string())).collect();
    for user in users.iter().rev() {
        insert(&pool, user).await?;
    }
    let after = "SELECT id, team_id, name FROM users WHERE id > ? ORDER BY id LIMIT 10";
    let page: Vec<User> = sqlx::query_as(after)
        .bind(users[19].id)
        .fetch_all(&pool)
        .await?;
    assert_eq!(page, users[20..30]);
    let plan: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {after}")))
            .bind(users[19].id)
            .fetch_all(&pool)
            .await?;
    assert!(plan.len() == 1 && plan[0].3.contains("(id>?)"), "{plan:?}");
    Ok(())
}

/// Stores a key of each kind and tells how SQLite holds it.
async fn stored_as<T>(pool: &SqlitePool, key: T::Key) -> Result<(String, i64)>
where
    T: OpaqueId<Internal = Internal<T>>,
    ReprOf<T>: for<'q> Encode<'q, Sqlite> + for<'r> sqlx::Decode<'r, Sqlite> + Type<Sqlite>,
{
    let id = Internal::<T>::from_key(key)?;
    let (kind, length, back): (String, i64, Internal<T>) =
        sqlx::query_as("SELECT typeof(?1), length(?1), ?1")
            .bind(id)
            .fetch_one(pool)
            .await?;
    assert_eq!(back.expose_key(), key);
    Ok((kind, length))
}

#[tokio::test]
async fn sixteen_byte_keys_are_blobs_and_integers_are_integers() -> Result {
    let pool = database().await?;
    let uuid = Uuid::from_u128(0x0192_c1f0_7b1e_7a35_8f00_0000_0000_0001);
    let blob = ("blob".to_owned(), 16);
    assert_eq!(
        stored_as::<User>(&pool, Uuid7::try_from(uuid)?).await?,
        blob
    );
    assert_eq!(stored_as::<Event>(&pool, Ulid::from(uuid)).await?, blob);
    assert_eq!(
        stored_as::<Order>(&pool, StructuredKey::with_sequence(7)?).await?,
        blob
    );
    assert_eq!(stored_as::<Legacy>(&pool, uuid).await?, blob);
    assert_eq!(
        stored_as::<Team>(&pool, 12_345).await?,
        ("integer".to_owned(), 5)
    );
    Ok(())
}

#[tokio::test]
async fn order_by_is_the_order_of_internal_ids() -> Result {
    let pool = database().await?;
    // Spread over all 2^128, so that the sign bit of every byte counts.
    let mut ids: Vec<Internal<Legacy>> = (0..64_u128)
        .map(|i| {
            Internal::from_key(Uuid::from_u128(
                i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
            ))
        })
        .collect::<std::result::Result<_, _>>()?;
    for id in &ids {
        sqlx::query("INSERT INTO legacy (id) VALUES (?)")
            .bind(*id)
            .execute(&pool)
            .await?;
    }
    ids.sort();
    let stored: Vec<Internal<Legacy>> = sqlx::query_scalar("SELECT id FROM legacy ORDER BY id")
        .fetch_all(&pool)
        .await?;
    assert_eq!(stored, ids);
    Ok(())
}

/// The message, and those of all sources, of reading a value as an id of `T`.
async fn refusal<T>(pool: &SqlitePool, value: &'static str) -> Result<String>
where
    T: OpaqueId<Internal = Internal<T>>,
    ReprOf<T>: for<'r> sqlx::Decode<'r, Sqlite> + Type<Sqlite>,
{
    let select = sqlx::AssertSqlSafe(format!("SELECT {value}"));
    let read: sqlx::Result<Internal<T>> = sqlx::query_scalar(select).fetch_one(pool).await;
    let error = read
        .err()
        .ok_or_else(|| format!("{value} was taken for a key"))?;
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        message += &format!(": {error}");
        source = error.source();
    }
    Ok(message)
}

#[tokio::test]
async fn wrong_rows_name_resource_and_fault_and_never_the_value() -> Result {
    let pool = database().await?;
    const V4: &str = "X'6d179ed1fd65480ba47577983c28dd10'";
    for (value, fault) in [
        ("X'6d179ed1fd65480ba47577983c28dd'", "16 bytes"),
        ("X'6d179ed1fd65480ba47577983c28dd1000'", "16 bytes"),
        ("'6d179ed1-fd65-480b-a475-77983c28dd10'", "TEXT"),
        ("'6d179ed1fd65480b'", "TEXT"),
        ("7", "INTEGER"),
        ("NULL", "null"),
        (V4, "a UUIDv7 is needed, found version 4"),
    ] {
        let message = refusal::<User>(&pool, value).await?;
        let names_resource = message.contains("`user`") || message.contains("User");
        assert!(
            names_resource && message.contains(fault),
            "{value}: {message}"
        );
        assert!(!message.contains("6d17"), "{value}: {message}");
    }
    for (value, fault) in [
        ("'abc'", "TEXT"),
        ("1.9", "REAL"),
        ("X'01'", "BLOB"),
        ("NULL", "null"),
    ] {
        let message = refusal::<Team>(&pool, value).await?;
        let names_resource = message.contains("`team`") || message.contains("Team");
        assert!(
            names_resource && message.contains(fault),
            "{value}: {message}"
        );
    }
    let message = refusal::<Order>(&pool, V4).await?;
    assert!(
        message.contains("`order`") && message.contains("below 2^60"),
        "{message}"
    );
    // NULL where there may be one.
    let none: Option<Internal<User>> = sqlx::query_scalar("SELECT NULL").fetch_one(&pool).await?;
    assert_eq!(none, None);
    Ok(())
}

/// Code that is generic over the database and the resource.
async fn count<DB, T>(pool: &Pool<DB>, select: &'static str, id: T::Internal) -> sqlx::Result<usize>
where
    DB: Database,
    T: OpaqueId<Internal = Internal<T>>,
    ReprOf<T>: for<'q> Encode<'q, DB> + Type<DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c Pool<DB>: Executor<'c, Database = DB>,
{
    Ok(sqlx::query(select).bind(id).fetch_all(pool).await?.len())
}

#[tokio::test]
async fn code_generic_over_the_database_compiles_and_runs() -> Result {
    let pool = database().await?;
    let ada = user(None, "Ada");
    insert(&pool, &ada).await?;
    assert_eq!(
        count::<_, User>(&pool, "SELECT 1 FROM users WHERE id = ?", ada.id).await?,
        1
    );
    Ok(())
}

#[tokio::test]
async fn an_external_id_finds_its_row() -> Result {
    let pool = database().await?;
    let ada = user(None, "Ada");
    insert(&pool, &ada).await?;
    let keyring = Keyring::builder().sealing(0, [7; 32]).build()?;
    let asked: External<User> =
        serde_json::from_str(&serde_json::to_string(&keyring.seal(ada.id))?)?;
    let name: String = sqlx::query_scalar("SELECT name FROM users WHERE id = ?")
        .bind(keyring.open(asked)?)
        .fetch_one(&pool)
        .await?;
    assert_eq!(name, "Ada");
    Ok(())
}

#[tokio::test]
async fn an_id_of_the_core_converts_both_ways() -> Result {
    let domain: opaque_id_core::Internal<User> = opaque_id_core::Internal::generate();
    let stored: Internal<User> = domain.into();
    assert_eq!(opaque_id_core::Internal::from(stored), domain);
    assert_eq!(stored.as_repr(), &domain.expose_key().into_repr());
    Ok(())
}
