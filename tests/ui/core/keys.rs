use std::time::SystemTime;

use opaque_id_core::key::{Ulid, Uuid};
use opaque_id_core::{IdRange, Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = i64)]
struct Event;

fn main() {
    Internal::<Event>::generate();
    IdRange::<Internal<Event>>::all().created_in(..SystemTime::now());
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", form = "mapped")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "entry", key = Ulid, form = "uuid")]
struct Entry;

#[derive(OpaqueId)]
#[opaque_id(prefix = "invoice", form = "short")]
struct Invoice;

#[derive(OpaqueId)]
#[opaque_id(prefix = "ticket", key = Ulid, form = "short")]
struct Ticket;

#[derive(OpaqueId)]
#[opaque_id(prefix = "account", key = Uuid, form = "uuid")]
struct Account;
