//! `query_as!`, checked against `.sqlx` if there is no database (CONTRIBUTING.md says how to write it). Its
//! files are named by the query's text, so each database has its own texts.

use opaque_id_sqlx::Internal;
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::shop::{Team, User};
use opaque_id_tests::conformance::report::Outcome::Passed;
use opaque_id_tests::conformance::report::Verdict;

/// The query with overrides finds the first user, and the query with the types of `sqlx.toml` finds both.
macro_rules! queries {
    (
        $pool:ty, |$users:ident|
        $overrides:ident: $one:literal, ($($id:tt)+);
        $toml:ident: $all:literal, ($($ids:tt)+);
    ) => {
        pub(crate) async fn $overrides(pool: &$pool, $users: &[User]) -> Verdict {
            let found = sqlx::query_as!(User, $one, $($id)+).fetch_one(pool).await?;
            assert_eq!(found, $users[0]);
            Ok(Passed)
        }

        #[cfg(not(feature = "older"))]
        pub(crate) async fn $toml(pool: &$pool, $users: &[User]) -> Verdict {
            let found = sqlx::query_as!(User, $all, $($ids)+).fetch_all(pool).await?;
            assert_eq!(found, $users);
            Ok(Passed)
        }
    };
}

// `as …` prevents sqlx from checking a parameter's type; `type-overrides` gives parameters their types.
queries! {
    PgPool, |users|
    postgres_overrides: r#"SELECT id AS "id: _", team_id AS "team_id: Internal<Team>", name FROM users WHERE id = $1"#,
        (users[0].id as Internal<User>);
    postgres_toml: "SELECT * FROM users WHERE id = ANY($1) ORDER BY id",
        (&users.iter().map(|user| user.id).collect::<Vec<_>>()[..]);
}

queries! {
    MySqlPool, |users|
    mysql_overrides: "SELECT id AS `id: _`, team_id AS `team_id: Internal<Team>`, name FROM users USE INDEX (PRIMARY) WHERE id = ?",
        (users[0].id);
    mysql_toml: "SELECT * FROM users USE INDEX (PRIMARY) WHERE id IN (?, ?) ORDER BY id",
        (users[0].id, users[1].id);
}

queries! {
    SqlitePool, |users|
    sqlite_overrides: r#"SELECT id AS "id: _", team_id AS "team_id: Internal<Team>", name FROM users WHERE id = ?1"#,
        (users[0].id);
    sqlite_toml: "SELECT * FROM users WHERE id IN (?1, ?2) ORDER BY id",
        (users[0].id, users[1].id);
}
