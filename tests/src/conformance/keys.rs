//! The cases of keys: ranges, and sequences with numbers from the database.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::generator::{Clock, PseudoOrderedGenerator, SystemRandom, Uuid6Generator};
use opaque_id_core::key::{Key, StructuredKey, TimeKey, Uuid, Uuid7};
use opaque_id_core::layout::{Shards, Uuid6};
use opaque_id_core::page::{Listing, PageRequest, Start};
use opaque_id_core::resource::InternalId;
use opaque_id_core::{IdRange, Keyring, MasterSecret, OpaqueId, Position};
use opaque_id_sql::{Dialect, PageSql};

use crate::conformance::cases::{error, on_threads};
use crate::conformance::mapping::dialect;
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::{IdOf, Shop, User, UserOf, from_key};
use crate::database::Database;
use crate::engine::Engine;
use crate::{Result, cases};

/// The calls on a sequence of a connection as calls of a macro.
#[macro_export]
macro_rules! sequence_methods {
    ($write:ident $($with:tt)*) => {
        $crate::$write! {
            $($with)* [] Self::Sequence;
            next() -> $crate::conformance::shop::IdOf<Self::Order>;
            next_all(count: usize) -> Vec<$crate::conformance::shop::IdOf<Self::Order>>;
        }
    };
}

/// The operations of every adapter on keys, in the ORM's own way.
pub trait KeyShop: Shop<Order: OpaqueId<Key = StructuredKey>> {
    type Sequence: Clone + Send + Sync;

    /// Creates a sequence with blocks of this size.
    fn sequence(block: u32) -> Self::Sequence;
    fn sharded(sequence: Self::Sequence, shards: Shards) -> Self::Sequence;
    fn create_sequences_sql(dialect: Dialect) -> String;

    sequence_methods!(declare_calls);

    /// Finds users by `BETWEEN`, in the order of ids.
    async fn users_between(&self, range: IdRange<IdOf<Self::User>>) -> Result<Vec<UserOf<Self>>>;
    /// Returns the rows of a page.
    async fn users_of_page(
        &self,
        page: &PageRequest<Position<IdOf<Self::User>>>,
    ) -> Result<Vec<UserOf<Self>>>;
    /// Returns the columns `id`, `nickname`, `score` and `seen` as text, by the condition and the order.
    async fn people_of_page(
        &self,
        page: PageSql<'_, Sorted, IdOf<Self::Team>>,
        limit: u32,
    ) -> Result<Vec<Person<Self>>>;
}

/// A nickname, a score and a time.
pub type Sorted = (Option<String>, Option<i32>, String);
/// A row of `people`.
pub type Person<S> = (IdOf<<S as Shop>::Team>, Option<String>, Option<i32>, String);

pub const SELECT_PEOPLE: &str =
    "SELECT id, nickname, score, CAST(seen AS CHAR(19)) AS seen_text FROM people WHERE ";

/// Writes the methods that are the same in every adapter. The expression is the argument of a sequence's
/// calls, and the path converts their result into a future.
#[macro_export]
macro_rules! sequence_calls {
    ($sequence:ident, $self:ident, $on:expr, $done:path) => {
        type Sequence = $sequence<Order>;

        fn sequence(block: u32) -> $sequence<Order> {
            // In a group of MySQL sixteen tasks may conflict for longer than the default.
            $sequence::new().block(block).retry_for(::std::time::Duration::from_secs(60))
        }

        fn sharded(sequence: $sequence<Order>, shards: ::opaque_id_core::layout::Shards) -> $sequence<Order> {
            sequence.sharded(shards)
        }

        fn create_sequences_sql(dialect: Dialect) -> String {
            $sequence::<Order>::create_sql(dialect)
        }

        $crate::sequence_methods!(delegate_calls [$self, $on, $done];);
    };
}

/// Returns all cases by name for one adapter.
pub fn all<S: KeyShop>() -> Cases {
    cases! {
        S, |shop, database, case| {
            shop.create_tables(database).await?;
            case(&shop, database).await
        };
        range_of_time_is_exactly_its_rows
        range_of_time_of_other_uuids
        pages_by_cursors
        pages_forth_and_back
        pages_by_other_columns
        names_of_columns_are_quoted
        sequences_in_blocks
        sixteen_tasks_take_sequence_numbers
    }
}

