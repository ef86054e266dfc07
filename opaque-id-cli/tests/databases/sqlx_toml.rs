//! `opaque-id sqlx-toml` on PostgreSQL, because sqlx checks parameters there.

use std::fs;
use std::process::Command;

use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::trials::Case;

use crate::functions::{expect, run};

pub(crate) const ALL: &[Case] = cases![sqlx_toml_of_uuids];

const SCHEMA: &str = r#"
    CREATE TABLE "user" (id uuid PRIMARY KEY, trace uuid, name text);
    CREATE TABLE article_comment (id bigint PRIMARY KEY, author uuid NOT NULL REFERENCES "user", tags uuid[]);
    CREATE SCHEMA opaque_id CREATE TABLE subkeys (id INT);
    CREATE SCHEMA iam; CREATE TABLE iam.tokens (id uuid PRIMARY KEY);
    CREATE TABLE login (token uuid PRIMARY KEY REFERENCES iam.tokens);
    CREATE VIEW traces AS SELECT trace FROM "user";"#;

const DERIVES: &str = r#"
    #[opaque_id(prefix = "user")] struct User;
    #[opaque_id(prefix = "comment", key = i64)] struct Comment;
    #[opaque_id(prefix = "login")] struct Login;"#;

const WRITTEN: &str = r#"[macros.type-overrides]
UUID = "opaque_id_sqlx::Internal<_>"
"UUID[]" = "&[opaque_id_sqlx::Internal<_>]"

[macros.table-overrides.'"user"']
id = "opaque_id_sqlx::Internal<crate::User>"
trace = "sqlx::types::Uuid"

[macros.table-overrides.article_comment]
author = "opaque_id_sqlx::Internal<crate::User>"
id = "opaque_id_sqlx::Internal<crate::Comment>"
tags = "Vec<sqlx::types::Uuid>"

[macros.table-overrides.login]
token = "sqlx::types::Uuid"

[macros.table-overrides.traces]
trace = "sqlx::types::Uuid"
"#;

fn sqlx_toml_of_uuids(database: &Database) -> Result {
    database.execute(SCHEMA)?;
    let folder = tempfile::tempdir()?;
    let (source, file) = (folder.path().join("main.rs"), folder.path().join("sqlx.toml"));
    fs::write(&source, DERIVES)?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
        command.current_dir(&folder).args(arguments).env("DATABASE_URL", database.path_or_url());
        run(&mut command, "")
    };
    let write = |derives: &str, given: &[&str]| {
        fs::write(&source, derives)?;
        let (success, out, notes) =
            command(&[&["sqlx-toml", "--file", "sqlx.toml"], given].concat())?;
        expect("the command", (success, out), (true, String::new()))?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((fs::read_to_string(&file)?, notes))
    };
    let (written, notes) = write(DERIVES, &[])?;
    expect("the file", &*written, WRITTEN)?;
    let expected = r#"note: only the schema `public` was read; tables are also in `iam` (1): add their columns, such as iam.users.id=my_app::User
note: `article_comment`: crate::Comment, by the end of the name; if that is wrong, add the right one, such as article_comment=my_app::User
note: UUIDs that are no ids, written as such: article_comment.tags, login.token, traces.trace, "user".trace; if one is an id, add it, such as TABLE.COLUMN=my_app::User
"#;
    expect("the notes", &*notes, expected)?;

    fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"app\"\n")?;
    for arguments in [&["check-schema"][..], &["init", "--dry-run"]] {
        let (_, _, notes) = command(arguments)?;
        let unread = notes.contains("tables are also in `iam` (1): choose a schema");
        expect(arguments[0], unread, true)?;
    }

    // Changes by hand are kept, unless the command gets the column's type.
    let by_hand = written.replace("\"sqlx::types::Uuid\"", "\"crate::Trace\"");
    let by_hand = by_hand.replace("opaque_id_sqlx::Internal<crate::Comment>", "crate::CommentId");
    fs::write(&file, &by_hand)?;
    expect("the file by hand", &write(DERIVES, &[])?.0, &by_hand)?;
    let given = by_hand.replace("crate::CommentId", "opaque_id_sqlx::Internal<crate::Note>");
    expect("a column's type", write("", &["article_comment.id=crate::Note"])?.0, given)?;

    let of_application = "[macros.type-overrides]\nUUID = \"crate::Key\"\n";
    fs::write(&file, of_application)?;
    let (written, _) = write(DERIVES, &[])?;
    expect(
        "its own type",
        (written.starts_with(of_application), written.contains("sqlx::types")),
        (true, false),
    )?;

    // Without an id that is a UUID, no UUID is an id.
    fs::remove_file(&file)?;
    let (written, _) =
        write(&DERIVES.replace("\"user\"", "\"admin\"").replace("User", "Admin"), &[])?;
    expect(
        "integers alone",
        &*written,
        "[macros.table-overrides.article_comment]\nid = \"opaque_id_sqlx::Internal<crate::Comment>\"\n",
    )
}
