//! Serialization of internal ids inside a trust boundary: a job queue, a cache, a message between services that
//! share the database. Fields opt in with `#[serde(with = "…")]`.
//!
//! It writes the raw key: a UUID or an integer. Never use it in a type that an API shows.
//! It accepts an internal id, and an `Option` or a `Vec` of internal ids.
//!
//! ```
//! use opaque_id_core::{Internal, OpaqueId};
//!
//! #[derive(OpaqueId)]
//! #[opaque_id(prefix = "user", key = i64)]
//! struct User;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct SendWelcomeMail {
//!     #[serde(with = "opaque_id_core::trusted")]
//!     user: Internal<User>,
//!     #[serde(with = "opaque_id_core::trusted")]
//!     invited_by: Option<Internal<User>>,
//! }
//!
//! let job = SendWelcomeMail { user: Internal::from_key(42)?, invited_by: None };
//! let queued = serde_json::to_string(&job)?;
//! assert_eq!(queued, r#"{"user":42,"invited_by":null}"#);
//! assert_eq!(serde_json::from_str::<SendWelcomeMail>(&queued)?.user, job.user);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde_core::de::Error;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use crate::resource::{InternalId, ReprOf};

/// Writes the raw key.
///
/// # Errors
/// The serializer's own.
pub fn serialize<V: Trusted, S: Serializer>(value: &V, serializer: S) -> Result<S::Ok, S::Error> {
    value.serialize(serializer)
}

/// Reads a raw key.
///
/// # Errors
/// The deserializer's own, and [`KeyError`](crate::KeyError) for a value that cannot be a key of the resource.
pub fn deserialize<'de, V: Trusted, D: Deserializer<'de>>(deserializer: D) -> Result<V, D::Error> {
    V::deserialize(deserializer)
}

/// A value that this module accepts: an internal id, or an `Option` or a `Vec` of internal ids. Only this crate
/// implements it.
pub trait Trusted: Sized + closed::Closed {
    #[doc(hidden)]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    #[doc(hidden)]
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

mod closed {
    pub trait Closed {}
}

/// An internal id that serde may read and write.
struct Raw<I>(I);

impl<I: InternalId> Serialize for Raw<&I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_repr().serialize(serializer)
    }
}

impl<'de, I: InternalId> Deserialize<'de> for Raw<I> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let repr = ReprOf::<I::Resource>::deserialize(deserializer)?;
        I::from_repr(repr).map(Raw).map_err(D::Error::custom)
    }
}

impl<I: InternalId> closed::Closed for I {}

impl<I: InternalId> Trusted for I {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Raw(self).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer).map(|raw| raw.0)
    }
}

impl<I: InternalId> closed::Closed for Option<I> {}

impl<I: InternalId> Trusted for Option<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Raw).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Option<Raw<I>> = Deserialize::deserialize(deserializer)?;
        Ok(raw.map(|raw| raw.0))
    }
}

impl<I: InternalId> closed::Closed for Vec<I> {}

impl<I: InternalId> Trusted for Vec<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Raw))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Vec<Raw<I>> = Deserialize::deserialize(deserializer)?;
        Ok(raw.into_iter().map(|raw| raw.0).collect())
    }
}
