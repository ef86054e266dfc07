//! `Encrypted<T, V>` with sqlx's traits.

use opaque_id_sqlx::ArgumentBuffer;
use sqlx::encode::IsNull;
use sqlx::error::{BoxDynError, UnexpectedNullError};
use sqlx::{Database, Decode, Encode, Type, ValueRef};

use super::Encrypted;

impl<T, V, DB: Database> Type<DB> for Encrypted<T, V>
where
    Vec<u8>: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <Vec<u8> as Type<DB>>::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        <Vec<u8> as Type<DB>>::compatible(ty)
    }
}

impl<'q, T, V, DB: Database> Encode<'q, DB> for Encrypted<T, V>
where
    Vec<u8>: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buf: &mut ArgumentBuffer<'q, DB>) -> Result<IsNull, BoxDynError> {
        self.body.encode_by_ref(buf)
    }

    fn produces(&self) -> Option<DB::TypeInfo> {
        self.body.produces()
    }

    fn size_hint(&self) -> usize {
        self.body.size_hint()
    }
}

impl<'r, T, V, DB: Database> Decode<'r, DB> for Encrypted<T, V>
where
    Vec<u8>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        // SQLite's driver would read NULL as no bytes.
        match value.is_null() {
            true => Err(UnexpectedNullError.into()),
            false => Vec::decode(value).map(Self::from_bytes),
        }
    }
}
