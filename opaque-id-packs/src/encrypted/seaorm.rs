//! `Encrypted<T, V>` with SeaORM's traits, alone and in `Option`.

use sea_orm::sea_query::{ArrayType, ColumnType, Nullable, Value, ValueType, ValueTypeErr};
use sea_orm::{ActiveValue, ColIdx, IntoActiveValue, QueryResult, Set, TryGetError, TryGetable};

use super::Encrypted;

impl<T, V> ValueType for Encrypted<T, V> {
    fn try_from(value: Value) -> Result<Self, ValueTypeErr> {
        <Vec<u8> as ValueType>::try_from(value).map(Self::from_bytes)
    }

    fn type_name() -> String {
        "Encrypted".to_owned()
    }

    fn array_type() -> ArrayType {
        <Vec<u8> as ValueType>::array_type()
    }

    /// `bytea` or `blob`. MySQL's `blob` has room for 65,535 bytes. Make the column a `LONGBLOB` for longer
    /// values.
    fn column_type() -> ColumnType {
        ColumnType::Blob
    }
}

impl<T, V> Nullable for Encrypted<T, V> {
    fn null() -> Value {
        <Vec<u8> as Nullable>::null()
    }
}

impl<T, V> From<Encrypted<T, V>> for Value {
    fn from(encrypted: Encrypted<T, V>) -> Self {
        encrypted.body.into()
    }
}

impl<T, V> IntoActiveValue<Encrypted<T, V>> for Encrypted<T, V> {
    fn into_active_value(self) -> ActiveValue<Self> {
        Set(self)
    }
}

impl<T, V> TryGetable for Encrypted<T, V> {
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Self, TryGetError> {
        Vec::try_get_by(row, index).map(Self::from_bytes)
    }
}
