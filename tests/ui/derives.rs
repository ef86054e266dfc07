//! Each derive, as `clippy.rs` compiles it for each adapter.

pub use adapter::*;

#[derive(OpaqueId)]
#[opaque_id(prefix = "part", key = i64, internal = PartId)]
pub struct Part {
    pub id: PartId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
pub struct PartId(Internal<Part>);

#[derive(AnyId)]
pub enum Node {
    Part(PartId),
}

#[derive(View, IntoModel)]
#[view(from = Part)]
#[model(into = Part)]
pub struct PartView {
    id: External<Part>,
}
