//! Finds cables that end at leaves of other rails, and storage cables at leaves of rails.

use std::collections::{BTreeMap, BTreeSet};

use super::{MisplacedPort, RailSearch};
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::peers::key;
use crate::roles::TrafficRole;
use rsm_routing::topology::SwitchIdx;

/// A storage port at the leaf of a rail.
struct Storage {
    host: usize,
    port: usize,
    leaf: SwitchIdx,
}

impl RailSearch<'_> {
    /// Reports the cables of `misplaced` ports and of storage ports at leaves of rails: swapped
    /// pairs first, then single cables.
    ///
    /// Storage ports of `doubtful` hosts are left out, because a question is asked about them.
    pub(super) fn cables(
        &self,
        mut misplaced: Vec<MisplacedPort>,
        doubtful: &BTreeSet<usize>,
        findings: &mut Vec<GpuFinding>,
    ) {
        misplaced.sort_by_key(|port| (port.host, port.port));
        // The ports without a partner so far, by their expected and their actual leaf.
        let mut waiting: BTreeMap<(SwitchIdx, SwitchIdx), Vec<MisplacedPort>> = BTreeMap::new();
        for port in misplaced {
            let partners = waiting.get_mut(&(port.actual, port.expected));
            match partners.filter(|partners| !partners.is_empty()) {
                Some(partners) => {
                    let other = partners.remove(0);
                    findings.push(self.swapped(&other, &port));
                }
                None => waiting
                    .entry((port.expected, port.actual))
                    .or_default()
                    .push(port),
            }
        }
        let mut single: Vec<MisplacedPort> = waiting.into_values().flatten().collect();
        let of_rails = self.leaves_of_rails();
        let storage = self.storage_on_rails(&of_rails).into_iter();
        for storage in storage.filter(|storage| !doubtful.contains(&storage.host)) {
            // The partner is a compute port that belongs to this leaf, and ends at a leaf of no
            // rail.
            let partner = single
                .iter()
                .position(|port| port.expected == storage.leaf && !of_rails.contains(&port.actual));
            match partner {
                Some(at) => findings.push(self.swapped_with_storage(&single.remove(at), &storage)),
                None => findings.push(self.storage_on_rail(&storage)),
            }
        }
        for port in single {
            let evidence = format!(
                "{} is cabled to {}: expected {}",
                self.name(port.host, port.port),
                self.socket(&port),
                self.fabric.switch_name(port.expected),
            );
            let device = self.name(port.host, port.port).device;
            let [actual, expected] =
                [port.actual, port.expected].map(|leaf| self.fabric.switch_name(leaf));
            let observation = format!("{device} is cabled to {actual}: expected {expected}");
            let of_host = format!("at {}", self.socket(&port));
            let one = std::slice::from_ref(&port);
            let kind = GpuFindingKind::RailCableMisplaced;
            let finding = self.finding(kind, port.host, one, evidence);
            findings.push(finding.like_others(observation, of_host));
        }
    }

    /// The leaves of the rails of all units.
    pub(super) fn leaves_of_rails(&self) -> BTreeSet<SwitchIdx> {
        let units = self.analysis.rails.units.iter();
        let rails = units.flat_map(|unit| unit.rails.iter().flatten());
        rails.map(|rail| rail.leaf).collect()
    }

    /// The leaf and its port to which a misplaced port is cabled, as text.
    fn socket(&self, port: &MisplacedPort) -> String {
        self.socket_of(port.host, port.port, port.actual)
    }

    fn socket_of(&self, host: usize, port: usize, leaf: SwitchIdx) -> String {
        let index = self.analysis.hosts[host].joined[port].port();
        let number = index.map_or(0, |index| self.fabric.port(index).leaf_port.0);
        format!("{} port {number}", self.fabric.switch_name(leaf))
    }

    /// The finding about two ports that are each cabled to the leaf of the other port.
    fn swapped(&self, one: &MisplacedPort, other: &MisplacedPort) -> GpuFinding {
        let evidence = format!(
            "{} is cabled to {} and {} to {}: each belongs where the other one is",
            self.name(one.host, one.port),
            self.socket(one),
            self.name(other.host, other.port),
            self.socket(other),
        );
        let mut finding = self.finding(
            GpuFindingKind::RailCablesSwapped,
            one.host,
            std::slice::from_ref(one),
            evidence,
        );
        finding.ports.push(self.name(other.host, other.port));
        if one.host == other.host
            && let Some(gpu) = other.gpu
        {
            let inventory = &self.analysis.hosts[other.host].inventory;
            finding.gpus.push(inventory.gpus[gpu].index);
            finding.gpus.sort_unstable();
        }
        finding
    }

    /// The storage ports at leaves of rails, if at least half of the ports that should be cabled
    /// alike end elsewhere: the ports at the same place in all hosts of the family, or, without
    /// peers, all storage ports of the host.
    fn storage_on_rails(&self, of_rails: &BTreeSet<SwitchIdx>) -> Vec<Storage> {
        let hosts = &self.analysis.hosts;
        let storage = |host: &Host| -> Vec<(usize, SwitchIdx)> {
            let of_role = |port: &usize| host.roles[*port].0 == TrafficRole::Storage;
            let ports = (0..host.roles.len()).filter(of_role);
            let joined = ports.filter_map(|port| Some((port, self.leaf(host, port)?)));
            joined.collect()
        };
        // For each place of a family, and for each host without peers: the ports at rails' leaves,
        // and all ports.
        let group = |place: usize, port: usize| match self.peers.of_host[place] {
            Some(family) if self.peers.families[family].has_peers() => {
                (Some(family), key(&hosts[place].inventory, port), None)
            }
            _ => (None, None, Some(place)),
        };
        let mut count: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        let mut found = Vec::new();
        for (place, host) in hosts.iter().enumerate() {
            for (port, leaf) in storage(host) {
                let (on_rails, all) = count.entry(group(place, port)).or_default();
                *all += 1;
                if of_rails.contains(&leaf) {
                    *on_rails += 1;
                    found.push(Storage {
                        host: place,
                        port,
                        leaf,
                    });
                }
            }
        }
        found.retain(|one| {
            let (on_rails, all) = count[&group(one.host, one.port)];
            2 * on_rails <= all && on_rails < all
        });
        found
    }

    /// The finding about a storage port at the leaf of a rail.
    fn storage_on_rail(&self, storage: &Storage) -> GpuFinding {
        let host = &self.analysis.hosts[storage.host];
        let name = self.name(storage.host, storage.port);
        let socket = self.socket_of(storage.host, storage.port, storage.leaf);
        let evidence = format!(
            "{name}, a port for storage, is cabled to {socket}: expected a leaf without GPUs"
        );
        let observation = format!(
            "{}, a port for storage, is cabled to {}: expected a leaf without GPUs",
            name.device,
            self.fabric.switch_name(storage.leaf)
        );
        let kind = GpuFindingKind::StorageOnComputeLeaf;
        let mut finding = GpuFinding::new(kind, &host.name, evidence)
            .like_others(observation, format!("at {socket}"));
        finding.ports.push(name);
        finding
    }

    /// The finding about a compute port and a storage port, each cabled to the leaf of the other.
    fn swapped_with_storage(&self, compute: &MisplacedPort, storage: &Storage) -> GpuFinding {
        let name = self.name(storage.host, storage.port);
        let evidence = format!(
            "{} is cabled to {} and {name}, a port for storage, to {}: each belongs where the other one is",
            self.name(compute.host, compute.port),
            self.socket(compute),
            self.socket_of(storage.host, storage.port, storage.leaf),
        );
        let kind = GpuFindingKind::RailCablesSwapped;
        let one = std::slice::from_ref(compute);
        let mut finding = self.finding(kind, compute.host, one, evidence);
        finding.ports.push(name);
        finding
    }
}
