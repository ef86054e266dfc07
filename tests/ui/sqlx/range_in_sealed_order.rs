use opaque_id_sqlx::packs::{Json, PackTable, Sealed};
use opaque_id_sqlx::{IdRange, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event")]
struct Event;

fn pages(events: &PackTable<Event, String, Json, Sealed>) {
    let _ = events.pages(IdRange::all());
}

fn main() {}
