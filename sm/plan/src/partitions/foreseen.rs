//! Findings about partitions in which hosts cannot communicate, before any host tries to: broadcast
//! groups that are too fast for hosts, partitions with limited members only, and rules with GUIDs
//! of nodes in place of ports.

use std::collections::{BTreeMap, BTreeSet};

use rsm_config::{
    Membership, Partition, PartitionGroup, PartitionMembers, PartitionOrigin, Partitions,
};
use rsm_ids::Guid;
use rsm_mad::wire::attr::{Mtu, NodeType, PKey};
use rsm_mad::wire::sa::Rate;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::text::count;

use super::{FINDINGS_SHOWN, PartitionPlan};

/// Maximum number of ports that a finding names; the finding counts the others.
const PORTS_SHOWN: usize = 8;

/// Findings about partitions of the file and of the API on `fabric`. Returns at once if there are
/// no such partitions.
pub(crate) fn foreseen(
    fabric: &Fabric,
    partitions: &Partitions,
    plan: &PartitionPlan,
) -> Vec<Finding> {
    let defined = partitions.list.iter();
    let defined = defined.filter(|one| one.origin != PartitionOrigin::BuiltIn);
    let defined: Vec<&Partition> = defined.collect();
    if defined.is_empty() {
        return Vec::new();
    }
    let hosts = hosts(fabric);
    let mut findings: Vec<Finding> = defined
        .iter()
        .filter_map(|partition| too_fast(fabric, &hosts, partition, plan))
        .collect();
    findings.extend(limited_only(fabric, &hosts, partitions, plan));
    findings.extend(node_guids(fabric, partitions));
    findings
}

/// The ports of channel adapters and routers.
fn hosts(fabric: &Fabric) -> Vec<PortRef> {
    let ends = fabric.end_ports().map(|(at, _)| at);
    let is_host = |at: &PortRef| fabric.node(at.node).kind() != NodeType::Switch;
    ends.filter(is_host).collect()
}

fn warning(kind: FindingKind, text: String) -> Finding {
    Finding::new(kind, Subject::Subnet, Severity::Warning, text)
}

/// Whether the planned table of a port has a key of the partition with this P_Key base.
fn holds(fabric: &Fabric, plan: &PartitionPlan, at: PortRef, base: u16) -> bool {
    let table = plan.table(fabric.key(at));
    table.is_some_and(|table| table.iter().any(|key| key.is_valid() && key.base() == base))
}

