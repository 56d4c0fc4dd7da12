//! Builds the switch graph of the routing library from the fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, Lmc, PortKey};
use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::{Fabric, Node, Port};
use rsm_routing::topology::{
    CableEnd, EndPart, EndpointKind, FurtherLids, Switch, SwitchPart, Topology, TopologyBuilder,
    TopologyError,
};

use crate::lid_plan::LidPlan;

/// Inputs of a switch graph.
#[derive(Clone, Copy)]
pub(super) struct TopologySources<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) lids: &'a LidPlan,
    /// Cables that routes avoid, each given by either end.
    pub(super) damped: &'a BTreeSet<PortKey>,
}

/// Builds the switch graph of `fabric` with the LIDs of `lids`, without rules about its switches.
///
/// The graph omits switches that cannot be programmed or have no LID, cables from a switch to
/// itself, and the cables in `damped` (each given by either end).
///
/// # Errors
/// Fails if LIDs or ports contradict each other, which never happens with a sweep's result.
pub fn build(
    fabric: &Fabric,
    lids: &LidPlan,
    damped: &BTreeSet<PortKey>,
) -> Result<Topology, TopologyError> {
    let sources = TopologySources {
        fabric,
        lids,
        damped,
    };
    let switches = fabric.switches();
    let parts = switches.map(|(_, node)| (node.guid, sources.part(node)));
    TopologyBuilder::new().build()?.follow(&parts.collect())
}

impl TopologySources<'_> {
    /// Updates `earlier`, the switch graph of `before`, to these sources. Reads only switches at
    /// which the two differ.
    ///
    /// # Errors
    /// Fails as [`build`] does.
    pub(super) fn follow(
        &self,
        before: &TopologySources<'_>,
        earlier: &Arc<Topology>,
    ) -> Result<Arc<Topology>, TopologyError> {
        let mut changes = BTreeMap::new();
        for guid in self.differing(before) {
            let node = self.fabric.node_of(guid).filter(|node| node.is_switch());
            changes.insert(guid, node.and_then(|node| self.part(node)));
        }
        if changes.is_empty() {
            return Ok(earlier.clone());
        }
        Ok(Arc::new(earlier.follow(&changes)?))
    }

    /// Switches whose part of the graph may have changed since `before`.
    fn differing(&self, before: &TopologySources<'_>) -> BTreeSet<Guid> {
        let mut differing = BTreeSet::new();
        // A change of the node at either end may change a cable's entry.
        let rewired = before.fabric.rewired(self.fabric).into_iter();
        for node in rewired.flat_map(|(old, new)| [old, new]).flatten() {
            differing.insert(node.guid);
            differing.extend(node.cables().map(|(_, peer)| peer.node));
        }
        let lids = self.lids.differing(before.lids);
        let damped = self.damped.symmetric_difference(before.damped).copied();
        for port in lids.into_iter().chain(damped) {
            differing.insert(port.node);
            for fabric in [before.fabric, self.fabric] {
                let peer = fabric.find_port(port).and_then(|at| fabric.port(at).peer);
                differing.extend(peer.map(|peer| peer.node));
            }
        }
        differing.retain(|&guid| self.fabric.is_switch(guid) || before.fabric.is_switch(guid));
        differing
    }

    /// The part of the graph at a switch; `None` if packets cannot be routed through the switch.
    fn part(&self, node: &Node) -> Option<SwitchPart> {
        let info = node.switch.as_ref().filter(|_| self.is_routed(node))?;
        let claim = self.lids.of_node(node.guid)?;
        let mut part = SwitchPart {
            switch: Switch {
                guid: node.guid,
                num_ports: node.info.num_ports(),
                linear_fdb_cap: info.linear_fdb_cap(),
            },
            lid: claim.base,
            lmc: claim.lmc,
            cables: Vec::new(),
            ends: Vec::new(),
        };
        for (here, there) in node.cables() {
            let Some(other) = self.fabric.node_of(there.node) else {
                continue;
            };
            let ends = (
                node.ports.get(here.port.index()),
                other.ports.get(there.port.index()),
            );
            let (Some(near), Some(far)) = ends else {
                continue;
            };
            // The lower end of a cable determines its state and weight.
            let (low, high) = if here < there {
                (near, far)
            } else {
                (far, near)
            };
            if there.node == node.guid
                || far.peer != Some(here)
                || !low.up
                || self.damped.contains(&here)
                || self.damped.contains(&there)
            {
                continue;
            }
            if self.is_routed(other) {
                if high.up {
                    part.cables.push(CableEnd {
                        port: here.port,
                        peer: (there.node, there.port),
                        weight: weight(low),
                    });
                }
            } else {
                part.ends.extend(self.end(other, near, here, there));
            }
        }
        Some(part)
    }

    /// Whether packets can be routed through the switch `node`.
    fn is_routed(&self, node: &Node) -> bool {
        node.is_switch() && !node.unmanageable && self.lids.of_node(node.guid).is_some()
    }

    /// The end port `end` of `node` behind the port `exit` of a switch, whose record is `near`;
    /// `None` if it has no LID.
    fn end(&self, node: &Node, near: &Port, exit: PortKey, end: PortKey) -> Option<EndPart> {
        let kind = match node.kind() {
            NodeType::Switch => return None,
            NodeType::Router => EndpointKind::Router,
            _ if node.is_aggregation_node(near) => EndpointKind::AggregationNode,
            _ => EndpointKind::Ca,
        };
        let claim = self.lids.lids.get(&end)?;
        Some(EndPart {
            port: exit.port,
            guid: node.ports.get(end.port.index())?.guid,
            lid: claim.base,
            lmc: claim.lmc,
            further: FurtherLids::new(self.lids.vport_lids(end).collect()),
            kind,
        })
    }
}

/// Weight of a link: its data rate in Mb/s, so that a slow link gets a smaller share of the load; 1
/// if PortInfo has no known rate.
fn weight(port: &Port) -> u32 {
    let rate = port.link_rate();
    rate.map_or(1, |rate| rate.data_mbps()).max(1)
}

/// Number of LIDs that `lids` has assigned.
pub fn lids_in_use(lids: &LidPlan) -> u32 {
    let ports = lids.lids.values();
    let ports = ports.map(|claim| u32::from(Lmc::lids(claim.lmc)));
    let vports = lids.vports.values().filter(|lid| lid.is_unicast());
    ports.sum::<u32>() + vports.count() as u32
}
