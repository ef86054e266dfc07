//! Servers in containers: official images, or where they can't be pulled ones made here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::models::PortBinding;
use testcontainers::core::client::ClientError;
use testcontainers::core::{IntoContainerPort, Mount, WaitFor};
use testcontainers::runners::SyncRunner;
use testcontainers::{
    Container as Running, ContainerRequest, GenericImage, ImageExt, TestcontainersError,
};

use super::{Kind, LABEL, STARTUP, image, wait_for};
use crate::Result;
use crate::database::on_a_thread;

const NO_ENGINE: &str = "no container engine answers. Start Docker (Debian's package is docker.io), or name \
    running servers by OPAQUE_ID_TEST_POSTGRES_URL, OPAQUE_ID_TEST_MYSQL_URL and OPAQUE_ID_TEST_MARIADB_URL, or \
    run the embedded part only by OPAQUE_ID_TEST_ONLY=sqlite";

pub struct Container {
    pub url: String,
    kind: Kind,
    running: Running<GenericImage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The databases are thrown away: nothing has to survive.
    None,
    /// As the server has it by default: what it has acknowledged survives.
    Full,
}

impl Container {
    pub fn start(kind: Kind, durability: Durability) -> Result<Self> {
        let chosen = match image::other_suite() {
            Some(_) => Some(image::make(kind)?),
            None => kind.setting("IMAGE"),
        };
        let image = chosen.as_deref().unwrap_or(match kind {
            Kind::Postgres => "postgres:18",
            Kind::Mysql => "mysql:9",
            Kind::Mariadb => "mariadb:11",
            Kind::Sqlite => return Err("SQLite needs no server".into()),
        });
        let running = match request(kind, image, durability)?.start() {
            Err(TestcontainersError::Client(ClientError::PullImage { err, .. }))
                if chosen.is_none() =>
            {
                println!("{image} can't be pulled ({err}); an image of Debian's packages serves");
                request(kind, &image::make(kind)?, durability)?.start()
            }
            started => started,
        }
        .map_err(|error| match error {
            TestcontainersError::Client(ClientError::Init(_) | ClientError::CreateContainer(_)) => {
                format!("{NO_ENGINE} ({error})")
            }
            error => error.to_string(),
        })?;
        Ok(Self {
            url: url(kind, &running)?,
            kind,
            running,
        })
    }

    pub fn id(&self) -> &str {
        self.running.id()
    }

    /// By SIGKILL, whatever it is doing.
    pub fn kill(&self) -> Result {
        kill(self.running.id())
    }

    /// Starts it again after a [`kill`](Self::kill), and waits until it has recovered. Its URL changes.
    pub fn start_again(&mut self) -> Result {
        self.running.start()?;
        self.url = url(self.kind, &self.running)?;
        wait_for(|| crate::database::text(self.kind, &self.url, "SELECT version()")).map(drop)
    }
}

pub(super) fn kill(id: &str) -> Result {
    on_a_thread(async || {
        let docker = Docker::connect_with_defaults()?;
        Ok(docker.kill_container(id, None).await?)
    })
}

/// In memory, and waiting for nothing to be written; without TLS, which costs the client most of the time in which it
/// connects, built without optimisation.
fn fast(kind: Kind, request: ContainerRequest<GenericImage>) -> ContainerRequest<GenericImage> {
    let no_tls = match kind {
        Kind::Mysql => "--tls-version=",
        _ => "--skip-ssl",
    };
    match kind {
        Kind::Postgres => request
            .with_mount(Mount::tmpfs_mount("/var/lib/postgresql"))
            .with_cmd(["-c", "fsync=off", "-c", "max_connections=200"]),
        _ => request
            .with_mount(Mount::tmpfs_mount("/var/lib/mysql"))
            .with_cmd([
                no_tls,
                "--skip-log-bin",
                "--innodb-flush-log-at-trx-commit=0",
                "--skip-innodb-doublewrite",
                // Cases drop calls that connect, and the server blocks a host that leaves off too often.
                "--max-connect-errors=1000000",
            ]),
    }
}

/// At the container's own address if it can be reached: behind Docker's proxy a request of more than 20 kB waits for
/// 40 ms.
fn url(kind: Kind, running: &Running<GenericImage>) -> Result<String> {
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
        Kind::Postgres => format!("postgres://postgres@{address}/postgres"),
        _ => format!("mysql://root@{address}/mysql"),
    })
}

fn own_ip(running: &Running<GenericImage>) -> Result<Option<IpAddr>> {
    let container = on_a_thread(async || {
        let docker = Docker::connect_with_defaults()?;
        Ok(docker.inspect_container(running.id(), None).await?)
    })?;
    let networks = container.network_settings.and_then(|all| all.networks);
    let mut addresses = networks
        .into_iter()
        .flatten()
        .filter_map(|(_, network)| network.ip_address);
    Ok(addresses.find_map(|address| address.parse().ok()))
}

pub(super) fn port(kind: Kind) -> u16 {
    match kind {
        Kind::Postgres => 5432,
        _ => 3306,
    }
}

fn request(
    kind: Kind,
    image: &str,
    durability: Durability,
) -> Result<ContainerRequest<GenericImage>> {
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    // What the final server says on standard error, and the one that sets up the database does not.
    let ready = match kind {
        Kind::Postgres => "database system is ready to accept connections",
        _ => "port: 3306 ",
    };
    let image = GenericImage::new(name, tag)
        .with_exposed_port(port(kind).tcp())
        .with_wait_for(WaitFor::message_on_stderr(ready));
    let request = match kind {
        // A password costs the client a tenth of a second each time it connects, built without optimisation.
        Kind::Postgres => image.with_env_var("POSTGRES_HOST_AUTH_METHOD", "trust"),
        Kind::Mysql => image.with_env_var("MYSQL_ALLOW_EMPTY_PASSWORD", "yes"),
        _ => image.with_env_var("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "yes"),
    };
    let request = match durability {
        Durability::Full => request,
        Durability::None => fast(kind, request),
    };
    let published = format!("{}/tcp", port(kind));
    Ok(request
        .with_label(LABEL, "1")
        .with_startup_timeout(STARTUP)
        .with_host_config_modifier(move |config| {
            // On loopback only.
            config.publish_all_ports = Some(false);
            let binding = PortBinding {
                host_ip: Some("127.0.0.1".into()),
                host_port: Some(String::new()),
            };
            config.port_bindings = Some([(published.clone(), Some(vec![binding]))].into());
        }))
}
