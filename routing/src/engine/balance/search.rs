//! The search for one column.

use super::super::channels::{Channels, NONE};
use super::super::columns::{Column, NO_GROUP};
use super::super::dependencies::ChannelOrder;
use super::{Guide, Way};
use crate::topology::{SwitchIdx, Topology};

/// Not reached yet.
const UNSEEN: u32 = u32::MAX;

/// The cost of a turn that does not follow an order, where it may be taken: more than loads add up
/// to. Paths have fewer than 2^16 turns.
const REFUSED: u64 = 1 << 48;

/// The channels by which switches go to a destination.
pub(super) struct Search<'a> {
    topology: &'a Topology,
    channels: &'a Channels,
    guide: Guide<'a>,
    /// By channel: the place of the one in the other direction, the one that the search goes by.
    places: Vec<u32>,
    destination: u32,
    /// The switches that are connected with the destination.
    part: &'a [SwitchIdx],
    /// By switch.
    next: Vec<u32>,
    cost: Vec<u64>,
    hops: Vec<u32>,
    /// By switch: whether others go by it, so that its path stays.
    settled: Vec<bool>,
    /// Switches that are reached, in order.
    reached: Vec<u32>,
    /// Turns equal choices, so that columns differ.
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
            part: &[],
            next: vec![NONE; count],
            cost: vec![0; count],
            hops: vec![UNSEEN; count],
            settled: vec![false; count],
            reached: Vec::with_capacity(count),
            rotation: 0,
        }
    }

    /// Finds a path from every switch of the destination's part. `weights` are by channel, for the
    /// one in the other direction; channels above the `cap` are for switches that no other reaches.
    pub(super) fn run(&mut self, way: &Way, weights: &[u64], cap: u64) {
        self.destination = way.destination.0;
        self.rotation = way.destination.0.wrapping_add(way.number);
        self.next.fill(NONE);
        self.hops.fill(UNSEEN);
        self.settled.fill(false);
        self.reached.clear();
        self.hops[way.destination.index()] = 0;
        self.cost[way.destination.index()] = 0;
        self.reached.push(way.destination.0);
        let part = self.topology.component_of(way.destination);
        self.part = &self.topology.components()[part].switches;
        self.expand(0, weights, cap);
        if cap < u64::MAX {
            self.expand(0, weights, u64::MAX);
        }
        if let Guide::Follow(order) = self.guide {
            self.join_by_detours(order, weights);
            self.take_last(order);
        }
    }

    /// The place that channels into `switch` must be below to be legal.
    fn limit(&self, switch: u32) -> u32 {
        match self.guide {
            Guide::Prefer(order) | Guide::Follow(order) if switch != self.destination => {
                order.place(self.next[switch as usize])
            }
            _ => u32::MAX,
        }
    }

    /// Goes on from the switches reached at `begin` and later, level by level.
    fn expand(&mut self, mut begin: usize, weights: &[u64], cap: u64) {
        while begin < self.reached.len() {
            let end = self.reached.len();
            for at in begin..end {
                self.settled[self.reached[at] as usize] = true;
            }
            if end == self.part.len() {
                // The last level, which is mostly the largest, needs no look at its neighbours.
                return;
            }
            for at in begin..end {
                self.offer(self.reached[at], weights, cap);
            }
            begin = end;
        }
    }

    /// Offers the path of `to` to its neighbours one level further out.
    fn offer(&mut self, to: u32, weights: &[u64], cap: u64) {
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
            let cost = cost + weight + if is_refused { REFUSED } else { 0 };
            let channel = self.channels.reverse(out);
            if self.hops[from] == UNSEEN {
                self.reached.push(from as u32);
            } else if (
                self.hops[from],
                self.cost[from],
                self.turned(self.next[from]),
            ) <= (level, cost, self.turned(channel))
            {
                continue;
            }
            self.hops[from] = level;
            self.next[from] = channel;
            self.cost[from] = cost;
        }
    }

    /// Mixes the number of a channel with the rotation.
    fn turned(&self, channel: u32) -> u32 {
        (channel ^ self.rotation.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b)
    }

    /// Joins switches without a legal turn by way of neighbours that take a later channel, with all
    /// that already go by them: places rise along every path, so that later ones stay legal, and no
    /// path can close a loop.
    fn join_by_detours(&mut self, order: &ChannelOrder, weights: &[u64]) {
        while self.reached.len() < self.part.len() {
            let before = self.reached.len();
            for unreached in self.part.iter().map(|switch| switch.0) {
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

    /// The shortest path of an unreached switch by way of a neighbour that takes another channel: the
    /// channel to the neighbour, the neighbour's new one, and the hops.
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

    /// Gives the switches that are left the path by the latest channels. These paths exist for
    /// every switch, because the turns of a spanning tree follow the order.
    fn take_last(&mut self, order: &ChannelOrder) {
        if self.reached.len() == self.part.len() {
            return;
        }
        let last = self.last_channels(order);
        for unreached in self.part.iter().map(|switch| switch.0) {
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

    /// By switch: the latest channel from which a legal path leads to the destination.
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

    pub(super) fn column(&self) -> Column {
        self.next
            .iter()
            .enumerate()
            .map(|(switch, &channel)| match channel {
                NONE => NO_GROUP,
                // At most 254 groups to a switch.
                channel => (channel - self.channels.out_of(switch as u32).start) as u8,
            })
            .collect()
    }
}
