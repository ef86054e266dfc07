//! Users, notes and comments in loco. Its state has no place for a keyring.

pub mod app;
pub mod controllers;
pub mod migrations;
pub mod models;
