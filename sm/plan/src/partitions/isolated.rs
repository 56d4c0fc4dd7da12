//! The finding about hosts that partitions separate from all other hosts.

use std::collections::BTreeMap;

use rsm_mad::wire::attr::{NodeType, PKey};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::PartitionPlan;
use super::foreseen::list_names;

/// P_Keys of a port without a table (IBA 10.9.2).
const DEFAULT_P_KEYS: [PKey; 1] = [PKey::DEFAULT_FULL];

/// The finding about ports of hosts that cannot communicate with any other host's port: none of
/// their partitions has another member, or all members are limited. The port of the subnet manager
/// does not count as a host. The finding is an error, because the subnet carries hardly any traffic
/// of hosts.
///
/// `None` if fewer than three quarters of all ports of hosts are isolated: in a fabric of tenants,
/// some ports may wait for a partition. Returns at once if all ports are full members of one
/// partition.
pub(crate) fn isolated_hosts(fabric: &Fabric, plan: &PartitionPlan) -> Option<Finding> {
    if plan.partitioned_ports == 0 {
        return None;
    }
    let ends = fabric.end_ports().map(|(at, _)| at);
    let is_host = |at: &PortRef| {
        fabric.node(at.node).kind() != NodeType::Switch
            && fabric.local != Some(*at)
            && fabric.switch_around(*at).is_none()
    };
    let hosts: Vec<PortRef> = ends.filter(is_host).collect();
    if hosts.len() < 2 {
        return None;
    }
    // Numbers of limited and full members of each partition, by the base of the P_Key.
    let mut members: BTreeMap<u16, [usize; 2]> = BTreeMap::new();
    for &at in &hosts {
        for (base, is_full) in memberships(fabric, plan, at) {
            members.entry(base).or_default()[usize::from(is_full)] += 1;
        }
    }
    let is_isolated = |&&at: &&PortRef| {
        !memberships(fabric, plan, at)
            .into_iter()
            .any(|(base, is_full)| {
                let [limited, full] = members[&base];
                match is_full {
                    true => limited + full > 1,
                    false => full > 0,
                }
            })
    };
    let isolated: Vec<PortRef> = hosts.iter().filter(is_isolated).copied().collect();
    if 4 * isolated.len() < 3 * hosts.len() {
        return None;
    }
    let names: Vec<String> = isolated
        .iter()
        .map(|&at| fabric.port_name(fabric.key(at)))
        .collect();
    let text = format!(
        "{} of {} ports of hosts reach no other host: they share no partition with another host's port in which one \
         of the two is a full member: {}; make them members of a partition (`rsmctl partition add`, `rsmctl partition default`)",
        isolated.len(),
        hosts.len(),
        list_names(&names)
    );
    let kind = FindingKind::PartitionApart;
    Some(Finding::new(kind, Subject::Subnet, Severity::Error, text))
}

/// The partitions of a port, by the base of the P_Key, each with whether the port is a full member.
/// A port with both keys of a partition is a full member.
fn memberships(fabric: &Fabric, plan: &PartitionPlan, at: PortRef) -> BTreeMap<u16, bool> {
    let keys = match fabric.p_key_capacity(at) {
        0 => &DEFAULT_P_KEYS[..],
        _ => plan
            .table(fabric.key(at))
            .map_or(&[][..], |table| &table[..]),
    };
    let mut memberships = BTreeMap::new();
    for key in keys.iter().filter(|key| key.is_valid()) {
        *memberships.entry(key.base()).or_insert(false) |= key.is_full();
    }
    memberships
}
