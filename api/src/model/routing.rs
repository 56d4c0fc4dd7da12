pub use rsm_routing::quality::{Bisection, Contention, PathLoad};

use super::{PortKey, Selector};

/// A routing engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Its name, as in the configuration.
    pub name: String,
    /// What its tables are sure to be, in one sentence.
    pub guarantee: String,
    /// It is the one that is asked for.
    pub configured: bool,
    /// Its tables are in force.
    pub in_force: bool,
}

/// How well the tables in force spread traffic between hosts: channel adapters and routers.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingQuality {
    /// The snapshot that it is of.
    pub generation: u64,
    /// The engine that made the tables.
    pub engine: String,
    /// Ports of hosts.
    pub hosts: u64,
    /// Directions of cables between two switches.
    pub links: u64,
    /// Ordered pairs of hosts whose packets do not arrive.
    pub lost_pairs: u64,
    /// Paths of all pairs of hosts on the links.
    pub paths: PathLoad,
    /// Over all links the most of min(hosts that send over it, hosts that are sent to over it).
    pub all_to_all: u32,
    /// Everybody sends so many places further on in topological order.
    pub shift: Contention,
    /// Random permutations.
    pub random: Contention,
    /// Random halves exchange.
    pub bisection: Bisection,
    /// Rings, in each rail where rails are known.
    pub ring: Contention,
    /// Recursive doubling, in each rail where rails are known.
    pub recursive_doubling: Contention,
    /// Double binary trees, in each rail where rails are known.
    pub double_tree: Contention,
    /// All-to-all within rails; `None` where they are not known.
    pub rail_all_to_all: Option<Contention>,
    /// The links that take longest for their paths.
    pub worst_links: Vec<LinkUse>,
}

/// A port and what its node is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPort {
    /// The port.
    pub key: PortKey,
    /// The description of its node.
    pub description: String,
}

/// One direction of a cable between two switches, and who uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkUse {
    /// The port that sends.
    pub from: NamedPort,
    /// The port that receives.
    pub to: NamedPort,
    /// Ordered pairs of hosts whose path it is on.
    pub paths: u64,
    /// Hosts that send over it.
    pub sources: u32,
    /// Hosts that are sent to over it.
    pub destinations: u32,
}

/// What would go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The cable at a port.
    Cable(Selector),
    /// A node with all its cables.
    Node(Selector),
}

/// A cable that would go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostCable {
    /// The end that was named, or that of the node that goes.
    pub near: NamedPort,
    /// The other end.
    pub far: NamedPort,
}

/// What would follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consequence {
    /// The snapshot that it is foreseen from.
    pub generation: u64,
    /// The cables that go.
    pub cables: Vec<LostCable>,
    /// Ports with a LID that would not be reached any more.
    pub cut_off: Vec<NamedPort>,
    /// Ordered pairs of the ports that stay whose packets are lost until the new tables are in force.
    pub broken_pairs: u64,
    /// Ordered pairs of the ports that stay that cables would still join and the new tables would not.
    pub unreachable_pairs: u64,
    /// Why the new tables would not be put into force.
    pub refused: Option<String>,
    /// The engine that would route; empty where no engine would.
    pub engine: String,
    /// What it would say of its tables.
    pub reason: String,
    /// Entries of forwarding tables that would change.
    pub entries: u64,
    /// Switches whose table would change.
    pub switches: u64,
    /// Blocks of 64 entries that would be written in the end.
    pub blocks: u64,
    /// Blocks that would be written before.
    pub blocks_before: u64,
    /// Subnet management packets that would put the tables into force.
    pub smps: u64,
    /// Paths of pairs of hosts on the fullest link now.
    pub max_paths_now: u64,
    /// Paths of pairs of hosts on the fullest link then.
    pub max_paths_then: u64,
    /// The new tables are free of credit loops.
    pub credit_loop_free: bool,
}
