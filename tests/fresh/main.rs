//! The experience of a new user: a crate outside of the workspace with only a README's lines. Each README's
//! first example compiles with the TOML above it, and an application for each adapter adopts existing tables.

mod adopt;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use opaque_id_tests::Result;
use opaque_id_tests::tools::run;

/// The published crates that a manifest may name, by their paths.
const CRATES: [&str; 9] = [
    "opaque-id-actix",
    "opaque-id-axum",
    "opaque-id-core",
    "opaque-id-derive",
    "opaque-id-diesel",
    "opaque-id-seaorm",
    "opaque-id-sql",
    "opaque-id-sqlx",
    "opaque-id-web",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a folder of the workspace")
}

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| std::env::current_exe().expect("a program"));

/// Returns the workspace's build folder. It has the dependencies that the READMEs share with the workspace.
fn target() -> &'static Path {
    PROGRAM.ancestors().nth(2).expect("the program is in target/debug")
}

/// A separate workspace, so that nothing of ours adds a feature. Its packages share their builds.
struct Fresh {
    folder: PathBuf,
    packages: Vec<String>,
}

/// A README's first block of a language.
fn block(readme: &str, language: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(readme))?;
    let (_, rest) = text.split_once(&format!("```{language}")).ok_or("no such block")?;
    let (block, _) = rest.split_once("\n```").ok_or("an open block")?;
    // The first line may be `no_run`.
    let (_, block) = block.split_once('\n').ok_or("an empty block")?;
    Ok(block.to_owned())
}

/// Returns the lines of dependencies with `[dependencies]`, because only some READMEs print it. The first
/// README has `cargo add`.
fn dependencies(readme: &str) -> Result<String> {
    if let Ok(command) = block(readme, "sh")
        && let Some(names) = command.strip_prefix("$ cargo add ")
    {
        let lines = names.split_whitespace().map(|name| format!("{name} = \"*\"\n"));
        return Ok(format!("[dependencies]\n{}", lines.collect::<String>()));
    }
    let toml = block(readme, "toml")?;
    Ok(match toml.starts_with("[dependencies]") {
        true => toml,
        false => format!("[dependencies]\n{toml}"),
    })
}

impl Fresh {
    fn new(name: &str) -> Result<Self> {
        let folder = target().join("tmp/fresh").join(name);
        fs::create_dir_all(&folder)?;
        // The versions of the workspace are already on this machine.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        fs::copy(root().join("rust-toolchain.toml"), folder.join("rust-toolchain.toml"))?;
        Ok(Self { folder, packages: Vec::new() })
    }

    fn add(&mut self, name: &str, dependencies: &str, main: &str) -> Result<PathBuf> {
        let package = self.folder.join(name);
        fs::create_dir_all(package.join("src"))?;
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n{dependencies}\n"
        );
        fs::write(package.join("Cargo.toml"), manifest)?;
        fs::write(package.join("src/main.rs"), main)?;
        self.packages.push(name.to_owned());
        Ok(package)
    }

    /// Runs cargo on some packages with only their features.
    fn cargo(&self, command: &str, packages: &[&str]) -> Result {
        let mut manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = {:?}\n\n[patch.crates-io]\n",
            self.packages
        );
        for name in CRATES {
            manifest += &format!("{name} = {{ path = {:?} }}\n", root().join(name));
        }
        // With the workspace's profile, its builds of dependencies can be used.
        let ours = fs::read_to_string(root().join("Cargo.toml"))?;
        let (_, profiles) = ours.split_once("[profile.dev.package]").ok_or("no profile")?;
        manifest += &format!("[profile.dev]\ndebug = false\n\n[profile.dev.package]{profiles}");
        fs::write(self.folder.join("Cargo.toml"), manifest)?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo
            .arg(command)
            .arg("--quiet")
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", target())
            .env("CARGO_INCREMENTAL", "0");
        for package in packages {
            cargo.args(["--package", package]);
        }
        let output = cargo.output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    }

    fn binary(&self, package: &str) -> Command {
        Command::new(target().join("debug").join(package))
    }
}

fn main() -> Result {
    the_examples_of_readmes_compile_with_the_toml_above_them()?;
    adopt::applications_adopt_tables_with_rows()
}

fn the_examples_of_readmes_compile_with_the_toml_above_them() -> Result {
    let mut fresh = Fresh::new("readmes")?;
    let readmes = [
        ("readme", "README.md"),
        ("sqlx", "opaque-id-sqlx/README.md"),
        ("diesel", "opaque-id-diesel/README.md"),
        ("seaorm", "opaque-id-seaorm/README.md"),
        ("axum", "opaque-id-axum/README.md"),
        ("actix", "opaque-id-actix/README.md"),
    ];
    for (name, readme) in readmes {
        // GitHub shows lines that rustdoc hides.
        let example = block(readme, "rust")?;
        let example = example.lines().map(|line| match line.strip_prefix("# ") {
            Some(shown) => format!("{shown}\n"),
            None => format!("{line}\n"),
        });
        let package = fresh.add(
            &format!("readme-{name}"),
            &dependencies(readme)?,
            &example.collect::<String>(),
        )?;
        let migrations = root().join(format!("opaque-id-{name}/migrations"));
        if migrations.is_dir() {
            run(Command::new("cp").args(["-r", "-t"]).arg(&package).arg(migrations))?;
        }
    }
    for (name, readme) in readmes {
        fresh
            .cargo("check", &[&format!("readme-{name}")])
            .map_err(|error| format!("{readme}:\n{error}"))?;
    }
    Ok(())
}
