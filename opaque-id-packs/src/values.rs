//! The content of every adapter's `EncryptedColumn`: encrypts and decrypts values, and builds the calls.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use opaque_id_core::OpaqueId;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_sql::Dialect;

use crate::call::{
    Configure, Open, PackCall, RekeyValues, Rekeyed, Verified, VerifyValues, trained,
};
use crate::column::ColumnName;
use crate::encoding::Encoding;
use crate::encrypted::Encrypted;
use crate::error::{Location, Problem};
use crate::format::{Kind, PackCipher};
use crate::name::TableName;
use crate::order;
use crate::runtime::Calls;
use crate::settings::{Contents, Settings};
use crate::statement::Statements;
use crate::table::{Expected, Table};

/// The content of every adapter's `EncryptedColumn`. The calls without types are those of `Calls`, which it dereferences to.
pub(crate) struct Values<T, V, E> {
    calls: Calls,
    types: PhantomData<fn() -> (T, V, E)>,
}

impl<T: OpaqueId, V, E: Encoding<V>> Values<T, V, E> {
    /// Returns the column and the call that opens it. With settings, the call writes them if there are none.
    pub(crate) fn open(
        keyring: SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<ReprOf<T>>(false);
        let expected = Expected { encoding: E::NAME, hides_keys: false };
        let contents = settings.map(|settings| Contents::new(settings, E::NAME, None));
        let table = Arc::new(Table::new(keyring, T::DOMAIN, name, ids, Some(expected))?);
        let call = PackCall::new(&table, Open::column(&table, contents.as_ref())?);
        Ok((Self { calls: Calls { table }, types: PhantomData }, call))
    }

    /// Returns the call that reads settings and dictionaries again.
    pub(crate) fn refresh(&self) -> Result<PackCall<Open>, Problem> {
        Ok(self.call(Open::column(&self.table, None)?))
    }

    /// Returns that call, unless the dictionary of a value is known. Bytes that are no body have none.
    pub(crate) fn refresh_for(
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

    pub(crate) fn train<'v>(
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

    pub(crate) fn encrypt(&self, id: T::Internal, value: &V) -> Result<Encrypted<T, V>, Problem> {
        let id = order::number(*id.as_repr());
        let bytes = E::encode(value).map_err(|reason| self.invalid_value(id, reason))?;
        let body = self.table.encrypt_value(&*self.table.opened()?, id, bytes)?;
        Ok(Encrypted::from_bytes(body))
    }

    pub(crate) fn decrypt(
        &self,
        id: T::Internal,
        encrypted: &Encrypted<T, V>,
    ) -> Result<V, Problem> {
        let id = order::number(*id.as_repr());
        let bytes = self.table.open_value(&*self.table.opened()?, id, encrypted.as_bytes())?;
        E::decode(bytes).map_err(|reason| self.invalid_value(id, reason))
    }

    pub(crate) fn is_current(&self, encrypted: &Encrypted<T, V>) -> bool {
        let header = self.table.current_header();
        header.is_ok_and(|header| encrypted.as_bytes().starts_with(&header))
    }

    pub(crate) fn rekey(
        &self,
        column: &ColumnName,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<RekeyValues> {
        self.call(RekeyValues::new(column.clone(), progress))
    }

    pub(crate) fn rekeyed(call: PackCall<RekeyValues>) -> Result<Rekeyed, Problem> {
        let (rekeyed, problem) = call.into_work().into_outcome();
        problem.map_or(Ok(rekeyed), Err)
    }

    pub(crate) fn verify(
        &self,
        column: &ColumnName,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<VerifyValues> {
        self.call(VerifyValues::new(column.clone(), progress))
    }

    pub(crate) fn verified(call: PackCall<VerifyValues>) -> Verified {
        call.into_work().into_verified()
    }

    fn invalid_value(&self, id: u128, reason: String) -> Problem {
        Problem::Value { location: self.table.location(Kind::Value, id), reason }
    }
}

/// Returns the statements that create the table of settings and dictionaries of a column.
#[track_caller]
pub(crate) fn create_sql(dialect: Dialect, name: &str) -> String {
    Statements::create_meta_sql(dialect, TableName::new(name).table())
}

/// Returns the statement that drops that table.
#[track_caller]
pub(crate) fn drop_sql(name: &str) -> String {
    Statements::drop_meta_sql(TableName::new(name).table())
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
