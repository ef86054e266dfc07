use opaque_id_core::{IdNewtype, Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "part", key = i64)]
struct Part;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct Named {
    id: Internal<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct Two(Internal<Part>, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
enum Either {
    Part(Internal<Part>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
struct Borrowed<'a>(&'a Internal<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
#[id_newtype(prefix = "part")]
struct WithAnOption(Internal<Part>);
