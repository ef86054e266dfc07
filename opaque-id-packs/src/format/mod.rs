//! The bytes of rows and packs, version 1: `docs/PACKS-FORMAT.md`.
//!
//! A [`Codec`] compresses and pads a [`Row`] or a [`Pack`] into a plaintext. A [`PackCipher`] encrypts it and
//! binds it to its [`Place`].
//!
//! ```
//! use opaque_id_core::{Keyring, MasterSecret, OpaqueId};
//! use opaque_id_packs::format::{Codec, GroupKeys, Kind, Pack, Padding, Place, PackCipher};
//!
//! #[derive(OpaqueId)]
//! #[opaque_id(prefix = "event")]
//! struct Event;
//!
//! let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
//! let cipher = PackCipher::new::<Event>(&keyring, "events");
//! let codec = Codec::new(9, None)?;
//!
//! let groups = GroupKeys::default(); // the table has none
//! let rows = vec![(7, b"logged in".to_vec().into()), (9, b"logged out".to_vec().into())];
//! let pack = Pack { id: 0, end: None, rows };
//! let place = Place { kind: Kind::Pack, id: pack.id, version: 1 };
//! let body = cipher.encrypt(place, &codec, &pack.encode(&codec, Padding::Steps(64), &groups)?);
//!
//! let plaintext = cipher.open(place, &codec, &body)?;
//! assert_eq!(Pack::decode(pack.id, &plaintext, &codec, &groups)?, pack);
//! // The server cannot say that it is another version.
//! assert!(cipher.open(Place { version: 2, ..place }, &codec, &body).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cipher;
mod codec;
mod error;
mod group;
#[cfg(test)]
mod leak;
mod pack;
mod padding;
mod plaintext;
mod row;
mod value;
mod varint;
#[cfg(test)]
pub(crate) mod vectors;

pub use self::cipher::{Kind, PackCipher, Place};
#[cfg(test)]
pub(crate) use self::codec::COMPRESSED;
pub use self::codec::{Codec, Dictionary, MAX_LEN};
pub use self::error::FormatError;
pub use self::group::{GroupKey, GroupKeys};
pub use self::pack::Pack;
pub use self::padding::Padding;
pub use self::plaintext::Plaintext;
pub use self::row::Row;
pub use self::value::Value;
