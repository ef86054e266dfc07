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
