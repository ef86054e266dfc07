//! Servers in containers: official images, or where they can't be pulled ones made here.

use std::time::Duration;

use testcontainers::bollard::models::PortBinding;
use testcontainers::core::client::ClientError;
use testcontainers::core::{IntoContainerPort, WaitFor};
use testcontainers::runners::SyncRunner;
use testcontainers::{
    Container as Running, ContainerRequest, GenericImage, ImageExt, TestcontainersError,
};

use super::{Kind, image};
use crate::Result;

const NO_ENGINE: &str = "no container engine answers. Start Docker (Debian's package is docker.io), or name \
    running servers by OPAQUE_ID_TEST_POSTGRES_URL, OPAQUE_ID_TEST_MYSQL_URL and OPAQUE_ID_TEST_MARIADB_URL, or \
    run the embedded part only by OPAQUE_ID_TEST_ONLY=sqlite";

pub(crate) struct Container {
    pub(crate) url: String,
    _running: Running<GenericImage>,
}

impl Container {
    pub(crate) fn start(kind: Kind) -> Result<Self> {
        let chosen = kind.setting("IMAGE");
        let image = chosen.as_deref().unwrap_or(match kind {
            Kind::Postgres => "postgres:18",
            Kind::Mysql => "mysql:9",
            Kind::Mariadb => "mariadb:11",
            Kind::Sqlite => return Err("SQLite needs no server".into()),
        });
        let running = match request(kind, image)?.start() {
            Err(TestcontainersError::Client(ClientError::PullImage { err, .. }))
                if chosen.is_none() =>
            {
                println!("{image} can't be pulled ({err}); an image of Debian's packages serves");
                request(kind, &image::make(kind)?)?.start()
            }
            started => started,
        }
        .map_err(|error| match error {
            TestcontainersError::Client(ClientError::Init(_) | ClientError::CreateContainer(_)) => {
                format!("{NO_ENGINE} ({error})")
            }
            error => error.to_string(),
        })?;
        let address = format!(
            "127.0.0.1:{}",
            running.get_host_port_ipv4(port(kind).tcp())?
        );
        let url = match kind {
            Kind::Postgres => format!("postgres://postgres:password@{address}/postgres"),
            _ => format!("mysql://root@{address}/mysql"),
        };
        Ok(Self {
            url,
            _running: running,
        })
    }
}

fn port(kind: Kind) -> u16 {
    match kind {
        Kind::Postgres => 5432,
        _ => 3306,
    }
}

fn request(kind: Kind, image: &str) -> Result<ContainerRequest<GenericImage>> {
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    // What the final server says on standard error, and the one that sets up the database does not.
    let ready = match kind {
        Kind::Postgres => "database system is ready to accept connections",
        _ => "port: 3306 ",
    };
    let image = GenericImage::new(name, tag)
        .with_exposed_port(port(kind).tcp())
        .with_wait_for(WaitFor::message_on_stderr(ready));
    // The databases are thrown away: nothing has to survive a power cut.
    let request = match kind {
        Kind::Postgres => image
            .with_env_var("POSTGRES_PASSWORD", "password")
            .with_cmd(["-c", "fsync=off", "-c", "max_connections=200"]),
        Kind::Mysql => image
            .with_env_var("MYSQL_ALLOW_EMPTY_PASSWORD", "yes")
            .with_cmd(["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"]),
        _ => image
            .with_env_var("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "yes")
            .with_cmd(["--innodb-flush-log-at-trx-commit=0"]),
    };
    let published = format!("{}/tcp", port(kind));
    Ok(request
        .with_label("opaque-id-test", "1")
        .with_startup_timeout(Duration::from_secs(120))
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
