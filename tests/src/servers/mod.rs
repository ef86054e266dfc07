//! One server of each kind for the whole run: one that the environment names, or a container.

mod cluster;
mod container;
mod image;
mod wait;

pub use cluster::{Cluster, Node, Topology};
pub use container::{Container, Durability, Limits};
pub use image::install;
pub use wait::wait_for;

use std::collections::BTreeMap;

use crate::Result;
use crate::kind::Kind;

pub struct Server {
    /// Of a database that exists, without any tables of ours.
    pub url: String,
    pub version: String,
    /// Of the kind and version that the tests choose by themselves.
    pub is_standard: bool,
    /// Stopped and removed on drop.
    container: Option<Container>,
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
            version: crate::sql::text(kind, &url, version)?,
            is_standard: kind.setting("URL").is_none()
                && kind.setting("IMAGE").is_none()
                && image::other_suite().is_none(),
            url,
            container,
        })
    }
}
