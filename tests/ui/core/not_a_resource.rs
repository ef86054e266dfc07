use opaque_id_core::External;

struct User;

fn show(_: External<User>) {}

fn main() {}
