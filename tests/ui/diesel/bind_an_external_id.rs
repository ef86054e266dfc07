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

fn find(connection: &mut SqliteConnection, id: External<User>) -> QueryResult<usize> {
    diesel::sql_query("SELECT 1 FROM users WHERE id = ?")
        .bind::<Id<User>, _>(id)
        .execute(connection)
}

fn main() {}
