//! `opaque-id.toml`.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::{KEY, entry, ok, opaque_id, stderr, stdout};

const FILE: &str = r#"
[resource.user]

[resource.line_item]
key = "i32"
domain = "item"

[resource.session]
form = "uuid"

[resource.cart]
key = "i64"
form = "uuid"

[resource.order]
key = "i64"
form = "mapped"
"#;

fn folder(file: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("opaque-id.toml"), file).expect("written");
    fs::create_dir_all(folder.path().join("src/deep")).expect("created");
    folder
}

fn run_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = opaque_id(&entry(), args);
    command
        .current_dir(folder)
        .env_remove("OPAQUE_ID_RESOURCES")
        .env_remove("SUDO_UID");
    command.output().expect("the binary runs")
}

fn ok_in(folder: &Path, args: &[&str]) -> String {
    let output = run_in(folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output).trim_end().to_owned()
}

#[test]
fn ids_open_without_options() {
    let folder = folder(FILE);
    let below = &folder.path().join("src/deep");
    let user = ok(
        &entry(),
        &["seal", "--prefix", "user", "--key", "uuid7", KEY],
    );
    assert_eq!(ok_in(below, &["seal", "--prefix", "user", KEY]), user);
    let of_item = ["--prefix", "line_item", "--domain", "item", "--key", "int"];
    let item = ok(&entry(), &[&["seal"], &of_item[..], &["42"]].concat());
    let opened = format!(
        "{KEY}  UUIDv7  key id 0  2024-10-25T04:30:15.838Z  unverified\n42  integer  key id 0"
    );
    assert_eq!(ok_in(below, &["open", &user, &item]), opened);
    assert_eq!(
        ok_in(below, &["renew", &user, &item]),
        format!("{user}\n{item}")
    );

    // By an option or a variable from elsewhere.
    let file = folder.path().join("opaque-id.toml");
    let file = file.to_str().expect("UTF-8");
    let elsewhere = tempfile::tempdir().expect("a folder");
    assert_eq!(
        ok_in(
            elsewhere.path(),
            &["open", "--resources", file, &user, &item]
        ),
        opened
    );
    let mut command = opaque_id(&entry(), &["open", &user, &item]);
    let output = command
        .current_dir(elsewhere.path())
        .env("OPAQUE_ID_RESOURCES", file)
        .output();
    assert_eq!(stdout(&output.expect("the binary runs")).trim_end(), opened);
}

#[test]
fn options_that_contradict_the_file_are_errors() {
    let folder = folder(FILE);
    let of = ["--prefix", "line_item", "42"];
    let item = ok_in(folder.path(), &[&["seal"], &of[..]].concat());
    let same = ["--key", "i64", "--form", "text", "--domain", "item"];
    assert_eq!(
        ok_in(folder.path(), &[&["seal"], &same[..], &of].concat()),
        item
    );
    for (option, given, expected) in [
        ("key", "uuid7", "int"),
        ("form", "uuid", "text"),
        ("domain", "line_item", "item"),
    ] {
        for command in ["seal", "open", "renew"] {
            let contradicts = format!("--{option}={given}");
            let args = [command, &*contradicts, "--prefix", "line_item", &*item];
            let refused = run_in(folder.path(), &args);
            assert_eq!(refused.status.code(), Some(2));
            let error = format!("expected the {option} of `line_item` in ");
            assert!(stderr(&refused).contains(&error), "{}", stderr(&refused));
            let error = format!(
                "opaque-id.toml, {expected}, found another --{option}: leave the option out"
            );
            assert!(stderr(&refused).contains(&error), "{}", stderr(&refused));
            assert_eq!(stdout(&refused), "");
        }
    }
}

/// Only root can give files away; `src/resources.rs` tests the rule for other users.
#[cfg(unix)]
#[test]
fn a_file_of_another_user_is_refused() {
    use std::os::unix::fs::{chown, lchown, symlink};

    let folder = folder(FILE);
    let below = &folder.path().join("src/deep");
    let file = folder.path().join("opaque-id.toml");
    let seal = ["seal", "--prefix", "cart", "7"];
    let sealed = ok_in(below, &seal);
    if chown(&file, Some(12_345), None).is_err() {
        return;
    }
    let refused = || {
        let refused = run_in(below, &seal);
        assert_eq!(refused.status.code(), Some(2));
        let error = "opaque-id.toml to belong to you (user 0) or to root, found user 12345: if you trust them, name";
        assert!(stderr(&refused).contains(error), "{}", stderr(&refused));
        assert_eq!(stdout(&refused), "");
    };
    refused();
    // By name, and after `sudo`.
    let name = file.to_str().expect("UTF-8");
    assert_eq!(
        ok_in(below, &[&seal[..], &["--resources", name]].concat()),
        sealed
    );
    let mut by_sudo = opaque_id(&entry(), &seal);
    let by_sudo = by_sudo.current_dir(below).env("SUDO_UID", "12345").output();
    assert_eq!(
        stdout(&by_sudo.expect("the binary runs")).trim_end(),
        sealed
    );
    // A link of theirs to a file of ours.
    let ours = folder.path().join("ours.toml");
    fs::write(&ours, FILE).expect("written");
    fs::remove_file(&file).expect("removed");
    symlink(&ours, &file).expect("a link");
    assert_eq!(ok_in(below, &seal), sealed);
    lchown(&file, Some(12_345), None).expect("as root");
    refused();
}

