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

fn find(id: External<User>) {
    let _ = users::table.filter(users::id.eq(id));
}

fn main() {}
