use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use opaque_id_core::OpaqueId;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::InternalId;

use crate::call::{Calls, Conversion, Converted, Disconnected, PackCall, Reader, Verified};
use crate::column::ColumnName;
use crate::encoding::Encoding;
use crate::encrypted::Encrypted;
use crate::error::TableError;
use crate::format::{GroupKeys, Kind, PackCipher, Value};
use crate::index::Fingerprint;
use crate::name::TableName;
use crate::order;
use crate::settings::Settings;
use crate::stored::Tier;
use crate::table::{Context, Requirements, State};

type Types<T, V, E> = PhantomData<fn() -> (T, V, E)>;

/// Returns the text whose fingerprint is in the blind index.
type Normalize<V> = Arc<dyn Fn(&V) -> String + Send + Sync>;

/// The content of every adapter's `EncryptedColumn`. It dereferences to `Calls` for the calls without types.
pub struct Values<T, V, E> {
    calls: Calls,
    pub(crate) normalize: Option<Normalize<V>>,
    pub(crate) accepts_plaintext_until: Option<SystemTime>,
    types: Types<T, V, E>,
}

impl<T: OpaqueId, V, E: Encoding<V>> Values<T, V, E> {
    /// Opens the column. With settings, the call writes them if there are none.
    pub fn open<'c>(
        keyring: SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<PackCall<'c, Self>, TableError>
    where
        Self: 'c,
    {
        let (hides_keys, is_grouped) = (false, E::IS_GROUPED);
        let expected = Requirements { encoding: E::NAME, hides_keys, is_grouped };
        let call = Calls::open_typed::<T>(keyring, name, expected, settings, true)?;
        let (normalize, accepts_plaintext_until, types) = (None, None, PhantomData);
        Ok(call.map(move |calls| Self { calls, normalize, accepts_plaintext_until, types }))
    }

    pub fn fingerprint(&self, value: &V) -> Result<Fingerprint<T>, TableError> {
        let normalize = self.normalize.as_ref().ok_or_else(|| self.table.no_index())?;
        let state = self.table.opened()?;
        self.table.fingerprint(&state, &normalize(value)).map(Fingerprint::from_bytes)
    }

