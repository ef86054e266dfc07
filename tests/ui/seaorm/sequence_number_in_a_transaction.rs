use opaque_id_seaorm::key::StructuredKey;
use opaque_id_seaorm::{OpaqueId, Sequence};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey)]
struct Order;

async fn add(transaction: &sea_orm::DatabaseTransaction, sequence: &Sequence<Order>) {
    let _ = sequence.next(transaction).await;
}

fn main() {}
