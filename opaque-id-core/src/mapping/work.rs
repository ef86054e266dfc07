use core::fmt;
use std::collections::HashSet;
#[cfg(feature = "cache")]
use std::sync::Arc;
#[cfg(feature = "cache")]
use std::time::Instant;

use uuid::Uuid;

#[cfg(feature = "cache")]
use super::cache::Cache;
use super::error::MappingError;
use super::table::{Dialect, Table};
use super::uuid_hash;

/// How often a call that lost against others is tried again.
pub(crate) const ATTEMPTS: u32 = 20;

/// A value to bind to a statement, in order.
#[derive(Clone)]
pub enum Value {
    /// A text.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
}

/// Hides the value, which may hold internal ids.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(..)")
    }
}

/// A statement for the database.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The same text for lists of every length.
    pub sql: String,
    /// What is bound.
    pub values: Vec<Value>,
    /// Whether it gives rows of an `i64` and a UUID, or tells how many it changed.
    pub returns_rows: bool,
}

impl Statement {
    pub(crate) fn rows(sql: String, values: Vec<Value>) -> Self {
        Self {
            sql,
            values,
            returns_rows: true,
        }
    }

    pub(crate) fn count(sql: String, values: Vec<Value>) -> Self {
        Self {
            sql,
            values,
            returns_rows: false,
        }
    }
}

/// What the database says to a statement.
#[derive(Clone)]
pub enum Answer {
    /// Integers and UUIDs.
    Rows(Vec<(i64, Uuid)>),
    /// What a statement that gives no rows has done.
    Changed {
        /// How many rows.
        rows: u64,
        /// What MySQL calls the last insert id, if the ORM tells it.
        insert_id: Option<u64>,
    },
}

/// Counts rows and hides what they hold.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "Rows({})", rows.len()),
            Self::Changed { rows, .. } => write!(f, "Changed({rows})"),
        }
    }
}

/// What to run next.
#[derive(Clone, Debug)]
pub enum Step {
    /// A statement by itself.
    One(Statement),
    /// A lock and a statement under it, in a transaction, which is the caller's or one of its own: the
    /// answer is the second's.
    Locked(Box<Locked>),
}

/// See [`Step::Locked`].
#[derive(Clone, Debug)]
pub struct Locked {
    dialect: Dialect,
    /// Whether the transaction is the caller's, and has begun.
    pub is_in_transaction: bool,
    /// How many rows the lock has to have.
    rows: usize,
    /// Makes a transaction that is not the caller's READ COMMITTED, whatever the database's default is.
    pub set_isolation: Statement,
    /// The lock.
    pub lock: Statement,
    statement: Statement,
}

impl Locked {
    /// Whether the isolation is set before the transaction begins, as on MySQL, or as the first in it.
    #[must_use]
    pub fn is_set_before(&self) -> bool {
        self.dialect == Dialect::MySql
    }

    /// The statement to run once the lock has been answered so.
    ///
    /// # Errors
    /// [`MappingError::Isolation`] if the transaction can't be used, [`MappingError::Slots`] if there is
    /// nothing to lock.
    pub fn under<E>(&self, lock: &Answer) -> Result<&Statement, MappingError<E>> {
        match lock {
            Answer::Rows(rows) if rows.len() < self.rows => Err(match self.dialect {
                Dialect::MySql => MappingError::Slots,
                Dialect::Postgres | Dialect::Sqlite => MappingError::Isolation,
            }),
            _ => Ok(&self.statement),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Find,
    /// On MySQL, what a transaction's snapshot does not show.
    FindLatest,
    Issue,
    Insert,
    ExternalOf,
    /// What is there at all, before it leaves a cache.
    #[cfg(feature = "cache")]
    FindToForget,
    Forget,
    Nothing,
}

/// The statements that lead to what a call is asked for. An adapter runs each [`step`](Self::step) and hands
/// back what the database said, until there is none.
pub trait Steps: Send {
    /// Whether nothing is left to run.
    #[must_use]
    fn is_done(&self) -> bool;

    /// Says whether the connection is in a transaction of the caller's: a conflict ends it, and what it
    /// reads may be rolled back.
    fn begun(&mut self, in_transaction: bool);

    /// What to run next; `None` when all is done.
    #[must_use]
    fn step(&self, dialect: Dialect) -> Option<Step>;

    /// Takes what came of the last step. If another transaction was in the way, the step stays the next
    /// one, unless the transaction is the caller's, who alone can run it again.
    ///
    /// # Errors
    /// [`MappingError`], as it came or as a [`Conflict`](MappingError::Conflict).
    fn take<E>(
        &mut self,
        dialect: Dialect,
        answer: Result<Answer, MappingError<E>>,
        is_conflict: impl FnOnce(&E) -> bool,
    ) -> Result<(), MappingError<E>>;
}

/// One call of a map.
#[derive(Clone)]
pub struct Work {
    table: Table,
    next: Next,
    /// Whether what is not there is to be inserted.
    inserts: bool,
    has_inserted: bool,
    attempts: u32,
    in_transaction: bool,
    /// What is not found yet, each once, in the order in which every call takes its locks.
    missing: Vec<(i32, Uuid)>,
    ids: Vec<i64>,
    found: Vec<(i64, Uuid)>,
    count: u64,
    #[cfg(feature = "cache")]
    cached: Cached,
}

/// What the cache has to know of a call.
#[cfg(feature = "cache")]
#[derive(Clone)]
struct Cached {
    began: Instant,
    /// How many of those found came from the cache.
    known: usize,
    /// The cache that ids leave.
    forgets: Option<Arc<Cache>>,
}

/// Counts ids and hides them.
impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("table", &self.table)
            .field("next", &self.next)
            .field("missing", &self.missing.len())
            .field("found", &self.found.len())
            .finish_non_exhaustive()
    }
}

