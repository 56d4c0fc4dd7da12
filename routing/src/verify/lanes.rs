//! The channel dependency graph over (link, virtual lane).
//!
//! As for links alone, but a packet takes the lane that the switch maps its service level to, by
//! the ports it comes in and goes out by. Source and destination of a packet give its SL; where any
//! SL will do, the proof follows all sixteen.

use rsm_ids::{Guid, PortNum};

use super::cycles::Waits;
use super::fabric::Fabric;
use crate::lanes::{DROP, Lanes, SERVICE_LEVELS, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{Destination, PortUse, SwitchIdx, Topology};

/// A channel as far as proofs over lanes are concerned: one direction of a link, on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneChannel {
    /// The switch that sends.
    pub switch: Guid,
    /// The port that it sends on.
    pub port: PortNum,
    /// The virtual lane.
    pub vl: u8,
}

/// The result of a check of tables on their lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// A credit loop: each (link, lane) can wait for the next, and the last for the first; empty
    /// where there is none.
    pub cycle: Vec<LaneChannel>,
    /// A place where a switch maps a packet to a lane that the routing does not use, or drops it.
    pub astray: Option<LaneChannel>,
}

impl LaneReport {
    /// Whether there is no credit loop, and no packet leaves the lanes.
    pub fn is_sound(&self) -> bool {
        self.cycle.is_empty() && self.astray.is_none()
    }
}

/// Proves that `tables` with `lanes` close no credit loop.
///
/// Every entry of every destination counts, with packets injected at every switch on each of its
/// ports that is no link between switches.
pub fn verify_lanes(topology: &Topology, tables: &Tables, lanes: &Lanes) -> LaneReport {
    let mut graph = Graph::new(topology, lanes);
    let mut column = Column::default();
    for switch in topology.indices() {
        let mut last: Option<Vec<u8>> = None;
        for destination in topology.destinations_of(switch) {
            for lid in destination.lids() {
                let entry = |from: SwitchIdx| match tables.lfts.get(from.index()) {
                    Some(lft) if from != switch => lft.entry(lid),
                    _ => crate::tables::NO_PATH,
                };
                let bytes: Vec<u8> = topology.indices().map(entry).collect();
                // LIDs of one switch mostly share their paths.
                if last.as_ref() != Some(&bytes) {
                    graph.add(destination, &[&bytes], &mut column);
                    last = Some(bytes);
                }
            }
        }
    }
    LaneReport {
        cycle: graph
            .cycle()
            .into_iter()
            .map(|node| graph.name(node))
            .collect(),
        astray: graph.astray,
    }
}

/// Whether switches may change from `old` to `new` in any order, one entry at a time, without a
/// loop or a credit loop on the way, where both tables are made for `lanes`.
///
/// Both are by the switch numbers of `topology`, the fabric as it is now: entries of `old` that
/// point to a link that has gone discard packets.
pub fn mixture_is_sound(topology: &Topology, old: &Tables, new: &Tables, lanes: &Lanes) -> bool {
    let mut graph = Graph::new(topology, lanes);
    let mut column = Column::default();
    let mut last = None;
    for destination in topology.destinations() {
        for lid in destination.lids() {
            let bytes = |tables: &Tables| -> Vec<u8> {
                let entry = |from: SwitchIdx| match tables.lfts.get(from.index()) {
                    Some(lft) if from != destination.switch => lft.entry(lid),
                    _ => crate::tables::NO_PATH,
                };
                topology.indices().map(entry).collect()
            };
            // LIDs of one switch mostly share their paths.
            let ways = Some((destination.switch, bytes(old), bytes(new)));
            if ways == last {
                continue;
            }
            match &ways {
                Some((_, before, after)) if before != after => {
                    graph.add(destination, &[before, after], &mut column);
                }
                Some((_, _, after)) => graph.add(destination, &[after], &mut column),
                None => {}
            }
            last = ways;
        }
    }
    graph.astray.is_none() && graph.in_cycles().is_clear()
}

/// Service levels or lanes, one bit for each.
type Set = u16;

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..SERVICE_LEVELS).filter(move |member| set >> member & 1 != 0)
}