#[test]
fn a_uuid_is_of_the_resource_that_accepts_it() {
    let folder = folder(FILE);
    let cart = ok_in(folder.path(), &["seal", "--prefix", "cart", "7"]);
    let session = ok_in(folder.path(), &["seal", "--prefix", "session", KEY]);
    let opened = format!(
        "7  integer  key id 0  of cart\n{KEY}  UUIDv7  key id 0  2024-10-25T04:30:15.838Z  of session  unverified"
    );
    assert_eq!(ok_in(folder.path(), &["open", &cart, &session]), opened);
    let record: Value =
        serde_json::from_str(&ok_in(folder.path(), &["open", "--json", &cart])).expect("JSON");
    let expected = json!({"id": cart, "key": "7", "key_id": 0, "time": null, "verified": true, "resource": "cart"});
    assert_eq!(record, expected);

    // Two without a tag cannot be told apart.
    let more = format!("{FILE}\n[resource.ticket]\nform = \"uuid\"\n");
    fs::write(folder.path().join("opaque-id.toml"), more).expect("written");
    assert!(ok_in(folder.path(), &["open", &cart]).ends_with("of cart"));
    let refused = run_in(folder.path(), &["open", &session]);
    assert_eq!(refused.status.code(), Some(1));
    let error = "it may be of `session`, `ticket`, whose ids say nothing about their resource; name one by --prefix";
    assert!(stderr(&refused).contains(error), "{}", stderr(&refused));
    assert!(ok_in(folder.path(), &["open", "--prefix", "session", &session]).starts_with(KEY));
}

#[test]
fn errors_say_what_to_do() {
    let user = ok(
        &entry(),
        &["seal", "--prefix", "user", "--key", "uuid7", KEY],
    );
    let with = folder(FILE);
    let without = tempfile::tempdir().expect("a folder");
    let broken = folder("[resource.user]\nkey = \"i16\"");
    let upper = user.to_uppercase();
    let typeid = "order_01h455vb4pex5vsknk084sn02q";
    for (folder, args, status, advice) in [
        (
            without.path(),
            &["open", &user][..],
            2,
            "`opaque-id resources > opaque-id.toml` reads the source",
        ),
        (
            without.path(),
            &["open", "--prefix", "user", &user],
            2,
            "such as --key uuid7, or write opaque-id.toml",
        ),
        (
            without.path(),
            &["open", "--resources", "nowhere.toml", &user],
            2,
            "`opaque-id resources` prints what",
        ),
        (
            without.path(),
            &["open", "--key", "int", &user],
            2,
            "--prefix <PREFIX>",
        ),
        (without.path(), &["seal", KEY], 2, "--prefix <PREFIX>"),
        (
            broken.path(),
            &["open", &user],
            2,
            "opaque-id.toml: `[resource.user]`: unknown key `i16`",
        ),
        (
            with.path(),
            &["seal", "--prefix", "team", KEY],
            2,
            "has no resource `team`: add it",
        ),
        (
            with.path(),
            &["open", "team_7x1nhm7sq0r1qh4pewbejb04n3"],
            1,
            "has no resource `team`; add it",
        ),
        (
            with.path(),
            &["open", &upper],
            1,
            "character 1 is upper case; ids are lower case; suggestion: user_",
        ),
        (
            with.path(),
            &["open", typeid],
            1,
            "look in its mapping table, for the UUID",
        ),
        (
            with.path(),
            &["open", "7"],
            1,
            "7: invalid id: it is not an external id but looks like an internal key",
        ),
    ] {
        let output = run_in(folder, args);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(advice),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn keys_have_the_names_of_the_derive() {
    for (name, kind, key) in [
        ("Uuid7", "uuid7", KEY),
        ("Ulid", "ulid", KEY),
        ("Uuid", "uuid", KEY),
        (
            "StructuredKey",
            "structured",
            "0203b3ed-b9f5-b186-02de-b9c4d86f5e13",
        ),
        ("i64", "int", "-42"),
        ("i32", "int", "42"),
        ("u32", "int", "42"),
    ] {
        let seal = |kind| {
            ok(
                &entry(),
                &["seal", "--prefix", "user", "--key", kind, "--", key],
            )
        };
        assert_eq!(seal(name), seal(kind));
    }
}

/// A package, with a file per pair of path and text.
fn source(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, text) in [("Cargo.toml", "[package]\nname = \"my-app\"\n")]
        .iter()
        .chain(files)
    {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, text).expect("written");
    }
    folder
}

