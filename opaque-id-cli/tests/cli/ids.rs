//! `opaque-id seal`, `open`, `renew` and `inspect`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use jiff::{Timestamp, ToSpan};
use opaque_id_tests::tools::with_input;
use serde_json::{Value, json};

use crate::{
    Folder, KEY, entry, given, good, ok, one_of_each_kind, opaque_id, other_entry, output, parse,
    refuses, run, run_with, stderr, stdout, text, vectors,
};

#[test]
fn ids_of_each_kind_and_form_are_those_of_the_vectors() {
    for vector in one_of_each_kind(include_str!("../../../spec/format-v1.json")) {
        let (entries, of) = given(&vector);
        for form in ["text", "short", "tagged", "uuid"] {
            let Some(id) = vector[form].as_str() else {
                continue;
            };
            let seal = |key| ok(&entries, &format!("seal {of} --form {form} -- {key}"));
            assert_eq!(seal(text(&vector, "key")), id);
            let line = format!("open --json {of} --form {form} -- {id}");
            let opened = parse(&ok(&entries, &line));
            // A ULID is printed as a ULID, and seals to the same id.
            let key = text(&opened, "key");
            let is_ulid = vector["kind"] == "ulid";
            assert!(key == text(&vector, "key") || is_ulid, "{opened}");
            assert_eq!(seal(key), id);
            assert_eq!(opened["key_id"], vector["key_id"]);
        }
    }
}

#[test]
fn ids_of_an_audience_are_those_of_the_vectors() {
    let vectors = vectors(include_str!("../../../spec/audiences-v1.json"));
    let (vector, audience) = vectors
        .iter()
        .find_map(|vector| Some((vector, vector["audience"].as_str()?)))
        .expect("one of an audience");
    let field = |name| text(vector, name);
    let entries = format!("{}:{}", vector["key_id"], field("master"));
    let (prefix, domain) = (field("prefix"), field("domain"));
    let of = format!("--prefix {prefix} --domain {domain} --key int --audience {audience}");
    for form in ["short", "uuid"] {
        let (id, key) = (field(form), field("key"));
        assert_eq!(ok(&entries, &format!("seal {of} --form {form} -- {key}")), id);
        let opened = ok(&entries, &format!("open {of} --form {form} -- {id}"));
        assert!(opened.starts_with(&format!("{key}  integer  ")), "{opened}");
    }
}

