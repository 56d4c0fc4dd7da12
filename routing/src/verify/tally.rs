//! The sums from which a report is made.
//!
//! All sums are over pairs of (a switch where packets start, a LID to which they go), so that the
//! contribution of a few pairs can be removed and added again.

use rsm_ids::PortNum;

use super::fabric::stride;
use super::{Load, PairCounts, Report};
use crate::topology::{SwitchIdx, Topology};

/// Sums over all pairs of (switch, LID); see [`Report`] for their meaning.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// The counts of pairs that start or end at an end port.
    pub(super) pairs: PairCounts,
    /// The counts of pairs of two switches.
    pub(super) switch_pairs: PairCounts,
    /// The number of pairs of two hosts whose packets arrive.
    pub(super) host_pairs: u64,
    /// For each number of hops, the number of (switch, LID) pairs whose packets arrive after that
    /// many hops.
    pub(super) hops: Vec<u64>,
    /// For each channel, the number of pairs of hosts whose packets pass. There are at most as many
    /// ports as LIDs, so that the number stays below 2^32.
    pub(super) load: Vec<u32>,
}

impl Tally {
    pub(super) fn new(channels: usize) -> Tally {
        Tally {
            load: vec![0; channels],
            ..Tally::default()
        }
    }

    /// Adds the sums over other pairs.
    pub(super) fn add(&mut self, other: &Tally) {
        self.add_pairs(other);
        for (load, other) in self.load.iter_mut().zip(&other.load) {
            *load += other;
        }
    }

    /// Adds the sums over other pairs, except the load.
    pub(super) fn add_pairs(&mut self, other: &Tally) {
        self.pairs.add(other.pairs);
        self.switch_pairs.add(other.switch_pairs);
        self.host_pairs += other.host_pairs;
        if self.hops.len() < other.hops.len() {
            self.hops.resize(other.hops.len(), 0);
        }
        for (hops, other) in self.hops.iter_mut().zip(&other.hops) {
            *hops += other;
        }
    }

    /// Removes the sums over some of the pairs, except the load. `None` if the sums do not contain
    /// them; `self` is then partly changed.
    pub(super) fn remove_pairs(&mut self, other: &Tally) -> Option<()> {
        self.pairs = self.pairs.without(other.pairs)?;
        self.switch_pairs = self.switch_pairs.without(other.switch_pairs)?;
        self.host_pairs = self.host_pairs.checked_sub(other.host_pairs)?;
        for (place, &other) in other.hops.iter().enumerate() {
            if other > 0 {
                let hops = self.hops.get_mut(place)?;
                *hops = hops.checked_sub(other)?;
            }
        }
        while self.hops.pop_if(|count| *count == 0).is_some() {}
        Some(())
    }

    /// Counts one (switch, LID) pair whose packets arrive after this many hops.
    pub(super) fn count_hops(&mut self, hops: usize) {
        if self.hops.len() <= hops {
            self.hops.resize(hops + 1, 0);
        }
        self.hops[hops] += 1;
    }

    /// The number of paths of pairs of hosts that leave a switch by a port; 0 if the switch has no
    /// such port. The sums must belong to `topology`.
    pub fn paths_through(&self, topology: &Topology, switch: SwitchIdx, port: PortNum) -> u64 {
        let channel = switch.index() * stride(topology) + port.index();
        self.load.get(channel).copied().map_or(0, u64::from)
    }

    /// The number of pairs that cables connect and whose packets do not arrive, as in
    /// [`Report::unreachable_pairs`].
    pub fn unreachable_pairs(&self) -> u64 {
        self.pairs.unreachable
    }

    /// The report of tables that have these sums and were found free of loops and of credit loops.
    pub fn report(&self, topology: &Topology) -> Report {
        let paths: u64 = self.load.iter().copied().map(u64::from).sum();
        let links = topology.link_count() * 2;
        let per = |count: u64| {
            if count > 0 {
                paths as f64 / count as f64
            } else {
                0.0
            }
        };
        let longest = self.hops.iter().rposition(|&count| count > 0);
        Report {
            reachable_pairs: self.pairs.reachable,
            unreachable_pairs: self.pairs.unreachable,
            disconnected_pairs: self.pairs.disconnected,
            switch_pairs: self.switch_pairs,
            loop_free: true,
            credit_loop_free: true,
            // A path passes each switch at most once, and there are fewer switches than LIDs.
            max_hops: longest.unwrap_or(0) as u32,
            average_hops: per(self.host_pairs),
            load: Load {
                max: u64::from(self.load.iter().copied().max().unwrap_or(0)),
                mean: per(links as u64),
            },
            witnesses: Vec::new(),
        }
    }
}

/// The load of a few channels among many.
pub(super) struct Loads {
    /// The load of each channel.
    load: Vec<u32>,
    /// The channels that have load.
    loaded: Vec<u32>,
}

impl Loads {
    pub(super) fn new(channels: usize) -> Loads {
        Loads {
            load: vec![0; channels],
            loaded: Vec::new(),
        }
    }

    /// Adds paths to the load of a channel.
    pub(super) fn add(&mut self, channel: usize, paths: u32) {
        let load = &mut self.load[channel];
        if *load == 0 && paths > 0 {
            // Switches are numbered with 16 bits, and each has fewer than 2^9 channels.
            self.loaded.push(channel as u32);
        }
        *load += paths;
    }

    /// The channels that have load, each once, with their load.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let channels = self.loaded.iter().map(|&channel| channel as usize);
        channels.map(|channel| (channel, self.load[channel]))
    }
}

impl PairCounts {
    pub(super) fn add(&mut self, other: PairCounts) {
        self.reachable += other.reachable;
        self.unreachable += other.unreachable;
        self.disconnected += other.disconnected;
    }

    /// The counts less the counts of `other`; `None` if a count would become negative.
    fn without(self, other: PairCounts) -> Option<PairCounts> {
        Some(PairCounts {
            reachable: self.reachable.checked_sub(other.reachable)?,
            unreachable: self.unreachable.checked_sub(other.unreachable)?,
            disconnected: self.disconnected.checked_sub(other.disconnected)?,
        })
    }
}
