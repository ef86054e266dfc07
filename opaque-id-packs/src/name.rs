use opaque_id_core::Keyring;
use opaque_id_sql::mapping::InvalidTableName;
use zeroize::Zeroizing;

use crate::format::PackCipher;

/// The name of a table of packs, and a context. Its contents are bound to both, so they cannot be read with another name or context. A
/// `&str` converts into a name without a context.
///
/// Databases with tables of the same name under the same secrets need a context each, such as one database
/// per tenant. Otherwise a client that can write to both can move packs from one to the other, and readers
/// accept them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    table: Box<str>,
    context: Box<str>,
}

impl TableName {
    /// Names a table.
    ///
    /// # Panics
    /// Unless the name consists of `a-z`, `0-9` and `_` and does not start with a digit. A schema and a dot may precede it.
    #[must_use]
    #[track_caller]
    pub fn new(table: &str) -> Self {
        let checked: Result<(), InvalidTableName> = opaque_id_sql::__private::check_name(table);
        if let Err(error) = checked {
            panic!("{error}");
        }
        Self { table: table.into(), context: Box::default() }
    }

    /// Sets the context: any text that distinguishes this database from others with the same secrets. It cannot change once the table has
    /// settings.
    #[must_use]
    pub fn context(self, context: &str) -> Self {
        Self { context: context.into(), ..self }
    }

    /// Returns the name of the table, without the context.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.table, &self.context)
    }

    pub(crate) fn cipher_with_key(&self, key: &Zeroizing<[u8; 32]>) -> PackCipher {
        PackCipher::with_key(key, &self.table).context(&self.context)
    }

    pub(crate) fn cipher(&self, keyring: &Keyring, domain: &str) -> PackCipher {
        PackCipher::for_domain(keyring, domain, &self.table).context(&self.context)
    }
}

/// Panics like [`TableName::new`].
impl From<&str> for TableName {
    #[track_caller]
    fn from(table: &str) -> Self {
        Self::new(table)
    }
}

/// Panics like [`TableName::new`].
impl From<&String> for TableName {
    #[track_caller]
    fn from(table: &String) -> Self {
        Self::new(table)
    }
}
