//! The JSON of the API, which the server writes and the front end reads with the same types.

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

/// What the API shows of an order.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderView {
    /// Its id.
    pub id: External<Order>,
    /// What was ordered.
    pub item: String,
}
