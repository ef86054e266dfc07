//! The content of every adapter's `PackTable`: builds the calls and converts their results into keys and values.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_core::{IdRange, OpaqueId};
use opaque_id_sql::Dialect;

use crate::call::{Change, DeleteRange, Get, Open, PackCall, Page, Put, Rest};
use crate::encoding::Encoding;
use crate::error::Problem;
use crate::format::{Row, Value};
use crate::name::TableName;
use crate::order::{self, Order};
use crate::runtime::Calls;
use crate::settings::{Contents, Settings};
use crate::statement::Statements;
use crate::table::Expected;

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

/// The content of every adapter's `PackTable`: the calls whose arguments or results have its types. All others are those of
/// `Calls`, which it dereferences to.
pub struct Packs<T, V, E, O> {
    calls: Calls,
    types: Types<T, V, E, O>,
}

impl<T: OpaqueId, V, E: Encoding<V>, O: Order> Packs<T, V, E, O> {
    /// Returns the table and the call that opens it. With settings, the call creates what the tables contain at first.
    pub fn open(
        keyring: SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<ReprOf<T>>(O::HIDES_KEYS);
        let expected =
            Expected { encoding: E::NAME, hides_keys: O::HIDES_KEYS, is_grouped: E::IS_GROUPED };
        let contents =
            settings.map(|settings| Contents::new(settings, E::NAME, O::HIDES_KEYS, E::IS_GROUPED));
        let contents = contents.as_ref();
        let (calls, call) = Calls::open(keyring, T::DOMAIN, name, ids, Some(expected), contents)?;
        let types = PhantomData;
        Ok((Self { calls, types }, call))
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
            E::IS_GROUPED,
        )
    }

    /// Returns the statements that drop the tables.
    ///
    /// # Panics
    /// If the table's name is invalid.
    #[must_use]
    #[track_caller]
    pub fn drop_sql(name: &str) -> String {
        Statements::drop_sql(TableName::new(name).table(), E::IS_GROUPED)
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
        self.put_rows(rows.into_iter().map(|(id, value)| {
            let key = self.place(id)?;
            Ok((key, self.row(key, value)?))
        }))
    }

    /// Returns the call that deletes rows.
    pub fn delete(&self, ids: &[T::Internal]) -> Result<PackCall<Put>, Problem> {
        self.put_rows(ids.iter().map(|id| Ok((self.place(*id)?, Row::Deleted))))
    }

    /// Returns the call that reads rows.
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
            let value = value.map(|bytes| packs.value(key, bytes.to_owned().into()));
            Ok(match change(value.transpose()?) {
                Update::Keep => None,
                Update::Delete => Some(Row::Deleted),
                Update::Put(value) => Some(packs.row(key, &value)?),
            })
        };
        Ok(self.call(Change::new(key, compute)))
    }

    /// Returns the pages of all rows.
    #[must_use]
    pub fn scan(&self) -> Pages<T> {
        Pages { rest: self.all(), resource: PhantomData }
    }

    /// Returns the pages of a range.
    #[must_use]
    pub fn range(&self, range: IdRange<T::Internal>, is_descending: bool) -> Pages<T> {
        let (first, last) =
            (order::number(*range.first().as_repr()), order::number(*range.last().as_repr()));
        Pages { rest: Rest::new(first, last, is_descending), resource: PhantomData }
    }

    /// Returns the call that deletes the rows of a range.
    pub fn delete_range(
        &self,
        range: IdRange<T::Internal>,
    ) -> Result<PackCall<DeleteRange>, Problem> {
        Ok(self.call(DeleteRange::new(&self.table, self.range(range, false).rest)?))
    }

    /// Returns how many rows a call has deleted.
    #[must_use]
    pub fn deleted(&self, call: PackCall<DeleteRange>) -> u64 {
        call.into_work().into_deleted()
    }

    /// Returns the call that reads the next page, or `None` after the last one.
    pub fn next_page(&self, pages: &Pages<T>) -> Result<Option<PackCall<Page>>, Problem> {
        self.page_of(pages.rest)
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
            let value = match bytes {
                Ok(bytes) => self.value(place, bytes)?,
                Err(problem) => E::unreadable(with_source(&problem)).ok_or(*problem)?,
            };
            Ok((id, value))
        });
        let rows = rows.collect::<Result<_, _>>()?;
        pages.rest = rest;
        Ok(rows)
    }

    /// Returns where a row is in the table.
    fn place(&self, id: T::Internal) -> Result<u128, Problem> {
        Ok(self.table.opened()?.place(order::number(*id.as_repr())))
    }

    fn row(&self, place: u128, value: &V) -> Result<Row, Problem> {
        let bytes = E::encode(value).map_err(|reason| self.invalid(place, reason))?;
        let state = self.table.opened()?;
        let group = E::group(value).and_then(|group| state.group_id(group));
        Ok(Row::Value(Value { bytes, group }))
    }

    fn value(&self, place: u128, value: Value) -> Result<V, Problem> {
        E::decode(value.bytes).map_err(|reason| self.invalid(place, reason))
    }
}

/// Returns a message with its reason.
fn with_source(problem: &Problem) -> String {
    let source = std::error::Error::source(problem);
    source.map_or_else(|| problem.to_string(), |source| format!("{problem}: {source}"))
}

impl<T, V, E, O> Deref for Packs<T, V, E, O> {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

impl<T, V, E, O> Clone for Packs<T, V, E, O> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), types: PhantomData }
    }
}

impl<T, V, E, O> fmt::Debug for Packs<T, V, E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PackTable").field(&self.table.name()).finish()
    }
}
