//! One server of each kind for the whole run: one that the environment names, or a container.

mod cluster;
mod container;
mod image;

pub use cluster::{Cluster, Node, Topology};
pub use image::install;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

pub use container::{Container, Durability, Limits};

use crate::Result;

/// Of all containers and networks of the tests.
const LABEL: &str = "opaque-id-test";

/// How long a server or a cluster may take until it answers.
const STARTUP: Duration = Duration::from_secs(180);

/// Tries until it succeeds, or until servers should have started long ago.
pub fn wait_for<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + STARTUP;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            done => return done,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Postgres,
    Mysql,
    Mariadb,
    Sqlite,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Postgres, Self::Mysql, Self::Mariadb, Self::Sqlite];

    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Mariadb => "mariadb",
            Self::Sqlite => "sqlite",
        }
    }

    /// Whether its server is a container of this run.
    pub fn is_contained(self) -> bool {
        self != Self::Sqlite && self.setting("URL").is_none()
    }

    /// `OPAQUE_ID_TEST_POSTGRES_URL` and the like.
    fn variable(self, what: &str) -> String {
        format!("OPAQUE_ID_TEST_{}_{what}", self.name().to_uppercase())
    }

    fn setting(self, what: &str) -> Option<String> {
        std::env::var(self.variable(what)).ok()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

pub struct Server {
    /// Of a database that exists, without any tables of ours.
    pub url: String,
    pub version: String,
    /// Of the kind and version that the tests choose by themselves.
    pub is_standard: bool,
    /// Stopped and removed on drop.
    container: Option<Container>,
}

/// The databases that `OPAQUE_ID_TEST_ONLY` names, or all.
pub fn asked_for() -> Result<Vec<Kind>> {
    let Ok(only) = std::env::var("OPAQUE_ID_TEST_ONLY") else {
        return Ok(Kind::ALL.to_vec());
    };
    only.split(',')
        .map(|name| {
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name.trim());
            kind.ok_or_else(|| {
                format!(
                    "OPAQUE_ID_TEST_ONLY names `{name}`; it takes postgres, mysql, mariadb, sqlite, with commas between"
                )
                .into()
            })
        })
        .collect()
}

/// Starts what is needed, all at once.
pub fn start(kinds: &[Kind]) -> Result<BTreeMap<Kind, Server>> {
    std::thread::scope(|scope| {
        let starting: Vec<_> = kinds
            .iter()
            .map(|&kind| (kind, scope.spawn(move || Server::start(kind))))
            .collect();
        starting
            .into_iter()
            .map(|(kind, server)| {
                let server = server.join().map_err(|_| format!("{kind}: panicked"))?;
                Ok((kind, server.map_err(|error| format!("{kind}: {error}"))?))
            })
            .collect()
    })
}

impl Server {
    /// The id of the container, if it is one of this run.
    pub fn container_id(&self) -> Option<&str> {
        Some(self.container.as_ref()?.id())
    }

    fn start(kind: Kind) -> Result<Self> {
        let (url, container) = match (kind, kind.setting("URL")) {
            (Kind::Sqlite, _) => ("sqlite::memory:".to_owned(), None),
            (_, Some(url)) => (url, None),
            (_, None) => {
                let container = Container::start(kind, Durability::None)?;
                (container.url.clone(), Some(container))
            }
        };
        let version = match kind {
            Kind::Sqlite => "SELECT sqlite_version()",
            Kind::Postgres | Kind::Mysql | Kind::Mariadb => "SELECT version()",
        };
        Ok(Self {
            version: crate::database::text(kind, &url, version)?,
            is_standard: kind.setting("URL").is_none()
                && kind.setting("IMAGE").is_none()
                && image::other_suite().is_none(),
            url,
            container,
        })
    }
}
