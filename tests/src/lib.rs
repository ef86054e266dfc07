//! The examples of the workspace's README as doctests, and the common parts of the tests and the benchmarks:
//! servers, a database for each test, and the cases that each adapter passes.
#![doc = include_str!("../../README.md")]
#![allow(
    missing_debug_implementations,
    missing_docs,
    async_fn_in_trait,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "nobody depends on it but tests and benchmarks"
)]

#[cfg(feature = "browser")]
pub mod browser;
pub mod conformance;
pub mod database;
#[cfg(doctest)]
#[doc = include_str!("../../docs/DRIVERS.md")]
mod drivers {}
pub mod engine;
pub mod linearizable;
pub mod load;
pub mod random;
pub mod servers;
pub mod sql;
pub mod tools;
pub mod trials;
pub mod turns;

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
