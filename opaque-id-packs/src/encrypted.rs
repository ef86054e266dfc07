//! The stored value of a column.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of type `V` in a row of the resource `T`, compressed and encrypted. It works alone and in
/// `Option`, in a `BYTEA` of PostgreSQL, a `LONGBLOB`, `BLOB` or `VARBINARY` of MySQL and MariaDB, and a
/// `BLOB` of SQLite.
///
/// An adapter's `EncryptedColumn` encrypts and decrypts it. The same value is encrypted to other bytes each
/// time, and values are equal if their bytes are. The listed impls of `Serialize` and `Deserialize` never
/// apply. They only make the compiler's error say how to proceed.
#[cfg_attr(
    feature = "diesel",
    derive(diesel::expression::AsExpression, diesel::deserialize::FromSqlRow),
    diesel(sql_type = diesel::sql_types::Binary)
)]
pub struct Encrypted<T, V> {
    pub(crate) body: Vec<u8>,
    types: PhantomData<fn() -> (T, V)>,
}

impl<T, V> Encrypted<T, V> {
    /// Wraps the bytes of a column, for drivers without an adapter. Decryption checks them.
    #[must_use]
    pub fn from_bytes(body: Vec<u8>) -> Self {
        Self { body, types: PhantomData }
    }

    /// Returns the bytes of the column.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.body
    }
}

impl<T, V> Clone for Encrypted<T, V> {
    fn clone(&self) -> Self {
        Self::from_bytes(self.body.clone())
    }
}

impl<T, V> PartialEq for Encrypted<T, V> {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
    }
}

impl<T, V> Eq for Encrypted<T, V> {}

impl<T, V> Hash for Encrypted<T, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.body.hash(state);
    }
}

impl<T, V> fmt::Debug for Encrypted<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encrypted(..)")
    }
}

/// A stand-in for `Encrypted<T, V>` in a bound that never holds, so that rustc prints our message.
#[derive(Debug)]
pub struct EncryptedOf<T, V>(PhantomData<fn() -> (T, V)>);

/// A trait without implementations.
#[diagnostic::on_unimplemented(
    message = "encrypted values are of the database only: they cannot be serialized or deserialized",
    label = "this holds an encrypted value",
    note = "decrypt it: the type of the API has a field of the value's own type, and `column.decrypt(id, &encrypted)?` fills it"
)]
pub trait MayLeave {
    /// A function that is never called.
    fn never<R>() -> R;
}

/// Never applies. The compiler's error says to decrypt the value.
impl<T, V> Serialize for Encrypted<T, V>
where
    EncryptedOf<T, V>: MayLeave,
{
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        <EncryptedOf<T, V> as MayLeave>::never()
    }
}

/// Never applies. The compiler's error says to encrypt a value.
impl<'de, T, V> Deserialize<'de> for Encrypted<T, V>
where
    EncryptedOf<T, V>: MayLeave,
{
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        <EncryptedOf<T, V> as MayLeave>::never()
    }
}
