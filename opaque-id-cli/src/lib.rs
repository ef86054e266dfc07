//! What `opaque-id check-schema` finds, for tools of one's own. The binary is the crate's purpose.

mod schema;

pub use schema::{CheckError, Finding, Report, check};
