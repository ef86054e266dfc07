//! Each derive, as `clippy.rs` compiles it for each adapter.

pub use adapter::*;

#[derive(OpaqueId, View)]
#[opaque_id(prefix = "part", key = i64, internal = PartId)]
#[view(into = PartView, derive(IntoModel))]
pub struct Part {
    #[view(as = External<Part>)]
    pub id: PartId,
    pub spare: Internal<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
pub struct PartId(Internal<Part>);

#[derive(AnyId)]
pub enum Node {
    Part(PartId),
}