/// The packets to one LID.
#[derive(Default)]
struct Column {
    /// By switch: the SLs of packets that leave it.
    levels: Vec<Set>,
    /// By switch and way, then by SL: the lanes they leave on.
    lanes: Vec<[Set; SERVICE_LEVELS]>,
}

/// Packets that go from one switch to the next, and on from there.
struct Hop {
    switch: usize,
    way: usize,
    channel: usize,
    next: usize,
    onward: usize,
    /// The port that they come in by at the next switch.
    input: PortNum,
    /// The next switch's table byte.
    byte: u8,
}

struct Graph<'a> {
    fabric: Fabric<'a>,
    lanes: &'a Lanes,
    vls: usize,
    /// By switch: ports that packets start at, one of each kind.
    starts: Vec<Vec<PortNum>>,
    /// By switch and port: the port at the other end.
    entries: Vec<PortNum>,
    /// By channel and lane: the channels and lanes of the next switch that are waited for.
    turns: Vec<u64>,
    words: usize,
    astray: Option<LaneChannel>,
}

impl<'a> Graph<'a> {
    fn new(topology: &'a Topology, lanes: &'a Lanes) -> Graph<'a> {
        let fabric = Fabric::new(topology);
        let vls = usize::from(lanes.vls().clamp(1, DROP));
        let words = (fabric.stride * vls).div_ceil(u64::BITS as usize);
        let mut entries = vec![PortNum::ZERO; fabric.channels()];
        let mut starts = Vec::with_capacity(fabric.switches);
        for switch in topology.indices() {
            let mut own: Vec<PortNum> = Vec::new();
            for (port, leads_to) in topology.port_uses(switch).iter().enumerate() {
                // At most 254 ports.
                let port = PortNum(port as u8);
                match leads_to {
                    PortUse::Link { peer_port, .. } => {
                        let channel = fabric.channel(switch.index(), port.0);
                        entries[channel] = *peer_port;
                    }
                    PortUse::Destination(_) | PortUse::Unused => {
                        let alike = |&other: &PortNum| {
                            (0..=topology.switch(switch).num_ports)
                                .map(PortNum)
                                .all(|output| {
                                    lanes.row(switch, port, output)
                                        == lanes.row(switch, other, output)
                                })
                        };
                        let starts = port == PortNum::ZERO || *leads_to != PortUse::Unused;
                        if starts && !own.iter().any(alike) {
                            own.push(port);
                        }
                    }
                }
            }
            starts.push(own);
        }
        Graph {
            turns: vec![0; fabric.channels() * vls * words],
            fabric,
            lanes,
            vls,
            starts,
            entries,
            words,
            astray: None,
        }
    }

    /// The lane of a packet that goes from `input` to the channel that `byte` names.
    fn lane(&mut self, switch: usize, input: PortNum, byte: u8, level: usize) -> Option<usize> {
        let row = self
            .lanes
            .row(SwitchIdx(switch as u32), input, PortNum(byte));
        // Where switches may map as they like, lanes are layers of the same graph.
        let vl = row.map_or(0, |row| row[level]);
        if usize::from(vl) < self.vls {
            return Some(usize::from(vl));
        }
        self.astray.get_or_insert(LaneChannel {
            switch: self.fabric.guid(switch),
            port: PortNum(byte),
            vl,
        });
        None
    }

    /// Adds the packets to one LID; `ways` are the switches' table bytes for it, of which each
    /// switch may follow any.
    fn add(&mut self, destination: &Destination, ways: &[&[u8]], column: &mut Column) {
        self.follow_levels(destination, ways, column);
        column.lanes.clear();
        column
            .lanes
            .resize(self.fabric.switches * ways.len(), [0; SERVICE_LEVELS]);
        let nowhere = self.fabric.nowhere();
        for (way, bytes) in ways.iter().enumerate() {
            for (switch, &byte) in bytes.iter().enumerate() {
                if self.fabric.next(self.fabric.channel(switch, byte)) == nowhere {
                    continue;
                }
                let own = self.own_levels(switch, destination);
                for input in self.starts[switch].clone() {
                    for level in members(own) {
                        if let Some(vl) = self.lane(switch, input, byte, level) {
                            column.lanes[switch * ways.len() + way][level] |= 1 << vl;
                        }
                    }
                }
            }
        }
        let hops: Vec<Hop> = (0..ways.len())
            .flat_map(|way| (0..ways.len()).map(move |onward| (way, onward)))
            .flat_map(|(way, onward)| self.hops(ways, way, onward))
            .collect();
        for hop in &hops {
            for level in members(column.levels[hop.switch]) {
                if let Some(vl) = self.lane(hop.next, hop.input, hop.byte, level) {
                    column.lanes[hop.next * ways.len() + hop.onward][level] |= 1 << vl;
                }
            }
        }
        for hop in &hops {
            for level in members(column.levels[hop.switch]) {
                let Some(vl) = self.lane(hop.next, hop.input, hop.byte, level) else {
                    continue;
                };
                let turn = self.fabric.port(hop.byte) * self.vls + vl;
                for held in members(column.lanes[hop.switch * ways.len() + hop.way][level]) {
                    let at = (hop.channel * self.vls + held) * self.words;
                    self.turns[at + turn / 64] |= 1 << (turn % 64);
                }
            }
        }
    }

    /// The hops that one way takes, where packets go on from there by another (or the same).
    fn hops(&self, ways: &[&[u8]], way: usize, onward: usize) -> Vec<Hop> {
        let nowhere = self.fabric.nowhere();
        let (bytes, onwards) = (ways[way], ways[onward]);
        (0..bytes.len())
            .filter_map(|switch| {
                let channel = self.fabric.channel(switch, bytes[switch]);
                let next = self.fabric.next(channel);
                let byte = *onwards.get(next)?;
                let goes_on = self.fabric.next(self.fabric.channel(next, byte)) != nowhere;
                goes_on.then(|| Hop {
                    switch,
                    way,
                    channel,
                    next,
                    onward,
                    input: self.entries[channel],
                    byte,
                })
            })
            .collect()
    }

    /// The SLs of packets that start at a switch. With levels by pair these are the levels of both
    /// ways: an answer has the SL of its request (IBA 13.5.4).
    fn own_levels(&self, switch: usize, destination: &Destination) -> Set {
        let (from, to) = (SwitchIdx(switch as u32), destination.switch);
        let one = |level: Option<u8>| match level {
            None => Set::MAX,
            Some(level) => 1 << (level % SERVICE_LEVELS as u8),
        };
        let levels = one(self.lanes.level(from, to));
        match self.lanes.levels() {
            ServiceLevels::ByPair(_) => levels | one(self.lanes.level(to, from)),
            ServiceLevels::Any | ServiceLevels::ByDestination(_) => levels,
        }
    }

    /// Carries the SLs of packets along their ways, as far as it is new.
    fn follow_levels(&self, destination: &Destination, ways: &[&[u8]], column: &mut Column) {
        column.levels.clear();
        column.levels.resize(self.fabric.switches, 0);
        let mut open = Vec::new();
        for start in 0..self.fabric.switches {
            let own = self.own_levels(start, destination);
            open.push(start);
            while let Some(switch) = open.pop() {
                if column.levels[switch] | own == column.levels[switch] {
                    continue;
                }
                column.levels[switch] |= own;
                for bytes in ways {
                    let next = self.fabric.next(self.fabric.channel(switch, bytes[switch]));
                    if next != self.fabric.nowhere() {
                        open.push(next);
                    }
                }
            }
        }
    }

    fn name(&self, node: usize) -> LaneChannel {
        let (switch, port) = self.fabric.name(node / self.vls);
        LaneChannel {
            switch,
            port,
            vl: (node % self.vls) as u8,
        }
    }
}

impl Waits for Graph<'_> {
    fn nodes(&self) -> usize {
        self.fabric.channels() * self.vls
    }

    fn for_each_turn(&self, node: usize, mut visit: impl FnMut(usize)) {
        let next = self.fabric.next(node / self.vls);
        if next == self.fabric.nowhere() {
            return;
        }
        for (word, &bits) in self.turns[node * self.words..][..self.words]
            .iter()
            .enumerate()
        {
            let mut bits = bits;
            while bits != 0 {
                let turn = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                visit(next * self.fabric.stride * self.vls + turn);
            }
        }
    }
}
