//! Serialization of internal ids inside a trust boundary, such as a job queue, a cache, or a session in Redis
//! or an encrypted cookie. A client can read a signed cookie, so that needs an external id. Fields opt in with
//! `#[serde(with = "…")]`.
//!
//! It writes the raw key: a UUID or an integer. Never use it in a type that an API shows.
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
//!     #[serde(default, with = "opaque_id_core::trusted")] // a job may lack the field
//!     invited_by: Option<Internal<User>>,
//! }
//!
//! let job = SendWelcomeMail { user: Internal::from_key(42)?, invited_by: None };
//! let queued = serde_json::to_string(&job)?;
//! assert_eq!(queued, r#"{"user":42,"invited_by":null}"#);
//! assert_eq!(serde_json::from_str::<SendWelcomeMail>(r#"{"user":42}"#)?.user, job.user);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::hash::{BuildHasher, Hash};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_core::de::Error;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

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

/// A value that this module accepts: an internal id, or a container of such values. Only this crate
/// implements it.
///
/// Containers are `Option`, `Vec`, arrays, sets, maps, tuples of two and three and `Arc`, also nested. They
/// may also contain numbers, `bool`, texts and UUIDs.
#[diagnostic::on_unimplemented(
    message = "`trusted` does not accept `{Self}`",
    label = "neither an internal id nor a container of internal ids",
    note = "it accepts `Internal<_>` and newtypes of it, in `Option`, `Vec`, arrays, sets, maps and tuples; in a struct of yours, mark its own fields"
)]
pub trait Trusted: Sized + closed::Closed {
    #[doc(hidden)]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    #[doc(hidden)]
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

mod closed {
    pub trait Closed {}
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Raw<V>(V);

impl<V: Trusted> Serialize for Raw<&V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Trusted::serialize(self.0, serializer)
    }
}

impl<'de, V: Trusted> Deserialize<'de> for Raw<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        V::deserialize(deserializer).map(Raw)
    }
}

impl<I: InternalId> closed::Closed for I {}

impl<I: InternalId> Trusted for I {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Serialize::serialize(self.as_repr(), serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let repr: ReprOf<I::Resource> = Deserialize::deserialize(deserializer)?;
        I::from_repr(repr).map_err(D::Error::custom)
    }
}

macro_rules! containers {
    ($([$($param:tt)*] $of:ty: $serde:ty, |$value:ident, $to:ident| $lent:expr, |$read:ident| $owned:expr;)*) => {$(
        impl<$($param)*> closed::Closed for $of {}

        impl<$($param)*> Trusted for $of {
            fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                let ($value, $to) = (self, serializer);
                $lent
            }

            fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let $read = <$serde>::deserialize(deserializer)?;
                $owned
            }
        }
    )*};
}

containers! {
    [V: Trusted] Option<V>: Option<Raw<V>>, |value, to| value.as_ref().map(Raw).serialize(to),
        |read| Ok(read.map(|raw| raw.0));
    [V: Trusted] Arc<V>: Raw<V>, |value, to| Raw(&**value).serialize(to), |read| Ok(Arc::new(read.0));
    [V: Trusted] Vec<V>: Vec<Raw<V>>, |value, to| to.collect_seq(value.iter().map(Raw)),
        |read| Ok(read.into_iter().map(|raw| raw.0).collect());
    [V: Trusted, const N: usize] [V; N]: Vec<Raw<V>>, |value, to| to.collect_seq(value.iter().map(Raw)),
        |read| {
            let read: Vec<V> = read.into_iter().map(|raw| raw.0).collect();
            let len = read.len();
            read.try_into().map_err(|_| D::Error::invalid_length(len, &&*format!("{N} elements")))
        };
    [V: Trusted + Ord] BTreeSet<V>: Vec<Raw<V>>, |value, to| to.collect_seq(value.iter().map(Raw)),
        |read| Ok(read.into_iter().map(|raw| raw.0).collect());
    [V: Trusted + Eq + Hash, S: BuildHasher + Default] HashSet<V, S>: Vec<Raw<V>>,
        |value, to| to.collect_seq(value.iter().map(Raw)),
        |read| Ok(read.into_iter().map(|raw| raw.0).collect());
    [K: Trusted + Ord, V: Trusted] BTreeMap<K, V>: BTreeMap<Raw<K>, Raw<V>>,
        |value, to| to.collect_map(value.iter().map(|(key, value)| (Raw(key), Raw(value)))),
        |read| Ok(read.into_iter().map(|(key, value)| (key.0, value.0)).collect());
    [K: Trusted + Eq + Hash, V: Trusted, S: BuildHasher + Default] HashMap<K, V, S>: HashMap<Raw<K>, Raw<V>>,
        |value, to| to.collect_map(value.iter().map(|(key, value)| (Raw(key), Raw(value)))),
        |read| Ok(read.into_iter().map(|(key, value)| (key.0, value.0)).collect());
    [A: Trusted, B: Trusted] (A, B): (Raw<A>, Raw<B>),
        |value, to| (Raw(&value.0), Raw(&value.1)).serialize(to), |read| Ok((read.0.0, read.1.0));
    [A: Trusted, B: Trusted, C: Trusted] (A, B, C): (Raw<A>, Raw<B>, Raw<C>),
        |value, to| (Raw(&value.0), Raw(&value.1), Raw(&value.2)).serialize(to),
        |read| Ok((read.0.0, read.1.0, read.2.0));
}

macro_rules! plain {
    ($($of:ty),*) => {$(
        impl closed::Closed for $of {}

        impl Trusted for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Serialize::serialize(self, serializer)
            }

            fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Deserialize::deserialize(deserializer)
            }
        }
    )*};
}

plain!(bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, char, String, Uuid);
