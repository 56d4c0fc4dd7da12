//! Firmware by type of device: which version is usual, and which nodes differ.

use std::collections::BTreeMap;

use crate::v1;

/// Nodes of one type of device with one version of firmware.
#[derive(Debug, Clone, PartialEq)]
pub struct FirmwareGroup<'a> {
    /// The type of the device.
    pub device: &'a str,
    /// The parameter set ID (PSID) of the board; empty if it is not known. Boards of one type with
    /// different PSIDs have different firmware.
    pub psid: &'a str,
    /// The version; empty if it is not known.
    pub version: &'a str,
    /// The reason why the version is not known; empty if it is known.
    pub reason: &'a str,
    /// The nodes, in the order of the list; never empty.
    pub nodes: Vec<&'a v1::DeviceFirmware>,
    /// Whether the usual version of the type and PSID is another one.
    pub differs: bool,
    /// Whether the group is the only node of its type in a large fabric: perhaps the wrong device.
    pub lone: bool,
}

/// The number of nodes with a known version from which on the only node of a type is conspicuous.
const MANY_NODES: usize = 10;

/// Groups nodes by type, PSID and version, or by the reason why the version is not known. Within a
/// type and PSID, the version that most nodes have is the usual one and comes first. Nodes whose
/// version is not known come last in their type.
pub fn groups(nodes: &[v1::DeviceFirmware]) -> Vec<FirmwareGroup<'_>> {
    let mut by_version: BTreeMap<[&str; 4], Vec<&v1::DeviceFirmware>> = BTreeMap::new();
    for node in nodes {
        let key = [&node.device, &node.psid, &node.version, &node.reason];
        by_version
            .entry(key.map(String::as_str))
            .or_default()
            .push(node);
    }
    let groups = by_version.into_iter().map(|(key, nodes)| {
        let [device, psid, version, reason] = key;
        FirmwareGroup {
            device,
            psid,
            version,
            reason,
            nodes,
            differs: false,
            lone: false,
        }
    });
    let mut groups: Vec<FirmwareGroup<'_>> = groups.collect();
    groups.sort_by(|one, other| {
        let order = |group: &FirmwareGroup<'_>| (group.version.is_empty(), group.nodes.len());
        let ((a, many), (b, more)) = (order(one), order(other));
        let by_type = (one.device, a, one.psid).cmp(&(other.device, b, other.psid));
        // If equally many nodes have two versions, the newer version is the usual one.
        by_type
            .then(more.cmp(&many))
            .then_with(|| numbers(other.version).cmp(&numbers(one.version)))
    });
    let mut usual: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for group in groups.iter_mut().filter(|group| !group.version.is_empty()) {
        let usual = usual.entry((group.device, group.psid));
        group.differs = *usual.or_insert(group.version) != group.version;
    }
    mark_lone(&mut groups);
    groups
}

/// Marks the groups that are the only node of their type in a large fabric.
fn mark_lone(groups: &mut [FirmwareGroup<'_>]) {
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups.iter().filter(|group| group.reason.is_empty()) {
        *nodes.entry(group.device).or_default() += group.nodes.len();
    }
    if nodes.values().sum::<usize>() < MANY_NODES {
        return;
    }
    for group in groups.iter_mut().filter(|group| group.reason.is_empty()) {
        group.lone = nodes[group.device] == 1;
    }
}

/// The numbers between the dots of a version; 0 for a part that is not a number.
fn numbers(version: &str) -> Vec<u64> {
    let numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_the_usual_version_of_their_type_and_psid_differ() {
        let node = |device: &str, psid: &str, version: &str| v1::DeviceFirmware {
            device: device.to_owned(),
            psid: psid.to_owned(),
            version: version.to_owned(),
            reason: if version.is_empty() { "silent" } else { "" }.to_owned(),
            ..v1::DeviceFirmware::default()
        };
        let nodes = [
            node("ConnectX-7", "A", "28.38.1002"),
            node("ConnectX-7", "A", "28.39.1002"),
            node("ConnectX-7", "A", "28.39.1002"),
            node("ConnectX-7", "OEM", "28.38.900"),
            node("ConnectX-7", "", ""),
            node("Quantum-2", "B", "31.9.1"),
            node("Quantum-2", "B", "31.10.1"),
        ];
        let groups = groups(&nodes);
        let shown: Vec<_> = groups
            .iter()
            .map(|one| (one.device, one.version, one.nodes.len(), one.differs))
            .collect();
        let expected = [
            ("ConnectX-7", "28.39.1002", 2, false),
            ("ConnectX-7", "28.38.1002", 1, true),
            ("ConnectX-7", "28.38.900", 1, false),
            ("ConnectX-7", "", 1, false),
            ("Quantum-2", "31.10.1", 1, false),
            ("Quantum-2", "31.9.1", 1, true),
        ];
        assert_eq!(shown, expected);
    }
}
