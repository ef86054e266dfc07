//! `opaque-id export-subkeys`, and the commands that accept its files.

use std::process::Output;

use serde_json::{Value, json};

use crate::{
    Folder, KEY, SECRET, entry, good, ok, one_of_each_kind, other_entry, output, parse, refuses,
    run, set_mode, stdout, text,
};

/// Runs a command line with a file of subkeys and no secret.
fn run_with(subkeys: &str, line: &str) -> Output {
    let folder = Folder::new(&[("subkeys", subkeys)]);
    output(folder.command("", line).args(["--keys-file", "subkeys"]))
}

fn export(entries: &str, of: &str) -> String {
    ok(entries, &format!("export-subkeys {of}")) + "\n"
}

#[test]
fn subkeys_open_ids_of_each_kind_and_form() {
    for vector in one_of_each_kind(include_str!("../../../spec/format-v1.json")) {
        let (entries, of) = crate::given(&vector);
        for form in ["text", "short", "tagged", "uuid"] {
            let Some(id) = vector[form].as_str() else {
                continue;
            };
            let of = format!("{of} --form {form}");
            let subkeys = export(&entries, &of);
            assert!(!subkeys.contains(text(&vector, "master")), "{subkeys}");
            let open = format!("open {of} -- {id}");
            // The options repeat the file's data.
            let alone = good(&run_with(&subkeys, &format!("open {id}"))).to_owned();
            let by_secret = ok(&entries, &open);
            // A UUID has no prefix.
            assert_eq!(alone.replace(&format!("  of {}", text(&vector, "prefix")), ""), by_secret);
        }
    }
    for vector in one_of_each_kind(include_str!("../../../spec/cursors-v1.json")) {
        let (entries, of) = crate::given(&vector);
        let open = format!("open {}", text(&vector, "cursor"));
        let opened = run_with(&export(&entries, &of), &open);
        assert_eq!(good(&opened), ok(&entries, &format!("{open} {of}")));
    }
}

#[test]
fn subkeys_are_joined_as_the_specification_says() {
    let specification = include_str!("../../../docs/FORMAT.md");
    let row = |of: &str| {
        let (_, row) = specification.split_once(&format!("\n| {of} | `")).expect("a row");
        row.split('`').next().expect("digits")
    };
    let rounds = ["₀", "₁", "₂", "₃", "₄", "₅"].map(|i| row(&format!("`feistel` *k*{i}"))).concat();
    let cursor = ["first", "second"].map(|half| row(&format!("`cursor`, {half} half"))).concat();
    let expected = [row("`block`"), &rounds, row("`tag`"), row("`mac`"), &cursor].concat();
    let of = "--prefix order --domain legacy_user --key uuid7";
    let exported = export(&format!("1:{}", row("master secret")), of);
    let line = parse(exported.lines().last().expect("a line"));
    // The last 16 bytes are `short`.
    assert_eq!(text(&line, "subkeys").strip_prefix(&*expected).map(str::len), Some(32));
}

#[test]
fn subkeys_are_of_every_secret_and_of_an_audience() {
    let both = format!("{},{}", other_entry(2), entry());
    let of = "--prefix user --key int --audience partner-a";
    let ids = ok(&both, &format!("seal --all-secrets {of} 42"));
    let subkeys = export(&both, of);
    for (line, key_id) in ids.lines().zip([0, 2]) {
        let id = line.split(' ').next().expect("an id");
        let opened = format!("42  integer  key id {key_id}");
        for options in ["", "--audience partner-a", "--prefix user", "--prefix user --key i64"] {
            let open = format!("open {options} {id}").replace("  ", " ");
            assert_eq!(good(&run_with(&subkeys, &open)), opened);
        }
        let other = run_with(&subkeys, &format!("open --audience partner-b {id}"));
        refuses(&other, 2, "expected subkeys of the audience \"partner-b\", found ");
        refuses(&other, 2, "of `user` for the audience \"partner-a\"\n");
    }
    // This key id had no secret at that time.
    let id = ok(&other_entry(1), &format!("seal {of} 42"));
    refuses(&run_with(&subkeys, &format!("open {id}")), 1, "no secret with key id 1");
}

#[test]
fn an_unverified_answer_has_the_check_value_of_the_secret() {
    let of = "--prefix user --key uuid7";
    let id = ok(&entry(), &format!("seal {of} {KEY}"));
    let opened = run_with(&export(&entry(), of), &format!("open {id}"));
    assert!(stdout(&opened).ends_with("  unverified\n"));
    let check_value = ok(&entry(), "keys").rsplit(' ').next().expect("a value").to_owned();
    refuses(&opened, 0, &format!("the check value {check_value} of key id 0"));
}

