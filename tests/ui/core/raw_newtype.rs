use opaque_id_core::IdNewtype;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct RawId(i64);
