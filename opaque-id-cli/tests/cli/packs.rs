//! `opaque-id packs tune`.

use std::fs;
use std::io::Read;
use std::process::{Command, Output};

use crate::{Folder, entry, good, refuses, run, run_with, stderr, stdout};

fn events(count: u32) -> String {
    let event = |i: u32| format!("{{\"actor\":\"user {}\",\"what\":\"login\"}}\n", i * i % 97);
    (0..count).map(event).collect()
}

fn tune(options: &str, rows: &str) -> Output {
    run_with(rows, "", &format!("packs tune{options} -"))
}

#[test]
fn tune_recommends_settings_and_writes_measurements_and_a_plot() {
    let old = "an old file, ".repeat(10_000);
    let folder = Folder::new(&[("rows", &events(200)), ("a.csv", &old)]);
    let output = folder.run("packs tune --csv a.csv --plot a.svg rows");
    let printed = good(&output);
    assert!(printed.starts_with("200 rows, "), "{printed}");
    assert!(printed.contains("\nPacks of up to "), "{printed}");
    let untrained = "needed to train dictionaries of 16 KiB, ";
    assert!(printed.contains(untrained), "{printed}");
    // A bar is printed only to terminals.
    assert_eq!(stderr(&output), "");

    let csv = folder.read("a.csv");
    let columns = |line: &str| line.split(',').count();
    // There are four levels, six layouts and no dictionary.
    assert_eq!(csv.lines().count(), 1 + 4 * 6, "{csv}");
    assert!(csv.lines().all(|line| columns(line) == 11), "{csv}");
    let svg = folder.read("a.svg");
    assert!(svg.starts_with("<svg") && svg.contains("31.9 kB"), "{svg}");
    // No other file remains.
    assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 3);
}

#[test]
fn rows_are_read_from_standard_input_and_separated_by_empty_lines() {
    let records = events(300).replace("\n", "\nmore\n\n\n");
    let output = tune(" --separator blank-line --integer-keys", &records);
    assert!(good(&output).starts_with("300 rows, "));
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one_and_the_result() {
    let folder = Folder::new(&[("rows", &events(200)), ("a.svg", "old")]);
    let output = folder.run("packs tune --csv missing/a.csv --plot a.svg rows");
    refuses(&output, 2, "cannot write missing/a.csv: ");
    assert!(stdout(&output).contains("\nPacks of up to "));
    assert_eq!(folder.read("a.svg"), "old");
}

#[cfg(unix)]
#[test]
fn a_link_and_a_pipe_stay_what_they_are() {
    let folder = Folder::new(&[("a.csv", "old"), ("rows", &events(200))]);
    let [link, pipe] = ["link", "pipe"].map(|name| folder.0.path().join(name));
    // A second name for the file shows whether it is replaced.
    fs::hard_link(folder.path("a.csv"), folder.path("same.csv")).expect("a name");
    std::os::unix::fs::symlink("a.csv", &link).expect("a link");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // It is opened for writing as well, so that neither side waits for the other.
    let mut reader = fs::File::options().read(true).write(true).open(&pipe).expect("a pipe");
    folder.ok("packs tune --csv link --plot pipe rows");
    assert!(link.is_symlink());
    // The system opens the link, and so may refuse it.
    for name in ["a.csv", "same.csv"] {
        assert!(folder.read(name).starts_with("pack_bytes"), "{name}");
    }
    let mut svg = [0; 4];
    assert!(!fs::metadata(&pipe).expect("a pipe").is_file());
    reader.read_exact(&mut svg).expect("a plot");
    assert_eq!(&svg, b"<svg");
}

#[test]
fn what_is_no_sample_is_an_error_that_says_what_to_do() {
    for (rows, found) in [("", 0), ("\n\n\n", 0), (&*events(49), 49)] {
        let output = tune("", rows);
        refuses(&output, 2, "");
        let expected = format!(
            "error: standard input: expected a sample of at least 50 rows with values, found {found}: add rows, or choose \
             another --separator\n"
        );
        assert_eq!(stderr(&output), expected);
    }
    let output = run("", "packs tune /nowhere");
    refuses(&output, 2, "error: cannot read /nowhere: ");
}

#[test]
fn options_of_a_table_are_checked_before_the_database_is_asked() {
    for (line, expected) in [
        ("create --pack-bytes 7", "expected bytes of a pack from 256 to 1048576, found 7"),
        ("create --row-level 0", "expected a level of rows from 1 to 19, found 0"),
        ("create --pack-padding 0", "expected steps of packs from 1 to 4096, found 0"),
        ("create --pack-padding much", "expected none, padme or a number of bytes"),
        ("configure --write-through", "unexpected argument '--write-through'"),
        ("import", "required arguments were not provided"),
        ("import --from log", "required arguments were not provided"),
        ("import --columns n", "required arguments were not provided"),
        ("import --from log --columns n --value body", "cannot be used with"),
        ("import --from log --value body --keep", "cannot be used with"),
        ("import --from log\"s --value body", "expected a name without quotes"),
        ("import --from log --columns n,b`", "expected a name without quotes"),
    ] {
        let of = "--prefix event --key uuid7 --database-url sqlite:none events";
        refuses(&run(&entry(), &format!("packs {line} {of}")), 2, expected);
    }
}

#[test]
fn a_server_that_refuses_is_an_error_that_says_so() {
    // The port has no listener any more.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    for server in ["postgres", "mysql"] {
        let url = format!("{server}://shop:hunter2@127.0.0.1:{port}/shop");
        let line = format!("packs verify --prefix event --key uuid7 --database-url {url} events");
        let output = run(&entry(), &line);
        refuses(&output, 2, "error: ");
        let found = stderr(&output);
        assert!(found.contains("refused") && !found.contains("hunter2"), "{found}");
    }
}
