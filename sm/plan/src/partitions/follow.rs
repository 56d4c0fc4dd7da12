//! Incremental partitions for a fabric in which only some nodes differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::{Fabric, Node, Port, PortRef};
use rsm_model::vports::{VPort, VPortKey};

use super::members::EndPorts;
use super::{Assignment, PartitionPlan, vports};
use crate::policy::Policy;

/// Assigns the partitions of `fabric`, with the same result as [`assign`](super::assign).
/// `previous` are the partitions of the fabric and policy `before`. Reads only the ports of rewired
/// nodes, the ports at the other ends of their cables, and the port GUIDs in `members`, whose rules
/// differ between the two policies.
///
/// `None` if the change may affect other ports: the previous or the new partitions have findings,
/// the subnet manager has moved, or enforcement starts or ends.
pub(crate) fn follow(
    previous: &Arc<PartitionPlan>,
    (before, before_policy): (&Fabric, &Policy),
    fabric: &Fabric,
    policy: &Policy,
    members: &BTreeSet<Guid>,
) -> Option<Arc<PartitionPlan>> {
    let own = |fabric: &Fabric| fabric.local.map(|local| fabric.key(local));
    if !previous.findings.is_empty() || own(before) != own(fabric) {
        return None;
    }
    let mut concerned = BTreeSet::new();
    for (old, new) in before.rewired(fabric) {
        for (node, fabric) in [(old, before), (new, fabric)] {
            let nodes = node.into_iter();
            concerned.extend(nodes.flat_map(|node| ports_and_peers(fabric, node)));
        }
    }
    if !members.is_empty() {
        let ports = fabric.end_ports();
        let has_member = |port: &Port| {
            let vports = port.vports.iter().flat_map(|vports| vports.vports.values());
            members.contains(&port.guid)
                || vports.map(VPort::guid).any(|guid| members.contains(&guid))
        };
        let ports = ports.filter(|(_, port)| has_member(port));
        concerned.extend(
            ports
                .flat_map(|(at, port)| [Some(fabric.key(at)), port.peer])
                .flatten(),
        );
    }
    let ends = |fabric: &Fabric| -> Vec<PortRef> {
        let ports = concerned.iter().filter_map(|&port| fabric.find_port(port));
        ports.filter(|&at| is_end_port(fabric, at)).collect()
    };
    let ports_before = EndPorts::of(before, ends(before));
    let partitioned_before = Assignment::new(before, before_policy).assign_tables(&ports_before);
    let mut assignment = Assignment::new(fabric, policy);
    let ports = EndPorts::of(fabric, ends(fabric));
    let partitioned_after = assignment.assign_tables(&ports);
    let partitioned_ports =
        previous.partitioned_ports.checked_sub(partitioned_before)? + partitioned_after;
    if (partitioned_ports > 0) != (previous.partitioned_ports > 0) {
        return None;
    }
    if partitioned_ports > 0 {
        assignment.enforce(&ports);
    }
    let assigned = assignment.finish();
    if !assigned.findings.is_empty() {
        return None;
    }
    let is_as_before = partitioned_ports == previous.partitioned_ports
        && concerned.iter().all(|port| {
            assigned.tables.get(port) == previous.tables.get(port)
                && assigned.enforced.get(port) == previous.enforced.get(port)
                && assigned
                    .vports
                    .range(VPortKey::all_of(*port))
                    .eq(previous.vports.range(VPortKey::all_of(*port)))
        });
    if is_as_before {
        return Some(previous.clone());
    }
    let mut plan = PartitionPlan::clone(previous);
    plan.partitioned_ports = partitioned_ports;
    replace(&mut plan.tables, &concerned, assigned.tables);
    replace(&mut plan.enforced, &concerned, assigned.enforced);
    vports::replace(&mut plan.vports, concerned, assigned.vports);
    Some(Arc::new(plan))
}

/// Replaces the entries of the ports `concerned` in `map` by `assigned`.
fn replace<T>(
    map: &mut BTreeMap<PortKey, T>,
    concerned: &BTreeSet<PortKey>,
    assigned: BTreeMap<PortKey, T>,
) {
    for port in concerned {
        map.remove(port);
    }
    map.extend(assigned);
}

/// The ports of a node, and the ports at the other ends of its cables. If such a cable leads to a
/// host, also the ports at the other ends of all cables of that host.
fn ports_and_peers(fabric: &Fabric, node: &Node) -> Vec<PortKey> {
    let numbers = (0..=u8::MAX).map(PortNum).take(node.ports.len());
    let mut ports: Vec<PortKey> = numbers
        .map(|number| PortKey::new(node.guid, number))
        .collect();
    for (_, peer) in node.cables() {
        ports.push(peer);
        // The switch port at a host enforces the host's keys.
        let other = fabric.node_of(peer.node);
        let host = other.filter(|other| other.kind() != NodeType::Switch);
        ports.extend(host.into_iter().flat_map(Node::cables).map(|(_, at)| at));
    }
    ports
}

fn is_end_port(fabric: &Fabric, at: PortRef) -> bool {
    let mut ends = fabric.node(at.node).end_ports();
    ends.any(|(number, _)| number == at.port)
}
