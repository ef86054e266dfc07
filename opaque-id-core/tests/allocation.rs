//! Sealing, opening, formatting and parsing do not allocate, once a resource is known.

use opaque_id_core::form::TextBuffer;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId, View};

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "session", form = "tagged")]
struct Session;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", form = "uuid")]
struct Order;

#[derive(Clone, Debug, View)]
#[view(into = RowView, derive(Debug))]
struct Row {
    id: Internal<User>,
    order_id: Option<Internal<Order>>,
    name: String,
}

/// The text moves, and only the new `Vec` allocates.
#[test]
fn filling_views_allocates_their_containers_only() {
    let keyring =
        Keyring::builder().sealing(0, MasterSecret::generate()).build().expect("a secret");
    let row = |number: u8| Row {
        id: Internal::generate(),
        order_id: Some(Internal::generate()),
        name: format!("row {number}"),
    };
    let rows: Vec<Row> = (0..100).map(row).collect();
    let warm: Vec<RowView> = keyring.view(rows.clone());
    assert_eq!(warm[7].name, "row 7");
    let mut views: Vec<RowView> = Vec::new();
    let fill = || views = keyring.view(rows);
    assert!(allocation_counter::measure(fill).count_total <= 1);
    assert_eq!(views.len(), 100);
    assert!(views.iter().all(|view| view.order_id.is_some()));
    assert_eq!(keyring.open(views[0].id).ok().map(|id| keyring.seal(id)), Some(views[0].id));
}

fn allocations<T: SealedResource<Internal = Internal<T>>>(
    keyring: &Keyring,
    id: Internal<T>,
) -> u64 {
    let text = keyring.seal(id).to_string();
    let path = || {
        let external: External<T> = text.parse().expect("an id");
        assert_eq!(keyring.open(external), Ok(id));
        assert_eq!(keyring.seal(id).encode(&mut TextBuffer::new()), text);
        assert!(text[1..].parse::<External<T>>().is_err());
    };
    path();
    allocation_counter::measure(path).count_total
}

#[test]
fn sealing_opening_formatting_and_parsing_do_not_allocate() {
    let keyring =
        Keyring::builder().sealing(0, MasterSecret::generate()).build().expect("a secret");
    // The counter allocates its labels.
    let of_refusal = u64::from(cfg!(feature = "metrics"));
    assert_eq!(allocations(&keyring, Internal::<User>::generate()), of_refusal);
    assert_eq!(allocations(&keyring, Internal::<Session>::generate()), of_refusal);
    assert_eq!(allocations(&keyring, Internal::<Order>::generate()), of_refusal);
    assert_ne!(
        allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1)))).count_total,
        0
    );
}
