use std::time::SystemTime;

use opaque_id_core::{IdRange, Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = i64)]
struct Event;

fn main() {
    IdRange::<Internal<Event>>::all().created_in(..SystemTime::now());
}
