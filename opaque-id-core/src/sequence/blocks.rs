use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use forkguard::Guard;

use super::error::SequenceError;
use super::table::TakeBlock;
use crate::internal::InternalId;
use crate::key::{Key, Shards, StructuredKey};
use crate::resource::OpaqueId;

/// How many numbers are taken from the database at once, unless more are asked for.
const BLOCK: u64 = 1_000;

/// What an adapter's `Sequence` holds: the blocks of numbers that are left in this process.
pub struct Blocks<T> {
    block: u64,
    shards: Option<Shards>,
    left: Arc<Mutex<Left>>,
    resource: PhantomData<fn() -> T>,
}

#[derive(Debug)]
struct Left {
    blocks: VecDeque<Range<u64>>,
    guard: Guard,
}

impl<T: OpaqueId<Key = StructuredKey>> Blocks<T> {
    /// # Panics
    /// On a domain that the table has no room for.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        assert!(
            crate::resource::is_prefix(T::DOMAIN),
            "a sequence's domain has 1 to 63 of a-z, 0-9 and _, starts with a letter and does not end with _"
        );
        Self {
            block: BLOCK,
            shards: None,
            left: Arc::new(Mutex::new(Left {
                blocks: VecDeque::new(),
                guard: forkguard::new(),
            })),
            resource: PhantomData,
        }
    }

    /// See the macro's method.
    #[must_use]
    pub fn block(self, numbers: u32) -> Self {
        Self {
            block: u64::from(numbers).max(1),
            ..self
        }
    }

    /// See the macro's method.
    #[must_use]
    pub fn sharded(self, shards: Shards) -> Self {
        Self {
            shards: Some(shards),
            ..self
        }
    }

    /// The ids of so many numbers, if as many are left, or else the work that gets those that are
    /// missing.
    ///
    /// # Errors
    /// [`SequenceError::Exhausted`].
    pub fn take<E>(
        &self,
        count: usize,
    ) -> Result<Result<Vec<T::Internal>, TakeBlock>, SequenceError<E>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.guard.detected_fork() {
            // The parent goes on with them.
            left.blocks.clear();
        }
        let available: u64 = left
            .blocks
            .iter()
            .map(|block| block.end - block.start)
            .sum();
        let missing = (count as u64).saturating_sub(available);
        if missing > 0 {
            return Ok(Err(TakeBlock::new(T::DOMAIN, missing.max(self.block))));
        }
        let mut numbers = Vec::with_capacity(count);
        while let Some(block) = left.blocks.front_mut() {
            numbers.extend(block.take(count - numbers.len()));
            if !block.is_empty() {
                break;
            }
            left.blocks.pop_front();
        }
        drop(left);
        let ids = numbers.into_iter().map(|number| self.id(number));
        ids.collect::<Option<_>>()
            .map(Ok)
            .ok_or(SequenceError::Exhausted)
    }

    /// Adds what was taken from the database.
    pub fn add(&self, work: &TakeBlock) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.blocks.extend(work.block());
    }

    fn id(&self, number: u64) -> Option<T::Internal> {
        let key = match self.shards {
            None => StructuredKey::with_sequence(number),
            Some(shards) => shards.spread(number),
        };
        T::Internal::from_repr(key.ok()?.into_repr()).ok()
    }
}

impl<T: OpaqueId<Key = StructuredKey>> Default for Blocks<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Blocks<T> {
    fn clone(&self) -> Self {
        Self {
            left: Arc::clone(&self.left),
            ..*self
        }
    }
}

impl<T> fmt::Debug for Blocks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence")
            .field("block", &self.block)
            .field("shards", &self.shards)
            .field("left", &self.left)
            .finish()
    }
}
