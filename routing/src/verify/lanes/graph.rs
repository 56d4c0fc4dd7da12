//! The channel dependency graph over (link, VL), and the packets to one LID that add to it.

use std::sync::atomic::{AtomicU64, Ordering};

use rsm_ids::PortNum;

use super::LaneChannel;
use crate::lanes::{DROP, Lanes, SERVICE_LEVELS, ServiceLevels};
use crate::topology::{PortUse, SwitchIdx, Topology};
use crate::verify::cycles::Waits;
use crate::verify::fabric::Fabric;

/// A set of service levels, one bit for each.
pub(super) type SlSet = u16;

/// The service levels in a set, ascending.
pub(super) fn members(set: SlSet) -> impl Iterator<Item = usize> {
    (0..SERVICE_LEVELS).filter(move |member| set >> member & 1 != 0)
}

/// The maximum number of data VLs of a link.
const MAX_DATA_VLS: usize = DROP as usize;

/// The SLtoVLMappingTable row from one kind of ports to another, inverted: the SLs of each VL.
#[derive(Clone, Copy, Default)]
struct SlsByVl {
    /// The service levels of each VL; empty for VLs that the routing does not use.
    of: [SlSet; MAX_DATA_VLS],
    /// The SLs mapped to a VL that the routing does not use.
    outside_vls: SlSet,
}

/// A wait of packets: the (channel, VL) that they hold, and the (channel, VL) that they wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    pub(super) holds: usize,
    pub(super) wants: usize,
}

/// The channel dependency graph over (link, VL). All threads add to it; the result does not depend
/// on the order.
pub(super) struct Graph<'a> {
    pub(super) fabric: Fabric<'a>,
    pub(super) lanes: &'a Lanes,
    /// The number of VLs that the routing uses.
    pub(super) vls: usize,
    /// For each switch, ports at which packets start, one of each kind, with their kind.
    pub(super) starts: Vec<Vec<(PortNum, u8)>>,
    /// For each channel, the port at the other end.
    entries: Vec<PortNum>,
    /// For each channel, the kind of the port that sends.
    pub(super) kinds: Vec<u8>,
    /// For each channel, the kind of the port at the other end.
    pub(super) entry_kinds: Vec<u8>,
    /// The SLtoVLMappingTables, by kind of input port and then by kind of output port.
    mapping: Vec<SlsByVl>,
    /// The number of kinds of ports.
    kind_count: usize,
    /// For each channel and VL, a bit for each (channel, VL) pair of the next switch: whether
    /// packets wait for it.
    turns: Vec<AtomicU64>,
    /// The number of words of `turns` for each channel and VL.
    words: usize,
}

impl<'a> Graph<'a> {
    /// Creates a graph without packets.
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
                    // A switch has at most 254 ports, and at most as many kinds.
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

    /// The SLs of packets from one switch to another. With levels by pair, the set has the levels
    /// of both directions: an answer has the SL of its request (IBA 13.5.4).
    pub(super) fn own_levels(&self, from: SwitchIdx, to: SwitchIdx) -> SlSet {
        let levels_of = |level: Option<u8>| match level {
            None => SlSet::MAX,
            Some(level) => 1 << (level % SERVICE_LEVELS as u8),
        };
        let levels = levels_of(self.lanes.level(from, to));
        match self.lanes.levels() {
            ServiceLevels::ByPair(_) => levels | levels_of(self.lanes.level(to, from)),
            ServiceLevels::Any | ServiceLevels::ByDestination(_) => levels,
        }
    }

    /// The switch, port and VL of a (channel, VL) pair.
    pub(super) fn name(&self, node: usize) -> LaneChannel {
        let (switch, port) = self.fabric.name(node / self.vls);
        LaneChannel {
            switch,
            port,
            vl: (node % self.vls) as u8,
        }
    }

    /// The index in the mapping for packets that come in by a port of kind
    /// `input` and leave by `channel`.
    fn mapping_of(&self, input: u8, channel: usize) -> usize {
        usize::from(input) * self.kind_count + usize::from(self.kinds[channel])
    }

