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

#[derive(Queryable)]
struct Row {
    id: External<User>,
}

fn load(connection: &mut SqliteConnection) -> QueryResult<Vec<Row>> {
    users::table.load(connection)
}

fn main() {}
