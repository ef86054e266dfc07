use opaque_id_axum::Path;
use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

async fn show(Path(_): Path<Internal<User>>) {}

fn main() {}
