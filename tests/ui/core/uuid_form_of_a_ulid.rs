use opaque_id_core::{OpaqueId, Ulid};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = Ulid, form = "uuid")]
struct Event;

fn main() {}
