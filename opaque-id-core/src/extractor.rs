//! The settings of an extractor of a web framework for external ids. They are in a thread-local, because
//! serde has no place for them.

use core::any::{Any, TypeId};
use core::cell::Cell;

use crate::error::IdError;

/// The settings for reading external ids.
#[derive(Clone, Copy, Debug)]
pub struct Extractor {
    /// The flag of an extractor that gets only texts, such as from a URL.
    pub is_text: bool,
    /// Returns the `External<T>` of an old id, by the resource's type.
    pub open_old_id: fn(TypeId, &str) -> OldIdResult,
    /// Returns the number of the stand-in row for a refused id, by the resource's prefix.
    pub stand_in: fn(&'static str, &str) -> Option<u32>,
}

/// The `External<T>` of an old id, or `None` if its resource accepts none.
pub type OldIdResult = Option<Result<Box<dyn Any>, IdError>>;

type Refused = (&'static str, IdError);

thread_local! {
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
    static EXTRACTOR: Cell<Option<Extractor>> = const { Cell::new(None) };
}

pub(crate) fn current() -> Option<Extractor> {
    EXTRACTOR.get()
}

/// Replaces this thread's extractor and returns the previous one.
#[must_use]
pub fn replace_extractor(extractor: Option<Extractor>) -> Option<Extractor> {
    EXTRACTOR.replace(extractor)
}

/// An error of serde carries only text.
pub(crate) fn refuse(resource: &'static str, error: IdError) {
    if EXTRACTOR.get().is_some() {
        REFUSED.set(Some((resource, error)));
    }
}

/// Removes and returns the last refused id of this thread.
#[must_use]
pub fn take_refused() -> Option<Refused> {
    REFUSED.take()
}
