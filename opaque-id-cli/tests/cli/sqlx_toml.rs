//! `opaque-id sqlx-toml`.

use crate::{Folder, good, ok, output, refuses, sqlite, stderr, stdout};

const OVERRIDES: &str = "users.id=crate::shop::User users.team_id=crate::shop::Team \
    shop.users.id=crate::shop::User shop.users.team_id=crate::shop::Team";

#[test]
fn sqlx_toml_writes_what_the_conformance_suite_uses() {
    let printed = ok("", &format!("sqlx-toml {OVERRIDES}"));
    let used = include_str!("../../../tests/sqlx.toml");
    // The overrides follow the handwritten part.
    let start = used.find("[macros.table-overrides").expect("the overrides");
    assert_eq!(printed, used[start..].trim_end());
}

#[test]
fn sqlx_toml_keeps_the_rest_of_a_file() {
    let old = "# ours\n[common]\ndatabase-url-var = \"SHOP_URL\" # kept\n";
    let folder = Folder::new(&[("sqlx.toml", old)]);
    for columns in ["users.id=crate::Customer", "users.id=crate::User"] {
        assert_eq!(folder.ok(&format!("sqlx-toml --file sqlx.toml {columns}")), "");
    }
    let added =
        "\n[macros.table-overrides.users]\nid = \"opaque_id_sqlx::Internal<crate::User>\"\n";
    assert_eq!(folder.read("sqlx.toml"), format!("{old}{added}"));
}

#[test]
fn sqlx_toml_says_what_it_expects() {
    let folder = Folder::new(&[("sqlx.toml", "[macros")]);
    for (line, says) in [
        ("users", "users.id=my_app::User"),
        (".id=crate::User", "users.id=my_app::User"),
        ("users.=crate::User", "users.id=my_app::User"),
        ("users.id=", "users.id=my_app::User"),
        ("users.id=1;drop", "users.id=my_app::User"),
        ("users=my_app::User", "DATABASE_URL, or name each column"),
        ("--file sqlx.toml users.id=my_app::User", "error: sqlx.toml: "),
    ] {
        refuses(&folder.run(&format!("sqlx-toml {line}")), 2, says);
    }
}

/// The name is a keyword of PostgreSQL. sqlx quotes it there, and not on other databases.
#[test]
fn sqlx_toml_quotes_as_postgresql_does() {
    let overrides = "[macros.table-overrides.'\"user\"']
user_id = \"opaque_id_sqlx::Internal<my_app::User>\"

[macros.table-overrides.user]
user_id = \"opaque_id_sqlx::Internal<my_app::User>\"";
    let both = ok("", "sqlx-toml user.user_id=my_app::User");
    assert_eq!(both, overrides);
    let quoted = ok("", "sqlx-toml \"user\".user_id=my_app::User");
    assert!(overrides.starts_with(&quoted), "{quoted}");
}

const SCHEMA: &str = "
    CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY, invited_by BLOB REFERENCES users (id), name TEXT);
    CREATE TABLE line_items (id INTEGER PRIMARY KEY, buyer BLOB NOT NULL REFERENCES users (id));
    CREATE TABLE countries (code TEXT NOT NULL PRIMARY KEY);
    CREATE TABLE people (id BLOB NOT NULL PRIMARY KEY, no INTEGER UNIQUE);
    CREATE TABLE members (id INTEGER PRIMARY KEY, person_no INTEGER REFERENCES people (no), visitor INTEGER REFERENCES members (person_no));";

/// A package with a library. Its `src/model.rs` has derives.
fn package(lib: &str, model: &str) -> Folder {
    let manifest = "[package]\nname = \"my-app\"\n";
    Folder::new(&[("Cargo.toml", manifest), ("src/lib.rs", lib), ("src/model.rs", model)])
}

