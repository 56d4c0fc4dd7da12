//! The channel dependency graph: the links for which each link can wait.
//!
//! A channel is one direction of a link between switches, identified by the sending switch and
//! port. A packet that came in by one channel and leaves by another makes the first wait for buffer
//! space of the second (Dally and Seitz). Tables whose graph has no cycle cannot deadlock.

use rayon::prelude::*;

use super::cycles::Waits;
use super::fabric::{Blocks, Fabric};
use crate::tables::{BLOCK_LIDS, Lft, PortMask, Tables};
use crate::topology::{SwitchIdx, Topology};

const WORD_BITS: usize = u64::BITS as usize;

/// The minimum number of blocks for one thread: each thread has its own copy of the turns of all
/// channels, which takes as long as a few blocks.
const MIN_SHARE: usize = 4;

/// The channel dependency graph of a set of tables, or of the mixtures of several sets.
///
/// Every entry of every LID counts as if packets to the LID started at each switch, as they do at
/// the switch's port 0. LIDs without a destination count as well: hosts continue to send to a
/// destination that has gone.
#[derive(Clone)]
pub struct Dependencies<'a> {
    fabric: Fabric<'a>,
    /// For each channel, `words` words with a bit for each port of the next switch for which the
    /// channel can wait.
    turns: Vec<u64>,
    words: usize,
}

impl<'a> Dependencies<'a> {
    /// Computes the dependencies of `tables`.
    pub fn of(topology: &'a Topology, tables: &Tables) -> Dependencies<'a> {
        let fabric = Fabric::new(topology);
        let blocks: Vec<(usize, u64)> = all_blocks([tables]).collect();
        let parts: Vec<Turns> = blocks
            .par_chunks(share(blocks.len()))
            .map(|blocks| {
                let mut turns = Turns::new(&fabric);
                let mut rows = Blocks::new(tables, fabric.switches);
                let mut block = Vec::new();
                for &lids in blocks {
                    rows.gather(lids, &mut block);
                    turns.add_block(&fabric, &block);
                }
                turns
            })
            .collect();
        Dependencies::from_parts(fabric, parts)
    }

    /// Combines dependencies that were found separately.
    pub(super) fn from_parts(fabric: Fabric<'a>, parts: Vec<Turns>) -> Dependencies<'a> {
        let words = words(&fabric);
        let mut parts = parts.into_iter();
        let mut turns = match parts.next() {
            Some(first) => first.bits,
            None => vec![0; fabric.channels() * words],
        };
        parts.for_each(|part| part.add_to(&mut turns));
        Dependencies {
            fabric,
            turns,
            words,
        }
    }

    /// Adds the dependencies of packets while switches change, in any order, from `old` to `new`:
    /// each of two successive switches forwards a packet by either table. LIDs with equal entries
    /// in both are left out, so that the cost is small if the tables differ little. If the graph
    /// already has the dependencies of one of the tables, it then covers every mixture.
    pub fn add_mixture(&mut self, old: &Tables, new: &Tables) {
        let fabric = &self.fabric;
        let differs = |&(index, _): &(usize, u64)| {
            let mut lfts = (0..fabric.switches).map(|at| (old.lfts.get(at), new.lfts.get(at)));
            lfts.any(|lfts| match lfts {
                (Some(old), Some(new)) => !old.block_eq(new, index),
                (None, None) => false,
                _ => true,
            })
        };
        let blocks: Vec<(usize, u64)> = all_blocks([old, new])
            .collect::<Vec<_>>()
            .into_par_iter()
            .filter(differs)
            .collect();
        let parts: Vec<Turns> = blocks
            .par_chunks(share(blocks.len()))
            .map(|blocks| {
                let mut turns = Turns::new(fabric);
                let (mut before, mut after) = (Vec::new(), Vec::new());
                let [mut old_rows, mut new_rows] =
                    [old, new].map(|tables| Blocks::new(tables, fabric.switches));
                for &lids in blocks {
                    old_rows.gather(lids, &mut before);
                    new_rows.gather(lids, &mut after);
                    turns.add_mixed_block(fabric, &before, &after);
                }
                turns
            })
            .collect();
        for part in parts {
            part.add_to(&mut self.turns);
        }
    }

    /// Adds the dependencies of packets to one multicast LID, by the masks of its switches: a
    /// packet that comes in by one port of a mask waits for buffer space behind all other ports at
    /// once.
    ///
    /// `masks` are sorted by switch; a switch that is not in the list forwards nothing.
    pub fn add_multicast(&mut self, masks: &[(SwitchIdx, PortMask)]) {
        for &(switch, mask) in masks {
            for port in mask.ports() {
                let Some((next, entry)) = self.fabric.topology.peer(switch, port) else {
                    continue;
                };
                let Ok(place) = masks.binary_search_by_key(&next, |&(at, _)| at) else {
                    continue;
                };
                let channel = self.fabric.channel(switch.index(), port.0);
                for turn in masks[place].1.ports().filter(|&turn| turn != entry) {
                    let bit = self.fabric.port(turn.0);
                    self.turns[channel * self.words + bit / WORD_BITS] |= 1 << (bit % WORD_BITS);
                }
            }
        }
    }

    /// Whether no packet turns up after going down, by an order of the switches. This proves that
    /// there is no credit loop.
    ///
    /// `is_above` returns whether the first of two switches lies above the second.
    pub fn follows(&self, is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool) -> bool {
        // There are fewer switches than LIDs.
        let switch = |index: usize| SwitchIdx(index as u32);
        let stride = self.fabric.stride;
        (0..self.fabric.channels()).all(|channel| {
            let next = self.fabric.next(channel);
            if next == self.fabric.nowhere() || !is_above(switch(channel / stride), switch(next)) {
                return true;
            }
            let mut goes_up = false;
            self.for_each_turn(channel, |turn| {
                goes_up |= is_above(switch(self.fabric.next(turn)), switch(next));
            });
            !goes_up
        })
    }

    /// Whether there is no credit loop.
    pub fn is_acyclic(&self) -> bool {
        self.in_cycles().is_clear()
    }

    pub(super) fn fabric(&self) -> &Fabric<'a> {
        &self.fabric
    }
}

impl Waits for Dependencies<'_> {
    fn nodes(&self) -> usize {
        self.fabric.channels()
    }

