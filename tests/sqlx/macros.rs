//! `query_as!`, checked against `.sqlx` when there is no database (CONTRIBUTING.md says how to write it).
//! Its files are named by the query's text, so each database has texts that no other takes.

use opaque_id_sqlx::Internal;
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::shop::{Team, User};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::report::Outcome::{self, Passed};

/// `as …` keeps sqlx from looking at a parameter's type.
pub(crate) async fn postgres_overrides(pool: &PgPool, users: &[User]) -> Result<Outcome> {
    let found = sqlx::query_as!(
        User,
        r#"SELECT id AS "id: _", team_id AS "team_id: Internal<Team>", name FROM users WHERE id = $1"#,
        users[0].id as Internal<User>
    )
    .fetch_one(pool)
    .await?;
    assert_eq!(found, users[0]);
    Ok(Passed)
}

/// `type-overrides` gives parameters their type.
pub(crate) async fn postgres_toml(pool: &PgPool, users: &[User]) -> Result<Outcome> {
    let ids: Vec<Internal<User>> = users.iter().map(|user| user.id).collect();
    let found =
        sqlx::query_as!(User, "SELECT * FROM users WHERE id = ANY($1) ORDER BY id", &ids[..])
            .fetch_all(pool)
            .await?;
    assert_eq!(found, users);
    Ok(Passed)
}

pub(crate) async fn mysql_overrides(pool: &MySqlPool, users: &[User]) -> Result<Outcome> {
    let found = sqlx::query_as!(
        User,
        "SELECT id AS `id: _`, team_id AS `team_id: Internal<Team>`, name FROM users USE INDEX (PRIMARY) WHERE id = ?",
        users[0].id
    )
    .fetch_one(pool)
    .await?;
    assert_eq!(found, users[0]);
    Ok(Passed)
}

pub(crate) async fn mysql_toml(pool: &MySqlPool, users: &[User]) -> Result<Outcome> {
    let found = sqlx::query_as!(
        User,
        "SELECT * FROM users USE INDEX (PRIMARY) WHERE id IN (?, ?) ORDER BY id",
        users[0].id,
        users[1].id
    )
    .fetch_all(pool)
    .await?;
    assert_eq!(found, users);
    Ok(Passed)
}

pub(crate) async fn sqlite_overrides(pool: &SqlitePool, users: &[User]) -> Result<Outcome> {
    let found = sqlx::query_as!(
        User,
        r#"SELECT id AS "id: _", team_id AS "team_id: Internal<Team>", name FROM users WHERE id = ?1"#,
        users[0].id
    )
    .fetch_one(pool)
    .await?;
    assert_eq!(found, users[0]);
    Ok(Passed)
}

pub(crate) async fn sqlite_toml(pool: &SqlitePool, users: &[User]) -> Result<Outcome> {
    let found = sqlx::query_as!(
        User,
        "SELECT * FROM users WHERE id IN (?1, ?2) ORDER BY id",
        users[0].id,
        users[1].id
    )
    .fetch_all(pool)
    .await?;
    assert_eq!(found, users);
    Ok(Passed)
}
