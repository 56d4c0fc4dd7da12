//! How to get from one set of tables to another without a loop or a credit loop on the way.
//!
//! Where both follow one order of the switches ([`stages_along`]), packets go up and then down by the one and by the
//! other, and what could go wrong is told by pairs of entries: `x`, which sends down to `s`, and `s`, which sends up, the
//! one old and the other new. A mixture without such a pair has no path that goes up after it went down, and so neither
//! a loop nor a circle of links that wait for each other. Looking at the entries that change and at those that lead to
//! them is enough to find every pair. Where there is no such order, the dependencies of the mixture are looked at as a
//! whole ([`stages`]).

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::{Lid, PortNum};

use super::dependencies::Dependencies;
use crate::tables::{BLOCK_LIDS, Lft, NO_PATH, Tables};
use crate::topology::{PortUse, SwitchIdx, Topology};

/// The tables to bring into force, one after the other; the last one is the aim. Within a stage
/// switches may change in any order, block by block or entry by entry; every switch has finished
/// one stage before any begins the next.
///
/// Between two tables that are each free of credit loops there is always such a way:
/// - at once, where every mixture of the two is acyclic;
/// - else with those entries last that discard packets as it is, because their link has gone;
/// - else with every entry that changes set to discard first. Both steps only mix what one table
///   does with what no table does, so that they add no dependency to it. This costs packets.
///
/// Both tables are by the switch numbers of `topology`, the fabric as it is now.
pub fn stages(topology: &Topology, old: &Tables, new: &Tables) -> Vec<Tables> {
    let aim = Dependencies::of(topology, new);
    let is_safe = |from: &Tables, to: &Tables, needs: &Dependencies<'_>| {
        let mut dependencies = needs.clone();
        dependencies.add_mixture(from, to);
        dependencies.is_acyclic()
    };
    if is_safe(old, new, &aim) {
        return vec![new.clone()];
    }
    let broken_last = between(topology, old, new, |topology, switch, before, after| {
        if before != after && !leads_on(topology, switch, before) {
            // It discards as it is; not to touch it spares a block that may have no other change.
            before
        } else {
            after
        }
    });
    let first = Dependencies::of(topology, &broken_last);
    if is_safe(old, &broken_last, &first) && is_safe(&broken_last, new, &aim) {
        return vec![broken_last, new.clone()];
    }
    let discarding = between(topology, old, new, |_, _, before, after| {
        if before == after { after } else { NO_PATH }
    });
    vec![discarding, new.clone()]
}

/// An entry of a table that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The switch whose entry it is.
    pub switch: SwitchIdx,
    /// Whose entry it is.
    pub lid: Lid,
    /// The output port as it was, [`NO_PATH`] for none.
    pub before: u8,
    /// As it is to be.
    pub after: u8,
}

/// Every entry that differs, by switch and LID.
pub fn changes(old: &Tables, new: &Tables) -> Vec<Change> {
    let none = Lft::default();
    let mut changes = Vec::new();
    for index in 0..old.lfts.len().max(new.lfts.len()) {
        let [was, is] = [old, new].map(|tables| tables.lfts.get(index).unwrap_or(&none));
        if was.is_shared_with(is) {
            continue;
        }
        for block in 0..was.blocks().max(is.blocks()) {
            if was.block_eq(is, block) {
                continue;
            }
            let entries = was.block(block).into_iter().zip(is.block(block));
            for (offset, (before, after)) in entries.enumerate() {
                if before != after {
                    changes.push(Change {
                        // Fewer switches than LIDs, and blocks are numbered by LID.
                        switch: SwitchIdx(index as u32),
                        lid: Lid((block * BLOCK_LIDS + offset) as u16),
                        before,
                        after,
                    });
                }
            }
        }
    }
    changes
}

/// By change: whether packets of hosts meet it, by the new tables. The others serve switches alone, and who asks them.
pub fn carried(topology: &Topology, new: &Tables, changes: &[Change]) -> Vec<bool> {
    let leaves: Vec<SwitchIdx> = topology
        .indices()
        .filter(|&switch| topology.hosts(switch) > 0)
        .collect();
    let mut lids: Vec<Lid> = changes.iter().map(|change| change.lid).collect();
    lids.sort_unstable();
    lids.dedup();
    let of_lid = |&lid: &Lid| {
        let mut passed = FixedBitSet::with_capacity(topology.switch_count());
        for &leaf in &leaves {
            let mut switch = leaf;
            // Who comes to a switch that was passed takes the way that was taken from there.
            while !passed.put(switch.index()) {
                let entry = new.lft(switch).entry(lid);
                match topology.peer(switch, PortNum(entry)) {
                    Some((next, _)) => switch = next,
                    None => break,
                }
            }
        }
        passed
    };
    let passed: Vec<FixedBitSet> = lids.par_iter().map(of_lid).collect();
    let meets = |change: &Change| {
        let place = lids.partition_point(|&lid| lid < change.lid);
        passed[place].contains(change.switch.index())
    };
    changes.iter().map(meets).collect()
}

