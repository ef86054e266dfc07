//! The ports: their packages build, install into an empty environment, and pass the kit and their own tests.
//! `cargo xtask release --check ports` also runs the ignored ones.

use std::fs::Permissions;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use std::{env, fs, thread};

use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::tools::{from_pypi, run, with_input};
use opaque_id_tests::{Result, servers};
use serde_json::{Value, json};

const OPAQUE_ID: &str = env!("CARGO_BIN_EXE_opaque-id");

/// The tools, and their packages of PyPI.
const TOOLS: [&str; 19] = [
    "alembic==1.20.1",
    "cryptography==50.0.2",
    "deno==2.9.8",
    DJANGO,
    "django-filter==26.2",
    "djangorestframework==3.18.3",
    "fastapi==0.165.0",
    "hatchling==1.33.0",
    "httpx==0.28.1",
    "maturin==1.16.0",
    "mypy==2.4.1",
    "psycopg[binary]==3.3.9",
    "pydantic==2.14.4",
    "PyMySQL==1.2.4",
    "pytest==9.2.0",
    "pytest-xdist==3.8.0",
    "setuptools==84.2.1",
    "SQLAlchemy==2.1.9",
    "tblib==3.2.2",
];

const DJANGO: &str = "Django==5.2.19";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn port(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ports").join(name)
}

fn tools() -> Result<PathBuf> {
    from_pypi(&folder("port-tools"), &TOOLS)
}

