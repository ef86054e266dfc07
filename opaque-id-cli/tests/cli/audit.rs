//! The audit log of `opaque-id open`.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::{
    Folder, KEY, SECRET, entry, ok, opaque_id, output, parse, refuses, run, run_with, stderr,
    stdout, text, vectors,
};

const OF: &str = "--prefix user --key int";

struct Log {
    _folder: Folder,
    file: String,
}

impl Log {
    fn new() -> Self {
        let folder = Folder::new(&[]);
        Self { file: folder.path("audit.jsonl"), _folder: folder }
    }

    fn command(&self, ids: &[&str]) -> Command {
        let mut command = opaque_id(&entry(), &format!("open {OF} --audit-log {}", self.file));
        command.env("USER", "ada").env_remove("SUDO_USER").arg("--").args(ids);
        command
    }

    fn open(&self, ids: &[&str]) -> Output {
        output(&mut self.command(ids))
    }

    fn lines(&self) -> Vec<Value> {
        fs::read_to_string(&self.file).expect("a log").lines().map(parse).collect()
    }
}

fn id(key: &str) -> String {
    ok(&entry(), &format!("seal {OF} {key}"))
}

#[test]
fn every_open_is_logged_without_its_key() {
    let log = Log::new();
    let (good, other) = (id("987654321"), "order_ea6zng67c1c8597fhz51f3j11x");
    let opened = log.open(&[&good, other]);
    refuses(&opened, 1, "argument 2: ");
    assert_eq!(stdout(&opened), "987654321  integer  key id 0\n");
    output(log.command(&[&format!("(External({good}))")]).env("SUDO_USER", "grace"));
    let mut by_variable = opaque_id(&entry(), &format!("open {OF} {good}"));
    output(by_variable.env("OPAQUE_ID_AUDIT_LOG", &log.file).env_remove("USER"));

    let text = fs::read_to_string(&log.file).expect("a log");
    assert!(!text.contains("987654321"), "{text}");
    let lines = log.lines();
    assert_eq!(lines.len(), 4);
    for line in &lines {
        let time = line["time"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        assert!(time.is_some_and(|time| time <= jiff::Timestamp::now()), "{line}");
        assert_eq!(line["uid"].is_u64(), cfg!(unix));
        assert_eq!(line["resource"], json!("user"));
    }
    for (line, field, expected) in [
        (0, "user", json!("ada")),
        (0, "id", json!(good)),
        (0, "outcome", json!("opened")),
        (0, "key_id", json!(0)),
        (1, "id", json!(other)),
        (1, "outcome", json!("refused")),
        (2, "sudo_user", json!("grace")),
        (3, "outcome", json!("opened")),
    ] {
        assert_eq!(lines[line][field], expected, "{}", lines[line]);
    }
    assert!(self::text(&lines[1], "reason").contains("another resource"), "{}", lines[1]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        let mode = fs::metadata(&log.file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// The author of a file of resources can call a resource otherwise.
#[test]
fn the_domain_the_audience_and_the_file_are_logged() {
    let log = Log::new();
    let resources = format!("{}.toml", log.file);
    fs::write(&resources, "[resource.order]\nkey = \"int\"\ndomain = \"payment\"")
        .expect("written");
    let of = format!("--resources {resources} --audience partner-a");
    let payment = "seal --prefix payment --key int --audience partner-a 7";
    let id = ok(&entry(), payment).replace("payment_", "order_");
    for (of, of_refused) in [(of.clone(), None), (format!("{of} --prefix order"), Some("payment"))]
    {
        let open = format!("open {of} --audit-log {} {id} order_x", log.file);
        assert_eq!(stdout(&run(&entry(), &open)), "7  integer  key id 0\n");
        let lines = log.lines();
        let [.., opened, refused] = &lines[..] else { panic!("{lines:?}") };
        for (line, domain) in [(opened, Some("payment")), (refused, of_refused)] {
            let expected = json!([domain.map(|_| "order"), domain, "partner-a", resources]);
            let names = ["resource", "domain", "audience", "resources"];
            assert_eq!(json!(names.map(|name| &line[name])), expected);
        }
    }
}

/// Their digits do not matter.
#[test]
fn long_ids_are_logged_whole() {
    let log = Log::new();
    let vectors = vectors(include_str!("../../../spec/tokens-v1.json"));
    let grants: Vec<_> = vectors.iter().map(|vector| text(vector, "grant")).collect();
    log.open(&grants);
    let logged = log.lines();
    assert_eq!(logged.iter().map(|line| text(line, "id")).collect::<Vec<_>>(), grants);
}

/// An id that `--require-verified` refuses was not answered.
#[test]
fn an_id_that_must_be_verified_is_logged_as_refused() {
    let log = Log::new();
    let of = "--prefix user --key uuid";
    let id = ok(&entry(), &format!("seal {of} {KEY}"));
    let refused = format!("open {of} --require-verified --audit-log {} {id}", log.file);
    refuses(&run(&entry(), &refused), 1, "expected a tag or a cursor");
    assert_eq!(log.lines()[0]["outcome"], json!("refused"));
}

#[test]
fn no_id_forges_a_line_or_shows_a_secret() {
    let log = Log::new();
    let forged =
        "user_x\",\"outcome\":\"opened\"}\n{\"time\":\"2026-01-01T00:00:00Z\",\"user\":\"eve\"}";
    let long = "x".repeat(100_000);
    let ids = [forged, "\u{1b}[2K\u{202e}user\u{2028}", &entry(), &long, ""];
    let output = log.open(&ids);
    assert_eq!(output.status.code(), Some(1));
    let text = fs::read_to_string(&log.file).expect("a log");
    assert!(text.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{text}");
    assert!(!text.contains(&SECRET[..20]), "{text}");
    let lines = log.lines();
    // A text that is too long for an id is not opened.
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["id"], json!(forged));
    let is_refused =
        |line: &Value| (&line["outcome"], &line["user"]) == (&json!("refused"), &json!("ada"));
    assert!(lines.iter().all(is_refused));
    refuses(&output, 1, "argument 4: ");
}

/// A full disk may have cut off a line.
#[test]
fn half_a_line_stays_by_itself() {
    let log = Log::new();
    let half = r#"{"time":"2026-03-0"#;
    fs::write(&log.file, half).expect("a log");
    for key in ["1", "2"] {
        log.open(&[&id(key)]);
    }
    let text = fs::read_to_string(&log.file).expect("a log");
    let lines: Vec<_> = text.strip_prefix(half).expect("the half").lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], "");
    assert!(lines[1..].iter().all(|line| parse(line)["outcome"] == json!("opened")), "{text}");
}

#[test]
fn without_the_log_nothing_is_opened() {
    let log = Log::new();
    let (good, other) = (id("987654321"), id("5"));
    let folder = format!("{}/nowhere/log", log.file);
    let mut unwritable = vec![folder];
    if cfg!(target_os = "linux") {
        unwritable.push("/dev/full".to_owned());
    }
    for file in unwritable {
        let line = format!("open {OF} --json --audit-log {file} -");
        let refused = run_with(&format!("{good}, {other}\n{good}\n"), &entry(), &line);
        assert_eq!(stdout(&refused), "");
        refuses(&refused, 2, &file);
        assert_eq!(stderr(&refused).lines().count(), 1, "{}", stderr(&refused));
        refuses(&refused, 2, "opened: cannot ");
    }
}

/// A pipe without a reader is an error here, although it is success for an answer.
#[cfg(unix)]
#[test]
fn a_closed_pipe_is_no_log() {
    let log = Log::new();
    assert!(Command::new("mkfifo").arg(&log.file).status().expect("it runs").success());
    let id = id("987654321");
    let mut child = log
        .command(&["-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    // Children of other tests could inherit a reader of this process.
    let mut reader = Command::new("head");
    let mut reader =
        reader.args(["-n", "1", &log.file]).stdout(Stdio::null()).spawn().expect("it runs");
    writeln!(stdin, "{id}").expect("written");
    reader.wait().expect("a line");
    writeln!(stdin, "{id}").expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(stdout(&output), "987654321  integer  key id 0\n");
    refuses(&output, 2, "cannot write the audit log");
}

#[test]
fn processes_that_write_at_the_same_time_do_not_mix_lines() {
    let log = Log::new();
    let ids = format!("{}\n", id("7")).repeat(500);
    let line = format!("open {OF} --audit-log {} -", log.file);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(run_with(&ids, &entry(), &line).status.success()));
        }
    });
    assert_eq!(log.lines().len(), 2_000);
}
