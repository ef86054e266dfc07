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
#[opaque_id(prefix = "team")]
pub struct Team;

fn find(id: Internal<Team>) {
    let _ = users::table.filter(users::id.eq(id));
}

fn main() {}
