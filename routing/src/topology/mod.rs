//! The dense, immutable switch graph on which engines and proofs work.
//!
//! Switches are numbered in the order of their GUIDs, so that equal fabrics have equal topologies
//! whatever the order of discovery. Links form one flat array, sorted by (switch, neighbour, port);
//! all links from one switch to the same neighbour form a *port group*. A [`Destination`] is a port
//! to which packets can be addressed: a switch's own port 0, or the port of a channel adapter or
//! router attached to a switch. Engines route to the switch of a destination, its *leaf*;
//! destinations with the same leaf share the path to it.

mod builder;
mod follow;
mod from_netlist;
pub(crate) mod levels;
mod order;
mod orientation;
mod origin;
mod rules;
mod slow;
mod view;

pub use builder::{SwitchKey, TopologyBuilder, TopologyError};
pub use follow::{CableEnd, EndPart, SwitchPart};
pub(crate) use order::Order;
pub use orientation::Orientation;
pub use origin::TopologyId;
pub use rules::SwitchRules;
pub use slow::SlowCable;
pub use view::{Component, Group};

use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use self::origin::Origin;

/// The number of a switch in its topology: its index in the order of GUIDs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SwitchIdx(pub u32);

impl SwitchIdx {
    /// The number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A switch of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The GUID of the node.
    pub guid: Guid,
    /// The number of external ports (1 to 254), without port 0.
    pub num_ports: u8,
    /// The number of entries that the forwarding table can hold (SwitchInfo LinearFDBCap, IBA
    /// 14.2.5.4).
    pub linear_fdb_cap: u16,
}

/// The kind of port of a destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EndpointKind {
    /// A switch's own management port, port 0.
    Switch0,
    /// A port of a channel adapter.
    Ca,
    /// A port of a router.
    Router,
    /// The built-in reduction engine of a switch, which appears as a channel adapter.
    ///
    /// Any switch can have one, also a spine, so it does not show where hosts are.
    AggregationNode,
}

impl EndpointKind {
    /// Whether applications run behind such a port. Engines balance the traffic of hosts, and a
    /// switch with a host is a leaf.
    pub const fn is_host(self) -> bool {
        matches!(self, EndpointKind::Ca | EndpointKind::Router)
    }
}

/// A port to which packets can be addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The switch to which the port is attached or, for port 0, to which it belongs.
    pub switch: SwitchIdx,
    /// The switch port to which the port is attached; 0 for the switch's own port 0.
    pub port: PortNum,
    /// The port GUID; for port 0, the switch's GUID.
    pub guid: Guid,
    /// The base LID of the port.
    pub lid: Lid,
    /// The LMC; the port has 2^LMC LIDs from `lid` on.
    pub lmc: Lmc,
    /// The LIDs of the port's virtual ports. Engines give them the path of `lid`.
    pub further: FurtherLids,
    /// The kind of the port.
    pub kind: EndpointKind,
}

impl Destination {
    /// All LIDs of the port, including those of virtual ports.
    pub fn lids(&self) -> impl Iterator<Item = Lid> + '_ {
        self.own_lids().chain(self.further.iter())
    }

    /// The port's 2^LMC LIDs from the base LID on.
    pub fn own_lids(&self) -> impl Iterator<Item = Lid> + use<> {
        let base = self.lid.0;
        // The builder has checked that the last LID is unicast, so that this cannot overflow.
        (0..self.lmc.lids()).map(move |offset| Lid(base + offset))
    }
}

/// The LIDs of a port in addition to its 2^LMC own LIDs, ascending; most ports have none. A clone
/// shares the list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FurtherLids(Option<Arc<[Lid]>>);

impl FurtherLids {
    /// Creates a list of these LIDs, given in any order.
    pub fn new(mut lids: Vec<Lid>) -> FurtherLids {
        lids.sort_unstable();
        FurtherLids((!lids.is_empty()).then(|| lids.into()))
    }

    /// The LIDs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Lid> + '_ {
        self.0.iter().flat_map(|lids| lids.iter().copied())
    }

    /// Whether there are no further LIDs.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// One direction of a cable between two switches, from the switch that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfLink {
    /// The port by which packets leave.
    pub port: PortNum,
    /// The port at which packets arrive.
    pub peer_port: PortNum,
    /// The rate in any unit that the whole topology shares; at least 1.
    pub weight: u32,
}

/// A cable between two ports of switches. Cables compare by the (GUID, port) of their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cable {
    /// The end with the lower (GUID, port).
    pub a: (Guid, PortNum),
    /// The other end; at the same switch if the cable is a loop-back.
    pub b: (Guid, PortNum),
}

/// A cable to be added between free ports of two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewCable {
    /// The two ends, at different switches.
    pub(crate) ends: [(SwitchIdx, PortNum); 2],
    /// The rate, as in [`TopologyBuilder::add_link`]; at least 1.
    pub(crate) weight: u32,
}

/// The highest number that a switch port can have; 255 in a forwarding table means "discard".
const LAST_PORT: u8 = 254;

/// The mark for "no switch, destination or port group" in an index table.
const NONE: u32 = u32::MAX;

/// The switches of a fabric, the links between them, and the destinations attached to them.
///
/// Topologies are immutable, and built by [`TopologyBuilder`]. Cables from a switch to itself are
/// kept separately ([`Topology::loopbacks`]), because no path can use them. Fabrics with
/// unconnected parts are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    switches: Vec<Switch>,
    /// The port groups of switch `s` are `groups[group_start[s]..group_start[s + 1]]`.
    group_start: Vec<u32>,
    /// For each port group, its neighbour and the index of its first link in `links`. One more
    /// element at the end holds the end of the last group.
    groups: Vec<(u32, u32)>,
    links: Vec<HalfLink>,
    loopbacks: Vec<Cable>,
    /// The destinations, sorted by (switch, LID).
    destinations: Vec<Destination>,
    /// The destinations of switch `s` are `destinations[destination_start[s]..destination_start[s +
    /// 1]]`.
    destination_start: Vec<u32>,
    /// The index of the destination with each LID, by LID; `NONE` if there is none.
    by_lid: Vec<u32>,
    /// For each switch, the index in `ports` of the entry of its port 0; the entries of its other
    /// ports follow.
    port_start: Vec<u32>,
    /// The use of each port.
    ports: Vec<PortUse>,
    components: Vec<Component>,
    /// The index of each switch's component in `components`.
    component_of: Vec<u32>,
    origin: Origin,
    rules: Arc<SwitchRules>,
}

/// The use of a switch's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortUse {
    /// The port has no known use.
    Unused,
    /// The port is cabled to a port of another switch or, by a loop-back cable, of the same switch.
    Link {
        /// The switch at the other end.
        peer: SwitchIdx,
        /// The port at the other end.
        peer_port: PortNum,
    },
    /// The port leads to a destination, given as an index into [`Topology::destinations`]; port 0
    /// leads to the switch itself.
    Destination(u32),
}

impl PortUse {
    /// Whether the port has no known use.
    pub const fn is_unused(self) -> bool {
        matches!(self, PortUse::Unused)
    }
}
