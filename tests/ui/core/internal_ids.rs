use opaque_id_core::key::Uuid;
use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(serde::Serialize)]
struct Written {
    id: Internal<User>,
}

#[derive(serde::Deserialize)]
struct Read {
    id: Internal<User>,
}

fn show(id: Internal<User>) {
    format!("{id}");
    serde_json::to_string(&id);
}

// What `query_as!` of sqlx writes for a column whose type it was not told.
fn read(column: Uuid) -> Internal<User> {
    column.into()
}

// What it writes for a column of UUIDs that are no ids, if `type-overrides` say that all are.
fn read_plain(column: Internal<User>) -> Uuid {
    column.into()
}
