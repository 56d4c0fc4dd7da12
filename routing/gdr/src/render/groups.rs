//! Groups hosts for schedulers: scalable units, and NVLink domains.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;
use rsm_routing::topology::{SwitchIdx, Topology};

use super::RenderError;
use super::pods::Pods;
use crate::Analysis;
use crate::fabric::GpuFabric;
use crate::host::Host;
use crate::hosts::is_host_name;
use crate::roles::TrafficRole;

/// A group of hosts.
pub(super) struct Group<'a> {
    /// The name of the group: plain characters, unique among groups.
    pub(super) name: String,
    /// The kind of group, for comments.
    pub(super) what: String,
    /// The hosts, sorted by name.
    pub(super) hosts: Vec<&'a str>,
    /// The names of the larger groups that contain this group, smallest first; the last is the
    /// connected part of the fabric.
    pub(super) within: Vec<String>,
}

/// The names of groups, which do not change when other groups appear or disappear. A group of hosts
/// has the lowest GUID of its leaves in its name, a connected part the GUID of a switch above its
/// units.
struct Names<'a> {
    fabric: &'a GpuFabric,
    /// The switch that gives each connected part its name.
    parts: BTreeMap<usize, Guid>,
    pods: Pods,
}

impl<'a> Names<'a> {
    fn new(analysis: &Analysis, fabric: &'a GpuFabric) -> Names<'a> {
        let topology = &fabric.topology;
        let mut leaves: BTreeMap<usize, BTreeSet<SwitchIdx>> = BTreeMap::new();
        let of_units = analysis.rails.units.iter().flat_map(|unit| &unit.leaves);
        for &leaf in of_units {
            let part = topology.component_of(leaf);
            leaves.entry(part).or_default().insert(leaf);
        }
        let with_units: BTreeSet<usize> = leaves.keys().copied().collect();
        for port in fabric.ports() {
            let part = topology.component_of(port.leaf);
            if !with_units.contains(&part) {
                leaves.entry(part).or_default().insert(port.leaf);
            }
        }
        let anchor = |(part, leaves)| (part, topmost(topology, &leaves));
        let parts = leaves.into_iter().map(anchor).collect();
        Names {
            fabric,
            parts,
            pods: Pods::find(analysis, topology),
        }
    }

    /// The name of a group of this kind with these leaves.
    fn named(&self, kind: &str, leaves: &[SwitchIdx]) -> String {
        let guids = leaves
            .iter()
            .map(|&leaf| self.fabric.topology.switch(leaf).guid);
        format!("{kind}-{:016x}", guids.min().unwrap_or(Guid::ZERO).0)
    }

    /// The names of the groups around a leaf, smallest first.
    fn around(&self, leaf: Option<&SwitchIdx>) -> Vec<String> {
        let Some(&leaf) = leaf else {
            return vec![format!("fabric-{:016x}", 0)];
        };
        let part = self.fabric.topology.component_of(leaf);
        let guid = self.parts.get(&part).unwrap_or(&Guid::ZERO);
        let part = format!("fabric-{:016x}", guid.0);
        self.pods.around(leaf).chain([part]).collect()
    }
}

/// The GUID of the switch with the smallest distance to its farthest leaf, the lowest GUID on a
/// tie. This is a top switch, which remains when a unit is removed with its leaves. There must be
/// at least one leaf, and all leaves must belong to one connected part.
fn topmost(topology: &Topology, leaves: &BTreeSet<SwitchIdx>) -> Guid {
    let mut farthest = vec![0u32; topology.switch_count()];
    let mut hops = vec![u32::MAX; topology.switch_count()];
    let mut reached: Vec<SwitchIdx> = Vec::new();
    for &leaf in leaves {
        for switch in reached.drain(..) {
            hops[switch.index()] = u32::MAX;
        }
        hops[leaf.index()] = 0;
        reached.push(leaf);
        let mut next = 0;
        while let Some(&switch) = reached.get(next) {
            next += 1;
            let here = hops[switch.index()];
            let far = &mut farthest[switch.index()];
            *far = here.max(*far);
            for group in topology.groups(switch) {
                let hop = &mut hops[group.neighbour.index()];
                if *hop == u32::MAX {
                    *hop = here + 1;
                    reached.push(group.neighbour);
                }
            }
        }
    }
    let candidates = reached.iter().copied();
    let nearest = candidates.min_by_key(|&at| (farthest[at.index()], topology.switch(at).guid));
    nearest.map_or(Guid::ZERO, |at| topology.switch(at).guid)
}

/// The units, including hosts without GPUs: a host at a leaf of a unit belongs to that unit, any
/// other host to a group for its leaf. A scheduler cannot place jobs on a host that its topology
/// lacks.
///
/// # Errors
/// There is no fabric, or no host with GPUs in it.
pub(super) fn units_with_others(analysis: &Analysis) -> Result<Vec<Group<'_>>, RenderError> {
    let fabric = analysis.joined()?;
    let mut groups = units(analysis)?;
    let names = Names::new(analysis, fabric);
    let mut at_leaf: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
    for (number, unit) in analysis.rails.units.iter().enumerate() {
        at_leaf.extend(unit.leaves.iter().map(|&leaf| (leaf, number)));
    }
    let mut listed: BTreeSet<&str> = groups
        .iter()
        .flat_map(|group| group.hosts.clone())
        .collect();
    let owners = owners(analysis);
    for (host, devices) in fabric.hosts() {
        let ports = devices.values().flatten().copied();
        // The fabric may have another name for a host with an inventory.
        let owner = ports.clone().find_map(|port| owners.get(&port));
        let host = owner.copied().unwrap_or(host);
        // The compute ports of a host decide its place; without compute ports, all ports do.
        let leaves = |with_all: bool| {
            let ports = ports.clone().map(|port| fabric.port(port));
            let role = |guid| analysis.config.roles.get(guid);
            let computes = |guid| role(guid).is_none_or(|role| *role == TrafficRole::Compute);
            let kept = ports.filter(move |port| with_all || computes(&port.guid));
            kept.map(|port| port.leaf).min()
        };
        let Some(leaf) = leaves(false).or_else(|| leaves(true)) else {
            continue;
        };
        if !is_host_name(host) || !listed.insert(host) {
            continue;
        }
        let at = *at_leaf.entry(leaf).or_insert_with(|| {
            groups.push(Group {
                name: names.named("leaf", &[leaf]),
                what: fabric.switch_name(leaf),
                hosts: Vec::new(),
                within: names.around(Some(&leaf)),
            });
            groups.len() - 1
        });
        groups[at].hosts.push(host);
    }
    for group in &mut groups {
        group.hosts.sort_unstable();
    }
    Ok(groups)
}

