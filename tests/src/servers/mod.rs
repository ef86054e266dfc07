//! One server of each kind for the whole run: a server from the environment, a server that the tests share,
//! or a container.

mod cluster;
mod container;
mod image;
mod network;

pub use cluster::{Cluster, Node, Pooler, Topology};
pub use container::{Container, Durability, Limits, ProcessorTime};
pub use image::install;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Result;
use crate::engine::Engine;

/// The label of all containers and networks of the tests.
const LABEL: &str = "opaque-id-test";

/// The time within which a server or a cluster must answer.
const STARTUP: Duration = Duration::from_secs(180);

/// The variable through which tests find shared servers. It has a kind, a URL and a container for each.
pub const SHARED: &str = "OPAQUE_ID_TEST_SERVERS";

/// Returns the variable's value. SQLite has no server to share.
pub fn share(servers: &BTreeMap<Engine, Server>) -> String {
    let shared = servers.iter().filter_map(|(kind, server)| {
        let container = server.container_id()?;
        Some(format!("{kind} {} {container}", server.url))
    });
    Vec::from_iter(shared).join(",")
}

/// Returns the URL and the container of the shared server of a kind.
fn shared(kind: Engine) -> Option<(String, String)> {
    let shared = std::env::var(SHARED).ok()?;
    shared.split(',').find_map(|server| {
        let mut words = server.split(' ').map(str::to_owned);
        (words.next()? == kind.name()).then_some(())?;
        Some((words.next()?, words.next()?))
    })
}

pub struct Server {
    /// The URL of an existing database without any tables of ours.
    pub url: String,
    pub version: String,
    /// Whether the tests chose its kind and version themselves.
    pub is_standard: bool,
    container_id: Option<String>,
    /// The container. It is stopped and removed on drop. A shared server has none.
    _container: Option<Container>,
}

/// Starts the needed servers at once.
pub fn start(kinds: &[Engine]) -> Result<BTreeMap<Engine, Server>> {
    std::thread::scope(|scope| {
        let starting: Vec<_> =
            kinds.iter().map(|&kind| (kind, scope.spawn(move || Server::start(kind)))).collect();
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
    /// Returns the id of the container, if it belongs to the tests.
    pub fn container_id(&self) -> Option<&str> {
        self.container_id.as_deref()
    }

    fn start(kind: Engine) -> Result<Self> {
        let (mut container, mut container_id) = (None, None);
        let url = match (kind, kind.setting("URL")) {
            (Engine::Sqlite, _) => "sqlite::memory:".to_owned(),
            (_, Some(url)) => url,
            (_, None) => {
                if let Some((url, id)) = shared(kind) {
                    container_id = Some(id);
                    url
                } else {
                    let started = Container::start(kind, Durability::None)?;
                    container_id = Some(started.id().to_owned());
                    container.insert(started).url.clone()
                }
            }
        };
        let version = match kind {
            Engine::Sqlite => "SELECT sqlite_version()",
            Engine::Postgres | Engine::Mysql | Engine::Mariadb => "SELECT version()",
        };
        Ok(Self {
            version: crate::sql::text(kind, &url, version)?,
            is_standard: kind.setting("URL").is_none()
                && kind.setting("IMAGE").is_none()
                && image::other_suite().is_none(),
            url,
            container_id,
            _container: container,
        })
    }
}

/// Repeats an attempt until it succeeds, or until servers should have started long ago.
pub fn wait_for<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + STARTUP;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            done => return done,
        }
    }
}
