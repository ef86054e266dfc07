//! The sealer of a table, which follows the rotation of its keyring.

use std::sync::{Arc, PoisonError, RwLock};

use opaque_id_core::Keyring;
use opaque_id_core::keyring::SharedKeyring;

use crate::format::Sealer;
use crate::name::TableName;

/// The keyring of a table, and what was derived from it last.
pub(crate) struct Sealers {
    keyring: SharedKeyring,
    domain: Box<str>,
    name: TableName,
    derived: RwLock<(Keyring, Arc<Sealer>)>,
}

impl Sealers {
    pub(crate) fn new(keyring: SharedKeyring, domain: &str, name: TableName) -> Self {
        let current = keyring.current();
        let sealer = Arc::new(name.sealer(&current, domain));
        Self {
            keyring,
            domain: domain.into(),
            name,
            derived: RwLock::new((current, sealer)),
        }
    }

    /// Returns the sealer of the keyring as it is now.
    pub(crate) fn current(&self) -> Arc<Sealer> {
        let current = self.keyring.current();
        {
            let derived = self.derived.read().unwrap_or_else(PoisonError::into_inner);
            if derived.0.is_clone_of(&current) {
                return Arc::clone(&derived.1);
            }
        }
        let sealer = Arc::new(self.name.sealer(&current, &self.domain));
        let derived = (current, Arc::clone(&sealer));
        *self.derived.write().unwrap_or_else(PoisonError::into_inner) = derived;
        sealer
    }
}
