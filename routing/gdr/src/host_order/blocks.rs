//! Finds blocks: hosts that are cabled to the same leaves, and whose ports therefore get positions.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use crate::Survey;
use crate::fabric::GpuFabric;
use crate::rails::{Sets, Unit};
use rsm_routing::engine::{Categories, Category};
use rsm_routing::topology::SwitchIdx;

/// Two leaves are rails of one block if they share more than one host, and less than one in this
/// many hosts of the leaf with more hosts is not at the other leaf. A leaf that hosts of several
/// blocks share, such as one for storage, is not a rail.
const DIFFERENCE_DIVISOR: usize = 4;

/// The maximum number of ports of one host: a name with more ports is not the name of one host. The
/// hosts with the most GPUs have 18 adapters of two ports each.
const MAX_PORTS: usize = 64;

/// The hosts with a port at each of some leaves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The leaves, in the order of rails.
    pub leaves: Vec<SwitchIdx>,
    /// For each host, sorted by name, the compute ports that are in the fabric, by position in
    /// [`GpuFabric::ports`] and in the order of rails.
    pub hosts: Vec<Vec<u32>>,
}

/// All blocks of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blocks(pub Vec<Block>);

impl Blocks {
    /// Finds the blocks: the units of hosts with inventories, and other hosts by their names and
    /// cables. `categories` holds the ports to which the operator gives a category; only ports of
    /// the category Compute, or without a category, get positions.
    pub fn find(survey: &Survey, fabric: &GpuFabric, categories: &Categories) -> Blocks {
        let mut blocks = Blocks::surveyed(survey);
        let surveyed_names: BTreeSet<&str> =
            survey.hosts.iter().map(|host| host.name.as_str()).collect();
        blocks.add_described(fabric, categories, &surveyed_names);
        blocks
    }

    /// The blocks of hosts with inventories, one for each unit.
    fn surveyed(survey: &Survey) -> Blocks {
        let block = |unit: &Unit| {
            let of_rails = unit.rails.iter().flatten().map(|rail| rail.leaf);
            let ports = |&host: &usize| {
                let host = &survey.hosts[host];
                let joined = host.compute_slots().map(|port| host.joined[port].port());
                joined.flatten().collect()
            };
            Block {
                leaves: once_each(of_rails.chain(unit.leaves.iter().copied())),
                hosts: unit.hosts.iter().map(ports).collect(),
            }
        };
        Blocks(survey.rails.units.iter().map(block).collect())
    }

