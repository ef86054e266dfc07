//! The content of every adapter's `PackTable`: builds the calls and converts their results into keys and values.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_core::{IdRange, OpaqueId};
use opaque_id_sql::Dialect;

use crate::call::{
    Change, Configure, Get, Merge, Merged, Open, PackCall, Page, Put, Rekey, Rekeyed, Rest, Train,
    Verified, Verify, Work,
};
use crate::encoding::Encoding;
use crate::error::Problem;
use crate::format::{Kind, Row};
use crate::name::TableName;
use crate::order::{self, Order};
use crate::settings::{Contents, Settings};
use crate::statement::Statements;
use crate::table::{Expected, Table};

/// The result of an [`update`](crate#updates) for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update<V> {
    /// Leave it as it is.
    Keep,
    /// Replace it by this value, or insert it.
    Put(V),
    /// Delete it.
    Delete,
}

/// The unread pages of a listing.
#[derive(Clone, Debug)]
pub struct Pages<T> {
    rest: Rest,
    resource: PhantomData<fn() -> T>,
}

/// The types are those of arguments and results, and not contained.
type Types<T, V, E, O> = PhantomData<fn() -> (T, V, E, O)>;

/// The content of every adapter's `PackTable`: its calls and their results.
pub struct Packs<T, V, E, O> {
    table: Arc<Table>,
    types: Types<T, V, E, O>,
}

impl<T: OpaqueId, V, E: Encoding<V>, O: Order> Packs<T, V, E, O> {
    /// Returns the table and the call that opens it. With settings, the call creates what the tables contain at first.
    ///
    /// # Errors
    /// [`Problem`] if the settings are invalid.
    pub fn open(
        keyring: SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<ReprOf<T>>(O::HIDES_KEYS);
        let expected = Expected {
            encoding: E::NAME,
            hides_keys: O::HIDES_KEYS,
        };
        let table = Table::new(keyring, T::DOMAIN, name, ids, Some(expected))?;
        let table = Arc::new(table);
        let contents = settings.map(|settings| Contents {
            settings,
            dictionary: 0,
            encoding: E::NAME.to_owned(),
            order: O::HIDES_KEYS.then(order::random_key),
        });
        let call = PackCall::new(&table, Open::new(&table, contents.as_ref())?);
        let types = PhantomData;
        Ok((Self { table, types }, call))
    }

    /// Returns the statements that create the tables.
    ///
    /// # Panics
    /// If the table's name is invalid.
    #[must_use]
    #[track_caller]
    pub fn create_sql(dialect: Dialect, name: &str) -> String {
        Statements::create_sql(
            dialect,
            TableName::new(name).table(),
            order::id_column::<ReprOf<T>>(O::HIDES_KEYS),
        )
    }

    /// Returns the statements that drop the tables.
    ///
    /// # Panics
    /// If the table's name is invalid.
    #[must_use]
    #[track_caller]
    pub fn drop_sql(name: &str) -> String {
        Statements::drop_sql(TableName::new(name).table())
    }

    /// Sets how many bytes of decoded packs are cached.
    pub fn set_cache(&self, bytes: u64) {
        self.table.set_cache(bytes);
    }

