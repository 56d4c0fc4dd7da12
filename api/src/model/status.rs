use std::time::Duration;

use rsm_ids::{Guid, Lid};

use rsm_proto::v1::{Convergence, SmpCounts};

/// The state of the subnet manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubnetState {
    /// It is not attached: no port, or the port is down.
    NotActive,
    /// It is sweeping for the first time, before the election of a master.
    Discovering,
    /// Another subnet manager is master; this one sends no Set.
    Standby,
    /// It is master, and a convergence is under way.
    Converging,
    /// It is master, and the hardware holds the plan.
    Up,
    /// It is master, but part of the fabric does not hold the plan; findings say which.
    Degraded,
}

/// The routing engine in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineChoice {
    /// Its name, as `--engine` takes it.
    pub name: String,
    /// Why this one.
    pub reason: String,
}

/// The proof of the tables in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verification {
    /// Ordered pairs of an end port and a LID with a path for packets.
    pub reachable_pairs: u64,
    /// Ordered pairs without a path for packets.
    pub unreachable_pairs: u64,
    /// No packet ever cycles.
    pub loop_free: bool,
    /// Buffers never wait for each other in a cycle.
    pub credit_loop_free: bool,
    /// The longest path, in links between switches.
    pub max_hops: u32,
}

/// Counts of nodes, links, LIDs and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Switches.
    pub switches: u64,
    /// Channel adapters.
    pub cas: u64,
    /// Routers.
    pub routers: u64,
    /// Cables whose both ends answer.
    pub links: u64,
    /// LIDs in use, each LID of a port with LMC above 0 counted.
    pub lids: u64,
    /// Physical ports with a link that are Active.
    pub ports_active: u64,
    /// Physical ports with a link that are not Active.
    pub ports_not_active: u64,
}

/// Findings that hold now, by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FindingCounts {
    /// Worth knowing.
    pub info: u64,
    /// Works, but not as it should.
    pub warning: u64,
    /// Something does not work.
    pub error: u64,
}

/// The master, where it is not this subnet manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterElsewhere {
    /// Its port GUID.
    pub guid: Guid,
    /// Its LID.
    pub lid: Lid,
    /// Its priority, 0 to 15.
    pub priority: u8,
}

/// The subnet and its manager at one glance.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The version of the server.
    pub version: String,
    /// The fabric as `--fabric` names it, for instance `umad:mlx5_0:1` or `sim:superpod`.
    pub fabric: String,
    /// Whether the fabric is simulated, so that the simulation service works.
    pub simulated: bool,
    /// The state of the subnet manager.
    pub state: SubnetState,
    /// Why, in a few words; empty where there is nothing to say.
    pub state_reason: String,
    /// The generation of the snapshot in force; counts up from 1, 0 before the first.
    pub generation: u64,
    /// Since the start.
    pub uptime: Duration,
    /// The GUID of the subnet manager's own port.
    pub port_guid: Guid,
    /// That port's LID; [`Lid::NONE`] before it has one.
    pub lid: Lid,
    /// Its priority, 0 to 15.
    pub priority: u8,
    /// The upper 64 bits of every GID of the subnet (IBA 4.1.1).
    pub subnet_prefix: u64,
    /// The master, where it is another subnet manager.
    pub master: Option<MasterElsewhere>,
    /// Counts of nodes, links, LIDs and ports.
    pub inventory: Inventory,
    /// The routing engine; none before the first plan.
    pub engine: Option<EngineChoice>,
    /// The proof of the tables in force; none before the first plan.
    pub verification: Option<Verification>,
    /// Findings that hold now.
    pub findings: FindingCounts,
    /// Packets sent since the start.
    pub smps: SmpCounts,
    /// The latest convergence, once there is one.
    pub last_convergence: Option<Convergence>,
}
