//! `opaque-id init`, in a fresh project for each case.

use std::process::Command;

use crate::{Folder, good, opaque_id, output, refuses, sqlite, stderr, with_input};

/// The module of the first test, which compiles.
#[expect(dead_code, missing_debug_implementations, unreachable_pub)]
#[path = "init/ids.txt"]
mod ids;

const SCHEMA: &str = include_str!("init/schema.sql");
const FILES: [&str; 6] =
    [".gitignore", "Cargo.toml", "sqlx.toml", "src/ids.rs", "src/lib.rs", "src/main.rs"];

fn project(dependencies: &str, root: &str, source: &str) -> Folder {
    let manifest = format!("[package]\nname = \"my-app\"\n[dependencies]\n{dependencies}\n");
    Folder::new(&[("Cargo.toml", &manifest), (root, source)])
}

fn contents(folder: &Folder) -> [String; 6] {
    FILES.map(|file| folder.read(file))
}

#[test]
fn init_writes_what_its_dry_run_prints_and_a_second_run_changes_nothing() {
    let (_folder, url) = sqlite(SCHEMA);
    let line = format!("init --database-url {url}");
    let dependencies = "axum = \"0.8\"\nsqlx = { version = \"0.8\", features = [\"sqlite\"] }";
    let new = || project(dependencies, "src/main.rs", "mod api;\nmod model;\nfn main() {}\n");
    let (printed, written) = (new(), new());
    let before = contents(&printed);
    let diff = printed.run(&format!("{line} --dry-run"));
    assert!(contents(&printed) == before && stderr(&diff).contains("a new secret"));
    let next = written.run(&line);
    assert!(good(&next).contains("types that it leaves to you: 3"), "{}", good(&next));
    let after = contents(&written);
    assert_eq!(after[3], include_str!("init/ids.txt"));
    assert_eq!(after[5], "mod api;\nmod ids;\nmod model;\nfn main() {}\n");
    assert!(!written.ok(&line).contains("wrote") && contents(&written) == after);
    // A file that others could read would be refused.
    written.ok("keys --keys-file opaque-id.keys");

    let mut apply = Command::new("git");
    let apply = apply.args(["apply", "-"]).current_dir(&printed.0);
    good(&with_input(apply, &format!("{}\n", good(&diff))).expect("git runs"));
    assert_eq!(contents(&printed), after);
}

#[test]
fn init_adds_the_crates_of_the_dependencies() {
    let workspace = "[workspace.dependencies]\nopaque-id-axum = \"0.1\"\ndiesel = { version = \"2\", features = [\"sqlite\"] }";
    for case in include_str!("init/crates.txt").split("\n\n") {
        let (dependencies, added) = case.split_once("=>\n").expect("a case");
        let source = "#![allow(dead_code)]\nfn main() {}";
        let folder = project(&format!("{dependencies}{workspace}"), "src/main.rs", source);
        let before = &contents(&folder)[1];
        let dry = folder.run("init --dry-run");
        let next = folder.run("init");
        for printed in [stderr(&dry), good(&next)] {
            assert!(printed.contains("add to src/main.rs: mod ids;"), "{printed}");
        }
        assert!(stderr(&next).contains("without a database"), "{}", stderr(&next));
        let after = contents(&folder);
        let added = format!("{}\n{workspace}", added.trim_end());
        let name = "name = \"my-app\"\n";
        let excluded = format!("{name}exclude = [\"/opaque-id.keys*\"]\n");
        assert_eq!(after[1], before.replace(workspace, &added).replace(name, &excluded));
        assert!(after[3].contains("// pub struct User;") && after[5] == source);
    }
}

#[test]
fn init_counts_types_and_no_other_decisions() {
    let (_folder, url) = sqlite(SCHEMA);
    let dependencies = "axum = \"0.8\"\ndiesel = { version = \"2\", features = [\"sqlite\"] }";
    let folder = project(dependencies, "src/main.rs", "");
    for _ in 0..2 {
        let next = folder.ok(&format!("init --database-url {url}"));
        assert!(next.contains("types that it leaves to you: 3"), "{next}");
    }
    assert!(contents(&folder)[3].contains("    // Decide what else"));
}

