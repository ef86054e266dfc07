//! The secrets of a running server.

use std::collections::VecDeque;

use opaque_id_seaorm::keyring::SharedKeyring;
use opaque_id_seaorm::{Keyring, KeyringError, MasterSecret};
use thiserror::Error;

/// The last key id is the examples'.
const MOST: u8 = MasterSecret::EXAMPLE_KEY_ID;

pub(crate) struct Secrets {
    /// The newest entry comes first and seals. All open.
    entries: VecDeque<(u8, MasterSecret)>,
    keyring: SharedKeyring,
}

#[derive(Debug, Error)]
pub(crate) enum RotationError {
    #[error("the keyring has no room for another secret: retire the oldest first")]
    Full,
    #[error("the only secret seals: rotate first")]
    Last,
    #[error(transparent)]
    Keyring(#[from] KeyringError),
}

impl Secrets {
    pub(crate) fn generate() -> Result<Self, KeyringError> {
        let entries = VecDeque::from([(0, MasterSecret::generate())]);
        Ok(Self { keyring: SharedKeyring::new(keyring(&entries)?), entries })
    }

    pub(crate) fn keyring(&self) -> SharedKeyring {
        self.keyring.clone()
    }

    pub(crate) fn rotate(&mut self) -> Result<(), RotationError> {
        if self.entries.len() == usize::from(MOST) {
            return Err(RotationError::Full);
        }
        // This key id is the longest out of use. Clients may still have ids with the others.
        let key_id = self.entries.front().map_or(0, |(newest, _)| (newest + 1) % MOST);
        self.entries.push_front((key_id, MasterSecret::generate()));
        self.keyring.replace(keyring(&self.entries)?)?;
        Ok(())
    }

    pub(crate) fn retire(&mut self) -> Result<(), RotationError> {
        if self.entries.len() == 1 {
            return Err(RotationError::Last);
        }
        self.entries.pop_back();
        self.keyring.replace(keyring(&self.entries)?)?;
        Ok(())
    }
}

fn keyring(entries: &VecDeque<(u8, MasterSecret)>) -> Result<Keyring, KeyringError> {
    // The ids in the OpenAPI document's examples open.
    let mut builder =
        Keyring::builder().opening(MasterSecret::EXAMPLE_KEY_ID, MasterSecret::example());
    for (place, (key_id, secret)) in entries.iter().enumerate() {
        builder = match place {
            0 => builder.sealing(*key_id, secret.clone()),
            _ => builder.opening(*key_id, secret.clone()),
        };
    }
    builder.build()
}
