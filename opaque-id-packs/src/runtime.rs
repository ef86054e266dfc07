//! The calls that need no types, and a table of packs for tools, whose resource and values are known only at run time.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opaque_id_core::key::Key;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_sql::Dialect;

use crate::cache::CacheStats;
use crate::call::{
    Change, Configure, Damage, Erase, Get, Merge, Merged, Open, PackCall, Page, Put, Rekey,
    RekeyValues, Rekeyed, Rest, Restore, Train, Verified, Verify, VerifyValues, Work,
};
use crate::column::ColumnName;
use crate::dictionary::trained;
use crate::encoding::Encoding;
use crate::error::{Location, Problem};
use crate::format::{Kind, Row, Value};
use crate::group::Group;
use crate::name::TableName;
use crate::order;
use crate::settings::{Contents, Settings};
use crate::statement::{IdColumn, Statements};
use crate::table::{Expected, Table};

/// The calls on a table that need no types, and their results.
#[derive(Clone, Debug)]
pub struct Calls {
    pub(crate) table: Arc<Table>,
}

impl Calls {
    /// Returns the table and the call that opens it. With contents, the call creates what the tables contain at first.
    pub(crate) fn open(
        keyring: SharedKeyring,
        domain: &str,
        name: TableName,
        ids: IdColumn,
        expected: Option<Expected>,
        contents: Option<&Contents>,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let table = Arc::new(Table::new(keyring, domain, name, ids, expected)?);
        let call = PackCall::new(&table, Open::new(&table, contents)?);
        Ok((Self { table }, call))
    }

    /// Sets how many bytes of decoded packs are cached.
    pub fn set_cache(&self, bytes: u64) {
        self.table.set_cache(bytes);
    }

    /// Returns how often the cache has had a pack.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.table.cache().map_or(CacheStats::default(), |cache| cache.stats())
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
    pub fn train(&self, bytes: usize) -> Result<PackCall<Train>, Problem> {
        Ok(self.call(Train::new(&self.table, bytes)?))
    }

    /// Returns a value as a sample without a group.
    pub(crate) fn sample<V, E: Encoding<V>>(&self, value: &V) -> Result<Value, Problem> {
        let name = self.table.name().to_owned();
        E::encode(value).map(Value::from).map_err(|reason| Problem::Value {
            location: Location { name: format!("a sample for {name}"), id: None },
            reason,
        })
    }

    /// Returns the call that trains a dictionary from samples. Samples with groups contribute only texts that many groups share.
    pub fn train_from(
        &self,
        samples: Vec<Value>,
        bytes: usize,
    ) -> Result<PackCall<Configure>, Problem> {
        let dictionary = trained(self.table.name(), &samples, bytes)?;
        Ok(self.call(Configure::new(None, Some(dictionary))))
    }

    /// Returns the call that trains a dictionary from samples that contain nothing of a person.
    pub fn train_from_public<'v, V: 'v, E: Encoding<V>>(
        &self,
        samples: impl IntoIterator<Item = &'v V>,
        bytes: usize,
    ) -> Result<PackCall<Configure>, Problem> {
        let samples = samples.into_iter().map(|value| self.sample::<V, E>(value));
        self.train_from(samples.collect::<Result<_, _>>()?, bytes)
    }

    /// Returns the call that moves recent rows into packs.
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

