use opaque_id_sqlx::key::StructuredKey;
use opaque_id_sqlx::{OpaqueId, Sequence};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey)]
struct Order;

async fn add(transaction: &mut sqlx::SqliteTransaction<'_>, sequence: &Sequence<Order>) {
    let _ = sequence.next(transaction).await;
}

fn main() {}