    /// Adds the blocks of hosts that only the descriptions of nodes name: several hosts that share
    /// several leaves. Hosts of `surveyed_names` are ignored.
    fn add_described(
        &mut self,
        fabric: &GpuFabric,
        categories: &Categories,
        surveyed_names: &BTreeSet<&str>,
    ) {
        let computes = |port: &u32| {
            let category = categories.get(&fabric.port(*port).guid);
            category.is_none_or(|category| *category == Category::Compute)
        };
        let hosts: Vec<Vec<u32>> = fabric
            .hosts()
            .filter(|(name, _)| !surveyed_names.contains(name))
            .map(|(_, devices)| in_order(devices).filter(computes).collect())
            .filter(|ports: &Vec<u32>| ports.len() <= MAX_PORTS)
            .collect();
        let leaves_of = |ports: &[u32]| {
            let leaves = ports.iter().map(|&port| fabric.port(port).leaf);
            leaves.collect::<BTreeSet<SwitchIdx>>()
        };
        let mut reached: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
        let mut shared: BTreeMap<(SwitchIdx, SwitchIdx), usize> = BTreeMap::new();
        let leaves: Vec<BTreeSet<SwitchIdx>> = hosts.iter().map(|host| leaves_of(host)).collect();
        for leaves in &leaves {
            for (nth, &leaf) in leaves.iter().enumerate() {
                *reached.entry(leaf).or_default() += 1;
                for &other in leaves.iter().skip(nth + 1) {
                    *shared.entry((leaf, other)).or_default() += 1;
                }
            }
        }
        let mut sets = Sets::new(fabric.topology.switch_count());
        for (&(one, other), &hosts) in &shared {
            let most = reached[&one].max(reached[&other]);
            if hosts > 1 && (most - hosts) * DIFFERENCE_DIVISOR < most {
                sets.join(one.index(), other.index());
            }
        }
        let group: BTreeMap<SwitchIdx, usize> = reached
            .keys()
            .map(|&leaf| (leaf, sets.lowest(leaf.index())))
            .collect();
        let mut blocks: BTreeMap<usize, Block> = BTreeMap::new();
        for ports in &hosts {
            let mut count: BTreeMap<usize, usize> = BTreeMap::new();
            for leaf in leaves_of(ports) {
                *count.entry(group[&leaf]).or_default() += 1;
            }
            let home = count
                .into_iter()
                .max_by_key(|&(leader, leaves)| (leaves, std::cmp::Reverse(leader)));
            if let Some((leader, leaves)) = home
                && leaves > 1
            {
                let of_rails = |port: &u32| group[&fabric.port(*port).leaf] == leader;
                let ports: Vec<u32> = ports.iter().copied().filter(of_rails).collect();
                let block = blocks.entry(leader).or_default();
                block.hosts.push(ports);
            }
        }
        for mut block in blocks.into_values().filter(|block| block.hosts.len() > 1) {
            // The rail of a leaf is the rail that it has for most hosts.
            let mut votes: BTreeMap<SwitchIdx, BTreeMap<usize, usize>> = BTreeMap::new();
            for ports in &block.hosts {
                for (rail, &port) in ports.iter().enumerate() {
                    let votes = votes.entry(fabric.port(port).leaf).or_default();
                    *votes.entry(rail).or_default() += 1;
                }
            }
            let rail = |votes: &BTreeMap<usize, usize>| {
                let most = votes
                    .iter()
                    .max_by_key(|&(&rail, &n)| (n, std::cmp::Reverse(rail)));
                most.map_or(usize::MAX, |(&rail, _)| rail)
            };
            block.leaves = votes.keys().copied().collect();
            block.leaves.sort_by_key(|leaf| (rail(&votes[leaf]), *leaf));
            self.0.push(block);
        }
    }

    /// The host number of each port that gets a position.
    pub fn hosts(&self, fabric: &GpuFabric) -> BTreeMap<Guid, u32> {
        let hosts = (0u32..).zip(self.0.iter().flat_map(|block| &block.hosts));
        let of_host = |(host, ports): (u32, &Vec<u32>)| {
            let guids = ports.iter().map(|&port| fabric.port(port).guid);
            guids.map(|guid| (guid, host)).collect::<Vec<_>>()
        };
        hosts.flat_map(of_host).collect()
    }

    /// The rail of each port that gets a position: the rail of the leaf to which the port is
    /// cabled,
    /// even if that is the wrong leaf.
    pub fn rails(&self, fabric: &GpuFabric) -> BTreeMap<Guid, u16> {
        let leaves = self.0.iter().flat_map(|block| (0u16..).zip(&block.leaves));
        let rail_of: BTreeMap<SwitchIdx, u16> = leaves.map(|(rail, &leaf)| (leaf, rail)).collect();
        let hosts = self.0.iter().flat_map(|block| &block.hosts);
        let rail = |&port: &u32| {
            let port = fabric.port(port);
            Some((port.guid, *rail_of.get(&port.leaf)?))
        };
        hosts.flatten().filter_map(rail).collect()
    }
}

/// The ports of a host's devices, sorted by device name with numbers in natural order.
fn in_order(devices: &BTreeMap<String, Vec<u32>>) -> impl Iterator<Item = u32> + use<> {
    let number = |name: &str| {
        let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
        (
            stem.to_owned(),
            name[stem.len()..].parse::<u64>().unwrap_or(0),
        )
    };
    let mut named: Vec<_> = devices
        .iter()
        .map(|(name, ports)| (number(name), ports.clone()))
        .collect();
    named.sort();
    named.into_iter().flat_map(|(_, ports)| ports)
}

/// The switches without repetitions, in the order in which they first occur.
fn once_each(switches: impl Iterator<Item = SwitchIdx>) -> Vec<SwitchIdx> {
    let mut seen = BTreeSet::new();
    switches.filter(|&switch| seen.insert(switch)).collect()
}
