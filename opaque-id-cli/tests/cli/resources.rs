//! `opaque-id.toml`.

use std::fs;

use serde_json::json;

use crate::{Folder, KEY, entry, good, ok, output, parse, refuses, run, stderr, stdout};

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

fn folder(file: &str) -> Folder {
    Folder::new(&[("opaque-id.toml", file)])
}

#[test]
fn ids_open_without_options() {
    let folder = folder(FILE);
    folder.write("src/deep/file", "");
    let below = |line: &str| {
        good(&output(folder.command(&entry(), line).current_dir(folder.path("src/deep"))))
            .to_owned()
    };
    let user = ok(&entry(), &format!("seal --prefix user --key uuid7 {KEY}"));
    assert_eq!(below(&format!("seal --prefix user {KEY}")), user);
    let of_item = "--prefix line_item --domain item --key int";
    let item = ok(&entry(), &format!("seal {of_item} 42"));
    let opened = format!(
        "{KEY}  UUIDv7  key id 0  2024-10-25T04:30:15.838Z  unverified\n42  integer  key id 0"
    );
    let open = format!("open {user} {item}");
    assert_eq!(below(&open), opened);
    assert_eq!(below(&format!("renew {user} {item}")), format!("{user}\n{item}"));

    // An option or a variable names a file elsewhere.
    let (file, elsewhere) = (folder.path("opaque-id.toml"), Folder::new(&[]));
    assert_eq!(elsewhere.ok(&format!("{open} --resources {file}")), opened);
    let mut by_variable = elsewhere.command(&entry(), &open);
    assert_eq!(good(&output(by_variable.env("OPAQUE_ID_RESOURCES", file))), opened);
}

#[test]
fn open_names_the_table() {
    let folder = folder(
        "[resource.user]\ntable = \"users\"\n[resource.cart]\nkey = \"i64\"\nform = \"uuid\"\ntable = \"shop.carts\"",
    );
    let ok = |line: &str| folder.ok(line);
    let (user, cart) = (ok(&format!("seal --prefix user {KEY}")), ok("seal --prefix cart 7"));
    let opened = ok(&format!("open {user} {cart}"));
    let (of_user, of_cart) = opened.split_once('\n').expect("two lines");
    assert!(of_user.ends_with("Z  in users  unverified"), "{of_user}");
    assert_eq!(of_cart, "7  integer  key id 0  of cart  in shop.carts");
    assert_eq!(ok(&format!("open --prefix cart {cart}")), "7  integer  key id 0  in shop.carts");
    assert_eq!(parse(&ok(&format!("open --json {user}")))["table"], json!("users"));
}

#[test]
fn inspect_says_what_the_file_says() {
    let folder = folder(FILE);
    let [cart, item] = &["cart", "line_item"].map(|of| folder.ok(&format!("seal --prefix {of} 7")));
    let uuid = "UUID 01890a5d-ac96-774b-bcce-b302099a8057";
    for (id, has, has_not) in [
        (
            &**item,
            "line_item has keys of the kind int and the text form, the domain item",
            "if mapped",
        ),
        ("user_01h455vb4pex5vsknk084sn02q", "key id 0; user has keys of the kind uuid7", uuid),
        (
            "order_01h455vb4pex5vsknk084sn02q",
            &format!(
                "prefix order; {uuid} in its mapping table; order has keys of the kind int and the mapped form"
            ),
            "key id",
        ),
        (
            "team_01h455vb4pex5vsknk084sn02q",
            &format!("{uuid} if mapped; no resource of "),
            "team has",
        ),
        (cart, "key id 0; of cart or session", "has keys"),
        ("user_cursor_awa6tgzhc0xmnspa2hmsmzeyrjn409vrne", "a cursor of user; user has", "unless"),
    ] {
        let found = output(&mut folder.command("", &format!("inspect {id}")));
        assert!(good(&found).contains(has), "{has}: {}", stdout(&found));
        assert!(!stdout(&found).contains(has_not), "{has_not}: {}", stdout(&found));
    }
    let record = parse(&folder.ok(&format!("inspect --json {item}")));
    let resource = json!({"prefix": "line_item", "key": "int", "form": "text", "domain": "item", "table": null});
    assert_eq!(record["resource"], resource);
    // In this form UUIDs of all versions are ids.
    let mapped = self::folder("[resource.invoice]\nkey = \"i64\"\nform = \"mapped_uuid\"");
    for version in [4, 7, 8] {
        let id = format!("01890a5d-ac96-{version}74b-bcce-b302099a8057");
        let expected = format!(
            "{id}  well formed; mapped_uuid form; UUID {id} in its mapping table; invoice has keys of the kind int and the mapped_uuid form"
        );
        assert_eq!(mapped.ok(&format!("inspect {id}")), expected);
    }
    // An unreadable file is an error.
    let broken = self::folder("[resource.user]\nkey = \"i16\"");
    refuses(&broken.run(&format!("inspect {item}")), 2, "unknown key `i16`");
}