#[test]
fn sqlx_toml_reads_columns_from_a_database_and_types_from_the_source() {
    let (_folder, url) = sqlite(SCHEMA);
    let package = package(
        "pub mod model;",
        "#[derive(OpaqueId)]
         #[opaque_id(prefix = \"user\")]
         pub struct Customer;
         pub mod orders {
             #[derive(OpaqueId)]
             #[opaque_id(prefix = \"li\", key = i64)]
             pub struct LineItem;
         }",
    );
    let sqlx_toml = |line: &str| output(package.command("", line).env("DATABASE_URL", &url));
    let written = sqlx_toml("sqlx-toml");
    let expected = "[macros.table-overrides.line_items]
buyer = \"opaque_id_sqlx::Internal<my_app::model::Customer>\"
id = \"opaque_id_sqlx::Internal<my_app::model::orders::LineItem>\"

[macros.table-overrides.users]
id = \"opaque_id_sqlx::Internal<my_app::model::Customer>\"
invited_by = \"opaque_id_sqlx::Internal<my_app::model::Customer>\"
";
    assert_eq!(good(&written), expected.trim_end());
    let notes = "note: `members`: no type found; add it, such as members=my_app::User
note: `people`: no type found; add it, such as people=my_app::User
note: `my_app::…` needs `extern crate self as my_app;` in lib.rs, so that the library finds it too
";
    assert_eq!(stderr(&written), notes);

    // Arguments take precedence, and the more exact one wins.
    let types = "people=my_app::Person users=my_app::User users.id=my_app::Me";
    let written = sqlx_toml(&format!("sqlx-toml {types}"));
    let printed = stdout(&written);
    for line in [
        "buyer = \"opaque_id_sqlx::Internal<my_app::User>\"",
        "invited_by = \"opaque_id_sqlx::Internal<my_app::User>\"",
        "id = \"opaque_id_sqlx::Internal<my_app::Me>\"",
        "id = \"opaque_id_sqlx::Internal<my_app::Person>\"",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }

    let error =
        "no table with ids has the name `user`; there are line_items, members, people, users";
    refuses(&sqlx_toml("sqlx-toml user=my_app::User"), 2, error);
}

#[test]
fn sqlx_toml_finds_a_table_by_the_end_of_its_name() {
    let (_folder, url) = sqlite(
        "CREATE TABLE users (id BLOB PRIMARY KEY); CREATE TABLE blocked_users (id BLOB PRIMARY KEY);
         CREATE TABLE article_comment (id INTEGER PRIMARY KEY);
         CREATE TABLE cart_line_items (id INTEGER PRIMARY KEY);
         CREATE TABLE small_tag (id INTEGER PRIMARY KEY); CREATE TABLE large_tag (id INTEGER PRIMARY KEY);
         CREATE TABLE subtype (id INTEGER PRIMARY KEY);",
    );
    let package = package(
        "pub mod model; extern crate self as my_app;",
        "#[opaque_id(prefix = \"user\")] struct User; #[opaque_id(prefix = \"comment\")] struct Note;
         #[opaque_id(prefix = \"item\")] struct Item; #[opaque_id(prefix = \"line_item\")] struct LineItem;
         #[opaque_id(prefix = \"tag\")] struct Tag; #[opaque_id(prefix = \"type\")] struct Type;",
    );
    let written = output(package.command("", "sqlx-toml").env("DATABASE_URL", &url));
    let written_tables: Vec<_> = good(&written)
        .lines()
        .filter_map(|line| line.strip_prefix("[macros.table-overrides."))
        .collect();
    assert_eq!(written_tables, ["article_comment]", "cart_line_items]", "users]"]);
    let notes: Vec<_> = stderr(&written).lines().collect();
    let expected = [
        "note: `article_comment`: my_app::model::Note, by the end of the name; if that is wrong, add",
        "note: `blocked_users`: no type found",
        "note: `cart_line_items`: my_app::model::LineItem, by the end",
        "note: `large_tag`: no type found",
        "note: `small_tag`: no type found",
        "note: `subtype`: no type found",
    ];
    assert_eq!(notes.len(), expected.len(), "{notes:#?}");
    assert!(notes.iter().zip(expected).all(|(note, start)| note.starts_with(start)), "{notes:#?}");
}
