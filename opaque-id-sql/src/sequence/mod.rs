//! Sequences: numbers for structured keys, taken from the database in blocks.

mod blocks;
mod call;
mod error;

pub use self::blocks::Blocks;
pub use self::call::{TakeBlock, create_sql};
pub use self::error::SequenceError;

/// Writes an adapter's `Sequence<T>`. The adapter has a function `run(on, &mut TakeBlock)`, which is given
/// what the calls are given as `on`, and one that checks it first if there is anything to check.
#[doc(hidden)]
#[macro_export]
macro_rules! sequence {
    (
        $(#[$attribute:meta])* $visibility:vis struct $name:ident;
        on: [$($generics:tt)*] [$($reborrow:tt)*] $on:ty, $(check: $check:path [$($checked:tt)*],)? run: $run:path, error: $error:ty,
        async: [$($async:tt)*] [$($await:tt)*]
    ) => {
        $(#[$attribute])*
        $visibility struct $name<T: $crate::__private::opaque_id_core::OpaqueId<Key = $crate::__private::opaque_id_core::key::StructuredKey>>(
            $crate::sequence::Blocks<T>,
        );

        impl<T: $crate::__private::opaque_id_core::OpaqueId<Key = $crate::__private::opaque_id_core::key::StructuredKey>> ::core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, f)
            }
        }

        /// Cheap; the clones share their blocks.
        impl<T: $crate::__private::opaque_id_core::OpaqueId<Key = $crate::__private::opaque_id_core::key::StructuredKey>> ::core::clone::Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(::core::clone::Clone::clone(&self.0))
            }
        }

        impl<T: $crate::__private::opaque_id_core::OpaqueId<Key = $crate::__private::opaque_id_core::key::StructuredKey>> ::core::default::Default for $name<T> {
            #[track_caller]
            fn default() -> Self {
                Self::new()
            }
        }

        impl<T: $crate::__private::opaque_id_core::OpaqueId<Key = $crate::__private::opaque_id_core::key::StructuredKey>> $name<T> {
            /// The resource's sequence, in blocks of 1,000 numbers. Make one when the process starts, and
            /// clone it: what is left of a block is kept in it.
            ///
            /// # Panics
            /// Unless the resource's domain could be a prefix.
            #[must_use]
            #[track_caller]
            pub fn new() -> Self {
                Self($crate::sequence::Blocks::new())
            }

            /// The same in blocks of so many numbers, 1 at least: larger ones ask the database less
            /// often, smaller ones leave smaller gaps when a process ends. Any process may have another
            /// size.
            #[must_use]
            pub fn block(self, numbers: u32) -> Self {
                Self(self.0.block(numbers))
            }

            /// The same with the number of a shard in front, which each key in turn gets: for stores that
            /// keep ranges of keys together. All processes have to agree on it.
            #[must_use]
            pub fn sharded(self, shards: $crate::__private::opaque_id_core::layout::Shards) -> Self {
                Self(self.0.sharded(shards))
            }

            /// The statement that creates `opaque_id_sequences`, for a migration: one table, with a row
            /// for each resource, named by its domain.
            #[must_use]
            pub fn create_sql(dialect: $crate::dialect::Dialect) -> ::std::string::String {
                $crate::sequence::create_sql(dialect)
            }

            /// Generates an id: from what is left of a block, or else from a new one, which is one statement
            /// (with diesel on MySQL and MariaDB two).
            ///
            /// # Errors
            /// [`SequenceError`]($crate::sequence::SequenceError).
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            pub $($async)* fn next<$($generics)*>(
                &self,
                on: $on,
            ) -> ::core::result::Result<T::Internal, $error> {
                let ids = self.next_all(on, 1)$($await)*?;
                ids.into_iter().next().ok_or($crate::sequence::SequenceError::Exhausted)
            }

            /// Generates `count` ids with ascending numbers: from what is left of a block, and with one statement
            /// for all that are missing.
            ///
            /// # Errors
            /// [`SequenceError`]($crate::sequence::SequenceError).
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            pub $($async)* fn next_all<$($generics)*>(
                &self,
                on: $on,
                count: usize,
            ) -> ::core::result::Result<::std::vec::Vec<T::Internal>, $error> {
                $($check($($checked)* on)?;)?
                loop {
                    match self.0.take(count)? {
                        Ok(ids) => return Ok(ids),
                        Err(mut call) => {
                            $run($($reborrow)* on, &mut call)$($await)*?;
                            self.0.add(&call)?;
                        }
                    }
                }
            }
        }
    };
}
