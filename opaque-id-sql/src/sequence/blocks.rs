//! The content of every adapter's `Sequence`.
//!
//! A rollback would return a block that a transaction allocated, and the next process would get the same
//! numbers. So blocks are allocated outside of transactions. With sqlx (a pool) and SeaORM (a
//! `DatabaseConnection`) the argument's type ensures it. diesel's connection may be in a transaction, so each
//! call checks this, not only the one in a thousand that needs a block.
//!
//! A block is an upsert of the resource's row that returns the block's last number. On MySQL this is the last
//! insert id. A second statement reads it for ORMs that do not return it.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opaque_id_core::__private::{ForkGuard, is_prefix};
use opaque_id_core::OpaqueId;
use opaque_id_core::key::{Key, StructuredKey};
use opaque_id_core::layout::Shards;
use opaque_id_core::resource::InternalId;

use super::error::{Refusal, SequenceError};
use crate::call::{Call, RETRY_FOR, Session};
use crate::dialect::Dialect;
use crate::statement::{Answer, Cell, Column, Statement, Value};

/// A larger request gets a larger block.
const BLOCK: u64 = 1_000;

/// Returns the statement of a migration that creates the table of all sequences, `opaque_id_sequences`.
#[must_use]
pub fn create_sql(dialect: Dialect) -> String {
    let name = match dialect {
        Dialect::Postgres | Dialect::Sqlite => "VARCHAR(63)",
        Dialect::MySql => "VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS opaque_id_sequences (\n    name {name} NOT NULL PRIMARY KEY,\n    used BIGINT NOT NULL\n){};\n",
        dialect.engine_clause()
    )
}

/// The content of an adapter's `Sequence`: the remaining numbers in this process.
pub struct Blocks<T> {
    block: u64,
    shards: Option<Shards>,
    retry_for: Duration,
    left: Arc<Mutex<Left>>,
    resource: PhantomData<fn() -> T>,
}

struct Left {
    blocks: VecDeque<Range<u64>>,
    guard: ForkGuard,
}

impl<T: OpaqueId<Key = StructuredKey>> Blocks<T> {
    /// Creates a sequence.
    ///
    /// # Panics
    /// If the domain is not a valid prefix.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        assert!(
            is_prefix(T::DOMAIN),
            "a sequence's domain must be 1 to 63 of a-z, 0-9 and _, starting with a letter and not ending with _"
        );
        Self {
            block: BLOCK,
            shards: None,
            retry_for: RETRY_FOR,
            left: Arc::new(Mutex::new(Left { blocks: VecDeque::new(), guard: ForkGuard::new() })),
            resource: PhantomData,
        }
    }

    #[must_use]
    pub fn block(self, numbers: u32) -> Self {
        Self { block: u64::from(numbers).max(1), ..self }
    }

    #[must_use]
    pub fn sharded(self, shards: Shards) -> Self {
        Self { shards: Some(shards), ..self }
    }

    #[must_use]
    pub fn retry_for(self, duration: Duration) -> Self {
        Self { retry_for: duration, ..self }
    }

    /// Returns the call that takes `count` ids from the remaining blocks. It allocates a block if too few
    /// numbers remain, and another one if other tasks have used it up meanwhile.
    pub fn take(&self, count: usize) -> Call<'_, Vec<T::Internal>, Refusal> {
        Call::new(self.retry_for, move |session| async move {
            if session.connection().is_some_and(|connection| connection.is_in_transaction) {
                return Err(SequenceError::InTransaction);
            }
            loop {
                let size = match self.ids(count)? {
                    Ok(ids) => return Ok(ids),
                    Err(size) => size,
                };
                let end = allocate::<T>(&session, size).await?;
                let block = end.and_then(|end| {
                    let end = end.checked_add(1)?;
                    let start = end.checked_sub(size.unsigned_abs())?;
                    (start > 0).then_some(start..end)
                });
                self.add(block.ok_or(SequenceError::Exhausted)?);
            }
        })
    }

    /// Returns the size of a new block if too few numbers remain.
    fn ids(&self, count: usize) -> Result<Result<Vec<T::Internal>, i64>, Refusal> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.guard.detected_fork() {
            // The parent continues these blocks.
            left.blocks.clear();
        }
        let available: u64 = left.blocks.iter().map(|block| block.end - block.start).sum();
        let missing = (count as u64).saturating_sub(available);
        if missing > 0 {
            // Taking an integer beyond the database's would exhaust the sequence.
            let count = i64::try_from(missing.max(self.block));
            return count.map(Err).map_err(|_| SequenceError::Exhausted);
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
        ids.collect::<Option<_>>().map(Ok).ok_or(SequenceError::Exhausted)
    }

    fn add(&self, block: Range<u64>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        // Blocks of concurrent calls may arrive in another order.
        let place = left.blocks.partition_point(|other| other.start < block.start);
        left.blocks.insert(place, block);
    }

    fn id(&self, number: u64) -> Option<T::Internal> {
        let key = match self.shards {
            None => StructuredKey::with_sequence(number),
            Some(shards) => shards.spread(number),
        };
        T::Internal::from_repr(key.ok()?.into_repr()).ok()
    }
}

