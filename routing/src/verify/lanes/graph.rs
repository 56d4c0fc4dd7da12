//! The graph of waits, and the packets to one LID that add to it.

use std::sync::atomic::{AtomicU64, Ordering};

use rsm_ids::PortNum;

use super::LaneChannel;
use crate::lanes::{DROP, Lanes, SERVICE_LEVELS, ServiceLevels};
use crate::topology::{PortUse, SwitchIdx, Topology};
use crate::verify::cycles::Waits;
use crate::verify::fabric::Fabric;

/// Service levels, one bit for each.
pub(super) type Set = u16;

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..SERVICE_LEVELS).filter(move |member| set >> member & 1 != 0)
}

/// An SLtoVLMappingTable from one kind of ports to another: the service levels of each lane.
#[derive(Clone, Default)]
struct LevelsOfLanes {
    /// By lane that the routing uses.
    of: Vec<Set>,
    /// Those that leave these lanes.
    astray: Set,
}

/// The channel dependency graph over (link, lane). All threads add to it; the order does not
/// matter.
pub(super) struct Graph<'a> {
    fabric: Fabric<'a>,
    lanes: &'a Lanes,
    vls: usize,
    /// By switch: ports that packets start at, one of each kind.
    starts: Vec<Vec<PortNum>>,
    /// By channel: the port at the other end.
    entries: Vec<PortNum>,
    /// By channel: the kind of the port that sends.
    kinds: Vec<u8>,
    /// By channel: the kind of the port at the other end.
    entry_kinds: Vec<u8>,
    /// By kind of input port, then by kind of output port.
    mapping: Vec<LevelsOfLanes>,
    kind_count: usize,
    /// By channel and lane: the channels and lanes of the next switch that are waited for.
    turns: Vec<AtomicU64>,
    words: usize,
}

