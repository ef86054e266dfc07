//! All names in arguments that become a part of SQL. The commands refuse most names that would need quotes.
//! They quote the names of `packs import --from` (`packs_of_an_old_table_with_hostile_keys`), of a schema
//! (`hostile_names_stay_names`) and of a column. They bind values, or write them as hexadecimal digits.

use super::*;

/// The commands with a hole for the name.
const COMMANDS: [&str; 9] = [
    "sql mapping --dialect sqlite --table {}",
    "sql packs --dialect sqlite --table {}",
    "sql functions --dialect postgres --prefix user --key i64 --schema {}",
    "sql functions --dialect mysql --key i64 --prefix {}",
    "packs create --prefix event --key i64 {}",
    "packs verify --prefix event --key i64 {}",
    "packs verify --prefix event --key i64 --column {}.notes events",
    "packs sweep --prefix event --key i64 --column customers.{} events",
    "packs rekey --prefix event --key i64 --column customers.notes --id {} events",
];

const HOSTILE: [&str; 12] = [
    "a b",
    "a; DROP TABLE b",
    "a'b",
    "a\"b",
    "a`b",
    "a\\b",
    "a--b",
    "a/*b",
    "a$$b",
    "a\nb",
    "a\u{202e}b",
    "",
];

#[test]
fn names_never_become_other_sql() {
    let entries = format!("0:{SECRET}");
    let folder = Folder::new(&[]);
    let file = folder.path("shop.db");
    for command in COMMANDS {
        for name in HOSTILE {
            let words: Vec<_> = command.split(' ').map(|word| word.replace("{}", name)).collect();
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let mut command = command_with(&entries, &words);
            command.env("DATABASE_URL", format!("sqlite://{file}?mode=rwc"));
            let refused = output(&mut command);
            assert!(!refused.status.success(), "{words:?}");
            assert_eq!(stdout(&refused), "", "{words:?}");
            assert!(stderr(&refused).contains("expected"), "{words:?}: {}", stderr(&refused));
        }
    }
    assert!(!Path::new(&file).exists(), "a command connected before it had read its arguments");
}
