//! Finds the entries that differ from the previous tables.

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Lid;

use super::super::Plan;
use super::super::fill::{self, Filler, Gathered};
use super::{State, Touched};
use crate::tables::{BLOCK_LIDS, Lft, NO_PATH};
use crate::topology::SwitchIdx;

/// A change of one table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The switch that holds the entry.
    pub switch: SwitchIdx,
    /// The LID of the entry.
    pub lid: Lid,
    /// The output port in force, [`NO_PATH`] for none.
    pub before: u8,
    /// The new output port, [`NO_PATH`] for none.
    pub after: u8,
}

/// The differences between the previous tables and the tables of a plan.
pub(super) struct Differences {
    /// The previous table of each switch, by its present number.
    pub(super) before: Vec<Lft>,
    /// The changes, sorted by switch and LID.
    pub(super) changes: Vec<Change>,
}

impl Differences {
    /// Compares the whole tables of switches that were missing and of `changed_switches`, and only
    /// the columns in `touched` of all other switches.
    pub(super) fn of(
        plan: &Plan<'_>,
        earlier: &State,
        changed_switches: &FixedBitSet,
        touched: &Touched,
    ) -> Differences {
        let was = |switch: SwitchIdx| earlier.live.switches[switch.index()];
        let is_present = |switch: &SwitchIdx| plan.live.switches[switch.index()].is_some();
        let here: Vec<SwitchIdx> = plan.known.indices().filter(is_present).collect();
        let table = |&switch: &SwitchIdx| {
            was(switch).map_or_else(Lft::default, |was| earlier.tables.lft(was).clone())
        };
        let before: Vec<Lft> = here.iter().map(table).collect();
        let vanished_lids: Vec<Lid> = vanished_lids(plan, earlier);
        let gathered = Gathered::of(plan, touched);
        let of_switch = |(number, (&switch, before)): (usize, (&SwitchIdx, &Lft))| {
            // Switches are numbered as in the topology, which has them in the order of the known
            // fabric.
            let number = SwitchIdx(number as u32);
            let columns = &touched[switch.index()];
            if was(switch).is_none() || changed_switches.contains(switch.index()) {
                let filler = Filler::new(plan, switch);
                return differences(number, before, filler.table(&mut fill::scratch()));
            }
            if columns.is_empty() && vanished_lids.is_empty() {
                return Vec::new();
            }
            let mut entries = Filler::new(plan, switch).entries(columns, &gathered);
            entries.extend(vanished_lids.iter().map(|&lid| (lid, NO_PATH)));
            entries.sort_unstable();
            let change = |(lid, after)| Change {
                switch: number,
                lid,
                before: before.entry(lid),
                after,
            };
            let changes = entries.into_iter().map(change);
            changes
                .filter(|change| change.before != change.after)
                .collect()
        };
        let lft_pairs = here.par_iter().zip(&before).enumerate();
        let changes: Vec<Vec<Change>> = lft_pairs.map(of_switch).collect();
        Differences {
            changes: changes.concat(),
            before,
        }
    }
}

/// The LIDs that a port had before and no port has now.
fn vanished_lids(plan: &Plan<'_>, earlier: &State) -> Vec<Lid> {
    let before = earlier
        .lids
        .iter()
        .map(|&lid| Lid(lid))
        .filter(|&lid| lid != Lid::NONE);
    before
        .filter(|&lid| plan.present.destination_of(lid).is_none())
        .collect()
}

/// The entries in which a table differs from the previous one.
fn differences(switch: SwitchIdx, before: &Lft, after: &[u8]) -> Vec<Change> {
    // Entries beyond the end of `after` have no path.
    let last = after
        .len()
        .max(before.top().map_or(0, |top| top.index() + 1));
    let mut changes = Vec::new();
    for block in 0..last.div_ceil(BLOCK_LIDS) {
        let first = block * BLOCK_LIDS;
        let after = &after[first.min(after.len())..(first + BLOCK_LIDS).min(after.len())];
        let before = before.block(block);
        if before[..] == *after {
            continue;
        }
        let after = after.iter().copied().chain(std::iter::repeat(NO_PATH));
        for (offset, (&before, after)) in before.iter().zip(after).enumerate() {
            if before != after {
                changes.push(Change {
                    switch,
                    // Tables are indexed by LID.
                    lid: Lid((first + offset) as u16),
                    before,
                    after,
                });
            }
        }
    }
    changes
}