    fn for_each_turn(&self, channel: usize, mut visit: impl FnMut(usize)) {
        let next = self.fabric.next(channel);
        if next == self.fabric.nowhere() {
            return;
        }
        for word in 0..self.words {
            let mut bits = self.turns[channel * self.words + word];
            while bits != 0 {
                let port = word * WORD_BITS + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if port >= self.fabric.stride {
                    continue;
                }
                let turn = next * self.fabric.stride + port;
                // Packets that leave the fabric or are discarded never wait.
                if self.fabric.next(turn) != self.fabric.nowhere() {
                    visit(turn);
                }
            }
        }
    }
}

/// The number of words with a bit for each port.
fn words(fabric: &Fabric<'_>) -> usize {
    fabric.stride.div_ceil(WORD_BITS)
}

/// The dependencies that one thread has found.
pub(super) struct Turns {
    bits: Vec<u64>,
    words: usize,
}

impl Turns {
    pub(super) fn new(fabric: &Fabric<'_>) -> Turns {
        let words = words(fabric);
        Turns {
            bits: vec![0; fabric.channels() * words],
            words,
        }
    }

    /// Adds these dependencies to `turns`.
    fn add_to(&self, turns: &mut [u64]) {
        for (turn, own) in turns.iter_mut().zip(&self.bits) {
            *turn |= own;
        }
    }

    /// Records that packets in a channel may leave the next switch by any of `ports`. Ports that no
    /// switch of the fabric has are ignored.
    pub(super) fn add_ports(&mut self, channel: usize, ports: &PortMask) {
        let turns = &mut self.bits[channel * self.words..][..self.words];
        for (turns, ports) in turns.iter_mut().zip(ports.words()) {
            *turns |= ports;
        }
    }

    /// Adds the dependencies of a block that [`Blocks`] gathered.
    pub(super) fn add_block(&mut self, fabric: &Fabric<'_>, block: &[u8]) {
        let own_words = fabric.stride * self.words;
        let rows = block.chunks_exact(BLOCK_LIDS).take(fabric.switches);
        for ((switch, row), turns) in rows.enumerate().zip(self.bits.chunks_exact_mut(own_words)) {
            let next = fabric.next_of(switch);
            for (offset, &byte) in row.iter().enumerate() {
                let port = fabric.port(byte);
                let turn = block[usize::from(next[port]) * BLOCK_LIDS + offset];
                let bit = fabric.port(turn);
                turns[port * self.words + bit / WORD_BITS] |= 1 << (bit % WORD_BITS);
            }
        }
    }

    /// Adds the dependencies of packets to the LIDs of a block whose entries differ in some switch;
    /// each switch forwards by either table.
    fn add_mixed_block(&mut self, fabric: &Fabric<'_>, before: &[u8], after: &[u8]) {
        let offsets = differing(before, after);
        let own_words = fabric.stride * self.words;
        let all_turns = self.bits.chunks_exact_mut(own_words);
        for (switch, turns) in all_turns.enumerate().take(fabric.switches) {
            let next = fabric.next_of(switch);
            for &offset in &offsets {
                let at = switch * BLOCK_LIDS + offset;
                for byte in [before[at], after[at]] {
                    let port = fabric.port(byte);
                    let next_at = usize::from(next[port]) * BLOCK_LIDS + offset;
                    for turn in [before[next_at], after[next_at]] {
                        let bit = fabric.port(turn);
                        turns[port * self.words + bit / WORD_BITS] |= 1 << (bit % WORD_BITS);
                    }
                }
            }
        }
    }
}