/// The id is the output of `Debug` after `reveal_in_logs`, for a resource of any form.
#[test]
fn an_id_of_a_log_says_itself_that_it_is_one() {
    let entries = ok("", "keygen --key-id 0");
    for (of, key) in [
        ("--prefix part --key int", "42"),
        ("--prefix part --key int --form mapped", "42"),
        ("--prefix user --key uuid7 --form tagged", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
        ("--prefix user --key uuid7 --form uuid", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
    ] {
        let id = ok(&entries, &format!("seal {of} --audience logs -- {key}"));
        assert!(id.contains("_log"), "{id}");
        for audience in ["", " --audience logs", " --audience partner"] {
            let opened = ok(&entries, &format!("open {of}{audience} -- {id}"));
            assert!(opened.starts_with(&format!("{key}  ")), "{opened}");
        }
        if of.contains("mapped") {
            continue; // It has no subkeys.
        }
        let of_logs = ok(&entries, &format!("export-subkeys {of} --audience logs"));
        let folder = Folder::new(&[("subkeys", &of_logs)]);
        let open = format!("open --keys-file subkeys -- {id}");
        let opened = output(&mut folder.command("", &open));
        assert!(good(&opened).starts_with(&format!("{key}  ")), "{opened:?}");
    }
    let of = "--prefix user --key uuid7";
    let id = ok(&entries, &format!("seal {of} -- 017f22e2-79b0-7cc3-98c4-dc0c0c07398f"));
    refuses(
        &run(&entries, &format!("open {of} --audience logs -- {id}")),
        1,
        "expected an id of a log",
    );
}

#[test]
fn open_accepts_cursors() {
    for vector in one_of_each_kind(include_str!("../../../spec/cursors-v1.json")) {
        let (entries, of) = given(&vector);
        let cursor = text(&vector, "cursor");
        let opened = parse(&ok(&entries, &format!("open --json {of} {cursor}")));
        let is_ulid = vector["kind"] == "ulid";
        assert!(opened["key"] == vector["key"] || is_ulid, "{opened}");
        assert_eq!(opened["verified"], json!(true));
        let found = ok("", &format!("inspect {cursor}"));
        let cursor_of = format!("a cursor of {}", text(&vector, "prefix"));
        assert!(found.contains(&cursor_of), "{found}");
        refuses(&run(&entries, &format!("renew {of} {cursor}")), 1, "a cursor cannot be renewed");
    }
}

#[test]
fn seal_prints_an_id_under_each_secret() {
    let (new, old) = (other_entry(2), entry());
    let both = format!("{new},{old}");
    let seal = format!("seal --prefix user --key uuid7 {KEY}");
    let [under_new, under_old] = [&new, &old].map(|entry| ok(entry, &seal));
    assert_eq!(ok(&both, &seal), under_new);
    let all = ok(&both, &seal.replace("seal", "seal --all-secrets"));
    let key_id = old.split_once(':').map_or("", |(key_id, _)| key_id);
    let expected = [(key_id, &under_old), ("2", &under_new)];
    let mut expected = expected.map(|(key_id, id)| format!("{}  key id {key_id}", id.trim_end()));
    expected.sort_by_key(|line| line.chars().last());
    assert_eq!(all.lines().collect::<Vec<_>>(), expected);
    let json = ok(&both, &seal.replace("seal", "seal --json --all-secrets"));
    let key_ids = json.lines().map(|line| parse(line)["key_id"].clone());
    assert_eq!(key_ids.count(), 2);
}

#[test]
fn open_accepts_grants_for_their_purpose() {
    for vector in one_of_each_kind(include_str!("../../../spec/tokens-v1.json")) {
        let (entries, of) = given(&vector);
        let (grant, purpose) = (text(&vector, "grant"), text(&vector, "purpose"));
        let open = |purpose| {
            let mut open = opaque_id(&entries, &format!("open --json {of} {grant}"));
            output(open.args(["--purpose", purpose]))
        };
        let opened = parse(stdout(&open(purpose)));
        let is_ulid = vector["kind"] == "ulid";
        assert!(opened["key"] == vector["key"] || is_ulid, "{opened}");
        let expires = jiff::Timestamp::from_second(vector["expires"].as_i64().expect("seconds"));
        assert_eq!(opened["expires"], json!(expires.expect("a time").to_string()));
        refuses(&open("another"), 1, "not genuine");
        let no_purpose = run(&entries, &format!("open {of} {grant}"));
        refuses(&no_purpose, 1, "name it by --purpose");
        let position = text(&vector, "position");
        refuses(&run(&entries, &format!("open {of} {position}")), 1, "in the application only");
        let found = ok("", &format!("inspect {grant} {position}"));
        let prefix = text(&vector, "prefix");
        for kind in ["grant", "position"] {
            let token = text(&vector, kind);
            let what = format!(
                "{token}  well formed; {kind}; prefix {prefix}; key id {}",
                vector["key_id"]
            );
            assert!(found.contains(&what), "{found}");
            let renew = run(&entries, &format!("renew {of} {token}"));
            refuses(&renew, 1, &format!("a {kind} cannot be renewed"));
        }
    }
}

#[test]
fn keys_are_accepted_in_every_spelling() {
    let seal = "seal --prefix user --key uuid7";
    let keys = "0192c1f07b1e7a358f00000000000001 01JB0Z0YRYF8TRY00000000001";
    let ids = ok(&entry(), &format!("{seal} {KEY} {keys}"));
    let ids: Vec<_> = ids.lines().collect();
    assert_eq!(ids, [ids[0]; 3]);
    let v4 = format!("{seal} 6d179ed1-fd65-480b-a475-77983c28dd10");
    let v4 = run(&entry(), &v4);
    refuses(&v4, 1, "expected a UUIDv7, found version 4");
}

#[test]
fn open_prints_key_kind_key_id_and_time() {
    let of = "--prefix user --key uuid7";
    let id = ok(&entry(), &format!("seal {of} {KEY}"));
    assert_eq!(
        ok(&entry(), &format!("open {of} {id}")),
        format!("{KEY}  UUIDv7  key id 0  2024-10-25T04:30:15.838Z  unverified"),
    );
    assert_eq!(
        parse(&ok(&entry(), &format!("open --json {of} {id}"))),
        json!({"id": id, "key": KEY, "key_id": 0, "time": "2024-10-25T04:30:15.838Z", "verified": false}),
    );
    // The texts come from a log of this library, and from a URL.
    for copied in [format!("Some(External({id}))"), format!("/users/{id}?page=2")] {
        assert_eq!(
            parse(&ok(&entry(), &format!("open --json {of} {copied}")))["id"],
            json!(id),
            "{copied}"
        );
    }
}

#[test]
fn all_ids_of_a_line_are_opened() {
    let seal = |prefix: &str, key: u8, more: &str| {
        ok(&entry(), &format!("seal --prefix {prefix} --key int {more} {key}"))
    };
    let (logs, plain) = ("--audience logs", "--form text");
    let (user, part) = (seal("user", 1, logs), seal("part", 2, logs));
    let line = format!(
        "user UserId(Internal<user>({user})) cannot access part {part}, but user {user} may see it"
    );
    let resources = "[resource.user]\nkey = \"int\"\n[resource.part]\nkey = \"int\"\n";
    let folder = Folder::new(&[("opaque-id.toml", resources)]);
    let opened = output(folder.command(&entry(), "open").arg(&line));
    let expected = format!("{user}  1  integer  key id 0\n{part}  2  integer  key id 0\n");
    assert_eq!(stdout(&opened), expected);
    let both = [seal("user", 1, plain), seal("part", 2, plain)];
    let [user, part] = &both;
    let far = " ".repeat(65_000);
    for line in [
        format!("_{user}_ {part}"),
        format!("{{\"id\":\"{user}\",\"key\":\"part-{part}\"}}"),
        format!("GET /?of=%2Fusers%2F{user}%2Fparts%2F{part}"),
        format!("{user}-{part}"),
        format!("{user}{far}{part}"),
        format!("\u{1b}[3muser\u{1b}[0m=\u{1b}[0m{user} \u{1b}[31m{part}"),
    ] {
        let opened = output(folder.command(&entry(), "open").arg(&line));
        assert_eq!(good(&opened).lines().count(), 2, "{line}");
        let piped = with_input(&mut folder.command(&entry(), "open -"), &line).expect("runs");
        assert_eq!(piped, opened);
    }
    let misspelled = format!("{user} of the x_establishment");
    let opened = output(folder.command(&entry(), "open").arg(&misspelled));
    assert_eq!(good(&opened), "1  integer  key id 0");
    let split = "user_6wr8ndhrz4xkw 6wr8ndhrz4xkw";
    let refused = output(folder.command(&entry(), "open").arg(split));
    refuses(&refused, 1, &format!("suggestion: {}", split.replace(' ', "")));
    let long = output(folder.command(&entry(), "open").arg(far.replace(' ', "x")));
    refuses(&long, 1, "argument 1: longer than any id");
    let of_proxy = format!(
        r#"127.0.0.1 - - [29/Nov/2026:15:57:54 +0000] "GET /users/{user} HTTP/1.1" 200 512 "-" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36""#
    );
    let found = output(opaque_id("", "inspect").arg(of_proxy));
    assert!(stdout(&found).contains(&format!("suggestion: {user}")), "{found:?}");
    let found = output(opaque_id("", "inspect").arg(format!("of{far}{user}")));
    assert!(stdout(&found).contains(&format!("suggestion: {user}")), "{}", stderr(&found));
    // The second id is of another resource.
    let line = format!("[{}]", both.join(","));
    let opened = output(folder.command(&entry(), "open --prefix user").arg(&line));
    assert!(stdout(&opened).contains("  1  integer  key id 0"), "{}", stdout(&opened));
    refuses(&opened, 1, "part");
    // Each refused id has its reason.
    let opened = output(folder.command(&entry(), "open --prefix cart --key int").arg(&line));
    both.iter().for_each(|id| refuses(&opened, 1, &format!("argument 1: {id}: invalid id")));
}

#[test]
fn an_answer_says_whether_a_tag_verifies_it() {
    let (right, wrong) = (&entry(), &other_entry(0));
    let check_value = |entries| {
        let held = ok(entries, "keys");
        held.rsplit(' ').next().expect("a check value").to_owned()
    };
    let structured = "0203b3ed-b9f5-b186-02de-b9c4d86f5e13";
    for (key, value, form, is_verified) in [
        ("uuid", KEY, "text", false),
        ("structured", structured, "uuid", false),
        ("uuid", KEY, "tagged", true),
        ("int", "42", "text", true),
        ("int", "42", "uuid", true),
        ("int", "42", "short", true),
    ] {
        let of = format!("--prefix user --key {key} --form {form}");
        let id = ok(right, &format!("seal {of} {value}"));
        let call = |entries: &str, command: &str| run(entries, &format!("{command} {of} {id}"));
        let opened = call(right, "open");
        assert!(opened.status.success() && stdout(&opened).starts_with(value));
        assert_eq!(stdout(&opened).ends_with("  unverified\n"), !is_verified);
        let record = parse(stdout(&call(right, "open --json")));
        assert_eq!(record["verified"], json!(is_verified));
        for command in ["open", "renew"] {
            let required = call(right, &format!("{command} --require-verified"));
            assert_eq!(required.status.success(), is_verified, "{of}");
            assert_eq!(stdout(&required).is_empty(), !is_verified);
            let other = call(wrong, command);
            assert_eq!(other.status.success(), !is_verified, "{of}");
            for (output, entries) in [(required, right), (other, wrong)] {
                let compare = format!(
                    "compare the check value {} of key id 0 with the application's\n",
                    check_value(entries)
                );
                let error = stderr(&output);
                assert_eq!(error.ends_with(&compare), !is_verified, "{error}");
            }
        }
    }
    // The id is printed once per secret.
    let of = "--prefix user --key uuid7";
    let ids = ok(right, &format!("seal {of} {KEY} {KEY}"));
    let output = run(right, &format!("open {of} {}", ids.replace('\n', " ")));
    assert_eq!(stderr(&output).matches("check value").count(), 1);
}

#[test]
fn a_time_far_from_now_is_pointed_out() {
    let ahead = |hours: i64| (Timestamp::now() + hours.hours()).as_millisecond();
    for (millis, is_far) in [
        (946_684_799_999, true),
        (946_684_800_000, false),
        (ahead(1), false),
        (ahead(48), true),
        // This is after the year 9999.
        ((1 << 48) - 1, true),
    ] {
        let hex = format!("{millis:012x}");
        let key = format!("{}-{}-7a35-8f00-000000000001", &hex[..8], &hex[8..]);
        let opened = |of: &str| {
            let id = ok(&entry(), &format!("seal --prefix user {of} {key}"));
            let opened = run(&entry(), &format!("open --prefix user {of} {id}"));
            assert!(opened.status.success());
            (stderr(&opened).to_owned(), id)
        };
        for kind in ["uuid7", "ulid"] {
            let (notes, id) = opened(&format!("--key {kind}"));
            let note = format!("the time of {id} is before 2000 or more than a day from now");
            assert_eq!(notes.contains(&note), is_far, "{key}: {notes}");
            // A tag shows that the secret is right.
            let (notes, _) = opened(&format!("--key {kind} --form tagged"));
            assert_eq!(notes, "");
        }
    }
}

#[test]
fn renew_seals_ids_with_the_newest_secret() {
    let of = "--prefix order --key int --form uuid";
    let old = ok(&entry(), &format!("seal {of} 42"));
    let both = format!("{},{}", ok("", "keygen --key-id 1"), entry());
    let new = ok(&both, &format!("renew {of} {old}"));
    assert_ne!(new, old);
    assert_eq!(
        ok(&both, &format!("open {of} {old} {new}")),
        "42  integer  key id 0\n42  integer  key id 1",
    );
    let record = parse(&ok(&both, &format!("renew --json {of} {old}")));
    assert_eq!(record, json!({"id": new, "old_id": old, "key_id": 1}));
    // It looks like a cursor of `order`.
    let of = "--prefix order_cursor --key uuid7 --form tagged";
    let id = ok(&entry(), &format!("seal {of} {KEY}"));
    assert_eq!(ok(&entry(), &format!("renew {of} {id}")), id);
}

#[test]
fn invalid_lines_are_reported_and_the_others_are_processed() {
    let good = ok(&entry(), "seal --prefix user --key int 7");
    let input = format!("{good}\n\u{1b}[31mbad\n{good}\n");
    let output = run_with(&input, &entry(), "open --prefix user --key int -");
    assert_eq!(stdout(&output), "7  integer  key id 0\n".repeat(2));
    refuses(&output, 1, "");
    let error = stderr(&output);
    assert!(error.starts_with("line 2: \\u{1b}[31mbad: "), "{error}");
}

#[test]
fn forms_that_do_not_exist_are_rejected_with_a_suggestion() {
    for (of, suggestion) in [
        ("--key int --form tagged", "use the text form"),
        ("--key ulid --form uuid", "use the text or the tagged form"),
        ("--key uuid7 --form short", "only integers have a short form"),
    ] {
        let output = run(&entry(), &format!("seal --prefix user {of} 1"));
        refuses(&output, 2, suggestion);
    }
}

#[test]
fn inspect_needs_no_secret() {
    let id = "user_7x1nhm7sq0r1qh4pewbejb04n3";
    let found = run("", &format!("inspect --json {id} {} 42", id.to_uppercase()));
    assert_eq!(found.status.code(), Some(1));
    let records: Vec<Value> = stdout(&found).lines().map(parse).collect();
    assert_eq!(records[0]["well_formed"], json!(true));
    assert_eq!(records[1]["suggestion"], json!(id));
    assert!(text(&records[2], "problem").contains("internal key"));
    let typeid = ok("", "inspect prefix_01h455vb4pex5vsknk084sn02q");
    let found = "well formed; text form; prefix prefix; key id 0; UUID 01890a5d-ac96-774b-bcce-b302099a8057 if mapped";
    assert!(typeid.contains(found));
}

#[test]
#[cfg(target_os = "linux")]
fn a_stream_runs_in_constant_memory() {
    let mut child = opaque_id(&entry(), "seal --prefix user --key int -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut output = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut input = child.stdin.take().expect("piped");
    // Results are printed while the input is still open, so memory stays small.
    let writer = std::thread::spawn(move || {
        for number in 0..300_000 {
            writeln!(input, "{number}").expect("writes");
        }
        input
    });
    for _ in 0..299_000 {
        let line = output.next().expect("a line").expect("UTF-8");
        assert!(line.starts_with("user_"));
    }
    let input = writer.join().expect("no panic");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("runs");
    let peak: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|kib| kib.trim().trim_end_matches("kB").trim().parse().ok())
        .expect("a size in KiB");
    assert!(peak < 32 * 1024, "{peak} KiB");
    drop(input);
    assert_eq!(output.count(), 1_000);
    assert!(child.wait().expect("ends").success());
}