/// Returns 2022-02-22 19:22:22 UTC.
fn noon() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_645_557_742)
}

/// Returns a row for every millisecond from noon on.
fn users<S: Shop>(count: u64) -> Result<Vec<UserOf<S>>> {
    let user = |millis| -> Result<UserOf<S>> {
        let key = Uuid7::from_parts(1_645_557_742_000 + millis, 0xabc, millis << 40);
        Ok(User { id: from_key(key)?, team_id: None, name: format!("user {millis}") })
    };
    (0..count).map(user).collect()
}

/// The database reads no other row for the range.
async fn range_of_time_is_exactly_its_rows<S: KeyShop>(shop: &S, database: &Database) -> Verdict {
    let users = users::<S>(3_000)?;
    shop.add_users(&users).await?;
    let start = noon() + Duration::from_millis(1_000);
    let end = noon() + Duration::from_millis(1_100);
    let all = IdRange::<IdOf<S::User>>::all();
    assert_eq!(shop.users_between(all.created_in(start..end)).await?, users[1_000..1_100]);
    assert_eq!(shop.users_between(all.created_in(..start)).await?, users[..1_000]);
    assert_eq!(shop.users_between(all.created_in(end..)).await?, users[1_100..]);
    assert_eq!(shop.users_between(all).await?.len(), users.len());
    assert_eq!(shop.users_between(all.created_in(end..start)).await?, []);

    let range = all.created_in(start..end);
    let [first, last] = [range.first(), range.last()].map(|id| database.kind.uuid(*id.as_repr()));
    let select = format!("SELECT name FROM users WHERE id BETWEEN {first} AND {last}");
    let (analyze, explain) = match database.kind {
        Engine::Postgres => {
            ("VACUUM ANALYZE users", "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)")
        }
        Engine::Mysql => ("ANALYZE TABLE users", "EXPLAIN ANALYZE"),
        Engine::Mariadb => ("ANALYZE TABLE users", "ANALYZE FORMAT=JSON"),
        Engine::Sqlite => ("ANALYZE", "EXPLAIN QUERY PLAN"),
    };
    database.execute(analyze)?;
    // PostgreSQL 18 counts rows in hundredths.
    let plan = database.lines(&format!("{explain} {select}"))?.replace(".00 ", " ");
    let wanted: &[&str] = match database.kind {
        Engine::Postgres => &["users_pkey", "(actual rows=100 loops=1)", "Index Cond: "],
        // The scan itself, below the filter, returns no more rows.
        Engine::Mysql => &["-> Index range scan on users using PRIMARY", "rows=100 loops=1)"],
        Engine::Mariadb => &[
            r#""access_type": "range""#,
            r#""key": "PRIMARY""#,
            r#""r_rows": 100,"#,
            r#""r_filtered": 100"#,
        ],
        Engine::Sqlite => &["SEARCH users USING INDEX sqlite_autoindex_users_1 (id>? AND id<?)"],
    };
    for wanted in wanted {
        assert!(plan.contains(wanted), "no {wanted:?} in {plan}");
    }
    assert!(!plan.contains("Rows Removed"), "{plan}");
    assert!(
        database.kind != Engine::Mysql || plan.matches("rows=100 loops=1)").count() == 2,
        "{plan}"
    );
    Ok(Passed)
}

struct Stopped(SystemTime);

impl Clock for Stopped {
    fn now(&self) -> SystemTime {
        self.0
    }
}

