//! The examples of the workspace's README, run as doctests.
#![doc = include_str!("../README.md")]
