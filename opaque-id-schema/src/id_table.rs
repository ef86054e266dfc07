use crate::CheckError;
use crate::columns::{Ask, ForeignKey, Judgement, Key, NAME, Place, Roots, Stored, by_place};

/// A table whose rows have ids: its primary key has one column, and is no foreign key.
#[derive(Debug)]
pub struct IdTable {
    /// The table's name.
    pub table: String,
    /// The name of the primary key's column.
    pub column: String,
    /// The column's type as the database spells it.
    pub found: String,
    /// The kinds of key that the column may store, by their names in the derive. It is empty if the type is
    /// not supported.
    pub kinds: &'static [&'static str],
}

/// Returns the tables whose rows have ids, by name. `version` returns the SQL for the version's digit of a
/// UUID and for its table, or `None` if the table must not be read.
pub(crate) async fn id_tables(
    connection: &mut impl Ask,
    keys: Vec<Key>,
    foreign_keys: &[ForeignKey],
    version: impl Fn(&Place) -> Option<(String, String)>,
) -> Result<Vec<IdTable>, CheckError> {
    let keys = by_place(keys);
    let roots = Roots::new(&keys, foreign_keys);
    let mut tables = Vec::new();
    for (place, key) in keys.iter().filter(|(place, _)| !roots.has_reference(place)) {
        let kinds: &[_] = match key.judgement {
            Judgement::NoId | Judgement::Unknown(NAME) => continue,
            Judgement::Wrong(..) | Judgement::Unknown(_) => &[],
            Judgement::Right(Stored::Integer) => &["i64"],
            Judgement::Right(Stored::Integer32) => &["i32"],
            Judgement::Right(Stored::Unsigned32) => &["u32"],
            Judgement::Right(Stored::Bytes) => {
                let of_rows = match version(place) {
                    Some((digit, table)) => connection.number(of_sample(&digit, &table)).await?,
                    None => 0,
                };
                match of_rows {
                    1.. => &["Uuid7"],
                    ..0 => &["Uuid"],
                    0 => &["Uuid7", "Uuid", "Ulid", "StructuredKey"],
                }
            }
        };
        let (table, column) = place.clone();
        tables.push(IdTable { table, column, found: key.found.clone(), kinds });
    }
    Ok(tables)
}

/// Returns the query of a sample of rows, whose result is above 0 if all are UUIDv7, below 0 if all are UUIDv4, and
/// otherwise 0.
fn of_sample(digit: &str, table: &str) -> String {
    format!(
        "SELECT count(*) * CASE WHEN min(digit) = '7' AND max(digit) = '7' THEN 1
             WHEN min(digit) = '4' AND max(digit) = '4' THEN -1 ELSE 0 END
         FROM (SELECT {digit} AS digit FROM {table} LIMIT 1000) AS s"
    )
}
