//! The channel dependency graph over (link, virtual lane).
//!
//! The graph resembles the graph over links alone, but a packet uses the VL to which the switch
//! maps its service level, by input and output port. The source and destination of a packet
//! determine its SL; if any SL is permitted, the proof follows all sixteen.

mod graph;
mod multicast;
mod ways;

use rsm_ids::{Guid, PortNum};

use self::graph::Graph;
pub use self::multicast::LaneDependencies;
use super::cycles::Waits;
use crate::lanes::Lanes;
use crate::tables::Tables;
use crate::topology::Topology;

/// A channel for proofs over VLs: one direction of a link, on one VL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneChannel {
    /// The switch that sends.
    pub switch: Guid,
    /// The output port of the switch.
    pub port: PortNum,
    /// The virtual lane.
    pub vl: u8,
}

/// The result of a check of tables on their lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// A credit loop: each (link, VL) can wait for the next one, and the last for the first; empty
    /// if there is none.
    pub cycle: Vec<LaneChannel>,
    /// A place where a switch maps a packet to a VL that the routing does not use, or drops it;
    /// `None` if there is none.
    pub outside_vls: Option<LaneChannel>,
}

impl LaneReport {
    /// Whether there is no credit loop, and no packet leaves the routing's VLs.
    pub fn is_sound(&self) -> bool {
        self.cycle.is_empty() && self.outside_vls.is_none()
    }
}

/// Proves that `tables` with `lanes` close no credit loop.
///
/// Every entry of every destination counts, with packets injected at every switch on each of its
/// ports without a link to a switch.
pub fn verify_lanes(topology: &Topology, tables: &Tables, lanes: &Lanes) -> LaneReport {
    let graph = Graph::new(topology, lanes);
    let outside_vls = ways::add_all(&graph, &[tables]);
    let cycle = graph.cycle().into_iter();
    LaneReport {
        cycle: cycle.map(|node| graph.name(node)).collect(),
        outside_vls,
    }
}

/// Whether switches may change from `old` to `new` in any order, one entry at a time, without a
/// loop or a credit loop in between, provided that both sets of tables are made for `lanes`.
///
/// Both sets use the switch numbers of `topology`, the current fabric: entries of `old` that point
/// to a missing link discard packets.
pub fn mixture_is_sound(topology: &Topology, old: &Tables, new: &Tables, lanes: &Lanes) -> bool {
    let graph = Graph::new(topology, lanes);
    let outside_vls = ways::add_all(&graph, &[old, new]);
    outside_vls.is_none() && graph.in_cycles().is_clear()
}
