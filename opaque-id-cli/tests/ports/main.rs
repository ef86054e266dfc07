//! The ports: their packages build, install into an empty environment, and pass the kit and their own tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use opaque_id_tests::Result;
use opaque_id_tests::tools::{of_pypi, run};

const OPAQUE_ID: &str = env!("CARGO_BIN_EXE_opaque-id");

/// The tools, and what of PyPI they are.
const TOOLS: [&str; 13] = [
    "alembic==1.20.1",
    "cryptography==50.0.2",
    "deno==2.9.8",
    "Django==5.2.19",
    "fastapi==0.165.0",
    "hatchling==1.33.0",
    "httpx==0.28.1",
    "maturin==1.16.0",
    "mypy==2.4.1",
    "pydantic==2.14.4",
    "pytest==9.2.0",
    "pytest-xdist==3.8.0",
    "SQLAlchemy==2.1.9",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn port(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ports").join(name)
}

fn tools() -> Result<PathBuf> {
    of_pypi(&folder("port-tools"), &TOOLS)
}

/// An empty folder.
fn emptied(name: &str) -> Result<PathBuf> {
    let folder = folder(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    Ok(folder)
}

/// Fewer random cases than by default, which would take a minute for each.
fn passes_the_kit(command: &[&str], folder: &Path) -> Result {
    let kit = ["conformance", "--random", "20000", "--"];
    run(Command::new(OPAQUE_ID).args(kit).args(command).current_dir(folder)).map(drop)
}

#[test]
fn rust() -> Result {
    passes_the_kit(&[OPAQUE_ID, "conformance", "--answer"], &folder(""))
}

/// With and without the Rust core.
#[test]
fn python() -> Result {
    let tools = tools()?;
    let made = emptied("port-python")?;
    run(Command::new(tools.join("pip"))
        .args(["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"])
        .args([&made, &port("python")]))?;
    let empty = made.join("empty");
    run(Command::new("python3").args(["-m", "venv"]).arg(&empty))?;
    let install = || {
        let wheels = fs::read_dir(&made)?.map(|entry| Ok(entry?.path()));
        let mut wheels = wheels.collect::<std::io::Result<Vec<_>>>()?;
        wheels.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
        run(Command::new(empty.join("bin/pip")).args(["install", "--quiet"]).args(wheels))
    };
    let python = empty.join("bin/python");
    let command = [python.to_str().ok_or("a path in UTF-8")?, "-m", "opaque_id.conformance"];
    install()?;
    passes_the_kit(&command, &made)?;

    run(Command::new(tools.join("maturin"))
        .args(["build", "--quiet", "--locked", "--profile", "dev", "--interpreter"])
        .arg(&python)
        .args(["--out".as_ref(), made.as_os_str()])
        .current_dir(port("python-rust"))
        .env("CARGO_TARGET_DIR", folder("port-rust")))?;
    install()?;
    passes_the_kit(&command, &made)
}

#[test]
fn python_tests_and_types() -> Result {
    let python = tools()?.join("python");
    let in_port = |args: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-B", "-m"]).args(args).current_dir(port("python"));
        run(command.env("OPAQUE_ID", OPAQUE_ID).env("MYPY_CACHE_DIR", folder("port-mypy")))
    };
    in_port(&["mypy", "src"])?;
    in_port(&["pytest", "--quiet", "-p", "no:cacheprovider", "--numprocesses=2"]).map(drop)
}

#[test]
fn typescript() -> Result {
    let made = emptied("port-typescript")?;
    let path = env::join_paths(
        [tools()?].into_iter().chain(env::split_paths(&env::var_os("PATH").ok_or("no PATH")?)),
    )?;
    let in_folder = |folder: &Path, program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).current_dir(folder).env("PATH", &path);
        run(command.env("DENO_DIR", made.join("deno")).env("NO_COLOR", "1"))
    };
    let port = port("typescript");
    in_folder(&port, "deno", &["check", "src", "test/types.ts"])?;
    in_folder(&port, "deno", &["fmt", "--check", "--quiet"])?;
    in_folder(&port, "deno", &["lint", "--quiet"])?;
    in_folder(&port, "sh", &["pack.sh", made.to_str().ok_or("a path in UTF-8")?])?;

    fs::create_dir(made.join("node_modules"))?;
    fs::rename(made.join("package"), made.join("node_modules/opaque-id"))?;
    fs::write(made.join("package.json"), r#"{"type": "module"}"#)?;
    for test in ["conformance.js", "ids.test.js"] {
        fs::copy(port.join("test").join(test), made.join(test))?;
    }
    let deno = ["run", "--allow-all", "--no-check", "--node-modules-dir=manual"];
    in_folder(&made, "node", &["--test", "ids.test.js"])?;
    let test = ["test", "--allow-all", "--no-check", "--node-modules-dir=manual"];
    in_folder(&made, "deno", &[&test[..], &["ids.test.js"]].concat())?;
    passes_the_kit(&["node", "conformance.js"], &made)?;
    let program = tools()?.join("deno");
    let program = program.to_str().ok_or("a path in UTF-8")?;
    passes_the_kit(&[&[program], &deno[..], &["conformance.js"]].concat(), &made)
}
