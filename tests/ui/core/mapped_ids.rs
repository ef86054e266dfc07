use opaque_id_core::{External, Internal, IntoModel, Keyring, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order {
    id: Internal<Order>,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
struct Receipt;

fn show(keyring: &Keyring, id: Internal<Order>) -> String {
    keyring.seal(id).to_string()
}

fn look_up(keyring: &Keyring, id: External<Receipt>) -> Option<Internal<Receipt>> {
    keyring.open(id).ok()
}

#[derive(View)]
#[view(from = Order)]
struct OrderView {
    id: External<Order>,
}

#[derive(IntoModel)]
#[model(into = Order)]
struct CreateOrder {
    id: External<Order>,
}