/// Lists the first [`PORTS_SHOWN`] of `ports`, and counts the others.
pub(super) fn list_names(ports: &[String]) -> String {
    let shown = ports.iter().take(PORTS_SHOWN).cloned();
    let shown = shown.collect::<Vec<_>>().join(", ");
    match ports.len().saturating_sub(PORTS_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The finding about members whose links cannot carry the broadcast group of a partition with IP
/// over InfiniBand.
fn too_fast(
    fabric: &Fabric,
    hosts: &[PortRef],
    partition: &Partition,
    plan: &PartitionPlan,
) -> Option<Finding> {
    let group = partition.groups.first().filter(|_| partition.ipoib)?;
    let base = partition.p_key.base();
    let members = hosts.iter().filter(|&&at| holds(fabric, plan, at, base));
    let slow: Vec<String> = members
        .filter_map(|&at| {
            let short = shortcoming(fabric, at, group)?;
            Some(format!("{} ({short})", fabric.port_name(fabric.key(at))))
        })
        .collect();
    if slow.is_empty() {
        return None;
    }
    let text = format!(
        "partition `{}` ({}): {} cannot join its broadcast group, which has a rate of {} (code {}) and an MTU of {} bytes (code \
         {}): {}; IP over InfiniBand does not work there for these ports; give the partition a lower `rate` or a smaller `mtu`, or \
         replace the hardware that makes these links slow",
        partition.name,
        partition.p_key,
        count(slow.len(), "port", "ports"),
        Rate(group.rate),
        group.rate,
        group.mtu.bytes().unwrap_or_default(),
        group.mtu.code(),
        list_names(&slow),
    );
    Some(warning(FindingKind::PartitionTooFast, text))
}

/// The rate or MTU of a port's link as text, if it is below that of the group. `None` if the link
/// reaches rate and MTU, or is not up.
fn shortcoming(fabric: &Fabric, at: PortRef, group: &PartitionGroup) -> Option<String> {
    let info = fabric.port(at).info.as_ref()?;
    let rate = Rate::of_link(info.link_rate()?);
    let needed = Rate(group.rate).tenth_gbps()?;
    if rate.tenth_gbps()? < needed {
        return Some(rate.to_string());
    }
    let peer = fabric
        .peer(at)
        .and_then(|peer| fabric.port(peer).info.as_ref());
    let caps = [Some(info), peer].into_iter().flatten();
    let mtu = caps
        .map(|info| info.mtu_cap())
        .min_by_key(|mtu: &Mtu| mtu.code())?;
    let bytes = mtu.bytes()?;
    (mtu.code() < group.mtu.code()).then(|| format!("{bytes} bytes"))
}

/// Findings about partitions with at least two members, all of them limited. A partition in which a
/// rule gives full membership, even to an absent port, has no finding.
fn limited_only(
    fabric: &Fabric,
    hosts: &[PortRef],
    partitions: &Partitions,
    plan: &PartitionPlan,
) -> Vec<Finding> {
    let full = partitions.rules.iter();
    let full = full.filter(|rule| rule.membership != Membership::Limited);
    let with_full: BTreeSet<u16> = full.map(|rule| rule.p_key.base()).collect();
    let all = partitions.list.iter();
    let all = all.filter(|one| !with_full.contains(&one.p_key.base()));
    let findings = all.filter_map(|partition| {
        let base = partition.p_key.base();
        let members = hosts.iter().filter(|&&at| holds(fabric, plan, at, base));
        let members: Vec<String> = members
            .map(|at| fabric.port_name(fabric.key(*at)))
            .collect();
        let text = format!(
            "partition `{}` ({}): all {} members are limited members, which cannot communicate with each other in the \
             partition; make at least one a full member (`=full` in partitions.conf, `rsmctl partition add`): {}",
            partition.name,
            partition.p_key,
            members.len(),
            list_names(&members),
        );
        (members.len() > 1).then(|| warning(FindingKind::PartitionLimitedOnly, text))
    });
    findings.collect()
}

/// Findings about rules that name a node GUID or system image GUID in place of a port GUID.
fn node_guids(fabric: &Fabric, partitions: &Partitions) -> Vec<Finding> {
    let mut ports: Vec<Guid> = fabric
        .end_ports()
        .flat_map(|(_, port)| {
            let vports = port.vports.iter().flat_map(|vports| vports.vports.values());
            vports.map(|vport| vport.guid()).chain([port.guid])
        })
        .collect();
    ports.sort_unstable();
    let mut absent: BTreeMap<Guid, PKey> = BTreeMap::new();
    for rule in &partitions.rules {
        if let PartitionMembers::Port(guid) = rule.members
            && ports.binary_search(&guid).is_err()
        {
            absent.entry(guid).or_insert(rule.p_key);
        }
    }
    if absent.is_empty() {
        return Vec::new();
    }
    let mut nodes: BTreeMap<Guid, (&'static str, Vec<PortRef>)> = BTreeMap::new();
    for (at, _) in fabric.end_ports() {
        let node = fabric.node(at.node);
        let of_node = (node.guid, "node GUID");
        let of_system = (node.info.system_image_guid(), "system image GUID");
        for (guid, kind) in [of_node, of_system] {
            if absent.contains_key(&guid) {
                let (_, ports) = nodes.entry(guid).or_insert((kind, Vec::new()));
                if !ports.contains(&at) {
                    ports.push(at);
                }
            }
        }
    }
    let named = nodes.iter();
    let mut findings: Vec<Finding> = named
        .take(FINDINGS_SHOWN)
        .map(|(guid, (kind, ports))| {
            node_guid(fabric, partitions, absent[guid], (*guid, kind), ports)
        })
        .collect();
    let more = nodes.len().saturating_sub(FINDINGS_SHOWN);
    if more > 0 {
        let text =
            format!("{more} more members of partitions are node GUIDs or system image GUIDs");
        findings.push(warning(FindingKind::PartitionNodeGuid, text));
    }
    findings
}

fn node_guid(
    fabric: &Fabric,
    partitions: &Partitions,
    p_key: PKey,
    (guid, kind): (Guid, &str),
    ports: &[PortRef],
) -> Finding {
    let guids: Vec<String> = ports
        .iter()
        .map(|&at| {
            let name = fabric.port_name(fabric.key(at));
            format!("{} ({name})", fabric.port(at).guid)
        })
        .collect();
    let name = partitions.find(p_key).map_or("", |found| &found.name);
    let text = format!(
        "partition `{name}` ({p_key}): its member {guid} is a {kind} and not a port GUID, so it makes no port a member; write the \
         GUID of the port instead: {}",
        list_names(&guids)
    );
    warning(FindingKind::PartitionNodeGuid, text)
}
