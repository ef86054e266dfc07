//! MySQL and MariaDB: the database's last key is queried, and integers may be unsigned.

use diesel::dsl::sql;
use diesel::prelude::{ExpressionMethods, QueryDsl};
use opaque_id_diesel::{Id, Internal};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::message;
use opaque_id_tests::conformance::integers::create_sql;
use opaque_id_tests::conformance::report::Outcome::Passed;
use opaque_id_tests::conformance::report::Verdict;
use opaque_id_tests::conformance::shop::{Shop, from_key};
use opaque_id_tests::database::Database;

use super::adapter::DieselShop;
use super::*;
use crate::rows::plain_unsigned::unsigned_numbers::dsl;
use crate::rows::{Team, UnsignedNumber, teams};

type Unsigned = (Internal<UnsignedNumber>, Internal<Team>);

pub(crate) async fn insert_team(
    connection: &mut DbConnection,
    name: &str,
) -> Result<Internal<Team>> {
    let insert = diesel::insert_into(teams::table).values(teams::name.eq(name));
    done(insert.execute(connection)).await?;
    let id = diesel::select(sql::<Id<Team>>("CAST(LAST_INSERT_ID() AS SIGNED)"));
    Ok(done(id.get_result(connection)).await?)
}

macro_rules! unsigned_calls {
    () => {
        async fn add_unsigned(
            &self,
            (id, team_id): opaque_id_tests::conformance::integers::UnsignedOf<Self>,
        ) -> Result {
            let row = (unsigned_numbers::id.eq(id), unsigned_numbers::team_id.eq(team_id));
            let insert = diesel::insert_into(unsigned_numbers::table).values(row);
            done(insert.execute(&mut *self.connection().await?)).await?;
            Ok(())
        }

        async fn all_unsigned(
            &self,
        ) -> Result<Vec<opaque_id_tests::conformance::integers::UnsignedOf<Self>>> {
            let select = unsigned_numbers::table.order(unsigned_numbers::id);
            Ok(done(select.load(&mut *self.connection().await?)).await?)
        }
    };
}
pub(crate) use unsigned_calls;

pub(crate) async fn plain_unsigned_columns(database: &Database) -> Verdict {
    let shop = DieselShop::connect(database).await?;
    database.execute(create_sql(database.kind))?;
    let connection = &mut *shop.connection().await?;
    let row = |id, team| -> Result<Unsigned> { Ok((from_key(id)?, from_key(team)?)) };
    let rows = [row(1, 7)?, row(u32::MAX - 1, i64::MAX)?];
    for (id, team_id) in rows {
        let insert = diesel::insert_into(dsl::unsigned_numbers);
        let insert = insert.values((dsl::id.eq(id), dsl::team_id.eq(team_id)));
        done(insert.execute(connection)).await?;
    }
    let select =
        dsl::unsigned_numbers.filter(dsl::team_id.eq_any([rows[0].1, rows[1].1])).order(dsl::id);
    let found: Vec<Unsigned> = done(select.load(connection)).await?;
    assert_eq!(found, rows);
    let negative: Internal<Team> = from_key(-1)?;
    let update = diesel::update(dsl::unsigned_numbers).set(dsl::team_id.eq(negative));
    let refused = done(update.execute(connection)).await;
    let message = message(&refused.expect_err("it is negative"));
    assert!(message.contains("no negative integers"), "{message}");
    Ok(Passed)
}
