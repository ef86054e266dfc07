use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{ByEncryptedKey, Json};
use opaque_id_sqlx::{IdRange, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event")]
struct Event;

fn pages(events: &PackTable<Event, String, Json, ByEncryptedKey>) {
    let _ = events.pages(IdRange::all());
}
