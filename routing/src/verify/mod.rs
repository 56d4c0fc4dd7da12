//! Proofs about forwarding tables, independent of the engines that made them.
//!
//! The proofs use a topology and tables alone. Tables may hold any bytes: an entry for a port
//! without a link discards packets, and causes no panic.

mod along;
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
mod unwritten;
mod walk;

pub use along::{Stages, stages_along, stages_along_opening};
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
pub use unwritten::Unwritten;

use rsm_ids::{Guid, Lid, PortNum};

/// The maximum number of witnesses of each kind of fault in a report: enough to see a pattern, few
/// enough to read. The report's counts include all faults.
pub const MAX_WITNESSES: usize = 8;

/// The result of a proof of tables.
///
/// A pair consists of a port at which packets start and a LID to which they go. The main counts
/// cover pairs that start at a channel adapter, a router or an aggregation node, and pairs that
/// start at a switch and end at one of these; [`Report::switch_pairs`] counts pairs of two
/// switches. A port and its own LIDs form no pair.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    /// The number of pairs whose packets arrive.
    pub reachable_pairs: u64,
    /// The number of pairs that cables connect, but whose packets do not arrive.
    pub unreachable_pairs: u64,
    /// The number of pairs that no cables connect.
    pub disconnected_pairs: u64,
    /// The counts for pairs of two switches.
    pub switch_pairs: PairCounts,
    /// Whether no entry leads a packet into a loop.
    pub loop_free: bool,
    /// Whether there is no credit loop: the channel dependency graph over directed links between
    /// switches is acyclic, with packets injected at every switch.
    pub credit_loop_free: bool,
    /// The switch-to-switch hops of the longest path that arrives.
    pub max_hops: u32,
    /// The mean switch-to-switch hops over reachable pairs of two hosts: channel adapters and
    /// routers.
    pub average_hops: f64,
    /// The paths of pairs of two hosts on the links between switches, including paths that end
    /// early.
    pub load: Load,
    /// Examples of the faults, at most [`MAX_WITNESSES`] of each kind.
    pub witnesses: Vec<Witness>,
}

/// The number of pairs by the outcome of their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PairCounts {
    /// The number of pairs whose packets arrive.
    pub reachable: u64,
    /// The number of pairs that cables connect, but whose packets do not arrive.
    pub unreachable: u64,
    /// The number of pairs that no cables connect.
    pub disconnected: u64,
}

/// How evenly paths are spread over links; each direction of a cable counts as one link.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Load {
    /// The number of paths on the fullest link.
    pub max: u64,
    /// The mean number of paths on a link.
    pub mean: f64,
}

/// One fault in tables, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Packets from a switch to a LID do not arrive.
    Dropped {
        /// The switch that discards the packets.
        switch: Guid,
        /// The destination LID of the packets.
        lid: Lid,
        /// The output port of the entry; `None` if the entry has no path.
        port: Option<PortNum>,
    },
    /// Packets to a LID go round in a loop.
    Loop {
        /// The destination LID of the packets.
        lid: Lid,
        /// The switches of the loop with the ports by which they send, in the order of the loop,
        /// from the lowest GUID on.
        hops: Vec<(Guid, PortNum)>,
    },
    /// A credit loop: each link can wait for the next one, and the last for the first.
    CreditLoop {
        /// The links, each as the switch and port that send.
        channels: Vec<(Guid, PortNum)>,
    },
    /// A credit loop of tables that need several VLs: each (link, VL) can wait for the next one,
    /// and the last for the first.
    CreditLoopOnLanes {
        /// The links and VLs of the loop, in order.
        channels: Vec<LaneChannel>,
    },
    /// An entry names a group that its switch does not hold.
    AbsentGroup {
        /// The switch with the entry.
        switch: Guid,
        /// The LID of the entry.
        lid: Lid,
        /// The number of the group.
        group: u16,
    },
    /// Packets leave the VLs that a routing uses.
    OffLanes {
        /// The link and VL on which the packets are sent; VL 15 if they are dropped.
        channel: LaneChannel,
    },
}
