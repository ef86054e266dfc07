use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = i64)]
struct Event;

fn main() {
    Internal::<Event>::generate();
}
