use opaque_id_core::keyring::KeyId;
use thiserror::Error;

/// An error for bytes that are not a row or a pack of this place. They are corrupt, forged, truncated,
/// swapped with bytes of another place, or written by a newer version. It never contains a value or a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The body is too short.
    #[error("expected at least {expected} bytes, found {found}")]
    #[non_exhaustive]
    Truncated {
        /// The length of the shortest body.
        expected: usize,
        /// The found length.
        found: usize,
    },
    /// The body has another format: it is corrupt, or a newer version of this library has written it.
    #[error(
        "expected format 1, found {found}: it is corrupt, or a newer version of this library has written it"
    )]
    #[non_exhaustive]
    Version {
        /// The found format.
        found: u8,
    },
    /// The keyring has no secret with the body's key id.
    #[error(
        "the keyring has no secret with key id {key_id}: put it back; `opaque-id keys --in-use` lists the tables that need it"
    )]
    #[non_exhaustive]
    UnknownKeyId {
        /// The key id.
        key_id: KeyId,
    },
    /// The body was compressed with another dictionary.
    #[error("expected dictionary {expected}, found {found} (0 is none)")]
    #[non_exhaustive]
    Dictionary {
        /// The codec's dictionary.
        expected: u16,
        /// The body's dictionary.
        found: u16,
    },
    /// The body's dictionary is missing.
    #[error("its dictionary {id} is not in the table, or cannot be read")]
    #[non_exhaustive]
    NoDictionary {
        /// The number of the dictionary.
        id: u16,
    },
    /// The data key of the row's group is missing or unreadable. Restore the table of keys from a backup, or
    /// restore the rows.
    #[error(
        "the key of its group is not in the table of keys, or cannot be read: restore that table from a backup"
    )]
    NoGroupKey,
    /// A row cannot be written because its group is erased.
    #[error("its group is erased: a group that comes back needs another id")]
    ErasedGroup,
    /// The body is corrupt, was moved or replaced, or was encrypted with another secret.
    #[error(
        "not genuine: corrupt, forged, of another table, place or version, or encrypted with another secret"
    )]
    NotGenuine,
    /// The authentic plaintext does not have this format.
    #[error("the plaintext is invalid: {0}")]
    Invalid(&'static str),
    /// A value, or the values of a pack, are too long.
    #[error("expected at most {max} bytes of values, found {found}")]
    #[non_exhaustive]
    TooLong {
        /// The limit.
        max: usize,
        /// The found length, or the length that a frame announces.
        found: u64,
    },
    /// zstd failed.
    #[error("zstd: {0}")]
    Zstd(String),
}

impl From<std::io::Error> for FormatError {
    fn from(error: std::io::Error) -> Self {
        Self::Zstd(error.to_string())
    }
}