#[test]
fn options_that_contradict_the_file_are_errors() {
    let folder = folder(FILE);
    let seal = "seal --prefix line_item 42";
    let item = folder.ok(seal);
    assert_eq!(folder.ok(&format!("{seal} --key i64 --form text --domain item")), item);
    for (option, given, expected) in
        [("key", "uuid7", "int"), ("form", "uuid", "text"), ("domain", "line_item", "item")]
    {
        for command in ["seal", "open", "renew"] {
            let line = format!("{command} --{option}={given} --prefix line_item {item}");
            let refused = folder.run(&line);
            refuses(&refused, 2, &format!("expected the {option} of `line_item` in "));
            let error = format!(
                "opaque-id.toml, {expected}, found another --{option}: leave the option out"
            );
            refuses(&refused, 2, &error);
            assert_eq!(stdout(&refused), "");
        }
    }
}

/// Only root can give files away. `src/resources.rs` tests the rule for other users.
#[cfg(unix)]
#[test]
fn a_file_of_another_user_is_refused() {
    use std::os::unix::fs::{chown, lchown, symlink};

    let folder = folder(FILE);
    let file = folder.path("opaque-id.toml");
    let seal = "seal --prefix cart 7";
    let sealed = folder.ok(seal);
    if chown(&file, Some(12_345), None).is_err() {
        return;
    }
    let refused = || {
        let refused = folder.run(seal);
        let error = "opaque-id.toml to belong to you (user 0) or to root, found user 12345: if you trust them, name";
        refuses(&refused, 2, error);
        assert_eq!(stdout(&refused), "");
    };
    refused();
    // The file is accepted by name, and after `sudo`.
    assert_eq!(folder.ok(&format!("{seal} --resources {file}")), sealed);
    refuses(&folder.run("inspect 7"), 2, "found user 12345");
    let by_sudo = |line: &str| output(folder.command(&entry(), line).env("SUDO_UID", "12345"));
    assert_eq!(good(&by_sudo(seal)), sealed);
    // The audit log is about the user of sudo.
    let audited = by_sudo(&format!("open --audit-log audit.jsonl {sealed}"));
    refuses(&audited, 2, "found user 12345");
    let log = fs::read_to_string(folder.path("audit.jsonl")).expect("a log");
    assert_eq!((stdout(&audited), &*log), ("", ""));
    // Another user's link leads to our file.
    folder.write("ours.toml", FILE);
    fs::remove_file(&file).expect("removed");
    symlink(folder.path("ours.toml"), &file).expect("a link");
    assert_eq!(folder.ok(seal), sealed);
    lchown(&file, Some(12_345), None).expect("as root");
    refused();
}

#[test]
fn a_uuid_is_of_the_resource_that_accepts_it() {
    let folder = folder(FILE);
    let ok = |line: &str| folder.ok(line);
    let cart = ok("seal --prefix cart 7");
    let session = ok(&format!("seal --prefix session {KEY}"));
    let opened = format!(
        "7  integer  key id 0  of cart\n{KEY}  UUIDv7  key id 0  2024-10-25T04:30:15.838Z  of session  unverified"
    );
    assert_eq!(ok(&format!("open {cart} {session}")), opened);
    let record = parse(&ok(&format!("open --json {cart}")));
    let expected = json!({"id": cart, "key": "7", "key_id": 0, "time": null, "verified": true, "resource": "cart"});
    assert_eq!(record, expected);

    // Two resources without a tag cannot be told apart.
    let more = format!("{FILE}\n[resource.ticket]\nform = \"uuid\"\n");
    folder.write("opaque-id.toml", &more);
    assert!(ok(&format!("open {cart}")).ends_with("of cart"));
    let refused = folder.run(&format!("open {session}"));
    let error = "it may be of `session`, `ticket`, whose ids say nothing about their resource; name one by --prefix";
    refuses(&refused, 1, error);
    assert!(ok(&format!("open --prefix session {session}")).starts_with(KEY));
}

