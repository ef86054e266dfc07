use opaque_id_core::hazmat::{Feistel, Halves};

fn main() {
    let network = Feistel::<2>::new(&[[1; 16], [2; 16]]);
    let _ = network.encrypt(Halves::new(42, 7).unwrap());
}