/// Returns an empty folder.
fn emptied(name: &str) -> Result<PathBuf> {
    let folder = folder(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    Ok(folder)
}

/// Runs the kit with fewer random cases than the default, because that would take a minute for each.
fn passes_the_kit(command: &[&str], folder: &Path) -> Result {
    let kit = ["conformance", "--random", "20000", "--"];
    run(Command::new(OPAQUE_ID).args(kit).args(command).current_dir(folder)).map(drop)
}

#[test]
fn rust() -> Result {
    passes_the_kit(&[OPAQUE_ID, "conformance", "--answer"], &folder(""))
}

/// Only a release runs the mutations. A refactoring must not leave one without its text.
#[test]
fn mutations_have_their_texts() -> Result {
    let root = port("..");
    for (language, sources) in [
        ("python", "ports/python/src/opaque_id"),
        ("rust", "opaque-id-core/src"),
        ("typescript", "ports/typescript/src"),
    ] {
        let mutations = fs::read(root.join("spec/mutations").join(format!("{language}.json")))?;
        for mutation in serde_json::from_slice::<Vec<Value>>(&mutations)? {
            let file = root.join(sources).join(mutation["file"].as_str().ok_or("a file")?);
            let source = fs::read_to_string(&file)?;
            for edit in mutation["edits"].as_array().ok_or("edits")? {
                let found = source.matches(edit[0].as_str().ok_or("a text")?).count();
                assert_eq!(found, 1, "{}: {edit}", file.display());
            }
        }
    }
    Ok(())
}

/// Returns the Python of an empty environment with the wheel.
fn with_wheel(made: &Path) -> Result<String> {
    run(Command::new(tools()?.join("pip"))
        .args(["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"])
        .args([made, &port("python")]))?;
    let empty = made.join("empty");
    run(Command::new("python3").args(["-m", "venv"]).arg(&empty))?;
    install(&empty, made)?;
    Ok(empty.join("bin/python").to_str().ok_or("a path in UTF-8")?.to_owned())
}

fn install(environment: &Path, wheels: &Path) -> Result {
    let wheels = fs::read_dir(wheels)?.map(|entry| Ok(entry?.path()));
    let mut wheels = wheels.collect::<std::io::Result<Vec<_>>>()?;
    wheels.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let mut pip = Command::new(environment.join("bin/pip"));
    run(pip.args(["install", "--quiet"]).args(wheels)).map(drop)
}

/// Checks a folder with the package as published, and the tests.
fn with_package(made: &Path) -> Result {
    in_folder(&port("typescript"), "sh", &["pack.sh", made.to_str().ok_or("a path in UTF-8")?])?;
    fs::create_dir(made.join("node_modules"))?;
    fs::rename(made.join("package"), made.join("node_modules/opaque-id"))?;
    fs::write(made.join("package.json"), r#"{"type": "module"}"#)?;
    for test in ["conformance.js", "ids.test.js"] {
        fs::copy(port("typescript").join("test").join(test), made.join(test))?;
    }
    Ok(())
}

/// Runs a program, possibly deno.
fn in_folder(folder: &Path, program: &str, args: &[&str]) -> Result {
    let path = env::var_os("PATH").ok_or("no PATH")?;
    let path = env::join_paths([tools()?].into_iter().chain(env::split_paths(&path)))?;
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).env("PATH", &path).env("NO_COLOR", "1");
    run(command.env("DENO_DIR", self::folder("port-deno"))).map(drop)
}

#[test]
fn python() -> Result {
    let made = emptied("port-python")?;
    let python = with_wheel(&made)?;
    passes_the_kit(&[&python, "-m", "opaque_id.conformance"], &made)?;
    with_package(&made)?;
    three_languages(&python, &made)?;
    positions_open_in_every_language(&python, &made)
}

#[test]
#[ignore = "it builds the Rust core"]
fn python_with_the_rust_core() -> Result {
    let made = emptied("port-python-rust")?;
    let python = with_wheel(&made)?;
    run(Command::new(tools()?.join("maturin"))
        .args(["build", "--quiet", "--locked", "--profile", "dev", "--interpreter", &python])
        .args(["--out".as_ref(), made.as_os_str()])
        .current_dir(port("python-rust"))
        .env("CARGO_TARGET_DIR", folder("port-rust")))?;
    install(&made.join("empty"), &made)?;
    passes_the_kit(&[&python, "-m", "opaque_id.conformance"], &made)
}

/// Returns the folder of Django's own tests in its source distribution.
fn tests_of_django() -> Result<PathBuf> {
    let kept = folder("port-django");
    let tests = kept.join(DJANGO.to_lowercase().replace("==", "-")).join("tests");
    if !tests.join("runtests.py").exists() {
        let kept = emptied("port-django")?;
        let mut pip = Command::new(tools()?.join("pip"));
        pip.args(["download", "--quiet", "--no-deps", "--no-binary", ":all:"]);
        run(pip.args(["--no-build-isolation", DJANGO, "--dest"]).arg(&kept))?;
        let unpack = "for archive in *.tar.gz; do tar xf $archive; done";
        run(Command::new("sh").args(["-ec", unpack]).current_dir(&kept))?;
    }
    Ok(tests)
}

fn in_python(args: &[&str], variable: Option<(&str, String)>) -> Result {
    let mut command = Command::new(tools()?.join("python"));
    command.args(["-B", "-m"]).args(args).current_dir(port("python"));
    command.env("OPAQUE_ID", OPAQUE_ID).env("MYPY_CACHE_DIR", folder("port-mypy"));
    run(command.env_remove("DATABASE_URL").envs(variable)).map(drop)
}

const PYTEST: [&str; 4] = ["pytest", "--quiet", "-p", "no:cacheprovider"];

/// All tests run on SQLite.
#[test]
fn python_tests_and_types() -> Result {
    in_python(&["mypy", "src"], None)?;
    in_python(
        &[&PYTEST[..], &["--numprocesses=2", "--ignore=tests/test_django_suites.py"]].concat(),
        None,
    )?;
    python_columns_on(&[Engine::Postgres])
}

#[test]
#[ignore = "it needs a minute"]
fn python_columns_on_mysql_and_mariadb() -> Result {
    python_columns_on(&[Engine::Mysql, Engine::Mariadb])
}

/// Tests the columns of SQLAlchemy and Django.
fn python_columns_on(kinds: &[Engine]) -> Result {
    let mut asked_for = Engine::asked_for()?;
    asked_for.retain(|kind| kinds.contains(kind));
    for (kind, server) in &servers::start(&asked_for)? {
        let django: &[&str] = &["tests/test_django.py", "tests/test_django_places.py"];
        for tests in [&["tests/test_sqlalchemy.py"], django] {
            let database = Database::create(*kind, server)?;
            // SQLAlchemy also has a dialect for MariaDB.
            let (_, rest) = database.url.split_once("://").ok_or("a URL has a scheme")?;
            let url = format!("{kind}://{rest}");
            in_python(&[&PYTEST[..], tests].concat(), Some(("DATABASE_URL", url)))
                .map_err(|error| format!("{kind}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "it needs two minutes"]
fn tests_of_django_itself() -> Result {
    let folder = tests_of_django()?.to_str().ok_or("a path in UTF-8")?.to_owned();
    let tests = [&PYTEST[..], &["tests/test_django_suites.py"]].concat();
    in_python(&tests, Some(("DJANGO_TESTS", folder)))
}

#[test]
fn typescript() -> Result {
    let (made, port) = (emptied("port-typescript")?, port("typescript"));
    in_folder(&port, "deno", &["check", "src", "test/types.ts"])?;
    in_folder(&port, "deno", &["fmt", "--check", "--quiet"])?;
    in_folder(&port, "deno", &["lint", "--quiet"])?;
    with_package(&made)?;
    in_folder(&made, "node", &["--test", "ids.test.js"])?;
    passes_the_kit(&["node", "conformance.js"], &made)
}

#[test]
#[ignore = "Node runs the same"]
fn typescript_in_deno() -> Result {
    let made = emptied("port-deno-package")?;
    with_package(&made)?;
    let options = ["--allow-all", "--no-check", "--node-modules-dir=manual"];
    in_folder(&made, "deno", &[&["test"], &options[..], &["ids.test.js"]].concat())?;
    let deno = tools()?.join("deno");
    let deno = [deno.to_str().ok_or("a path in UTF-8")?, "run"];
    passes_the_kit(&[&deno, &options[..], &["conformance.js"]].concat(), &made)
}

/// A process that ends with the value.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // It is still running.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the example of `ports/`: the front end in Node adds a user, and the job in Python removes it.
fn three_languages(python: &str, made: &Path) -> Result {
    let service = Path::new(OPAQUE_ID).with_file_name("axum-sqlx");
    if !service.exists() {
        return Err("the service is missing: cargo build -p axum-sqlx".into());
    }
    let secrets = run(Command::new(OPAQUE_ID).arg("keygen"))?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(made).env("OPAQUE_ID_KEYS", secrets.trim());
        command.env("ADDRESS", &address).env("SERVICE", format!("http://{address}"));
        command
    };
    let keys = made.join("keys");
    fs::write(&keys, &secrets)?;
    fs::set_permissions(&keys, Permissions::from_mode(0o600))?;
    let mut service = Service(start(service.to_str().ok_or("a path in UTF-8")?).spawn()?);
    while TcpStream::connect(&address).is_err() {
        if let Some(status) = service.0.try_wait()? {
            return Err(format!("the service has ended: {status}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ports/example");
    let front = made.join("front.mjs");
    fs::copy(example.join("front.mjs"), &front)?;
    let front = |args: &[&str]| run(start("node").arg(&front).args(args));
    let job = |args: &[&str]| run(start(python).arg(example.join("job.py")).args(args));

    let added = front(&["add", "Ada"])?;
    let id = added.trim().strip_prefix("Ada is ").ok_or(added.clone())?;
    assert_eq!(job(&["list"])?, format!("{id} Ada\n"));
    let grant = front(&["link", id])?;
    assert!(job(&["leave", &grant.trim().replace("_grant_", "_position_")]).is_err());
    assert_eq!(job(&["leave", grant.trim()])?, "Ada has left\n");
    assert_eq!(job(&["list"])?, "");
    drop(service);
    Ok(())
}

/// A filter is authenticated, so all languages write the same JSON.
fn positions_open_in_every_language(python: &str, made: &Path) -> Result {
    let answerers: [&[&str]; 3] = [
        &[OPAQUE_ID, "conformance", "--answer"],
        &[python, "-m", "opaque_id.conformance"],
        &["node", "conformance.js"],
    ];
    let ask = |answerer: &[&str], request: &Value| {
        let mut command = Command::new(answerer[0]);
        command.args(&answerer[1..]).current_dir(made);
        let output = with_input(&mut command, &format!("{request}\n"))?;
        Ok::<Value, Box<dyn std::error::Error + Send + Sync>>(serde_json::from_slice(
            &output.stdout,
        )?)
    };
    let secrets = run(Command::new(OPAQUE_ID).arg("keygen"))?;
    let mut request = json!({
        "secrets": secrets.trim(), "prefix": "user", "domain": "user", "kind": "i64", "form": "short", "key": "42",
        "name": "users by name", "filter": { "a team": ["røde & 红", "\"\\\u{1}\u{7f}"] }, "values": ["Zoë"],
    });
    for sealing in answerers {
        request["op"] = json!("position");
        request["id"] = ask(sealing, &request)?["ok"].take();
        request["op"] = json!("open_position");
        for opening in answerers {
            let expected = json!({ "ok": { "key": "42", "values": ["Zoë"] } });
            assert_eq!(ask(opening, &request)?, expected, "{sealing:?} {opening:?}");
        }
    }
    Ok(())
}
