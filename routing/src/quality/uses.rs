//! Counts the hosts that use each link, over all pairs of hosts.

use std::ops::Range;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use crate::tables::{BLOCK_LIDS, Tables};
use crate::verify::fabric::{Blocks, Fabric};

use super::forest::{Forest, PathStep};
use super::leaf_set::{self, LeafSet, SharedSets};
use super::order::{Hosts, LidBlock};

/// The maximum memory in bytes for the sets of leaves that send over each link: enough for 45,056
/// hosts on 1,408 leaves in one pass. Larger fabrics take several passes, each for the links of
/// some switches.
const SETS_BYTES: usize = 64 << 20;

/// The use of each link by all pairs of hosts, indexed by channel.
pub(super) struct Uses {
    /// The number of ordered pairs of hosts on different leaves that send over the channel.
    pub(super) paths: Vec<u64>,
    /// The number of hosts that receive over the channel.
    pub(super) destinations: Vec<u32>,
    /// The number of hosts that send over the channel.
    pub(super) sources: Vec<u32>,
    /// The number of ordered pairs of hosts whose packets do not arrive.
    pub(super) lost_pairs: u64,
    /// For each host, the leaves whose packets to it do not arrive; `None` if all packets arrive.
    pub(super) lost: Vec<Option<FixedBitSet>>,
}

impl Uses {
    pub(super) fn of(fabric: &Fabric<'_>, tables: &Tables, hosts: &Hosts) -> Uses {
        Uses::in_passes(fabric, tables, hosts, SETS_BYTES)
    }

    /// Computes the result of [`Uses::of`], with `bytes` of memory per pass for the sets of leaves.
    pub(super) fn in_passes(
        fabric: &Fabric<'_>,
        tables: &Tables,
        hosts: &Hosts,
        bytes: usize,
    ) -> Uses {
        let mut uses = Uses {
            paths: vec![0; fabric.channels()],
            destinations: vec![0; fabric.channels()],
            sources: vec![0; fabric.channels()],
            lost_pairs: 0,
            lost: vec![None; hosts.all.len()],
        };
        let words = leaf_set::words(hosts.leaves.len());
        let bytes_of_switch = fabric.stride * words * size_of::<u64>();
        let switches_per_pass = (bytes / bytes_of_switch.max(1)).max(1);
        for first in (0..fabric.switches).step_by(switches_per_pass) {
            let switches = first..fabric.switches.min(first + switches_per_pass);
            let lost = Pass::new(fabric, hosts, switches).run(tables, &mut uses);
            // Every pass finds the same lost pairs.
            if first == 0 {
                uses.add_lost(hosts, lost);
            }
        }
        uses
    }

    /// Adds the pairs whose packets do not arrive: hosts by index, with the leaves that do not
    /// reach them.
    fn add_lost(&mut self, hosts: &Hosts, lost: Vec<(u32, FixedBitSet)>) {
        for (host, leaves) in lost {
            let own_leaf = hosts.all[host as usize].leaf as usize;
            self.lost_pairs += leaves
                .ones()
                // A host sends nothing to itself.
                .map(|leaf| u64::from(hosts.leaves[leaf].hosts) - u64::from(leaf == own_leaf))
                .sum::<u64>();
            self.lost[host as usize] = Some(leaves);
        }
    }
}

/// The hosts of a switch.
#[derive(Clone, Copy, Default)]
struct SwitchHosts {
    /// The number of hosts; 0 for a switch that is no leaf.
    hosts: u32,
    /// The index of the switch among the leaves.
    leaf: u32,
}

/// A pass over all paths, which counts the paths on the links of some switches.
struct Pass<'a> {
    fabric: &'a Fabric<'a>,
    hosts: &'a Hosts,
    /// The switches whose links are counted.
    switches: Range<usize>,
    /// The hosts of each switch.
    own: Vec<SwitchHosts>,
    /// The number of words of a set of leaves.
    words: usize,
    /// For each channel of the pass's switches, the other leaves whose packets the switch forwards
    /// over it.
    senders: SharedSets,
}

/// The results for some blocks of LIDs, by channel of the pass's switches.
struct BlockCounts {
    /// The number of paths from hosts of other switches.
    transit: Vec<u64>,
    /// The number of hosts that receive over the channel.
    destinations: Vec<u32>,
    /// Each host that some leaves do not reach, with these leaves.
    lost: Vec<(u32, FixedBitSet)>,
}

