//! Read access to a topology.

use petgraph::graph::UnGraph;
use rayon::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};

use super::origin::Origin;
use super::{
    Cable, Destination, HalfLink, NONE, NewCable, PortUse, Switch, SwitchIdx, Topology,
    TopologyBuilder,
};

/// All links from one switch to one neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The switch at the other end.
    pub neighbour: SwitchIdx,
    /// The links, at least one, in the order of the ports.
    pub links: &'a [HalfLink],
}

/// A connected part: switches that are connected with each other and with no other switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The switches of the component in the order of their GUIDs.
    pub switches: Vec<SwitchIdx>,
}

impl Topology {
    /// The number of switches.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// All switches, in the order of GUIDs, which is the order of [`SwitchIdx`].
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// The numbers of all switches.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = SwitchIdx> + use<> {
        // The builder refuses more switches than there are LIDs.
        (0..self.switches.len() as u32).map(SwitchIdx)
    }

    /// The numbers of all switches as a parallel iterator, for loops over all ports.
    pub fn par_indices(&self) -> impl IndexedParallelIterator<Item = SwitchIdx> + use<> {
        // The builder refuses more switches than there are LIDs.
        (0..self.switches.len() as u32)
            .into_par_iter()
            .map(SwitchIdx)
    }

    /// The switch with a number.
    ///
    /// # Panics
    /// If the number belongs to another topology.
    pub fn switch(&self, switch: SwitchIdx) -> &Switch {
        &self.switches[switch.index()]
    }

    /// The number of the switch with a GUID; `None` if there is none.
    pub fn switch_by_guid(&self, guid: Guid) -> Option<SwitchIdx> {
        self.switches
            .binary_search_by_key(&guid, |switch| switch.guid)
            .ok()
            .map(|index| SwitchIdx(index as u32))
    }

    /// The port groups of a switch, sorted by the neighbour's GUID; loop-backs belong to no group.
    pub fn groups(&self, switch: SwitchIdx) -> impl ExactSizeIterator<Item = Group<'_>> {
        let range = self.group_range(switch);
        range.map(|group| self.group(group))
    }

    /// The range of a switch's port groups in the numbering of the whole topology.
    pub(crate) fn group_range(&self, switch: SwitchIdx) -> std::ops::Range<usize> {
        self.group_start[switch.index()] as usize..self.group_start[switch.index() + 1] as usize
    }

    /// The total number of port groups.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len() - 1
    }

    /// The port group with this number.
    pub(crate) fn group(&self, group: usize) -> Group<'_> {
        let (neighbour, first) = self.groups[group];
        let end = self.groups[group + 1].1;
        Group {
            neighbour: SwitchIdx(neighbour),
            links: &self.links[first as usize..end as usize],
        }
    }

    /// The range of a port group's links in the numbering of the whole topology.
    pub(crate) fn link_range(&self, group: usize) -> std::ops::Range<usize> {
        self.groups[group].1 as usize..self.groups[group + 1].1 as usize
    }

    /// The links of a switch, sorted by neighbour and port.
    pub(crate) fn links(&self, switch: SwitchIdx) -> &[HalfLink] {
        &self.links[self.links_of(switch)]
    }

    /// The range of a switch's links in the numbering of the whole topology.
    pub(crate) fn links_of(&self, switch: SwitchIdx) -> std::ops::Range<usize> {
        let groups = self.group_range(switch);
        self.groups[groups.start].1 as usize..self.groups[groups.end].1 as usize
    }

    /// The total number of links in port groups: two for each cable.
    pub(crate) fn half_link_count(&self) -> usize {
        self.links.len()
    }

    /// Adds to this fabric the switches, cables and end ports that only `earlier` has, except parts
    /// that contradict this fabric.
    pub(crate) fn joined_with(&self, earlier: &Topology) -> Topology {
        TopologyBuilder::joined(self, earlier).with_rules(self.rules.clone())
    }

    /// Extends this fabric by cables between free ports.
    ///
    /// # Panics
    /// If a port is not free.
    pub(crate) fn with_cables(&self, cables: &[NewCable]) -> Topology {
        TopologyBuilder::extended(self, cables).with_rules(self.rules.clone())
    }

    /// The number of cables between two different switches.
    pub fn link_count(&self) -> usize {
        self.links.len() / 2
    }

    /// All cables between two different switches, sorted.
    pub fn cables(&self) -> Vec<Cable> {
        let mut cables = Vec::with_capacity(self.link_count());
        for switch in self.indices() {
            for group in self.groups(switch).filter(|group| group.neighbour > switch) {
                cables.extend(group.links.iter().map(|link| Cable {
                    a: (self.switch(switch).guid, link.port),
                    b: (self.switch(group.neighbour).guid, link.peer_port),
                }));
            }
        }
        cables.sort_unstable();
        cables
    }

    /// The cables that connect a switch to itself.
    pub fn loopbacks(&self) -> &[Cable] {
        &self.loopbacks
    }

    /// The use of a port; [`PortUse::Unused`] for a port that the switch does not have.
    pub fn port_use(&self, switch: SwitchIdx, port: PortNum) -> PortUse {
        self.port_uses(switch)
            .get(port.index())
            .copied()
            .unwrap_or(PortUse::Unused)
    }

    /// The use of each port of a switch, from port 0 on.
    pub fn port_uses(&self, switch: SwitchIdx) -> &[PortUse] {
        let start = self.port_start[switch.index()] as usize;
        let end = self.port_start[switch.index() + 1] as usize;
        &self.ports[start..end]
    }

    /// The switch and the port at the other end of a port's cable; `None` if the port leads to no
    /// other switch. A loop-back cable leads to the same switch.
    pub fn peer(&self, switch: SwitchIdx, port: PortNum) -> Option<(SwitchIdx, PortNum)> {
        match self.port_use(switch, port) {
            PortUse::Link { peer, peer_port } => Some((peer, peer_port)),
            PortUse::Unused | PortUse::Destination(_) => None,
        }
    }

    /// All destinations, sorted by (switch, LID).
    pub fn destinations(&self) -> &[Destination] {
        &self.destinations
    }

    /// The destinations of a switch: port 0 and the ports attached to the switch, in the order of
    /// LIDs.
    pub fn destinations_of(&self, switch: SwitchIdx) -> &[Destination] {
        let start = self.destination_start[switch.index()] as usize;
        let end = self.destination_start[switch.index() + 1] as usize;
        &self.destinations[start..end]
    }

    /// The range of a switch's destinations in the numbering of the whole topology.
    pub(crate) fn destination_range(&self, switch: SwitchIdx) -> std::ops::Range<usize> {
        self.destination_start[switch.index()] as usize
            ..self.destination_start[switch.index() + 1] as usize
    }

    /// The destination that has a LID; `None` if there is none.
    pub fn destination_of(&self, lid: Lid) -> Option<&Destination> {
        match self.by_lid.get(lid.index()) {
            None | Some(&NONE) => None,
            Some(&destination) => Some(&self.destinations[destination as usize]),
        }
    }

    /// The highest LID of any destination, or [`Lid::NONE`] without destinations.
    pub fn top_lid(&self) -> Lid {
        // The list is indexed by unicast LID, so that it is never longer than the LID space.
        Lid(self.by_lid.len().saturating_sub(1) as u16)
    }

    /// The components of the fabric, in the order of their lowest switches.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The index in [`Topology::components`] of the component that contains a switch.
    pub fn component_of(&self, switch: SwitchIdx) -> usize {
        self.component_of[switch.index()] as usize
    }

    /// The number of hosts attached to a switch: channel adapters and routers, but not aggregation
    /// nodes.
    pub fn hosts(&self, switch: SwitchIdx) -> usize {
        self.destinations_of(switch)
            .iter()
            .filter(|destination| destination.kind.is_host())
            .count()
    }

    /// Removes cables, each given by its end at a switch. If a cable leads to an end port, that
    /// destination is removed as well. Ports without a cable are ignored.
    pub fn without_cables(&self, ends: &[(Guid, PortNum)]) -> Topology {
        let mut is_removed = vec![false; self.ports.len()];
        for &(guid, port) in ends {
            let Some(switch) = self.switch_by_guid(guid) else {
                continue;
            };
            if port == PortNum::ZERO || port.index() >= self.port_uses(switch).len() {
                continue;
            }
            is_removed[self.port_start[switch.index()] as usize + port.index()] = true;
            if let Some((peer, peer_port)) = self.peer(switch, port) {
                is_removed[self.port_start[peer.index()] as usize + peer_port.index()] = true;
            }
        }
        let mut remaining = TopologyBuilder::remaining(self, |switch, port| {
            !is_removed[self.port_start[switch.index()] as usize + port.index()]
        });
        let lost = |switch: &SwitchIdx| {
            let ports = self.port_start[switch.index()]..self.port_start[switch.index() + 1];
            is_removed[ports.start as usize..ports.end as usize].contains(&true)
        };
        let changed = self
            .indices()
            .filter(lost)
            .map(|switch| self.switch(switch).guid)
            .collect();
        remaining.origin = Origin::after(self, changed);
        remaining.rules = self.rules.clone();
        remaining
    }

    /// Converts the switches and the cables between them into a `petgraph` graph, for queries and
    /// exports: nodes in the order of [`SwitchIdx`], and an edge for each cable, loop-backs
    /// included.
    pub fn to_petgraph(&self) -> UnGraph<Guid, Cable, u32> {
        let mut graph = UnGraph::with_capacity(self.switch_count(), self.link_count());
        for switch in &self.switches {
            graph.add_node(switch.guid);
        }
        for cable in self
            .cables()
            .into_iter()
            .chain(self.loopbacks.iter().copied())
        {
            let ends = [cable.a.0, cable.b.0].map(|guid| self.switch_by_guid(guid));
            if let [Some(a), Some(b)] = ends {
                graph.add_edge(a.0.into(), b.0.into(), cable);
            }
        }
        graph
    }
}
