//! Finds inventories that do not match their hosts (GUIDs, virtual functions, age), and hosts
//! without an inventory.

use std::collections::{BTreeMap, BTreeSet};

use crate::Analysis;
use crate::claims::{InventoryOrigin, JoinFaults};
use crate::findings::{GpuFinding, GpuFindingKind, PortName};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::join::{JoinConflict, JoinKey, Joined, NotJoined};
use crate::peers::is_virtual;
use rsm_routing::topology::SwitchIdx;

/// Reports the faults of one host's inventory.
pub(super) fn find(
    analysis: &Analysis,
    place: usize,
    faults: &JoinFaults,
    findings: &mut Vec<GpuFinding>,
) {
    let host = &analysis.hosts[place];
    let new = |kind, evidence: String| GpuFinding::new(kind, &host.name, evidence);
    let name = |port: usize| port_name(host, port);
    if let Some(foreign) = &faults.foreign {
        let evidence = match foreign {
            InventoryOrigin::OtherHost(other) => format!("its inventory has the GUIDs of {other}"),
            InventoryOrigin::Unknown => {
                "the fabric has its ports by name, and none of its inventory's GUIDs".to_owned()
            }
        };
        findings.push(new(GpuFindingKind::InventoryOfAnotherHost, evidence));
    }
    if !faults.unknown_guids.is_empty() {
        let guid = |&port: &usize| {
            let entry = &host.inventory.hca_ports[port];
            let guid = entry.port_guid.or(entry.node_guid);
            guid.map(|guid| guid.to_string())
        };
        let guids: Vec<String> = faults.unknown_guids.iter().filter_map(guid).collect();
        let evidence = format!(
            "the fabric has the ports by name, and not under {}",
            guids.join(", ")
        );
        let common = "the fabric has the ports by name, and not under the inventory's GUIDs";
        let mut finding = new(GpuFindingKind::GuidUnknown, evidence)
            .like_others(common.to_owned(), guids.join(" "));
        finding.ports = faults
            .unknown_guids
            .iter()
            .map(|&port| name(port))
            .collect();
        findings.push(finding);
    }
    claims(analysis, place, faults, findings);
    for conflict in &faults.conflicts {
        findings.extend(conflicting(analysis, host, conflict));
    }
    let functions: Vec<usize> = (0..host.inventory.hca_ports.len())
        .filter(|&port| is_virtual(host, port))
        .collect();
    if !functions.is_empty() {
        let evidence = format!("{} virtual functions in the inventory", functions.len());
        let mut finding = new(GpuFindingKind::VirtualFunctions, evidence);
        finding.ports = functions.into_iter().map(name).collect();
        findings.push(finding);
    }
    if let Some(evidence) = unknown_members(host) {
        findings.push(new(GpuFindingKind::UnknownMembers, evidence));
    }
    let age = analysis.config.now.saturating_sub(host.seen);
    let most = analysis.config.max_age.filter(|&most| age > most);
    if let Some(most) = most
        && host.origin == HostOrigin::Own
    {
        // The evidence omits the age, so that hosts of different ages share a finding.
        let evidence = format!("no report of the host for more than {most} seconds");
        findings.push(new(GpuFindingKind::StaleInventory, evidence));
    }
}

/// The maximum number of unknown members that a finding names.
const MAX_MEMBERS: usize = 8;

/// The text about members of the inventory that this version does not know; `None` without such
/// members.
fn unknown_members(host: &Host) -> Option<String> {
    let members = &host.inventory.unknown_members;
    let named = members[..members.len().min(MAX_MEMBERS)].join(", ");
    let rest = match members.len().saturating_sub(MAX_MEMBERS) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    (!members.is_empty())
        .then(|| format!("its inventory has members that this rsm does not know: {named}{rest}"))
}

/// The name of the port at a position in the host's inventory.
pub(super) fn port_name(host: &Host, port: usize) -> PortName {
    PortName {
        host: host.name.clone(),
        device: host.inventory.hca_ports[port].label(),
    }
}

