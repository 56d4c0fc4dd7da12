//! How to get from one set of tables to another where both follow one order of the switches.
//!
//! Packets go up and then down by the one and by the other, and what could go wrong is told by pairs of entries: `x`, which
//! sends down to `s`, and `s`, which sends up, the one old and the other new. A mixture without such a pair has no path that
//! goes up after it went down, and so neither a loop nor a circle of links that wait for each other. Looking at the entries
//! that change and at those that lead to them is enough to find every pair.
//!
//! LIDs have nothing to do with each other, so that they are looked at block by block: what all switches hold of a block fits
//! a processor's cache, whatever order the pairs come in.

use rayon::prelude::*;
use rsm_ids::Lid;

use crate::tables::{BLOCK_LIDS, Lft, NO_PATH, Tables};
use crate::topology::{PortUse, SwitchIdx, Topology};

/// As [`stages`](super::stages), for tables that follow one order: no packet goes up after it went down. Takes as long as
/// there are blocks that change, and lets packets through that [`stages`](super::stages) would discard.
///
/// `old` is in force, by the switch numbers of `topology`; `new` follows the order, and `is_above` tells of two switches
/// whether the first lies above the second. `None` when what is in force does not follow it.
///
/// All entries are written in the first stage but two kinds, which wait for the second: those that begin to send up while
/// somebody above still sends down to them, and those that begin to send down to somebody who still sends up. Of these
/// again the few that others of them depend on discard in between.
pub fn stages_along(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool,
    old: &Tables,
    new: &Tables,
) -> Option<Vec<Tables>> {
    let none = Lft::default();
    let changed: Vec<Vec<usize>> = new
        .lfts
        .par_iter()
        .enumerate()
        .map(|(index, is)| {
            let was = old.lfts.get(index).unwrap_or(&none);
            is.differing_blocks(was).collect()
        })
        .collect();
    let directions = Directions::of(topology, is_above);
    let last = changed.iter().filter_map(|blocks| blocks.last()).max();
    let mut by_block: Vec<Vec<SwitchIdx>> = vec![Vec::new(); last.map_or(0, |last| last + 1)];
    for (switch, blocks) in topology.indices().zip(&changed) {
        for &block in blocks {
            by_block[block].push(switch);
        }
    }
    let way = Way {
        directions: &directions,
        old,
        new,
    };
    let held = by_block
        .par_iter()
        .enumerate()
        .map(|(block, switches)| way.held_back(block, switches))
        .collect::<Option<Vec<_>>>()?;
    let mut first = new.clone();
    let mut is_split = false;
    for Held { switch, lid, entry } in held.into_iter().flatten() {
        first.lfts[switch.index()].set_entry(lid, entry);
        is_split = true;
    }
    Some(if is_split {
        vec![first, new.clone()]
    } else {
        vec![new.clone()]
    })
}

/// Where an output port leads in the order of the switches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Nowhere, to a host, or to the switch itself.
    Out,
    Up,
    Down(SwitchIdx),
}

/// That of every output port, and who lies above a switch.
struct Directions {
    ports: Vec<Direction>,
    /// Where those of a switch begin, by switch, and where the last ones end.
    start: Vec<usize>,
    above: Vec<Vec<SwitchIdx>>,
}

impl Directions {
    fn of(topology: &Topology, is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool) -> Directions {
        let mut directions = Directions {
            ports: Vec::new(),
            start: vec![0],
            above: Vec::with_capacity(topology.switch_count()),
        };
        for switch in topology.indices() {
            let uses = topology.port_uses(switch).iter();
            directions.ports.extend(uses.map(|used| match *used {
                PortUse::Link { peer, .. } if is_above(peer, switch) => Direction::Up,
                PortUse::Link { peer, .. } => Direction::Down(peer),
                PortUse::Unused | PortUse::Destination(_) => Direction::Out,
            }));
            directions.start.push(directions.ports.len());
            let neighbours = topology.groups(switch).map(|group| group.neighbour);
            let above = neighbours.filter(|&neighbour| is_above(neighbour, switch));
            directions.above.push(above.collect());
        }
        directions
    }