impl<'a> Graph<'a> {
    /// A graph without packets.
    pub(super) fn new(topology: &'a Topology, lanes: &'a Lanes) -> Graph<'a> {
        let fabric = Fabric::new(topology);
        let vls = usize::from(lanes.vls().clamp(1, DROP));
        let words = (fabric.stride * vls).div_ceil(u64::BITS as usize);
        let channels = fabric.channels();
        let mut graph = Graph {
            starts: topology
                .indices()
                .map(|switch| starts(topology, lanes, switch))
                .collect(),
            entries: vec![PortNum::ZERO; channels],
            kinds: vec![0; channels],
            entry_kinds: vec![0; channels],
            mapping: mapping(lanes, vls),
            kind_count: lanes.kinds(),
            turns: std::iter::repeat_with(AtomicU64::default)
                .take(channels * vls * words)
                .collect(),
            fabric,
            lanes,
            vls,
            words,
        };
        for switch in topology.indices() {
            for (port, leads_to) in topology.port_uses(switch).iter().enumerate() {
                if let PortUse::Link { peer, peer_port } = *leads_to {
                    // At most 254 ports, and as many kinds.
                    let port = PortNum(port as u8);
                    let channel = graph.fabric.channel(switch.index(), port.0);
                    graph.entries[channel] = peer_port;
                    graph.kinds[channel] = lanes.kind(switch, port) as u8;
                    graph.entry_kinds[channel] = lanes.kind(peer, peer_port) as u8;
                }
            }
        }
        graph
    }

    pub(super) fn topology(&self) -> &'a Topology {
        self.fabric.topology
    }

    /// The SLs of packets that start at a switch. With levels by pair these are the levels of both
    /// ways: an answer has the SL of its request (IBA 13.5.4).
    pub(super) fn own_levels(&self, from: SwitchIdx, to: SwitchIdx) -> Set {
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

    pub(super) fn name(&self, node: usize) -> LaneChannel {
        let (switch, port) = self.fabric.name(node / self.vls);
        LaneChannel {
            switch,
            port,
            vl: (node % self.vls) as u8,
        }
    }

    /// The lanes of packets that come in by a port of one kind and leave by a channel.
    fn lanes_of(&self, input: u8, channel: usize) -> &LevelsOfLanes {
        &self.mapping[usize::from(input) * self.kind_count + usize::from(self.kinds[channel])]
    }

    /// Lets a channel on a lane wait for a turn: a port of the next switch and its lane.
    fn add_turn(&self, channel: usize, vl: usize, turn: usize) {
        let at = (channel * self.vls + vl) * self.words + turn / 64;
        let bit = 1 << (turn % 64);
        if self.turns[at].load(Ordering::Relaxed) & bit == 0 {
            self.turns[at].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Where the first of some service levels leaves the lanes, from one port of a switch to
    /// another.
    fn astray(
        &self,
        switch: usize,
        input: PortNum,
        channel: usize,
        levels: Set,
    ) -> Option<LaneChannel> {
        // A stride is at most 256.
        let port = PortNum((channel % self.fabric.stride) as u8);
        let row = self.lanes.row(SwitchIdx(switch as u32), input, port)?;
        let vls = members(levels).map(|level| row[level]);
        let vl = vls.into_iter().find(|&vl| usize::from(vl) >= self.vls)?;
        Some(LaneChannel {
            switch: self.fabric.guid(switch),
            port,
            vl,
        })
    }
}

/// Ports of a switch that packets start at, one of each kind.
fn starts(topology: &Topology, lanes: &Lanes, switch: SwitchIdx) -> Vec<PortNum> {
    let ports = || (0..=topology.switch(switch).num_ports).map(PortNum);
    let mut starts: Vec<PortNum> = Vec::new();
    for port in ports() {
        let is_start = match topology.port_use(switch, port) {
            PortUse::Link { .. } => false,
            PortUse::Destination(_) => true,
            PortUse::Unused => port == PortNum::ZERO,
        };
        let alike = |&other: &PortNum| {
            ports()
                .all(|output| lanes.row(switch, port, output) == lanes.row(switch, other, output))
        };
        if is_start && !starts.iter().any(alike) {
            starts.push(port);
        }
    }
    starts
}

/// The lanes by kind of input port, then by kind of output port.
fn mapping(lanes: &Lanes, vls: usize) -> Vec<LevelsOfLanes> {
    let kinds = lanes.kinds();
    let pairs = (0..kinds).flat_map(|input| (0..kinds).map(move |output| (input, output)));
    let levels_of_lanes = |(input, output)| {
        let row = lanes.row_of_kinds(input, output);
        let mut levels = LevelsOfLanes {
            of: vec![0; vls],
            astray: 0,
        };
        for level in 0..SERVICE_LEVELS {
            // Where switches may map as they like, lanes are layers of the same graph.
            let vl = row.map_or(0, |row| row[level]);
            let set = levels.of.get_mut(usize::from(vl));
            *set.unwrap_or(&mut levels.astray) |= 1 << level;
        }
        levels
    };
    pairs.map(levels_of_lanes).collect()
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
        let words = &self.turns[node * self.words..][..self.words];
        for (word, bits) in words.iter().enumerate() {
            let mut bits = bits.load(Ordering::Relaxed);
            while bits != 0 {
                let turn = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                visit(next * self.fabric.stride * self.vls + turn);
            }
        }
    }
}

/// The packets to one LID, of which each switch may follow several ways.
#[derive(Default)]
pub(super) struct Packets {
    /// By way, then by switch: the channel that it sends into.
    channels: Vec<u32>,
    /// The same: the next switch, or nowhere.
    next: Vec<u16>,
    /// By switch: the SLs of packets that leave it.
    levels: Vec<Set>,
    /// By way, then by switch, then by lane: the SLs of packets that leave on it.
    on_lane: Vec<Set>,
    open: Vec<usize>,
}

impl Packets {
    /// Adds packets to a graph, and returns the first place where one leaves the lanes. `ways` are
    /// the switches' table bytes, of which each switch may follow any; `own` are the SLs of packets
    /// that start at each switch.
    pub(super) fn add_to(
        &mut self,
        graph: &Graph<'_>,
        ways: &[&[u8]],
        own: &[Set],
    ) -> Option<LaneChannel> {
        let fabric = &graph.fabric;
        self.channels.clear();
        self.next.clear();
        for bytes in ways {
            for (switch, &byte) in bytes.iter().enumerate() {
                // Switches are fewer than LIDs, and have fewer than 2^9 channels.
                let channel = fabric.channel(switch, byte);
                self.channels.push(channel as u32);
                self.next.push(fabric.next(channel) as u16);
            }
        }
        self.follow_levels(own);
        self.on_lane.clear();
        self.on_lane.resize(self.next.len() * graph.vls, 0);
        let mut astray = self.start(graph, own);
        astray |= self.arrive(graph, ways.len());
        self.wait(graph, ways.len());
        // The first in a fixed order, whatever order they were found in.
        (astray != 0).then(|| self.first_astray(graph, ways.len(), own))?
    }

    /// Carries the SLs of packets along their ways, as far as it is new.
    fn follow_levels(&mut self, own: &[Set]) {
        self.levels.clear();
        self.levels.resize(own.len(), 0);
        for (start, &own_levels) in own.iter().enumerate() {
            self.open.push(start);
            while let Some(switch) = self.open.pop() {
                // Nowhere has no levels.
                let Some(levels) = self.levels.get_mut(switch) else {
                    continue;
                };
                if *levels | own_levels != *levels {
                    *levels |= own_levels;
                    let ways = self.next.chunks_exact(own.len());
                    self.open.extend(ways.map(|next| usize::from(next[switch])));
                }
            }
        }
    }

    /// Puts packets that start at each switch on their lanes, and returns the SLs of some that
    /// leave the lanes.
    fn start(&mut self, graph: &Graph<'_>, own: &[Set]) -> Set {
        let mut astray = 0;
        let nowhere = graph.fabric.nowhere();
        let on_lane = self.on_lane.chunks_exact_mut(graph.vls);
        let sends = self.channels.iter().zip(&self.next).zip(on_lane);
        for (place, ((&channel, &next), on_lane)) in sends.enumerate() {
            if usize::from(next) == nowhere {
                continue;
            }
            let switch = place % own.len();
            for &input in &graph.starts[switch] {
                let kind = graph.lanes.kind(SwitchIdx(switch as u32), input) as u8;
                let lanes = graph.lanes_of(kind, channel as usize);
                astray |= own[switch] & lanes.astray;
                put(on_lane, own[switch], lanes);
            }
        }
        astray
    }

    /// Puts packets that come from another switch on their lanes, and returns the SLs of some that
    /// leave the lanes.
    fn arrive(&mut self, graph: &Graph<'_>, ways: usize) -> Set {
        let mut astray = 0;
        for hop in hops(
            &self.channels,
            &self.next,
            self.levels.len(),
            ways,
            graph.fabric.nowhere(),
        ) {
            let levels = self.levels[hop.switch];
            let lanes = graph.lanes_of(graph.entry_kinds[hop.channel], hop.onward_channel);
            astray |= levels & lanes.astray;
            put(
                &mut self.on_lane[hop.onward * graph.vls..][..graph.vls],
                levels,
                lanes,
            );
        }
        astray
    }

    /// Lets each channel and lane wait for those that its packets go on by.
    fn wait(&self, graph: &Graph<'_>, ways: usize) {
        for hop in hops(
            &self.channels,
            &self.next,
            self.levels.len(),
            ways,
            graph.fabric.nowhere(),
        ) {
            let lanes = graph.lanes_of(graph.entry_kinds[hop.channel], hop.onward_channel);
            let port = hop.onward_channel % graph.fabric.stride;
            let held = &self.on_lane[hop.place * graph.vls..][..graph.vls];
            for (held, &levels) in held.iter().enumerate().filter(|(_, levels)| **levels != 0) {
                for (vl, &of_lane) in lanes.of.iter().enumerate() {
                    if levels & of_lane != 0 {
                        graph.add_turn(hop.channel, held, port * graph.vls + vl);
                    }
                }
            }
        }
    }

    /// The first place where a packet leaves the lanes, those where packets start first.
    fn first_astray(&self, graph: &Graph<'_>, ways: usize, own: &[Set]) -> Option<LaneChannel> {
        let nowhere = graph.fabric.nowhere();
        let sends = (0..self.next.len()).filter(|&place| usize::from(self.next[place]) != nowhere);
        let at_start = |place: usize| {
            let switch = place % own.len();
            let mut inputs = graph.starts[switch].iter();
            let channel = self.channels[place] as usize;
            inputs.find_map(|&input| graph.astray(switch, input, channel, own[switch]))
        };
        let at_hop = |hop: Hop| {
            let input = graph.entries[hop.channel];
            let levels = self.levels[hop.switch];
            graph.astray(hop.next, input, hop.onward_channel, levels)
        };
        let mut hops = hops(&self.channels, &self.next, own.len(), ways, nowhere);
        let found = sends.into_iter().find_map(at_start);
        found.or_else(|| hops.find_map(at_hop))
    }
}

/// Puts packets of some SLs on their lanes.
fn put(on_lane: &mut [Set], levels: Set, lanes: &LevelsOfLanes) {
    for (on_lane, of_lane) in on_lane.iter_mut().zip(&lanes.of) {
        *on_lane |= levels & of_lane;
    }
}

/// Packets that go from one switch to the next, and on from there.
struct Hop {
    switch: usize,
    channel: usize,
    /// The place of (way, switch) that they leave from.
    place: usize,
    next: usize,
    /// The place of (way, next switch) that they go on from.
    onward: usize,
    onward_channel: usize,
}

/// The hops of each way, where packets go on from there by each way.
fn hops<'p>(
    channels: &'p [u32],
    next: &'p [u16],
    switches: usize,
    ways: usize,
    nowhere: usize,
) -> impl Iterator<Item = Hop> + 'p {
    let pairs = (0..ways).flat_map(move |way| (0..ways).map(move |onward| (way, onward)));
    pairs.flat_map(move |(way, onward)| {
        (0..switches).filter_map(move |switch| {
            let place = way * switches + switch;
            let to = usize::from(next[place]);
            let onward = onward * switches + to;
            let goes_on = to != nowhere && usize::from(next[onward]) != nowhere;
            goes_on.then(|| Hop {
                switch,
                channel: channels[place] as usize,
                place,
                next: to,
                onward,
                onward_channel: channels[onward] as usize,
            })
        })
    })
}
