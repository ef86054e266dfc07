use opaque_id_core::{OpaqueId, Uuid};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = Uuid, form = "uuid")]
struct Event;

fn main() {}
