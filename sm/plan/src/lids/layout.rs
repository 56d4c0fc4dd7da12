//! The order in which ports get LIDs.
//!
//! On a fresh fabric the first host of every leaf gets its LID, then the second host of every leaf,
//! and so on: a fault then changes fewer blocks of the forwarding tables. On any other fabric, the
//! ports keep their LIDs, even if these LIDs do not follow the order.

use std::collections::{BTreeMap, BTreeSet};

use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_routing::engine::by_subtree;
use rsm_routing::tables::BLOCK_LIDS;
use rsm_routing::topology::PortUse;

use super::{LidPlan, wanted_lmc};
use crate::policy::Policy;
use crate::topology;

/// The order of ports and the start of the LIDs of hosts.
pub(super) struct Layout {
    /// All end ports in order.
    pub(super) ports: Vec<PortRef>,
    /// The lowest LID for ports of nodes other than switches.
    pub(super) first_host_lid: u16,
}

/// Orders switches by GUID, then for each switch the ports cabled to it by its port numbers, then
/// the remaining ports.
pub(super) fn by_wiring(fabric: &Fabric) -> Layout {
    let cabled = fabric
        .switches()
        .flat_map(|(ix, node)| fabric.links_of(ix, node))
        .map(|(_, peer)| peer)
        .filter(|peer| fabric.node(peer.node).kind() != NodeType::Switch);
    Layout {
        ports: switches_first(fabric, cabled),
        first_host_lid: 1,
    }
}

/// Orders switches by GUID, then the first host of every leaf switch, with the leaves of one
/// subtree adjacent, then the second host of every leaf, and so on, then the remaining ports.
/// `None` if the fabric has no valid switch graph.
///
/// In the table of a switch, entries that go up by one port are then mostly adjacent, and so are
/// the entries that go down to one subtree. A fault therefore changes fewer blocks; the loss of a
/// switch next to the leaves changes a twentieth as many (`rsm-routing`'s bench `fabric_tree` has
/// the figures). If the first hosts of all leaves fill at least one block, their LIDs begin at the
/// start of a block.
///
/// `complete` is an assignment with a LID for every port; the switch graph needs such LIDs.
pub(super) fn across_leaves(
    fabric: &Fabric,
    complete: &LidPlan,
    policy: &Policy,
    capacity: u16,
) -> Option<Layout> {
    let topology = topology::build(fabric, complete, &BTreeSet::new()).ok()?;
    let mut rows: BTreeMap<usize, Vec<PortRef>> = BTreeMap::new();
    for switch in by_subtree(&topology) {
        let Some(node) = fabric.find(topology.switch(switch).guid) else {
            continue;
        };
        let uses = topology.port_uses(switch).iter().enumerate().skip(1);
        let ends = uses
            .filter(|(_, leads_to)| matches!(leads_to, PortUse::Destination(_)))
            .filter_map(|(port, _)| fabric.node(node).ports.get(port)?.peer)
            .filter_map(|peer| fabric.find_port(peer));
        for (index, end) in ends.enumerate() {
            rows.entry(index).or_default().push(end);
        }
    }
    let fills_blocks = rows.get(&0).is_some_and(|row| row.len() >= BLOCK_LIDS);
    let ports = switches_first(fabric, rows.into_values().flatten());
    let is_switch = |at: &&PortRef| fabric.node(at.node).kind() == NodeType::Switch;
    let lids = |ports: &[PortRef]| -> usize {
        let lids = |&at: &PortRef| usize::from(wanted_lmc(fabric, at, policy).lids());
        ports.iter().map(lids).sum()
    };
    let switches = ports.iter().take_while(is_switch).count();
    let from = (lids(&ports[..switches]) + 1).next_multiple_of(BLOCK_LIDS);
    let fits = from + lids(&ports[switches..]) <= usize::from(capacity) + 1;
    let first_host_lid = match u16::try_from(from) {
        Ok(from) if fills_blocks && fits => from,
        _ => 1,
    };
    Some(Layout {
        ports,
        first_host_lid,
    })
}

/// The ports of switches, then `ends`, then all other end ports, each once.
fn switches_first(fabric: &Fabric, ends: impl Iterator<Item = PortRef>) -> Vec<PortRef> {
    let mut seen = BTreeSet::new();
    let switches = fabric
        .end_ports()
        .map(|(at, _)| at)
        .filter(|at| fabric.node(at.node).kind() == NodeType::Switch);
    let remaining = fabric.end_ports().map(|(at, _)| at);
    switches
        .chain(ends)
        .chain(remaining)
        .filter(|&at| seen.insert(at))
        .collect()
}
