#![allow(unused)]
use diesel::prelude::*;
use opaque_id_diesel::{External, Id, Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
pub struct User;

diesel::table! {
    use opaque_id_diesel::Id;
    use super::User;
    users (id) { id -> Id<User>, }
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
pub struct Team;

mod plain {
    diesel::table! {
        teams (id) { id -> Binary, }
    }
}

fn find(connection: &mut SqliteConnection, id: Internal<Team>) -> QueryResult<usize> {
    plain::teams::table
        .filter(plain::teams::id.eq(id))
        .execute(connection)
}

fn main() {}
