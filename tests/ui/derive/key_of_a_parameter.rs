use opaque_id_core::OpaqueId;
use opaque_id_core::key::Key;

trait Kind: 'static {
    type Key: Key;
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", key = K)]
struct User<K: Key>(K);

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = <T as Kind>::Key)]
struct Team<T: Kind>(T);

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = <Self as Kind>::Key)]
struct Order<T>(T);

#[derive(OpaqueId)]
#[opaque_id(prefix = "item", key = <[(); N] as Kind>::Key)]
struct Item<const N: usize>;
