use std::sync::atomic::{AtomicUsize, Ordering};

use crate::prefix::{is_prefix, prefix_rule};

/// A resource's place in the subkey tables of all keyrings.
#[derive(Debug)]
pub struct Slot {
    /// One more than the index, or 0 without an index, by the kind of key because the instances of a generic
    /// resource share a slot.
    index_plus_one: [AtomicUsize; KINDS],
}

pub(crate) const KINDS: usize = 5;

impl Slot {
    /// Creates a slot.
    ///
    /// # Panics
    /// If the prefix is invalid or the domain is empty. In the derive, this happens at compile time.
    #[must_use]
    pub const fn new(prefix: &str, domain: &str) -> Self {
        assert!(is_prefix(prefix), concat!("a prefix must be ", prefix_rule!()));
        assert!(!domain.is_empty(), "a domain must not be empty");
        Self { index_plus_one: [const { AtomicUsize::new(0) }; KINDS] }
    }

    /// Returns a small number that is unique in the process for this resource and kind of key.
    #[inline]
    pub(crate) fn index(&self, kind: usize) -> usize {
        let index_plus_one = &self.index_plus_one[kind];
        match index_plus_one.load(Ordering::Relaxed) {
            0 => register(index_plus_one),
            index => index - 1,
        }
    }
}

#[cold]
fn register(index_plus_one: &AtomicUsize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let new = NEXT.fetch_add(1, Ordering::Relaxed);
    match index_plus_one.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new - 1,
        Err(earlier) => earlier - 1,
    }
}