#[test]
fn init_reads_the_versions_of_cargo_lock() {
    let package = |name: &str, version: &str, dependencies: &str| {
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\ndependencies = [{dependencies}]\n"
        )
    };
    let lock = |sqlx: &str| {
        let mine = package("my-app", "0.1.0", &format!(r#""axum", "sqlx {sqlx}""#));
        let [newer, older] = ["0.9.0", "0.8.6"].map(|version| package("sqlx", version, ""));
        [package("axum", "0.7.9", ""), mine, older, newer].concat()
    };
    for (required, locked, added) in [
        ("0", "0.8.6", "package = \"opaque-id-sqlx08\""),
        ("0", "0.9.0", "opaque-id-sqlx = \"0.1\""),
        (">=0.8, <1", "0.9.0", "opaque-id-sqlx = \"0.1\""),
        ("0.8", "0.9.0", "package = \"opaque-id-sqlx08\""),
    ] {
        let dependencies = format!("sqlx = \"{required}\"\naxum = \"*\"\nutoipa.git = \"…\"");
        let folder = project(&dependencies, "src/main.rs", "");
        folder.write("Cargo.lock", &lock(locked));
        let next = folder.run("init");
        let manifest = &contents(&folder)[1];
        assert!(manifest.contains(added) && !manifest.contains("utoipa5"), "{manifest}");
        assert!(stderr(&next).contains("expected axum 0.8, found `0.7.9`"), "{}", stderr(&next));
    }
}

#[test]
fn init_in_a_workspace_names_another_secret() {
    let manifest = "[package]\nname = \"b\"\n[dependencies]\ndiesel = { version = \"2\", features = [\"sqlite\"], optional = true }";
    let folder = Folder::new(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]"),
        ("a/opaque-id.keys", "# ours"),
        ("b/Cargo.toml", manifest),
        ("b/src/lib.rs", ""),
    ]);
    let added = output(folder.command("", "init").current_dir(folder.path("b")));
    good(&added);
    for note in ["a/opaque-id.keys has a secret already", "diesel is optional here"] {
        assert!(stderr(&added).contains(note), "{}", stderr(&added));
    }
}

#[test]
fn init_writes_sqlx_toml_for_macros_and_overwrites_nothing() {
    let (_folder, url) = sqlite(SCHEMA);
    let line = format!("init --database-url {url}");
    let sqlx = "sqlx = { version = \"0.9\", features = [\"sqlite\"] } # ours";
    let folder = project(sqlx, "src/lib.rs", "//! sqlx::query!(\npub mod model;\n");
    folder.ok(&line);
    let [_, manifest, overrides, _, lib, _] = contents(&folder);
    assert!(manifest.contains("[\"sqlite\", \"sqlx-toml\"] } # ours\n"), "{manifest}");
    let user = "user_id = \"opaque_id_sqlx::Internal<my_app::ids::User>\"";
    assert!(overrides.contains(user), "{overrides}");
    assert!(lib.ends_with("pub mod model;\npub mod ids;\nextern crate self as my_app;\n"), "{lib}");

    for file in ["src/ids.rs", "sqlx.toml", "opaque-id.keys"] {
        folder.write(file, "# mine");
    }
    let before = contents(&folder);
    let again = folder.run(&line);
    assert!(contents(&folder) == before && !good(&again).contains("wrote"));
    assert_eq!(stderr(&again).matches("exists and stays as it is").count(), 2);
    assert!(stderr(&again).contains("src/ids.rs has no type for users"), "{}", stderr(&again));
    // A type with another name.
    folder.write("src/ids.rs", "/// A row of `users`.\npub struct Person;");
    assert!(!stderr(&folder.run(&line)).contains("no type for users"));
    folder.write("Cargo.toml", "[workspace]");
    refuses(&folder.run(&line), 2, "found a workspace");
}

#[test]
fn init_leaves_a_root_in_another_folder_to_the_user() {
    for (table, root) in [
        ("", "src/bin/server.rs"),
        ("[[bin]]\nname = \"server\"\npath = \"app/server.rs\"", "app/server.rs"),
        ("[lib]\npath = \"app/lib.rs\"", "app/lib.rs"),
    ] {
        let folder = project(&format!("serde = \"1\"\n{table}"), root, "//! Ours.\n");
        let next = folder.ok("init");
        assert!(next.contains("add to the crate's root, with #[path] of src/ids.rs: "), "{next}");
        let after = contents(&folder);
        assert!(after[4].is_empty() && after[5].is_empty() && folder.read(root) == "//! Ours.\n");
    }
    let named = project("serde = \"1\"\n[lib]\npath = \"src/shop.rs\"", "src/shop.rs", "");
    named.ok("init");
    assert_eq!(named.read("src/shop.rs"), "pub mod ids;\n\n");
}

#[test]
fn init_declares_its_module_in_source_and_not_in_comments() {
    for (source, declared) in [
        ("// mod ids;\nmod a;\n", "// mod ids;\nmod a;\nmod ids;\n"),
        ("// As in mod a;\nmod a; // ours\n", "// As in mod a;\nmod a; // ours\nmod ids;\n"),
        ("mod x {\n    //! x\n}\n", "mod ids;\n\nmod x {\n    //! x\n}\n"),
        ("#[cfg(unix)]\nmod z;", "#[cfg(unix)]\nmod z;\nmod ids;\n"),
        ("/*! Ours. */\n", ""),
        ("\u{feff}fn f() {}\n", ""),
        ("#!/usr/bin/env cargo\nfn f() {}\n", ""),
        ("mod a; fn f() {\n}\n", ""),
        ("mod a; #[test]\nfn f() {}\n", ""),
        ("mod a; /*\n*/\n", ""),
        ("mod ids {}\n", ""),
    ] {
        let folder = project("serde = \"1\"", "src/main.rs", source);
        let is_left = folder.ok("init").contains("add to src/main.rs: mod ids;");
        assert_eq!(is_left, declared.is_empty(), "{source}");
        let expected = if is_left { source } else { declared };
        assert_eq!(folder.read("src/main.rs"), expected);
    }
}

