//! Runs the binary like a person or a script.

mod audit;
mod init;
mod names;
mod packs;
mod resources;
mod rotation;
mod runbook;
mod sqlx_toml;
mod subkeys;

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use jiff::{Timestamp, ToSpan};
use opaque_id_tests::engine::Engine;
use opaque_id_tests::sql::execute;
use opaque_id_tests::tools::with_input;
use serde_json::{Value, json};
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
fn ids_of_each_kind_and_form_are_those_of_the_vectors() {
    for vector in one_of_each_kind(include_str!("../../../spec/format-v1.json")) {
        let (entries, of) = given(&vector);
        for form in ["text", "short", "tagged", "uuid"] {
            let Some(id) = vector[form].as_str() else {
                continue;
            };
            let seal = |key| ok(&entries, &format!("seal {of} --form {form} -- {key}"));
            assert_eq!(seal(text(&vector, "key")), id);
            let line = format!("open --json {of} --form {form} -- {id}");
            let opened = parse(&ok(&entries, &line));
            // A ULID is printed as a ULID, and seals to the same id.
            let key = text(&opened, "key");
            let is_ulid = vector["kind"] == "ulid";
            assert!(key == text(&vector, "key") || is_ulid, "{opened}");
            assert_eq!(seal(key), id);
            assert_eq!(opened["key_id"], vector["key_id"]);
        }
    }
}

#[test]
fn ids_of_an_audience_are_those_of_the_vectors() {
    let vectors = vectors(include_str!("../../../spec/audiences-v1.json"));
    let (vector, audience) = vectors
        .iter()
        .find_map(|vector| Some((vector, vector["audience"].as_str()?)))
        .expect("one of an audience");
    let field = |name| text(vector, name);
    let entries = format!("{}:{}", vector["key_id"], field("master"));
    let (prefix, domain) = (field("prefix"), field("domain"));
    let of = format!("--prefix {prefix} --domain {domain} --key int --audience {audience}");
    for form in ["short", "uuid"] {
        let (id, key) = (field(form), field("key"));
        assert_eq!(ok(&entries, &format!("seal {of} --form {form} -- {key}")), id);
        let opened = ok(&entries, &format!("open {of} --form {form} -- {id}"));
        assert!(opened.starts_with(&format!("{key}  integer  ")), "{opened}");
    }
}

