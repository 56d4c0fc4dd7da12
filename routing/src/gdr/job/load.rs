use std::collections::BTreeMap;

use super::{Pattern, Rank};
use crate::gdr::Analysis;
use crate::gdr::fabric::Fabric;
use crate::gdr::hints::walk;
use crate::tables::Tables;

/// What the flows of a pattern meet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Flows between hosts in all steps, those within NVLink domains left out.
    pub flows: u64,
    /// How many of them stay under one leaf.
    pub leaf_local: u64,
    /// How many do not arrive.
    pub lost: u64,
    /// The most flows that share a link between switches in one step.
    pub worst_link: u32,
}

impl Load {
    /// The part of the flows that stays under one leaf, 0 to 1; 1 when there are none.
    pub fn leaf_local_share(&self) -> f64 {
        match self.flows {
            0 => 1.0,
            flows => self.leaf_local as f64 / flows as f64,
        }
    }
}

/// Ports of a switch that are counted: IBA port numbers have 8 bits.
const PORTS: usize = 256;

/// A way that has not been walked yet, and one that does not arrive.
const UNKNOWN: (u32, u32) = (u32::MAX, 0);
const LOST: (u32, u32) = (u32::MAX, 1);

/// Counts flows on links.
pub(super) struct Meter<'a> {
    fabric: &'a Fabric,
    tables: &'a Tables,
    /// Flows of this step on each link, by switch and port.
    count: Vec<u32>,
    touched: Vec<u32>,
    /// The links of every way walked so far, one after the other.
    ways: Vec<u32>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Option<Meter<'a>> {
        let tables = fabric.tables.as_deref()?;
        Some(Meter {
            fabric,
            tables,
            count: vec![0; fabric.topology.switch_count() * PORTS],
            touched: Vec::new(),
            ways: Vec::new(),
        })
    }

    /// Measures `ranks`, which are `each` of one host after the other: flows go from the k-th of
    /// a host to the k-th of another.
    pub(super) fn measure(
        &mut self,
        analysis: &Analysis,
        ranks: &[Rank],
        each: usize,
        pattern: Pattern,
    ) -> Load {
        let hosts = ranks.len() / each;
        let mut load = Load {
            flows: 0,
            leaf_local: 0,
            lost: 0,
            worst_link: 0,
        };
        let domain: Vec<_> = (0..hosts)
            .map(|host| {
                analysis.hosts[ranks[host * each].host]
                    .inventory
                    .domain
                    .as_ref()
            })
            .collect();
        let mut lanes: Vec<Lane> = (0..each)
            .map(|lane| Lane::new(analysis, self.fabric, ranks, each, lane))
            .collect();
        self.ways.clear();
        for step in 0..pattern.steps(hosts) {
            for from in 0..hosts {
                for to in pattern.targets(hosts, step, from) {
                    if domain[from].is_some() && domain[from] == domain[to] {
                        continue;
                    }
                    for lane in &mut lanes {
                        load.flows += 1;
                        self.flow(lane, from, to, &mut load);
                    }
                }
            }
            for link in self.touched.drain(..) {
                self.count[link as usize] = 0;
            }
        }
        load
    }

    fn flow(&mut self, lane: &mut Lane, from: usize, to: usize, load: &mut Load) {
        let (Some(source), Some(target)) = (lane.ports[from], lane.ports[to]) else {
            load.lost += 1;
            return;
        };
        if lane.leaf[from] == lane.leaf[to] {
            load.leaf_local += 1;
            return;
        }
        let at = lane.leaf[from] as usize * lane.ports.len() + to;
        if lane.ways[at] == UNKNOWN {
            lane.ways[at] = self.walk(source, target);
        }
        let way = lane.ways[at];
        if way == LOST {
            load.lost += 1;
            return;
        }
        for &link in &self.ways[way.0 as usize..way.1 as usize] {
            let count = &mut self.count[link as usize];
            if *count == 0 {
                self.touched.push(link);
            }
            *count += 1;
            load.worst_link = load.worst_link.max(*count);
        }
    }

    /// The links from the leaf of one port to that of another, as a part of `ways`.
    fn walk(&mut self, source: u32, target: u32) -> (u32, u32) {
        let (source, target) = (self.fabric.port(source), self.fabric.port(target));
        let start = self.ways.len();
        let ways = &mut self.ways;
        let hop = |switch: crate::topology::SwitchIdx, port: rsm_ids::PortNum| {
            // Fewer than 2^16 switches of 2^8 ports.
            ways.push((switch.index() * PORTS + port.index()) as u32);
        };
        let arrives = walk(
            &self.fabric.topology,
            self.tables,
            source.leaf,
            target.lid,
            hop,
        )
        .is_ok();
        if !arrives {
            self.ways.truncate(start);
            return LOST;
        }
        // The last port leads to the destination, and only its own flows share it.
        self.ways.pop();
        // All ways together are bounded by the walks of MAX_JOB_HOSTS hosts from their leaves.
        match (u32::try_from(start), u32::try_from(self.ways.len())) {
            (Ok(start), Ok(end)) => (start, end),
            _ => LOST,
        }
    }
}

/// The k-th process of every host.
struct Lane {
    /// The port of each host.
    ports: Vec<Option<u32>>,
    /// The leaf of each host, numbered within the lane.
    leaf: Vec<u32>,
    /// The way from each leaf to each host.
    ways: Vec<(u32, u32)>,
}

impl Lane {
    fn new(analysis: &Analysis, fabric: &Fabric, ranks: &[Rank], each: usize, lane: usize) -> Lane {
        let of_lane = ranks.iter().skip(lane).step_by(each);
        let ports: Vec<Option<u32>> = of_lane.map(|rank| analysis.port_of(rank)).collect();
        let mut numbers = BTreeMap::new();
        let leaf = ports
            .iter()
            .map(|port| {
                let leaf = port.map(|port| fabric.port(port).leaf);
                let next = numbers.len() as u32;
                *numbers.entry(leaf).or_insert(next)
            })
            .collect();
        let ways = vec![UNKNOWN; numbers.len() * ports.len()];
        Lane { ports, leaf, ways }
    }
}