/// As [`stages`], for tables that follow one order: no packet goes up after it went down. Takes as long as there are
/// changes, not as there are entries, and lets packets through that [`stages`] would discard.
///
/// `changes` are those of `new` to what is in force; `new` follows the order, and `is_above` tells of two switches whether
/// the first lies above the second. `None` when what is in force does not follow it.
///
/// All entries are written in the first stage but two kinds, which wait for the second: those that begin to send up while
/// somebody above still sends down to them, and those that begin to send down to somebody who still sends up. Of these
/// again the few that others of them depend on discard in between.
pub fn stages_along(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool,
    new: &Tables,
    changes: &[Change],
) -> Option<Vec<Tables>> {
    let held = held_back(topology, &is_above, new, changes)?;
    if held.is_empty() {
        return Some(vec![new.clone()]);
    }
    let mut first = new.clone();
    for (&(switch, lid), &entry) in &held {
        first.lfts[switch.index()].set_entry(lid, entry);
    }
    Some(vec![first, new.clone()])
}

/// The entries that wait for the second stage, each with what stands in it until then; `None` when what is in force does
/// not follow the order.
fn held_back(
    topology: &Topology,
    is_above: &impl Fn(SwitchIdx, SwitchIdx) -> bool,
    new: &Tables,
    changes: &[Change],
) -> Option<BTreeMap<(SwitchIdx, Lid), u8>> {
    let change_of = |switch: SwitchIdx, lid: Lid| {
        let place = changes.binary_search_by_key(&(switch, lid), |c| (c.switch, c.lid));
        place.ok().map(|place| &changes[place])
    };
    let next = |switch: SwitchIdx, entry: u8| topology.peer(switch, PortNum(entry)).map(|to| to.0);
    let after = |switch: SwitchIdx, lid: Lid| {
        new.lfts
            .get(switch.index())
            .map_or(NO_PATH, |lft| lft.entry(lid))
    };
    let before = |switch: SwitchIdx, lid: Lid| match change_of(switch, lid) {
        Some(change) => change.before,
        None => after(switch, lid),
    };
    let goes_up =
        |switch: SwitchIdx, entry: u8| next(switch, entry).is_some_and(|to| is_above(to, switch));
    // (who sends down, who sends up, whether the former is old).
    let mut pairs: Vec<(SwitchIdx, SwitchIdx, Lid, bool)> = Vec::new();
    for change in changes {
        let (switch, lid) = (change.switch, change.lid);
        let (was_up, is_up) = (
            goes_up(switch, change.before),
            goes_up(switch, change.after),
        );
        if was_up || is_up {
            for group in topology.groups(switch) {
                let above = group.neighbour;
                if !is_above(above, switch) {
                    continue;
                }
                let [sent, sends] = [before(above, lid), after(above, lid)]
                    .map(|entry| next(above, entry) == Some(switch));
                if was_up && sent {
                    return None;
                }
                if is_up && sent {
                    pairs.push((above, switch, lid, true));
                }
                if was_up && sends {
                    pairs.push((above, switch, lid, false));
                }
            }
        }
        if let Some(to) = next(switch, change.before)
            && is_above(switch, to)
            && goes_up(to, before(to, lid))
        {
            return None;
        }
    }
    let mut held: BTreeMap<(SwitchIdx, Lid), u8> = BTreeMap::new();
    for &(sender, receiver, lid, sender_is_old) in &pairs {
        let waits = if sender_is_old { receiver } else { sender };
        held.insert((waits, lid), before(waits, lid));
    }
    for &(sender, receiver, lid, sender_is_old) in &pairs {
        let in_its_way = if sender_is_old { sender } else { receiver };
        if let Some(entry) = held.get_mut(&(in_its_way, lid)) {
            *entry = NO_PATH;
        }
    }
    Some(held)
}

fn leads_on(topology: &Topology, switch: SwitchIdx, byte: u8) -> bool {
    topology.port_use(switch, PortNum(byte)) != PortUse::Unused
}

/// Tables whose entries `choose` makes from the old and the new ones.
fn between(
    topology: &Topology,
    old: &Tables,
    new: &Tables,
    choose: impl Fn(&Topology, SwitchIdx, u8, u8) -> u8,
) -> Tables {
    let none = Lft::default();
    let lfts = topology
        .indices()
        .map(|switch| {
            let [before, after] =
                [old, new].map(|tables| tables.lfts.get(switch.index()).unwrap_or(&none));
            let mut lft = after.clone();
            let lids = before.as_slice().len().max(after.as_slice().len());
            for lid in (0..lids).map(|lid| Lid(lid as u16)) {
                let (before, after) = (before.entry(lid), after.entry(lid));
                if before != after {
                    lft.set_entry(lid, choose(topology, switch, before, after));
                }
            }
            lft
        })
        .collect();
    Tables { lfts }
}
