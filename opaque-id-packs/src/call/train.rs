//! Replaces the settings, and trains dictionaries from rows of the table.

use super::session::Attempts;
use super::{Calls, Disconnected, PackCall, Page, Session, UnreadRange};
use crate::dictionary::trained;
use crate::encoding::Encoding;
use crate::error::{Location, TableError};
use crate::format::Value;
use crate::settings::{Settings, TableMetadata};
use crate::table::next_version;

/// A multiple of the dictionary's size.
const SAMPLED: usize = 100;

/// The search for shared texts takes a second per megabyte.
const SHARED: usize = 4 << 20;

impl Calls {
    pub fn configure(&self, settings: Settings) -> PackCall<'static, ()> {
        self.connected(async move |mut session| {
            write(&mut session, |contents| contents.settings = settings.clone()).await?;
            session.learn().await?;
            session.end(()).await
        })
    }

    /// Two clients make the same key if they have the same sealing secret, and otherwise the first one to
    /// write it wins.
    pub fn make_index(&self) -> PackCall<'static, ()> {
        self.connected(async move |mut session| {
            session.refresh_if_due().await?;
            if session.state()?.index.is_none() {
                // `fingerprint` runs no statement, and would go on with a key that a rollback has removed.
                if session.is_in_transaction() {
                    return Err(session.table.in_transaction("the first call of `with_index`"));
                }
                let key = session.table.derive_index()?;
                write(&mut session, |contents| contents.keep_index(&key)).await?;
                session.learn().await?;
            }
            session.end(()).await
        })
    }

    pub fn train(&self, bytes: usize) -> PackCall<'static, ()> {
        self.connected(async move |mut session| {
            let enough = bytes.saturating_mul(SAMPLED);
            let enough = match session.state()?.groups {
                Some(_) => enough.min(SHARED),
                None => enough,
            };
            let (mut samples, mut sampled) = (Vec::new(), 0);
            let mut rest = UnreadRange::new(0, session.table.statements.ids().max(), true);
            while rest.keys.is_some() && sampled < enough {
                let page = Page::read(&mut session, rest).await?;
                rest = page.rest;
                let rows = page.rows.into_iter().filter_map(|(_, row)| row.ok());
                samples.extend(rows.inspect(|row| sampled += row.len()));
            }
            let dictionary = trained(session.table.name(), &samples, bytes)?;
            add(&mut session, &dictionary).await?;
            session.end(()).await
        })
    }

    /// Trains a dictionary from samples. Samples with groups contribute only texts that many groups share.
    pub fn train_from(
        &self,
        samples: Result<Vec<Value>, TableError>,
        bytes: usize,
    ) -> PackCall<'static, ()> {
        self.call(async move |session: Disconnected| {
            let dictionary = trained(session.table.name(), &samples?, bytes)?;
            let mut session = session.connect().await;
            add(&mut session, &dictionary).await?;
            session.end(()).await
        })
    }

    pub fn train_from_public<'v, V: 'v, E: Encoding<V>>(
        &self,
        samples: impl IntoIterator<Item = &'v V>,
        bytes: usize,
    ) -> PackCall<'static, ()> {
        let samples = samples.into_iter().map(|value| self.sample::<V, E>(value));
        self.train_from(samples.collect(), bytes)
    }

    pub(crate) fn sample<V, E: Encoding<V>>(&self, value: &V) -> Result<Value, TableError> {
        let name = format!("a sample for {}", self.table.name());
        E::encode(value)
            .map(Value::from)
            .map_err(|reason| TableError::Value { location: Location { name, id: None }, reason })
    }
}

async fn write(
    session: &mut Session,
    change: impl Fn(&mut TableMetadata),
) -> Result<(), TableError> {
    let mut attempts = Attempts::default();
    loop {
        session.learn().await?;
        let state = session.state()?;
        let mut contents = state.contents.clone();
        change(&mut contents);
        session.table.check_settings(&contents)?;
        session.table.check_change(&state.contents, &contents)?;
        let new = session.table.encrypt_settings(state.version + 1, &contents)?;
        if session.write(session.sql().update_meta(&new)).await? > 0 {
            return Ok(());
        }
        attempts.wait_after_loss(session).await?;
    }
}

/// Other calls of the process would go on with a dictionary that a rollback has removed.
async fn add(session: &mut Session, dictionary: &[u8]) -> Result<(), TableError> {
    if session.is_in_transaction() {
        return Err(session.table.in_transaction("`train`"));
    }
    let mut attempts = Attempts::default();
    let (added, stored) = loop {
        session.learn().await?;
        let id = session.state()?.last_dictionary.checked_add(1);
        let full = "expected room for another dictionary, found 65,535";
        let id = id.ok_or_else(|| session.table.settings_problem(full))?;
        let stored = session.table.encrypt_meta(id, next_version(0), dictionary)?;
        // Another client may have added one with the same number.
        if session.write_unless_duplicate(session.sql().insert_meta(&stored)).await? > 0 {
            break (id, stored);
        }
        attempts.wait_after_loss(session).await?;
    };
    let now = session.unix_seconds().await?;
    write(session, |contents| {
        // Another client may have added a later one meanwhile, and rows may already use it.
        if added > contents.dictionary {
            contents.dictionary = added;
            contents.dictionary_since = now;
        }
    })
    .await?;
    // A failover between the two writes may have lost the dictionary.
    session.write_unless_duplicate(session.sql().insert_meta(&stored)).await?;
    session.learn().await.map(drop)
}
