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
