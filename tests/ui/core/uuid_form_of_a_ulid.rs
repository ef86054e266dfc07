use opaque_id_core::key::Ulid;
use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = Ulid, form = "uuid")]
struct Event;

fn main() {}
