//! Servers in containers, with official images, or with images built here if those cannot be pulled.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error as BollardError;
use testcontainers::bollard::models::{
    HostConfig, Mount as HostMount, MountType, PortBinding, ThrottleDevice,
};
use testcontainers::core::client::ClientError;
use testcontainers::core::{IntoContainerPort, Mount, WaitFor};
use testcontainers::runners::SyncRunner;
use testcontainers::{
    Container as ChildGuard, ContainerRequest, GenericImage, ImageExt, TestcontainersError,
};

use super::image;
use super::network::Network;
use super::{LABEL, STARTUP, wait_for};
use crate::Result;
use crate::engine::Engine;
use crate::sql::on_a_thread;

const NO_ENGINE: &str = "no container engine answers. Start Docker (Debian's package is docker.io), or name \
    running servers by OPAQUE_ID_TEST_POSTGRES_URL, OPAQUE_ID_TEST_MYSQL_URL and OPAQUE_ID_TEST_MARIADB_URL, or \
    run the embedded part only by OPAQUE_ID_TEST_ONLY=sqlite";

pub struct Container {
    pub url: String,
    kind: Engine,
    running: ChildGuard<GenericImage>,
    /// The network. It is removed after the container.
    _network: Network,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The databases are temporary, so nothing has to survive.
    None,
    /// The server has its default durability: all acknowledged rows survive.
    Full,
}

/// The share of a container in the machine, and the options of its server.
#[derive(Default)]
pub struct Limits {
    /// The memory in MiB, including the kernel's cache for it.
    pub memory: Option<u32>,
    /// The reads per second, and the same number of writes.
    pub iops: Option<u32>,
    pub options: Vec<String>,
}

impl Container {
    pub fn start(kind: Engine, durability: Durability) -> Result<Self> {
        Self::start_as(kind, |image| {
            let request = request(kind, image, |_| ());
            match durability {
                Durability::Full => request,
                Durability::None => fast(kind, request),
            }
        })
    }

    /// Starts MariaDB with tables of MyRocks.
    pub fn start_myrocks() -> Result<Self> {
        let image = image::MYROCKS.make()?;
        let options = ["--plugin-load-add=ha_rocksdb", "--default-storage-engine=RocksDB"];
        let network = Network::create()?;
        let request = request(Engine::Mariadb, &image, |_| ()).with_cmd(options);
        Self::new(Engine::Mariadb, request.with_network(&network.name).start()?, network)
    }

    /// Starts a server on a disk, with the durability of its options.
    pub fn start_limited(kind: Engine, limits: &Limits) -> Result<Self> {
        let memory = limits.memory.map(|mib| i64::from(mib) << 20);
        let throttled = match limits.iops {
            Some(iops) => {
                Some(vec![ThrottleDevice { path: Some(disk()?), rate: Some(iops.into()) }])
            }
            None => None,
        };
        // The data is outside of the image's layers, because another process may write those for the
        // container.
        let volume = HostMount {
            target: Some(data(kind).to_owned()),
            typ: Some(MountType::VOLUME),
            ..HostMount::default()
        };
        Self::start_as(kind, |image| {
            let (throttled, volume) = (throttled.clone(), volume.clone());
            let request = request(kind, image, move |config| {
                config.memory = memory;
                config.memory_swap = memory;
                config.blkio_device_read_iops = throttled.clone();
                config.blkio_device_write_iops = throttled.clone();
                config.mounts = Some(vec![volume.clone()]);
            });
            request.with_cmd(&limits.options)
        })
    }

