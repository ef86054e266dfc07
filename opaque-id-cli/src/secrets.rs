//! The secrets of a command, or its subkeys instead.

use std::error::Error;
use std::path::PathBuf;

use opaque_id_core::Keyring;
use opaque_id_core::keyring::read_file;

use crate::args::Secrets;
use crate::resources::Resources;
use crate::subkeys::Subkeys;

pub(crate) enum Opener {
    Keyring(Keyring),
    Subkeys(Subkeys),
}

pub(crate) fn read(secrets: &Secrets) -> Result<Opener, Box<dyn Error>> {
    let (path, is_private) = match (&secrets.keys_file, &secrets.shared_keys_file) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return Ok(Opener::Keyring(Keyring::from_env()?)),
    };
    read_file(path, is_private, |name, text| match Subkeys::are_in(text) {
        true => Ok(Opener::Subkeys(Subkeys::parse(name, text)?)),
        false => Ok(Opener::Keyring(Keyring::from_entries(name, text)?)),
    })?
}

pub(crate) fn keyring(secrets: &Secrets) -> Result<Keyring, Box<dyn Error>> {
    match read(secrets)? {
        Opener::Keyring(keyring) => Ok(keyring),
        Opener::Subkeys(subkeys) => {
            Err(format!("expected secrets, found {}", subkeys.holds()).into())
        }
    }
}

pub(crate) fn resources_of_subkeys(file: PathBuf) -> Result<Resources, Box<dyn Error>> {
    match read(&Secrets { keys_file: Some(file), shared_keys_file: None })? {
        Opener::Subkeys(subkeys) => Ok(subkeys.resources()),
        Opener::Keyring(_) => Err("expected subkeys, as `opaque-id export-subkeys` prints them, found secrets, which this command does not need".into()),
    }
}