#[test]
fn errors_say_what_to_do() {
    let user = &ok(&entry(), &format!("seal --prefix user --key uuid7 {KEY}"));
    let upper = user.to_uppercase();
    let of_file = folder(FILE);
    let without = Folder::new(&[]);
    let broken = folder("[resource.user]\nkey = \"i16\"");
    let refused = |folder: &Folder, line: &str, status, says: &str| {
        refuses(&folder.run(line), status, says);
    };
    for (line, says) in [
        (format!("open {user}"), "`opaque-id resources > opaque-id.toml` reads the source"),
        (format!("open --prefix user {user}"), "such as --key uuid7, or write opaque-id.toml"),
        (format!("open --resources nowhere.toml {user}"), "`opaque-id resources` prints what"),
        (format!("open --key int {user}"), "--prefix <PREFIX>"),
        (format!("seal {KEY}"), "--prefix <PREFIX>"),
    ] {
        refused(&without, &line, 2, says);
    }
    let unknown = "opaque-id.toml: `[resource.user]`: unknown key `i16`";
    refused(&broken, &format!("open {user}"), 2, unknown);
    let unnamed = "has no resource `team`: add it";
    refused(&of_file, &format!("seal --prefix team {KEY}"), 2, unnamed);
    for (id, says) in [
        ("team_7x1nhm7sq0r1qh4pewbejb04n3", "has no resource `team`; add it"),
        (&*upper, "character 1 is upper case; ids are lower case; suggestion: user_"),
        ("order_01h455vb4pex5vsknk084sn02q", "look in its mapping table, for the UUID"),
        ("7", "7: invalid id: it is not an external id but looks like an internal key"),
    ] {
        refused(&of_file, &format!("open {id}"), 1, says);
    }
}

#[test]
fn keys_have_the_names_of_the_derive() {
    let structured = "0203b3ed-b9f5-b186-02de-b9c4d86f5e13";
    for (name, kind, key) in [
        ("Uuid7", "uuid7", KEY),
        ("Ulid", "ulid", KEY),
        ("Uuid", "uuid", KEY),
        ("StructuredKey", "structured", structured),
        ("i64", "int", "-42"),
        ("i32", "int", "42"),
        ("u32", "int", "42"),
    ] {
        let seal = |kind| ok(&entry(), &format!("seal --prefix user --key {kind} -- {key}"));
        assert_eq!(seal(name), seal(kind));
    }
}

#[test]
fn an_integer_must_fit_its_kind() {
    for (kind, fits, too_large) in
        [("i32", "-2147483648", "2147483648"), ("u32", "4294967295", "-1")]
    {
        let folder = folder(&format!("[resource.item]\nkey = \"{kind}\"\n"));
        let fits = folder.ok(&format!("seal --prefix item -- {fits}"));
        let seal = |of: &str| run(&entry(), &format!("seal --prefix item {of} -- {too_large}"));
        for refused in [
            seal(&format!("--key {kind}")),
            folder.run(&format!("seal --prefix item -- {too_large}")),
        ] {
            refuses(&refused, 1, "too large for it");
        }
        let too_large = good(&seal("--key int")).to_owned();
        folder.write("subkeys", &folder.ok("export-subkeys --prefix item"));
        for open in ["open", "open --keys-file subkeys"] {
            folder.ok(&format!("{open} {fits}"));
            refuses(&folder.run(&format!("{open} {too_large}")), 1, "not genuine");
        }
        let of_int = "sql functions --dialect mysql --prefix item --key int";
        assert_eq!(folder.ok("sql functions --dialect mysql item"), ok(&entry(), of_int));
    }
}

#[test]
fn an_id_of_another_form_names_the_option() {
    let (entry, open) = (entry(), "open --prefix user --key int");
    let id = |form| ok(&entry, &format!("seal --prefix user --key int --form {form} 42"));
    let refused = |id: &str, says| refuses(&run(&entry, &format!("{open} {id}")), 1, says);
    refused(id("short").trim(), "found 13; it has the short form: try --form short");
    refused(id("uuid").trim(), "it has the uuid form: try --form uuid");
}

/// Returns a package with these files.
fn source(files: &[(&str, &str)]) -> Folder {
    Folder::new(&[&[("Cargo.toml", "[package]\nname = \"my-app\"\n")], files].concat())
}