    fn start_as(
        kind: Engine,
        request: impl Fn(&str) -> ContainerRequest<GenericImage>,
    ) -> Result<Self> {
        let chosen = match image::other_suite() {
            Some(_) => Some(image::make(kind)?),
            None => kind.setting("IMAGE").or_else(|| made().get(&kind).cloned()),
        };
        let image = chosen.as_deref().unwrap_or(match kind {
            Engine::Postgres => "postgres:18",
            Engine::Mysql => "mysql:9",
            Engine::Mariadb => "mariadb:11",
            Engine::Sqlite => return Err("SQLite needs no server".into()),
        });
        let network = Network::create().map_err(|error| format!("{NO_ENGINE} ({error})"))?;
        let start = |image: &str| request(image).with_network(&network.name).start();
        let running = match start(image) {
            Err(TestcontainersError::Client(ClientError::PullImage { err, .. }))
                if chosen.is_none() =>
            {
                println!("{image} can't be pulled ({err}); an image of Debian's packages serves");
                let image = image::make(kind)?;
                made().insert(kind, image.clone());
                start(&image)
            }
            started => started,
        }
        .map_err(|error| match error {
            TestcontainersError::Client(ClientError::Init(_) | ClientError::CreateContainer(_)) => {
                format!("{NO_ENGINE} ({error})")
            }
            error => error.to_string(),
        })?;
        Self::new(kind, running, network)
    }

    fn new(kind: Engine, running: ChildGuard<GenericImage>, network: Network) -> Result<Self> {
        Ok(Self { url: url(kind, &running)?, kind, running, _network: network })
    }

    pub fn id(&self) -> &str {
        self.running.id()
    }

    /// Kills the server by SIGKILL.
    pub fn kill(&self) -> Result {
        kill(self.running.id())
    }

    /// Stops all of its processes until [`resume`](Self::resume).
    pub fn pause(&self) -> Result {
        with_docker(async |docker| docker.pause_container(self.id()).await)
    }

    pub fn resume(&self) -> Result {
        with_docker(async |docker| docker.unpause_container(self.id()).await)
    }

    /// Starts it again after a [`kill`](Self::kill), and waits until it has recovered. Its URL may change.
    pub fn start_again(&mut self) -> Result {
        self.running.start()?;
        self.url = url(self.kind, &self.running)?;
        wait_for(|| crate::sql::text(self.kind, &self.url, "SELECT version()")).map(drop)
    }
}

/// The images that this run has built because none could be pulled.
fn made() -> MutexGuard<'static, BTreeMap<Engine, String>> {
    static MADE: Mutex<BTreeMap<Engine, String>> = Mutex::new(BTreeMap::new());
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The processor time of the server in a container.
pub struct ProcessorTime(PathBuf);

impl ProcessorTime {
    pub fn of(id: &str) -> Result<Self> {
        let container = with_docker(async |docker| docker.inspect_container(id, None).await)?;
        let process =
            container.state.and_then(|it| it.pid).ok_or("the container has no process")?;
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        let path = groups.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            match controllers {
                "cpuacct" | "cpu,cpuacct" => {
                    Some(format!("/sys/fs/cgroup/{controllers}{group}/cpuacct.usage"))
                }
                "" => Some(format!("/sys/fs/cgroup{group}/cpu.stat")),
                _ => None,
            }
        });
        Ok(Self(path.ok_or("the container has no control group")?.into()))
    }

    pub fn used(&self) -> Result<Duration> {
        let text = fs::read_to_string(&self.0)?;
        let first = text.lines().next().unwrap_or_default();
        Ok(match first.strip_prefix("usage_usec ") {
            Some(microseconds) => Duration::from_micros(microseconds.parse()?),
            None => Duration::from_nanos(first.parse()?),
        })
    }
}

pub(super) fn kill(id: &str) -> Result {
    with_docker(async |docker| docker.kill_container(id, None).await)
}

fn with_docker<T: Send>(
    act: impl AsyncFnOnce(Docker) -> std::result::Result<T, BollardError> + Send,
) -> Result<T> {
    on_a_thread(async || Ok(act(Docker::connect_with_defaults()?).await?))
}

/// Configures a server in memory that waits for no write. It has no TLS, because TLS takes most of a
/// connection's time in clients without optimization.
fn fast(kind: Engine, request: ContainerRequest<GenericImage>) -> ContainerRequest<GenericImage> {
    let no_tls = match kind {
        Engine::Mysql => "--tls-version=",
        _ => "--skip-ssl",
    };
    let options: &[&str] = match kind {
        Engine::Postgres => &["-c", "fsync=off", "-c", "max_connections=200"],
        _ => &[
            no_tls,
            "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0",
            "--skip-innodb-doublewrite",
            // Cases drop calls that connect, and the server blocks a host that does so too often.
            "--max-connect-errors=1000000",
        ],
    };
    let more = kind.setting("OPTIONS").unwrap_or_default();
    request
        .with_mount(Mount::tmpfs_mount(data(kind)))
        .with_cmd(options.iter().copied().chain(more.split_whitespace()))
}

