//! Computes columns of few hops that share the links evenly.
//!
//! The search for a column goes from its destination outwards, level by level. Each switch takes
//! the least loaded of its shortest paths; with a [`ChannelOrder`], of those that follow it. A
//! destination switch with several hosts has several columns, each searched with the load of all
//! columns before it.

mod search;

use std::collections::BTreeMap;

use super::channels::{Channels, NONE};
use super::columns::Column;
use super::dependencies::ChannelOrder;
use crate::topology::{SwitchIdx, Topology};
use search::Search;

/// The maximum number of columns of a destination switch; hosts use them round-robin. More columns
/// would cost time and memory, and few switches have more parallel paths to a destination.
pub(super) const MAX_COLUMNS: usize = 16;

/// A channel is overloaded if its load is more than this many times the mean.
const OVERLOAD_FACTOR: u64 = 2;

/// The paths that a search may take.
#[derive(Clone, Copy)]
pub(super) enum Guide<'a> {
    /// Any shortest path is permitted.
    Free,
    /// Shortest paths that follow an order are preferred; if there are none, any shortest path is
    /// permitted.
    Prefer(&'a ChannelOrder),
    /// Only paths that follow an order are permitted.
    Follow(&'a ChannelOrder),
}

/// A column to be computed: one of the next-hop vectors to a destination switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedColumn {
    pub(super) destination: SwitchIdx,
    /// The number of the destination's hosts that the column serves.
    pub(super) hosts: u64,
    /// The index of the column among those of the destination.
    pub(super) number: u32,
}

/// The columns to compute for the given destinations, one for each host and at most `most` for each
/// destination: the first column of every destination, then the second, and so on. Destinations
/// with many hosts come first.
pub(super) fn planned_columns(
    channels: &Channels,
    destinations: &[SwitchIdx],
    most: usize,
) -> Vec<PlannedColumn> {
    let mut by_hosts = destinations.to_vec();
    by_hosts.sort_by_key(|&switch| std::cmp::Reverse(channels.hosts(switch.0)));
    let mut planned_columns = Vec::new();
    for number in 0..most as u64 {
        for &destination in &by_hosts {
            let hosts = channels.hosts(destination.0);
            let count = hosts.clamp(1, most as u64);
            if number < count {
                planned_columns.push(PlannedColumn {
                    destination,
                    // Hosts use the columns round-robin.
                    hosts: (hosts + count - 1 - number) / count,
                    number: number as u32,
                });
            }
        }
    }
    planned_columns
}

/// Computes columns to the given destinations, at most `most` for each: balanced columns to
/// destinations with hosts first, then columns to the others.
pub(super) fn columns(
    balance: &mut Balance<'_>,
    destinations: &[SwitchIdx],
    most: usize,
    guide: Guide<'_>,
) -> Vec<(SwitchIdx, Vec<Column>)> {
    let channels = balance.channels;
    let mut result: BTreeMap<SwitchIdx, Vec<Column>> = BTreeMap::new();
    let (with_hosts, without): (Vec<_>, Vec<_>) = destinations
        .iter()
        .partition(|switch| channels.hosts(switch.0) > 0);
    for destinations in [with_hosts, without] {
        let planned_columns = planned_columns(channels, &destinations, most);
        let mut columns = balance.columns(&planned_columns, guide);
        if let Guide::Follow(_) = guide {
            balance.relieve_overloaded(&planned_columns, &mut columns, guide);
        }
        for (planned, column) in planned_columns.iter().zip(columns) {
            // The columns of one destination are in the order of their numbers.
            result.entry(planned.destination).or_default().push(column);
        }
    }
    result.into_iter().collect()
}

/// The load of all channels, in paths between hosts.
pub(super) struct Balance<'a> {
    topology: &'a Topology,
    channels: &'a Channels,
    /// The load in paths times slowness, indexed by the channel of the opposite direction, as
    /// searches read it.
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

    /// Computes a column for each of `planned_columns`.
    pub(super) fn columns(
        &mut self,
        planned_columns: &[PlannedColumn],
        guide: Guide<'_>,
    ) -> Vec<Column> {
        let mut search = Search::new(self.topology, self.channels, guide);
        let find = |planned: &PlannedColumn| {
            search.run(planned, &self.weights, u64::MAX);
            let column = search.column();
            self.add(&self.shares(planned, &column));
            column
        };
        planned_columns.iter().map(find).collect()
    }

    /// Recomputes each column that uses overloaded channels, if possible without these channels,
    /// and keeps the better of the two columns.
    pub(super) fn relieve_overloaded(
        &mut self,
        planned_columns: &[PlannedColumn],
        columns: &mut [Column],
        guide: Guide<'_>,
    ) {
        let overload_limit = self.overload_limit();
        let mut search = Search::new(self.topology, self.channels, guide);
        for (planned, column) in planned_columns.iter().zip(columns) {
            let shares = self.shares(planned, column);
            if !shares
                .iter()
                .any(|&(channel, _)| self.weights[channel] > overload_limit)
            {
                continue;
            }
            self.remove(&shares);
            search.run(planned, &self.weights, overload_limit);
            let result = search.column();
            let alternative = self.shares(planned, &result);
            if self.squares_added(&alternative) < self.squares_added(&shares) {
                *column = result;
                self.add(&alternative);
            } else {
                self.add(&shares);
            }
        }
    }

    /// The maximum channel load.
    pub(super) fn max_load(&self) -> u64 {
        self.weights.iter().copied().max().unwrap_or(0)
    }

    /// The maximum load of a channel that is not overloaded.
    fn overload_limit(&self) -> u64 {
        OVERLOAD_FACTOR * self.weights.iter().sum::<u64>() / self.weights.len().max(1) as u64
    }

    /// The channels of a column, as indices in `weights`, with the weight that the column adds to
    /// each.
    fn shares(&self, planned: &PlannedColumn, column: &Column) -> Vec<(usize, u64)> {
        if planned.hosts == 0 {
            return Vec::new();
        }
        let next = self.channels.next(column);
        let flows = self.channels.flows(column);
        let share = |(channel, flow): (u32, u64)| {
            let weight = flow * planned.hosts * self.channels.slowness(channel);
            (self.channels.reverse(channel) as usize, weight)
        };
        let used = next
            .into_iter()
            .zip(flows)
            .filter(|&(channel, _)| channel != NONE);
        used.map(share).collect()
    }

    /// The increase of the sum of squared weights if a column with these shares is added.
    fn squares_added(&self, shares: &[(usize, u64)]) -> u128 {
        let added = |&(channel, share): &(usize, u64)| {
            u128::from(share) * (2 * u128::from(self.weights[channel]) + u128::from(share))
        };
        shares.iter().map(added).sum()
    }

    /// Adds a column's shares to the weights.
    fn add(&mut self, shares: &[(usize, u64)]) {
        for &(channel, share) in shares {
            self.weights[channel] += share;
        }
    }

    /// Subtracts a column's shares from the weights.
    fn remove(&mut self, shares: &[(usize, u64)]) {
        for &(channel, share) in shares {
            self.weights[channel] -= share;
        }
    }
}
