//! Integer keys that are not a `BIGINT`: 32-bit keys, unsigned keys, and columns that will become wider.

use opaque_id_core::OpaqueId;

use crate::conformance::cases::error;
use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::{IdOf, Shop, from_key};
use crate::database::Database;
use crate::engine::Engine;
use crate::{Result, cases};

/// A key of 32 bits, a reference to one, and an `i64` in a narrower column.
pub type NumberOf<S> = (
    IdOf<<S as IntegerShop>::Number>,
    Option<IdOf<<S as IntegerShop>::Number>>,
    IdOf<<S as Shop>::Team>,
);
/// An `INT UNSIGNED` and a `BIGINT UNSIGNED`.
pub type UnsignedOf<S> = (IdOf<<S as IntegerShop>::Unsigned>, IdOf<<S as Shop>::Team>);

pub trait IntegerShop: Shop {
    type Number: OpaqueId<Key = i32>;
    type Unsigned: OpaqueId<Key = u32>;

    async fn add_number(&self, number: &NumberOf<Self>) -> Result;
    /// Finds rows by a list of ids, in the order of ids.
    async fn find_numbers(&self, ids: &[IdOf<Self::Number>]) -> Result<Vec<NumberOf<Self>>>;
    async fn read_number_id(&self, expression: &str) -> Result<IdOf<Self::Number>>;

    /// Adds a row. It is for MySQL and MariaDB only.
    async fn add_unsigned(&self, _row: UnsignedOf<Self>) -> Result {
        Err("the database has no unsigned integers".into())
    }
    async fn all_unsigned(&self) -> Result<Vec<UnsignedOf<Self>>> {
        Err("the database has no unsigned integers".into())
    }
}

pub fn all<S: IntegerShop>() -> Cases {
    cases! {
        S, |shop, database, case| {
            database.execute(create_sql(database.kind))?;
            case(&shop, database).await
        };
        keys_of_32_bits
        narrow_columns_become_wider
        unsigned_keys
    }
}

pub const fn create_sql(kind: Engine) -> &'static str {
    match kind {
        Engine::Postgres => {
            "CREATE TABLE numbers (id serial PRIMARY KEY, next_id integer REFERENCES numbers (id), \
             team_id integer NOT NULL)"
        }
        Engine::Mysql | Engine::Mariadb => {
            "CREATE TABLE numbers (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, next_id INT, \
             team_id INT UNSIGNED NOT NULL, FOREIGN KEY (next_id) REFERENCES numbers (id));
             CREATE TABLE unsigned_numbers (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
             team_id BIGINT UNSIGNED NOT NULL)"
        }
        Engine::Sqlite => {
            "CREATE TABLE numbers (id INTEGER PRIMARY KEY, next_id INTEGER REFERENCES numbers (id), \
             team_id INTEGER NOT NULL)"
        }
    }
}

fn number<S: IntegerShop>(id: i32, next_id: Option<i32>, team_id: i64) -> Result<NumberOf<S>> {
    let next_id = next_id.map(from_key).transpose()?;
    Ok((from_key(id)?, next_id, from_key(team_id)?))
}

/// Checks an error of the adapter or of diesel itself.
fn assert_invalid(found: &str, resource: &str, fault: &str) {
    let invalid = format!("invalid key for `{resource}`{fault}");
    assert!(found.contains(&invalid) || found.contains("Numeric overflow"), "{found}");
}

