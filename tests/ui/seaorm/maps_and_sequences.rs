use opaque_id_seaorm::key::StructuredKey;
use opaque_id_seaorm::{OpaqueId, Sequence, UuidMap};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey)]
struct Order;

async fn add(transaction: &sea_orm::DatabaseTransaction, sequence: &Sequence<Order>) {
    let _ = sequence.next(transaction).await;
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64)]
struct Invoice;

fn map_a_sealed_resource() {
    let _ = UuidMap::<Invoice>::unique("invoice_ids");
}
