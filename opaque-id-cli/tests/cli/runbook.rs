//! Runs docs/OPERATIONS.md command by command, next to an application that follows the file of secrets.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::Duration;

use opaque_id_core::keyring::{KeyId, SharedKeyring, UnwrapByCommand, Watch};
use opaque_id_core::{External, Internal, Keyring, OpaqueId};
use opaque_id_tests::engine::Engine;
use opaque_id_tests::sql::execute;

const DOCUMENT: &str = include_str!("../../../docs/OPERATIONS.md");

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

/// Returns the commands below a heading, each with the output in the document.
fn commands(heading: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let (_, section) = DOCUMENT
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("OPERATIONS.md has a heading `{heading}`"));
    let section = section.split("\n#").next().unwrap_or(section);
    let blocks = section.split("```console\n").skip(1);
    let mut commands: Vec<(_, Vec<_>)> = Vec::new();
    for line in blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines()) {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, output))) => output.push(line),
            (None, None) => panic!("output before a command: {line}"),
        }
    }
    commands
}

fn shell(command: &str, folder: &Path) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_opaque-id")).parent().expect("a folder");
    let path = std::env::var("PATH").expect("a PATH");
    Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", command])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env_remove("OPAQUE_ID_KEYS")
        .env("DATABASE_URL", "sqlite:shop.db")
        .output()
        .expect("bash runs")
}

fn create_database(folder: &Path) {
    let url = format!("sqlite:{}?mode=rwc", folder.join("shop.db").display());
    execute(Engine::Sqlite, &url, "CREATE TABLE users (id BLOB PRIMARY KEY)").expect("a database");
}

/// Runs the commands below a heading, and compares their output with the document.
fn follow(heading: &str, folder: &Path) {
    let commands = commands(heading);
    assert!(!commands.is_empty(), "{heading}");
    for (command, expected) in commands {
        let output = shell(command, folder);
        let (stdout, stderr) = (super::stdout(&output), super::stderr(&output));
        assert!(
            output.status.success(),
            "{command}: {stdout}{stderr} (`cargo xtask test` installs age)"
        );
        let mut lines = stdout.lines();
        for expected in expected {
            let line = lines.next().unwrap_or_default();
            let beginning = expected.trim_end_matches('…');
            assert!(line.starts_with(beginning), "{command}: {line}");
        }
    }
}

/// An application that reads the secrets repeatedly.
struct App {
    keyring: SharedKeyring,
    reports: mpsc::Receiver<u8>,
    _watch: Watch,
}

impl App {
    fn start(keys: &Path) -> Self {
        let keys = keys.to_owned();
        let read = move || Keyring::from_file(&keys);
        let keyring = SharedKeyring::new(read().expect("a good file"));
        let (send, reports) = mpsc::channel();
        let report = move |result: Result<Keyring, _>| {
            let keyring = result.expect("every step is a good one");
            send.send(keyring.sealing_key_id().get()).expect("the test runs");
        };
        let watch = keyring.watch(Duration::from_millis(1), read, report).expect("a thread");
        Self { keyring, reports, _watch: watch }
    }

    /// Waits until the application has the secrets of a step. Returns the key id that seals.
    fn next(&self) -> u8 {
        self.reports.recv_timeout(Duration::from_secs(60)).expect("the secrets are replaced")
    }

    fn opens(&self, id: External<User>) -> bool {
        self.keyring.current().open(id).is_ok()
    }
}

#[test]
fn the_runbook_works_command_by_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    create_database(folder);
    let source = "#[derive(OpaqueId)] #[opaque_id(prefix = \"user\")] struct User;";
    std::fs::write(folder.join("main.rs"), source).expect("a file");
    follow("## Describe the resources", folder);
    follow("### Create a file of secrets", folder);
    follow("### Wrap the secrets with another key", folder);
    let [app, other] = [(); 2].map(|()| App::start(&folder.join("keys")));
    let old = app.keyring.current().seal(Internal::<User>::generate());
    std::fs::write(folder.join("stored-ids"), format!("{old}\n")).expect("a file");

    let identity = folder.join("age.key");
    let age = UnwrapByCommand::new("age").args(["--decrypt", "--identity"]).args([identity]);
    let unwrapped = Keyring::from_wrapped_file(folder.join("keys.age"), &age).expect("secrets");
    assert!(unwrapped.open(old).is_ok());

    follow("### 1 Append the new secret", folder);
    // One instance is slower than the other in every step.
    assert_eq!(app.next(), 0);
    assert!(app.opens(old) && other.opens(old));
    assert_eq!(other.next(), 0);

    follow("### 2 Seal with the new secret", folder);
    assert_eq!(app.next(), 1);
    let new = app.keyring.current().seal(Internal::<User>::generate());
    assert!(other.opens(new) && app.opens(old) && other.opens(old));
    assert_eq!(other.next(), 1);
    let key_id = |key_id| KeyId::new(key_id).expect("a key id");
    app.keyring.current().confirm(old);
    assert_eq!(app.keyring.current().opened_count(key_id(0)), 1);

    follow("### 3 Retire the old secret", folder);
    assert_eq!((app.next(), other.next()), (1, 1));
    assert!(app.opens(new) && other.opens(new));
    assert!(!app.opens(old) && !other.opens(old));
    let renewed = std::fs::read_to_string(folder.join("renewed-ids")).expect("a file");
    assert!(app.opens(renewed.trim_end().parse().expect("an id")));

    follow("## Look up an id", folder);
    let seal = "opaque-id seal --keys-file keys --prefix user --audience logs 01976e2e-7c1a-7bd1-8a3c-5d6b1f0e9a42";
    let logged = shell(seal, folder);
    let logged = super::stdout(&logged);
    let line = format!("2026-11-26T19:09:52Z INFO no order of Internal<user>({})\n", logged.trim());
    std::fs::write(folder.join("shop.log"), line).expect("a file");
    follow("### Find the row behind an id in a log", folder);
    follow("### Look up ids without the secrets", folder);
    follow("### Log who opened which id", folder);
}

/// The tests run every block of commands in the document.
#[test]
fn no_command_is_left_out() {
    let headings = [
        "## Describe the resources",
        "### Create a file of secrets",
        "### Wrap the secrets with another key",
        "### 1 Append the new secret",
        "### 2 Seal with the new secret",
        "### 3 Retire the old secret",
        "## Look up an id",
        "### Find the row behind an id in a log",
        "### Look up ids without the secrets",
        "### Log who opened which id",
    ];
    let run: usize = headings.map(|heading| commands(heading).len()).iter().sum();
    let all = DOCUMENT.lines().filter(|line| line.starts_with("$ "));
    assert_eq!(run, all.count());
}

/// A step must, if its first part fails (as on a full disk), not replace the secrets.
#[cfg(unix)]
#[test]
fn a_step_that_fails_half_way_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    create_database(folder);
    let keys = folder.join("keys");
    let first = |heading| commands(heading)[0].0;

    assert!(!shell(first("### 1 Append the new secret"), folder).status.success());
    assert!(!keys.exists(), "a file with the new secret alone");

    follow("### Create a file of secrets", folder);
    follow("### 1 Append the new secret", folder);
    let before = std::fs::read(&keys).expect("a file");
    // The old secret cannot be kept.
    std::os::unix::fs::symlink("/nowhere/keys", folder.join("keys.before")).expect("a link");
    assert!(!shell(first("### 3 Retire the old secret"), folder).status.success());
    assert_eq!(std::fs::read(&keys).expect("a file"), before);
}