    /// The VL of packets of SL `level` that come in by a port of kind `input` and leave by
    /// `channel`. The routing may not use this VL.
    pub(super) fn lane(&self, input: u8, channel: usize, level: usize) -> u8 {
        let output = usize::from(self.kinds[channel]);
        let row = self.lanes.row_of_kinds(usize::from(input), output);
        // If switches may map SLs freely, one VL stands for all.
        row.map_or(0, |row| row[level])
    }

    /// Makes a channel on a VL wait for a (port, VL) pair of the next switch, given as in
    /// [`Graph::turn_of`].
    fn add_turn(&self, channel: usize, vl: usize, turn: usize) {
        let (at, bit) = self.turn_bit(channel * self.vls + vl, turn);
        if self.turns[at].load(Ordering::Relaxed) & bit == 0 {
            self.turns[at].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The index in `turns` and the bit of a wait.
    fn turn_bit(&self, node: usize, turn: usize) -> (usize, u64) {
        (node * self.words + turn / 64, 1 << (turn % 64))
    }

    /// Makes one (channel, VL) wait for another at the switch to which the first leads. Returns
    /// whether the wait is new.
    pub(super) fn add_wait(&mut self, wait: Wait) -> bool {
        let (at, bit) = self.turn_bit(wait.holds, self.turn_of(wait));
        let word = self.turns[at].get_mut();
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes a wait.
    pub(super) fn remove_wait(&mut self, wait: Wait) {
        let (at, bit) = self.turn_bit(wait.holds, self.turn_of(wait));
        *self.turns[at].get_mut() &= !bit;
    }

    /// The number of the (port, VL) pair for which packets wait, among the pairs of the next
    /// switch.
    fn turn_of(&self, wait: Wait) -> usize {
        wait.wants % (self.fabric.stride * self.vls)
    }

    /// The channel and VL of a packet that leaves the routing's VLs between an input port of a
    /// switch and one of its channels, with one of `levels`; `None` if no packet does.
    fn outside_vls(
        &self,
        switch: usize,
        input: PortNum,
        channel: usize,
        levels: SlSet,
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

impl Clone for Graph<'_> {
    fn clone(&self) -> Self {
        let turns = self.turns.iter().map(|word| word.load(Ordering::Relaxed));
        Graph {
            fabric: self.fabric.clone(),
            lanes: self.lanes,
            vls: self.vls,
            starts: self.starts.clone(),
            entries: self.entries.clone(),
            kinds: self.kinds.clone(),
            entry_kinds: self.entry_kinds.clone(),
            mapping: self.mapping.clone(),
            kind_count: self.kind_count,
            turns: turns.map(AtomicU64::new).collect(),
            words: self.words,
        }
    }
}

/// Ports of a switch at which packets start, one of each kind.
fn starts(topology: &Topology, lanes: &Lanes, switch: SwitchIdx) -> Vec<(PortNum, u8)> {
    let ports = || (0..=topology.switch(switch).num_ports).map(PortNum);
    let mut starts: Vec<(PortNum, u8)> = Vec::new();
    for port in ports() {
        let is_start = match topology.port_use(switch, port) {
            PortUse::Link { .. } => false,
            PortUse::Destination(_) => true,
            PortUse::Unused => port == PortNum::ZERO,
        };
        let alike = |&(other, _): &(PortNum, u8)| {
            ports()
                .all(|output| lanes.row(switch, port, output) == lanes.row(switch, other, output))
        };
        if is_start && !starts.iter().any(alike) {
            // There are at most as many kinds as ports.
            starts.push((port, lanes.kind(switch, port) as u8));
        }
    }
    starts
}

/// The VLs by kind of input port, then by kind of output port.
fn mapping(lanes: &Lanes, vls: usize) -> Vec<SlsByVl> {
    let kinds = lanes.kinds();
    let pairs = (0..kinds).flat_map(|input| (0..kinds).map(move |output| (input, output)));
    let levels_of_lanes = |(input, output)| {
        let row = lanes.row_of_kinds(input, output);
        let mut levels = SlsByVl::default();
        for level in 0..SERVICE_LEVELS {
            // If switches may map SLs freely, one VL stands for all.
            let vl = row.map_or(0, |row| usize::from(row[level]));
            let set = levels.of[..vls].get_mut(vl);
            *set.unwrap_or(&mut levels.outside_vls) |= 1 << level;
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

/// The packets to one LID, for which each switch may follow any of several alternative tables.
#[derive(Default)]
pub(super) struct Packets {
    /// The channel into which a switch sends, by alternative and then by switch.
    channels: Vec<u32>,
    /// The next switch, or [`Fabric::nowhere`], by alternative and then by switch.
    next: Vec<u16>,
    /// For each switch, the SLs of packets that leave it.
    levels: Vec<SlSet>,
    /// The SLs of packets that leave on a VL, by alternative, then by switch, then by VL.
    on_lane: Vec<SlSet>,
    /// The hops from a switch to the next one from which packets go on.
    hops: Vec<Hop>,
    /// The switches whose packets are still to be followed.
    open: Vec<usize>,
}

/// Packets that go from one switch to the next, and onward from there. Switches are numbered with
/// 16 bits, and there are few alternatives.
struct Hop {
    /// The index of the (alternative, switch) that the packets leave.
    place: u32,
    /// The index of the (alternative, next switch) by which the packets go on.
    onward: u32,
    /// The packets' index in the mapping of the next switch.
    mapping: u32,
}

impl Packets {
    /// Adds the packets to one LID to a graph, and returns the first place where a packet leaves
    /// the routing's VLs; `None` if no packet does. `alternatives` holds the switches' table bytes,
    /// of which each switch may follow any; `own` holds the SLs of packets that start at each
    /// switch.
    pub(super) fn add_to(
        &mut self,
        graph: &Graph<'_>,
        alternatives: &[&[u8]],
        own: &[SlSet],
    ) -> Option<LaneChannel> {
        self.find_channels(graph, alternatives);
        self.follow_levels(own);
        self.find_hops(graph, alternatives.len());
        self.on_lane.clear();
        self.on_lane.resize(self.next.len() * graph.vls, 0);
        let outside_vls = self.put_starting(graph, own) | self.put_arriving(graph);
        self.add_waits(graph);
        if outside_vls == 0 {
            return None;
        }
        self.first_outside_vls(graph, own)
    }

    /// Finds the channel and the next switch of each entry.
    fn find_channels(&mut self, graph: &Graph<'_>, alternatives: &[&[u8]]) {
        let fabric = &graph.fabric;
        self.channels.clear();
        self.next.clear();
        for bytes in alternatives {
            for (switch, &byte) in bytes.iter().enumerate() {
                // There are fewer switches than LIDs, and each has fewer than 2^9 channels.
                let channel = fabric.channel(switch, byte);
                self.channels.push(channel as u32);
                self.next.push(fabric.next(channel) as u16);
            }
        }
    }

    /// Finds the SLs of the packets that leave each switch, by following the packets that start at
    /// each switch.
    fn follow_levels(&mut self, own: &[SlSet]) {
        self.levels.clear();
        self.levels.resize(own.len(), 0);
        for (start, &own_levels) in own.iter().enumerate() {
            self.open.push(start);
            while let Some(switch) = self.open.pop() {
                // [`Fabric::nowhere`] has no levels.
                let Some(levels) = self.levels.get_mut(switch) else {
                    continue;
                };
                if *levels | own_levels != *levels {
                    *levels |= own_levels;
                    let alternatives = self.next.chunks_exact(own.len());
                    self.open
                        .extend(alternatives.map(|next| usize::from(next[switch])));
                }
            }
        }
    }

    /// Finds the hops by each alternative, with the next hop by each alternative.
    fn find_hops(&mut self, graph: &Graph<'_>, alternatives: usize) {
        let (switches, nowhere) = (self.levels.len(), graph.fabric.nowhere());
        self.hops.clear();
        for (alternative, onward) in
            (0..alternatives * alternatives).map(|pair| (pair / alternatives, pair % alternatives))
        {
            for place in alternative * switches..(alternative + 1) * switches {
                let next = usize::from(self.next[place]);
                let onward = onward * switches + next;
                if next == nowhere || usize::from(self.next[onward]) == nowhere {
                    continue;
                }
                let input = graph.entry_kinds[self.channels[place] as usize];
                let mapping = graph.mapping_of(input, self.channels[onward] as usize);
                self.hops.push(Hop {
                    place: place as u32,
                    onward: onward as u32,
                    mapping: mapping as u32,
                });
            }
        }
    }

    /// Puts packets that start at each switch on their VLs, and returns the SLs of packets that
    /// leave the routing's VLs.
    fn put_starting(&mut self, graph: &Graph<'_>, own: &[SlSet]) -> SlSet {
        let mut outside_vls = 0;
        let nowhere = graph.fabric.nowhere();
        let on_lane = self.on_lane.chunks_exact_mut(graph.vls);
        let sends = self.channels.iter().zip(&self.next).zip(on_lane);
        for (place, ((&channel, &next), on_lane)) in sends.enumerate() {
            if usize::from(next) == nowhere {
                continue;
            }
            let switch = place % own.len();
            for &(_, kind) in &graph.starts[switch] {
                let lanes = &graph.mapping[graph.mapping_of(kind, channel as usize)];
                outside_vls |= own[switch] & lanes.outside_vls;
                put_on_lanes(on_lane, own[switch], lanes);
            }
        }
        outside_vls
    }

    /// Puts packets that come from another switch on their VLs, and returns the SLs of packets that
    /// leave the routing's VLs.
    fn put_arriving(&mut self, graph: &Graph<'_>) -> SlSet {
        let mut outside_vls = 0;
        let switches = self.levels.len();
        for hop in &self.hops {
            let levels = self.levels[hop.place as usize % switches];
            let lanes = &graph.mapping[hop.mapping as usize];
            outside_vls |= levels & lanes.outside_vls;
            let on_lane = &mut self.on_lane[hop.onward as usize * graph.vls..][..graph.vls];
            put_on_lanes(on_lane, levels, lanes);
        }
        outside_vls
    }

    /// Makes each (channel, VL) wait for the (channel, VL) pairs to which its packets go on.
    fn add_waits(&self, graph: &Graph<'_>) {
        for hop in &self.hops {
            let lanes = &graph.mapping[hop.mapping as usize].of[..graph.vls];
            let channel = self.channels[hop.place as usize] as usize;
            let port = self.channels[hop.onward as usize] as usize % graph.fabric.stride;
            let held = &self.on_lane[hop.place as usize * graph.vls..][..graph.vls];
            for (held, &levels) in held.iter().enumerate().filter(|(_, levels)| **levels != 0) {
                for (vl, &of_lane) in lanes.iter().enumerate() {
                    if levels & of_lane != 0 {
                        graph.add_turn(channel, held, port * graph.vls + vl);
                    }
                }
            }
        }
    }

    /// The first place where a packet leaves the routing's VLs; places where packets start come
    /// first.
    fn first_outside_vls(&self, graph: &Graph<'_>, own: &[SlSet]) -> Option<LaneChannel> {
        let nowhere = graph.fabric.nowhere();
        let at_start = |place: usize| {
            let switch = place % own.len();
            let channel = self.channels[place] as usize;
            let mut inputs = graph.starts[switch].iter();
            inputs.find_map(|&(input, _)| graph.outside_vls(switch, input, channel, own[switch]))
        };
        let at_hop = |hop: &Hop| {
            let channel = self.channels[hop.place as usize] as usize;
            let onward = self.channels[hop.onward as usize] as usize;
            let levels = self.levels[hop.place as usize % own.len()];
            graph.outside_vls(
                graph.fabric.next(channel),
                graph.entries[channel],
                onward,
                levels,
            )
        };
        let mut sends = (0..self.next.len()).filter(|&at| usize::from(self.next[at]) != nowhere);
        let found = sends.find_map(at_start);
        found.or_else(|| self.hops.iter().find_map(at_hop))
    }
}

/// Puts packets of some SLs on their VLs.
fn put_on_lanes(on_lane: &mut [SlSet], levels: SlSet, lanes: &SlsByVl) {
    for (on_lane, of_lane) in on_lane.iter_mut().zip(&lanes.of) {
        *on_lane |= levels & of_lane;
    }
}