impl Work {
    fn new(table: Table, next: Next, uuids: Vec<Uuid>) -> Self {
        let mut missing: Vec<_> = uuids
            .into_iter()
            .map(|uuid| (uuid_hash(uuid), uuid))
            .collect();
        missing.sort_unstable_by_key(|(hash, uuid)| (lock_order(*hash), *uuid));
        missing.dedup();
        Self {
            table,
            next: match missing.is_empty() {
                true => Next::Nothing,
                false => next,
            },
            inserts: false,
            has_inserted: false,
            attempts: 0,
            in_transaction: false,
            missing,
            ids: Vec::new(),
            found: Vec::new(),
            count: 0,
            #[cfg(feature = "cache")]
            cached: Cached {
                began: Instant::now(),
                known: 0,
                forgets: None,
            },
        }
    }

    pub(super) fn find(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Find, uuids)
    }

    pub(super) fn get_or_insert(table: Table, uuids: Vec<Uuid>) -> Self {
        Self {
            inserts: true,
            ..Self::new(table, Next::Find, uuids)
        }
    }

    pub(super) fn issue(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Issue, uuids)
    }

    pub(super) fn forget(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Forget, uuids)
    }

    pub(super) fn external_of(table: Table, ids: Vec<i64>) -> Self {
        let next = match ids.is_empty() {
            true => Next::Nothing,
            false => Next::ExternalOf,
        };
        Self {
            next,
            ids,
            ..Self::new(table, Next::Nothing, Vec::new())
        }
    }

    /// With what a cache knows.
    pub(super) fn knowing(self, found: Vec<(i64, Uuid)>) -> Self {
        #[cfg(feature = "cache")]
        let cached = Cached {
            known: found.len(),
            ..self.cached
        };
        Self {
            found,
            #[cfg(feature = "cache")]
            cached,
            ..self
        }
    }

    fn answered(&mut self, dialect: Dialect, answer: Answer) {
        #[cfg(feature = "cache")]
        if let (Next::FindToForget, Answer::Rows(rows)) = (self.next, &answer) {
            let there: HashSet<Uuid> = rows.iter().map(|(_, uuid)| *uuid).collect();
            self.missing.retain(|(_, uuid)| there.contains(uuid));
            self.keep_out();
            self.next = match self.missing.is_empty() {
                true => Next::Nothing,
                false => Next::Forget,
            };
            return;
        }
        if self.next == Next::Forget {
            // Once more, as the deletion may have waited.
            self.keep_out();
        }
        match answer {
            Answer::Rows(rows) => {
                let found: HashSet<Uuid> = rows.iter().map(|(_, uuid)| *uuid).collect();
                self.missing.retain(|(_, uuid)| !found.contains(uuid));
                self.found.extend(rows);
            }
            Answer::Changed { rows, .. } => self.count = rows,
        }
        self.next = match self.next {
            _ if self.missing.is_empty() => Next::Nothing,
            Next::Find if self.has_inserted && dialect == Dialect::MySql => Next::FindLatest,
            // More than once if others forget what was there.
            Next::Find | Next::FindLatest if self.inserts => match self.may_try_again() {
                true => Next::Insert,
                false => Next::Nothing,
            },
            Next::Insert => {
                self.has_inserted = true;
                Next::Find
            }
            Next::Issue => Next::Find,
            _ => Next::Nothing,
        };
    }

    fn may_try_again(&mut self) -> bool {
        self.attempts += 1;
        self.attempts <= ATTEMPTS
    }

    /// When the call began, and so its reads at the earliest.
    #[cfg(feature = "cache")]
    pub(super) fn began(&self) -> Instant {
        self.cached.began
    }

    /// Forgets what stands in a cache as well, all of which leaves it now. Then the call finds out which ids there
    /// are: only those are kept out of the cache, from before they are deleted.
    #[cfg(feature = "cache")]
    pub(super) fn out_of(mut self, cache: Arc<Cache>) -> Self {
        if self.next == Next::Forget {
            self.next = Next::FindToForget;
        }
        cache.remove(self.missing.iter().map(|(_, uuid)| *uuid));
        self.cached.forgets = Some(cache);
        self
    }

    #[cfg(feature = "cache")]
    fn keep_out(&self) {
        if let Some(cache) = &self.cached.forgets {
            cache.forget(self.missing.iter().map(|(_, uuid)| *uuid), Instant::now());
        }
    }

    #[cfg(not(feature = "cache"))]
    fn keep_out(&self) {}

    /// What is known to have been committed, and is not from the cache.
    #[cfg(feature = "cache")]
    pub(super) fn committed(&self) -> &[(i64, Uuid)] {
        if self.in_transaction {
            &[]
        } else {
            &self.found[self.cached.known..]
        }
    }

    pub(super) fn into_found(self) -> Vec<(i64, Uuid)> {
        self.found
    }

    /// How many rows the last statement changed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl Steps for Work {
    fn is_done(&self) -> bool {
        self.next == Next::Nothing
    }

    fn begun(&mut self, in_transaction: bool) {
        self.in_transaction = in_transaction;
    }

    fn step(&self, dialect: Dialect) -> Option<Step> {
        let (table, missing) = (&self.table, &*self.missing);
        Some(match self.next {
            Next::Nothing => return None,
            Next::Find => Step::One(table.find(dialect, missing)),
            Next::FindLatest => Step::One(table.find_latest(missing)),
            Next::Issue => Step::One(table.insert(dialect, missing)),
            Next::Insert => {
                let statement = table.insert_missing(dialect, missing, self.in_transaction);
                match table.lock(dialect, missing) {
                    Some(lock) => Step::Locked(Box::new(Locked {
                        dialect,
                        is_in_transaction: self.in_transaction,
                        rows: match dialect {
                            Dialect::MySql => missing.len(),
                            Dialect::Postgres | Dialect::Sqlite => 1,
                        },
                        set_isolation: Statement::count(
                            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
                            Vec::new(),
                        ),
                        lock,
                        statement,
                    })),
                    None => Step::One(statement),
                }
            }
            Next::ExternalOf => Step::One(table.external_of(dialect, &self.ids)),
            // What a deletion sees, not what a transaction's snapshot shows.
            #[cfg(feature = "cache")]
            Next::FindToForget => Step::One(match dialect {
                Dialect::MySql => table.find_latest(missing),
                Dialect::Postgres | Dialect::Sqlite => table.find(dialect, missing),
            }),
            Next::Forget => Step::One(table.delete(dialect, missing)),
        })
    }

    fn take<E>(
        &mut self,
        dialect: Dialect,
        answer: Result<Answer, MappingError<E>>,
        is_conflict: impl FnOnce(&E) -> bool,
    ) -> Result<(), MappingError<E>> {
        match answer {
            Ok(answer) => self.answered(dialect, answer),
            Err(MappingError::Database(error)) if is_conflict(&error) => {
                if self.in_transaction || !self.may_try_again() {
                    return Err(MappingError::Conflict(error));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// By slot, which is the low bits.
fn lock_order(hash: i32) -> u32 {
    hash.cast_unsigned().reverse_bits()
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::*;

    const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite];

    fn table(plan: Plan) -> Table {
        Table::new("order_ids", plan)
    }

    fn uuids(count: u128) -> Vec<Uuid> {
        (0..count).map(Uuid::from_u128).collect()
    }

    /// Runs it against a table that holds what `known` says, until it is done.
    fn run(work: &mut Work, dialect: Dialect, known: &mut Vec<(i64, Uuid)>) -> usize {
        let mut steps = 0;
        while let Some(step) = work.step(dialect) {
            steps += 1;
            let (statement, inserts) = match step {
                Step::One(statement) => {
                    let inserts = statement.sql.starts_with("INSERT");
                    (statement, inserts)
                }
                Step::Locked(step) => (step.statement.clone(), true),
            };
            if inserts {
                let new = work.missing.iter().map(|(_, uuid)| *uuid);
                let new: Vec<_> = new
                    .filter(|uuid| known.iter().all(|row| row.1 != *uuid))
                    .collect();
                for uuid in new {
                    let id = i64::try_from(known.len()).expect("a few") + 1;
                    known.push((id, uuid));
                }
            }
            let asked = work
                .missing
                .iter()
                .map(|(_, uuid)| *uuid)
                .collect::<HashSet<_>>();
            let rows = known.iter().copied().filter(|row| asked.contains(&row.1));
            let answer = match statement.returns_rows {
                true => Answer::Rows(rows.collect()),
                false => Answer::Changed {
                    rows: 1,
                    insert_id: None,
                },
            };
            work.take::<()>(dialect, Ok(answer), |()| false)
                .expect("no error");
        }
        steps
    }

    #[test]
    fn what_is_known_takes_one_statement() {
        for dialect in DIALECTS {
            let mut known: Vec<_> = (1..).zip(uuids(10)).collect();
            let all = table(Plan::Unique);
            let mut asked = uuids(10);
            asked.extend(uuids(3));
            for mut work in [
                Work::find(all, asked.clone()),
                Work::get_or_insert(all, asked.clone()),
            ] {
                assert_eq!(run(&mut work, dialect, &mut known), 1);
                assert_eq!(work.into_found().len(), 10);
            }
            assert_eq!(
                run(&mut Work::find(all, Vec::new()), dialect, &mut known),
                0
            );
        }
    }

    #[test]
    fn what_is_new_is_inserted_once() {
        for plan in [Plan::Unique, Plan::Hashed] {
            for dialect in DIALECTS {
                let mut known = Vec::new();
                let mut work = Work::get_or_insert(table(plan), uuids(5));
                let steps = run(&mut work, dialect, &mut known);
                assert_eq!(steps, if dialect == Dialect::MySql { 3 } else { 2 });
                assert_eq!((work.into_found(), known.len()), (known, 5));
            }
        }
    }

    #[test]
    fn every_call_takes_its_locks_in_one_order() {
        let missing = |mut uuids: Vec<Uuid>, turn: usize| {
            uuids.rotate_left(turn);
            Work::get_or_insert(table(Plan::Unique), uuids).missing
        };
        let all = missing(uuids(1_000), 0);
        assert_eq!(all, missing(uuids(1_000), 333));
        assert!(all.is_sorted_by_key(|(hash, _)| (hash & 0x3fff).cast_unsigned().reverse_bits()));
    }

    #[test]
    fn what_others_always_forget_is_given_up() {
        let mut work = Work::get_or_insert(table(Plan::Unique), uuids(1));
        let mut steps = 0;
        while work.step(Dialect::MySql).is_some() {
            steps += 1;
            work.take::<()>(Dialect::MySql, Ok(Answer::Rows(Vec::new())), |()| false)
                .expect("no error");
        }
        assert!(steps < 100 && work.into_found().is_empty());
    }

    #[test]
    fn conflicts_are_tried_again_outside_of_the_callers_transaction() {
        let conflict = |work: &mut Work| {
            work.take(Dialect::Postgres, Err(MappingError::Database(())), |()| {
                true
            })
        };
        let mut alone = Work::get_or_insert(table(Plan::Unique), uuids(1));
        assert!((0..ATTEMPTS).all(|_| conflict(&mut alone).is_ok()));
        assert!(matches!(
            conflict(&mut alone),
            Err(MappingError::Conflict(()))
        ));

        let mut theirs = Work::get_or_insert(table(Plan::Unique), uuids(1));
        theirs.begun(true);
        assert!(matches!(
            conflict(&mut theirs),
            Err(MappingError::Conflict(()))
        ));
    }

    #[test]
    fn a_lock_that_locks_nothing_is_refused() {
        for (dialect, message) in [
            (Dialect::Postgres, "READ COMMITTED"),
            (Dialect::MySql, "opaque_id_slots"),
        ] {
            let mut work = Work::get_or_insert(table(Plan::Hashed), uuids(2));
            work.take::<()>(dialect, Ok(Answer::Rows(Vec::new())), |()| false)
                .expect("no error");
            let Some(Step::Locked(step)) = work.step(dialect) else {
                panic!("the hashed plan locks");
            };
            let refused = step.under::<std::fmt::Error>(&Answer::Rows(Vec::new()));
            assert!(refused.expect_err("no rows").to_string().contains(message));
        }
    }

    /// Made-up ids, in a list with a real one, or in a call that is dropped: none of them is kept out.
    #[cfg(feature = "cache")]
    #[test]
    fn only_what_is_there_is_kept_out_of_a_cache() {
        let now = Instant::now();
        let cache = Arc::new(Cache::new(100));
        let forget = |uuids| Work::forget(table(Plan::Unique), uuids).out_of(Arc::clone(&cache));
        drop(forget(uuids(10)));

        let mut known = vec![(1, Uuid::from_u128(3))];
        cache.insert_all(&known, now, now);
        let mut work = forget(uuids(10));
        assert_eq!(run(&mut work, Dialect::Sqlite, &mut known), 2);
        let all: Vec<_> = (1..).zip(uuids(10)).collect();
        cache.insert_all(&all, now, now);
        let served = uuids(10)
            .into_iter()
            .filter(|uuid| cache.id(*uuid).is_some());
        assert_eq!(served.count(), 9);
        assert_eq!(cache.id(Uuid::from_u128(3)), None);
    }
}
