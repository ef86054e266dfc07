use opaque_id_core::key::Uuid;
use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = Uuid, form = "uuid")]
struct Event;

fn main() {}