#[test]
fn resources_are_read_from_the_source() {
    let of_tests = "#[opaque_id(prefix = \"test\")] struct Test;";
    let folder = source(&[
        (
            "src/lib.rs",
            "mod order; #[cfg(test)] mod fakes; #[cfg(test)] mod tests { #[opaque_id(prefix = \"test\")] struct Test; }
             #[derive(Debug, opaque_id_sqlx::OpaqueId)]
             #[diesel(belongs_to(Team), table_name = crate::schema::users, check_for_backend(Pg))]
             #[opaque_id(prefix = \"user\")]
             pub struct User { pub id: Internal<User> }",
        ),
        (
            "src/order/mod.rs",
            "pub mod inner {
                 #[cfg_attr(feature = \"db\", derive(OpaqueId), sea_orm(table_name = \"order\"), opaque_id(prefix = \"order\", key = opaque_id_sqlx::key::Ulid))]
                 enum Order {}
             }
             #[derive(OpaqueId)]
             #[opaque_id(prefix = \"line_item\", key = i32, internal = item::LineItemId, form = \"uuid\", domain = \"say \\\"item\\\" \u{202e}\", crate = \"ids\")]
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
table = "order"

[resource.user]
key = "Uuid7"
form = "text"
table = "users""#;
    // Each file is read once.
    for line in ["resources", "resources src/lib.rs src/order ./src/order/mod.rs"] {
        assert_eq!(folder.ok(line), expected, "{line}");
    }

    // The printed file works.
    folder.write("opaque-id.toml", expected);
    let user = folder.ok(&format!("seal --prefix user {KEY}"));
    assert!(folder.ok(&format!("open {user}")).starts_with(KEY));
}

#[test]
fn tagged_ids_that_look_like_cursors_are_refused() {
    let folder = source(&[
        ("src/user.rs", "#[opaque_id(prefix = \"user\")] struct User;"),
        (
            "src/cursor.rs",
            "#[opaque_id(prefix = \"user_cursor\", form = \"tagged\")] struct UserCursor;
             #[opaque_id(prefix = \"team_cursor\", form = \"tagged\")] struct TeamCursor;
             #[opaque_id(prefix = \"order_cursor\")] struct OrderCursor;
             #[opaque_id(prefix = \"order\")] struct Order;",
        ),
    ]);
    let output = folder.run("resources src");
    refuses(
        &output,
        1,
        "src/cursor.rs:1: ids of `user_cursor` in the tagged form look like cursors of `User` (src/user.rs:1): give it another prefix",
    );
    let printed = stdout(&output);
    assert_eq!(stderr(&output).lines().count(), 1);
    assert_eq!(printed.matches("[resource.").count(), 4);
    assert!(!printed.contains("user_cursor"), "{printed}");

    // This file is written by hand.
    folder.write("opaque-id.toml", printed);
    folder.ok(&format!("seal --prefix user {KEY}"));
    let file = format!("{printed}[resource.user_cursor]\nform = \"tagged\"\n");
    folder.write("opaque-id.toml", &file);
    for line in [
        &format!("seal --prefix order {KEY}"),
        "open user_cursor_7x1nhm7sq0r1qh4pewbejb04n3",
        "sql functions --dialect mysql",
    ] {
        let refused = folder.run(line);
        let says = "opaque-id.toml: `[resource.user_cursor]`: ids of `user_cursor` in the tagged form look like cursors of `user`: give it";
        refuses(&refused, 2, says);
    }
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
    let output = folder.run("resources src");
    assert_eq!(output.status.code(), Some(1));
    let printed = stdout(&output);
    let user = "\n\n[resource.user]\nkey = \"Uuid7\"\nform = \"text\"\n";
    assert!(printed.ends_with(user), "{printed}");
    let notes: Vec<&str> = stderr(&output).lines().collect();
    for (place, note) in [
        ("src/main.rs:2", "`OldUser` has the prefix `user` of `User` (src/main.rs:1): give"),
        ("src/main.rs:3", "`SameUser` has the prefix `user` of `User` (src/main.rs:1): give"),
        ("src/main.rs:4", "unknown key `TeamKey`"),
        ("src/main.rs:5", "`#[opaque_id(…)]` cannot be read"),
        ("src/main.rs:6", "it has no prefix"),
        ("src/main.rs:9", "what a macro writes cannot be read"),
        ("src/broken.rs:1", "cannot be parsed"),
    ] {
        let is_this =
            |line: &&&str| line.starts_with(&format!("note: {place}: ")) && line.contains(note);
        let count = notes.iter().filter(is_this).count();
        assert_eq!(count, 1, "{place}: {notes:#?}");
    }
    assert_eq!(notes.len(), 7, "{notes:#?}");

    refuses(&folder.run("resources nowhere"), 2, "cannot read nowhere: ");
}
