//! The content of every adapter's `EncryptedColumn`: encrypts and decrypts values, and builds the calls.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use opaque_id_core::OpaqueId;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_sql::Dialect;

use crate::call::{Configure, Open, PackCall, trained};
use crate::encoding::Encoding;
use crate::encrypted::Encrypted;
use crate::error::{Location, Problem};
use crate::format::{Kind, PackCipher};
use crate::name::TableName;
use crate::order;
use crate::runtime::Calls;
use crate::settings::{Contents, Settings};
use crate::statement::{Statements, Tier};
use crate::table::{Expected, Table};

/// The types are those of arguments and results, and not contained.
type Types<T, V, E> = PhantomData<fn() -> (T, V, E)>;

/// The content of every adapter's `EncryptedColumn`. The calls without types are those of `Calls`, which it dereferences to.
pub struct Values<T, V, E> {
    calls: Calls,
    types: Types<T, V, E>,
}

impl<T: OpaqueId, V, E: Encoding<V>> Values<T, V, E> {
    /// Returns the column and the call that opens it. With settings, the call writes them if there are none.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn open(
        keyring: SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<ReprOf<T>>(false);
        const { assert!(!E::IS_GROUPED, "the values of a column have no groups: omit `Grouped`") };
        let expected = Expected { encoding: E::NAME, hides_keys: false, is_grouped: false };
        let contents = settings.map(|settings| Contents::new(settings, E::NAME, false, false));
        let table = Arc::new(Table::new(keyring, T::DOMAIN, name, ids, Some(expected))?);
        let call = PackCall::new(&table, Open::column(&table, contents.as_ref())?);
        Ok((Self { calls: Calls { table }, types: PhantomData }, call))
    }

    /// Returns the statements that create the table of settings and dictionaries.
    ///
    /// # Panics
    /// If the column's name is invalid.
    #[must_use]
    #[track_caller]
    pub fn create_sql(dialect: Dialect, name: &str) -> String {
        Statements::create_meta_sql(dialect, TableName::new(name).table())
    }

    /// Returns the statement that drops the table.
    ///
    /// # Panics
    /// If the column's name is invalid.
    #[must_use]
    #[track_caller]
    pub fn drop_sql(name: &str) -> String {
        Statements::drop_meta_sql(TableName::new(name).table())
    }

    /// Returns the call that reads settings and dictionaries again.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn refresh(&self) -> Result<PackCall<Open>, Problem> {
        Ok(self.call(Open::column(&self.table, None)?))
    }

    /// Returns that call, unless the dictionary of a value is known. Bytes that are no body have none.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn refresh_for(
        &self,
        encrypted: &Encrypted<T, V>,
    ) -> Result<Option<PackCall<Open>>, Problem> {
        let state = self.table.opened()?;
        let dictionary = PackCipher::dictionary_id(encrypted.as_bytes());
        match dictionary.is_ok_and(|dictionary| !state.has_dictionary(dictionary)) {
            true => self.refresh().map(Some),
            false => Ok(None),
        }
    }

    /// Returns the call that trains a dictionary from samples.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn train<'v>(
        &self,
        samples: impl IntoIterator<Item = &'v V>,
        bytes: usize,
    ) -> Result<PackCall<Configure>, Problem>
    where
        V: 'v,
    {
        let encode = |value| {
            E::encode(value).map_err(|reason| Problem::Value {
                location: Location { id: None, ..self.table.location(Kind::Value, 0) },
                reason,
            })
        };
        let samples = samples.into_iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        Ok(self.call(Configure::new(None, Some(trained(&samples, bytes)?))))
    }

    /// Encrypts a value for a row.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn encrypt(&self, id: T::Internal, value: &V) -> Result<Encrypted<T, V>, Problem> {
        let id = order::number(*id.as_repr());
        let bytes = E::encode(value).map_err(|reason| self.invalid_value(id, reason))?;
        let state = self.table.opened()?;
        self.table.encrypt_value(&state, id, bytes).map(Encrypted::from_bytes)
    }

    /// Decrypts the value of a row.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn decrypt(&self, id: T::Internal, encrypted: &Encrypted<T, V>) -> Result<V, Problem> {
        let id = order::number(*id.as_repr());
        let state = self.table.opened()?;
        let bytes = self.table.open_value(&state, id, encrypted.as_bytes())?;
        E::decode(bytes).map_err(|reason| self.invalid_value(id, reason))
    }

    /// Returns whether a value is as new ones are.
    #[must_use]
    pub fn is_current(&self, encrypted: &Encrypted<T, V>) -> bool {
        let header = self.table.current_header(Tier::Recent);
        header.is_ok_and(|header| encrypted.as_bytes().starts_with(&header))
    }

    fn invalid_value(&self, id: u128, reason: String) -> Problem {
        Problem::Value { location: self.table.location(Kind::Value, id), reason }
    }
}

impl<T, V, E> Deref for Values<T, V, E> {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

impl<T, V, E> Clone for Values<T, V, E> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), types: PhantomData }
    }
}

impl<T, V, E> fmt::Debug for Values<T, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptedColumn").field(&self.table.name()).finish()
    }
}
