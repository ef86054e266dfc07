//! Clusters of three servers in containers of Debian's packages, on their own network, and the programs
//! before them.

use testcontainers::runners::SyncRunner;
use testcontainers::{Container as ChildGuard, ContainerRequest, GenericImage, ImageExt};

use super::container;
use super::image::{self, docker};
use super::network::Network;
use super::{LABEL, wait_for};
use crate::Result;
use crate::engine::Engine;
use crate::sql::text;

/// The relation of the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A MariaDB cluster with writes on each node.
    Galera,
    /// A group of MySQL with writes on each member.
    MultiPrimary,
    /// A group of MySQL with writes on the first member only.
    SinglePrimary,
    /// A primary of PostgreSQL with two synchronous replicas. The first is the primary.
    Replicas,
    /// A PostgreSQL cluster with a primary that Patroni selects.
    Patroni,
}

/// A program that shares connections between the clients of a server.
#[derive(Clone, Copy)]
pub enum Pooler {
    /// 16 clients share 4 connections, each for one transaction at a time.
    PgBouncer,
    /// The same as PgBouncer.
    Odyssey,
    /// Each client has a connection to each node, and reads on any of them.
    Pgpool,
}

impl Topology {
    pub fn kind(self) -> Engine {
        match self {
            Self::Galera => Engine::Mariadb,
            Self::MultiPrimary | Self::SinglePrimary => Engine::Mysql,
            Self::Replicas | Self::Patroni => Engine::Postgres,
        }
    }
}

pub struct Cluster {
    pub nodes: Vec<Node>,
    topology: Topology,
    /// The network. It is removed after its nodes.
    network: Network,
}

pub struct Node {
    pub name: String,
    kind: Engine,
    port: u16,
    running: ChildGuard<GenericImage>,
}

