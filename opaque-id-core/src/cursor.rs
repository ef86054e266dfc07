use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use crate::error::IdError;
use crate::form::{Form, Tagged, TaggedId, TextBuffer};
use crate::key::{Key, Repr};
use crate::key_id::KeyId;
use crate::prefix::{CURSOR, cursor_prefix};
use crate::resource::OpaqueId;
use crate::subkeys::Subkeys;

/// A sealed position in a list of a resource's rows, the start of the next page. [`IdRange`](crate::IdRange)
/// has an example.
///
/// [`Keyring::seal_cursor`](crate::Keyring::seal_cursor) creates it, and
/// [`Keyring::open_cursor`](crate::Keyring::open_cursor) returns the [`Position`](crate::Position). Its tag
/// lets the keyring refuse an altered or made-up cursor.
///
/// Do not use an external id instead, unless it carries a tag
/// ([`AuthenticatedResource`](crate::resource::AuthenticatedResource)). A made-up id opens to a random key,
/// and the share of such keys before a row reveals that row's key.
///
/// Its text is the prefix, `_cursor_`, and 34 characters. Treat it as opaque. With serde it is a string in
/// human-readable formats and 22 bytes in the others.
pub struct Cursor<T: OpaqueId>(TaggedId, PhantomData<fn() -> T>);

crate::value_traits!(Cursor: OpaqueId);

impl<T: OpaqueId> Cursor<T> {
    #[inline]
    pub(crate) fn new(sealed: TaggedId) -> Self {
        Self(sealed, PhantomData)
    }

    #[inline]
    pub(crate) fn sealed(self) -> TaggedId {
        self.0
    }
}

/// Seals like the tagged form, but with separate subkeys.
pub(crate) fn seal(keys: &Subkeys, key_id: KeyId, key: u128) -> TaggedId {
    let [block, mac] = &keys.cursor;
    TaggedId::new(mac, key_id, block.encrypt(key))
}

pub(crate) fn open(keys: &Subkeys, sealed: TaggedId) -> Option<u128> {
    let [block, mac] = &keys.cursor;
    Some(block.decrypt(sealed.authentic_block(mac)?))
}

/// Zeros follow an integer.
pub(crate) fn block<R: Repr>(repr: R) -> u128 {
    repr.to_plaintext(0)
}

pub(crate) fn unblock<K: Key>(keys: &Subkeys, block: u128) -> Option<K::Repr> {
    keys.admit(K::Repr::from_plaintext(block, 0)?, K::EXAMPLE)
}

impl<T: OpaqueId> FromStr for Cursor<T> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Tagged::parse(&cursor_prefix(T::PREFIX), text)
            .map(Self::new)
            .map_err(|problem| IdError::token(T::PREFIX, CURSOR, problem))
    }
}

impl<T: OpaqueId> fmt::Display for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut body = TextBuffer::new();
        let body = Tagged::write("", self.0, &mut body);
        f.pad(&format!("{}{body}", cursor_prefix(T::PREFIX)))
    }
}

impl<T: OpaqueId> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({self})")
    }
}
