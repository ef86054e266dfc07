use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::InternalId;
use opaque_id_core::{IdRange, OpaqueId};

use crate::call::{self, Calls, PackCall, UnreadRange};
use crate::encoding::Encoding;
use crate::error::TableError;
use crate::format::{Row, Value};
use crate::name::TableName;
use crate::order::{self, Order};
use crate::settings::Settings;
use crate::table::Requirements;

/// The result of an `update` for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update<V> {
    /// Leave the row as it is.
    Keep,
    /// Replace the row by this value, or insert it.
    Put(V),
    /// Delete the row.
    Delete,
}

/// The unread pages of a listing.
#[derive(Clone, Debug)]
pub struct Pages<T> {
    rest: UnreadRange,
    resource: PhantomData<fn() -> T>,
}

type Rows<T, V> = Vec<(<T as OpaqueId>::Internal, V)>;

type Types<T, V, E, O> = PhantomData<fn() -> (T, V, E, O)>;

/// The content of every adapter's `PackTable`: the typed calls. It dereferences to `Calls` for the others.
pub struct Packs<T, V, E, O> {
    calls: Calls,
    types: Types<T, V, E, O>,
}

#[doc(hidden)]
impl<T: OpaqueId, V, E: Encoding<V>, O: Order> Packs<T, V, E, O> {
    /// Opens the table. With settings, the call creates the initial content of the tables.
    pub fn open<'c>(
        keyring: SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<PackCall<'c, Self>, TableError>
    where
        Self: 'c,
    {
        let (hides_keys, is_grouped) = (O::HIDES_KEYS, E::IS_GROUPED);
        let expected = Requirements { encoding: E::NAME, hides_keys, is_grouped };
        let call = Calls::open_typed::<T>(keyring, name, expected, settings, false)?;
        Ok(call.map(|calls| Self { calls, types: PhantomData }))
    }

    pub fn put<'v>(
        &self,
        rows: impl IntoIterator<Item = (T::Internal, &'v V)>,
    ) -> PackCall<'static, ()>
    where
        V: 'v,
    {
        self.put_rows(rows.into_iter().map(|(id, value)| {
            let key = self.place(id)?;
            Ok((key, self.row(key, value)?))
        }))
    }

    pub fn delete(&self, ids: &[T::Internal]) -> PackCall<'static, ()> {
        self.put_rows(ids.iter().map(|id| Ok((self.place(*id)?, Row::Deleted))))
    }

    pub fn get<'c>(&'c self, ids: &'c [T::Internal]) -> PackCall<'c, Vec<Option<V>>> {
        self.call(move |session| async move {
            let places = ids.iter().map(|id| self.place(*id)).collect::<Result<Vec<_>, _>>()?;
            let found = call::get(session, places.clone()).await?;
            let value = |place: &u128| {
                let bytes = found.get(place).cloned();
                bytes.map(|bytes| self.value(*place, bytes)).transpose()
            };
            places.iter().map(value).collect()
        })
    }

    pub fn get_one(&self, id: T::Internal) -> PackCall<'_, Option<V>> {
        self.call(move |session| async move {
            let place = self.place(id)?;
            let bytes = call::get(session, vec![place]).await?.remove(&place);
            bytes.map(|bytes| self.value(place, bytes)).transpose()
        })
    }

    pub fn update<'c>(
        &'c self,
        id: T::Internal,
        mut change: impl FnMut(Option<V>) -> Update<V> + Send + 'c,
    ) -> PackCall<'c, ()> {
        self.call(move |session| async move {
            let key = self.place(id)?;
            let compute = |value: Option<&[u8]>| {
                let value = value.map(|bytes| self.value(key, bytes.to_owned().into()));
                Ok(match change(value.transpose()?) {
                    Update::Keep => None,
                    Update::Delete => Some(Row::Deleted),
                    Update::Put(value) => Some(self.row(key, &value)?),
                })
            };
            let mut session = session.connect().await;
            call::change(&mut session, key, compute).await?;
            session.end(()).await
        })
    }

    #[must_use]
    pub fn scan(&self) -> Pages<T> {
        Pages { rest: self.all(), resource: PhantomData }
    }

    #[must_use]
    pub fn range(&self, range: IdRange<T::Internal>, is_descending: bool) -> Pages<T> {
        let number = |id: T::Internal| order::number(*id.as_repr());
        let rest = UnreadRange::new(number(range.first()), number(range.last()), is_descending);
        Pages { rest, resource: PhantomData }
    }

    pub fn delete_range(&self, range: IdRange<T::Internal>) -> PackCall<'static, u64> {
        self.delete_rows(self.range(range, false).rest)
    }

    /// Returns the rows of the next page and advances. Returns `None` after the last page.
    pub fn next_page<'c>(&'c self, pages: &'c mut Pages<T>) -> PackCall<'c, Option<Rows<T, V>>> {
        self.call(move |session| async move {
            if pages.rest.keys.is_none() {
                return Ok(None);
            }
            let page = call::page(session, pages.rest, false).await?;
            let state = self.table.opened()?;
            let rows = page.rows.into_iter().map(|(place, bytes)| {
                let id = order::key(state.number(place));
                let id = id.and_then(|repr| T::Internal::from_repr(repr).ok());
                let id = id.ok_or_else(|| {
                    self.invalid(place, format!("expected a key of {}", T::PREFIX))
                })?;
                let value = match bytes {
                    Ok(bytes) => self.value(place, bytes)?,
                    Err(problem) => E::unreadable(with_source(&problem)).ok_or(*problem)?,
                };
                Ok((id, value))
            });
            let rows = rows.collect::<Result<_, _>>()?;
            pages.rest = page.rest;
            Ok(Some(rows))
        })
    }

    fn place(&self, id: T::Internal) -> Result<u128, TableError> {
        Ok(self.table.opened()?.place(order::number(*id.as_repr())))
    }

    fn row(&self, place: u128, value: &V) -> Result<Row, TableError> {
        let bytes = E::encode(value).map_err(|reason| self.invalid(place, reason))?;
        let state = self.table.opened()?;
        let group = E::group(value).and_then(|group| state.group_id(group));
        Ok(Row::Value(Value::new(bytes, group)))
    }

    fn value(&self, place: u128, value: Value) -> Result<V, TableError> {
        E::decode(&value).map_err(|reason| self.invalid(place, reason))
    }
}

fn with_source(problem: &TableError) -> String {
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
