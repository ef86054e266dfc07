//! The types of columns. An id can be read from a column if the driver reads the right plain key from it.

use opaque_id_core::resource::{InternalId, ReprOf};

use crate::Result;
use crate::conformance::cases::message;
use crate::conformance::integers::IntegerShop;
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop;
use crate::database::Database;
use crate::engine::Engine;

/// A type of keys on every database that has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key {
    I32,
    U32,
    I64,
    Uuid,
}

/// The place of a key in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Scalar,
    Option,
    List,
}

/// A key as text, or the driver's error.
pub type Read = std::result::Result<String, String>;

pub trait TypeShop: IntegerShop {
    /// Reads the first column of a query as a plain key and as an internal id.
    async fn read(&self, key: Key, shape: Shape, query: &str) -> Result<[Read; 2]>;
}

/// Shows a key that a driver has read, or its error.
pub fn shown<T>(
    read: std::result::Result<T, impl Into<shop::Error>>,
    show: impl FnOnce(T) -> String,
) -> Read {
    read.map(show).map_err(|error| message(&*error.into()))
}

pub fn stored<I: InternalId>(id: &I) -> String
where
    ReprOf<I::Resource>: std::fmt::Debug,
{
    format!("{:?}", id.as_repr())
}

/// Reads each type of keys in each shape, by an adapter's macro that reads a type.
#[macro_export]
macro_rules! read_keys {
    (
        $read:ident, $wanted:expr; $($kind:ident $key:ty => $id:ty),*
        $(; lists $($list_kind:ident $list_key:ty => $list_id:ty),*)?
    ) => {{
        use $crate::conformance::types::{Key, Shape, shown, stored};

        match $wanted {
            $(
                (Key::$kind, Shape::Scalar) => [
                    shown($read!($key), |key| format!("{key:?}")),
                    shown($read!($id), |id| stored(&id)),
                ],
                (Key::$kind, Shape::Option) => [
                    shown($read!(Option<$key>), |key| key.map_or_else(String::new, |key| format!("{key:?}"))),
                    shown($read!(Option<$id>), |id| id.as_ref().map_or_else(String::new, stored)),
                ],
            )*
            $($(
                (Key::$list_kind, Shape::List) => [
                    shown($read!(Vec<$list_key>), |keys| format!("{:?}", keys[0])),
                    shown($read!(Vec<$list_id>), |ids| stored(&ids[0])),
                ],
            )*)?
            wanted => return Err(format!("the database has no {wanted:?}").into()),
        }
    }};
}

pub fn all<S: TypeShop>() -> Cases {
    crate::cases! {
        S, |shop, database, case| case(&shop, database).await;
        an_id_is_read_wherever_the_driver_reads_its_key
    }
}

const UUID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

struct Column {
    query: String,
    /// The integer 7, the UUID, or neither.
    key: Option<&'static str>,
    /// Whether an id may be refused although the driver reads the right key. The driver also reads wrong keys
    /// from this type: it cuts off a fraction, takes 16 characters for a UUID, or takes other text for 0.
    is_inexact: bool,
}

