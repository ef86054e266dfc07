//! An application that chooses its database by a URL.

use diesel::dsl::sql;
use diesel::prelude::*;
use opaque_id_diesel::{Id, Internal};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::error;

use crate::rows::{Team, User, plain_uuid, teams, users};

#[derive(diesel::MultiConnection)]
pub(crate) enum AnyConnection {
    Postgresql(diesel::PgConnection),
    Mysql(diesel::MysqlConnection),
    Sqlite(diesel::SqliteConnection),
}

opaque_id_diesel::multi_backend!(MultiBackend);

pub(crate) fn rows(url: &str, team: Internal<Team>, expected: &[User]) -> Result {
    let mut connection = AnyConnection::establish(url)?;
    let of_team = users::table.filter(users::team_id.eq(team)).order(users::id);
    let of_team: Vec<User> = of_team.load(&mut connection)?;
    assert_eq!(of_team, [expected[0].clone(), expected[2].clone()]);

    let new = User { id: Internal::generate(), ..expected[1].clone() };
    diesel::insert_into(users::table).values(&new).execute(&mut connection)?;
    let team: Team = teams::table.find(team).first(&mut connection)?;
    let moved = diesel::update(users::table.find(new.id)).set(users::team_id.eq(team.id));
    moved.execute(&mut connection)?;
    let both = users::table.filter(users::id.eq_any([new.id, expected[1].id])).order(users::id);
    let teams: Vec<Option<Internal<Team>>> = both.select(users::team_id).load(&mut connection)?;
    assert_eq!(teams, [None, Some(team.id)]);
    // A plain column of integers.
    let plain = plain_uuid::users::table.filter(plain_uuid::users::team_id.eq(team.id));
    assert_eq!(plain.count().get_result::<i64>(&mut connection)?, 3);

    // Each backend checks the type of a column.
    let names = users::table.select(sql::<Id<Team>>("name"));
    let refused = names.load::<Internal<Team>>(&mut connection);
    let refused = error(refused.map_err(Into::into));
    assert!(refused.contains("invalid key for `team`: expected a 64-bit integer"), "{refused}");
    Ok(())
}
