//! Secrets that are replaced while the application runs, from files and from commands.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use opaque_id_core::keyring::{
    KeyId, KeyringError, SharedKeyring, UnwrapByCommand, UnwrapSecrets, Watch,
};
use opaque_id_core::{Internal, Keyring, MasterSecret};

resources! {
    Team(prefix = "team", key = i64);
}

fn entry(key_id: u8) -> String {
    format!("{key_id}:{}", MasterSecret::generate().expose_hex(str::to_owned))
}

fn keyring(entries: &[&str]) -> Keyring {
    Keyring::from_entries("test", &entries.join(",")).expect("good entries")
}

fn team(key: i64) -> Internal<Team> {
    Internal::from_key(key).expect("a key")
}

#[test]
fn a_rotation_in_steps_is_accepted_and_a_jump_is_not() {
    let (a, b, other_a) = (entry(0), entry(1), entry(0));
    let shared = SharedKeyring::new(keyring(&[&a]));
    let old = shared.current();
    let id = old.seal(team(1));

    let refused = |entries: &[&str]| shared.replace(keyring(entries)).expect_err("a jump");
    assert!(
        matches!(refused(&[&b]), KeyringError::SealingSecretMissing { key_id, .. } if key_id.get() == 0)
    );
    assert!(
        matches!(refused(&[&other_a]), KeyringError::OtherSecret { key_id, .. } if key_id.get() == 0)
    );
    assert!(matches!(refused(&[&b, &other_a]), KeyringError::OtherSecret { .. }));
    assert_eq!(shared.current().seal(team(1)), id, "as it was");

    assert!(matches!(shared.replace(keyring(&[&a])), Ok(false)));
    for (entries, sealing) in [(&[&*a, &*b][..], 0), (&[&b, &a], 1), (&[&b], 1)] {
        assert!(matches!(shared.replace(keyring(entries)), Ok(true)));
        assert!(matches!(shared.replace(keyring(entries)), Ok(false)));
        assert_eq!(shared.current().sealing_key_id().get(), sealing);
        assert_eq!(shared.current().open(id).is_ok(), entries.contains(&&*a));
    }
    // A request keeps its keyring.
    assert_eq!(old.open(id), Ok(team(1)));
}

#[test]
fn counts_go_on() {
    let (a, b) = (entry(0), entry(1));
    let shared = SharedKeyring::new(keyring(&[&a]));
    let before = shared.current();
    let id = before.seal(team(1));
    assert!(before.open(id).is_ok());
    shared.replace(keyring(&[&b, &a])).expect("a step");
    assert!(before.open(id).is_ok() && shared.current().open(id).is_ok());
    let key_id = KeyId::new(0).expect("a key id");
    assert_eq!(shared.current().opened_count(key_id), 3);
    assert_eq!(before.opened_count(key_id), 3);
}

/// Writes like Kubernetes and careful operators: readers find the old file or the new one.
fn replace_file(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).expect("a file");
    fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::rename(next, path).expect("a file");
}

/// Starts a watch, and receives the sealing key ids and the errors.
fn watch(
    shared: &SharedKeyring,
    read: impl FnMut() -> Result<Keyring, KeyringError> + Send + 'static,
) -> (Watch, mpsc::Receiver<Result<u8, String>>) {
    let (send, reports) = mpsc::channel();
    let report = move |result: Result<Keyring, KeyringError>| {
        let result = result.map(|keyring| keyring.sealing_key_id().get());
        let _ = send.send(result.map_err(|error| error.to_string()));
    };
    (shared.watch(Duration::from_millis(1), read, report).expect("a thread"), reports)
}

#[test]
fn a_watch_follows_a_file_while_ids_are_sealed_and_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    let (a, b) = (entry(0), entry(1));
    replace_file(&path, &a);
    let read = {
        let path = path.clone();
        move || Keyring::from_file(&path)
    };
    let shared = SharedKeyring::new(read().expect("a good file"));
    let (watch, reports) = watch(&shared, read);
    let next = || reports.recv_timeout(Duration::from_secs(60)).expect("a report");

    // Ids are opened by the current secrets, and ids of the step before always open.
    let is_over = Arc::new(AtomicBool::new(false));
    let first = shared.current().seal(team(0));
    let work = {
        let (shared, is_over) = (shared.clone(), is_over.clone());
        std::thread::spawn(move || {
            let mut rounds = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                let id = shared.current().seal(team(7));
                assert_eq!(shared.current().open(id), Ok(team(7)));
                assert_eq!(shared.current().open(first), Ok(team(0)));
                rounds += 1;
            }
            rounds
        })
    };
    replace_file(&path, &format!("{a}\n{b}\n"));
    assert_eq!(next(), Ok(0));
    replace_file(&path, &format!("{b}\n{a}\n"));
    assert_eq!(next(), Ok(1));
    // Errors are reported once, and the keyring stays as it is.
    replace_file(&path, "1:c0ffee");
    assert!(next().is_err_and(|error| error.contains("expected 64 hex digits, found 6")));
    fs::remove_file(&path).expect("the file");
    assert!(next().is_err_and(|error| error.contains("no such file")));
    replace_file(&path, &a);
    assert!(next().is_err_and(|error| error.contains("key id 1 has sealed until now")));
    replace_file(&path, &format!("{b},{a}"));
    is_over.store(true, Ordering::Relaxed);
    assert!(work.join().expect("every id opens") > 0);
    replace_file(&path, &b);
    assert_eq!(next(), Ok(1));
    assert!(shared.current().open(first).is_err());

    drop(watch);
    assert!(
        reports.recv_timeout(Duration::from_secs(60)).is_err(),
        "the thread ends, and no report was left"
    );
}