/// Reports ports whose GUIDs another host also has, and keeps; one finding for each such host.
fn claims(analysis: &Analysis, place: usize, faults: &JoinFaults, findings: &mut Vec<GpuFinding>) {
    let host = &analysis.hosts[place];
    let mut by_holder: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for claim in &faults.claims {
        let ports = by_holder.entry(claim.holder).or_default();
        ports.push((claim.port, claim.holders_port));
    }
    for (holder, ports) in by_holder {
        let other = &analysis.hosts[holder];
        let described = |name| analysis.fabric.as_ref()?.described_host(name);
        let evidence = match described(&host.name) {
            Some(name) if described(&other.name) == Some(name) => format!(
                "{} and {} are one host in the fabric, and {} keeps its ports",
                other.name, host.name, other.name
            ),
            _ => format!(
                "{} of its GUIDs are those of ports that {} has as well, which keeps them",
                ports.len(),
                other.name
            ),
        };
        let mut finding = GpuFinding::new(GpuFindingKind::PortClaimedTwice, &host.name, evidence);
        finding.ports = ports
            .iter()
            .map(|&(port, _)| port_name(host, port))
            .collect();
        findings.push(finding);
    }
}

/// The finding about a port whose GUID and name lead to different ports of the fabric.
fn conflicting(analysis: &Analysis, host: &Host, conflict: &JoinConflict) -> Option<GpuFinding> {
    let fabric = analysis.fabric.as_ref()?;
    let by_key = |(key, index): (JoinKey, u32)| {
        let port = fabric.port(index);
        format!(
            "{} says {} ({})",
            key.name(),
            port.guid,
            port.description.escape_debug()
        )
    };
    let evidence = format!("{}, {}", by_key(conflict.kept), by_key(conflict.other));
    let mut finding = GpuFinding::new(GpuFindingKind::JoinConflict, &host.name, evidence);
    finding.ports.push(port_name(host, conflict.port));
    Some(finding)
}

/// The findings about hosts of the fabric without an inventory that are cabled like GPU hosts: to
/// at least half of the rails of their unit, and by at least two ports.
pub(super) fn unlisted(analysis: &Analysis) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let mut unit_of: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
    for (number, unit) in analysis.rails.units.iter().enumerate() {
        let leaves = unit.rails.iter().flatten().map(|rail| rail.leaf);
        unit_of.extend(leaves.map(|leaf| (leaf, number)));
    }
    let joined: BTreeSet<u32> = analysis
        .hosts
        .iter()
        .flat_map(|host| {
            host.joined
                .iter()
                .filter_map(|joined| Joined::port(*joined))
        })
        .collect();
    let mut found = Vec::new();
    for (name, devices) in fabric.hosts() {
        let ports: Vec<u32> = devices.values().flatten().copied().collect();
        if analysis.place(name).is_some() || ports.iter().any(|port| joined.contains(port)) {
            continue;
        }
        let mut count: BTreeMap<usize, BTreeSet<SwitchIdx>> = BTreeMap::new();
        for &port in &ports {
            let leaf = fabric.port(port).leaf;
            if let Some(&unit) = unit_of.get(&leaf) {
                count.entry(unit).or_default().insert(leaf);
            }
        }
        let like_others = count.iter().any(|(&unit, leaves)| {
            let rails = analysis.rails.units[unit].rails.iter().flatten();
            let all: BTreeSet<SwitchIdx> = rails.map(|rail| rail.leaf).collect();
            let enough = 2 * leaves.len() >= all.len();
            enough && (leaves.len() > 1 || all.len() == 1 && ports.len() > 1)
        });
        if like_others {
            found.push(GpuFinding::new(
                GpuFindingKind::NoInventory,
                &name.replace(char::is_control, "\u{fffd}"),
                "cabled to the rails of GPU hosts, and without an inventory".to_owned(),
            ));
        }
    }
    found
}

/// The text about a port that is not in the fabric; `None` if another finding reports the reason.
pub(super) const fn missing_text(reason: NotJoined) -> Option<&'static str> {
    match reason {
        NotJoined::Ethernet | NotJoined::Taken | NotJoined::VirtualFunction => None,
        NotJoined::Down => Some("the host says that they are down"),
        NotJoined::NotInFabric => Some("nothing in the fabric has their GUIDs or names"),
        NotJoined::Ambiguous => Some("several ports of the fabric match"),
    }
}