/// For each matched port, the name of its host.
fn owners(analysis: &Analysis) -> BTreeMap<u32, &str> {
    let of_host = |host: &'_ Host| {
        let ports = host.joined.iter().filter_map(|joined| joined.port());
        ports.collect::<Vec<u32>>()
    };
    let hosts = analysis.hosts.iter();
    hosts
        .flat_map(|host| {
            of_host(host)
                .into_iter()
                .map(|port| (port, host.name.as_str()))
        })
        .collect()
}

/// The scalable units with compute ports, at least one. A host without compute ports belongs to no
/// unit.
pub(super) fn units(analysis: &Analysis) -> Result<Vec<Group<'_>>, RenderError> {
    let fabric = analysis.joined()?;
    let names = Names::new(analysis, fabric);
    let units = analysis.rails.units.iter().map(|unit| {
        let leaves: Vec<String> = unit
            .leaves
            .iter()
            .map(|&leaf| fabric.switch_name(leaf))
            .collect();
        Group {
            name: names.named("su", &unit.leaves),
            what: leaves.join(" "),
            hosts: unit
                .hosts
                .iter()
                .map(|&host| analysis.hosts[host].name.as_str())
                .collect(),
            within: names.around(unit.leaves.first()),
        }
    });
    Ok(units.collect())
}

/// The NVLink domains across hosts, sorted by name; empty if no host has a domain.
pub(super) fn domains(analysis: &Analysis) -> Vec<Group<'_>> {
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for host in &analysis.hosts {
        if let Some(domain) = &host.inventory.domain {
            by_name
                .entry(domain.to_string())
                .or_default()
                .push(&host.name);
        }
    }
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for domain in by_name.keys() {
        *count.entry(short_name(domain)).or_default() += 1;
    }
    let group = |(what, hosts): (String, Vec<_>)| {
        let short = short_name(&what);
        let name = match count.get(&short) {
            Some(1) => short,
            _ => format!("{short}-{:016x}", fnv(what.as_bytes())),
        };
        Group {
            name,
            what,
            hosts,
            within: Vec::new(),
        }
    };
    by_name.into_iter().map(group).collect()
}

/// The short name of a domain, such as `nvl-3f1a7c1e-4` for clique 4 of a cluster: the first eight
/// digits of its UUID.
fn short_name(domain: &str) -> String {
    let (cluster, clique) = domain.rsplit_once('.').unwrap_or((domain, "0"));
    let plain = cluster.chars().filter(char::is_ascii_alphanumeric);
    let start: String = plain.take(8).collect();
    format!("nvl-{start}-{clique}")
}

/// The 64-bit FNV-1a hash.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Folds names as Slurm writes lists: `node[01-32],other`.
pub fn host_list(names: &[&str]) -> String {
    let mut numbered: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut out: Vec<String> = Vec::new();
    for &name in names {
        let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
        match name[stem.len()..].parse() {
            Ok(number) if !stem.is_empty() => {
                let width = name.len() - stem.len();
                numbered.entry((stem, width)).or_default().push(number);
            }
            _ => out.push(name.to_owned()),
        }
    }
    for ((stem, width), mut numbers) in numbered {
        numbers.sort_unstable();
        let runs: Vec<String> = numbers
            .chunk_by(|one, next| one + 1 == *next)
            .map(|run| match run {
                [only] => format!("{only:0width$}"),
                _ => format!("{:0width$}-{:0width$}", run[0], run[run.len() - 1]),
            })
            .collect();
        out.push(match (&runs[..], numbers.len()) {
            ([only], 1) => format!("{stem}{only}"),
            _ => format!("{stem}[{}]", runs.join(",")),
        });
    }
    out.sort();
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::host_list;

    #[test]
    fn lists_are_folded_with_the_leading_zeros_of_their_numbers() {
        assert_eq!(host_list(&["n01", "n02", "n03", "n10"]), "n[01-03,10]");
        assert_eq!(host_list(&["n1", "n01", "login", "7"]), "7,login,n01,n1");
        assert_eq!(host_list(&[]), "");
        assert_eq!(host_list(&["a9", "a10", "a11"]), "a9,a[10-11]");
        assert_eq!(
            host_list(&["x99999999999999999999999"]),
            "x99999999999999999999999"
        );
    }
}
