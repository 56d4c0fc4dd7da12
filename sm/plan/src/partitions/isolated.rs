//! The hosts that partitions separate from all other hosts, and the finding about them.

use std::collections::{BTreeMap, HashMap};

use rsm_ids::Guid;
use rsm_mad::wire::attr::{NodeType, PKey};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::netlist::host_of;

use super::PartitionPlan;
use super::foreseen::list_names;

/// P_Keys of a port without a table (IBA 10.9.2).
const DEFAULT_P_KEYS: [PKey; 1] = [PKey::DEFAULT_FULL];

/// The ports of hosts that reach no other host by their partitions.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct IsolatedPorts {
    /// The isolated ports, in the order of the fabric.
    pub ports: Vec<PortRef>,
    /// Number of all ports of hosts.
    pub of: usize,
}

/// The hosts with members in one partition, by number.
#[derive(Default)]
pub(super) struct MemberHosts {
    /// Number of hosts with a member, and the last one.
    any: (usize, Option<usize>),
    /// Number of hosts with a full member, and the last one.
    full: (usize, Option<usize>),
}

impl MemberHosts {
    /// Counts a member. The members of one host must follow each other.
    pub(super) fn add(&mut self, host: usize, is_full: bool) {
        let count = |hosts: &mut (usize, Option<usize>)| {
            hosts.0 += usize::from(hosts.1.replace(host) != Some(host));
        };
        count(&mut self.any);
        if is_full {
            count(&mut self.full);
        }
    }

    /// Whether a member of `host` reaches a member of another host.
    pub(super) fn reaches_other(&self, host: usize, is_full: bool) -> bool {
        let (number, last) = if is_full { self.any } else { self.full };
        number > 1 || (number == 1 && last != Some(host))
    }
}

/// The number of the host of each port, from 0 without gaps. An adapter whose description names no
/// host is a host of its own.
pub(super) fn host_numbers(fabric: &Fabric, ports: impl Iterator<Item = PortRef>) -> Vec<usize> {
    let mut numbers: HashMap<(Option<&str>, Guid), usize> = HashMap::new();
    let number = |at: PortRef| {
        let node = fabric.node(at.node);
        let name = match host_of(node.reported()) {
            None => (None, node.guid),
            host => (host, Guid::ZERO),
        };
        let next = numbers.len();
        *numbers.entry(name).or_insert(next)
    };
    ports.map(number).collect()
}

/// The ports of hosts that share no partition with a port of another host in which one of the two
/// is a full member. The port of the subnet manager does not count as a host. Returns at once if
/// all ports are full members of one partition.
pub fn isolated_ports(fabric: &Fabric, plan: &PartitionPlan) -> IsolatedPorts {
    if plan.partitioned_ports == 0 {
        return IsolatedPorts::default();
    }
    let ends = fabric.end_ports().map(|(at, _)| at);
    let is_host = |at: &PortRef| {
        fabric.node(at.node).kind() != NodeType::Switch
            && fabric.local != Some(*at)
            && fabric.switch_around(*at).is_none()
    };
    let ports: Vec<PortRef> = ends.filter(is_host).collect();
    let numbers = host_numbers(fabric, ports.iter().copied());
    if numbers.iter().all(|&host| host == 0) {
        return IsolatedPorts::default();
    }
    let mut hosts: Vec<(usize, PortRef)> = numbers.into_iter().zip(ports).collect();
    hosts.sort_by_key(|&(host, _)| host);
    let mut members: BTreeMap<u16, MemberHosts> = BTreeMap::new();
    for &(host, at) in &hosts {
        for (base, is_full) in memberships(fabric, plan, at) {
            members.entry(base).or_default().add(host, is_full);
        }
    }
    let isolated = hosts.iter().filter(|&&(host, at)| {
        let mut own = memberships(fabric, plan, at).into_iter();
        !own.any(|(base, is_full)| members[&base].reaches_other(host, is_full))
    });
    let mut ports: Vec<PortRef> = isolated.map(|&(_, at)| at).collect();
    ports.sort_unstable();
    IsolatedPorts {
        ports,
        of: hosts.len(),
    }
}

/// The finding about [`isolated_ports`]. The finding is an error, because the subnet carries hardly
/// any traffic of hosts.
///
/// `None` if fewer than three quarters of all ports of hosts are isolated: in a fabric of tenants,
/// some ports may wait for a partition.
pub(crate) fn isolated_hosts(fabric: &Fabric, plan: &PartitionPlan) -> Option<Finding> {
    let IsolatedPorts { ports, of } = isolated_ports(fabric, plan);
    if ports.is_empty() || 4 * ports.len() < 3 * of {
        return None;
    }
    let names: Vec<String> = ports
        .iter()
        .map(|&at| fabric.port_name(fabric.key(at)))
        .collect();
    let text = format!(
        "{} of {of} ports of hosts reach no other host: they share no partition with another host's port in which one \
         of the two is a full member: {}; make them members of a partition (`rsmctl partition add`, `rsmctl partition default`)",
        ports.len(),
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
    bases(keys)
}

/// The partitions of P_Keys, by their base, each with whether one of them is of a full member.
pub(super) fn bases<'a>(keys: impl IntoIterator<Item = &'a PKey>) -> BTreeMap<u16, bool> {
    let mut bases = BTreeMap::new();
    for key in keys.into_iter().filter(|key| key.is_valid()) {
        *bases.entry(key.base()).or_insert(false) |= key.is_full();
    }
    bases
}
