//! `opaque-id keygen`, and the places of secrets.

use std::fs;

use serde_json::json;

use crate::{
    Folder, KEY, SECRET, command_with, entry, ok, opaque_id, other_entry, output, parse, refuses,
    run, set_mode, stderr, stdout, text,
};

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

/// Returns two UUIDs of version 8 with a secret's digits.
fn as_uuids(secret: &str) -> String {
    let uuid = |hex: &str| {
        format!("{}-{}-8{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    };
    format!("{},{}", uuid(&secret[..32]), uuid(&secret[32..]))
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
        format!("x_grant_0{}", &SECRET[1..]),
        format!("user_{} {}", &SECRET[..34], &SECRET[34..]),
        as_uuids(SECRET),
        format!("X_GRANT_0{}", &SECRET[1..]),
        format!("a_{}_{}k{} {}", &SECRET[..31], &SECRET[31..43], &SECRET[44..55], &SECRET[55..]),
        format!("USER_0{} {}", &SECRET[1..26], &SECRET[26..]),
    ] {
        for line in [
            "seal --prefix user --key uuid7",
            "open --prefix user --key uuid7",
            "inspect",
            "inspect --json",
        ] {
            let output = output(opaque_id(&other_entry(1), line).arg(&like_a_secret));
            let is_token = line.starts_with("inspect") && like_a_secret.starts_with("x_grant_");
            assert_eq!(output.status.code(), Some(i32::from(!is_token)));
            let printed = format!("{}{}", stdout(&output), stderr(&output));
            assert!(
                !printed.contains("; UUID ") && !printed.contains("mapped_uuid\":\""),
                "{printed}"
            );
            let digits = printed.matches("c0").count() + printed.matches("ff").count();
            assert_eq!(digits, 0, "{printed}");
            assert!(printed.contains(" hex digits]"), "{printed}");
        }
    }
    let refused = run(&entry(), &format!("seal --prefix user --key int {KEY}"));
    refuses(&refused, 1, KEY);
}
