#![allow(unused)]
use opaque_id_seaorm::{External, Internal, OpaqueId};
use sea_orm::entity::prelude::*;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(sea_orm::FromQueryResult)]
struct Row {
    id: External<User>,
}

fn main() {}
