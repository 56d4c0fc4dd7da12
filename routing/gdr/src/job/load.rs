//! The load of the flows of a job.

use std::collections::BTreeMap;

use rayon::prelude::*;
use rsm_ids::PortNum;

use super::{Pattern, Rank};
use crate::Analysis;
use crate::fabric::GpuFabric;
use crate::hints::walk;
use rsm_routing::tables::Tables;
use rsm_routing::topology::SwitchIdx;

/// The load that the flows of a pattern put on links.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PatternLoad {
    /// The number of flows between hosts in all steps, without flows inside NVLink domains.
    pub flows: u64,
    /// The number of flows that stay under one leaf.
    pub leaf_local: u64,
    /// The number of flows that do not arrive.
    pub lost: u64,
    /// The maximum number of flows that share a link between switches in one step.
    pub worst_link: u32,
}

impl PatternLoad {
    /// The share of the flows that stays under one leaf, 0 to 1; 1 if there are no flows.
    pub fn leaf_local_share(&self) -> f64 {
        match self.flows {
            0 => 1.0,
            flows => self.leaf_local as f64 / flows as f64,
        }
    }

    /// Combines the loads of two successive steps.
    fn and(self, other: PatternLoad) -> PatternLoad {
        PatternLoad {
            flows: self.flows + other.flows,
            leaf_local: self.leaf_local + other.leaf_local,
            lost: self.lost + other.lost,
            worst_link: self.worst_link.max(other.worst_link),
        }
    }
}

/// The number of port numbers of a switch: port numbers have 8 bits.
const PORTS: usize = 256;

/// Marks a path that does not arrive, in place of its first link.
const LOST: u32 = u32::MAX;

/// Marks the end of a path, in place of a link.
const END: u32 = u32::MAX - 1;

/// Counts the flows on links.
#[derive(Clone, Copy)]
pub(super) struct Meter<'a> {
    fabric: &'a GpuFabric,
    tables: &'a Tables,
}

impl<'a> Meter<'a> {
    /// Creates a meter for the tables of a fabric; `None` if the fabric has no tables.
    pub(super) fn new(fabric: &'a GpuFabric) -> Option<Meter<'a>> {
        let tables = fabric.tables.as_deref()?;
        Some(Meter { fabric, tables })
    }

    /// Measures the load of `ranks`: `each` ranks of the first host, then `each` ranks of the next
    /// host, and so on. Flows go from the k-th rank of a host to the k-th rank of another host.
    ///
    /// Every path from a leaf to a host is walked once, however many flows take it.
    pub(super) fn measure(
        self,
        analysis: &Analysis,
        ranks: &[Rank],
        each: usize,
        pattern: Pattern,
    ) -> PatternLoad {
        let hosts = ranks.len() / each;
        let domains = domains(analysis, ranks.iter().step_by(each));
        let mut lanes: Vec<Lane> = (0..each)
            .into_par_iter()
            .map(|lane| Lane::new(self, analysis, ranks, each, lane))
            .collect();
        let links = number_links(&mut lanes, self.fabric.topology.switch_count() * PORTS);
        (0..pattern.steps(hosts))
            .into_par_iter()
            .map_init(
                || Counter::new(links),
                |counter, step| {
                    let pairs: Vec<(u32, u32)> = (0..hosts)
                        .flat_map(|from| {
                            let targets = pattern.targets(hosts, step, from);
                            // There are at most MAX_HOSTS hosts.
                            targets.map(move |to| (from as u32, to as u32))
                        })
                        .filter(|&(from, to)| {
                            let [one, other] = [from, to].map(|host| domains[host as usize]);
                            one.is_none() || one != other
                        })
                        .collect();
                    counter.begin_step();
                    let flows = lanes.iter().map(|lane| counter.count(lane, &pairs));
                    flows.fold(PatternLoad::default(), PatternLoad::and)
                },
            )
            .reduce(PatternLoad::default, PatternLoad::and)
    }
}

/// The number of each host's NVLink domain; `None` for a host without a domain.
fn domains<'a>(analysis: &Analysis, of_hosts: impl Iterator<Item = &'a Rank>) -> Vec<Option<u32>> {
    let mut numbers = BTreeMap::new();
    of_hosts
        .map(|rank| {
            let domain = analysis.hosts[rank.host].inventory.domain.as_ref()?;
            let next = numbers.len() as u32;
            Some(*numbers.entry(domain.to_string()).or_insert(next))
        })
        .collect()
}

/// Numbers the links of all paths consecutively, so that the counts of a step are close in memory.
/// Returns the number of links.
fn number_links(lanes: &mut [Lane], all: usize) -> usize {
    let mut number_of = vec![END; all];
    let mut next = 0;
    for link in lanes.iter_mut().flat_map(|lane| &mut lane.paths) {
        if *link < END {
            let number = &mut number_of[*link as usize];
            if *number == END {
                *number = next;
                next += 1;
            }
            *link = *number;
        }
    }
    next as usize
}

