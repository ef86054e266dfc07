//! Rows of the servers' views, by the names of their columns.

/// sqlx's macros would compile all drivers, SQLite and TLS a second time for the compiler.
macro_rules! row {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$doc:meta])* $column:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $column: $type,)*
        }

        impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for $name
        where
            &'static str: sqlx::ColumnIndex<R>,
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
        {
            fn from_row(row: &'r R) -> sqlx::Result<Self> {
                Ok(Self { $($column: row.try_get(stringify!($column))?,)* })
            }
        }
    };
}
pub(crate) use row;
