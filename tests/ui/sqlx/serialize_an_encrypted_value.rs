use opaque_id_packs::Encrypted;
use opaque_id_sqlx::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "customer")]
struct Customer;

#[derive(serde::Serialize, serde::Deserialize)]
struct Row {
    notes: Encrypted<Customer, String>,
}