impl Cluster {
    pub fn start(topology: Topology) -> Result<Self> {
        let kind = topology.kind();
        let script = match topology {
            Topology::Galera => include_str!("galera.sh"),
            Topology::MultiPrimary | Topology::SinglePrimary => {
                include_str!("group_replication.sh")
            }
            Topology::Replicas => include_str!("replication.sh"),
            Topology::Patroni => include_str!("patroni.sh"),
        };
        let single_primary = match topology {
            Topology::SinglePrimary => "ON",
            _ => "OFF",
        };
        let image = match topology {
            Topology::Patroni => image::PATRONI.make()?,
            _ => image::make(kind)?,
        };
        let network = Network::create()?;
        let names = [1, 2, 3].map(|number| format!("{}-{number}", network.name));
        let nodes = names
            .iter()
            .map(|name| {
                let arguments = ["-c", script, "node", name, &names.join(","), single_primary];
                let request = shell(&image).with_cmd(arguments);
                Node::start(kind, name, container::port(kind), &network, request)
            })
            .collect::<Result<_>>()?;
        let cluster = Self { nodes, topology, network };
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    pub fn kind(&self) -> Engine {
        self.topology.kind()
    }

    /// Waits until every node sees all of them at work.
    pub fn wait_until_whole(&self) -> Result {
        // A node that is not ready refuses the query.
        let kind = self.kind();
        let members = match kind {
            Engine::Mariadb => {
                "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_cluster_size'"
            }
            Engine::Mysql => {
                "SELECT CAST(COUNT(*) AS CHAR) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'"
            }
            // Only a primary knows the others. A replica only has to answer.
            _ => {
                "SELECT (1 + COUNT(*) + 2 * pg_is_in_recovery()::int)::text FROM pg_stat_replication WHERE state = 'streaming'"
            }
        };
        self.nodes.iter().try_for_each(|node| {
            wait_for(|| {
                let seen = text(kind, &node.url()?, members)?;
                match seen == self.nodes.len().to_string() {
                    true => Ok(()),
                    false => Err(format!("{} sees {seen} nodes", node.name).into()),
                }
            })
        })
    }

    /// Drops all packets between a node and the others, in its own network namespace.
    pub fn cut_off(&self, node: usize) -> Result {
        let mut rules = String::from("set -e");
        for other in self.nodes.iter().filter(|other| other.name != self.nodes[node].name) {
            let address = other.running.get_bridge_ip_address()?;
            rules += &format!("; iptables -A INPUT -s {address} -j DROP");
            rules += &format!("; iptables -A OUTPUT -d {address} -j DROP");
        }
        self.filter(node, &rules)
    }

    /// Reverses [`cut_off`](Self::cut_off).
    pub fn reconnect(&self, node: usize) -> Result {
        self.filter(node, "iptables --flush")
    }

    fn filter(&self, node: usize, rules: &str) -> Result {
        let namespace = format!("container:{}", self.nodes[node].running.id());
        let image = image::NETWORK_TOOLS.make()?;
        let run = ["run", "--rm", "--cap-add=NET_ADMIN", "--label", LABEL, "--network"];
        docker(&[&run[..], &[&namespace, &image, "sh", "-c", rules]].concat()).map(drop)
    }

    /// Starts a load balancer that sends each connection to the next node: MySQL Router before a group, and
    /// HAProxy otherwise. Before Patroni's nodes it sends all to the primary, according to each node's
    /// status.
    pub fn load_balancer(&self) -> Result<Node> {
        let port = container::port(self.kind());
        let names = || self.nodes.iter().map(|node| &*node.name);
        if self.kind() == Engine::Mysql {
            let nodes = names().map(|name| format!("{name}:{port}")).collect::<Vec<_>>().join(",");
            // Cases drop calls that connect, and the router blocks a host that does so too often.
            let configuration = format!(
                "[DEFAULT]\nlogging_folder =\n[logger]\nlevel = WARNING\n\
                 [routing:all]\nbind_address = 0.0.0.0\nbind_port = {port}\ndestinations = {nodes}\n\
                 routing_strategy = round-robin\nmax_connect_errors = 4294967295\n"
            );
            return self.in_front("mysqlrouter", "mysqlrouter --config", &configuration, port);
        }
        let (check, of_each) = match self.topology {
            Topology::Patroni => (
                "  option httpchk GET /primary\n  http-check expect status 200\n  \
                 default-server init-state down inter 1s fall 1 rise 1 on-marked-down shutdown-sessions\n",
                " check port 8008",
            ),
            _ => ("", ""),
        };
        let servers = names().map(|name| format!("  server {name} {name}:{port}{of_each}\n"));
        let configuration = format!(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\n\
             listen all\n  bind :{port}\n  balance roundrobin\n  option redispatch\n{check}{}",
            servers.collect::<String>()
        );
        self.in_front("haproxy", "haproxy -f", &configuration, port)
    }

    /// Starts a pooler before the first node, because that one accepts writes.
    pub fn pooler(&self, pooler: Pooler) -> Result<Node> {
        let first = &self.nodes[0].name;
        let (program, run, configuration) = match pooler {
            Pooler::PgBouncer => (
                "pgbouncer",
                "setpriv --reuid=nobody pgbouncer",
                format!(
                    "[databases]\n* = host={first} user=postgres\n\
                     [pgbouncer]\nlisten_addr = *\nlisten_port = 6432\nauth_type = any\nunix_socket_dir =\n\
                     pool_mode = transaction\ndefault_pool_size = 4\nmax_prepared_statements = 200\n\
                     ignore_startup_parameters = extra_float_digits\n"
                ),
            ),
            Pooler::Odyssey => (
                "odyssey",
                "odyssey",
                format!(
                    "daemonize no\nlog_to_stdout yes\nlog_session no\nlog_format \"%l %m\\n\"\nlocks_dir \"/tmp\"\n\
                     listen {{ host \"*\" port 6432 }}\n\
                     storage \"first\" {{ type \"remote\" host \"{first}\" port 5432 }}\n\
                     database default {{ user default {{ authentication \"none\" storage \"first\" storage_user \"postgres\"\n\
                     pool \"transaction\" pool_size 4 pool_discard no pool_reserve_prepared_statement yes }} }}\n"
                ),
            ),
            Pooler::Pgpool => {
                let nodes = self.nodes.iter().enumerate().map(|(number, node)| {
                    format!(
                        "backend_hostname{number} = '{}'\nbackend_port{number} = 5432\nbackend_weight{number} = 1\n",
                        node.name
                    )
                });
                let configuration = format!(
                    "listen_addresses = '*'\nport = 6432\nunix_socket_directories = '/tmp'\npcp_socket_dir = '/tmp'\n\
                     pid_file_name = '/tmp/pgpool.pid'\nlogdir = '/tmp'\nsr_check_user = 'postgres'\n\
                     backend_clustering_mode = 'streaming_replication'\nload_balance_mode = on\n{}",
                    nodes.collect::<String>()
                );
                ("pgpool", "pgpool -n -f", configuration)
            }
        };
        self.in_front(program, run, &configuration, 6432)
    }

    fn in_front(&self, program: &str, run: &str, configuration: &str, port: u16) -> Result<Node> {
        let file = format!("/etc/{program}.conf");
        let name = format!("{}-{program}", self.network.name);
        let request = shell(&image::NETWORK_TOOLS.make()?)
            .with_copy_to(&file, configuration.as_bytes().to_vec())
            .with_cmd(["-c".to_owned(), format!("exec {run} {file}")]);
        let front = Node::start(self.kind(), &name, port, &self.network, request)?;
        wait_for(|| text(front.kind, &front.url()?, "SELECT version()"))?;
        Ok(front)
    }
}

/// Returns a container that runs a script.
fn shell(image: &str) -> ContainerRequest<GenericImage> {
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    GenericImage::new(name, tag).with_entrypoint("/bin/sh").into()
}

impl Node {
    fn start(
        kind: Engine,
        name: &str,
        port: u16,
        network: &Network,
        request: ContainerRequest<GenericImage>,
    ) -> Result<Self> {
        let running = request
            .with_container_name(name)
            .with_network(&network.name)
            .with_label(LABEL, "1")
            .start()?;
        Ok(Self { name: name.to_owned(), kind, port, running })
    }

    /// Returns the URL. Its address may change after each start.
    pub fn url(&self) -> Result<String> {
        let (address, port) = (self.running.get_bridge_ip_address()?, self.port);
        Ok(match self.kind {
            Engine::Postgres => format!("postgres://postgres@{address}:{port}/postgres"),
            _ => format!("mysql://root@{address}:{port}/mysql"),
        })
    }

    /// Runs a command on it.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        docker(&[&["exec", self.running.id()], command].concat())
    }

    /// Kills the node by SIGKILL.
    pub fn kill(&self) -> Result {
        container::kill(self.running.id())
    }

    /// Starts the node after a [`kill`](Self::kill), and does not wait until it is a member again.
    pub fn start_again(&self) -> Result {
        Ok(self.running.start()?)
    }
}
