//! What an extractor of a web framework lets external ids know, in the thread, because serde has no place for it.

use core::any::{Any, TypeId};
use core::cell::Cell;

use crate::error::IdError;

/// How an extractor reads external ids.
#[derive(Clone, Copy, Debug)]
pub struct Extractor {
    /// Whether every value is a text, as in a URL. Other formats say by themselves which type comes next.
    pub is_text: bool,
    /// Returns the `External<T>` that an old id of the resource with this type stands for.
    pub of_old_id: fn(TypeId, &str) -> OfOldId,
    /// Returns the number of the row that stands in for a refused id of the resource with this prefix.
    pub stand_in: fn(&'static str, &str) -> Option<u32>,
}

/// The `External<T>` of an old id, if old ids of its resource are accepted.
pub type OfOldId = Option<Result<Box<dyn Any>, IdError>>;

/// The prefix of the expected resource, and the reason.
type Refused = (&'static str, IdError);

thread_local! {
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
    static EXTRACTOR: Cell<Option<Extractor>> = const { Cell::new(None) };
}

/// Returns the extractor that deserializes in this thread.
pub(crate) fn current() -> Option<Extractor> {
    EXTRACTOR.get()
}

/// Replaces the extractor that deserializes in this thread.
#[must_use]
pub fn replace_extractor(extractor: Option<Extractor>) -> Option<Extractor> {
    EXTRACTOR.replace(extractor)
}

/// Notes a refused id, because serde's errors are texts.
pub(crate) fn refuse(resource: &'static str, error: IdError) {
    if EXTRACTOR.get().is_some() {
        REFUSED.set(Some((resource, error)));
    }
}

/// Returns the last id that an extractor in this thread has refused to parse, and forgets it.
#[must_use]
pub fn take_refused() -> Option<Refused> {
    REFUSED.take()
}
