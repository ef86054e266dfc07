use opaque_id_core::{IdNewtype, Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "part", key = i64)]
struct Part;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", internal = PartId)]
struct User;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct PartId(Internal<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IdNewtype)]
struct Unsorted(Internal<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, IdNewtype)]
struct Serialized(Internal<Part>);

#[derive(serde::Deserialize)]
struct Read {
    id: PartId,
}

fn show(id: PartId) {
    format!("{id}");
    serde_json::to_string(&id);
}

fn from_a_key() -> PartId {
    42_i64.into()
}

fn from_another_newtype(id: PartId) -> Serialized {
    id.into()
}

#[derive(View)]
#[view(into = RowView, derive(serde::Serialize))]
struct Row {
    id: PartId,
}
