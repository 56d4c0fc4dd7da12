//! The hosts that use each link, over all pairs of hosts.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use crate::tables::{BLOCK_LIDS, Tables};
use crate::verify::fabric::{Blocks, Fabric};

use super::forest::{Forest, Step};
use super::order::{Hosts, LidBlock};

const WORD_BITS: usize = u64::BITS as usize;

/// How much memory the sets of leaves that send over each link may take: enough for 45,056 hosts on
/// 1,408 leaves in one pass. Larger fabrics take several, each over some of the switches.
const SETS_BYTES: usize = 64 << 20;

/// All pairs of hosts on the links, by channel.
pub(super) struct Uses {
    /// Paths to hosts.
    pub(super) received: Vec<Received>,
    /// How many hosts send over it.
    pub(super) sources: Vec<u32>,
    /// Ordered pairs of hosts whose packets do not arrive.
    pub(super) lost_pairs: u64,
    /// By host, where some leaves do not reach it: the leaves whose packets do not arrive.
    pub(super) lost: Vec<Option<FixedBitSet>>,
}

/// Paths to hosts over a link.
#[derive(Clone, Copy, Default)]
pub(super) struct Received {
    /// How many ordered pairs of hosts on different leaves send over it.
    pub(super) paths: u64,
    /// How many hosts receive over it.
    pub(super) destinations: u32,
}

impl Uses {
    pub(super) fn of(fabric: &Fabric<'_>, tables: &Tables, hosts: &Hosts) -> Uses {
        Uses::in_passes(fabric, tables, hosts, SETS_BYTES)
    }

    /// As [`Uses::of`], with so much memory for the sets of leaves of one pass.
    pub(super) fn in_passes(
        fabric: &Fabric<'_>,
        tables: &Tables,
        hosts: &Hosts,
        bytes: usize,
    ) -> Uses {
        let mut uses = Uses {
            received: vec![Received::default(); fabric.channels()],
            sources: vec![0; fabric.channels()],
            lost_pairs: 0,
            lost: vec![None; hosts.all.len()],
        };
        let words = hosts.leaves.len().div_ceil(WORD_BITS);
        let bytes_of_switch = fabric.stride * words * size_of::<u64>();
        let together = (bytes / bytes_of_switch.max(1)).max(1);
        for first in (0..fabric.switches).step_by(together) {
            let switches = first..fabric.switches.min(first + together);
            let lost = Pass::new(fabric, hosts, switches).run(tables, &mut uses);
            // Each pass finds the same.
            if first == 0 {
                uses.add_lost(hosts, lost);
            }
        }
        uses
    }

    fn add_lost(&mut self, hosts: &Hosts, lost: Vec<(u32, FixedBitSet)>) {
        for (host, leaves) in lost {
            let own_leaf = hosts.all[host as usize].leaf as usize;
            self.lost_pairs += leaves
                .ones()
                // To itself it sends nothing.
                .map(|leaf| u64::from(hosts.leaves[leaf].hosts) - u64::from(leaf == own_leaf))
                .sum::<u64>();
            self.lost[host as usize] = Some(leaves);
        }
    }
}

/// The hosts of a switch.
#[derive(Clone, Copy, Default)]
struct Own {
    /// How many; 0 for a switch that is no leaf.
    hosts: u32,
    /// Its place among the leaves.
    leaf: u32,
}

impl Own {
    fn add_to(self, set: &mut [u64]) {
        let leaf = self.leaf as usize;
        set[leaf / WORD_BITS] |= 1 << (leaf % WORD_BITS);
    }
}

/// A pass over all paths that counts those on the links of some switches.
struct Pass<'a> {
    fabric: &'a Fabric<'a>,
    hosts: &'a Hosts,
    switches: Range<usize>,
    /// By switch.
    own: Vec<Own>,
    words: usize,
    /// By channel of the pass' switches, `words` for each: leaves that send over it, without the
    /// switch itself where nobody else does. All threads add to them; in which order does not
    /// matter.
    senders: Vec<AtomicU64>,
}

/// Paths on the links of a pass, and the leaves that do not reach a host, by host.
type Part = (Vec<Received>, Vec<(u32, FixedBitSet)>);

