//! `opaque-id packs tune`.

use std::fs;
use std::io::Read;
use std::process::{Command, Output};

use crate::{entry, good, refuses, run, run_with, stderr, stdout};

fn events(count: u32) -> String {
    let event = |i: u32| format!("{{\"actor\":\"user {}\",\"what\":\"login\"}}\n", i * i % 97);
    (0..count).map(event).collect()
}

fn tune(options: &str, rows: &str) -> Output {
    run_with(rows, "", &format!("packs tune{options} -"))
}

#[test]
fn tune_recommends_settings_and_writes_measurements_and_a_plot() {
    let folder = tempfile::tempdir().expect("a folder");
    let [rows, csv, svg] = ["rows", "a.csv", "a.svg"].map(|name| folder.path().join(name));
    fs::write(&rows, events(200)).expect("writes");
    fs::write(&csv, "an old file, ".repeat(10_000)).expect("writes");
    let [rows, csv, svg] = [&rows, &csv, &svg].map(|path| path.to_str().expect("UTF-8"));
    let line = format!("packs tune --csv {csv} --plot {svg} {rows}");
    let output = run("", &line);
    let printed = good(&output);
    assert!(printed.starts_with("200 rows, "), "{printed}");
    assert!(printed.contains("\nPacks of up to "), "{printed}");
    let untrained = "needed to train dictionaries of 16 KiB, ";
    assert!(printed.contains(untrained), "{printed}");
    // A bar is printed only to terminals.
    assert_eq!(stderr(&output), "");

    let csv = fs::read_to_string(csv).expect("a file");
    let columns = |line: &str| line.split(',').count();
    // There are four levels, six layouts and no dictionary.
    assert_eq!(csv.lines().count(), 1 + 4 * 6, "{csv}");
    assert!(csv.lines().all(|line| columns(line) == 11), "{csv}");
    let svg = fs::read_to_string(svg).expect("a file");
    assert!(svg.starts_with("<svg") && svg.contains("31.9 kB"), "{svg}");
    // No other file remains.
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
}

#[test]
fn rows_are_read_from_standard_input_and_separated_by_empty_lines() {
    let records = events(300).replace("\n", "\nmore\n\n\n");
    let output = tune(" --separator blank-line --integer-keys", &records);
    assert!(good(&output).starts_with("300 rows, "));
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one_and_the_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = folder.path().join("a.csv");
    fs::write(&csv, "old").expect("writes");
    let missing = folder.path().join("missing/a.svg");
    let [csv_name, missing] = [&csv, &missing].map(|path| path.to_str().expect("UTF-8"));
    let options = format!(" --csv {missing} --plot {csv_name}");
    let output = tune(&options, &events(200));
    refuses(&output, 2, &format!("cannot write {missing}: "));
    assert!(stdout(&output).contains("\nPacks of up to "));
    assert_eq!(fs::read_to_string(&csv).expect("a file"), "old");
}

#[cfg(unix)]
#[test]
fn a_link_and_a_pipe_stay_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let [csv, link, pipe] = ["a.csv", "link", "pipe"].map(|name| folder.path().join(name));
    fs::write(&csv, "old").expect("writes");
    // A second name for the file shows whether it is replaced.
    fs::hard_link(&csv, folder.path().join("same.csv")).expect("a name");
    std::os::unix::fs::symlink("a.csv", &link).expect("a link");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // It is opened for writing as well, so that neither side waits for the other.
    let mut reader = fs::File::options().read(true).write(true).open(&pipe).expect("a pipe");
    let [link_name, pipe_name] = [&link, &pipe].map(|path| path.to_str().expect("UTF-8"));
    let options = format!(" --csv {link_name} --plot {pipe_name}");
    good(&tune(&options, &events(200)));
    assert!(link.is_symlink());
    // The system opens the link, and so may refuse it.
    for name in ["a.csv", "same.csv"] {
        let written = fs::read_to_string(folder.path().join(name)).expect("a file");
        assert!(written.starts_with("pack_bytes"), "{name}");
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
    let refuses = |line: &str, expected: &str| {
        let output = run_with(
            "",
            &entry(),
            &format!("packs {line} --prefix event --key uuid7 --database-url sqlite:none events"),
        );
        refuses(&output, 2, "error: ");
        let found = stderr(&output);
        assert!(found.contains(expected), "{line}: {found}");
    };
    refuses("create --pack-bytes 7", "expected bytes of a pack from 256 to 1048576, found 7");
    refuses("create --row-level 0", "expected a level of rows from 1 to 19, found 0");
    refuses("create --pack-padding 0", "expected steps of packs from 1 to 4096, found 0");
    refuses("create --pack-padding much", "expected none, padme or a number of bytes");
    refuses("configure --write-through", "unexpected argument '--write-through'");
    refuses("import", "required arguments were not provided");
    refuses("import --from log", "required arguments were not provided");
    refuses("import --columns n", "required arguments were not provided");
    refuses("import --from log --columns n --value body", "cannot be used with");
    refuses("import --from log --value body --keep", "cannot be used with");
    refuses("import --from log\"s --value body", "expected a name without quotes");
    refuses("import --from log --columns n,b`", "expected a name without quotes");
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
        let output = run_with("", &entry(), &line);
        refuses(&output, 2, "error: ");
        let found = stderr(&output);
        assert!(found.contains("refused") && !found.contains("hunter2"), "{found}");
    }
}
