/// What a [`UuidMap`](crate::UuidMap) can fail with.
///
/// ```
/// use opaque_id_diesel::MappingError;
///
/// fn is_worth_a_retry(error: &MappingError) -> bool {
///     matches!(error, MappingError::Conflict(_))
/// }
/// ```
pub type MappingError = opaque_id_core::MappingError<diesel::result::Error>;

/// What a [`Sequence`](crate::Sequence) can fail with.
///
/// ```
/// use opaque_id_diesel::SequenceError;
///
/// fn is_the_databases(error: &SequenceError) -> bool {
///     matches!(error, SequenceError::Database(_))
/// }
/// ```
pub type SequenceError = opaque_id_core::SequenceError<diesel::result::Error>;