async fn keys_of_32_bits<S: IntegerShop>(shop: &S, database: &Database) -> Verdict {
    let numbers = [
        number::<S>(i32::MIN, None, 1)?,
        number::<S>(-1, Some(i32::MIN), 2)?,
        number::<S>(i32::MAX - 1, Some(-1), 3)?,
    ];
    // SeaORM itself rejects a negative key from MySQL for a new row.
    database.execute("INSERT INTO numbers (id, team_id) VALUES (-2147483648, 1)")?;
    database.execute("INSERT INTO numbers (id, next_id, team_id) VALUES (-1, -2147483648, 2)")?;
    shop.add_number(&numbers[2]).await?;
    let ids = [numbers[2].0, numbers[0].0, numbers[1].0, from_key(7)?];
    assert_eq!(shop.find_numbers(&ids).await?, numbers);

    database.execute("INSERT INTO numbers (team_id) VALUES (4)")?;
    let made = shop.read_number_id("(SELECT id FROM numbers WHERE team_id = 4)").await?;
    let found = shop.find_numbers(&[made]).await?;
    assert_eq!(found, [(made, None, from_key(4)?)]);

    // A value that does not fit is an error and never another number.
    let wide = match database.kind {
        Engine::Postgres => "4294967303::bigint",
        Engine::Sqlite => "4294967303",
        Engine::Mysql | Engine::Mariadb => "CAST(4294967303 AS SIGNED)",
    };
    let found = error(shop.read_number_id(wide).await);
    assert_invalid(&found, "number", "");
    Ok(Passed)
}

/// An application with `key = i64` runs before and after its column becomes a `BIGINT`.
async fn narrow_columns_become_wider<S: IntegerShop>(shop: &S, database: &Database) -> Verdict {
    // An unsigned column has a value above 2^31, so that a wrapping driver is detected.
    let largest = match database.kind {
        Engine::Mysql | Engine::Mariadb => u32::MAX.into(),
        _ => i32::MAX.into(),
    };
    let first = number::<S>(1, None, largest)?;
    shop.add_number(&first).await?;
    assert_eq!(shop.find_numbers(&[first.0]).await?, std::slice::from_ref(&first));

    let too_wide = number::<S>(2, None, i64::MAX)?;
    match database.kind {
        Engine::Sqlite => {}
        Engine::Postgres => {
            assert!(shop.add_number(&too_wide).await.is_err());
            database.execute("ALTER TABLE numbers ALTER team_id TYPE bigint")?;
        }
        Engine::Mysql | Engine::Mariadb => {
            assert!(shop.add_number(&too_wide).await.is_err());
            database.execute("ALTER TABLE numbers MODIFY team_id BIGINT NOT NULL")?;
        }
    }
    // On PostgreSQL, a connection's prepared statements fail with "cached plan must not change result type".
    let shop = S::connect(database).await?;
    shop.add_number(&too_wide).await?;
    let found = shop.find_numbers(&[first.0, too_wide.0]).await?;
    assert_eq!(found, [first, too_wide]);
    Ok(Passed)
}

async fn unsigned_keys<S: IntegerShop>(shop: &S, database: &Database) -> Verdict {
    if !matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        return Ok(NotApplicable);
    }
    let rows = [(1, 0), (1 << 31, 1 << 32), (u32::MAX - 1, i64::MAX)];
    let row = |(id, team)| -> Result<UnsignedOf<S>> { Ok((from_key(id)?, from_key(team)?)) };
    let rows = rows.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    for row in &rows {
        shop.add_unsigned(*row).await?;
    }
    assert_eq!(shop.all_unsigned().await?, rows);
    assert_eq!(
        database.lines("SELECT CONCAT(id, ' ', team_id) FROM unsigned_numbers ORDER BY id")?,
        "1 0\n2147483648 4294967296\n4294967294 9223372036854775807"
    );

    // The value is read as an `i32`, if it fits.
    let smallest = shop.read_number_id("(SELECT MIN(id) FROM unsigned_numbers)");
    assert_eq!(smallest.await?, from_key(1)?);
    let found = error(shop.read_number_id("(SELECT MAX(id) FROM unsigned_numbers)").await);
    assert_invalid(&found, "number", ": the integer does not fit");

    // One key is auto-incremented, and one does not fit an `i64`.
    database.execute("INSERT INTO unsigned_numbers (team_id) VALUES (9223372036854775808)")?;
    let found = error(shop.all_unsigned().await);
    assert_invalid(&found, "team", ": the integer does not fit");
    // The server refuses values that do not fit the column.
    let negative = (from_key(7)?, from_key(-1)?);
    assert!(shop.add_unsigned(negative).await.is_err());
    Ok(Passed)
}