/// The LIDs of a block, by their offsets, whose entries differ in some switch.
fn differing(before: &[u8], after: &[u8]) -> Vec<usize> {
    let mut differs = [false; BLOCK_LIDS];
    let (before, after) = (
        before.chunks_exact(BLOCK_LIDS),
        after.chunks_exact(BLOCK_LIDS),
    );
    for (before, after) in before.zip(after).filter(|(before, after)| before != after) {
        for (differs, (before, after)) in differs.iter_mut().zip(before.iter().zip(after)) {
            *differs |= before != after;
        }
    }
    (0..BLOCK_LIDS).filter(|&offset| differs[offset]).collect()
}

/// The number of blocks that each thread takes.
fn share(blocks: usize) -> usize {
    let workers = rayon::current_num_threads().max(1);
    blocks.div_ceil(workers).max(MIN_SHARE)
}

/// The blocks up to the last entry of any table, with all LIDs except 0, which is no destination.
fn all_blocks<'t>(
    tables: impl IntoIterator<Item = &'t Tables>,
) -> impl Iterator<Item = (usize, u64)> {
    let lfts = tables.into_iter().flat_map(|tables| &tables.lfts);
    let last = lfts.filter_map(Lft::top).max();
    let count = last.map_or(0, |last| last.index() / BLOCK_LIDS + 1);
    (0..count).map(|index| (index, if index == 0 { !1 } else { u64::MAX }))
}

/// The blocks that contain a LID of some destination, each with a mask of its 64 LIDs.
pub(super) fn lid_blocks(topology: &Topology) -> Vec<(usize, u64)> {
    let mut masks = vec![0u64; topology.top_lid().index() / BLOCK_LIDS + 1];
    for destination in topology.destinations() {
        for lid in destination.lids() {
            masks[lid.index() / BLOCK_LIDS] |= 1 << (lid.index() % BLOCK_LIDS);
        }
    }
    masks
        .into_iter()
        .enumerate()
        .filter(|(_, mask)| *mask != 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use rsm_ids::Lid;

    use super::*;
    use crate::generate::generate;
    use crate::generate::rng::Rng;
    use crate::tables::NO_PATH;

    /// Random tables, also with entries for ports that no switch has.
    fn random_tables(random: &mut Rng, switches: usize, lids: u16) -> Tables {
        let mut lft = || {
            let mut lft = Lft::default();
            for lid in (0..lids).map(Lid) {
                let byte = match random.below(12) {
                    11 => NO_PATH,
                    port => port as u8,
                };
                lft.set_entry(lid, byte);
            }
            lft
        };
        Tables {
            lfts: (0..switches).map(|_| lft()).collect(),
        }
    }

    /// The turns of every LID whose entries differ in some switch, computed entry by entry.
    fn plain_mixture(fabric: &Fabric<'_>, old: &Tables, new: &Tables) -> Vec<u64> {
        let words = words(fabric);
        let mut turns = vec![0; fabric.channels() * words];
        for lid in (1..=u16::MAX).map(Lid) {
            let old_and_new = |at: usize| {
                [old, new].map(|tables| {
                    let lft = tables.lfts.get(at).filter(|_| at != fabric.nowhere());
                    lft.map_or(NO_PATH, |lft| lft.entry(lid))
                })
            };
            let differs = |at| old_and_new(at)[0] != old_and_new(at)[1];
            if !(0..fabric.switches).any(differs) {
                continue;
            }
            for switch in 0..fabric.switches {
                for byte in old_and_new(switch) {
                    let channel = fabric.channel(switch, byte);
                    for turn in old_and_new(fabric.next(channel)) {
                        let bit = fabric.port(turn);
                        turns[channel * words + bit / WORD_BITS] |= 1 << (bit % WORD_BITS);
                    }
                }
            }
        }
        turns
    }

    #[test]
    fn mixture_has_the_turns_of_all_lids_whose_entries_differ() {
        for seed in 0..40 {
            let mut random = Rng::new(seed);
            let switches = 3 + random.below(12);
            let spec = format!("random:switches={switches},degree=8,hosts=0,seed={seed}");
            let topology = Topology::from_netlist(&generate(&spec).unwrap()).unwrap();
            let lids = 1 + random.below(3000) as u16;
            let old = random_tables(&mut random, switches, lids);
            let mut new = old.clone();
            if random.below(2) == 0 {
                let fewer = switches - random.below(2);
                new = random_tables(&mut random, fewer, lids / 2 + 1);
            }
            for _ in 0..random.below(40) {
                let switch = random.below(new.lfts.len());
                let lid = Lid(random.below(usize::from(lids) + 200) as u16);
                new.lfts[switch].set_entry(lid, random.below(12) as u8);
            }
            let mut mixture = Dependencies::from_parts(Fabric::new(&topology), Vec::new());
            mixture.add_mixture(&old, &new);
            let plain = plain_mixture(&mixture.fabric, &old, &new);
            assert_eq!(mixture.turns, plain, "seed {seed}");
        }
    }
}
