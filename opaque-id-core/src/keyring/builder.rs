use std::sync::Arc;

use zeroize::Zeroizing;

use super::secret::Secret;
use super::{KeyId, Keyring, MasterSecret};
use crate::error::{Invalid, KeyringError, SecretProblem};

/// The environment variable that [`Keyring::from_env`] reads.
pub const ENV_VARIABLE: &str = "OPAQUE_ID_KEYS";

impl Keyring {
    /// Returns a builder. Usually [`from_env`](Self::from_env) is the better choice.
    pub fn builder() -> KeyringBuilder {
        KeyringBuilder::default()
    }

    /// Reads the secrets from the environment variable `OPAQUE_ID_KEYS`: comma-separated entries `key_id:64
    /// hex digits`. The first entry seals. `opaque-id keygen` generates an entry.
    ///
    /// # Errors
    /// [`KeyringError`] names the entry and its fault, never the secret.
    pub fn from_env() -> Result<Self, KeyringError> {
        let entries = std::env::var_os(ENV_VARIABLE)
            .ok_or(KeyringError::NotSet { variable: ENV_VARIABLE })?
            .into_string()
            .map_err(|_| KeyringError::Unreadable {
                source_name: ENV_VARIABLE.into(),
                source: std::io::ErrorKind::InvalidData.into(),
            })?;
        Self::from_entries(ENV_VARIABLE, &Zeroizing::new(entries))
    }

    /// Reads the secrets from a text in the format of [`from_file`](Self::from_file), such as a secret
    /// store's answer. Messages call it `source_name`. The caller should wipe the text.
    ///
    /// # Errors
    /// [`KeyringError`] names the entry and its fault, never the secret.
    pub fn from_entries(source_name: &str, text: &str) -> Result<Self, KeyringError> {
        let source_name = &*MasterSecret::redact(source_name);
        let mut secrets = Secrets::default();
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let entries = text
            .split('\n')
            .filter(|line| !trimmed(line).starts_with('#'))
            .flat_map(|line| line.split(','))
            .map(trimmed)
            .filter(|entry| !entry.is_empty());
        for (i, entry) in entries.enumerate() {
            secrets.add_entry(entry).map_err(|problem| KeyringError::Entry {
                source_name: source_name.into(),
                entry: i + 1,
                problem,
            })?;
        }
        secrets
            .into_keyring()
            .ok_or_else(|| KeyringError::NoEntry { source_name: source_name.into() })
    }
}

/// A builder for a [`Keyring`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct KeyringBuilder {
    sealing: Vec<(u8, MasterSecret)>,
    opening: Vec<(u8, MasterSecret)>,
}

impl KeyringBuilder {
    /// Adds the secret that seals and opens. A keyring has exactly one.
    pub fn sealing(mut self, key_id: u8, secret: impl Into<MasterSecret>) -> Self {
        self.sealing.push((key_id, secret.into()));
        self
    }

    /// Adds a secret that only opens: a retiring one, or one that other machines are about to seal with.
    pub fn opening(mut self, key_id: u8, secret: impl Into<MasterSecret>) -> Self {
        self.opening.push((key_id, secret.into()));
        self
    }

    /// Builds the keyring.
    ///
    /// # Errors
    /// [`KeyringError`] unless there is exactly one sealing secret, if a key id is above 3 or appears twice,
    /// if a secret is one byte repeated or appears twice, or if [`MasterSecret::example`] seals.
    pub fn build(self) -> Result<Keyring, KeyringError> {
        match self.sealing.len() {
            0 => return Err(KeyringError::NoSealingSecret),
            1 => {}
            _ => return Err(KeyringError::TwoSealingSecrets),
        }
        let mut secrets = Secrets::default();
        for (key_id, secret) in self.sealing.into_iter().chain(self.opening) {
            secrets
                .add(key_id, secret)
                .map_err(|problem| KeyringError::Secret { key_id, problem })?;
        }
        secrets.into_keyring().ok_or(KeyringError::NoSealingSecret)
    }
}

/// Unicode has more white space, and languages differ in it.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r'])
}

#[derive(Default)]
struct Secrets {
    added: Vec<(KeyId, MasterSecret)>,
}

impl Secrets {
    fn add_entry(&mut self, entry: &str) -> Result<(), Invalid> {
        if entry.starts_with('{') {
            return Err(SecretProblem::Subkeys.into());
        }
        // Docker's `--env-file` keeps quotation marks, and shells remove them.
        if entry.starts_with(['"', '\'']) {
            return Err(SecretProblem::Quoted.into());
        }
        let (key_id, hex) = entry.split_once(':').ok_or(SecretProblem::NoColon)?;
        // The error never repeats a long number, because it may be a misplaced secret.
        let [digit @ b'0'..=b'3'] = trimmed(key_id).as_bytes() else {
            return Err(SecretProblem::KeyId.into());
        };
        let key_id = digit - b'0';
        let secret = MasterSecret::from_hex(trimmed(hex))?;
        match secret.is_example() {
            true => Err(SecretProblem::Example.into()),
            false => self.add(key_id, secret),
        }
    }

    fn add(&mut self, key_id: u8, secret: MasterSecret) -> Result<(), Invalid> {
        let key_id = KeyId::new(key_id).ok_or(SecretProblem::KeyId)?;
        if secret.is_one_byte() {
            return Err(SecretProblem::OneByte.into());
        }
        // The first secret seals.
        if self.added.is_empty() && secret.is_example() {
            return Err(SecretProblem::Example.into());
        }
        for (earlier_id, earlier) in &self.added {
            if *earlier_id == key_id {
                return Err(SecretProblem::RepeatedKeyId.into());
            }
            if earlier.is_same(&secret) {
                return Err(SecretProblem::RepeatedSecret.into());
            }
        }
        self.added.push((key_id, secret));
        Ok(())
    }

    fn into_keyring(self) -> Option<Keyring> {
        let sealing = self.added.first()?.0;
        let mut secrets = [const { None }; 4];
        for (key_id, secret) in &self.added {
            secrets[key_id.index()] = Some(Secret::new(secret));
        }
        Some(Keyring::new(sealing, secrets, Arc::default()))
    }
}