    /// Returns the settings.
    ///
    /// # Panics
    /// Before the table is opened.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let state = self.table.opened().expect("an open table");
        state.contents.settings.clone()
    }

    /// Returns the call that replaces the settings.
    #[must_use]
    pub fn configure(&self, settings: Settings) -> PackCall<Configure> {
        self.call(Configure::new(Some(settings), None))
    }

    /// Returns the call that trains a dictionary.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn train(&self, bytes: usize) -> Result<PackCall<Train>, Problem> {
        Ok(self.call(Train::new(&self.table, bytes)?))
    }

    /// Returns the call that writes rows.
    ///
    /// # Errors
    /// [`Problem`] if a value cannot be encoded.
    pub fn put<'v>(
        &self,
        rows: impl IntoIterator<Item = (T::Internal, &'v V)>,
    ) -> Result<PackCall<Put>, Problem>
    where
        V: 'v,
    {
        let rows = rows.into_iter().map(|(id, value)| {
            let key = self.place(id)?;
            let value = E::encode(value).map_err(|reason| self.invalid(key, reason))?;
            Ok((key, Row::Value(value)))
        });
        let rows = rows.collect::<Result<Vec<_>, Problem>>()?;
        Ok(self.call(Put::new(&self.table, rows)?))
    }

    /// Returns the call that deletes rows.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn delete(&self, ids: &[T::Internal]) -> Result<PackCall<Put>, Problem> {
        let rows = ids.iter().map(|id| Ok((self.place(*id)?, Row::Deleted)));
        let rows = rows.collect::<Result<Vec<_>, Problem>>()?;
        Ok(self.call(Put::new(&self.table, rows)?))
    }

    /// Returns the call that reads rows.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn get(&self, ids: &[T::Internal]) -> Result<PackCall<Get>, Problem> {
        let keys = ids.iter().map(|id| self.place(*id));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        Ok(self.call(Get::new(&self.table, keys)))
    }

    /// Returns the values of these ids, in their order.
    ///
    /// # Errors
    /// [`Problem`] if bytes are no value.
    pub fn found(
        &self,
        call: PackCall<Get>,
        ids: &[T::Internal],
    ) -> Result<Vec<Option<V>>, Problem> {
        let mut found = call.into_work().into_found();
        let mut last_use = HashMap::new();
        for (i, id) in ids.iter().enumerate() {
            last_use.insert(self.place(*id)?, i);
        }
        let values = ids.iter().enumerate().map(|(i, id)| {
            let key = self.place(*id)?;
            // An id may be asked for twice.
            let bytes = match last_use.get(&key) == Some(&i) {
                true => found.remove(&key),
                false => found.get(&key).cloned(),
            };
            bytes.map(|bytes| self.value(key, bytes)).transpose()
        });
        values.collect()
    }

    /// Returns the call that changes a row.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn update(
        &self,
        id: T::Internal,
        mut change: impl FnMut(Option<V>) -> Update<V> + Send + 'static,
    ) -> Result<PackCall<Change>, Problem>
    where
        T: 'static,
        V: 'static,
    {
        let key = self.place(id)?;
        let packs = self.clone();
        let compute = move |value: Option<&[u8]>| {
            let value = value.map(|bytes| packs.value(key, bytes.to_owned()));
            Ok(match change(value.transpose()?) {
                Update::Keep => None,
                Update::Delete => Some(Row::Deleted),
                Update::Put(value) => {
                    let value = E::encode(&value).map_err(|reason| packs.invalid(key, reason))?;
                    Some(Row::Value(value))
                }
            })
        };
        Ok(self.call(Change::new(key, compute)))
    }

    /// Returns the call that moves recent rows into packs.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn merge(&self, all: bool) -> Result<PackCall<Merge>, Problem> {
        Ok(self.call(Merge::new(&self.table, all)?))
    }

    /// Returns what a call has done.
    ///
    /// # Errors
    /// [`Problem`] for the first pack that could not be read; the rows of others are merged.
    pub fn merged(&self, call: PackCall<Merge>) -> Result<Merged, Problem> {
        let (merged, problem) = call.into_work().into_outcome();
        #[cfg(feature = "metrics")]
        crate::metrics::record(self.table.name(), &merged);
        problem.map_or(Ok(merged), Err)
    }

    /// Returns the call that encrypts again what is not current.
    #[must_use]
    pub fn rekey(&self, progress: impl FnMut(u64) + Send + 'static) -> PackCall<Rekey> {
        self.call(Rekey::new(progress))
    }

    /// Returns what a call has done.
    ///
    /// # Errors
    /// [`Problem`] for the first that could not be read; the others are encrypted again.
    pub fn rekeyed(&self, call: PackCall<Rekey>) -> Result<Rekeyed, Problem> {
        let (rekeyed, problem) = call.into_work().into_outcome();
        problem.map_or(Ok(rekeyed), Err)
    }

    /// Returns the call that reads everything.
    #[must_use]
    pub fn verify(&self, progress: impl FnMut(u64) + Send + 'static) -> PackCall<Verify> {
        self.call(Verify::new(progress))
    }

    /// Returns what a call has found.
    #[must_use]
    pub fn verified(&self, call: PackCall<Verify>) -> Verified {
        call.into_work().into_verified()
    }

    /// Returns the pages of all rows.
    #[must_use]
    pub fn scan(&self) -> Pages<T> {
        Pages {
            rest: Rest::new(0, self.table.statements.ids().max(), false),
            resource: PhantomData,
        }
    }

    /// Returns the pages of a range.
    #[must_use]
    pub fn range(&self, range: IdRange<T::Internal>, is_descending: bool) -> Pages<T> {
        let (first, last) = (
            order::number(*range.first().as_repr()),
            order::number(*range.last().as_repr()),
        );
        Pages {
            rest: Rest::new(first, last, is_descending),
            resource: PhantomData,
        }
    }

    /// Returns the call that reads the next page, or `None` after the last one.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn next_page(&self, pages: &Pages<T>) -> Result<Option<PackCall<Page>>, Problem> {
        if pages.rest.keys.is_none() {
            return Ok(None);
        }
        Ok(Some(self.call(Page::new(&self.table, pages.rest)?)))
    }

    /// Returns the rows of a page, and goes on to the next one.
    ///
    /// # Errors
    /// [`Problem`] if bytes are no value, or a key is none of the resource's.
    pub fn page(
        &self,
        call: PackCall<Page>,
        pages: &mut Pages<T>,
    ) -> Result<Vec<(T::Internal, V)>, Problem> {
        let (rows, rest) = call.into_work().take_rows();
        let state = self.table.opened()?;
        let rows = rows.into_iter().map(|(place, bytes)| {
            let id =
                order::key(state.number(place)).and_then(|repr| T::Internal::from_repr(repr).ok());
            let id =
                id.ok_or_else(|| self.invalid(place, format!("expected a key of {}", T::PREFIX)))?;
            Ok((id, self.value(place, bytes)?))
        });
        let rows = rows.collect::<Result<_, _>>()?;
        pages.rest = rest;
        Ok(rows)
    }

    fn call<W: Work>(&self, work: W) -> PackCall<W> {
        PackCall::new(&self.table, work)
    }

    /// Returns where a row is in the table.
    fn place(&self, id: T::Internal) -> Result<u128, Problem> {
        Ok(self.table.opened()?.place(order::number(*id.as_repr())))
    }

    fn value(&self, place: u128, bytes: Vec<u8>) -> Result<V, Problem> {
        E::decode(bytes).map_err(|reason| self.invalid(place, reason))
    }

    fn invalid(&self, place: u128, reason: String) -> Problem {
        let location = self.table.location(Kind::Row, place);
        Problem::Value { location, reason }
    }
}

impl<T, V, E, O> Clone for Packs<T, V, E, O> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            types: PhantomData,
        }
    }
}

impl<T, V, E, O> fmt::Debug for Packs<T, V, E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PackTable")
            .field(&self.table.name())
            .finish()
    }
}