/// Counts the flows on each link, step by step.
struct Counter {
    /// For each link, the last step that used it, counted from 1, and the number of flows in that
    /// step.
    count: Vec<(u32, u32)>,
    /// The number of the current step, counted from 1; 0 before the first step.
    step: u32,
}

impl Counter {
    fn new(links: usize) -> Counter {
        Counter {
            count: vec![(0, 0); links],
            step: 0,
        }
    }

    /// Begins the next step.
    fn begin_step(&mut self) {
        self.step += 1;
    }

    /// Adds the flows of one lane between pairs of hosts, and returns the load so far in this step.
    fn count(&mut self, lane: &Lane, pairs: &[(u32, u32)]) -> PatternLoad {
        let mut load = PatternLoad {
            flows: pairs.len() as u64,
            ..PatternLoad::default()
        };
        for &(from, to) in pairs {
            let (from, to) = (from as usize, to as usize);
            let [source, target] = [from, to].map(|host| lane.leaf[host]);
            let (Some(source), Some(target)) = (source, target) else {
                load.lost += 1;
                continue;
            };
            if source == target {
                load.leaf_local += 1;
                continue;
            }
            for &link in lane.path(source, to) {
                match link {
                    LOST => load.lost += 1,
                    END => {}
                    link => {
                        let (step, flows) = &mut self.count[link as usize];
                        if *step != self.step {
                            (*step, *flows) = (self.step, 0);
                        }
                        *flows += 1;
                        load.worst_link = load.worst_link.max(*flows);
                        continue;
                    }
                }
                break;
            }
        }
        load
    }
}

/// The k-th processes of all hosts, with the paths between their leaves and ports.
struct Lane {
    /// The leaf of each host, numbered within the lane; `None` for a host without a port.
    leaf: Vec<Option<u32>>,
    /// The number of links of the longest path; at least 1.
    longest: usize,
    /// The links of the path from each leaf to each host, `longest` entries for each path; shorter
    /// paths end with [`END`].
    paths: Vec<u32>,
}

impl Lane {
    fn new(
        meter: Meter<'_>,
        analysis: &Analysis,
        ranks: &[Rank],
        each: usize,
        lane: usize,
    ) -> Lane {
        let fabric = meter.fabric;
        let of_lane = ranks.iter().skip(lane).step_by(each);
        let ports: Vec<Option<u32>> = of_lane.map(|rank| analysis.port_of(rank)).collect();
        let mut leaves = Vec::new();
        let mut numbers = BTreeMap::new();
        let leaf: Vec<Option<u32>> = ports
            .iter()
            .map(|port| {
                let leaf = fabric.port((*port)?).leaf;
                Some(*numbers.entry(leaf).or_insert_with(|| {
                    leaves.push(leaf);
                    // There are fewer leaves than hosts.
                    leaves.len() as u32 - 1
                }))
            })
            .collect();
        // Collect the links of all paths one after the other, and the end of each path.
        let (mut links, mut ends) = (Vec::new(), Vec::new());
        for (number, &from) in (0u32..).zip(&leaves) {
            for (port, &leaf) in ports.iter().zip(&leaf) {
                if let Some(port) = *port
                    && leaf != Some(number)
                {
                    meter.walk(from, port, &mut links);
                }
                ends.push(links.len());
            }
        }
        let starts = || std::iter::once(0).chain(ends.iter().copied());
        let lengths = starts().zip(&ends).map(|(start, end)| end - start);
        let longest = lengths.max().unwrap_or(0).max(1);
        let mut paths = vec![END; ends.len() * longest];
        for ((start, &end), path) in starts().zip(&ends).zip(paths.chunks_exact_mut(longest)) {
            path[..end - start].copy_from_slice(&links[start..end]);
        }
        Lane {
            leaf,
            longest,
            paths,
        }
    }

    /// The links of the path from a leaf of the lane to a host.
    fn path(&self, leaf: u32, to: usize) -> &[u32] {
        let at = (leaf as usize * self.leaf.len() + to) * self.longest;
        &self.paths[at..at + self.longest]
    }
}

impl Meter<'_> {
    /// Appends the links of the path from a leaf to the leaf of a port.
    fn walk(self, from: SwitchIdx, port: u32, links: &mut Vec<u32>) {
        let start = links.len();
        let target = self.fabric.port(port);
        let hop = |switch: SwitchIdx, port: PortNum| {
            // The product fits: there are fewer than 2^16 switches, of 2^8 ports each.
            links.push((switch.index() * PORTS + port.index()) as u32);
        };
        match walk(&self.fabric.topology, self.tables, from, target.lid, hop) {
            // Drop the last port: it leads to the destination, and only the destination's flows
            // share it.
            Ok(()) => drop(links.pop()),
            Err(_) => {
                links.truncate(start);
                links.push(LOST);
            }
        }
    }
}
