//! The cipher of a table follows the rotation of its keyring.

use std::sync::{Arc, PoisonError, RwLock};

use opaque_id_core::__private::Label;
use opaque_id_core::Keyring;
use opaque_id_core::keyring::SharedKeyring;
use zeroize::Zeroizing;

use crate::format::PackCipher;
use crate::index::IndexKey;
use crate::name::TableName;

pub(crate) struct Ciphers {
    keyring: SharedKeyring,
    domain: Box<str>,
    name: TableName,
    derived: RwLock<(Keyring, Arc<PackCipher>)>,
}

impl Ciphers {
    pub(crate) fn new(keyring: SharedKeyring, domain: &str, name: TableName) -> Self {
        let current = keyring.current();
        let cipher = Arc::new(name.cipher(&current, domain));
        Self { keyring, domain: domain.into(), name, derived: RwLock::new((current, cipher)) }
    }

    pub(crate) fn with_key(&self, key: &Zeroizing<[u8; 32]>) -> PackCipher {
        self.name.cipher_with_key(key)
    }

    /// The example secret has no blind index.
    pub(crate) fn derive_index(&self) -> Option<Box<IndexKey>> {
        let keyring = self.keyring.current();
        let (column, context) = self.name.parts();
        keyring.with_subkey::<32, _>(
            keyring.sealing_key_id(),
            Label::Index,
            &self.domain,
            |subkey| Box::new(IndexKey::derive(subkey, column, context)),
        )
    }

    pub(crate) fn current(&self) -> Arc<PackCipher> {
        let current = self.keyring.current();
        {
            let derived = self.derived.read().unwrap_or_else(PoisonError::into_inner);
            if derived.0.is_clone_of(&current) {
                return Arc::clone(&derived.1);
            }
        }
        let cipher = Arc::new(self.name.cipher(&current, &self.domain));
        let derived = (current, Arc::clone(&cipher));
        *self.derived.write().unwrap_or_else(PoisonError::into_inner) = derived;
        cipher
    }
}
