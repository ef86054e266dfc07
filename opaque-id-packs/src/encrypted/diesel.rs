//! `Encrypted<T, V>` with diesel's traits.

use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::Binary;

use super::Encrypted;

impl<T, V, DB: Backend> ToSql<Binary, DB> for Encrypted<T, V>
where
    [u8]: ToSql<Binary, DB>,
{
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
        self.body.as_slice().to_sql(out)
    }
}

impl<T, V, DB: Backend> FromSql<Binary, DB> for Encrypted<T, V>
where
    Vec<u8>: FromSql<Binary, DB>,
{
    fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
        Vec::from_sql(value).map(Self::from_bytes)
    }
}
