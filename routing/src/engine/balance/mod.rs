//! Columns of few hops that share the links evenly.
//!
//! The search for a column goes from its destination outwards, level by level. A switch takes the
//! least loaded of the shortest paths; with a [`ChannelOrder`] only paths count that follow it. A
//! destination switch with several hosts has several columns, each searched with the load of all
//! columns before it.

mod search;

use std::collections::BTreeMap;

use super::channels::{Channels, NONE};
use super::columns::Column;
use super::dependencies::ChannelOrder;
use crate::topology::{SwitchIdx, Topology};
use search::Search;

/// The most columns of a destination switch. Hosts beyond share them in turn: finer shares cost
/// time and memory, and switches have hardly more parallel paths to most destinations.
pub(super) const MAX_COLUMNS: usize = 16;

/// A channel carries more than its share with more load than this many times the mean.
const FAIR: u64 = 2;

/// The paths that a search may take.
#[derive(Clone, Copy)]
pub(super) enum Guide<'a> {
    /// Any shortest ones.
    Free,
    /// Shortest ones, if possible those that follow an order.
    Prefer(&'a ChannelOrder),
    /// Those that follow an order.
    Follow(&'a ChannelOrder),
}

/// One way to a destination switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) destination: SwitchIdx,
    /// How many of its hosts are reached by this way.
    pub(super) hosts: u64,
    /// Which of the destination's ways it is.
    pub(super) number: u32,
}

/// The ways to some destinations, at most `most` each: the first of every destination, then the
/// second, and so on; destinations with many hosts come first.
pub(super) fn ways(channels: &Channels, destinations: &[SwitchIdx], most: usize) -> Vec<Way> {
    let mut by_hosts = destinations.to_vec();
    by_hosts.sort_by_key(|&switch| std::cmp::Reverse(channels.hosts(switch.0)));
    let mut ways = Vec::new();
    for number in 0..most as u64 {
        for &destination in &by_hosts {
            let hosts = channels.hosts(destination.0);
            let count = hosts.clamp(1, most as u64);
            if number < count {
                ways.push(Way {
                    destination,
                    // Hosts take the ways in turn.
                    hosts: (hosts + count - 1 - number) / count,
                    number: number as u32,
                });
            }
        }
    }
    ways
}

/// Columns to some destinations, at most `most` each: first to those with hosts, balanced, then to
/// the others.
pub(super) fn columns(
    balance: &mut Balance<'_>,
    destinations: &[SwitchIdx],
    most: usize,
    guide: Guide<'_>,
) -> Vec<(SwitchIdx, Vec<Column>)> {
    let channels = balance.channels;
    let mut found: BTreeMap<SwitchIdx, Vec<Column>> = BTreeMap::new();
    let (with_hosts, without): (Vec<_>, Vec<_>) = destinations
        .iter()
        .partition(|switch| channels.hosts(switch.0) > 0);
    for some in [with_hosts, without] {
        let ways = ways(channels, &some, most);
        let mut columns = balance.columns(&ways, guide);
        if let Guide::Follow(_) = guide {
            balance.relieve(&ways, &mut columns, guide);
        }
        for (way, column) in ways.iter().zip(columns) {
            // Ways of one destination are in the order of their numbers.
            found.entry(way.destination).or_default().push(column);
        }
    }
    found.into_iter().collect()
}

/// The load of all channels, in paths between hosts.
pub(super) struct Balance<'a> {
    topology: &'a Topology,
    channels: &'a Channels,
    /// By channel, for the one in the other direction, as searches read it: paths, times slowness.
    weights: Vec<u64>,
}

impl<'a> Balance<'a> {
    pub(super) fn new(topology: &'a Topology, channels: &'a Channels) -> Balance<'a> {
        Balance {
            topology,
            channels,
            weights: vec![0; channels.count()],
        }
    }

    /// A column for each of `ways`.
    pub(super) fn columns(&mut self, ways: &[Way], guide: Guide<'_>) -> Vec<Column> {
        let mut search = Search::new(self.topology, self.channels, guide);
        let find = |way: &Way| {
            search.run(way, &self.weights, u64::MAX);
            let column = search.column();
            self.add(&self.shares(way, &column));
            column
        };
        ways.iter().map(find).collect()
    }

    /// Searches again for columns that use channels with more than their share of the load, mostly
    /// without these channels.
    pub(super) fn relieve(&mut self, ways: &[Way], columns: &mut [Column], guide: Guide<'_>) {
        let fair = self.fair();
        let mut search = Search::new(self.topology, self.channels, guide);
        for (way, column) in ways.iter().zip(columns) {
            let shares = self.shares(way, column);
            if !shares
                .iter()
                .any(|&(channel, _)| self.weights[channel] > fair)
            {
                continue;
            }
            self.remove(&shares);
            search.run(way, &self.weights, fair);
            let found = search.column();
            let other = self.shares(way, &found);
            if self.strain(&other) < self.strain(&shares) {
                *column = found;
                self.add(&other);
            } else {
                self.add(&shares);
            }
        }
    }

    /// The load of the fullest channel.
    pub(super) fn fullest(&self) -> u64 {
        self.weights.iter().copied().max().unwrap_or(0)
    }

    /// The load of a channel that carries its fair part.
    fn fair(&self) -> u64 {
        FAIR * self.weights.iter().sum::<u64>() / self.weights.len().max(1) as u64
    }

    /// The channels of a column, each by the one in the other direction, with what it adds to their
    /// weight.
    fn shares(&self, way: &Way, column: &Column) -> Vec<(usize, u64)> {
        if way.hosts == 0 {
            return Vec::new();
        }
        let next = self.channels.next(column);
        let flows = self.channels.flows(column);
        let share = |(channel, flow): (u32, u64)| {
            let weight = flow * way.hosts * self.channels.slowness(channel);
            (self.channels.reverse(channel) as usize, weight)
        };
        let taken = next
            .into_iter()
            .zip(flows)
            .filter(|&(channel, _)| channel != NONE);
        taken.map(share).collect()
    }

    /// How much a column adds to the sum of the squares of all weights.
    fn strain(&self, shares: &[(usize, u64)]) -> u128 {
        let added = |&(channel, share): &(usize, u64)| {
            u128::from(share) * (2 * u128::from(self.weights[channel]) + u128::from(share))
        };
        shares.iter().map(added).sum()
    }

    fn add(&mut self, shares: &[(usize, u64)]) {
        for &(channel, share) in shares {
            self.weights[channel] += share;
        }
    }

    fn remove(&mut self, shares: &[(usize, u64)]) {
        for &(channel, share) in shares {
            self.weights[channel] -= share;
        }
    }
}
