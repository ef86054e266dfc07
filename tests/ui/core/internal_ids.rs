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

// sqlx's `query_as!` writes this for a column without a type override.
fn read(column: Uuid) -> Internal<User> {
    column.into()
}

// It writes this for a column of UUIDs that are no ids, if `type-overrides` cover all UUIDs.
fn read_plain(column: Internal<User>) -> Uuid {
    column.into()
}
