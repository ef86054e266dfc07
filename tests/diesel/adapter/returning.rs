//! PostgreSQL and SQLite: keys that the database makes are returned by the insert, and no integer is unsigned.

use diesel::ExpressionMethods;
use opaque_id_diesel::Internal;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::report::Outcome;
use opaque_id_tests::database::Database;

use super::*;
use crate::rows::{Team, UnsignedNumber, teams};

pub(crate) async fn insert_team(
    connection: &mut DbConnection,
    name: &str,
) -> Result<Internal<Team>> {
    let insert = diesel::insert_into(teams::table).values(teams::name.eq(name));
    Ok(done(insert.returning(teams::id).get_result(connection)).await?)
}

pub(crate) async fn add_unsigned(
    _: &mut DbConnection,
    _: (Internal<UnsignedNumber>, Internal<Team>),
) -> Result {
    Err("the database has no unsigned integers".into())
}

pub(crate) async fn all_unsigned(
    _: &mut DbConnection,
) -> Result<Vec<(Internal<UnsignedNumber>, Internal<Team>)>> {
    Err("the database has no unsigned integers".into())
}

pub(crate) async fn plain_unsigned_columns(_: &Database) -> Result<Outcome> {
    Ok(Outcome::NotApplicable)
}