fn columns(database: &Database) -> Result<Vec<Column>> {
    let hex = UUID.replace('-', "");
    let seven = Some("7");
    let uuid = Some(UUID);
    let mut columns = Vec::new();
    let mut add = |query: String, key, is_inexact| columns.push(Column { query, key, is_inexact });
    match database.kind {
        Engine::Postgres => {
            database.execute(
                "CREATE DOMAIN number8 AS bigint; CREATE DOMAIN key16 AS uuid; \
                 CREATE TYPE label AS ENUM ('0123456789abcdef')",
            )?;
            for ty in ["smallint", "integer", "bigint", "number8"] {
                add(format!("CAST(7 AS {ty})"), seven, false);
            }
            for ty in ["numeric", "real", "float8", "oid", "text"] {
                add(format!("CAST(7 AS {ty})"), seven, true);
            }
            for (ty, is_inexact) in [("uuid", false), ("key16", false), ("text", true)] {
                add(format!("CAST('{UUID}' AS {ty})"), uuid, is_inexact);
            }
            add(format!(r"CAST('\x{hex}' AS bytea)"), uuid, true);
            for ty in ["text", "char(16)", "varchar(16)", "name", "label"] {
                add(format!("CAST('0123456789abcdef' AS {ty})"), None, true);
            }
            add("CAST(7.5 AS numeric)".to_owned(), None, true);
        }
        Engine::Mysql | Engine::Mariadb => {
            let (bytes, uuid_text) = (format!("X'{hex}'"), format!("'{UUID}'"));
            let mut types = Vec::new();
            for ty in ["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"] {
                types.push((ty.to_owned(), "7", seven, false));
                types.push((format!("{ty} UNSIGNED"), "7", seven, false));
            }
            for ty in ["DECIMAL(10)", "FLOAT", "DOUBLE", "BIT(8)", "VARCHAR(9)", "TEXT"] {
                types.push((ty.to_owned(), "7", seven, true));
            }
            types.push(("DECIMAL(10,1)".to_owned(), "7.5", None, true));
            for ty in ["BINARY(16)", "VARBINARY(16)", "TINYBLOB", "BLOB", "LONGBLOB"] {
                types.push((ty.to_owned(), &bytes, uuid, false));
            }
            let native = (database.kind == Engine::Mariadb).then_some("UUID");
            for ty in ["CHAR(36)", "VARCHAR(36)", "TEXT"].into_iter().chain(native) {
                types.push((ty.to_owned(), &uuid_text, uuid, true));
            }
            for ty in ["CHAR(16)", "VARCHAR(16)", "TEXT", "CHAR(16) CHARACTER SET ascii"] {
                types.push((ty.to_owned(), "'0123456789abcdef'", None, true));
            }
            for (i, (ty, value, key, is_inexact)) in types.into_iter().enumerate() {
                database.execute(&format!(
                    "CREATE TABLE types_{i} (c {ty}); INSERT INTO types_{i} VALUES ({value})"
                ))?;
                add(format!("c FROM types_{i}"), key, is_inexact);
            }
        }
        Engine::Sqlite => {
            let types = "INTEGER INT BIGINT SMALLINT NUMERIC REAL TEXT BLOB BOOLEAN DATETIME UUID";
            for (i, ty) in types.split(' ').enumerate() {
                let bytes = format!("X'{hex}'");
                let is_converted = ["REAL", "TEXT"].contains(&ty);
                let values = [
                    ("7", seven, is_converted),
                    (&bytes, uuid, false),
                    ("'0123456789abcdef'", None, true),
                    ("7.5", None, true),
                ];
                for (j, (value, key, is_inexact)) in values.into_iter().enumerate() {
                    let table = format!("types_{i}_{j}");
                    database.execute(&format!(
                        "CREATE TABLE {table} (c {ty}); INSERT INTO {table} VALUES ({value})"
                    ))?;
                    add(format!("c FROM {table}"), key, is_inexact);
                }
            }
            add("7".to_owned(), seven, false);
        }
    }
    Ok(columns)
}

async fn an_id_is_read_wherever_the_driver_reads_its_key<S: TypeShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    let mut wrong = Vec::new();
    let (keys, shapes): (&[_], &[_]) = match database.kind {
        Engine::Postgres => {
            (&[Key::I32, Key::I64, Key::Uuid], &[Shape::Scalar, Shape::Option, Shape::List])
        }
        Engine::Mysql | Engine::Mariadb => {
            (&[Key::I32, Key::U32, Key::I64, Key::Uuid], &[Shape::Scalar, Shape::Option])
        }
        Engine::Sqlite => (&[Key::I32, Key::I64, Key::Uuid], &[Shape::Scalar, Shape::Option]),
    };
    for Column { query, key: stored, is_inexact } in columns(database)? {
        for (key, shape) in keys.iter().flat_map(|key| shapes.iter().map(|shape| (*key, *shape))) {
            let is_uuid = stored == Some(UUID);
            let expected = stored.filter(|_| is_uuid == (key == Key::Uuid));
            let select = match shape {
                Shape::List => format!("SELECT ARRAY[{query}]"),
                Shape::Scalar | Shape::Option => format!("SELECT {query}"),
            };
            // diesel does not know the type of an element, so an array of a domain could be one of an enum.
            let is_unknown =
                shape == Shape::List && ["number8", "key16"].iter().any(|it| query.contains(it));
            let [plain, id] = shop.read(key, shape, &select).await?;
            match (plain, id) {
                (_, Ok(found)) if Some(&*found) != expected => {
                    wrong.push(format!("{select}: {key:?} {shape:?} found {found}"));
                }
                (Ok(plain), Err(error))
                    if Some(&*plain) == expected && !is_inexact && !is_unknown =>
                {
                    wrong.push(format!("{select}: {key:?} {shape:?} {error}"));
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(Passed)
}
