//! Finds compute ports that are not on their rails.
//!
//! A misplaced cable looks, by numbers, like GPUs or adapters numbered in another order; PCI
//! addresses, which no numbering changes, distinguish the two. A port whose address most hosts of
//! its machine type use has a slot by that address: if it reaches another leaf than its peers'
//! ports, its cable is in a wrong place. Ports at other addresses are never blamed. Without
//! addresses, a host's cables are blamed only if no other order of names explains its leaves.

mod cables;
mod halves;
mod order;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::Explained;
use super::inventories::port_name;
use crate::Analysis;
use crate::claims::JoinFaults;
use crate::fabric::GpuFabric;
use crate::findings::{GpuFinding, GpuFindingKind, PortName};
use crate::hints::target_leaves;
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::join::{Joined, NotJoined};
use crate::peers::{self, Peers};
use crate::rails::Rail;
use crate::roles::TrafficRole;
use rsm_routing::topology::SwitchIdx;

/// A compute port that does not reach the leaf of its rail.
#[derive(Clone)]
struct MisplacedPort {
    /// The position of the host.
    host: usize,
    /// The GPU that the port serves; `None` if the GPU is missing.
    gpu: Option<usize>,
    /// The position of the port.
    port: usize,
    /// The leaf of the port's rail.
    expected: SwitchIdx,
    /// The leaf that the port reaches.
    actual: SwitchIdx,
}

/// The input of the search for faults of rails.
struct RailSearch<'a> {
    analysis: &'a Analysis,
    fabric: &'a GpuFabric,
    peers: &'a Peers,
    faults: &'a [JoinFaults],
    explained: &'a [Explained],
}

/// The findings about rails. Adds to `explained` the devices of hosts that get a question instead
/// of errors.
pub(super) fn find(
    analysis: &Analysis,
    peers: &Peers,
    faults: &[JoinFaults],
    explained: &mut [Explained],
) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let search = RailSearch {
        analysis,
        fabric,
        peers,
        faults,
        explained,
    };
    let mut findings = Vec::new();
    let (questions, mut misplaced) = search.misplaced();
    let off_rail = questions.iter().flat_map(|question| &question.off_rail);
    let reported: BTreeSet<(usize, usize)> = misplaced
        .iter()
        .chain(off_rail)
        .map(|port| (port.host, port.port))
        .collect();
    let doubtful: BTreeSet<usize> = questions.iter().map(|question| question.host).collect();
    let with_wrong_cables: BTreeSet<usize> = misplaced
        .iter()
        .map(|port| port.host)
        .chain(doubtful.iter().copied())
        .collect();
    findings.extend(questions.iter().map(|question| search.question(question)));
    search.racks(&mut misplaced, &mut findings);
    search.cables(misplaced, &doubtful, &mut findings);
    search.halves(&mut findings);
    search.orders_of_units(&mut findings);
    search.gpu_order(&mut findings);
    search.device_order(&with_wrong_cables, &mut findings);
    search.shared_leaves(&reported, &mut findings);
    for question in &questions {
        let gpus = 0..analysis.hosts[question.host].inventory.gpus.len();
        explained[question.host].ports.extend(&question.missing);
        explained[question.host].gpus.extend(gpus);
    }
    findings
}

/// A host whose ports may be at other leaves because of their cables or because of their names.
struct Question {
    host: usize,
    /// The ports at other leaves than their names imply.
    off_rail: Vec<MisplacedPort>,
    /// The ports that the fabric does not have under their names.
    missing: Vec<usize>,
}

