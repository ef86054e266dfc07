//! The core's promises, one module each. Tests that need a separate process are separate targets.

use opaque_id_core::form::{Form, FormKind};
use opaque_id_core::key::{Key, KeyKind};
use opaque_id_core::keyring::RuntimeResource;
use opaque_id_core::{Keyring, MasterSecret};

/// Writes resources by the options of their derive.
macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident($($options:tt)*);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, opaque_id_core::OpaqueId)]
        #[opaque_id($($options)*)]
        pub(crate) struct $name;
    )*};
}

/// Returns a keyring of one new secret.
fn new_keyring(key_id: u8) -> Keyring {
    let keyring = Keyring::builder().sealing(key_id, MasterSecret::generate());
    keyring.build().expect("a good secret")
}

/// Returns a keyring of four secrets. The one with key id 0 seals.
fn four_secrets() -> Keyring {
    let keyring = Keyring::builder().sealing(0, bytes(1)).opening(1, bytes(2));
    keyring.opening(2, bytes(3)).opening(3, bytes(4)).build().expect("four secrets")
}

/// Returns a resource of a key and a form, as tools use it.
fn tool_resource<K: Key, F: Form>(
    keyring: &Keyring,
    prefix: &str,
    domain: &str,
) -> RuntimeResource {
    let (key, form) = kinds::<K, F>();
    RuntimeResource::new(keyring, prefix, domain, key, form).expect("they go together")
}

fn kinds<K: Key, F: Form>() -> (KeyKind, FormKind) {
    let key = std::any::type_name::<K>().rsplit("::").next().expect("a name");
    (key.parse().expect("a kind"), F::NAME.parse().expect("a form"))
}

/// Returns bytes that look like a secret.
fn bytes(seed: u8) -> [u8; 32] {
    std::array::from_fn(|i| u8::try_from(i).unwrap_or(0).wrapping_mul(59) ^ seed.wrapping_mul(167))
}

mod any_id;
mod containers;
mod cursor;
mod debug;
mod derive;
mod example_secret;
mod generators;
mod hot_ranges;
mod keyring;
mod keys_file;
#[cfg(feature = "metrics")]
mod metrics;
mod newtype;
mod old_ids;
mod properties;
mod range;
#[cfg(feature = "metrics")]
#[path = "../../fixtures/recorded.rs"]
mod recorded;
mod request;
#[cfg(all(
    feature = "schemars08",
    feature = "schemars09",
    feature = "schemars1",
    feature = "utoipa5",
    feature = "utoipa6"
))]
mod schema;
#[cfg(unix)]
mod shared;
mod tokens;
mod vectors;
mod view;
