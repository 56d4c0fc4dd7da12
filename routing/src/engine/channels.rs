//! Channels and turns of a topology, in flat arrays.
//!
//! A channel is a port group: all links from one switch to one neighbour. If a dependency graph has
//! no cycle over groups, it has none over links. A turn is a pair of channels, one into a switch
//! and one out of it.

use super::columns::{Column, NO_GROUP};
use crate::topology::{Destination, SwitchIdx, Topology};

/// The mark for "no channel".
pub(super) const NONE: u32 = u32::MAX;

/// The resolution of [`Channels::slowness`]: the value of the fastest channel.
const RATE_STEPS: u64 = 16;

/// The channels of a topology, numbered as its port groups are.
pub(super) struct Channels {
    /// For each switch, its first outgoing channel; one more element holds the number of channels.
    start: Vec<u32>,
    /// The switch that each channel leaves.
    from: Vec<u32>,
    /// The switch to which each channel leads.
    to: Vec<u32>,
    /// For each channel, the channel in the opposite direction.
    reverse: Vec<u32>,
    /// For each channel, the number of its first turn. A channel has one turn for each channel out
    /// of the switch to which it leads.
    first_turn: Vec<u32>,
    /// The number of turns.
    turns: usize,
    /// For each channel, the ratio of the fastest rate to its own, in units of 1/[`RATE_STEPS`]; 0
    /// if its load does not count.
    slowness: Vec<u64>,
    /// The number of hosts of each switch.
    hosts: Vec<u64>,
}

impl Channels {
    /// The channels of a topology, with the hosts that are present.
    pub(super) fn of(topology: &Topology) -> Channels {
        let mut channels = Channels {
            start: vec![0],
            from: Vec::with_capacity(topology.group_count()),
            to: Vec::with_capacity(topology.group_count()),
            reverse: Vec::with_capacity(topology.group_count()),
            first_turn: Vec::with_capacity(topology.group_count()),
            turns: 0,
            slowness: Vec::new(),
            hosts: topology
                .indices()
                .map(|switch| topology.hosts(switch) as u64)
                .collect(),
        };
        let mut rates = Vec::with_capacity(topology.group_count());
        for switch in topology.indices() {
            for group in topology.groups(switch) {
                channels.from.push(switch.0);
                channels.to.push(group.neighbour.0);
                let rate: u64 = group.links.iter().map(|link| u64::from(link.weight)).sum();
                rates.push(rate);
            }
            channels.start.push(channels.to.len() as u32);
        }
        let fastest = rates.iter().copied().max().unwrap_or(1);
        let slowness = |rate: u64| (fastest * RATE_STEPS).div_ceil(rate.max(1));
        channels.slowness = rates.into_iter().map(slowness).collect();
        if !topology.rules().uncounted.is_empty() {
            channels.exclude_uncounted(topology);
        }
        channels.pair_directions();
        channels
    }

    /// Replaces the host counts by the hosts among `ends`, the destinations of each switch. Paths
    /// that are balanced for missing hosts as well do not change while hosts are away.
    pub(super) fn with_hosts(mut self, ends: &[&[Destination]]) -> Channels {
        for (ends, hosts) in ends.iter().zip(&mut self.hosts) {
            *hosts = ends.iter().filter(|end| end.kind.is_host()).count() as u64;
        }
        self
    }

    /// Excludes the load of channels that have only links whose load does not count.
    fn exclude_uncounted(&mut self, topology: &Topology) {
        let mut slowness = self.slowness.iter_mut();
        for switch in topology.indices() {
            for (group, slowness) in topology.groups(switch).zip(&mut slowness) {
                let mut links = group.links.iter();
                if !links.any(|link| topology.is_counted(switch, link.port)) {
                    *slowness = 0;
                }
            }
        }
    }

    /// Finds the opposite direction of each channel, and numbers the turns.
    fn pair_directions(&mut self) {
        for channel in 0..self.to.len() {
            let mut channels_back = self.out_of(self.to[channel]);
            let reverse =
                channels_back.find(|&other| self.to[other as usize] == self.from[channel]);
            // Every link has two ends.
            self.reverse.push(reverse.unwrap_or(channel as u32));
            self.first_turn.push(self.turns as u32);
            self.turns += self.out_of(self.to[channel]).len();
        }
    }

    pub(super) fn switches(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn count(&self) -> usize {
        self.to.len()
    }

    pub(super) fn turns(&self) -> usize {
        self.turns
    }

    /// The switch that a channel leaves.
    pub(super) fn from(&self, channel: u32) -> u32 {
        self.from[channel as usize]
    }

    /// The switch to which a channel leads.
    pub(super) fn to(&self, channel: u32) -> u32 {
        self.to[channel as usize]
    }

    /// The channel in the opposite direction.
    pub(super) fn reverse(&self, channel: u32) -> u32 {
        self.reverse[channel as usize]
    }

    /// The ratio of the fastest rate to the channel's own, in units of 1/[`RATE_STEPS`]; 0 if the
    /// load of the channel does not count.
    pub(super) fn slowness(&self, channel: u32) -> u64 {
        self.slowness[channel as usize]
    }

    /// The number of hosts of a switch.
    pub(super) fn hosts(&self, switch: u32) -> u64 {
        self.hosts[switch as usize]
    }

    /// The channels out of a switch.
    pub(super) fn out_of(&self, switch: u32) -> std::ops::Range<u32> {
        self.start[switch as usize]..self.start[switch as usize + 1]
    }

    /// The channel by which a switch forwards if its element in a column is `group`.
    pub(super) fn channel(&self, switch: SwitchIdx, group: u8) -> u32 {
        self.start[switch.index()] + u32::from(group)
    }

    /// For each switch, the channel by which packets of a column leave it.
    pub(super) fn next(&self, column: &Column) -> Vec<u32> {
        let next = |(switch, &group): (usize, &u8)| match group {
            NO_GROUP => NONE,
            group => self.channel(SwitchIdx(switch as u32), group),
        };
        column.iter().enumerate().map(next).collect()
    }

    /// For each switch, the number of hosts whose packets pass it in a column, including its own
    /// hosts.
    pub(super) fn flows(&self, column: &Column) -> Vec<u64> {
        let mut flows = self.hosts.clone();
        self.gather(&self.next(column), &mut flows);
        flows
    }

    /// Adds to the flow of each switch the flows that arrive there; `next` holds the channel by
    /// which each switch forwards.
    pub(super) fn gather(&self, next: &[u32], flows: &mut [u64]) {
        let mut waiting = vec![0u32; next.len()];
        for &channel in next.iter().filter(|&&channel| channel != NONE) {
            waiting[self.to(channel) as usize] += 1;
        }
        for start in 0..next.len() {
            let mut switch = start;
            // Zero marks a switch at which all flows have arrived; `u32::MAX` marks one that has
            // forwarded.
            while waiting[switch] == 0 && next[switch] != NONE {
                waiting[switch] = u32::MAX;
                let to = self.to(next[switch]) as usize;
                flows[to] += flows[switch];
                waiting[to] -= 1;
                switch = to;
            }
        }
    }

    /// The number of the turn from `input` into `output`.
    pub(super) fn turn(&self, input: u32, output: u32) -> usize {
        let first_out = self.start[self.to(input) as usize];
        (self.first_turn[input as usize] + (output - first_out)) as usize
    }
}
