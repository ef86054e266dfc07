//! The examples of the workspace's README, run as doctests, and what the tests and the benchmarks share: servers, and a
//! database for each test.
#![doc = include_str!("../README.md")]
#![allow(
    missing_debug_implementations,
    missing_docs,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "nobody depends on it but tests and benchmarks"
)]

pub mod database;
pub mod linearizable;
pub mod random;
pub mod servers;

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
