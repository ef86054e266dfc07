//! Files of secrets are read only if they can be one, and only if others cannot read them.

use std::path::{Path, PathBuf};

use opaque_id_core::{Keyring, KeyringError, MasterSecret};

fn entry() -> String {
    format!("0:{}\n", MasterSecret::generate().expose_hex(str::to_owned))
}

fn file(folder: &tempfile::TempDir, text: &str, mode: u32) -> PathBuf {
    let path = folder.path().join("keys");
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, text).expect("written");
    set_mode(&path, mode);
    path
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;

    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("allowed");
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) {}

#[test]
#[cfg(unix)]
fn a_file_that_others_can_read_or_write_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for mode in [0o400, 0o600, 0o440, 0o640, 0o700] {
        let path = file(&folder, &entry(), mode);
        assert!(Keyring::from_file(&path).is_ok(), "{mode:o}");
    }
    for mode in [0o644, 0o604, 0o602, 0o601, 0o620, 0o660, 0o666, 0o777] {
        let path = file(&folder, &entry(), mode);
        let error = Keyring::from_file(&path).expect_err("shared");
        assert!(matches!(error, KeyringError::Shared { mode: found, .. } if found == mode));
        let message = error.to_string();
        assert!(
            message.contains("chmod 600") && message.contains(&format!("{mode:o}")),
            "{message}"
        );
        // This is an explicit choice.
        assert!(Keyring::from_shared_file(&path).is_ok(), "{mode:o}");
    }
    // A link is as private as its target.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(file(&folder, &entry(), 0o644), &link).expect("linked");
    assert!(Keyring::from_file(&link).is_err());
}

#[test]
fn an_endless_file_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = file(&folder, &"# a comment\n".repeat(10_000), 0o600);
    let mut endless = vec![long];
    if cfg!(unix) {
        endless.push("/dev/zero".into());
    }
    for path in endless {
        let error = Keyring::from_file(&path).expect_err("too long");
        assert!(matches!(error, KeyringError::TooLong { .. }), "{error}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
    // Some editors begin a file with a byte order mark.
    let comments = format!("\u{feff}{}{}", "# a comment\n".repeat(5_000), entry());
    assert!(Keyring::from_file(file(&folder, &comments, 0o600)).is_ok());
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let entry = entry();
    let (_, secret) = entry.trim_end().split_once(':').expect("an entry");
    for path in [
        entry.trim_end().to_owned(),
        secret.to_owned(),
        secret.to_uppercase(),
        format!("/run/{secret}{secret}/keys"),
    ] {
        let no_file = Keyring::from_file(&path).expect_err("no such file");
        let no_entry = Keyring::from_entries(&path, "").expect_err("no entry");
        for error in [no_file, no_entry] {
            let printed = format!("{error} {error:?}").to_lowercase();
            assert!(!printed.contains(&secret[..16]), "{printed}");
            assert!(printed.contains("hex digits]"), "{printed}");
        }
    }
    assert_eq!(MasterSecret::redact(""), "");
    assert_eq!(MasterSecret::redact(&format!("ä{secret}ö c0ffee")), "ä[64 hex digits]ö c0ffee");
    // A text may be selected incompletely.
    assert_eq!(MasterSecret::redact(&secret[3..]), "[61 hex digits]");
    assert_eq!(MasterSecret::redact(&secret[24..]), secret[24..]);
}
