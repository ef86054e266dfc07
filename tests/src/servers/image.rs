//! Images of Debian's own server packages, for machines without access to a container registry.
//!
//! Their entrypoints provide the parts of the official contract that the tests use. So the same test command
//! passes behind a firewall.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::Result;
use crate::engine::Engine;

const RUN: &str = "#!/bin/sh\nexec \"$@\"\n";

pub(super) struct Recipe {
    name: &'static str,
    suite: &'static str,
    /// The packages, separated by commas.
    packages: &'static str,
    entrypoint: &'static str,
}

/// The programs between servers and their clients.
pub(super) const NETWORK_TOOLS: Recipe = Recipe {
    name: "network-tools",
    suite: "sid",
    packages: "haproxy,iptables,mysql-router,odyssey,pgbouncer,pgpool2",
    entrypoint: RUN,
};

/// PostgreSQL, Patroni and etcd.
pub(super) const PATRONI: Recipe = Recipe {
    name: "patroni",
    suite: "sid",
    packages: "etcd-server,patroni,postgresql-18,python3-etcd",
    entrypoint: RUN,
};

/// MariaDB and the plugin of MyRocks.
pub(super) const MYROCKS: Recipe = Recipe {
    name: "myrocks",
    suite: "trixie",
    packages: "mariadb-server,mariadb-plugin-rocksdb",
    entrypoint: include_str!("mariadb.sh"),
};

/// Returns the suite of Debian for the servers, if it is not the newest.
pub(super) fn other_suite() -> Option<String> {
    std::env::var("OPAQUE_ID_TEST_SUITE").ok()
}

/// Returns the name of an image with the kind's server, and builds it if it is missing.
pub(super) fn make(kind: Engine) -> Result<String> {
    let other_suite = other_suite();
    let (suite, packages, entrypoint) = match kind {
        // The version is known only for the newest suite.
        Engine::Postgres if other_suite.is_some() => {
            ("", "postgresql", include_str!("postgres.sh"))
        }
        Engine::Postgres => ("sid", "postgresql-18", include_str!("postgres.sh")),
        Engine::Mysql => ("sid", "mysql-server", include_str!("mysql.sh")),
        Engine::Mariadb => ("trixie", "mariadb-server", include_str!("mariadb.sh")),
        Engine::Sqlite => return Err("SQLite needs no image".into()),
    };
    let recipe = Recipe { name: kind.name(), suite, packages, entrypoint };
    recipe.make_of(other_suite.as_deref().unwrap_or(suite))
}

impl Recipe {
    /// Returns the name of the image, and builds it if it is missing.
    pub(super) fn make(&self) -> Result<String> {
        self.make_of(self.suite)
    }

    fn make_of(&self, suite: &str) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        (suite, self.packages, self.entrypoint).hash(&mut hasher);
        let image = format!("opaque-id-test-{}:{:016x}", self.name, hasher.finish());
        // Another process may be building it, because the tests of a cluster run beside the others.
        let lock = std::env::temp_dir().join(image.replace(':', "-") + ".lock");
        let lock = File::create(lock)?;
        lock.lock()?;
        if docker(&["image", "inspect", &image]).is_err() {
            let mirror = mirror()?;
            println!("making {image} of {} ({suite})", self.packages);
            self.import(suite, &mirror, &image)?;
        }
        Ok(image)
    }

    fn import(&self, suite: &str, mirror: &str, image: &str) -> Result {
        let folder = tempfile::tempdir()?;
        let entrypoint = format!("{}.sh", self.name);
        let script = folder.path().join(&entrypoint);
        std::fs::write(&script, self.entrypoint)?;
        output(Command::new("chmod").arg("755").arg(&script))?;
        let mut root = Command::new("mmdebstrap")
            .args(["--quiet", "--variant=essential"])
            // The release file of sid is dated, and a mirror may lag.
            .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
            .arg(format!("--include={}", self.packages))
            .arg(format!("--customize-hook=copy-in {} /", script.display()))
            .args([suite, "-", mirror])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("mmdebstrap: {error}"))?;
        let stdout = root.stdout.take().ok_or("mmdebstrap has no output")?;
        let imported = output(
            Command::new("docker")
                .args(["import", "--change"])
                .arg(format!("ENTRYPOINT [\"/{entrypoint}\"]"))
                .args(["-", image])
                .stdin(stdout),
        );
        if !root.wait()?.success() {
            // A partial download is not a server.
            let _ = docker(&["image", "rm", image]);
            return Err(format!("mmdebstrap could not make a root with {}", self.packages).into());
        }
        imported.map(drop)
    }
}

/// Returns the Debian mirror of this machine's own apt. Images use it too.
fn mirror() -> Result<String> {
    static MIRROR: std::sync::OnceLock<std::result::Result<String, String>> =
        std::sync::OnceLock::new();
    let found = MIRROR.get_or_init(|| find_mirror().map_err(|error| error.to_string()));
    Ok(found.clone()?)
}

fn find_mirror() -> Result<String> {
    const ADVICE: &str = "no image can be pulled, and none made: that takes Debian with apt, docker and mmdebstrap, as root";
    if apt_mirror()?.is_none() {
        output(Command::new("apt-get").arg("update"))
            .map_err(|error| format!("{ADVICE} ({error})"))?;
    }
    install("mmdebstrap").map_err(|error| format!("{ADVICE} ({error})"))?;
    Ok(apt_mirror()?.ok_or(ADVICE)?)
}

/// Installs the Debian package of a program unless the program exists.
pub fn install(program: &str) -> Result {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    if Command::new(program).arg("--version").output().is_ok() {
        return Ok(());
    }
    let install = || {
        output(
            Command::new("apt-get")
                // Another process may be installing.
                .args(["-oDPkg::Lock::Timeout=600", "install", "--yes"])
                .args(["--no-install-recommends", program])
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    if install().is_err() {
        output(Command::new("apt-get").arg("update"))?;
        install()?;
    }
    Ok(())
}

fn apt_mirror() -> Result<Option<String>> {
    let targets = output(Command::new("apt-get").args([
        "indextargets",
        "--format=$(REPO_URI)",
        "Created-By: Packages",
        "Origin: Debian",
        "Label: Debian",
    ]))?;
    Ok(targets.lines().next().map(str::to_owned))
}

pub(super) fn docker(args: &[&str]) -> Result<String> {
    output(Command::new("docker").args(args))
}

pub(super) fn output(command: &mut Command) -> Result<String> {
    let program = format!("{:?}", command.get_program());
    let output =
        command.stderr(Stdio::piped()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let error = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program}: {}: {}", output.status, error.trim()).into())
    }
}
