//! The JSON of the API. The server and the front end use the same types.

#[cfg(target_family = "wasm")]
mod page;

#[cfg(target_family = "wasm")]
use opaque_id_core::{External, OpaqueId};
#[cfg(not(target_family = "wasm"))]
use opaque_id_sqlx::{External, OpaqueId};
use serde::{Deserialize, Serialize};

/// A resource of the API.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order")]
pub struct Order;

/// The view of an order.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderView {
    /// The order's id.
    pub id: External<Order>,
    /// The ordered item.
    pub item: String,
}