/// Returns the container's own address if it can be reached. Behind Docker's proxy a request of more than 20
/// kB waits for 40 ms.
fn url(kind: Engine, running: &ChildGuard<GenericImage>) -> Result<String> {
    let is_reached =
        |address: &SocketAddr| TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok();
    let own = own_ip(running)?.map(|ip| SocketAddr::new(ip, port(kind)));
    let address = match own.filter(is_reached) {
        Some(own) => own,
        None => {
            let published = running.get_host_port_ipv4(port(kind).tcp())?;
            SocketAddr::from((Ipv4Addr::LOCALHOST, published))
        }
    };
    Ok(match kind {
        Engine::Postgres => format!("postgres://postgres@{address}/postgres"),
        _ => format!("mysql://root@{address}/mysql"),
    })
}

fn own_ip(running: &ChildGuard<GenericImage>) -> Result<Option<IpAddr>> {
    let container = with_docker(async |docker| docker.inspect_container(running.id(), None).await)?;
    let networks = container.network_settings.and_then(|all| all.networks);
    let mut addresses =
        networks.into_iter().flatten().filter_map(|(_, network)| network.ip_address);
    Ok(addresses.find_map(|address| address.parse().ok()))
}

pub(super) fn port(kind: Engine) -> u16 {
    match kind {
        Engine::Postgres => 5432,
        _ => 3306,
    }
}

/// Returns the folder of a server's data.
fn data(kind: Engine) -> &'static str {
    match kind {
        Engine::Postgres => "/var/lib/postgresql",
        _ => "/var/lib/mysql",
    }
}

/// Returns the disk of Docker's volumes.
fn disk() -> Result<String> {
    let docker = with_docker(async |docker| docker.info().await)?;
    let folder = docker.docker_root_dir.ok_or("Docker has no root folder")?;
    let advice = format!(
        "operations per second are limited on a disk of this machine, and {folder} is on none"
    );
    let mut findmnt = Command::new("findmnt");
    findmnt.args(["--noheadings", "--output=MAJ:MIN", "--target", &folder]);
    let numbers = image::output(&mut findmnt).map_err(|error| format!("{advice} ({error})"))?;
    let device = Path::new("/sys/dev/block").join(numbers.trim());
    let device = device.canonicalize().map_err(|error| format!("{advice} ({error})"))?;
    // Limits apply to whole disks.
    let disk = match device.join("partition").exists() {
        true => device.parent(),
        false => Some(&*device),
    };
    let name = disk.and_then(Path::file_name).ok_or(advice)?;
    Ok(Path::new("/dev").join(name).display().to_string())
}

fn request(
    kind: Engine,
    image: &str,
    limit: impl Fn(&mut HostConfig) + Send + Sync + 'static,
) -> ContainerRequest<GenericImage> {
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    // The final server prints this on standard error, and the one that sets up the database does not.
    let ready = match kind {
        Engine::Postgres => "database system is ready to accept connections",
        _ => "port: 3306 ",
    };
    let image = GenericImage::new(name, tag)
        .with_exposed_port(port(kind).tcp())
        .with_wait_for(WaitFor::message_on_stderr(ready));
    let request = match kind {
        // A password costs clients without optimization a tenth of a second for each connection.
        Engine::Postgres => image.with_env_var("POSTGRES_HOST_AUTH_METHOD", "trust"),
        Engine::Mysql => image.with_env_var("MYSQL_ALLOW_EMPTY_PASSWORD", "yes"),
        _ => image.with_env_var("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "yes"),
    };
    let published = format!("{}/tcp", port(kind));
    request.with_label(LABEL, "1").with_startup_timeout(STARTUP).with_host_config_modifier(
        move |config| {
            // The ports are published on loopback only.
            config.publish_all_ports = Some(false);
            let binding =
                PortBinding { host_ip: Some("127.0.0.1".into()), host_port: Some(String::new()) };
            config.port_bindings = Some([(published.clone(), Some(vec![binding]))].into());
            limit(config);
        },
    )
}
