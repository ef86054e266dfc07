//! `cargo run -p demo`, compared with the README.

use std::process::Command;

#[test]
fn it_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).output().expect("the demo starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{error}");
    for heading in 1..=5 {
        assert!(printed.contains(&format!("\n{heading}  ")), "{printed}");
    }
    // The tour begins with the README's example.
    let (first, _) = printed.split_once("Grace").expect("a second user");
    let row = first.lines().find(|line| line.contains("user_")).expect("a first user");
    assert!(first.contains("in SQLite") && row.contains(" 42 "), "{first}");
    // It says why an id was refused.
    for reason in ["not genuine", "another resource", "character 1 is upper case", "(integer)"] {
        assert!(printed.contains(reason), "{reason}: {printed}");
    }
}
