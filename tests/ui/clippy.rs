//! `docs/clippy.toml` names calls that exist, and clippy finds each of them.

use std::path::Path;
use std::process::Command;
use std::{collections::BTreeSet, fs};

use crate::cases::diagnostics;

const TESTS: &str = env!("CARGO_MANIFEST_DIR");

fn messages(source: &str, uses: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut clippy = Command::new("clippy-driver");
    clippy.arg(source).current_dir(TESTS).env("CLIPPY_CONF_DIR", "../docs");
    let found = diagnostics(&mut clippy, uses).into_iter().map(|it| it.message);
    found.filter(|it| !it.ends_with("warnings emitted")).collect()
}

#[test]
fn clippy_finds_each_call_of_its_file_and_none_of_the_derives() {
    let file = fs::read_to_string(Path::new(TESTS).join("../docs/clippy.toml")).expect("the file");
    let (file, _) = file.split_once("# SeaORM 1.1").expect("the calls of another version");
    let (types, methods) = file.split_once("disallowed-methods").expect("two lists");
    let message = |what: &str, rest: &str| {
        Some(format!("use of a disallowed {what} `{}`", rest.split('"').next()?))
    };
    let paths = |list: &str, what| {
        let list = list.split("path = \"").skip(1);
        list.filter_map(|rest| message(what, rest)).collect::<Vec<_>>()
    };
    let expected = [paths(types, "type"), paths(methods, "method")].concat();
    assert_eq!(messages("ui/leaks.rs", |_| true), expected.into_iter().collect());

    for names in [
        ["opaque_id_sqlx", "sqlx"],
        ["opaque_id_diesel", "diesel"],
        ["opaque_id_seaorm", "sea_orm"],
    ] {
        let source = format!("{}/{}_alone.rs", env!("CARGO_TARGET_TMPDIR"), names[0]);
        let derives = include_str!("derives.rs").replace("adapter", names[0]);
        fs::write(&source, format!("{derives}pub use {};", names[1])).expect("a source");
        let uses = |it: &str| names.contains(&it.split('=').next().unwrap_or_default());
        assert_eq!(messages(&source, uses), BTreeSet::new());
    }
}