async fn allocate<T: OpaqueId>(session: &Session, size: i64) -> Result<Option<u64>, Refusal> {
    const END: &[Column] = &[Column::Integer];
    let (name, first, size) = (Value::Text(T::DOMAIN.to_owned()), size, Value::Integer(size));
    let take = match session.connect().await.dialect {
        Dialect::Postgres => Statement::new(
            "INSERT INTO opaque_id_sequences AS s (name, used) VALUES ($1, CAST($2 AS int8)) \
             ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used RETURNING used",
            vec![name.clone(), size],
            END,
        ),
        Dialect::Sqlite => Statement::new(
            "INSERT INTO opaque_id_sequences AS s (name, used) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used RETURNING used",
            vec![name.clone(), size],
            END,
        ),
        Dialect::MySql => Statement::new(
            "INSERT INTO opaque_id_sequences (name, used) VALUES (?, LAST_INSERT_ID(?)) \
             ON DUPLICATE KEY UPDATE used = LAST_INSERT_ID(used + ?)",
            vec![name.clone(), size.clone(), size],
            &[],
        ),
    };
    let mut answer = session.run(take).await;
    // An update changes two.
    let is_new = matches!(answer, Answer::Changed { rows: 1, .. });
    // Not every ORM returns MySQL's last insert id.
    if let Answer::Changed { insert_id: None, .. } = answer {
        let read = "SELECT CAST(LAST_INSERT_ID() AS SIGNED) LIMIT 1";
        answer = session.run(Statement::new(read, Vec::new(), END)).await;
    }
    let end = match answer {
        Answer::Changed { insert_id, .. } => insert_id,
        Answer::Rows(rows) => integer(&rows).and_then(|end| u64::try_from(end).ok()),
    };
    // MySQL inserts without a key too, and then every process would get the first block. In a table with
    // AUTO_INCREMENT, its last insert id is no end of a block.
    if is_new {
        let count = "SELECT COUNT(*) FROM opaque_id_sequences WHERE name = ? LIMIT 1";
        let counted = session.run(Statement::new(count, vec![name], END)).await;
        let is_only = matches!(counted, Answer::Rows(rows) if integer(&rows) == Some(1));
        if !is_only || end != Some(first.unsigned_abs()) {
            return Err(SequenceError::Key);
        }
    }
    Ok(end)
}

fn integer(rows: &[Vec<Cell>]) -> Option<i64> {
    match rows.first().map(Vec::as_slice) {
        Some([Cell::Integer(number)]) => Some(*number),
        _ => None,
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
        Self { left: Arc::clone(&self.left), ..*self }
    }
}