impl RailSearch<'_> {
    /// The hosts to ask about, and the ports whose cables are in a wrong place.
    fn misplaced(&self) -> (Vec<Question>, Vec<MisplacedPort>) {
        let of_host = |place: usize| (place, self.off_rail(place));
        let hosts = 0..self.analysis.hosts.len();
        let of_hosts: Vec<(usize, Vec<MisplacedPort>)> =
            hosts.into_par_iter().map(of_host).collect();
        let of_rails = self.leaves_of_rails();
        let (mut questions, mut misplaced) = (Vec::new(), Vec::new());
        for (host, off_rail) in of_hosts {
            let by_address = self.is_own(host) && self.peers.of_host[host].is_some();
            if by_address || off_rail.is_empty() {
                misplaced.extend(off_rail);
                continue;
            }
            let missing = self.missing(host);
            match self.may_be_names(host, &off_rail, &missing, &of_rails) {
                true => questions.push(Question {
                    host,
                    off_rail,
                    missing,
                }),
                false => misplaced.extend(off_rail),
            }
        }
        (questions, misplaced)
    }

    /// The ports of a host that should be in the fabric, but are not there under their names.
    fn missing(&self, host: usize) -> Vec<usize> {
        let host = &self.analysis.hosts[host];
        let is_missing = |port: &usize| {
            let absent = Joined::Not(NotJoined::NotInFabric);
            host.roles[*port].0 != TrafficRole::Outside && host.joined[*port] == absent
        };
        (0..host.joined.len()).filter(is_missing).collect()
    }

    /// Whether shifted names of devices explain the leaves of a host's ports: a missing adapter
    /// shifts the names after it, the host reaches every leaf that it should, or more ports are at
    /// other leaves than misplaced cables explain.
    fn may_be_names(
        &self,
        host: usize,
        off_rail: &[MisplacedPort],
        missing: &[usize],
        of_rails: &BTreeSet<SwitchIdx>,
    ) -> bool {
        let of_host = &self.analysis.hosts[host];
        let others = (0..of_host.roles.len())
            .filter(|&port| of_host.slot(port).is_none())
            .filter_map(|port| self.leaf(of_host, port));
        let mut unreached: Vec<SwitchIdx> = off_rail.iter().map(|port| port.expected).collect();
        let mut surplus = 0;
        for port in off_rail {
            match unreached.iter().position(|leaf| *leaf == port.actual) {
                Some(at) => drop(unreached.swap_remove(at)),
                None => surplus += 1,
            }
        }
        for leaf in others.filter(|leaf| of_rails.contains(leaf)) {
            unreached.retain(|unreached| *unreached != leaf);
        }
        !missing.is_empty() || unreached.is_empty() || off_rail.len() > surplus
    }

    /// Whether the host reported its own inventory: only then cables and numbering can be
    /// distinguished.
    fn is_own(&self, place: usize) -> bool {
        let own = self.analysis.hosts[place].origin == HostOrigin::Own;
        own && self.faults[place].foreign.is_none()
    }

    fn leaf(&self, host: &Host, port: usize) -> Option<SwitchIdx> {
        peers::leaf(host, port, self.fabric)
    }

    fn name(&self, host: usize, port: usize) -> PortName {
        port_name(&self.analysis.hosts[host], port)
    }

    /// The ports of a host that reach other leaves than the ports of most hosts, each once.
    fn off_rail(&self, place: usize) -> Vec<MisplacedPort> {
        match self.peers.of_host[place] {
            _ if self.faults[place].foreign.is_some() => Vec::new(),
            Some(_) => self.off_rail_by_place(place),
            None => self.off_rail_by_number(place),
        }
    }

    /// The misplaced ports of a host whose slots follow from PCI addresses.
    fn off_rail_by_place(&self, place: usize) -> Vec<MisplacedPort> {
        let host = &self.analysis.hosts[place];
        // Ports equally far from every GPU serve whichever GPU is on their rail.
        let mut alike: BTreeMap<Vec<_>, Vec<MisplacedPort>> = BTreeMap::new();
        for (slot, port) in host.slots.iter().enumerate() {
            let rail = self.analysis.rails.rail(place, slot).filter(Rail::is_sure);
            let (Some(port), Some(rail)) = (*port, rail) else {
                continue;
            };
            let Some(actual) = self.leaf(host, port).filter(|leaf| *leaf != rail.leaf) else {
                continue;
            };
            let gpus = 0..host.inventory.gpus.len();
            let tiers = gpus.map(|gpu| host.inventory.tier(gpu, port)).collect();
            alike.entry(tiers).or_default().push(MisplacedPort {
                host: place,
                gpu: None,
                port,
                expected: rail.leaf,
                actual,
            });
        }
        let groups = alike.into_values().filter(|group| !within_rails(group));
        let mut out: Vec<MisplacedPort> = groups.flatten().collect();
        if !out.is_empty() {
            let ports: Vec<usize> = host.compute_slots().collect();
            let assigned = host.assign_among(&ports, |_, _| 0);
            for one in &mut out {
                one.gpu = assigned.iter().position(|ports| ports.contains(&one.port));
            }
        }
        out
    }

    /// The misplaced ports of a host whose slots follow from the order of its devices.
    fn off_rail_by_number(&self, place: usize) -> Vec<MisplacedPort> {
        let host = &self.analysis.hosts[place];
        let rails = &self.analysis.rails;
        let sure = |port: usize| {
            let slot = host.slot(port)?;
            rails.rail(place, slot).filter(Rail::is_sure)
        };
        let targets = target_leaves(host, place, Some(rails));
        let misfit = |gpu: usize, port: usize| match self.leaf(host, port) {
            Some(leaf) if !targets[gpu].is_empty() => u64::from(!targets[gpu].contains(&leaf)),
            _ => 0,
        };
        // Include ports that are down: their absence must not shift the other ports off their
        // rails.
        let ports: Vec<usize> = host.compute_slots().collect();
        let assigned = host.assign_among(&ports, misfit);
        let plain = host.assign_among(&ports, |_, _| 0);
        let mut out: Vec<MisplacedPort> = Vec::new();
        for (gpu, ports) in assigned.iter().enumerate() {
            for (choice, &port) in ports.iter().enumerate() {
                let Some(actual) = self.leaf(host, port) else {
                    continue;
                };
                let own = plain[gpu].get(choice).copied();
                let Some(expected) = own.and_then(sure).map(|rail| rail.leaf) else {
                    continue;
                };
                if targets[gpu].contains(&actual) || out.iter().any(|seen| seen.port == port) {
                    continue;
                }
                out.push(MisplacedPort {
                    host: place,
                    gpu: Some(gpu),
                    port,
                    expected,
                    actual,
                });
            }
        }
        out
    }

    /// A finding about a host, with the names of these ports and the GPUs that they serve.
    fn finding(
        &self,
        kind: GpuFindingKind,
        host: usize,
        off_rail: &[MisplacedPort],
        evidence: String,
    ) -> GpuFinding {
        let inventory = &self.analysis.hosts[host].inventory;
        let mut gpus: Vec<u16> = off_rail
            .iter()
            .filter_map(|port| Some(inventory.gpus[port.gpu?].index))
            .collect();
        gpus.sort_unstable();
        let mut ports: Vec<PortName> = off_rail
            .iter()
            .map(|port| self.name(port.host, port.port))
            .collect();
        ports.sort();
        GpuFinding {
            gpus,
            ports,
            ..GpuFinding::new(kind, &self.analysis.hosts[host].name, evidence)
        }
    }

    /// The finding that asks whether cables or names are wrong.
    fn question(&self, question: &Question) -> GpuFinding {
        let names: Vec<String> = question
            .missing
            .iter()
            .map(|&port| self.name(question.host, port).device)
            .collect();
        let missing = match names.is_empty() {
            true => String::new(),
            false => format!(" and the fabric has no {}", names.join(", ")),
        };
        let (ports, cables) = match question.off_rail.len() {
            1 => ("1 port is".to_owned(), "a cable is".to_owned()),
            many => (format!("{many} ports are"), format!("{many} cables are")),
        };
        let evidence = format!(
            "{ports} not at the leaves of their names{missing}: names have shifted, or {cables} in wrong places"
        );
        let kind = GpuFindingKind::RailOrderUnknown;
        self.finding(kind, question.host, &question.off_rail, evidence)
    }

    /// Reports ports of one host that share a leaf, while the host's other ports have leaves of
    /// their own.
    fn shared_leaves(&self, reported: &BTreeSet<(usize, usize)>, findings: &mut Vec<GpuFinding>) {
        for (place, host) in self.analysis.hosts.iter().enumerate() {
            let mut at: BTreeMap<SwitchIdx, Vec<usize>> = BTreeMap::new();
            for port in host.compute_slots() {
                if let Some(leaf) = self.leaf(host, port) {
                    at.entry(leaf).or_default().push(port);
                }
            }
            let few = at.values().map(Vec::len).min().unwrap_or(0);
            for (leaf, ports) in at.iter().filter(|(_, ports)| ports.len() > few) {
                let by_design = ports.iter().all(|&port| {
                    let rail = host
                        .slot(port)
                        .and_then(|slot| self.analysis.rails.rail(place, slot));
                    rail.is_some_and(|rail| rail.leaf == *leaf && rail.votes > 1 && rail.is_sure())
                });
                if by_design || ports.iter().any(|&port| reported.contains(&(place, port))) {
                    continue;
                }
                let evidence = format!(
                    "{} ports end at {}, the host's others at leaves of their own",
                    ports.len(),
                    self.fabric.switch_name(*leaf)
                );
                let kind = GpuFindingKind::RailsShareLeaf;
                let mut finding = GpuFinding::new(kind, &host.name, evidence);
                finding.ports = ports.iter().map(|&port| self.name(place, port)).collect();
                findings.push(finding);
            }
        }
    }
}

/// Whether the ports on wrong rails only exchange leaves with each other.
fn within_rails(off_rail: &[MisplacedPort]) -> bool {
    let leaves = |of: fn(&MisplacedPort) -> SwitchIdx| {
        let mut leaves: Vec<SwitchIdx> = off_rail.iter().map(of).collect();
        leaves.sort_unstable();
        leaves
    };
    leaves(|port| port.expected) == leaves(|port| port.actual)
}
