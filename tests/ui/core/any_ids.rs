use opaque_id_core::{AnyId, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", domain = "customer")]
struct Customer;

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = i64, form = "uuid")]
struct Team;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

#[derive(AnyId)]
enum OnePrefixTwice {
    User(Internal<User>),
    Customer(Internal<Customer>),
}

#[derive(AnyId)]
enum WithoutPrefixes {
    Team(Internal<Team>),
    Order(Internal<Order>),
}

#[derive(AnyId)]
enum TwoFields {
    Pair(Internal<User>, Internal<User>),
}

#[derive(AnyId)]
enum Nothing {
    Unit,
}

#[derive(AnyId)]
struct NotAnEnum(Internal<User>);

#[derive(AnyId)]
#[any_id(prefix = "user")]
enum Option {
    User(Internal<User>),
}

enum NotDerived {
    User(Internal<User>),
}

fn open(keyring: &Keyring, text: &str) {
    let _ = keyring.open_any::<NotDerived>(text);
}

fn main() {}
