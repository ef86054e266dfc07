/// A key column of a live schema, and the table that its keys identify.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyColumn {
    /// The column's table in sqlx's macros: on PostgreSQL in quotes if SQL needs them, on MySQL and MariaDB
    /// with its database.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// The table with the rows that the keys identify: the one that the column references in the end, or its
    /// own.
    pub identifies: String,
    /// The column's type as the database spells it.
    #[doc(hidden)]
    pub found: String,
    /// The kinds of key that a primary key may store, by their names in the derive. They are empty if the
    /// type is not supported, and `None` for any other column.
    #[doc(hidden)]
    pub kinds: Option<&'static [&'static str]>,
}
