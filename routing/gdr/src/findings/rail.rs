//! Compute ports that are not on their rails.
//!
//! A cable in a wrong place and GPUs or adapters numbered in another order look alike from the
//! numbers; PCI addresses, which no numbering changes, tell the two apart: when the adapters, in
//! the order of their addresses, reach the same leaves as those of most hosts of the unit, the
//! cables are right.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::{GpuFinding, GpuFindingKind, PortName};
use crate::Analysis;
use crate::fabric::GpuFabric;
use crate::hints::wanted;
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::rails::{Rail, vote};
use rsm_routing::topology::SwitchIdx;

/// A compute port that does not reach the leaf of its GPU.
#[derive(Clone)]
struct Astray {
    host: usize,
    gpu: usize,
    port: usize,
    expected: SwitchIdx,
    actual: SwitchIdx,
}

struct Search<'a> {
    analysis: &'a Analysis,
    fabric: &'a GpuFabric,
}

pub(super) fn find(analysis: &Analysis) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let search = Search { analysis, fabric };
    let orders: Vec<Option<Vec<usize>>> = analysis.hosts.par_iter().map(Host::pci_order).collect();
    let of_units = analysis.rails.units.par_iter().map(|unit| {
        let positions = vote(unit, &analysis.hosts, |host, place| {
            let order = orders[host].as_ref()?;
            search.leaf(&analysis.hosts[host], *order.get(place)?)
        });
        let (mut numbered, mut misplaced) = (Vec::new(), Vec::new());
        for &host in &unit.hosts {
            let astray = search.astray(host);
            if astray.is_empty() {
                continue;
            }
            match search.cause(host, orders[host].as_deref(), &positions) {
                Cause::Numbering => numbered.push(search.numbered(host, &astray)),
                Cause::Unknown if search.within_rails(host, &astray) => {
                    numbered.push(search.undecided(host, &astray));
                }
                Cause::Cables | Cause::Unknown => misplaced.extend(astray),
            }
        }
        (numbered, misplaced)
    });
    let of_units: Vec<(Vec<GpuFinding>, Vec<Astray>)> = of_units.collect();
    let (mut findings, mut misplaced) = (Vec::new(), Vec::new());
    for (numbered, astray) in of_units {
        findings.extend(numbered);
        misplaced.extend(astray);
    }
    let reported: BTreeSet<(usize, usize)> = misplaced
        .iter()
        .map(|port| (port.host, port.port))
        .collect();
    let mut astray: BTreeSet<usize> = misplaced.iter().map(|port| port.host).collect();
    astray.extend(
        findings
            .iter()
            .filter_map(|finding| analysis.place(&finding.host)),
    );
    search.cables(misplaced, &mut findings);
    search.device_order(&astray, &mut findings);
    search.shared_leaves(&reported, &mut findings);
    findings
}

enum Cause {
    Cables,
    Numbering,
    Unknown,
}

