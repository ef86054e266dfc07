//! PostgreSQL and SQLite: the insert returns the database's keys, and no integer is unsigned.

use diesel::ExpressionMethods;
use opaque_id_diesel::Internal;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::report::{Outcome, Verdict};
use opaque_id_tests::database::Database;

use super::*;
use crate::rows::{Team, teams};

pub(crate) async fn insert_team(
    connection: &mut DbConnection,
    name: &str,
) -> Result<Internal<Team>> {
    let insert = diesel::insert_into(teams::table).values(teams::name.eq(name));
    Ok(done(insert.returning(teams::id).get_result(connection)).await?)
}

/// The calls of such integers fail.
macro_rules! unsigned_calls {
    () => {};
}
pub(crate) use unsigned_calls;

pub(crate) async fn plain_unsigned_columns(_: &Database) -> Verdict {
    Ok(Outcome::NotApplicable)
}
