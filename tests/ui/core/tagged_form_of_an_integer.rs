use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = i64, form = "tagged")]
struct Event;

fn main() {}