impl<T> fmt::Debug for Blocks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence")
            .field("block", &self.block)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use opaque_id_core::Internal;

    use super::*;
    use crate::call::{ConnectionState, Reply};

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "parcel", key = StructuredKey)]
    struct Parcel;

    const OUTSIDE: ConnectionState =
        ConnectionState { dialect: Dialect::Sqlite, is_in_transaction: false };

    fn block_until(end: i64) -> Reply {
        Reply::Answer(Answer::Rows(vec![vec![Cell::Integer(end)]]))
    }

    fn numbers(ids: Vec<Internal<Parcel>>) -> Vec<u64> {
        ids.into_iter().map(|id| id.as_repr().as_u64_pair().0).collect()
    }

    fn take(blocks: &Blocks<Parcel>, count: usize, ends: &[i64]) -> Result<Vec<u64>, Refusal> {
        let (mut call, mut ends) = (blocks.take(count), ends.iter());
        loop {
            match call.next(OUTSIDE) {
                ControlFlow::Break(ids) => return ids.map(numbers),
                ControlFlow::Continue(_) => call.reply(block_until(*ends.next().expect("an end"))),
            }
        }
    }

    #[test]
    fn numbers_ascend_in_any_order_of_blocks() {
        let blocks = Blocks::<Parcel>::new().block(10);
        for (start, end) in [(31, 41), (1, 11), (21, 31)] {
            blocks.add(start..end);
        }
        let numbers = take(&blocks, 25, &[]).expect("enough");
        let expected = (1..=10).chain(21..=30).chain(31..=35);
        assert!(numbers.into_iter().eq(expected));
        let numbers = take(&blocks, 10, &[60]).expect("a block");
        assert!(numbers.into_iter().eq((36..=40).chain(51..=55)));
    }

    #[test]
    fn a_block_ends_where_the_database_says() {
        let blocks = Blocks::<Parcel>::new().block(10);
        let mysql = ConnectionState { dialect: Dialect::MySql, is_in_transaction: false };
        let mut call = blocks.take(10);
        for insert_id in [None, Some(30)] {
            assert!(call.next(mysql).is_continue());
            call.reply(Reply::Answer(Answer::Changed { rows: 2, insert_id }));
        }
        let ControlFlow::Break(Ok(ids)) = call.next(mysql) else { panic!("expected ids") };
        assert!(numbers(ids).into_iter().eq(21..31));
    }

    #[test]
    fn a_block_that_others_use_up_is_replaced_by_the_next() {
        let blocks = Blocks::<Parcel>::new().block(1);
        blocks.add(1..6);
        let mut call = blocks.take(10);
        assert!(call.next(OUTSIDE).is_continue());
        assert!(take(&blocks, 5, &[]).is_ok());
        call.reply(block_until(10));
        assert!(call.next(OUTSIDE).is_continue());
        call.reply(block_until(20));
        let ControlFlow::Break(Ok(ids)) = call.next(OUTSIDE) else { panic!("expected ids") };
        assert!(numbers(ids).into_iter().eq((6..=10).chain(16..=20)));
    }

    #[test]
    fn an_invalid_block_is_an_error() {
        for end in [-1, 0, 8] {
            let taken = take(&Blocks::new(), 1, &[end]);
            assert!(matches!(taken, Err(SequenceError::Exhausted)), "{end}");
        }
    }

    #[test]
    fn more_than_the_database_can_count_is_refused_and_takes_nothing() {
        let blocks = Blocks::<Parcel>::new();
        for count in [1 << 63, usize::MAX] {
            let taken = take(&blocks, count, &[]);
            assert!(matches!(taken, Err(SequenceError::Exhausted)), "{count}");
        }
    }

    #[test]
    fn the_last_numbers_are_refused() {
        let blocks = Blocks::<Parcel>::new();
        blocks.add((1 << 60) - 5..(1 << 60) + 5);
        assert!(take(&blocks, 5, &[]).is_ok());
        assert!(take(&blocks, 1, &[]).is_err());
    }

    #[test]
    fn a_transaction_is_refused_even_if_no_block_is_needed() {
        let blocks = Blocks::<Parcel>::new();
        blocks.add(1..11);
        let inside = ConnectionState { is_in_transaction: true, ..OUTSIDE };
        let refused = blocks.take(1).start(Some(inside));
        assert!(matches!(refused, Some(Err(SequenceError::InTransaction))));
        assert!(matches!(blocks.take(1).start(Some(OUTSIDE)), Some(Ok(_))));
    }
}
