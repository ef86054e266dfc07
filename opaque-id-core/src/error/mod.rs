//! Errors: one enum per audience (client, operator, developer).

mod client;
mod developer;
mod invalid;
mod operator;

pub use self::client::{IdError, OpenError};
pub use self::developer::KeyError;
pub use self::invalid::Invalid;
pub(crate) use self::invalid::{IdProblem, InvalidReason, KeyProblem, SecretProblem, TextProblem};
pub use self::operator::KeyringError;
pub(crate) use self::operator::{redact, redacted_with_causes};
