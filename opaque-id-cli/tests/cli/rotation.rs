//! `opaque-id keys --plan-rotation`.

use serde_json::json;

use crate::{SECRET, entry, ok, parse, text};

fn keygen(key_id: u8) -> String {
    ok("", &format!("keygen --key-id {key_id}"))
}

fn plan(entries: &str) -> String {
    let plan = ok(entries, "keys --plan-rotation");
    for entry in entries.split(',') {
        let (_, secret) = entry.split_once(':').expect("an entry");
        assert!(!plan.contains(&secret[..16]), "{plan}");
    }
    plan
}

/// Returns the numbers of the steps in order.
fn steps(plan: &str) -> Vec<&str> {
    let lines = plan.lines();
    let numbers = lines.filter_map(|line| Some(line.split_once(". ")?.0));
    numbers.filter(|number| number.len() == 1).collect()
}

#[test]
fn a_plan_has_three_steps() {
    let plan = plan(&format!("3:{SECRET}"));
    assert!(plan.starts_with("key id 3  seals  check value "), "{plan}");
    assert_eq!(steps(&plan), ["1", "2", "3"], "{plan}");
    // Key ids are reused in a cycle.
    assert!(plan.contains("`opaque-id keygen --key-id 0`"), "{plan}");
    for line in [
        "at the end of OPAQUE_ID_KEYS: 3:…,0:…",
        "to 0:…,3:…",
        "of key id 3 grows",
        "keys --retire 3",
    ] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    assert_eq!(plan.matches("`opaque-id sql functions --rotate`").count(), 3, "{plan}");
}

#[test]
fn a_plan_goes_on_where_a_rotation_is() {
    let plan_of_two = plan(&format!("{},{}", entry(), keygen(1)));
    assert_eq!(steps(&plan_of_two), ["2", "3", "3"], "{plan_of_two}");
    assert!(plan_of_two.contains("If key id 1 was appended to replace key id 0"));
    assert!(plan_of_two.contains("If key id 1 is an older secret"));

    let plan_of_three = plan(&format!("{},{},{}", entry(), keygen(1), keygen(2)));
    assert!(plan_of_three.contains("Finish the earlier rotations"));
    assert_eq!(steps(&plan_of_three), ["3", "3"], "{plan_of_three}");
}

/// At each moment, both running instances open each other's ids.
#[test]
fn instances_of_neighboring_steps_open_each_others_ids() {
    let (old, new) = (entry(), keygen(1));
    let rollouts = [old.clone(), format!("{old},{new}"), format!("{new},{old}"), new];
    let of = "--prefix user --key int --json";
    let seal = |entries: &str| {
        let record = parse(&ok(entries, &format!("seal {of} 42")));
        text(&record, "id").to_owned()
    };
    let open = |entries: &str, id: &str| {
        let opened = parse(&ok(entries, &format!("open {of} {id}")));
        assert_eq!(opened["key"], json!("42"));
    };
    for [before, after] in rollouts.array_windows() {
        // Old ids are renewed before the last step.
        if *before != rollouts[2] {
            open(after, &seal(before));
        }
        open(before, &seal(after));
    }
}
