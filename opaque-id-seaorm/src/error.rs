/// What a [`UuidMap`](crate::UuidMap) can fail with.
///
/// ```
/// use opaque_id_seaorm::MappingError;
///
/// fn is_worth_a_retry(error: &MappingError) -> bool {
///     matches!(error, MappingError::Conflict(_))
/// }
/// ```
pub type MappingError = opaque_id_core::MappingError<sea_orm::DbErr>;

/// What a [`Sequence`](crate::Sequence) can fail with.
///
/// ```
/// use opaque_id_seaorm::SequenceError;
///
/// fn is_the_databases(error: &SequenceError) -> bool {
///     matches!(error, SequenceError::Database(_))
/// }
/// ```
pub type SequenceError = opaque_id_core::SequenceError<sea_orm::DbErr>;