    /// Returns the call that encrypts everything again under the current secret and dictionary, rewrites packs with rows of erased groups, and
    /// deletes the dictionaries that have not been current for this time.
    #[must_use]
    pub fn sweep(
        &self,
        unused_for: Duration,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<Rekey> {
        self.call(Rekey::new(progress).sweeping(unused_for))
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

    /// Returns the call that encrypts the values of a column again that are not current.
    #[must_use]
    pub fn rekey_values(
        &self,
        column: &ColumnName,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<RekeyValues> {
        self.call(RekeyValues::new(column.clone(), progress))
    }

    /// Returns the call that encrypts values again that are not current, and deletes the dictionaries that have not been current for this
    /// time.
    #[must_use]
    pub fn sweep_values(
        &self,
        column: &ColumnName,
        unused_for: Duration,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<RekeyValues> {
        self.call(RekeyValues::new(column.clone(), progress).sweeping(unused_for))
    }

    /// Returns what a call has done.
    ///
    /// # Errors
    /// [`Problem`] for the first that could not be read; the others are encrypted again.
    pub fn rekeyed_values(&self, call: PackCall<RekeyValues>) -> Result<Rekeyed, Problem> {
        let (rekeyed, problem) = call.into_work().into_outcome();
        problem.map_or(Ok(rekeyed), Err)
    }

    /// Returns the call that reads all values of a column.
    #[must_use]
    pub fn verify_values(
        &self,
        column: &ColumnName,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<VerifyValues> {
        self.call(VerifyValues::new(column.clone(), progress))
    }

    /// Returns what a call has found.
    #[must_use]
    pub fn verified_values(&self, call: PackCall<VerifyValues>) -> Verified {
        call.into_work().into_verified()
    }

    /// Returns the call that erases a group.
    ///
    /// # Errors
    /// [`Problem`] if the table has no groups.
    pub fn erase(&self, group: Group) -> Result<PackCall<Erase>, Problem> {
        let id = self.table.opened()?.group_id(group);
        let id = id.ok_or_else(|| Problem::Mismatch {
            table: self.table.name().to_owned(),
            expected: "rows in groups".to_owned(),
            found: "rows without groups".to_owned(),
        })?;
        Ok(self.call(Erase::new(self.table.erased_key(id)?)))
    }

    pub(crate) fn call<W: Work>(&self, work: W) -> PackCall<W> {
        PackCall::new(&self.table, work)
    }

    /// Returns the call that writes rows to their places.
    pub(crate) fn put_rows(
        &self,
        rows: impl Iterator<Item = Result<(u128, Row), Problem>>,
    ) -> Result<PackCall<Put>, Problem> {
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        self.call(Put::new(&self.table, rows)?).ready()
    }

    /// Returns all rows as the rest of a range.
    pub(crate) fn all(&self) -> Rest {
        Rest::new(0, self.table.statements.ids().max(), false)
    }

    /// Returns the call that reads the next page, or `None` after the last one.
    pub(crate) fn page_of(&self, rest: Rest) -> Result<Option<PackCall<Page>>, Problem> {
        let page = rest.keys.map(|_| Page::new(&self.table, rest));
        Ok(page.transpose()?.map(|page| self.call(page)))
    }

    /// Returns the problem of a row whose key or value is not what was expected.
    pub(crate) fn invalid(&self, place: u128, reason: String) -> Problem {
        Problem::Value { location: self.table.location_of_row(place), reason }
    }
}

/// A table whose resource and values are known only at run time, for tools: values are the bytes that the encoding wrote.
#[derive(Debug)]
pub struct RuntimePacks<K> {
    calls: Calls,
    key: PhantomData<fn() -> K>,
}

/// A page of rows.
#[derive(Debug)]
pub struct RuntimePage<K> {
    /// The rows.
    pub rows: Vec<(K, Vec<u8>)>,
    /// Unreadable and missing packs and rows.
    pub problems: Vec<Problem>,
}

impl<K: Key> RuntimePacks<K> {
    /// Returns the table with this name, which must be valid, and the call that opens it. Only its settings say whether its
    /// order is [encrypted](Self::hides_keys).
    pub fn open(
        keyring: impl Into<SharedKeyring>,
        domain: &str,
        name: impl Into<TableName>,
        hides_keys: bool,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<K::Repr>(hides_keys);
        let (calls, call) = Calls::open(keyring.into(), domain, name.into(), ids, None, None)?;
        let key = PhantomData;
        Ok((Self { calls, key }, call))
    }

    /// Returns the table with this name, and the call that opens it and, if it is new and empty, writes what it contains at first.
    pub fn create(
        keyring: impl Into<SharedKeyring>,
        domain: &str,
        name: impl Into<TableName>,
        settings: Settings,
        encoding: &str,
        hides_keys: bool,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<K::Repr>(hides_keys);
        let contents = Contents::new(settings, encoding, hides_keys, false);
        let (calls, call) =
            Calls::open(keyring.into(), domain, name.into(), ids, None, Some(&contents))?;
        Ok((Self { calls, key: PhantomData }, call))
    }

    /// Returns the call that opens an encrypted column and, if it has none, writes its settings.
    pub fn create_column(
        keyring: impl Into<SharedKeyring>,
        domain: &str,
        name: impl Into<TableName>,
        settings: Settings,
        encoding: &str,
    ) -> Result<(Self, PackCall<Open>), Problem> {
        let ids = order::id_column::<K::Repr>(false);
        let contents = Contents::new(settings, encoding, false, false);
        let table = Table::new(keyring.into(), domain, name.into(), ids, None)?;
        let calls = Calls { table: Arc::new(table) };
        let call = calls.call(Open::column(&calls.table, Some(&contents))?);
        Ok((Self { calls, key: PhantomData }, call))
    }

    /// Returns the statements that create the table of an encrypted column's settings.
    #[must_use]
    pub fn create_column_sql(dialect: Dialect, name: &str) -> String {
        Statements::create_column_sql(dialect, name, false)
    }

    /// Returns the column of a text such as `customers.notes`, with ids in another one, if these are names.
    #[must_use]
    pub fn column(text: &str, id: &str) -> Option<ColumnName> {
        ColumnName::parse(text, id)
    }

    /// Returns the query that counts the values of a column.
    #[must_use]
    pub fn count_values_sql(dialect: Dialect, column: &ColumnName) -> String {
        let [table, _, value] = column.quoted(dialect);
        format!("SELECT count({value}) FROM {table}")
    }

    /// Returns the statements that create the tables.
    #[must_use]
    pub fn create_sql(dialect: Dialect, name: &str, hides_keys: bool) -> String {
        Statements::create_sql(dialect, name, order::id_column::<K::Repr>(hides_keys), false)
    }

    /// Returns whether rows are by encrypted key.
    pub fn hides_keys(&self) -> Result<bool, Problem> {
        Ok(self.table.opened()?.contents.order.is_some())
    }

    /// Returns whether the rows of another table are in the same order and encoding.
    pub fn is_backup(&self, other: &Self) -> Result<bool, Problem> {
        let (this, other) = (self.table.opened()?, other.table.opened()?);
        let (this, other) = (&this.contents, &other.contents);
        Ok((&this.order, &this.groups, &this.encoding)
            == (&other.order, &other.groups, &other.encoding))
    }

    /// Returns the name of the values' encoding.
    pub fn encoding(&self) -> Result<String, Problem> {
        Ok(self.table.opened()?.contents.encoding.clone())
    }

    /// Returns the keys of packs and recent rows that cannot be read or are missing; unless `is_forced`, without those that another
    /// secret or a dictionary may be able to read.
    pub fn damage(verified: &Verified, is_forced: bool) -> impl Iterator<Item = Damage> {
        let damage = verified.damage.iter().copied();
        damage.filter(move |damage| damage.is_certain || is_forced)
    }

    /// Returns what of another table, which must be a backup of this one, is about damaged keys.
    #[must_use]
    pub fn backup_of(&self, damage: Damage) -> Rest {
        let last = match damage.end {
            Some(end) => end - 1,
            None => self.table.statements.ids().max(),
        };
        Rest::new(damage.first, last, false)
    }

    /// Returns the call that reads the next page of a [backup](Self::backup_of), or `None` after the last one. Nothing is left out.
    pub fn next_of_backup(&self, rest: Rest) -> Result<Option<PackCall<Page>>, Problem> {
        self.page_of(rest)
    }

    /// Returns the rows that the call has read, by their places, and the rest.
    ///
    /// # Errors
    /// [`Problem`] if a row cannot be read.
    pub fn rows_of_backup(call: PackCall<Page>) -> Result<(Vec<(u128, Value)>, Rest), Problem> {
        let (rows, rest) = call.into_work().take_rows();
        let rows = rows.into_iter().map(|(place, row)| Ok((place, row.map_err(|it| *it)?)));
        Ok((rows.collect::<Result<_, _>>()?, rest))
    }

    /// Returns the call that writes rows of a backup into packs, if the damage is still there.
    pub fn restore(
        &self,
        damage: Damage,
        rows: Vec<(u128, Value)>,
    ) -> Result<PackCall<Restore>, Problem> {
        Ok(self.call(Restore::new(damage, rows)))
    }

    /// Returns whether the call has written packs.
    #[must_use]
    pub fn is_restored(call: PackCall<Restore>) -> bool {
        call.into_work().is_restored()
    }

    /// Returns where the first of damaged keys is.
    #[must_use]
    pub fn location_of(&self, damage: Damage) -> Location {
        let kind = if damage.recent.is_some() { Kind::Row } else { Kind::Pack };
        self.table.location(kind, damage.first)
    }

    /// Returns the call that reads the rows of keys.
    pub fn get(&self, keys: impl IntoIterator<Item = K>) -> Result<PackCall<Get>, Problem> {
        let state = self.table.opened()?;
        let keys = keys.into_iter().map(|key| state.place(order::number(key.into_repr())));
        Ok(self.call(Get::new(&self.table, keys.collect())))
    }

    /// Returns how to ask whether the call has found the row of a key.
    pub fn found(&self, call: PackCall<Get>) -> Result<impl Fn(K) -> bool + use<K>, Problem> {
        let state = self.table.opened()?;
        let found = call.into_work().into_found();
        Ok(move |key: K| found.contains_key(&state.place(order::number(key.into_repr()))))
    }

    /// Returns the call that inserts a row, and leaves one that is there as it is, and whether it has inserted it.
    pub fn insert(
        &self,
        key: K,
        value: Vec<u8>,
    ) -> Result<(PackCall<Change>, Arc<AtomicBool>), Problem> {
        let place = self.table.opened()?.place(order::number(key.into_repr()));
        let inserted = Arc::new(AtomicBool::new(false));
        let is_new = Arc::clone(&inserted);
        let compute = move |found: Option<&[u8]>| {
            is_new.store(found.is_none(), Ordering::Relaxed);
            Ok(found.is_none().then(|| Row::Value(value.clone().into())))
        };
        Ok((self.call(Change::new(place, compute)), inserted))
    }

    /// Returns the call that writes rows.
    pub fn put(&self, rows: Vec<(K, Vec<u8>)>) -> Result<PackCall<Put>, Problem> {
        let state = self.table.opened()?;
        self.put_rows(rows.into_iter().map(|(key, value)| {
            let place = state.place(order::number(key.into_repr()));
            Ok((place, Row::Value(value.into())))
        }))
    }

    /// Returns the pages of all rows.
    #[must_use]
    pub fn scan(&self) -> Rest {
        self.all()
    }

    /// Returns the call that reads the next page, or `None` after the last one.
    pub fn next_page(&self, rest: Rest) -> Result<Option<PackCall<Page>>, Problem> {
        let page = rest.keys.map(|_| Page::new(&self.table, rest));
        Ok(page.transpose()?.map(|page| self.call(page.lenient())))
    }

    /// Returns a page, and the rest.
    pub fn page(&self, call: PackCall<Page>) -> Result<(RuntimePage<K>, Rest), Problem> {
        let mut page = call.into_work();
        let mut problems = page.take_problems();
        let (found, rest) = page.take_rows();
        let state = self.table.opened()?;
        let mut rows = Vec::with_capacity(found.len());
        for (place, value) in found {
            let repr = order::key(state.number(place)).filter(|repr| K::check(*repr).is_ok());
            match (repr, value) {
                (Some(repr), Ok(value)) => rows.push((K::from_checked(repr), value.bytes)),
                (_, Err(problem)) => problems.push(*problem),
                (None, Ok(_)) => {
                    let reason = format!("expected a key of kind {}", K::KIND);
                    problems.push(self.invalid(place, reason));
                }
            }
        }
        Ok((RuntimePage { rows, problems }, rest))
    }
}

impl<K> Deref for RuntimePacks<K> {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}
