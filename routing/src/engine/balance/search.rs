//! Searches the paths of one column.

use super::super::channels::{Channels, NONE};
use super::super::columns::{Column, NO_GROUP};
use super::super::dependencies::ChannelOrder;
use super::{Guide, PlannedColumn};
use crate::topology::{SwitchIdx, Topology};

/// The mark of a switch that the search has not reached.
const UNSEEN: u32 = u32::MAX;

/// The cost of a turn against the order, if such turns are permitted: more than any sum of loads.
/// Paths have fewer than 2^16 turns, so that sums fit.
const ILLEGAL_TURN: u64 = 1 << 48;

/// The state of a search for the paths from all switches to one destination.
pub(super) struct Search<'a> {
    topology: &'a Topology,
    channels: &'a Channels,
    guide: Guide<'a>,
    /// For each channel, the place of the opposite channel in the order: the search starts at the
    /// destination, so that packets use the opposite channel.
    places: Vec<u32>,
    destination: u32,
    /// The component of the destination.
    component: &'a [SwitchIdx],
    /// For each switch, the next channel of its path; [`NONE`] if it has no path.
    next: Vec<u32>,
    /// For each switch, the sum of the weights on its path.
    cost: Vec<u64>,
    /// For each switch, the number of hops of its path; [`UNSEEN`] if it has no path.
    hops: Vec<u32>,
    /// For each switch, whether its path is final, because other paths continue it.
    settled: Vec<bool>,
    /// The reached switches, in the order in which they were reached.
    reached: Vec<u32>,
    /// A number by which ties between equal choices are broken differently for each column.
    rotation: u32,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        topology: &'a Topology,
        channels: &'a Channels,
        guide: Guide<'a>,
    ) -> Search<'a> {
        let count = channels.switches();
        let place = |channel: u32| match guide {
            Guide::Free => 0,
            Guide::Prefer(order) | Guide::Follow(order) => order.place(channels.reverse(channel)),
        };
        Search {
            topology,
            channels,
            guide,
            places: (0..channels.count() as u32).map(place).collect(),
            destination: 0,
            component: &[],
            next: vec![NONE; count],
            cost: vec![0; count],
            hops: vec![UNSEEN; count],
            settled: vec![false; count],
            reached: Vec::with_capacity(count),
            rotation: 0,
        }
    }

    /// Finds a path to the destination of `planned` from every switch of its component. The weight
    /// of a channel is at the index of the opposite channel in `weights`. Channels with a weight
    /// above `cap` are used only for switches that no other channel reaches.
    pub(super) fn run(&mut self, planned: &PlannedColumn, weights: &[u64], cap: u64) {
        self.destination = planned.destination.0;
        self.rotation = planned.destination.0.wrapping_add(planned.number);
        self.next.fill(NONE);
        self.hops.fill(UNSEEN);
        self.settled.fill(false);
        self.reached.clear();
        self.hops[planned.destination.index()] = 0;
        self.cost[planned.destination.index()] = 0;
        self.reached.push(planned.destination.0);
        let component = self.topology.component_of(planned.destination);
        self.component = &self.topology.components()[component].switches;
        self.expand(0, weights, cap);
        if cap < u64::MAX {
            self.expand(0, weights, u64::MAX);
        }
        if let Guide::Follow(order) = self.guide {
            self.join_by_detours(order, weights);
            self.use_latest_channels(order);
        }
    }

    /// The upper limit, exclusive, of the place of a channel into `switch` whose turn into the path
    /// is legal.
    fn limit(&self, switch: u32) -> u32 {
        match self.guide {
            Guide::Prefer(order) | Guide::Follow(order) if switch != self.destination => {
                order.place(self.next[switch as usize])
            }
            _ => u32::MAX,
        }
    }

    /// Continues, level by level, from the switches reached at index `begin` and later.
    fn expand(&mut self, mut begin: usize, weights: &[u64], cap: u64) {
        while begin < self.reached.len() {
            let end = self.reached.len();
            for at in begin..end {
                self.settled[self.reached[at] as usize] = true;
            }
            if end == self.component.len() {
                // The last level, usually the largest, has no unreached neighbours.
                return;
            }
            for at in begin..end {
                self.relax_neighbours(self.reached[at], weights, cap);
            }
            begin = end;
        }
    }

    /// Gives each neighbour of `to` a path through `to` unless the neighbour has a better path.
    fn relax_neighbours(&mut self, to: u32, weights: &[u64], cap: u64) {
        let limit = self.limit(to);
        let must_follow = matches!(self.guide, Guide::Follow(_));
        let level = self.hops[to as usize] + 1;
        let cost = self.cost[to as usize];
        for out in self.channels.out_of(to) {
            let from = self.channels.to(out) as usize;
            if self.settled[from] {
                continue;
            }
            let weight = weights[out as usize];
            let is_refused = self.places[out as usize] >= limit;
            if weight > cap || (is_refused && must_follow) {
                continue;
            }
            let cost = cost + weight + if is_refused { ILLEGAL_TURN } else { 0 };
            let channel = self.channels.reverse(out);
            if self.hops[from] == UNSEEN {
                self.reached.push(from as u32);
            } else if (
                self.hops[from],
                self.cost[from],
                self.tie_break(self.next[from]),
            ) <= (level, cost, self.tie_break(channel))
            {
                continue;
            }
            self.hops[from] = level;
            self.next[from] = channel;
            self.cost[from] = cost;
        }
    }

    /// The tie-break of a channel: its number mixed with the rotation. The lower value wins.
    fn tie_break(&self, channel: u32) -> u32 {
        (channel ^ self.rotation.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b)
    }

    /// Connects each switch without a legal path through a neighbour that changes to a later next
    /// channel; paths that already lead through that neighbour change with it. Places rise along
    /// every path, so that the turns stay legal and no path can close a loop.
    fn join_by_detours(&mut self, order: &ChannelOrder, weights: &[u64]) {
        while self.reached.len() < self.component.len() {
            let before = self.reached.len();
            for unreached in self.component.iter().map(|switch| switch.0) {
                if self.hops[unreached as usize] != UNSEEN {
                    continue;
                }
                if let Some((channel, onward, hops)) = self.detour(order, unreached) {
                    let via = self.channels.to(channel);
                    self.next[via as usize] = onward;
                    self.next[unreached as usize] = channel;
                    self.hops[unreached as usize] = hops;
                    self.cost[unreached as usize] = self.cost[via as usize];
                    let begin = self.reached.len();
                    self.reached.push(unreached);
                    self.expand(begin, weights, u64::MAX);
                }
            }
            if self.reached.len() == before {
                return;
            }
        }
    }

    /// The shortest path of an unreached switch through a neighbour that changes its next channel:
    /// the channel to the neighbour, the neighbour's new channel, and the number of hops. `None` if
    /// there is none.
    fn detour(&self, order: &ChannelOrder, unreached: u32) -> Option<(u32, u32, u32)> {
        let mut best: Option<(u32, u32, u32)> = None;
        for channel in self.channels.out_of(unreached) {
            let via = self.channels.to(channel);
            if self.hops[via as usize] == UNSEEN || via == self.destination {
                continue;
            }
            for onward in self.channels.out_of(via) {
                let beyond = self.channels.to(onward);
                let hops = self.hops[beyond as usize];
                if hops == UNSEEN
                    || order.place(onward) <= order.place(channel)
                    || order.place(onward) >= self.limit(beyond)
                {
                    continue;
                }
                if best.is_none_or(|(_, _, least)| hops + 2 < least) {
                    best = Some((channel, onward, hops + 2));
                }
            }
        }
        best
    }

    /// Gives all remaining switches the paths by the latest channels. Every switch has such a path,
    /// because the turns of a spanning tree are legal.
    fn use_latest_channels(&mut self, order: &ChannelOrder) {
        if self.reached.len() == self.component.len() {
            return;
        }
        let last = self.last_channels(order);
        for unreached in self.component.iter().map(|switch| switch.0) {
            let mut at = unreached;
            let mut place = None;
            while at != self.destination {
                let next = self.next[at as usize];
                if next != NONE && place.is_none_or(|place| order.place(next) > place) {
                    break;
                }
                let channel = last[at as usize];
                self.next[at as usize] = channel;
                place = Some(order.place(channel));
                at = self.channels.to(channel);
            }
        }
    }

    /// For each switch, the latest of its channels from which a legal path leads to the
    /// destination.
    fn last_channels(&self, order: &ChannelOrder) -> Vec<u32> {
        let mut last = vec![NONE; self.next.len()];
        for channel in order.latest_first() {
            let (from, to) = (self.channels.from(channel), self.channels.to(channel));
            let leads_there = to == self.destination || last[to as usize] != NONE;
            if leads_there && from != self.destination && last[from as usize] == NONE {
                last[from as usize] = channel;
            }
        }
        last
    }

    /// The paths found, as a column.
    pub(super) fn column(&self) -> Column {
        self.next
            .iter()
            .enumerate()
            .map(|(switch, &channel)| match channel {
                NONE => NO_GROUP,
                // A switch has at most 254 groups.
                channel => (channel - self.channels.out_of(switch as u32).start) as u8,
            })
            .collect()
    }
}