/// It takes precedence over a file of resources, even over one that a variable names.
#[test]
fn inspect_reads_what_the_file_says() {
    let inspect = "inspect --keys-file subkeys user_01h455vb4pex5vsknk084sn02q";
    let folder = Folder::new(&[("subkeys", &export(&entry(), "--prefix user --key int"))]);
    let mut inspected = folder.command("", inspect);
    let inspected = output(inspected.env("OPAQUE_ID_RESOURCES", "nowhere.toml"));
    assert!(
        good(&inspected).ends_with("key id 0; user has keys of the kind int and the text form")
    );
    folder.write("subkeys", &entry());
    let secrets = output(&mut folder.command("", inspect));
    refuses(&secrets, 2, "found secrets, which this command does not need");
}

#[test]
fn subkeys_are_refused_where_they_do_not_belong() {
    let subkeys = export(&entry(), "--prefix user --key int");
    let holds = "subkeys, which has only the subkeys that open ids and cursors of `user`";
    let seal = |of: &str| ok(&entry(), &format!("seal {of} 42"));
    let (user, order) = (seal("--prefix user --key int"), seal("--prefix order --key int"));
    for line in [
        "seal --prefix user 42",
        "seal --prefix order --key int 42",
        &format!("renew {user}"),
        "keys",
        "export-subkeys --prefix user",
        "sql functions --dialect mysql --prefix user --key int",
        "packs verify --prefix user --key int --database-url sqlite:none events",
        &format!("open --prefix order --key int {order}"),
        &format!("open --purpose unsubscribe {user}"),
    ] {
        let refused = run_with(&subkeys, line);
        refuses(&refused, 2, holds);
        assert_eq!(stdout(&refused), "", "{line}");
    }
    refuses(&run_with(&subkeys, &format!("open {order}")), 1, "has no resource `order`; its");
    let contradicts = run_with(&subkeys, &format!("open --prefix user --form short {user}"));
    refuses(&contradicts, 2, "expected the form of `user` in ");

    // The subkeys are in the variable, as in an application.
    let variable = run(&subkeys, &format!("open --prefix user --key int {user}"));
    refuses(
        &variable,
        2,
        "entry 1 of OPAQUE_ID_KEYS: expected `key_id:64 hex digits`, found subkeys",
    );
    let mapped = run(&entry(), "export-subkeys --prefix user --key int --form mapped");
    refuses(&mapped, 2, "`user` is mapped: its ids are not sealed");
    if cfg!(unix) {
        let folder = Folder::new(&[("subkeys", &subkeys)]);
        set_mode(&folder.path("subkeys"), 0o644);
        let mut open = folder.command("", &format!("open --keys-file subkeys {user}"));
        refuses(&output(&mut open), 2, "chmod 600");
    }
}

#[test]
fn lines_of_several_resources_can_be_joined() {
    let of = ["--prefix user --key uuid7", "--prefix cart --key int --form uuid"];
    let joined = of.map(|of| export(&entry(), of)).concat();
    let ids =
        [(of[0], KEY), (of[1], "7")].map(|(of, key)| ok(&entry(), &format!("seal {of} {key}")));
    let opened = run_with(&joined, &format!("open {}", ids.join(" ")));
    let lines: Vec<_> = good(&opened).lines().collect();
    assert!(lines[0].starts_with(KEY) && lines[1] == "7  integer  key id 0  of cart", "{lines:?}");
}

#[test]
fn a_wrong_line_is_named_and_not_repeated() {
    let subkeys = export(&entry(), "--prefix user --key int");
    let line = subkeys.lines().last().expect("a line");
    let with = |field: &str, value: Value| {
        let mut record = parse(line);
        record[field] = value;
        record.to_string()
    };
    let as_form = |form| export(&entry(), &format!("--prefix user --key int --form {form}"));
    // An editor may save the file like this.
    let with_mark = format!("\u{feff}{subkeys}");
    refuses(&run_with(&with_mark, "open user_ea6zng67c1c8597fhz51f3j11x"), 1, "key id 1");
    for (lines, error) in [
        (format!("{subkeys}{}", entry()), "line 4: expected subkeys as `opaque-id export-subkeys`"),
        (format!("{}\n{subkeys}", entry()), "invalid entry 2 of "),
        (format!("{subkeys}{line}"), "line 4: duplicate key id"),
        (format!("{subkeys}{}", as_form("short")), "line 6: expected what an earlier line says"),
        (with("subkeys", json!(SECRET)), "line 1: expected 368 hex digits of subkeys, found 64"),
        (with("subkeys", json!(line[..368])), "line 1: expected 368 hex digits"),
        (with("key_id", json!(4)), "line 1: the key id must be 0, 1, 2 or 3"),
        (with("key_id", json!(SECRET)), "line 1: expected subkeys as"),
        (with("key", json!("i16")), "unknown key `i16`"),
        (with(SECRET, json!(1)), "line 1: expected subkeys as"),
        (line[..300].to_owned(), "line 1: expected subkeys as"),
        ("{".to_owned(), "line 1: expected subkeys as"),
    ] {
        let refused = run_with(&lines, "open user_ea6zng67c1c8597fhz51f3j11x");
        refuses(&refused, 2, error);
        let error = crate::stderr(&refused);
        let digits = error.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
        assert!(digits < Some(20), "{error}");
    }
}
