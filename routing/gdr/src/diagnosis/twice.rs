//! Finds machines of the fabric that describe themselves by the same host name.

use std::collections::BTreeSet;

use super::Explained;
use crate::Analysis;
use crate::fabric::GpuFabric;
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::join::{Joined, NotJoined};

/// Reports the names of GPU hosts with two ports in the fabric for each of several devices, or for
/// the only device. Adds to `explained` the ports that the name does not distinguish.
pub(super) fn find(analysis: &Analysis, explained: &mut [Explained]) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (place, host) in analysis.hosts.iter().enumerate() {
        let Some(devices) = fabric.devices(&host.name) else {
            continue;
        };
        let twice: Vec<(&String, [u32; 2])> = devices
            .iter()
            .filter_map(|(device, ports)| Some((device, two_of_one_number(fabric, ports)?)))
            .collect();
        let Some((device, ends)) = twice.first() else {
            continue;
        };
        if twice.len() < 2.min(devices.len()) {
            continue;
        }
        let ends = ends.map(|port| {
            let port = fabric.port(port);
            format!("{} port {}", fabric.switch_name(port.leaf), port.leaf_port)
        });
        let evidence = format!(
            "{} devices of this name are in the fabric twice: {device} at {}",
            twice.len(),
            ends.join(" and at ")
        );
        let kind = GpuFindingKind::HostNameTwice;
        findings.push(GpuFinding::new(kind, &host.name, evidence));
        let unclear = (0..host.joined.len())
            .filter(|&port| host.joined[port] == Joined::Not(NotJoined::Ambiguous));
        let before = explained[place].ports.len();
        explained[place].ports.extend(unclear);
        if explained[place].ports.len() > before {
            explained[place].gpus.extend(0..host.inventory.gpus.len());
        }
    }
    findings
}

/// Two ports of the same number, which belong to two nodes rather than to one node with two ports;
/// `None` if all numbers differ.
fn two_of_one_number(fabric: &GpuFabric, ports: &[u32]) -> Option<[u32; 2]> {
    let mut seen = BTreeSet::new();
    let again = ports
        .iter()
        .find(|&&port| !seen.insert(fabric.port(port).port))?;
    let number = fabric.port(*again).port;
    let first = ports
        .iter()
        .find(|&&port| fabric.port(port).port == number)?;
    Some([*first, *again])
}
