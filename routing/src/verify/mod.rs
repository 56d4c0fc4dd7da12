//! Proofs about forwarding tables, independent of the engines that made them.
//!
//! Works from a topology and tables alone, which may be any bytes: an entry that points to a port
//! without a link discards packets, it does not make a panic.

mod along;
mod beside;
mod check;
mod cycles;
mod delta;
mod dependencies;
pub(crate) mod fabric;
mod idle;
mod lanes;
mod multicast;
mod sets;
mod tally;
mod transition;
mod walk;

pub use along::{Stages, stages_along, stages_along_opening};
pub use beside::Unwritten;
pub use check::{Verified, mixture_is_acyclic, verify, verify_on_lanes, verify_whole};
pub use delta::{Candidate, Changed, Inconclusive, ProvedTables, verify_changes};
pub use dependencies::Dependencies;
pub use idle::{IdleLinks, LinkEnd};
pub use lanes::{LaneChannel, LaneDependencies, LaneReport, mixture_is_sound, verify_lanes};
pub use multicast::{MulticastReport, MulticastWitness, masks_follow, verify_multicast};
pub use sets::{
    Held, Recovery, SetReport, recovered, recovery, verify_mixture_of_sets, verify_sets,
    verify_sets_by,
};
pub use tally::Tally;
pub use transition::stages;

use rsm_ids::{Guid, Lid, PortNum};

/// How many witnesses of each kind of fault a report names; the counts are exact.
/// Enough to see a pattern, few enough to read.
pub const MAX_WITNESSES: usize = 8;

/// The result of a proof of tables.
///
/// A pair is (a port that packets start at, a LID they go to). Pairs count here when they start at
/// a channel adapter, a router or an aggregation node, and when they start at a switch and end at
/// one of these; pairs of two switches are in [`Report::switch_pairs`]. A port is no pair with its
/// own LIDs.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    /// Pairs whose packets arrive.
    pub reachable_pairs: u64,
    /// Pairs that cables join, and whose packets do not arrive.
    pub unreachable_pairs: u64,
    /// Pairs that no cables join.
    pub disconnected_pairs: u64,
    /// The same three for pairs of two switches.
    pub switch_pairs: PairCounts,
    /// No entry leads a packet round in a cycle.
    pub loop_free: bool,
    /// There is no credit loop: the channel dependency graph over directed links between switches
    /// is acyclic, with packets injected at every switch.
    pub credit_loop_free: bool,
    /// Switch-to-switch hops of the longest path that arrives.
    pub max_hops: u32,
    /// Switch-to-switch hops of the mean reachable pair of two hosts: channel adapters and routers.
    pub average_hops: f64,
    /// Paths on the links between switches, of pairs of two hosts, as far as they come.
    pub load: Load,
    /// A few of the faults, [`MAX_WITNESSES`] of each kind.
    pub witnesses: Vec<Witness>,
}

/// Pairs by the outcome of their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PairCounts {
    /// Packets arrive.
    pub reachable: u64,
    /// Cables join the two, and packets do not arrive.
    pub unreachable: u64,
    /// No cables join the two.
    pub disconnected: u64,
}

/// How evenly paths lie on links, each direction of a cable taken as one link.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Load {
    /// Paths on the fullest link.
    pub max: u64,
    /// Paths on the mean link.
    pub mean: f64,
}

/// One fault in tables, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Packets from a switch to a LID do not arrive.
    Dropped {
        /// The switch that discards them.
        switch: Guid,
        /// Their destination LID.
        lid: Lid,
        /// Its entry, or `None` where it has no path.
        port: Option<PortNum>,
    },
    /// Packets to a LID go round in a cycle.
    Loop {
        /// Their destination LID.
        lid: Lid,
        /// The switches of the cycle and the ports they send on, the lowest GUID first.
        hops: Vec<(Guid, PortNum)>,
    },
    /// A credit loop: each link can wait for the next, and the last for the first.
    CreditLoop {
        /// The links, each by the switch and port that sends.
        channels: Vec<(Guid, PortNum)>,
    },
    /// The same for tables that need several virtual lanes: each link with its lane.
    CreditLoopOnLanes {
        /// The links and lanes.
        channels: Vec<LaneChannel>,
    },
    /// An entry names a group that its switch does not hold.
    AbsentGroup {
        /// The switch.
        switch: Guid,
        /// The LID of the entry.
        lid: Lid,
        /// The group.
        group: u16,
    },
    /// Packets leave the lanes that a routing uses.
    OffLanes {
        /// The link and lane that they are sent on; lane 15 where they are dropped.
        channel: LaneChannel,
    },
}
