//! The core's promises, a module each. What needs a process of its own is a target of its own.

mod cursor;
mod debug;
mod derive;
mod example_secret;
mod generators;
mod integers;
mod keyring;
mod keys_file;
#[cfg(feature = "metrics")]
mod metrics;
mod old_ids;
mod properties;
mod range;
mod request;
#[cfg(all(feature = "schemars1", feature = "utoipa6"))]
mod schema;
mod shared;
mod vectors;
mod view;