impl Search<'_> {
    fn leaf(&self, host: &Host, port: usize) -> Option<SwitchIdx> {
        Some(self.fabric.port(host.joined[port].port()?).leaf)
    }

    fn name(&self, host: usize, port: usize) -> PortName {
        let host = &self.analysis.hosts[host];
        PortName {
            host: host.name.clone(),
            device: host.inventory.hca_ports[port].label(),
        }
    }

    /// The ports of a host that reach other leaves than most hosts' do; each once.
    fn astray(&self, place: usize) -> Vec<Astray> {
        let host = &self.analysis.hosts[place];
        let rails = &self.analysis.rails;
        let sure = |port: usize| {
            let slot = host.slot(port)?;
            rails.rail(place, slot).filter(Rail::is_sure)
        };
        let wanted = wanted(host, place, Some(rails));
        let misfit = |gpu: usize, port: usize| match self.leaf(host, port) {
            Some(leaf) if !wanted[gpu].is_empty() => u64::from(!wanted[gpu].contains(&leaf)),
            _ => 0,
        };
        // Ports that work or not: one that is down must not push the others off their rails.
        let assigned = host.assign_among(&host.slots, misfit);
        let plain = host.assign_among(&host.slots, |_, _| 0);
        let mut out: Vec<Astray> = Vec::new();
        for (gpu, ports) in assigned.iter().enumerate() {
            for (choice, &port) in ports.iter().enumerate() {
                let Some(actual) = self.leaf(host, port) else {
                    continue;
                };
                let own = plain[gpu].get(choice).copied();
                let Some(expected) = own.and_then(sure).map(|rail| rail.leaf) else {
                    continue;
                };
                if wanted[gpu].contains(&actual) || out.iter().any(|seen| seen.port == port) {
                    continue;
                }
                out.push(Astray {
                    host: place,
                    gpu,
                    port,
                    expected,
                    actual,
                });
            }
        }
        out
    }

    /// The cause of a host's ports on wrong rails; `order` has its ports by PCI address.
    fn cause(&self, place: usize, order: Option<&[usize]>, positions: &[Option<Rail>]) -> Cause {
        let host = &self.analysis.hosts[place];
        let Some(order) = order.filter(|_| host.origin == HostOrigin::Own) else {
            return Cause::Unknown;
        };
        let fits = order.iter().zip(positions).all(|(&port, rail)| {
            let usual = rail.filter(Rail::is_sure).map(|rail| rail.leaf);
            match self.leaf(host, port) {
                None => true,
                leaf => usual.is_some() && leaf == usual,
            }
        });
        match fits {
            true => Cause::Numbering,
            false => Cause::Cables,
        }
    }

    /// Whether the ports on wrong rails only exchange leaves among themselves.
    fn within_rails(&self, _host: usize, astray: &[Astray]) -> bool {
        let leaves = |of: fn(&Astray) -> SwitchIdx| {
            let mut leaves: Vec<SwitchIdx> = astray.iter().map(of).collect();
            leaves.sort_unstable();
            leaves
        };
        leaves(|port| port.expected) == leaves(|port| port.actual)
    }

    fn finding(
        &self,
        kind: GpuFindingKind,
        host: usize,
        astray: &[Astray],
        evidence: String,
    ) -> GpuFinding {
        let inventory = &self.analysis.hosts[host].inventory;
        let mut gpus: Vec<u16> = astray
            .iter()
            .map(|port| inventory.gpus[port.gpu].index)
            .collect();
        gpus.sort_unstable();
        let mut ports: Vec<PortName> = astray
            .iter()
            .map(|port| self.name(port.host, port.port))
            .collect();
        ports.sort();
        GpuFinding {
            kind,
            host: self.analysis.hosts[host].name.clone(),
            gpus,
            ports,
            evidence,
        }
    }

    fn numbered(&self, host: usize, astray: &[Astray]) -> GpuFinding {
        let evidence = format!(
            "{} GPUs reach leaves of other rails, while the adapters in the order of their PCI addresses reach the usual ones",
            astray.len()
        );
        self.finding(GpuFindingKind::RailOrderGpus, host, astray, evidence)
    }

    fn undecided(&self, host: usize, astray: &[Astray]) -> GpuFinding {
        let evidence = format!("{} ports are on each other's rails", astray.len());
        self.finding(GpuFindingKind::RailOrderUnknown, host, astray, evidence)
    }

    /// Reports the cables: pairs that are in each other's place first, then the others.
    fn cables(&self, mut misplaced: Vec<Astray>, findings: &mut Vec<GpuFinding>) {
        misplaced.sort_by_key(|port| (port.host, port.port));
        let mut waiting: BTreeMap<(SwitchIdx, SwitchIdx), Vec<Astray>> = BTreeMap::new();
        let mut single = Vec::new();
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
        single.extend(waiting.into_values().flatten());
        for port in single {
            let evidence = format!(
                "{} is cabled to {}: expected {}",
                self.name(port.host, port.port),
                self.socket(&port),
                self.fabric.switch_name(port.expected),
            );
            let one = std::slice::from_ref(&port);
            findings.push(self.finding(
                GpuFindingKind::RailCableMisplaced,
                port.host,
                one,
                evidence,
            ));
        }
    }

    fn socket(&self, port: &Astray) -> String {
        let index = self.analysis.hosts[port.host].joined[port.port].port();
        let number = index.map_or(0, |index| self.fabric.port(index).leaf_port.0);
        format!("{} port {number}", self.fabric.switch_name(port.actual))
    }

    fn swapped(&self, one: &Astray, other: &Astray) -> GpuFinding {
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
        if one.host == other.host {
            finding
                .gpus
                .push(self.analysis.hosts[other.host].inventory.gpus[other.gpu].index);
            finding.gpus.sort_unstable();
        }
        finding
    }

    /// Hosts whose adapters are named in another order of rails than those of most hosts of the
    /// unit.
    fn device_order(&self, with_wrong_cables: &BTreeSet<usize>, findings: &mut Vec<GpuFinding>) {
        for unit in &self.analysis.rails.units {
            let order = |place: usize| -> Option<Vec<usize>> {
                let host = &self.analysis.hosts[place];
                let by_name = host.device_names_order()?;
                by_name.into_iter().map(|port| host.slot(port)).collect()
            };
            let told = |place: &&usize| {
                self.analysis.hosts[**place].origin == HostOrigin::Own
                    && !with_wrong_cables.contains(place)
            };
            let orders: Vec<(usize, Vec<usize>)> = unit
                .hosts
                .iter()
                .filter(told)
                .filter_map(|&place| Some((place, order(place)?)))
                .collect();
            let mut count: BTreeMap<(usize, &[usize]), usize> = BTreeMap::new();
            for (_, order) in &orders {
                *count.entry((order.len(), order)).or_default() += 1;
            }
            for (place, order) in &orders {
                let mut alike = count.iter().filter(|((len, _), _)| *len == order.len());
                let mine = count[&(order.len(), &order[..])];
                // Only where most hosts of this shape agree on another order.
                let all: usize = alike.clone().map(|(_, count)| count).sum();
                let Some(((_, usual), _)) = alike.find(|&(_, &count)| 2 * count > all) else {
                    continue;
                };
                if mine * 2 <= all && order != usual {
                    findings.push(self.misnamed(*place, order, usual));
                }
            }
        }
    }

    fn misnamed(&self, place: usize, order: &[usize], usual: &[usize]) -> GpuFinding {
        let host = &self.analysis.hosts[place];
        let rails = |order: &[usize]| {
            let numbers: Vec<String> = order.iter().map(usize::to_string).collect();
            numbers.join(",")
        };
        let names = host.device_names_order().unwrap_or_default();
        let moved = names
            .iter()
            .zip(order)
            .zip(usual)
            .filter(|((_, mine), usual)| mine != usual);
        let mut ports: Vec<PortName> = moved
            .map(|((&port, _), _)| self.name(place, port))
            .collect();
        ports.sort();
        GpuFinding {
            kind: GpuFindingKind::RailOrderHcas,
            host: host.name.clone(),
            gpus: Vec::new(),
            ports,
            evidence: format!(
                "adapters in the order of their names are on rails {}: {} elsewhere",
                rails(order),
                rails(usual)
            ),
        }
    }

    /// Ports of one host at one leaf where the host's others have leaves of their own.
    fn shared_leaves(&self, reported: &BTreeSet<(usize, usize)>, findings: &mut Vec<GpuFinding>) {
        for (place, host) in self.analysis.hosts.iter().enumerate() {
            let mut at: BTreeMap<SwitchIdx, Vec<usize>> = BTreeMap::new();
            for &port in &host.slots {
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
                findings.push(GpuFinding {
                    kind: GpuFindingKind::RailsShareLeaf,
                    host: host.name.clone(),
                    gpus: Vec::new(),
                    ports: ports.iter().map(|&port| self.name(place, port)).collect(),
                    evidence: format!(
                        "{} ports end at {}, the host's others at leaves of their own",
                        ports.len(),
                        self.fabric.switch_name(*leaf)
                    ),
                });
            }
        }
    }
}