async fn range_of_time_of_other_uuids<S: KeyShop>(shop: &S, _: &Database) -> Verdict {
    let mut sixes = Vec::new();
    for second in 0..20 {
        let clock = Stopped(noon() + Duration::from_secs(second));
        let key = Uuid6Generator::with(clock, SystemRandom).generate();
        sixes.push(from_key(Uuid::from(key))?);
    }
    // The keys are spread over the range and contain no time.
    let hour = Duration::from_secs(3_600);
    let pseudo = PseudoOrderedGenerator::new(&MasterSecret::generate(), hour, 16)?;
    for id in sixes.iter().rev().copied() {
        shop.add_legacy(id).await?;
        shop.add_legacy(from_key(pseudo.generate())?).await?;
    }
    let all = IdRange::<IdOf<S::Legacy>>::all();
    let range = noon() + Duration::from_secs(5)..=noon() + Duration::from_secs(9);
    let found = shop.legacy_between(all.within(Uuid6::bounds(range))).await?;
    assert_eq!(found, sixes[5..=9]);
    assert_eq!(shop.legacy_between(all).await?.len(), 40);
    Ok(Passed)
}

async fn pages_by_cursors<S: KeyShop>(shop: &S, _: &Database) -> Verdict {
    let users = users::<S>(100)?;
    shop.add_users(&users).await?;
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let [from, to] = [users[20].id, users[60].id].map(|id| keyring.seal_cursor(id));
    let range = IdRange::all()
        .starting_after(Some(keyring.open_cursor(from)?))
        .ending_before(Some(keyring.open_cursor(to)?));
    assert_eq!(shop.users_between(range).await?, users[21..60]);
    let since = noon() + Duration::from_millis(50);
    assert_eq!(shop.users_between(range.created_in(since..)).await?, users[50..60]);
    Ok(Passed)
}

async fn pages_forth_and_back<S: KeyShop>(shop: &S, _: &Database) -> Verdict {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let users = users::<S>(13)?;
    shop.add_users(&users).await?;
    let query = async |page: &_| shop.users_of_page(page).await;
    let seal = |user: &UserOf<S>| Ok(keyring.seal_cursor(user.id));
    forth_and_back(users, query, seal, |cursor| Ok(keyring.open_cursor(cursor)?)).await
}

/// The rows have equal names, the empty name and no name, scores, and times of whole seconds, in lists of all
/// kinds. A row that was inserted and not read back is neither repeated nor skipped, although its position
/// has more digits than its column.
async fn pages_by_other_columns<S: KeyShop>(shop: &S, database: &Database) -> Verdict {
    let (text, seen) = match database.kind {
        Engine::Postgres => ("TEXT", "timestamp(0)"),
        Engine::Mysql | Engine::Mariadb => ("VARCHAR(20)", "DATETIME(0)"),
        Engine::Sqlite => ("TEXT", "TEXT"),
    };
    database.execute(&format!(
        "CREATE TABLE people (id BIGINT NOT NULL PRIMARY KEY, nickname {text}, score INT, seen {seen} NOT NULL)"
    ))?;
    let mut people = Vec::new();
    for n in 0..13_u8 {
        let (key, time) = (i64::from(n * 7 % 13) - 3, format!("2026-01-01 12:00:0{}", n / 9));
        let name = [None, Some("ada"), Some("")][usize::from(n % 3)];
        let score = (n % 2 == 0).then_some(i32::from(n % 4));
        let [name_sql, score_sql] =
            [name.map(|it| format!("'{it}'")), score.map(|it| it.to_string())]
                .map(|it| it.unwrap_or("NULL".to_owned()));
        database.execute(&format!(
            "INSERT INTO people VALUES ({key}, {name_sql}, {score_sql}, '{time}')"
        ))?;
        people.push((from_key(key)?, name.map(str::to_owned), score, time));
    }
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let listing = Listing::new("people", &())?;
    for (nulls_first, reversed, by_time) in
        [(false, true, false), (true, false, false), (true, true, false), (false, false, true)]
    {
        let query = async |page: &PageRequest<(Sorted, IdOf<S::Team>)>| {
            let mut sql = PageSql::new(dialect(database.kind), "people.id", page);
            if !by_time {
                let is_null = |(name, ..): &Sorted| name.is_none();
                let by_name = if nulls_first { PageSql::nulls_first } else { PageSql::nulls_last };
                sql = by_name(sql, "nickname", is_null);
                sql = sql.nulls_first("score", |(_, score, _)| score.is_none());
                sql = if reversed { sql.reversed() } else { sql };
            }
            shop.people_of_page(sql.column("people.seen").stored_as(seen), page.fetch()).await
        };
        people.sort_by_key(|(id, name, score, seen): &Person<S>| {
            let name = (name.is_none() != nulls_first, name.clone());
            let score = score.map(|score| if reversed { -score } else { score });
            ((!by_time).then_some((name, score)), seen.clone(), *id)
        });
        let seal = |(id, name, score, seen): &Person<S>| {
            Ok(listing.seal(&keyring, &(name.clone(), *score, seen.clone()), *id)?)
        };
        let open = |position: String| Ok(listing.open(&keyring, &position)?);
        forth_and_back(people.clone(), &query, seal, open).await?;

        let inserted = (None, None, "2026-02-02 12:00:00.7".to_owned());
        for key in 20..23 {
            let seen = &inserted.2;
            database
                .execute(&format!("INSERT INTO people VALUES ({key}, NULL, NULL, '{seen}')"))?;
        }
        let start = Start::After((inserted, from_key(21)?));
        let next = query(&PageRequest::ascending(1, start.clone())).await?;
        let previous = query(&PageRequest::descending(1, start)).await?;
        assert_eq!([next[0].0, previous[0].0], [from_key(22)?, from_key(20)?]);
        database.execute("DELETE FROM people WHERE id >= 20")?;
    }
    Ok(Passed)
}