/// A file that is written in place can be read without its last lines.
#[test]
fn a_file_that_is_being_written_is_read_again() {
    let (a, b) = (entry(0), entry(1));
    let shared = SharedKeyring::new(keyring(&[&a, &b]));
    let (send, reads) = mpsc::channel();
    let mut is_whole = false;
    let read = move || {
        is_whole = !is_whole;
        let _ = send.send(());
        Ok(match is_whole {
            true => keyring(&[&a, &b]),
            false => keyring(&[&a]),
        })
    };
    let (_watch, reports) = watch(&shared, read);
    for _ in 0..20 {
        reads.recv_timeout(Duration::from_secs(60)).expect("another read");
    }
    assert!(reports.try_recv().is_err());
    assert_eq!(shared.current().key_ids().count(), 2);
}

#[test]
fn a_watch_survives_panics() {
    let (a, b) = (entry(0), entry(1));
    let shared = SharedKeyring::new(keyring(&[&a]));
    let calls = AtomicU32::new(0);
    let read = move || match calls.fetch_add(1, Ordering::Relaxed) {
        0 => panic!("the store's client panics"),
        1 | 2 => Ok(keyring(&[&a, &b])),
        _ => Ok(keyring(&[&b, &a])),
    };
    let (send, reports) = mpsc::channel();
    let report = move |result: Result<Keyring, KeyringError>| {
        let is_first_change = matches!(&result, Ok(keyring) if keyring.sealing_key_id().get() == 0);
        let _ = send.send(result.map(|_| ()));
        assert!(!is_first_change, "the log panics");
    };
    let _watch = shared.watch(Duration::from_millis(1), read, report).expect("a thread");
    let next = || reports.recv_timeout(Duration::from_secs(60)).expect("a report");
    assert!(matches!([next(), next(), next()], [Err(KeyringError::Panicked), Ok(()), Ok(())]));
    assert_eq!(shared.current().sealing_key_id().get(), 1);
}

struct Reversed;

/// An error with a secret in its cause.
#[derive(Debug, thiserror::Error)]
#[error("the service has refused")]
struct Unanswered(#[source] std::io::Error);

impl UnwrapSecrets for Reversed {
    fn unwrap_secrets(&self, wrapped: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        match wrapped {
            [] => {
                let secret = "c0ffeec0".repeat(8);
                let cause = std::io::Error::other(format!("nothing to unwrap with {secret}"));
                Err(Unanswered(cause).into())
            }
            wrapped => Ok(wrapped.iter().rev().copied().collect()),
        }
    }
}

#[test]
fn wrapped_files_are_unwrapped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.wrapped");
    let a = entry(2);
    fs::write(&path, a.chars().rev().collect::<String>()).expect("a file");
    let keyring = Keyring::from_wrapped_file(&path, &Reversed).expect("secrets");
    assert_eq!(keyring.sealing_key_id().get(), 2);

    fs::write(&path, "").expect("a file");
    let error = Keyring::from_wrapped_file(&path, &Reversed).expect_err("nothing").to_string();
    assert!(
        error.ends_with("the service has refused: nothing to unwrap with [64 hex digits]"),
        "{error}"
    );
    fs::write(&path, b"\xff").expect("a file");
    let error = Keyring::from_wrapped_file(&path, &Reversed).expect_err("no text").to_string();
    assert!(error.ends_with("expected text, found bytes that are not UTF-8"), "{error}");
    fs::remove_file(&path).expect("the file");
    let error = Keyring::from_wrapped_file(&path, &Reversed);
    let Err(error @ KeyringError::Unreadable { .. }) = error else { panic!("expected no file") };
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
}

