use opaque_id_core::key::Uuid;
use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

// What `query_as!` of sqlx writes for a column whose type it was not told.
fn read(column: Uuid) -> Internal<User> {
    column.into()
}

fn main() {}
