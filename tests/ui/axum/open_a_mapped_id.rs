use opaque_id_axum::{Opened, Path};
use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

async fn show(Path(_): Path<Opened<Order>>) {}
