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

#[derive(Queryable, Selectable, serde::Serialize)]
#[diesel(table_name = users)]
struct Row {
    id: Internal<User>,
}
