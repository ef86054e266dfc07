//! Clusters of three servers, in containers of Debian's packages on a network of their own.

use std::time::{Duration, Instant};

use testcontainers::runners::SyncRunner;
use testcontainers::{Container as Running, GenericImage, ImageExt};

use super::image::{self, docker};
use super::{Kind, LABEL, container};
use crate::Result;
use crate::database::text;

/// Galera of MariaDB.
pub struct Cluster {
    pub nodes: Vec<Node>,
    kind: Kind,
    /// Removed after its nodes.
    _network: Network,
}

pub struct Node {
    pub name: String,
    kind: Kind,
    running: Running<GenericImage>,
}

/// How long a cluster may take until all nodes are at work.
const STARTUP: Duration = Duration::from_secs(180);

impl Cluster {
    pub fn start(kind: Kind) -> Result<Self> {
        let image = image::make(kind)?;
        let network = Network::create()?;
        let names = [1, 2, 3].map(|number| format!("{}-{number}", network.name));
        let nodes = names
            .iter()
            .map(|name| Node::start(kind, name, &names.join(","), &image, &network))
            .collect::<Result<_>>()?;
        let cluster = Self {
            nodes,
            kind,
            _network: network,
        };
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// Waits until every node sees all of them at work.
    pub fn wait_until_whole(&self) -> Result {
        // A node that is not ready refuses it.
        let members = match self.kind {
            Kind::Mariadb => {
                "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_cluster_size'"
            }
            kind => return Err(format!("no cluster of {kind}").into()),
        };
        let deadline = Instant::now() + STARTUP;
        for node in &self.nodes {
            loop {
                let seen = node.url().and_then(|url| text(self.kind, &url, members));
                if matches!(&seen, Ok(seen) if *seen == self.nodes.len().to_string()) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(format!("{} sees {seen:?} of the nodes", node.name).into());
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }
}

impl Node {
    fn start(kind: Kind, name: &str, names: &str, image: &str, network: &Network) -> Result<Self> {
        let script = match kind {
            Kind::Mariadb => include_str!("galera.sh"),
            kind => return Err(format!("no cluster of {kind}").into()),
        };
        let (image, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
        let running = GenericImage::new(image, tag)
            .with_entrypoint("/bin/sh")
            .with_cmd(["-c", script, "node", name, names])
            .with_container_name(name)
            .with_network(&network.name)
            .with_label(LABEL, "1")
            .start()?;
        Ok(Self {
            name: name.to_owned(),
            kind,
            running,
        })
    }

    /// At its own address, which may be another one after each start.
    pub fn url(&self) -> Result<String> {
        let address = self.running.get_bridge_ip_address()?;
        Ok(match self.kind {
            Kind::Postgres => format!("postgres://postgres@{address}/postgres"),
            _ => format!("mysql://root@{address}/mysql"),
        })
    }

    /// By SIGKILL, whatever it is doing.
    pub fn kill(&self) -> Result {
        container::kill(self.running.id())
    }

    /// Starts it after a [`kill`](Self::kill), and does not wait until it is a member again.
    pub fn start_again(&self) -> Result {
        Ok(self.running.start()?)
    }
}

struct Network {
    name: String,
}

impl Network {
    fn create() -> Result<Self> {
        // What a run left behind that could not clean up.
        let left = format!("--filter=label={LABEL}");
        docker(&["network", "prune", "--force", "--filter=until=1h", &left])?;
        let name = format!("opaque-id-test-{}", std::process::id());
        docker(&["network", "create", "--label", LABEL, &name])?;
        Ok(Self { name })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = docker(&["network", "rm", &self.name]) {
            eprintln!("{error}");
        }
    }
}
