//! The content of every adapter's `EncryptedColumn`: encrypts and decrypts values, and builds the calls.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use opaque_id_core::OpaqueId;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_sql::Dialect;

use crate::call::{Configure, Open, PackCall, ValueKeys};
use crate::encoding::Encoding;
use crate::encrypted::Encrypted;
use crate::error::Problem;
use crate::format::{Kind, PackCipher, Value};
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
    pub fn open(
        keyring: SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<ReprOf<T>>(false);
        let expected = Expected { encoding: E::NAME, hides_keys: false, is_grouped: E::IS_GROUPED };
        let contents =
            settings.map(|settings| Contents::new(settings, E::NAME, false, E::IS_GROUPED));
        let table = Arc::new(Table::new(keyring, T::DOMAIN, name, ids, Some(expected))?);
        let call = PackCall::new(&table, Open::column(&table, contents.as_ref())?);
        Ok((Self { calls: Calls { table }, types: PhantomData }, call))
    }

    /// Returns the statements that create the tables.
    ///
    /// # Panics
    /// If the column's name is invalid.
    #[must_use]
    #[track_caller]
    pub fn create_sql(dialect: Dialect, name: &str) -> String {
        Statements::create_column_sql(dialect, TableName::new(name).table(), E::IS_GROUPED)
    }

    /// Returns the statements that drop the tables.
    ///
    /// # Panics
    /// If the column's name is invalid.
    #[must_use]
    #[track_caller]
    pub fn drop_sql(name: &str) -> String {
        Statements::drop_column_sql(TableName::new(name).table(), E::IS_GROUPED)
    }

    /// Returns the call that reads settings and dictionaries again.
    pub fn refresh(&self) -> Result<PackCall<Open>, Problem> {
        Ok(self.call(Open::column(&self.table, None)?))
    }

    /// Returns the call that reads the dictionary of a value and the key of its group, as far as they are not known. Bytes that are
    /// no body have neither.
    pub fn keys_to_decrypt(
        &self,
        id: T::Internal,
        encrypted: &Encrypted<T, V>,
    ) -> Result<PackCall<ValueKeys>, Problem> {
        let (id, body) = (order::number(*id.as_repr()), encrypted.as_bytes());
        let state = self.table.opened()?;
        let call = self.call(ValueKeys::to_decrypt(id, body));
        let dictionary = PackCipher::dictionary_id(body);
        Ok(match dictionary.is_ok_and(|dictionary| !state.has_dictionary(dictionary)) {
            true => call.with_dictionary(),
            false => call.with_keys(),
        })
    }

    /// Returns the call that reads or makes the key of a value's group, if it has one.
    pub fn keys_to_encrypt(&self, value: &V) -> Result<PackCall<ValueKeys>, Problem> {
        let group = self.group(value)?;
        let call = self.call(ValueKeys::to_encrypt(group));
        Ok(match group {
            Some(group) => call.with_key(group),
            None => call,
        })
    }

    /// Returns the call that trains a dictionary from samples.
    pub fn train<'v>(
        &self,
        samples: impl IntoIterator<Item = &'v V>,
        bytes: usize,
    ) -> Result<PackCall<Configure>, Problem>
    where
        V: 'v,
    {
        let samples = samples.into_iter().map(|value| {
            let Value { bytes, .. } = self.sample::<V, E>(value)?;
            Ok(Value { bytes, group: self.group(value)? })
        });
        let mut samples = samples.collect::<Result<Vec<_>, _>>()?;
        // A value that could not be decoded has a group that is not known.
        samples.retain(|sample| sample.group.is_some() || !E::IS_GROUPED);
        self.train_from(samples, bytes)
    }

    /// Encrypts a value for a row, with the keys that a call has read.
    pub fn encrypt(
        &self,
        id: T::Internal,
        value: &V,
        keys: Option<&PackCall<ValueKeys>>,
    ) -> Result<Encrypted<T, V>, Problem> {
        let id = order::number(*id.as_repr());
        let bytes = E::encode(value).map_err(|reason| self.invalid_value(id, reason))?;
        let value = Value { bytes, group: self.group(value)? };
        let state = self.table.opened()?;
        let groups = keys.map(PackCall::groups).cloned().unwrap_or_default();
        self.table.encrypt_value(&state, id, Some(value), &groups).map(Encrypted::from_bytes)
    }

    /// Decrypts the value of a row, with the keys that a call has read.
    pub fn decrypt(
        &self,
        id: T::Internal,
        encrypted: &Encrypted<T, V>,
        keys: Option<&PackCall<ValueKeys>>,
    ) -> Result<V, Problem> {
        let id = order::number(*id.as_repr());
        let state = self.table.opened()?;
        let groups = keys.map(PackCall::groups).cloned().unwrap_or_default();
        let value = self.table.open_value(&state, id, encrypted.as_bytes(), &groups)?;
        E::decode(value.bytes).map_err(|reason| self.invalid_value(id, reason))
    }

    /// Returns the id of the key of a value's group.
    fn group(&self, value: &V) -> Result<Option<u128>, Problem> {
        let state = self.table.opened()?;
        Ok(E::group(value).and_then(|group| state.group_id(group)))
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