impl<'a> Pass<'a> {
    fn new(fabric: &'a Fabric<'a>, hosts: &'a Hosts, switches: Range<usize>) -> Pass<'a> {
        let mut own = vec![SwitchHosts::default(); fabric.switches];
        for (number, leaf) in hosts.leaves.iter().enumerate() {
            own[leaf.switch.index()] = SwitchHosts {
                hosts: leaf.hosts,
                // There are fewer leaves than LIDs.
                leaf: number as u32,
            };
        }
        let words = leaf_set::words(hosts.leaves.len());
        Pass {
            fabric,
            hosts,
            own,
            words,
            senders: SharedSets::new(switches.len() * fabric.stride, words),
            switches,
        }
    }

    /// Adds the paths on the links of the pass's switches. Returns each host that some leaves do
    /// not reach, with these leaves.
    fn run(&self, tables: &Tables, uses: &mut Uses) -> Vec<(u32, FixedBitSet)> {
        let blocks = &self.hosts.blocks;
        let share = blocks.len().div_ceil(rayon::current_num_threads()).max(1);
        let all_counts: Vec<BlockCounts> = blocks
            .par_chunks(share)
            .map(|blocks| self.follow(tables, blocks))
            .collect();
        let channels = self.first_channel()..self.switches.end * self.fabric.stride;
        let mut lost = Vec::new();
        for counts in all_counts {
            add(&mut uses.paths[channels.clone()], &counts.transit);
            add(
                &mut uses.destinations[channels.clone()],
                &counts.destinations,
            );
            lost.extend(counts.lost);
        }
        let links = uses.paths[channels.clone()]
            .par_iter_mut()
            .zip(&mut uses.sources[channels.clone()])
            .zip(&uses.destinations[channels]);
        links
            .enumerate()
            .for_each(|(channel, ((paths, sources), &destinations))| {
                if destinations > 0 {
                    // The hosts of the switch send over the same channel to each destination.
                    let own = self.own[self.switches.start + channel / self.fabric.stride];
                    *paths += u64::from(own.hosts) * u64::from(destinations);
                    *sources = self.senders.hosts(channel, own.leaf(), &self.hosts.leaves);
                }
            });
        lost
    }

    /// The number of the first channel of the pass's switches.
    fn first_channel(&self) -> usize {
        self.switches.start * self.fabric.stride
    }

    /// Follows the paths to the hosts with LIDs in some blocks.
    fn follow(&self, tables: &Tables, blocks: &[LidBlock]) -> BlockCounts {
        let mut counter = Counter::new(self);
        let mut forest = Forest::new(self.fabric);
        let mut rows = Blocks::new(tables, self.fabric.switches);
        let mut entries = Vec::new();
        for block in blocks {
            rows.gather((block.index, u64::MAX), &mut entries);
            for &place in self.hosts.in_block(block) {
                let host = &self.hosts.all[usize::from(place)];
                let root = self.hosts.leaf(host).switch;
                let offset = host.lid.index() % BLOCK_LIDS;
                let byte = |switch: usize| entries[switch * BLOCK_LIDS + offset];
                let leaves = &self.hosts.leaves;
                let mut missing: Option<FixedBitSet> = None;
                forest.grow(byte, (host, root), leaves, |leaf| {
                    missing
                        .get_or_insert_with(|| FixedBitSet::with_capacity(leaves.len()))
                        .insert(leaf);
                });
                forest.drain(|step| counter.pass(step, root.index()));
                counter.flow[root.index()] = 0;
                let missing = missing.map(|leaves| (u32::from(place), leaves));
                counter.counts.lost.extend(missing);
            }
        }
        counter.counts
    }
}

impl SwitchHosts {
    /// The index of the switch among the leaves; `None` if it is no leaf.
    fn leaf(self) -> Option<usize> {
        (self.hosts > 0).then_some(self.leaf as usize)
    }
}

/// Counts the paths to the hosts, one destination at a time.
struct Counter<'a> {
    pass: &'a Pass<'a>,
    counts: BlockCounts,
    /// For each switch, the number of hosts of other switches whose packets have arrived.
    flow: Vec<u32>,
    /// For each switch with such packets, the leaves from which they come.
    from: Vec<LeafSet>,
}

impl<'a> Counter<'a> {
    fn new(pass: &'a Pass<'a>) -> Counter<'a> {
        let (switches, channels) = (
            pass.fabric.switches,
            pass.switches.len() * pass.fabric.stride,
        );
        Counter {
            counts: BlockCounts {
                transit: vec![0; channels],
                destinations: vec![0; channels],
                lost: Vec::new(),
            },
            flow: vec![0; switches],
            from: vec![LeafSet::new(pass.words); switches],
            pass,
        }
    }

    /// Moves packets over the channel of a step: packets of the switch's own hosts, and packets
    /// that have arrived from other switches. Counts them if the pass counts this switch's links.
    /// `root` is the destination's leaf.
    fn pass(&mut self, step: PathStep, root: usize) {
        let (switch, next) = (step.switch(), step.next());
        let own = self.pass.own[switch];
        let transit = std::mem::take(&mut self.flow[switch]);
        let is_counted = self.pass.switches.contains(&switch);
        let channel = step.channel().wrapping_sub(self.pass.first_channel());
        if is_counted {
            self.counts.destinations[channel] += 1;
        }
        if self.flow[next] == 0 {
            self.from[next].clear();
        }
        self.flow[next] += transit + own.hosts;
        if transit == 0 {
            self.from[next].insert(own.leaf as usize);
            return;
        }
        let mut from = std::mem::replace(&mut self.from[switch], LeafSet::new(0));
        if let Some(leaf) = own.leaf() {
            from.insert(leaf);
        }
        if is_counted {
            self.counts.transit[channel] += u64::from(transit);
            self.pass.senders.insert_all(channel, &from);
        }
        if next != root {
            self.from[next].insert_all(&from);
        }
        self.from[switch] = from;
    }
}

/// Adds each element of `counts` to the same element of `all`.
fn add<T: Copy + std::ops::AddAssign>(all: &mut [T], counts: &[T]) {
    for (all, counts) in all.iter_mut().zip(counts) {
        *all += *counts;
    }
}