#[test]
fn git_ignores_the_secret_in_spite_of_an_exception() {
    let folder = project("serde = \"1\"", "src/main.rs", "");
    folder.write(".gitignore", "/opaque-id.keys*\n!*.keys\n");
    folder.ok("init");
    for words in
        ["init --quiet", "check-ignore opaque-id.keys", "check-ignore opaque-id.keys.before"]
    {
        let mut git = Command::new("git");
        good(&output(git.args(words.split(' ')).current_dir(&folder.0)));
    }
    assert!(!folder.ok("init").contains("wrote"));
}

#[test]
fn init_keeps_the_secret_out_of_images() {
    let folder = project("serde = \"1\"", "src/main.rs", "");
    folder.ok("init");
    assert!(!folder.0.path().join(".dockerignore").exists());
    folder.write(".dockerignore", "target\n.env");
    for _ in 0..2 {
        folder.ok("init");
        assert_eq!(folder.read(".dockerignore"), "target\n.env\n/opaque-id.keys*\n");
    }

    let workspace = "[workspace]\nmembers = [\"api\"]\n";
    let package = "[package]\nname = \"api\"\n";
    let folder = Folder::new(&[
        ("Cargo.toml", workspace),
        (".dockerignore", "target\n"),
        ("api/Cargo.toml", package),
        ("api/src/main.rs", ""),
    ]);
    let init = || {
        let mut init = opaque_id("", "init");
        stderr(&output(init.current_dir(folder.0.path().join("api")))).to_owned()
    };
    let note = init();
    assert!(
        note.contains("add **/opaque-id.keys* to ") && note.contains(".dockerignore"),
        "{note}"
    );
    folder.write(".dockerignore", "target\n**/opaque-id.keys*\n");
    assert!(!init().contains(".dockerignore"));
}

#[test]
fn init_keeps_the_secret_out_of_packages() {
    for (package, after) in [
        ("exclude = [\"/ci\"]", "exclude = [\"/ci\", \"/opaque-id.keys*\"]"),
        ("exclude = [\"opaque-id.keys*\"]", "exclude = [\"opaque-id.keys*\"]"),
        // `exclude` would have no effect.
        ("include = [\"/src\"]", "include = [\"/src\"]"),
        ("publish = false", "publish = false"),
    ] {
        let manifest = format!("[package]\nname = \"my-app\"\n{package}\n");
        let folder = Folder::new(&[("Cargo.toml", &manifest), ("src/main.rs", "")]);
        folder.ok("init");
        let expected = format!("{}\n[dependencies]", manifest.replace(package, after));
        let manifest = folder.read("Cargo.toml");
        assert!(manifest.starts_with(&expected), "{manifest}");
    }
}

#[test]
fn init_keeps_line_ends() {
    let folder = project("serde = \"1\"", "src/main.rs", "mod a;\n");
    folder.write(".gitignore", "/target\n");
    let files = [".gitignore", "Cargo.toml", "src/main.rs"];
    let other = Folder::new(&[]);
    files.iter().for_each(|file| other.write(file, &folder.read(file).replace('\n', "\r\n")));
    folder.ok("init");
    other.ok("init");
    for file in files {
        assert_eq!(other.read(file), folder.read(file).replace('\n', "\r\n"));
    }
}

#[test]
fn init_says_what_it_leaves_out() {
    let (_folder, url) = sqlite(SCHEMA);
    let line = format!("init --database-url {url}");
    let derived = "#[opaque_id(prefix = \"user\", key = i64)]\nstruct User;\n";
    let dependencies = "sea-orm = \"2\"\ndiesel-async = \"0.6\"";
    let folder = project(dependencies, "src/main.rs", derived);
    let next = folder.run(&line);
    assert!(stderr(&next).contains("expected diesel-async 0.9 or 0.8, found `0.6`"));
    let [_, manifest, _, ids, _, main] = contents(&folder);
    // The URL names the database.
    assert!(manifest.contains("features = [\"sqlite\"]"), "{manifest}");
    assert!(ids.contains("pub struct OrderBox;") && !ids.contains("pub struct User;"), "{ids}");
    assert_eq!(main, format!("mod ids;\n\n{derived}"));

    // The core has no features of databases.
    let domain = project("serde = \"1\"", "src/lib.rs", "");
    domain.ok(&line);
    assert!(domain.read("Cargo.toml").contains("opaque-id-core = \"0.1\""));

    let old = project("sqlx = \"0.7\"", "src/main.rs", "");
    refuses(&old.run(&line), 2, "expected sqlx 0.9 or 0.8, found `0.7`");
    assert!(contents(&old)[3].is_empty());
}
