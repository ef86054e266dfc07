//! Errors for the developer.

use core::error::Error as StdError;

use thiserror::Error;

use super::invalid::{Invalid, KeyProblem};

/// An error for a value that is not a key of the resource, or for a key that cannot be generated now.
/// Adapters return it to their ORM as the decode error. It never contains the value.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The value has the right size but is not a key of the resource.
    #[error("invalid key for `{resource}`: {problem}")]
    #[non_exhaustive]
    Invalid {
        /// The resource's prefix.
        resource: &'static str,
        /// The fault of the value.
        problem: Invalid,
    },
    /// The value is NULL.
    #[error(
        "invalid key for `{resource}`: it is NULL; make the field an `Option`, or the column NOT NULL"
    )]
    #[non_exhaustive]
    Null {
        /// The resource's prefix.
        resource: &'static str,
    },
    /// The value has a type that such keys are never stored as, such as text or a fraction.
    #[error(
        "invalid key for `{resource}`: expected {expected}, found a value of type {found}{}",
        remedy(found)
    )]
    #[non_exhaustive]
    ColumnType {
        /// The resource's prefix.
        resource: &'static str,
        /// The value's type as the driver names it.
        found: String,
        /// The type that stores the key, and its column types.
        expected: &'static str,
    },
    /// The driver could not read the value as the type that stores the key.
    #[error("invalid key for `{resource}`: the driver could not read {expected}")]
    #[non_exhaustive]
    Unreadable {
        /// The resource's prefix.
        resource: &'static str,
        /// The type that stores the key, and its column types.
        expected: &'static str,
        /// The driver's own error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// All keys for the current clock tick are used, or the clock was set back.
    #[error("{kind}s are exhausted until the clock advances; try again later")]
    #[non_exhaustive]
    Exhausted {
        /// The kind of key.
        kind: &'static str,
    },
}

/// MySQL and MariaDB compute a decimal from a signed and an unsigned integer.
fn remedy(found: &str) -> &'static str {
    match found {
        "DECIMAL" | "Numeric" => "; write `CAST(… AS SIGNED)` around a key that the query computes",
        _ => "",
    }
}

#[doc(hidden)]
impl KeyError {
    #[cold]
    #[must_use]
    pub fn invalid(resource: &'static str, problem: Invalid) -> Self {
        Self::Invalid { resource, problem }
    }

    #[cold]
    #[must_use]
    pub fn null(resource: &'static str) -> Self {
        Self::Null { resource }
    }

    /// Creates the error for an integer in a row that does not fit the key's type.
    #[cold]
    #[must_use]
    pub fn too_large(resource: &'static str) -> Self {
        let problem = KeyProblem::OutOfRange(
            "the integer does not fit; `key = i64` has room for all below 2^63, and external ids stay the same",
        );
        Self::invalid(resource, problem.into())
    }

    /// Creates the error for a negative integer and an unsigned column.
    #[cold]
    #[must_use]
    pub fn negative(resource: &'static str) -> Self {
        let problem = KeyProblem::OutOfRange("an unsigned column has no negative integers");
        Self::invalid(resource, problem.into())
    }

    /// Creates the error for a value of a type that drivers would convert or misinterpret.
    #[cold]
    #[must_use]
    pub fn column_type(
        resource: &'static str,
        found: impl Into<String>,
        expected: &'static str,
    ) -> Self {
        Self::ColumnType { resource, found: found.into(), expected }
    }

    /// Creates the error for a key that the driver could not read.
    #[cold]
    #[must_use]
    pub fn unreadable(
        resource: &'static str,
        expected: &'static str,
        source: Box<dyn StdError + Send + Sync>,
    ) -> Self {
        Self::Unreadable { resource, expected, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_repeat_the_drivers() {
        let driver = std::io::Error::other("Duplicate entry '123456'");
        let error = KeyError::unreadable("user", "16 bytes", Box::new(driver));
        assert!(!error.to_string().contains("123456"));
        let source = error.source().expect("the driver's error");
        assert!(source.to_string().contains("123456"));
    }
}