#[test]
fn resources_are_read_from_the_source() {
    let of_tests = "#[opaque_id(prefix = \"test\")] struct Test;";
    let folder = source(&[
        (
            "src/lib.rs",
            "mod order; #[cfg(test)] mod fakes; #[cfg(test)] mod tests { #[opaque_id(prefix = \"test\")] struct Test; }
             #[derive(Debug, opaque_id_sqlx::OpaqueId)]
             #[opaque_id(prefix = \"user\")]
             pub struct User { pub id: Internal<User> }",
        ),
        (
            "src/order/mod.rs",
            "pub mod inner {
                 #[cfg_attr(feature = \"db\", derive(OpaqueId), opaque_id(prefix = \"order\", key = opaque_id_sqlx::key::Ulid))]
                 enum Order {}
             }
             #[derive(OpaqueId)]
             #[opaque_id(prefix = \"line_item\", key = i32, form = \"uuid\", domain = \"say \\\"item\\\" \u{202e}\", crate = \"ids\")]
             struct LineItem<T>(T);",
        ),
        ("src/order/tests/mod.rs", "// A folder of this name is skipped beside Cargo.toml only."),
        ("src/fakes.rs", of_tests),
        ("src/fakes/deep.rs", of_tests),
        ("tests/all.rs", of_tests),
        ("examples/all.rs", of_tests),
        ("target/debug/all.rs", of_tests),
        (".cache/all.rs", of_tests),
        ("src/template.rs", "struct {{ name }};"),
    ]);
    let expected = r#"# The resources of this application, for the command `opaque-id`, which also writes this file:
# opaque-id resources > opaque-id.toml

[resource.line_item]
key = "i32"
form = "uuid"
domain = "say \"item\" \u202e"

[resource.order]
key = "Ulid"
form = "text"

[resource.user]
key = "Uuid7"
form = "text""#;
    let printed = ok_in(folder.path(), &["resources"]);
    assert_eq!(printed, expected);
    assert_eq!(
        ok_in(folder.path(), &["resources", "src/lib.rs", "src/order"]),
        expected
    );

    // The file works.
    fs::write(folder.path().join("opaque-id.toml"), printed).expect("written");
    let user = ok_in(folder.path(), &["seal", "--prefix", "user", KEY]);
    assert!(ok_in(folder.path(), &["open", &user]).starts_with(KEY));
}

#[test]
fn what_cannot_be_read_is_reported_and_the_rest_is_printed() {
    let folder = source(&[
        (
            "src/main.rs",
            "#[opaque_id(prefix = \"user\")] struct User;
#[opaque_id(prefix = \"user\", key = i64)] struct OldUser;
#[opaque_id(prefix = \"user\")] struct SameUser;
#[opaque_id(prefix = \"team\", key = TeamKey)] struct Team;
#[opaque_id(prefix = PREFIX)] struct Order;
#[opaque_id(key = i64)] struct Item;
/// A text: #[opaque_id(prefix = \"text\")]
resource! { /** #[opaque_id(prefix = \"text\")] */ }
resource! { #[opaque_id(prefix = \"made\")] struct Made; }",
        ),
        ("src/broken.rs", "#[opaque_id(prefix = \"broken\")] struct;"),
    ]);
    let output = run_in(folder.path(), &["resources", "src"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = stdout(&output);
    assert!(
        printed.ends_with("\n\n[resource.user]\nkey = \"Uuid7\"\nform = \"text\"\n"),
        "{printed}"
    );
    let notes: Vec<&str> = stderr(&output).lines().collect();
    for (place, note) in [
        ("src/main.rs:2", "has the prefix `user` too"),
        ("src/main.rs:4", "unknown key `TeamKey`"),
        ("src/main.rs:5", "`#[opaque_id(…)]` cannot be read"),
        ("src/main.rs:6", "it has no prefix"),
        ("src/main.rs:9", "what a macro writes cannot be read"),
        ("src/broken.rs:1", "cannot be parsed"),
    ] {
        let is_this =
            |line: &&&str| line.starts_with(&format!("note: {place}: ")) && line.contains(note);
        assert_eq!(
            notes.iter().filter(is_this).count(),
            1,
            "{place}: {notes:#?}"
        );
    }
    assert_eq!(notes.len(), 6, "{notes:#?}");

    let output = run_in(folder.path(), &["resources", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cannot read nowhere: "),
        "{}",
        stderr(&output)
    );
}
