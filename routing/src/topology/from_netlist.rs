//! Builds a topology directly from a netlist, without a subnet manager: for planning, tests and
//! benches.

use std::collections::BTreeMap;

use rsm_ids::{Lid, Lmc, PortNum};

use super::builder::{SwitchKey, TopologyBuilder, TopologyError};
use super::{EndpointKind, Topology};
use crate::netlist::{Cable, Netlist, NodeKind, PortSpec};

/// The SwitchInfo LinearFDBCap of all switches of a netlist: all unicast LIDs fit.
const LINEAR_FDB_CAP: u16 = Lid::UNICAST_LAST.0 + 1;

/// The number of weight units in a Gb/s, so that the weight of a 1x SDR link (2 Gb/s of data) is
/// not 0.
const WEIGHT_PER_GBPS: f64 = 10.0;

impl Topology {
    /// Builds the topology of a netlist's switches and the end ports attached to them. Cables
    /// between two channel adapters are left out, and so are ports without a cable: no switch
    /// forwards to them.
    ///
    /// A port keeps the LIDs that the netlist states if they are unicast, aligned to the LMC and
    /// not taken by an earlier port; all other ports get the lowest free LIDs, in the order of the
    /// nodes. A port that is left out has no LID, and occupies none.
    ///
    /// # Errors
    /// [`TopologyError::LidRange`] if there are not enough LIDs.
    pub fn from_netlist(netlist: &Netlist) -> Result<Topology, TopologyError> {
        let mut lids = Lids::new(netlist);
        let mut builder = TopologyBuilder::new();
        let mut keys: Vec<Option<SwitchKey>> = vec![None; netlist.nodes().len()];
        for (index, node) in netlist.nodes().iter().enumerate() {
            if node.kind == NodeKind::Switch {
                let (lid, lmc) = lids.of(index, PortNum::ZERO, node.port(PortNum::ZERO));
                let key =
                    builder.add_switch(node.guid, node.num_ports, lid, lmc, LINEAR_FDB_CAP)?;
                keys[index] = Some(key);
            }
        }
        for cable in netlist.cables() {
            let ends = [(cable.a, cable.b), (cable.b, cable.a)];
            match ends.map(|((node, _), _)| keys[node]) {
                [Some(a), Some(b)] => {
                    builder.add_link(a, cable.a.1, b, cable.b.1, weight(cable))?;
                }
                [Some(switch), None] => {
                    add_endport(&mut builder, &mut lids, netlist, switch, ends[0])?;
                }
                [None, Some(switch)] => {
                    add_endport(&mut builder, &mut lids, netlist, switch, ends[1])?;
                }
                [None, None] => {}
            }
        }
        builder.build()
    }
}

/// The rate of a cable in units of 1/[`WEIGHT_PER_GBPS`] Gb/s.
fn weight(cable: &Cable) -> u32 {
    // The value is a few thousand Gb/s at most; a float to integer conversion saturates in any
    // case.
    (cable.rate().gbps() * WEIGHT_PER_GBPS) as u32
}

/// An end of a cable: the index of the node, and the port.
type End = (usize, PortNum);

/// Adds the end port at the second of two ends of a cable; the first end is at a switch.
fn add_endport(
    builder: &mut TopologyBuilder,
    lids: &mut Lids,
    netlist: &Netlist,
    switch: SwitchKey,
    (at, (index, port)): (End, End),
) -> Result<(), TopologyError> {
    let node = &netlist.nodes()[index];
    let kind = match node.kind {
        NodeKind::Router => EndpointKind::Router,
        _ if node.is_aggregation_node() => EndpointKind::AggregationNode,
        _ => EndpointKind::Ca,
    };
    let spec = node.port(port);
    let (lid, lmc) = lids.of(index, port, spec);
    builder.add_endport(switch, at.1, spec.guid, lid, lmc, kind)
}

/// Whether an end port is a destination: port 0 of a switch, or a port that is cabled to a switch.
fn is_destination(netlist: &Netlist, (index, port): End) -> bool {
    let is_switch = |node: usize| netlist.nodes()[node].kind == NodeKind::Switch;
    is_switch(index)
        || netlist
            .peer((index, port))
            .is_some_and(|(peer, _)| is_switch(peer))
}

/// The assignment of LIDs.
struct Lids {
    /// For each LID, whether a port has it.
    taken: Vec<bool>,
    /// The base LIDs that ports keep.
    kept: BTreeMap<End, Lid>,
    /// All lower LIDs are taken.
    next: u16,
}

impl Lids {
    fn new(netlist: &Netlist) -> Lids {
        let mut lids = Lids {
            taken: vec![false; usize::from(LINEAR_FDB_CAP)],
            kept: BTreeMap::new(),
            next: Lid::UNICAST_FIRST.0,
        };
        for (index, node) in netlist.nodes().iter().enumerate() {
            let end_ports = node.end_ports();
            for port in end_ports.filter(|&port| is_destination(netlist, (index, port))) {
                let spec = node.port(port);
                if lids.is_free(spec.lid, spec.lmc) {
                    lids.occupy(spec.lid, spec.lmc);
                    lids.kept.insert((index, port), spec.lid);
                }
            }
        }
        lids
    }

    /// The base LID of a port, with the LMC: the LID that the port keeps, else the lowest free LID,
    /// else [`Lid::NONE`].
    fn of(&mut self, node: usize, port: PortNum, spec: PortSpec) -> (Lid, Lmc) {
        let lmc = spec.lmc;
        if let Some(&lid) = self.kept.get(&(node, port)) {
            return (lid, lmc);
        }
        let free = (self.next..=Lid::UNICAST_LAST.0)
            .map(Lid)
            .find(|&lid| self.is_free(lid, lmc));
        let Some(lid) = free else {
            return (Lid::NONE, lmc);
        };
        self.occupy(lid, lmc);
        while self.taken.get(usize::from(self.next)) == Some(&true) {
            self.next += 1;
        }
        (lid, lmc)
    }

    /// Whether the LIDs of a port are unicast, aligned to the LMC, and not taken.
    fn is_free(&self, lid: Lid, lmc: Lmc) -> bool {
        let end = lid.index() + usize::from(lmc.lids());
        lid.is_unicast()
            && lmc.aligns(lid)
            && end <= self.taken.len()
            && !self.taken[lid.index()..end].contains(&true)
    }

    /// Marks the LIDs of a port as taken.
    fn occupy(&mut self, lid: Lid, lmc: Lmc) {
        self.taken[lid.index()..lid.index() + usize::from(lmc.lids())].fill(true);
    }
}