    pub fn decrypt_or_plaintext<'c>(
        &'c self,
        id: T::Internal,
        encrypted: Option<&'c Encrypted<T, V>>,
        plaintext: Option<V>,
    ) -> PackCall<'c, Option<V>>
    where
        V: Send + 'c,
    {
        let accepts = self.accepts_plaintext_until.is_some_and(|until| SystemTime::now() < until);
        let id_of = order::number(*id.as_repr());
        self.call(move |session| async move {
            match (plaintext, encrypted) {
                (Some(_), _) if !accepts => {
                    let location = self.table.location(Kind::Value, id_of);
                    Err(TableError::Plaintext { location })
                }
                // A writer that knows of no encryption has written it later.
                (Some(plaintext), _) => Ok(Some(plaintext)),
                (None, Some(encrypted)) => {
                    self.decrypt_in(session, id_of, encrypted.as_bytes()).await.map(Some)
                }
                (None, None) => Ok(None),
            }
        })
    }

    pub fn convert<'c>(
        &'c self,
        column: &ColumnName,
        to: Conversion,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<PackCall<'c, Converted>, TableError> {
        Ok(self.calls.convert(column, to, self.reader(column)?, progress))
    }

    pub fn verify<'c>(
        &'c self,
        column: &ColumnName,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<PackCall<'c, Verified>, TableError> {
        let read = Some(self.reader(column)?);
        Ok(self.calls.verify(Some(column), read, progress))
    }

    fn reader(&self, column: &ColumnName) -> Result<Reader<'_>, TableError> {
        if column.index.is_some() != self.normalize.is_some() {
            return Err(self.table.no_index());
        }
        Ok(Box::new(|bytes| {
            let value = E::decode(bytes)?;
            let group = self.group(&value).map_err(|problem| problem.to_string())?;
            let text = self.normalize.as_ref().map(|normalize| normalize(&value));
            Ok((Value::new(bytes.to_vec(), group), text))
        }))
    }

    pub fn train<'v>(
        &self,
        samples: impl IntoIterator<Item = &'v V>,
        bytes: usize,
    ) -> PackCall<'static, ()>
    where
        V: 'v,
    {
        let samples = samples.into_iter().map(|value| {
            let mut sample = self.sample::<V, E>(value)?;
            sample.group = self.group(value)?;
            Ok(sample)
        });
        // A value that could not be decoded has a group that is not known.
        let is_known = |sample: &Result<Value, _>| {
            sample.as_ref().map_or(true, |sample| sample.group.is_some() || !E::IS_GROUPED)
        };
        self.train_from(samples.filter(is_known).collect(), bytes)
    }

    pub fn encrypt_on<'c>(&'c self, id: T::Internal, value: &V) -> PackCall<'c, Encrypted<T, V>> {
        let (id, value) = self.encoded(id, value);
        self.call(move |session| async move {
            let value = value?;
            let Some(group) = value.group else {
                return self.encrypt_with(id, value, &GroupKeys::default());
            };
            let mut session = session.connect().await;
            // Another client may have erased the group, or a failover.
            session.ensure_keys(vec![group], true).await?;
            self.encrypt_with(id, value, session.groups())
        })
    }

    /// Decrypts the value of a row, and reads its dictionary and the key of its group first. Bytes that are
    /// no body have neither.
    pub fn decrypt_on<'c>(
        &'c self,
        id: T::Internal,
        encrypted: &'c Encrypted<T, V>,
    ) -> PackCall<'c, V> {
        let (id, body) = (order::number(*id.as_repr()), encrypted.as_bytes());
        self.call(move |session| self.decrypt_in(session, id, body))
    }

    async fn decrypt_in(
        &self,
        session: Disconnected,
        id: u128,
        body: &[u8],
    ) -> Result<V, TableError> {
        let state = self.table.opened()?;
        let dictionary = PackCipher::dictionary_id(body);
        let is_unknown = |state: &State| {
            dictionary.as_ref().is_ok_and(|dictionary| !state.has_dictionary(*dictionary))
        };
        let is_known = !is_unknown(&state);
        let group = self.table.group_of_value(id, body);
        let mut keys = GroupKeys::default();
        match group.map(|group| (group, self.table.known_key(group))) {
            None if is_known => {}
            Some((group, Some(key))) => keys.insert(group, key),
            _ => {
                let mut session = session.connect().await;
                if !is_known {
                    session.learn_dictionary(is_unknown).await?;
                }
                let group = self.table.group_of_value(id, body);
                session.read_keys(group.into_iter().collect()).await?;
                keys = session.groups().clone();
            }
        }
        self.decrypt_with(id, body, &keys)
    }

    pub fn encrypt(&self, id: T::Internal, value: &V) -> Result<Encrypted<T, V>, TableError> {
        let (id, value) = self.encoded(id, value);
        self.encrypt_with(id, value?, &GroupKeys::default())
    }

    pub fn decrypt(&self, id: T::Internal, encrypted: &Encrypted<T, V>) -> Result<V, TableError> {
        let id = order::number(*id.as_repr());
        self.decrypt_with(id, encrypted.as_bytes(), &GroupKeys::default())
    }

    fn encoded(&self, id: T::Internal, value: &V) -> (u128, Result<Value, TableError>) {
        let id = order::number(*id.as_repr());
        let bytes = E::encode(value).map_err(|reason| self.table.invalid(Kind::Value, id, reason));
        (id, bytes.and_then(|bytes| Ok(Value::new(bytes, self.group(value)?))))
    }

    fn encrypt_with(
        &self,
        id: u128,
        value: Value,
        groups: &GroupKeys,
    ) -> Result<Encrypted<T, V>, TableError> {
        let view = self.table.view(Context::outside(), groups)?;
        view.encrypt_value(id, Some(value)).map(Encrypted::from_bytes)
    }

    fn decrypt_with(&self, id: u128, body: &[u8], groups: &GroupKeys) -> Result<V, TableError> {
        let value = self.table.view(Context::outside(), groups)?.open_value(id, body)?;
        E::decode(&value).map_err(|reason| self.table.invalid(Kind::Value, id, reason))
    }

    fn group(&self, value: &V) -> Result<Option<u128>, TableError> {
        let state = self.table.opened()?;
        Ok(E::group(value).and_then(|group| state.group_id(group)))
    }

    #[must_use]
    pub fn is_current(&self, encrypted: &Encrypted<T, V>) -> bool {
        let header = self.table.current_header(Tier::Recent);
        header.is_ok_and(|header| encrypted.as_bytes().starts_with(&header))
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
        Self {
            calls: self.calls.clone(),
            normalize: self.normalize.clone(),
            accepts_plaintext_until: self.accepts_plaintext_until,
            types: PhantomData,
        }
    }
}

impl<T, V, E> fmt::Debug for Values<T, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptedColumn").field(&self.table.name()).finish()
    }
}
