//! Runs the compiler on each case with the crates of this test, so it builds none. trybuild and ui_test check
//! all 584 parts of the dependencies once more, with three ORMs and SQLite's C. Snapshots contain the parts
//! with our words: message, place, label and advice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel};
use opaque_id_tests_rustc_args::rustc_args;

#[test]
fn what_must_not_compile() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let overwrite = std::env::var("OPAQUE_ID_TEST_UI").is_ok_and(|what| what == "overwrite");
    let cases = sources(&folder);
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(String::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = report(&folder, case);
                    let snapshot = case.with_extension("stderr");
                    let expected = fs::read_to_string(&snapshot).unwrap_or_default();
                    if overwrite {
                        fs::write(&snapshot, &report).expect("a snapshot to write");
                    } else if report.is_empty() || report != expected {
                        let failure = format!(
                            "\n=== {}\n--- expected\n{expected}--- report\n{report}",
                            case.display()
                        );
                        failures.lock().expect("no panic").push_str(&failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(
        failures.is_empty(),
        "OPAQUE_ID_TEST_UI=overwrite takes what the compiler says now\n{failures}"
    );
}

/// The `.rs` files of all folders below; each has its `.stderr` next to it, and nothing else is there.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of cases") {
        let crate_of_cases = entry.expect("an entry").path();
        if crate_of_cases.is_dir() {
            for file in fs::read_dir(crate_of_cases).expect("a folder of cases") {
                let file = file.expect("an entry").path();
                if file.extension().is_some_and(|extension| extension == "rs") {
                    sources.push(file);
                } else {
                    let source = file.with_extension("rs");
                    assert!(source.exists(), "{} has no case", file.display());
                }
            }
        }
    }
    sources.sort();
    sources
}

/// Returns the errors of a case: each message, its place in the case and its advice. Parts about other files
/// are omitted, because they change with those files.
fn report(folder: &Path, case: &Path) -> String {
    const ARGS: &[&str] = rustc_args!();
    let case = case.strip_prefix(folder).expect("a case of the folder");
    let mut report = String::new();
    for diagnostic in diagnostics(Command::new(ARGS[0]).arg(case).current_dir(folder), |_| true) {
        if diagnostic.level == DiagnosticLevel::Error && !diagnostic.spans.is_empty() {
            if !report.is_empty() {
                report.push('\n');
            }
            describe(&diagnostic, &mut report);
        }
    }
    report
}

/// Runs a compiler with the crates that `uses` accepts.
pub(crate) fn diagnostics(compiler: &mut Command, uses: impl Fn(&str) -> bool) -> Vec<Diagnostic> {
    const ARGS: &[&str] = rustc_args!();
    for (flag, value) in ARGS.iter().zip(&ARGS[1..]) {
        if *flag == "-L" || *flag == "--extern" && uses(value) {
            compiler.args([flag, value]);
        }
    }
    compiler
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=json"])
        .args(["--out-dir", env!("CARGO_TARGET_TMPDIR")]);
    let output = compiler.output().expect("the compiler runs");
    let lines = String::from_utf8_lossy(&output.stderr);
    let parsed = lines.lines().map(|line| serde_json::from_str(line).map_err(|_| line.to_owned()));
    parsed.collect::<Result<_, _>>().expect("lines of JSON")
}

/// In the way of the compiler.
fn describe(error: &Diagnostic, report: &mut String) {
    let code = error.code.iter().map(|code| format!("[{}]", code.code));
    *report += &format!("error{}: {}\n", code.collect::<String>(), error.message);
    for span in error.spans.iter().filter(|span| span.is_primary) {
        if let Some(line) = span.text.first() {
            let before = " ".repeat(line.highlight_start - 1);
            let marks = "^".repeat(line.highlight_end - line.highlight_start);
            let label = span.label.as_deref().unwrap_or_default();
            *report += &format!("{:>3} | {}\n", span.line_start, line.text);
            *report += format!("    | {before}{marks} {label}").trim_end();
            report.push('\n');
        }
    }
    for advice in error.children.iter().filter(|advice| advice.spans.is_empty()) {
        let level = match advice.level {
            DiagnosticLevel::Help => "help",
            _ => "note",
        };
        let message = advice.message.replace('\n', "\n      ");
        *report += &format!("    = {level}: {message}\n");
    }
}