    fn get(&self, switch: SwitchIdx, entry: u8) -> Direction {
        let ports = &self.ports[self.start[switch.index()]..self.start[switch.index() + 1]];
        let direction = ports.get(usize::from(entry));
        direction.copied().unwrap_or(Direction::Out)
    }

    fn is_up(&self, switch: SwitchIdx, entry: u8) -> bool {
        self.get(switch, entry) == Direction::Up
    }
}

/// An entry that waits for the second stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    switch: SwitchIdx,
    lid: Lid,
    /// What stands in it until then.
    entry: u8,
}

/// Two entries that must not be in force together.
struct Pair {
    /// The one that is not to be written yet.
    waits: SwitchIdx,
    /// The one that is to be gone first.
    in_its_way: SwitchIdx,
    lid: Lid,
}

/// From what is in force to what is planned.
struct Way<'a> {
    directions: &'a Directions,
    old: &'a Tables,
    new: &'a Tables,
}

impl Way<'_> {
    fn before(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        let lft = self.old.lfts.get(switch.index());
        lft.map_or(NO_PATH, |lft| lft.entry(lid))
    }

    fn after(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        self.new.lft(switch).entry(lid)
    }

    /// The entries of a block that wait, by switch and LID; `changed` are the switches in which the block changes. `None` when
    /// what is in force does not follow the order.
    fn held_back(&self, block: usize, changed: &[SwitchIdx]) -> Option<Vec<Held>> {
        let mut pairs = Vec::new();
        for sender in self.senders(block, changed) {
            for lid in lids(block) {
                self.pairs_of(sender, lid, &mut pairs)?;
            }
        }
        let wait = |pair: &Pair| Held {
            switch: pair.waits,
            lid: pair.lid,
            entry: self.before(pair.waits, pair.lid),
        };
        let mut held: Vec<Held> = pairs.iter().map(wait).collect();
        held.sort_unstable();
        held.dedup();
        for pair in &pairs {
            let place = held
                .binary_search_by_key(&(pair.in_its_way, pair.lid), |held| (held.switch, held.lid));
            if let Ok(place) = place {
                held[place].entry = NO_PATH;
            }
        }
        Some(held)
    }

    /// Who can send down to a switch that goes up, one by what it was and the other by what it will be: those in which the block
    /// changes, and those above one of them that goes up.
    fn senders(&self, block: usize, changed: &[SwitchIdx]) -> Vec<SwitchIdx> {
        let goes_up = |switch: SwitchIdx| {
            lids(block).any(|lid| {
                let [before, after] = [self.before(switch, lid), self.after(switch, lid)];
                before != after
                    && (self.directions.is_up(switch, before)
                        || self.directions.is_up(switch, after))
            })
        };
        let above = changed
            .iter()
            .filter(|&&switch| goes_up(switch))
            .flat_map(|switch| &self.directions.above[switch.index()]);
        let mut senders: Vec<SwitchIdx> = changed.iter().chain(above).copied().collect();
        senders.sort_unstable();
        senders.dedup();
        senders
    }

    /// The pairs that `sender` is the upper one of; `None` when the old entries are one.
    fn pairs_of(&self, sender: SwitchIdx, lid: Lid, pairs: &mut Vec<Pair>) -> Option<()> {
        let [before, after] = [self.before(sender, lid), self.after(sender, lid)];
        if let Direction::Down(receiver) = self.directions.get(sender, before) {
            if self.directions.is_up(receiver, self.before(receiver, lid)) {
                return None;
            }
            if self.directions.is_up(receiver, self.after(receiver, lid)) {
                pairs.push(Pair {
                    waits: receiver,
                    in_its_way: sender,
                    lid,
                });
            }
        }
        if before != after
            && let Direction::Down(receiver) = self.directions.get(sender, after)
            && self.directions.is_up(receiver, self.before(receiver, lid))
        {
            pairs.push(Pair {
                waits: sender,
                in_its_way: receiver,
                lid,
            });
        }
        Some(())
    }
}

/// The LIDs of a block.
fn lids(block: usize) -> impl Iterator<Item = Lid> {
    // Blocks are numbered by LID.
    (block * BLOCK_LIDS..(block + 1) * BLOCK_LIDS).map(|lid| Lid(lid as u16))
}