/// The id is the output of `Debug` after `reveal_in_logs`, for a resource of any form.
#[test]
fn an_id_of_a_log_says_itself_that_it_is_one() {
    let entries = ok("", "keygen --key-id 0");
    for (of, key) in [
        ("--prefix part --key int", "42"),
        ("--prefix part --key int --form mapped", "42"),
        ("--prefix user --key uuid7 --form tagged", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
        ("--prefix user --key uuid7 --form uuid", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
    ] {
        let id = ok(&entries, &format!("seal {of} --audience logs -- {key}"));
        assert!(id.contains("_log"), "{id}");
        for audience in ["", " --audience logs", " --audience partner"] {
            let opened = ok(&entries, &format!("open {of}{audience} -- {id}"));
            assert!(opened.starts_with(&format!("{key}  ")), "{opened}");
        }
        if of.contains("mapped") {
            continue; // It has no subkeys.
        }
        let of_logs = ok(&entries, &format!("export-subkeys {of} --audience logs"));
        let folder = Folder::new(&[("subkeys", &of_logs)]);
        let open = format!("open --keys-file subkeys -- {id}");
        let opened = output(&mut folder.command("", &open));
        assert!(good(&opened).starts_with(&format!("{key}  ")), "{opened:?}");
    }
    let of = "--prefix user --key uuid7";
    let id = ok(&entries, &format!("seal {of} -- 017f22e2-79b0-7cc3-98c4-dc0c0c07398f"));
    refuses(
        &run(&entries, &format!("open {of} --audience logs -- {id}")),
        1,
        "expected an id of a log",
    );
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

#[test]
fn keygen_generates_a_working_secret() {
    let entries = ok("", "keygen --key-id 3");
    assert!(entries.starts_with("3:") && entries.len() == 66);
    assert_ne!(entries, ok("", "keygen --key-id 3"));
    let id = ok(&entries, "seal --prefix user --key int 42");
    assert_eq!(
        ok(&entries, &format!("open --prefix user --key int {id}")),
        "42  integer  key id 3",
    );
    let generated = parse(&ok("", "keygen --json"));
    let held = parse(&ok(text(&generated, "entry"), "keys --json"));
    assert_eq!(held, json!({"key_id": 0, "check_value": generated["check_value"], "seals": true}));
    refuses(&run("", "keygen --key-id 4"), 2, "");
}

#[test]
fn a_keys_file_replaces_the_variable() {
    let folder = Folder::new(&[("keys", &format!("# the newest first\n{}\n", entry()))]);
    let file = &folder.path("keys");
    let seal = format!("seal --prefix user --key uuid7 {KEY}");
    let from_file = ok("", &format!("{seal} --keys-file {file}"));
    assert_eq!(from_file, ok(&entry(), &seal));

    // A file that other users can read needs an explicit choice.
    if cfg!(unix) {
        set_mode(file, 0o644);
        let refused = run("", &format!("{seal} --keys-file {file}"));
        refuses(&refused, 2, "chmod 600");
        let chosen = ok("", &format!("{seal} --shared-keys-file {file}"));
        assert_eq!(chosen, from_file);
    }
    fs::remove_file(file).expect("removes");

    let missing = run("", &format!("{seal} --keys-file {file}"));
    let advice =
        format!("cannot read {file}: no such file; create it with what `opaque-id keygen` prints");
    refuses(&missing, 2, &advice);
}

#[test]
fn invalid_secrets_are_reported_without_the_secret() {
    for entries in [&SECRET[1..], &format!("0:{}x", &SECRET[1..]), &format!("{SECRET}:0"), ""] {
        let output = run(entries, "seal --prefix user --key int 1");
        refuses(&output, 2, "OPAQUE_ID_KEYS");
        assert!(!stderr(&output).contains("c0ffee"), "{}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn a_variable_of_other_bytes_than_text_is_set() {
    use std::os::unix::ffi::OsStrExt;

    let mut keys = opaque_id("", "keys");
    keys.env("OPAQUE_ID_KEYS", std::ffi::OsStr::from_bytes(b"0:\xff"));
    refuses(&output(&mut keys), 2, "cannot read OPAQUE_ID_KEYS");
}

#[cfg(unix)]
fn set_mode(file: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("allowed");
}

#[cfg(not(unix))]
fn set_mode(_: &str, _: u32) {}

#[test]
fn a_secret_in_the_wrong_place_is_never_repeated() {
    let entry = &entry();
    let spaced = &format!("{entry} ");
    // Characters that a terminal does not show, or that the output removes, do not hide it.
    let [in_color, with_del] = [&"\u{1b}[0m", &"\u{7f}"]
        .map(|hidden| format!("{}{hidden}{}", &SECRET[..32], &SECRET[32..]));
    let (in_color, with_del) = (&in_color, &with_del);
    let of_table = &format!("{SECRET}.id=crate::User");
    let of_resource = &format!("users.id=a{SECRET}");
    for args in [
        &["seal", "--prefix", "user", "--key", "int", entry][..],
        &["seal", "--prefix", "user", "--key", "int", SECRET],
        &["seal", "--prefix", "user", "--key", entry, "1"],
        &["seal", "--prefix", SECRET, "--key", "int", "1"],
        &["seal", entry],
        &["open", "--prefix", "user", "--key", "int", entry],
        &["open", "--json", "--prefix", "user", "--key", "int", SECRET],
        &["inspect", entry],
        &["inspect", spaced],
        &["inspect", "--json", SECRET],
        &["keys", entry],
        &["keys", "--keys-file", entry],
        &["keys", "--keys-file", SECRET],
        &["keys", "--shared-keys-file", entry],
        &["keygen", "--key-id", SECRET],
        &["check-schema", "--database-url", SECRET],
        &["sqlx-toml", SECRET],
        &["sqlx-toml", "--file", "/nowhere/c0ffee", entry],
        &["sqlx-toml", of_table],
        &["sqlx-toml", of_resource],
        &["keys", "--keys-file", in_color],
        &["keys", "--keys-file", with_del],
        &["inspect", "--json", in_color],
        &["inspect", "--json", with_del],
        &["inspect", with_del],
        &["seal", "--prefix", "user", "--key", "int", &SECRET[2..]],
        &[SECRET],
        &["--help", SECRET],
    ] {
        let upper: Vec<String> = args
            .iter()
            .map(|arg| match arg.contains(SECRET) {
                true => arg.to_uppercase(),
                false => (*arg).to_owned(),
            })
            .collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        for args in [args, &upper] {
            // The environment has a valid secret as well.
            let output = output(&mut command_with(&other_entry(1), args));
            let printed = format!("{}{}", stdout(&output), stderr(&output)).to_lowercase();
            let digits = printed.split(|c: char| !c.is_ascii_hexdigit());
            let longest = digits.map(str::len).max();
            assert!(longest < Some(48), "{args:?}: {printed}");
            assert!(!printed.contains("decade00"), "{args:?}: {printed}");
        }
    }
}

/// The value may come from a terminal or a document.
#[test]
fn a_value_like_a_secret_is_not_repeated() {
    let groups: Vec<&str> = (0..32).map(|i| &SECRET[2 * i..][..2]).collect();
    for like_a_secret in [
        SECRET[..40].to_owned(),
        SECRET[..47].to_owned(),
        format!("{} {}", &SECRET[..32], &SECRET[32..]),
        format!("0:{}x{}", &SECRET[..20], &SECRET[20..40]),
        groups.join(":"),
    ] {
        for line in [
            "seal --prefix user --key uuid7",
            "open --prefix user --key uuid7",
            "inspect",
            "inspect --json",
        ] {
            let output = output(opaque_id(&other_entry(1), line).arg(&like_a_secret));
            assert_eq!(output.status.code(), Some(1));
            let printed = format!("{}{}", stdout(&output), stderr(&output));
            let digits = printed.matches("c0").count() + printed.matches("ff").count();
            assert_eq!(digits, 0, "{printed}");
            assert!(printed.contains(" hex digits]"), "{printed}");
        }
    }
    let refused = run(&entry(), &format!("seal --prefix user --key int {KEY}"));
    refuses(&refused, 1, KEY);
}

#[test]
fn open_accepts_cursors() {
    for vector in one_of_each_kind(include_str!("../../../spec/cursors-v1.json")) {
        let (entries, of) = given(&vector);
        let cursor = text(&vector, "cursor");
        let opened = parse(&ok(&entries, &format!("open --json {of} {cursor}")));
        let is_ulid = vector["kind"] == "ulid";
        assert!(opened["key"] == vector["key"] || is_ulid, "{opened}");
        assert_eq!(opened["verified"], json!(true));
        let found = ok("", &format!("inspect {cursor}"));
        let cursor_of = format!("a cursor of {}", text(&vector, "prefix"));
        assert!(found.contains(&cursor_of), "{found}");
    }
}

#[test]
fn seal_prints_an_id_under_each_secret() {
    let (new, old) = (other_entry(2), entry());
    let both = format!("{new},{old}");
    let seal = format!("seal --prefix user --key uuid7 {KEY}");
    let [under_new, under_old] = [&new, &old].map(|entry| ok(entry, &seal));
    assert_eq!(ok(&both, &seal), under_new);
    let all = ok(&both, &seal.replace("seal", "seal --all-secrets"));
    let key_id = old.split_once(':').map_or("", |(key_id, _)| key_id);
    let expected = [(key_id, &under_old), ("2", &under_new)];
    let mut expected = expected.map(|(key_id, id)| format!("{}  key id {key_id}", id.trim_end()));
    expected.sort_by_key(|line| line.chars().last());
    assert_eq!(all.lines().collect::<Vec<_>>(), expected);
    let json = ok(&both, &seal.replace("seal", "seal --json --all-secrets"));
    let key_ids = json.lines().map(|line| parse(line)["key_id"].clone());
    assert_eq!(key_ids.count(), 2);
}

#[test]
fn open_accepts_grants_for_their_purpose() {
    for vector in one_of_each_kind(include_str!("../../../spec/tokens-v1.json")) {
        let (entries, of) = given(&vector);
        let (grant, purpose) = (text(&vector, "grant"), text(&vector, "purpose"));
        let open = |purpose| {
            let mut open = opaque_id(&entries, &format!("open --json {of} {grant}"));
            output(open.args(["--purpose", purpose]))
        };
        let opened = parse(stdout(&open(purpose)));
        let is_ulid = vector["kind"] == "ulid";
        assert!(opened["key"] == vector["key"] || is_ulid, "{opened}");
        let expires = jiff::Timestamp::from_second(vector["expires"].as_i64().expect("seconds"));
        assert_eq!(opened["expires"], json!(expires.expect("a time").to_string()));
        refuses(&open("another"), 1, "not genuine");
        let no_purpose = run(&entries, &format!("open {of} {grant}"));
        refuses(&no_purpose, 1, "name it by --purpose");
        let position = text(&vector, "position");
        refuses(&run(&entries, &format!("open {of} {position}")), 1, "in the application only");
        let found = ok("", &format!("inspect {grant} {position}"));
        let prefix = text(&vector, "prefix");
        for kind in ["grant", "position"] {
            let what = format!("well formed; {kind}; prefix {prefix}; key id {}", vector["key_id"]);
            assert!(found.contains(&what), "{found}");
        }
    }
}

#[test]
fn keys_are_accepted_in_every_spelling() {
    let seal = "seal --prefix user --key uuid7";
    let keys = "0192c1f07b1e7a358f00000000000001 01JB0Z0YRYF8TRY00000000001";
    let ids = ok(&entry(), &format!("{seal} {KEY} {keys}"));
    let ids: Vec<_> = ids.lines().collect();
    assert_eq!(ids, [ids[0]; 3]);
    let v4 = format!("{seal} 6d179ed1-fd65-480b-a475-77983c28dd10");
    let v4 = run(&entry(), &v4);
    refuses(&v4, 1, "expected a UUIDv7, found version 4");
}

#[test]
fn open_prints_key_kind_key_id_and_time() {
    let of = "--prefix user --key uuid7";
    let id = ok(&entry(), &format!("seal {of} {KEY}"));
    assert_eq!(
        ok(&entry(), &format!("open {of} {id}")),
        format!("{KEY}  UUIDv7  key id 0  2024-10-25T04:30:15.838Z  unverified"),
    );
    assert_eq!(
        parse(&ok(&entry(), &format!("open --json {of} {id}"))),
        json!({"id": id, "key": KEY, "key_id": 0, "time": "2024-10-25T04:30:15.838Z", "verified": false}),
    );
    // The texts come from a log of this library, and from a URL.
    for copied in [format!("Some(External({id}))"), format!("/users/{id}?page=2")] {
        assert_eq!(
            parse(&ok(&entry(), &format!("open --json {of} {copied}")))["id"],
            json!(id),
            "{copied}"
        );
    }
}

#[test]
fn all_ids_of_a_line_are_opened() {
    let seal = |prefix: &str, key: u8, more: &str| {
        ok(&entry(), &format!("seal --prefix {prefix} --key int {more} {key}"))
    };
    let (logs, plain) = ("--audience logs", "--form text");
    let (user, part) = (seal("user", 1, logs), seal("part", 2, logs));
    let line = format!(
        "user UserId(Internal<user>({user})) cannot access part {part}, but user {user} may see it"
    );
    let resources = "[resource.user]\nkey = \"int\"\n[resource.part]\nkey = \"int\"\n";
    let folder = Folder::new(&[("opaque-id.toml", resources)]);
    let opened = output(folder.command(&entry(), "open").arg(&line));
    let expected = format!("{user}  1  integer  key id 0\n{part}  2  integer  key id 0\n");
    assert_eq!(stdout(&opened), expected);
    let both = [seal("user", 1, plain), seal("part", 2, plain)];
    let [user, part] = &both;
    let far = " ".repeat(65_000);
    for line in [
        format!("_{user}_ {part}"),
        format!("{{\"id\":\"{user}\",\"key\":\"part-{part}\"}}"),
        format!("GET /?of=%2Fusers%2F{user}%2Fparts%2F{part}"),
        format!("{user}-{part}"),
        format!("{user}{far}{part}"),
        format!("\u{1b}[3muser\u{1b}[0m=\u{1b}[0m{user} \u{1b}[31m{part}"),
    ] {
        let opened = output(folder.command(&entry(), "open").arg(&line));
        assert_eq!(good(&opened).lines().count(), 2, "{line}");
        let piped = with_input(&mut folder.command(&entry(), "open -"), &line).expect("runs");
        assert_eq!(piped, opened);
    }
    let misspelled = format!("{user} of the x_establishment");
    let opened = output(folder.command(&entry(), "open").arg(&misspelled));
    assert_eq!(good(&opened), "1  integer  key id 0");
    let split = "user_6wr8ndhrz4xkw 6wr8ndhrz4xkw";
    let refused = output(folder.command(&entry(), "open").arg(split));
    refuses(&refused, 1, &format!("suggestion: {}", split.replace(' ', "")));
    let long = output(folder.command(&entry(), "open").arg(far.replace(' ', "x")));
    refuses(&long, 1, "argument 1: longer than any id");
    let found = output(opaque_id("", "inspect").arg(format!("of{far}{user}")));
    assert!(stdout(&found).contains(&format!("suggestion: {user}")), "{}", stderr(&found));
    // The second id is of another resource.
    let line = format!("[{}]", both.join(","));
    let opened = output(folder.command(&entry(), "open --prefix user").arg(&line));
    assert!(stdout(&opened).contains("  1  integer  key id 0"), "{}", stdout(&opened));
    refuses(&opened, 1, "part");
    // Each refused id has its reason.
    let opened = output(folder.command(&entry(), "open --prefix cart --key int").arg(&line));
    both.iter().for_each(|id| refuses(&opened, 1, &format!("argument 1: {id}: invalid id")));
}

#[test]
fn an_answer_says_whether_a_tag_verifies_it() {
    let (right, wrong) = (&entry(), &other_entry(0));
    let check_value = |entries| {
        let held = ok(entries, "keys");
        held.rsplit(' ').next().expect("a check value").to_owned()
    };
    let structured = "0203b3ed-b9f5-b186-02de-b9c4d86f5e13";
    for (key, value, form, is_verified) in [
        ("uuid", KEY, "text", false),
        ("structured", structured, "uuid", false),
        ("uuid", KEY, "tagged", true),
        ("int", "42", "text", true),
        ("int", "42", "uuid", true),
        ("int", "42", "short", true),
    ] {
        let of = format!("--prefix user --key {key} --form {form}");
        let id = ok(right, &format!("seal {of} {value}"));
        let call = |entries: &str, command: &str| run(entries, &format!("{command} {of} {id}"));
        let opened = call(right, "open");
        assert!(opened.status.success() && stdout(&opened).starts_with(value));
        assert_eq!(stdout(&opened).ends_with("  unverified\n"), !is_verified);
        let record = parse(stdout(&call(right, "open --json")));
        assert_eq!(record["verified"], json!(is_verified));
        for command in ["open", "renew"] {
            let required = call(right, &format!("{command} --require-verified"));
            assert_eq!(required.status.success(), is_verified, "{of}");
            assert_eq!(stdout(&required).is_empty(), !is_verified);
            let other = call(wrong, command);
            assert_eq!(other.status.success(), !is_verified, "{of}");
            for (output, entries) in [(required, right), (other, wrong)] {
                let compare = format!(
                    "compare the check value {} of key id 0 with the application's\n",
                    check_value(entries)
                );
                let error = stderr(&output);
                assert_eq!(error.ends_with(&compare), !is_verified, "{error}");
            }
        }
    }
    // The id is printed once per secret.
    let of = "--prefix user --key uuid7";
    let ids = ok(right, &format!("seal {of} {KEY} {KEY}"));
    let output = run(right, &format!("open {of} {}", ids.replace('\n', " ")));
    assert_eq!(stderr(&output).matches("check value").count(), 1);
}

#[test]
fn a_time_far_from_now_is_pointed_out() {
    let ahead = |hours: i64| (Timestamp::now() + hours.hours()).as_millisecond();
    for (millis, is_far) in [
        (946_684_799_999, true),
        (946_684_800_000, false),
        (ahead(1), false),
        (ahead(48), true),
        // This is after the year 9999.
        ((1 << 48) - 1, true),
    ] {
        let hex = format!("{millis:012x}");
        let key = format!("{}-{}-7a35-8f00-000000000001", &hex[..8], &hex[8..]);
        let opened = |of: &str| {
            let id = ok(&entry(), &format!("seal --prefix user {of} {key}"));
            let opened = run(&entry(), &format!("open --prefix user {of} {id}"));
            assert!(opened.status.success());
            (stderr(&opened).to_owned(), id)
        };
        for kind in ["uuid7", "ulid"] {
            let (notes, id) = opened(&format!("--key {kind}"));
            let note = format!("the time of {id} is before 2000 or more than a day from now");
            assert_eq!(notes.contains(&note), is_far, "{key}: {notes}");
            // A tag shows that the secret is right.
            let (notes, _) = opened(&format!("--key {kind} --form tagged"));
            assert_eq!(notes, "");
        }
    }
}

#[test]
fn renew_seals_ids_with_the_newest_secret() {
    let of = "--prefix order --key int --form uuid";
    let old = ok(&entry(), &format!("seal {of} 42"));
    let both = format!("{},{}", ok("", "keygen --key-id 1"), entry());
    let new = ok(&both, &format!("renew {of} {old}"));
    assert_ne!(new, old);
    assert_eq!(
        ok(&both, &format!("open {of} {old} {new}")),
        "42  integer  key id 0\n42  integer  key id 1",
    );
    let record = parse(&ok(&both, &format!("renew --json {of} {old}")));
    assert_eq!(record, json!({"id": new, "old_id": old, "key_id": 1}));
}

#[test]
fn invalid_lines_are_reported_and_the_others_are_processed() {
    let good = ok(&entry(), "seal --prefix user --key int 7");
    let input = format!("{good}\n\u{1b}[31mbad\n{good}\n");
    let output = run_with(&input, &entry(), "open --prefix user --key int -");
    assert_eq!(stdout(&output), "7  integer  key id 0\n".repeat(2));
    refuses(&output, 1, "");
    let error = stderr(&output);
    assert!(error.starts_with("line 2: \\u{1b}[31mbad: "), "{error}");
}

#[test]
fn forms_that_do_not_exist_are_rejected_with_a_suggestion() {
    for (of, suggestion) in [
        ("--key int --form tagged", "use the text form"),
        ("--key ulid --form uuid", "use the text or the tagged form"),
        ("--key uuid7 --form short", "only integers have a short form"),
    ] {
        let output = run(&entry(), &format!("seal --prefix user {of} 1"));
        refuses(&output, 2, suggestion);
    }
}

#[test]
fn inspect_needs_no_secret() {
    let id = "user_7x1nhm7sq0r1qh4pewbejb04n3";
    let found = run("", &format!("inspect --json {id} {} 42", id.to_uppercase()));
    assert_eq!(found.status.code(), Some(1));
    let records: Vec<Value> = stdout(&found).lines().map(parse).collect();
    assert_eq!(records[0]["well_formed"], json!(true));
    assert_eq!(records[1]["suggestion"], json!(id));
    assert!(text(&records[2], "problem").contains("internal key"));
    let typeid = ok("", "inspect prefix_01h455vb4pex5vsknk084sn02q");
    let found = "well formed; text form; prefix prefix; key id 0; UUID 01890a5d-ac96-774b-bcce-b302099a8057 if mapped";
    assert!(typeid.contains(found));
}

#[test]
#[cfg(target_os = "linux")]
fn a_stream_runs_in_constant_memory() {
    let mut child = opaque_id(&entry(), "seal --prefix user --key int -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut output = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut input = child.stdin.take().expect("piped");
    // Results are printed while the input is still open, so memory stays small.
    let writer = std::thread::spawn(move || {
        for number in 0..300_000 {
            writeln!(input, "{number}").expect("writes");
        }
        input
    });
    for _ in 0..299_000 {
        let line = output.next().expect("a line").expect("UTF-8");
        assert!(line.starts_with("user_"));
    }
    let input = writer.join().expect("no panic");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("runs");
    let peak: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|kib| kib.trim().trim_end_matches("kB").trim().parse().ok())
        .expect("a size in KiB");
    assert!(peak < 32 * 1024, "{peak} KiB");
    drop(input);
    assert_eq!(output.count(), 1_000);
    assert!(child.wait().expect("ends").success());
}

/// Returns a database file with these tables.
fn sqlite(schema: &str) -> (Folder, String) {
    let folder = Folder::new(&[]);
    let url = format!("sqlite://{}", folder.path("shop.db"));
    execute(Engine::Sqlite, &format!("{url}?mode=rwc"), schema).expect("created");
    (folder, url)
}

fn check_schema(url: &str) -> Output {
    run("", &format!("check-schema --database-url {url}"))
}

#[test]
fn check_schema_prints_sql() {
    let (_folder, url) = sqlite("CREATE TABLE users (id CHAR(36) NOT NULL PRIMARY KEY, name TEXT)");
    let output = check_schema(&url);
    assert_eq!(output.status.code(), Some(1));
    let script = stdout(&output);
    let first = "-- Stop the application, back up, and run this with `sqlite3 -bail FILE`.";
    assert!(script.starts_with(first), "{script}");
    for line in [
        "\n-- users.id is CHAR(36): text ",
        "\n; BEGIN IMMEDIATE\n",
        "\n; CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY, name TEXT)\n",
        "\n; COMMIT\n",
        "\n-- DROP TABLE \"users_before_opaque_id\";\n",
    ] {
        assert!(script.contains(line), "{line}: {script}");
    }
    assert!(script.ends_with("\n-- key columns: 0 right, 1 wrong, 0 not judged\n"));

    let report = run("", &format!("check-schema --json --database-url {url}"));
    let report = parse(stdout(&report));
    assert_eq!(report["right"], 0);
    assert_eq!(report["findings"][0]["column"], "id");
    assert_eq!(report["findings"][0]["unconvertible"], 0);
}

/// A pipe gets a name with colors and line ends.
#[test]
fn check_schema_keeps_or_escapes_names() {
    let (_folder, url) = sqlite(
        "CREATE TABLE \"a\u{1b}[31m\nDROP TABLE victim; --\" (id CHAR(36) NOT NULL PRIMARY KEY);
         CREATE TABLE \"d(e [x]\" (\"b id\" CHAR(36) NOT NULL PRIMARY KEY)",
    );
    let output = check_schema(&url);
    let script = stdout(&output);
    for name in [
        "-- a\\u{1b}[31m\\nDROP TABLE victim; --.id is CHAR(36)",
        "\n; ALTER TABLE \"d(e [x]\" RENAME TO",
    ] {
        assert!(script.contains(name), "{script}");
    }
    assert!(!script.contains("\nDROP TABLE victim") && !script.starts_with("DROP TABLE victim"));
    assert!(script.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn check_schema_counts_wrong_rows_of_sqlite() {
    let (_folder, url) = sqlite(
        "CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY);
         INSERT INTO users VALUES (zeroblob(15)), (zeroblob(16)), (zeroblob(17)), ('0123456789abcdef')",
    );
    let output = check_schema(&url);
    assert_eq!(output.status.code(), Some(1));
    let found = "something other than 16 bytes: 3;";
    assert!(stdout(&output).contains(found), "{}", stdout(&output));
}

#[test]
fn check_schema_finds_nothing_wrong() {
    let (_folder, url) = sqlite(
        "CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY, stripe_id TEXT); CREATE TABLE days (day DATE PRIMARY KEY)",
    );
    let check = |args: &str| {
        output(opaque_id("", &format!("check-schema {args}")).env("DATABASE_URL", &url))
    };
    let right = "-- key columns: 1 right, 0 wrong, 0 not judged";
    assert_eq!(good(&check("--exclude days,users.stripe_id")), right);
    refuses(&check("--exclude days"), 1, "");
    let nothing = check("--exclude days,users");
    assert_eq!(
        (nothing.status.code(), stdout(&nothing)),
        (Some(1), "-- no key columns were found\n")
    );
}

#[test]
fn check_schema_reports_why_it_cannot_read() {
    let check = |url| {
        let output = check_schema(url);
        assert_eq!(output.status.code(), Some(2), "{url}");
        stderr(&output).to_owned()
    };
    let error = check("oracle://x");
    assert!(error.contains("the URL must start with"), "{error}");
    let error = check("sqlite:///nowhere/at/all.db");
    assert!(error.contains("cannot read the schema: "), "{error}");
    let cause = "unable to open database file";
    assert_eq!(error.matches(cause).count(), 1, "{error}");
}

/// There is one file per dialect, with each command after `-- $ opaque-id` and then its output.
#[test]
fn sql_of_the_tables() {
    for (dialect, snapshot) in [
        ("postgres", include_str!("sql/postgres.sql")),
        ("mysql", include_str!("sql/mysql.sql")),
        ("mariadb", include_str!("sql/mysql.sql")),
        ("sqlite", include_str!("sql/sqlite.sql")),
    ] {
        let mut printed = String::new();
        for args in [
            "sql mapping --table order_ids",
            "sql mapping --table shop.order_ids --shared",
            "sql mapping --table order_ids --index hashed",
            "sql mapping --table order_ids --plan hashed --shared",
            "sql sequences",
            "sql packs --table events",
            "sql packs --table shop.events --key i64",
        ] {
            let sql = ok("", &format!("{args} --dialect {dialect}"));
            printed += &format!("-- $ opaque-id {args}\n{sql}\n");
        }
        assert_eq!(printed, snapshot, "{dialect}");
    }
}

#[test]
fn sql_of_engines_is_what_they_accept() {
    for (args, expected) in [
        (
            "sql mapping --engine cockroach",
            "id INT8 NOT NULL DEFAULT unordered_unique_rowid() PRIMARY KEY,",
        ),
        ("sql mapping --engine yugabyte", "IDENTITY (CACHE 1000) PRIMARY KEY,"),
        ("sql mapping --engine dsql", "IDENTITY (CACHE 65536) PRIMARY KEY,"),
        ("sql mapping --engine dsql", "CREATE UNIQUE INDEX ASYNC external_ids_uuid"),
        ("sql mapping --engine tidb", "id BIGINT NOT NULL AUTO_RANDOM PRIMARY KEY,"),
        ("sql sequences --engine dsql", "CREATE TABLE IF NOT EXISTS opaque_id_sequences"),
        ("sql packs --table events --engine yugabyte", "PRIMARY KEY (id ASC)\n);"),
    ] {
        let sql = ok("", args);
        assert!(sql.contains(expected), "{args}: {sql}");
    }
    let packs = ok("", "sql packs --table events --engine cockroach");
    assert!(!packs.contains("STORAGE") && !packs.contains("toast"), "{packs}");
    for (args, expected) in [
        ("sql mapping --engine spanner", "use sealed ids"),
        ("sql mapping --engine tidb --index hashed", "use --index unique"),
        ("sql packs --table events --engine tidb", "use encrypted columns"),
    ] {
        refuses(&run("", args), 2, expected);
    }
    refuses(&run("", "sql mapping"), 2, "--engine");
}

#[test]
fn sql_takes_no_names_that_need_quotes() {
    let output = output(opaque_id("", "sql mapping --dialect sqlite --table").arg("ids; --"));
    refuses(&output, 2, "invalid table name \"ids; --\"");
    assert_eq!(stdout(&output), "");
}

#[test]
fn sql_functions_of_resources() {
    let long = "a".repeat(56);
    let toml = format!(
        "[resource.user]\n[resource.cart]\nkey = \"i64\"\nform = \"uuid\"\n[resource.map]\nkey = \"i64\"\n\
         form = \"mapped\"\n[resource.both]\nkey = \"i64\"\nform = \"tagged\"\n[resource.{long}]\n"
    );
    let folder = Folder::new(&[("opaque-id.toml", &toml)]);
    let functions = |entries: &str, dialect: &str, args: &str| {
        let line = format!("sql functions --dialect {dialect} {args}");
        output(&mut folder.command(entries, line.trim_end()))
    };
    for dialect in ["postgres", "mysql", "mariadb"] {
        for options in ["", "--rotate"] {
            let script = functions(&entry(), dialect, &format!("user cart {options}"));
            let script = stdout(&script);
            assert!(script.contains("subkeys_user") && script.contains("subkeys_cart"));
            assert!(!script.contains("map") && !script.contains(&SECRET[..16]), "{script}");
            assert_eq!(script.contains("\nCREATE "), options.is_empty());
        }
        let drop = functions("", dialect, "--drop");
        assert!(stdout(&drop).contains("subkeys_cart"), "{}", stderr(&drop));
        assert!(!stdout(&drop).contains("map"));
        for (args, error) in [
            ("nobody", "has no resource `nobody`"),
            ("user user", "named twice"),
            ("map", "`map`: the resource is mapped"),
            ("both", "`both`: integers have no tagged form"),
            (&*long, "at most 55 characters"),
            ("user --schema a;b", "invalid schema name \"a;b\""),
            ("user --prefix user", "cannot be used with"),
            ("--rotate --drop", "cannot be used with"),
            ("--prefix User --key ulid", "invalid prefix"),
        ] {
            let refused = functions(&entry(), dialect, args);
            refuses(&refused, 2, error);
            assert_eq!(stdout(&refused), "");
        }
    }
    folder.write("opaque-id.toml", "");
    let refused = functions(&entry(), "postgres", "");
    refuses(&refused, 2, "has no resource whose ids are sealed");
}

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
