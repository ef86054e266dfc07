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
}