impl<'a> Pass<'a> {
    fn new(fabric: &'a Fabric<'a>, hosts: &'a Hosts, switches: Range<usize>) -> Pass<'a> {
        let mut own = vec![Own::default(); fabric.switches];
        for (number, leaf) in hosts.leaves.iter().enumerate() {
            own[leaf.switch.index()] = Own {
                hosts: leaf.hosts,
                // Fewer leaves than LIDs.
                leaf: number as u32,
            };
        }
        let words = hosts.leaves.len().div_ceil(WORD_BITS);
        let sets = switches.len() * fabric.stride * words;
        Pass {
            fabric,
            hosts,
            switches,
            own,
            words,
            senders: std::iter::repeat_with(AtomicU64::default)
                .take(sets)
                .collect(),
        }
    }

    /// Adds the paths on the links of its switches, and returns the leaves that do not reach a
    /// host, by host.
    fn run(&self, tables: &Tables, uses: &mut Uses) -> Vec<(u32, FixedBitSet)> {
        let blocks = &self.hosts.blocks;
        let share = blocks.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts: Vec<Part> = blocks
            .par_chunks(share)
            .map(|blocks| self.follow(tables, blocks))
            .collect();
        let mut lost = Vec::new();
        let channels = self.channels();
        for (received, lost_here) in parts {
            for (all, part) in uses.received[channels.clone()].iter_mut().zip(received) {
                all.paths += part.paths;
                all.destinations += part.destinations;
            }
            lost.extend(lost_here);
        }
        let received = &uses.received[channels.clone()];
        let sources = uses.sources[channels].par_iter_mut().enumerate();
        sources.for_each(|(channel, sources)| {
            if received[channel].destinations > 0 {
                *sources = self.sources(channel);
            }
        });
        lost
    }

    fn channels(&self) -> Range<usize> {
        self.switches.start * self.fabric.stride..self.switches.end * self.fabric.stride
    }

    fn follow(&self, tables: &Tables, blocks: &[LidBlock]) -> Part {
        let mut counter = Counter::new(self);
        let mut forest = Forest::new(self.fabric);
        let mut rows = Blocks::new(tables, self.fabric.switches);
        let mut entries = Vec::new();
        let mut lost = Vec::new();
        for block in blocks {
            rows.gather((block.index, u64::MAX), &mut entries);
            for &place in self.hosts.in_block(block) {
                let host = &self.hosts.all[usize::from(place)];
                let root = self.hosts.leaf(host).switch;
                let offset = host.lid.index() % BLOCK_LIDS;
                let byte = |switch: usize| entries[switch * BLOCK_LIDS + offset];
                let mut missing: Option<FixedBitSet> = None;
                forest.grow(byte, (host, root), &self.hosts.leaves, |leaf| {
                    missing
                        .get_or_insert_with(|| FixedBitSet::with_capacity(self.hosts.leaves.len()))
                        .insert(leaf);
                });
                forest.drain(|step| counter.pass(step, root.index()));
                counter.flow[root.index()] = 0;
                lost.extend(missing.map(|leaves| (u32::from(place), leaves)));
            }
        }
        (counter.received, lost)
    }

    /// The leaves that send over a channel, by its place among those of the pass.
    fn senders(&self, channel: usize) -> &[AtomicU64] {
        &self.senders[channel * self.words..][..self.words]
    }

    /// How many hosts send over a channel that is in use.
    fn sources(&self, channel: usize) -> u32 {
        let own = self.own[self.switches.start + channel / self.fabric.stride];
        let mut set: Vec<u64> = self
            .senders(channel)
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        if own.hosts > 0 {
            own.add_to(&mut set);
        }
        let words = set.into_iter().zip(self.hosts.leaves.chunks(WORD_BITS));
        words
            .map(|(mut bits, leaves)| {
                let mut hosts = 0;
                while bits != 0 {
                    hosts += leaves[bits.trailing_zeros() as usize].hosts;
                    bits &= bits - 1;
                }
                hosts
            })
            .sum()
    }
}

/// Counts the paths to one host after the other.
struct Counter<'a> {
    pass: &'a Pass<'a>,
    received: Vec<Received>,
    /// By switch: hosts whose packets have come in from other switches.
    flow: Vec<u32>,
    /// By switch with such packets: the leaves they are from.
    from: Vec<Vec<u64>>,
}

impl<'a> Counter<'a> {
    fn new(pass: &'a Pass<'a>) -> Counter<'a> {
        let switches = pass.fabric.switches;
        Counter {
            received: vec![Received::default(); pass.channels().len()],
            flow: vec![0; switches],
            from: vec![vec![0; pass.words]; switches],
            pass,
        }
    }

    /// Passes the packets of a switch, and those that have come to it, on to the next.
    fn pass(&mut self, step: Step, root: usize) {
        let (switch, next) = (step.switch(), step.next());
        let own = self.pass.own[switch];
        let transit = std::mem::take(&mut self.flow[switch]);
        let mut from = std::mem::take(&mut self.from[switch]);
        if transit > 0 && own.hosts > 0 {
            own.add_to(&mut from);
        }
        if self.pass.switches.contains(&switch) {
            let channel = step.channel() - self.pass.channels().start;
            let received = &mut self.received[channel];
            received.paths += u64::from(transit + own.hosts);
            received.destinations += 1;
            if transit > 0 {
                add_set(self.pass.senders(channel), &from);
            }
        }
        if next != root {
            let set = &mut self.from[next];
            if self.flow[next] == 0 {
                set.fill(0);
            }
            if transit > 0 {
                set.iter_mut()
                    .zip(&from)
                    .for_each(|(set, from)| *set |= from);
            } else {
                own.add_to(set);
            }
        }
        self.flow[next] += transit + own.hosts;
        self.from[switch] = from;
    }
}

/// Adds a set to one that all threads add to. Mostly nothing is new.
fn add_set(all: &[AtomicU64], set: &[u64]) {
    for (all, &set) in all.iter().zip(set) {
        if set & !all.load(Ordering::Relaxed) != 0 {
            all.fetch_or(set, Ordering::Relaxed);
        }
    }
}
