//! Runs the binary like a person or a script.

mod audit;
mod ids;
mod init;
mod names;
mod packs;
mod resources;
mod rotation;
mod runbook;
mod schema;
mod secrets;
mod sqlx_toml;
mod subkeys;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use opaque_id_tests::engine::Engine;
use opaque_id_tests::sql::execute;
use opaque_id_tests::tools::with_input;
use serde_json::Value;
use tempfile::TempDir;

const SECRET: &str = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";
const KEY: &str = "0192c1f0-7b1e-7a35-8f00-000000000001";

/// Returns a command line. Spaces separate its words.
fn opaque_id(entries: &str, line: &str) -> Command {
    command_with(entries, &line.split(' ').collect::<Vec<_>>())
}

fn command_with(entries: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
    command.args(args);
    for variable in ["OPAQUE_ID_KEYS", "OPAQUE_ID_RESOURCES", "SUDO_UID", "DATABASE_URL"] {
        command.env_remove(variable);
    }
    if !entries.is_empty() {
        command.env("OPAQUE_ID_KEYS", entries);
    }
    command
}

/// A folder of a test. No file of resources is in it or above it.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        files.iter().for_each(|(file, text)| folder.write(file, text));
        folder
    }

    /// Writes a file that other users cannot read.
    fn write(&self, file: &str, text: &str) {
        let file = self.path(file);
        fs::create_dir_all(Path::new(&file).parent().expect("a folder")).expect("created");
        fs::write(&file, text).expect("written");
        set_mode(&file, 0o600);
    }

    /// Returns the text of a file, or an empty one if it does not exist.
    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap_or_default()
    }

    fn path(&self, file: &str) -> String {
        self.0.path().join(file).to_str().expect("UTF-8").to_owned()
    }

    /// Returns a command line in the folder.
    fn command(&self, entries: &str, line: &str) -> Command {
        let mut command = opaque_id(entries, line);
        command.current_dir(&self.0);
        command
    }

    fn run(&self, line: &str) -> Output {
        output(&mut self.command(&entry(), line))
    }

    fn ok(&self, line: &str) -> String {
        good(&self.run(line)).to_owned()
    }
}

/// Returns a database file with these tables.
fn sqlite(schema: &str) -> (Folder, String) {
    let folder = Folder::new(&[]);
    let url = format!("sqlite://{}", folder.path("shop.db"));
    execute(Engine::Sqlite, &format!("{url}?mode=rwc"), schema).expect("created");
    (folder, url)
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the binary runs")
}

fn run(entries: &str, line: &str) -> Output {
    output(&mut opaque_id(entries, line))
}

fn run_with(input: &str, entries: &str, line: &str) -> Output {
    with_input(&mut opaque_id(entries, line), input).expect("the binary runs")
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("UTF-8")
}

/// Returns the output of a successful call without the line end.
fn good(output: &Output) -> &str {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output).trim_end()
}

fn ok(entries: &str, line: &str) -> String {
    good(&run(entries, line)).to_owned()
}

/// Checks that a call failed with this status and this text on standard error.
fn refuses(output: &Output, status: i32, says: &str) {
    let error = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(error.contains(says), "{says}: {error}");
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).expect("JSON")
}

fn text<'v>(record: &'v Value, field: &str) -> &'v str {
    record[field].as_str().expect("a string")
}

fn vectors(file: &str) -> Vec<Value> {
    serde_json::from_str(file).expect("valid vectors")
}

/// Returns the first vector of each kind of key. The core's tests check them all.
fn one_of_each_kind(file: &str) -> Vec<Value> {
    let (mut vectors, mut kinds) = (vectors(file), HashSet::new());
    vectors.retain(|vector| kinds.insert(vector["kind"].to_string()));
    vectors
}

fn given(vector: &Value) -> (String, String) {
    let field = |name| text(vector, name);
    let (prefix, domain, kind) = (field("prefix"), field("domain"), field("kind"));
    (
        format!("{}:{}", vector["key_id"], field("master")),
        format!("--prefix {prefix} --domain {domain} --key {kind}"),
    )
}

fn entry() -> String {
    format!("0:{SECRET}")
}

/// Returns an entry with another secret.
fn other_entry(key_id: u8) -> String {
    format!("{key_id}:{}", SECRET.replace("c0ffee", "decade"))
}

#[test]
fn conformance_says_what_differs() {
    // `cat` answers with the request.
    let different = run("", "conformance --random 10 -- cat");
    assert_eq!(different.status.code(), Some(1));
    let printed = stdout(&different);
    let vectors = include_str!("../../../spec/vectors.jsonl").lines().count();
    let expected = format!("{vectors} of {vectors} vectors and 10 of 10 random cases differ");
    assert!(printed.starts_with(&expected), "{printed}");
    let ended = run("", "conformance --random 0 -- true");
    assert_eq!(ended.status.code(), Some(2));
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert!(printed.contains("instead of answering request 1"), "{printed}");
}

#[cfg(unix)]
fn set_mode(file: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("allowed");
}

#[cfg(not(unix))]
fn set_mode(_: &str, _: u32) {}

#[test]
fn version_names_the_wire_format() {
    let version = format!("opaque-id {} (wire format 1)", env!("CARGO_PKG_VERSION"));
    assert_eq!(ok("", "--version"), version);
}

#[test]
fn completions_and_manual_pages_have_all_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = ok("", &format!("completions {shell}"));
        assert!(script.contains("check-schema"), "{shell}");
        assert!(script.contains("plan-rotation"), "{shell}");
    }
    let page = ok("", "man");
    assert!(page.contains(".TH opaque-id 1"), "{page}");
    assert!(page.contains("check\\-schema"), "{page}");

    let folder = Folder::new(&[]);
    folder.ok("man --dir .");
    for page in ["", "-open", "-sql-functions", "-packs-verify"] {
        assert!(!folder.read(&format!("opaque-id{page}.1")).is_empty(), "{page}");
    }
    refuses(&folder.run("man --dir missing"), 2, "cannot write into ");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
    let full = || fs::File::options().write(true).open("/dev/full").expect("opened");
    for line in ["completions bash", "man", "--help", "--version", "keygen"] {
        let refused = output(opaque_id("", line).stdout(full()));
        refuses(&refused, 2, "error: No space left on device");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        good(&output(opaque_id("", line).stdout(writer)));
    }
    for line in ["nothing", "keys"] {
        refuses(&output(opaque_id("", line).stderr(full())), 2, "");
    }
}
