//! Errors: one enum per audience, which is the client, the operator or the developer.

mod client;
mod developer;
mod invalid;
mod old_ids;
mod operator;

pub use self::client::{AnyIdError, OpenError, ParseError, TokenError};
#[cfg(feature = "serde")]
pub use self::developer::ListingError;
pub use self::developer::{GenerateError, KeyError};
pub use self::invalid::Invalid;
pub(crate) use self::invalid::{IdProblem, KeyProblem, Problem, SecretProblem, TextProblem};
pub use self::old_ids::{OldIdError, OldIdsError};
pub(crate) use self::operator::redact;
pub use self::operator::{KeyringError, UnwrapError};
