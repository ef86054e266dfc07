//! `cargo run -p demo -- serve`: the program itself, by HTTP, by its OpenAPI document, and in a browser.

mod api;
mod browser;
mod document;
mod server;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T = ()> = std::result::Result<T, Error>;
