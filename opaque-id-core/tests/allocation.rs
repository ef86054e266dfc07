//! Nothing on the seal, open, format or parse path allocates, once a resource is known.

use opaque_id_core::form::TextBuffer;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "session", form = "tagged")]
struct Session;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", form = "uuid")]
struct Order;

fn allocations<T: SealedResource<Internal = Internal<T>>>(
    keyring: &Keyring,
    id: Internal<T>,
) -> u64 {
    let text = keyring.seal(id).to_string();
    let path = || {
        let external: External<T> = text.parse().expect("an id");
        assert_eq!(keyring.open(external), Ok(id));
        assert_eq!(keyring.seal(id).encode(&mut TextBuffer::new()), text);
        assert!(
            keyring
                .open_all([external; 100])
                .all(|opened| opened == Ok(id))
        );
        assert!(keyring.seal_all([id; 100]).all(|sealed| sealed == external));
        assert!(text[1..].parse::<External<T>>().is_err());
    };
    path();
    allocation_counter::measure(path).count_total
}

#[test]
fn sealing_opening_formatting_and_parsing_do_not_allocate() {
    let keyring = Keyring::builder()
        .sealing(0, MasterSecret::generate())
        .build()
        .expect("a secret");
    assert_eq!(allocations(&keyring, Internal::<User>::generate()), 0);
    assert_eq!(allocations(&keyring, Internal::<Session>::generate()), 0);
    assert_eq!(allocations(&keyring, Internal::<Order>::generate()), 0);
    assert_ne!(
        allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1)))).count_total,
        0
    );
}