async fn names_of_columns_are_quoted<S: KeyShop>(_: &S, database: &Database) -> Verdict {
    let quoted = if database.kind == Engine::Postgres { r#""or""d`--""# } else { r#"`or"d``--`"# };
    database.execute(&format!("CREATE TABLE odd (id INT, {quoted} INT)"))?;
    let request = PageRequest::ascending(5, Start::After((7, 7)));
    let select = |name| {
        let sql = PageSql::new(dialect(database.kind), "id", &request).nulls_last(name, |_| false);
        let condition = sql.condition_from(1).replace('$', "").replace('?', "1");
        database
            .execute(&format!("SELECT id FROM odd WHERE {condition} ORDER BY {}", sql.order_by()))
    };
    select("odd.or\"d`--")?;
    // SQLite would take a name in `"` for a text.
    assert!(select("missing").is_err());
    Ok(Passed)
}

/// Reads from the first page to the last by `next`, and back to the first by `previous`, in both orders.
async fn forth_and_back<R: Clone + Debug + PartialEq, P, C>(
    mut expected: Vec<R>,
    query: impl AsyncFn(&PageRequest<P>) -> Result<Vec<R>>,
    seal: impl Fn(&R) -> Result<C>,
    open: impl Fn(C) -> Result<P>,
) -> Verdict {
    // The last of three pages has three rows.
    const LIMIT: u16 = 5;
    assert_eq!(expected.len(), 13);

    for descends in [false, true] {
        let get = async |start| {
            let request = match descends {
                true => PageRequest::descending(LIMIT, start),
                false => PageRequest::ascending(LIMIT, start),
            };
            request.finish(query(&request).await?, &seal).transpose()
        };
        let mut page = get(Start::First).await?;
        let mut forth = page.rows.clone();
        while let Some(next) = page.next {
            assert!(page.has_more);
            page = get(Start::After(open(next)?)).await?;
            assert!(page.previous.is_some());
            forth.extend(page.rows.clone());
        }
        assert_eq!((&forth, page.rows.len(), page.has_more), (&expected, 3, false));
        let last = get(Start::Last).await?;
        assert_eq!(last.rows, expected[8..]);
        assert!(last.has_more && last.next.is_none() && last.previous.is_some());
        let mut back = page.rows.clone();
        while let Some(previous) = page.previous {
            page = get(Start::EndBefore(open(previous)?)).await?;
            assert_eq!(page.has_more, page.previous.is_some());
            assert_eq!((page.next.is_some(), page.rows.len()), (true, 5));
            back.splice(..0, page.rows.clone());
        }
        assert_eq!(back, expected);
        expected.reverse();
    }
    Ok(Passed)
}

pub fn number<I: InternalId<Resource: OpaqueId<Key = StructuredKey>>>(id: I) -> u64 {
    StructuredKey::try_from(*id.as_repr()).map_or(0, StructuredKey::sequence)
}

async fn sequences_in_blocks<S: KeyShop>(shop: &S, database: &Database) -> Verdict {
    assert!(error(shop.next(&S::sequence(10)).await).contains("opaque_id_sequences"));
    database.execute(&S::create_sequences_sql(dialect(database.kind)))?;

    // The sequences belong to two processes.
    let (ours, theirs) = (S::sequence(100), S::sequence(7));
    let (mut our_numbers, mut their_numbers) = (Vec::new(), Vec::new());
    for _ in 0..150 {
        our_numbers.push(number(shop.next(&ours).await?));
        their_numbers.push(number(shop.next(&theirs).await?));
    }
    // The numbers come from the rest of a block, and from more than a block.
    let shared = ours.clone();
    our_numbers.extend(shop.next_all(&shared, 1_000).await?.into_iter().map(number));
    our_numbers.extend(shop.next_all(&ours, 3).await?.into_iter().map(number));
    assert!(shop.next_all(&ours, 0).await?.is_empty());
    assert_eq!((our_numbers[0], their_numbers[0]), (1, 101));
    for numbers in [&our_numbers, &their_numbers] {
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
    let all: BTreeSet<u64> = our_numbers.iter().chain(&their_numbers).copied().collect();
    assert_eq!(all.len(), our_numbers.len() + their_numbers.len(), "a number twice");
    // At most a block of each remains.
    let used = database.integer("used", "opaque_id_sequences WHERE name = 'order'")?;
    let used = usize::try_from(used)?;
    assert!((all.len()..all.len() + 107).contains(&used), "{used}");

    let shards = Shards::with_bits(4)?;
    let sharded = S::sharded(S::sequence(64), shards);
    let keys = shop.next_all(&sharded, 64).await?.into_iter();
    let keys = keys.map(|id| StructuredKey::try_from(*id.as_repr()));
    let keys = keys.collect::<std::result::Result<Vec<_>, _>>()?;
    for shard in 0..16 {
        assert_eq!(keys.iter().filter(|key| shards.shard(**key) == shard).count(), 4);
    }
    assert!(keys.iter().all(|key| shards.sequence(*key) > used as u64));
    assert!(keys.iter().all(|key| StructuredKey::check(key.into_repr()).is_ok()));

    // Without its key, MySQL inserts a row for each block. Others refuse to insert.
    let is_mysql = dialect(database.kind) == Dialect::MySql;
    database.execute(
        "CREATE TABLE copied AS SELECT * FROM opaque_id_sequences; DROP TABLE opaque_id_sequences;
         ALTER TABLE copied RENAME TO opaque_id_sequences",
    )?;
    for with_number in [false, true] {
        if with_number && is_mysql {
            let number = "n INT AUTO_INCREMENT PRIMARY KEY";
            database.execute(&format!("ALTER TABLE opaque_id_sequences ADD COLUMN {number}"))?;
        }
        for _ in 0..2 {
            let refused = error(shop.next(&S::sequence(1)).await);
            assert_eq!(refused.contains("primary key over name"), is_mysql, "{refused}");
        }
    }
    Ok(Passed)
}

async fn sixteen_tasks_take_sequence_numbers<S: KeyShop>(_: &S, database: &Database) -> Verdict {
    database.execute(&S::create_sequences_sql(dialect(database.kind)))?;
    // Half of the tasks share one sequence, and each of the others is its own process.
    let shared = S::sequence(20);
    let take = |task: usize| -> Result<Vec<u64>> {
        let sequence = match task % 2 {
            0 => shared.clone(),
            _ => S::sequence(10),
        };
        S::block_on(async {
            let shop = S::connect(database).await?;
            let mut numbers = Vec::new();
            for _ in 0..100 {
                numbers.push(number(shop.next(&sequence).await?));
                numbers.extend(shop.next_all(&sequence, 3).await?.into_iter().map(number));
            }
            Ok(numbers)
        })
    };
    let all: BTreeSet<u64> = on_threads(16, take)?.into_iter().flatten().collect();
    assert_eq!(all.len(), 16 * 400, "a number twice");
    Ok(Passed)
}