#[test]
fn commands_unwrap_and_their_failures_are_told() {
    let text = entry(2);
    let unwrap = |script: &str| unwrapped_by(script, MINUTE);
    let ends = |result: Result<Keyring, KeyringError>, end: &str| {
        let error = result.expect_err("it fails").to_string();
        assert!(error.ends_with(end), "{error}");
    };
    assert_eq!(unwrap("cat").expect("secrets").sealing_key_id().get(), 2);
    // The command may write before it reads, or not read at all.
    assert!(unwrap(&format!("echo {text}; cat > /dev/null")).is_ok());
    assert!(unwrap(&format!("echo {text}")).is_ok());
    // Output before a failure is not used.
    ends(unwrap("cat; exit 3"), "`sh` failed (exit status: 3): its standard error says why");
    ends(unwrap("true"), "has no entry (`opaque-id keygen` generates one)");
    ends(unwrap("yes"), "wrote more than 65536 bytes, so these are not secrets");
    // A hanging command is ended.
    for script in ["sleep 60", "exec >&-; sleep 60", "sleep 60 <&0 & sleep 60"] {
        let limit = Duration::from_millis(100);
        ends(unwrapped_by(script, limit), "`sh` has not ended within 100ms");
    }
    // A process that the command leaves behind, such as an agent, does not delay the result.
    assert!(unwrap("cat; sleep 60 & exit").is_ok());
    let missing = UnwrapByCommand::new("no-such-program-anywhere");
    let error = Keyring::from_wrapped_file("Cargo.toml", &missing).expect_err("no program");
    let error = error.to_string();
    assert!(error.contains("cannot run `no-such-program-anywhere`"), "{error}");
}

/// Returns the keyring of a file of secrets that `cat` unwraps.
fn unwrapped_by(script: &str, limit: Duration) -> Result<Keyring, KeyringError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.wrapped");
    fs::write(&path, entry(2)).expect("a file");
    let sh = UnwrapByCommand::new("sh").args(["-c", script]);
    Keyring::from_wrapped_file(&path, &sh.time_limit(limit))
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_command_is_killed_with_its_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    let script = format!("sleep 60 > {} & sleep 60", fifo.display());
    // The read opens and ends together with the grandchild.
    let grandchild = thread::spawn(move || fs::read(fifo));
    let error = unwrapped_by(&script, Duration::from_millis(300));
    assert!(matches!(error, Err(KeyringError::Unwrap { .. })), "{error:?}");
    let end = Instant::now() + Duration::from_secs(30);
    while !grandchild.is_finished() {
        assert!(Instant::now() < end, "the grandchild goes on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn commands_leave_no_thread_and_no_descriptor() {
    alone("commands_leave_no_thread_and_no_descriptor", &[], || {
        let count = |what| fs::read_dir(format!("/proc/self/{what}")).expect("Linux").count();
        let before = [count("task"), count("fd")];
        for _ in 0..5 {
            unwrapped_by("cat; sleep 60 & exit", MINUTE).expect("secrets");
            unwrapped_by("sleep 60 <&0 & sleep 60", Duration::from_millis(10)).expect_err("a hang");
        }
        assert_eq!([count("task"), count("fd")], before);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn commands_unwrap_where_the_end_of_children_is_ignored() {
    alone(
        "commands_unwrap_where_the_end_of_children_is_ignored",
        &["--ignore-signal=CHLD"],
        || {
            unwrapped_by("cat", MINUTE).expect("secrets");
            unwrapped_by("cat; exit 1", MINUTE).expect("nobody knows");
            unwrapped_by("exit 1", MINUTE).expect_err("no entry");
        },
    );
}

#[cfg(target_os = "linux")]
#[test]
fn commands_do_not_inherit_secrets() {
    alone("commands_do_not_inherit_secrets", &["OPAQUE_ID_KEYS=secret", "OTHER=inherited"], || {
        assert!(std::env::var("OPAQUE_ID_KEYS").is_ok());
        let script = r#"test "$OTHER" = inherited && test -z "$OPAQUE_ID_KEYS" && cat"#;
        unwrapped_by(script, MINUTE).expect("secrets");
    });
}

/// Runs a test in a separate process. `env` starts it with these arguments.
#[cfg(target_os = "linux")]
fn alone(name: &str, prepared: &[&str], test: impl FnOnce()) {
    const VARIABLE: &str = "OPAQUE_ID_TEST_ALONE";
    if let Some(ran) = std::env::var_os(VARIABLE) {
        fs::write(ran, "").expect("a file");
        return test();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ran = folder.path().join("ran");
    let mut env = std::process::Command::new("env");
    env.args(prepared)
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", &format!("shared::{name}"), "--nocapture"])
        .env(VARIABLE, &ran);
    assert!(env.status().expect("env").success(), "see above");
    // An unknown test name would not be a failure.
    assert!(ran.exists(), "{name} did not run");
}
