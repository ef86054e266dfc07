//! Sequences: numbers for structured keys that the database allocates in blocks.

#[doc(hidden)]
mod blocks;
mod error;

#[doc(hidden)]
pub use self::blocks::{Blocks, create_sql};
pub use self::error::SequenceError;

/// The adapter has a function `run(on, call)`, and `on` is the first argument of the calls.
#[doc(hidden)]
#[macro_export]
macro_rules! sequence {
    (
        $(#[$attribute:meta])* $visibility:vis struct $name:ident;
        on: [$($generics:tt)*] $on:ty, run: $run:path, error: $error:ty,
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

        /// Clones share their blocks, so cloning is cheap.
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
            /// Creates the resource's sequence with blocks of 1,000 numbers. Create it once when the process
            /// starts, and clone it, because it holds the unused numbers of its block.
            ///
            /// # Panics
            /// If the resource's domain is not a valid prefix.
            #[must_use]
            #[track_caller]
            pub fn new() -> Self {
                Self($crate::sequence::Blocks::new())
            }

            /// Sets the size of a block, at least 1 number. Smaller blocks use the database more often and
            /// leave smaller gaps when a process ends. Processes may use different sizes.
            #[must_use]
            pub fn block(self, numbers: u32) -> Self {
                Self(self.0.block(numbers))
            }

            /// Puts the number of a shard in front of each number, for stores that keep ranges of keys
            /// together. Keys use the shards in turn. All processes must use the same shards.
            #[must_use]
            pub fn sharded(self, shards: $crate::__private::opaque_id_core::layout::Shards) -> Self {
                Self(self.0.sharded(shards))
            }

            /// Sets the time for retries of a block's allocation after its first conflict with another
            /// transaction: 10 seconds by default.
            #[must_use]
            pub fn retry_for(self, duration: ::core::time::Duration) -> Self {
                Self(self.0.retry_for(duration))
            }

            /// Returns the statement for a migration that creates `opaque_id_sequences`. This table has one
            /// row per resource, named by the resource's domain. Statements name it without a schema, so
            /// connections must not have another default database or `search_path` with another such table,
            /// because it would allocate the same numbers.
            #[must_use]
            pub fn create_sql(dialect: $crate::dialect::Dialect) -> ::std::string::String {
                $crate::sequence::create_sql(dialect)
            }

            $crate::methods! {
                {[$($generics)*] $on, $run, $error, [$($async)*] [$($await)*]}

                /// Generates an id. A new block needs one statement (two with diesel on MySQL and MariaDB). Call it
                /// before a transaction begins, because a block inside of one needs a second connection.
                ///
                /// # Errors
                /// [`SequenceError`]($crate::sequence::SequenceError) if a new block cannot be allocated.
                ///
                /// # Panics
                /// If the operating system's random number generator fails.
                fn next(&self) -> T::Internal {
                    self.0.take(1).map($crate::call::only)
                }

                /// Generates `count` ids with ascending numbers, from the rest of a block and one new block.
                ///
                /// # Errors
                /// [`SequenceError`]($crate::sequence::SequenceError) if a new block cannot be allocated.
                ///
                /// # Panics
                /// If the operating system's random number generator fails.
                fn next_all(&self, count: usize) -> ::std::vec::Vec<T::Internal> {
                    self.0.take(count)
                }
            }
        }
    };
}
