//! Computes stages from one set of tables to another; both sets follow one up*/down* order of the
//! switches.
//!
//! Under each set, packets go up and then down. A mixture of both sets can break this only at a
//! pair of entries, one old and one new: the entry of `x` sends down to `s`, and the entry of `s`
//! sends up. A mixture without such a pair has no illegal turn (up after going down), and so
//! neither a loop nor a credit loop. Every pair consists of changed entries and entries that lead
//! to changed ones.
//!
//! # No entry has to discard packets between stages
//!
//! In each pair, one entry waits for the other. An entry that begins to send up waits for the
//! entries above that still send down to its switch; these may wait for entries further above. An
//! entry that begins to send down waits for the entry below that still sends up. No entry above
//! sends down to that lower entry, because the lower entry sends up; the lower entry can only wait
//! in the same way for an entry further below. Chains of waits therefore go up the order, then
//! down, and never form a cycle: a finite number of stages writes every entry once, from its old to
//! its new content.
//!
//! # Packets that arrive continue to arrive
//!
//! An entry whose packets arrive also waits until packets that follow its new content arrive: it
//! waits for entries on the new path that lead nowhere yet, and for links that are not Active
//! ([`IdleLinks`]). These waits follow the new paths. An entry that is removed, such as the entry
//! of a detour, waits for the entries that lead to it. Together with the waits above, these waits
//! could close a cycle only where packets of the old tables did not arrive; such a LID changes
//! without the waits of this section.
//!
//! LIDs are independent, so this module processes them block by block: one block's entries in all
//! switches fit a processor's cache, in any order of the pairs.

mod block_entries;
mod directions;
mod rounds;

use rayon::prelude::*;
use rsm_ids::Lid;

use self::block_entries::{BLOCKS_PER_CHANGE, Entries, ones};
use self::directions::{Direction, Directions};
use self::rounds::{Conflict, Rounds, TableTransition, Waiting};
use super::{IdleLinks, Unwritten};
use crate::tables::{BLOCK_LIDS, Difference, Lft, NO_PATH, Tables};
use crate::topology::{SwitchIdx, Topology};

/// The sequence of tables that the switches hold one after the other.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The tables of each stage; the last stage is the target. All switches hold one stage before
    /// the next begins.
    pub tables: Vec<Tables>,
    /// Whether all idle links become Active after the first stage, or after the second if the first
    /// is a cut. If false, each idle link becomes Active when both of its ends hold the last stage.
    pub links_first: bool,
    /// Whether the first stage is a cut: the tables in force without the entries by which packets
    /// turn up after going down. A cut removes no other entry and adds none.
    pub has_cut: bool,
    /// Whether links of dark switches stay down until all switches hold the stage for which idle
    /// links wait. If false, such a link may become Active as soon as the dark switches at its ends
    /// hold that stage.
    pub dark_last: bool,
}

/// Computes stages as [`stages`](super::stages) does, for tables that follow one order, so that no
/// packet turns up after going down. Takes time linear in the number of changed entries, and
/// discards no packets between stages.
///
/// `old` is in force, by the switch numbers of `topology`; `new` follows the order, and `is_above`
/// returns whether the first of two switches lies above the second. `None` if the tables in force
/// do not follow the order.
pub fn stages_along(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool + Sync,
    old: &Tables,
    new: &Tables,
) -> Option<Vec<Tables>> {
    let idle = IdleLinks::default();
    let difference = Difference::between(old, new);
    let stages = stages_along_opening(
        topology,
        is_above,
        &idle,
        &Unwritten::default(),
        &difference,
    )?;
    (!stages.has_cut).then_some(stages.tables)
}

/// Computes stages as [`stages_along`] does while some links of `topology` carry no packets yet: an
/// entry that packets pass leads to such a link only from the second stage on. `difference` runs
/// from the tables in force to the tables that follow the order.
///
/// A dark switch gets all of its entries in the first stage. Should that create an illegal turn
/// with an entry that stays until a later stage, no link counts as idle, and none may become Active
/// before both of its ends hold the last stage.
///
/// The tables in force may follow another order, in whole or in part. The first stage then removes
/// the entries by which packets turn up after going down, and packets on these paths are lost until
/// a later stage writes new entries. Switches of `fixed` keep their entries: if the sender of an
/// illegal turn is fixed, the receiving switch loses its entry instead. A fixed switch may also
/// hold entries that were sent to it for another order: the first stage also removes entries in
/// force that make an illegal turn with one of these. No stage removes an illegal turn between two
/// fixed neighbours.
///
/// `None` if the entries wait for each other in a cycle, which cannot happen if the new tables
/// follow the order.
pub fn stages_along_opening(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool + Sync,
    idle: &IdleLinks,
    fixed: &Unwritten,
    difference: &Difference<'_>,
) -> Option<Stages> {
    let (old, new) = (difference.before(), difference.after());
    if old.lfts.iter().all(|lft| lft.top().is_none()) {
        return Some(Stages {
            tables: vec![new.clone()],
            links_first: true,
            has_cut: false,
            dark_last: false,
        });
    }
    let blocks = by_block(difference);
    let mut directions = Directions::new(topology, &is_above);
    let changes: usize = blocks.iter().map(|(_, switches)| switches.len()).sum();
    let block_count = blocks.last().map_or(0, |(last, _)| last + 1) * topology.switch_count();
    if changes * BLOCKS_PER_CHANGE >= block_count {
        directions.find_all();
    }
    let transition = TableTransition {
        directions: &directions,
        idle,
        fixed: &fixed.switches,
        difference,
    };
    let waiting = transition.waiting(&blocks);
    let turns_with_unwritten = transition.turns_with_unwritten(fixed);
    let turns = match waiting {
        Err(Conflict::Turns(turns)) => turns,
        waiting if turns_with_unwritten.is_empty() => return transition.stages(waiting, &blocks),
        _ => Vec::new(),
    };
    let mut cut = replaced(old, &turns, |_| &[NO_PATH; BLOCK_LIDS]);
    for (switch, lid) in turns_with_unwritten {
        cut.lfts[switch.index()].set_entry(lid, NO_PATH);
    }
    let difference = Difference::between(&cut, new);
    let transition = TableTransition {
        difference: &difference,
        ..transition
    };
    let blocks = by_block(&difference);
    let mut stages = transition.stages(transition.waiting(&blocks), &blocks)?;
    stages.tables.insert(0, cut);
    stages.has_cut = true;
    Some(stages)
}

/// The blocks that change, each with the switches whose block changes, in ascending order.
fn by_block(difference: &Difference<'_>) -> Vec<(usize, Vec<SwitchIdx>)> {
    let last = difference
        .blocks()
        .iter()
        .filter_map(|blocks| blocks.last());
    let count = last.max().map_or(0, |&last| usize::from(last) + 1);
    let mut switches: Vec<Vec<SwitchIdx>> = vec![Vec::new(); count];
    for (switch, blocks) in difference.blocks().iter().enumerate() {
        for &block in blocks {
            // Switches are numbered with 32 bits.
            switches[usize::from(block)].push(SwitchIdx(switch as u32));
        }
    }
    let blocks = switches.into_iter().enumerate();
    blocks
        .filter(|(_, switches)| !switches.is_empty())
        .collect()
}

/// Replaces entries of tables by those of the blocks that `content` returns.
fn replaced<'a>(
    tables: &Tables,
    entries: &[Entries],
    content: impl Fn(&Entries) -> &'a [u8; BLOCK_LIDS] + Sync,
) -> Tables {
    let mut by_switch: Vec<Vec<&Entries>> = vec![Vec::new(); tables.lfts.len()];
    for entries in entries {
        by_switch[entries.switch.index()].push(entries);
    }
    let table = |(lft, entries): (&Lft, Vec<&Entries>)| {
        let mut lft = lft.clone();
        for entries in entries {
            let content = content(entries);
            let mut block = *lft.block(entries.block);
            ones(entries.lids).for_each(|offset| block[offset] = content[offset]);
            lft.set_block(entries.block, &block);
        }
        lft
    };
    let lfts = tables.lfts.par_iter().zip(by_switch).map(table);
    Tables {
        lfts: lfts.collect(),
    }
}

impl TableTransition<'_> {
    /// The entries of other switches in force that, together with an entry that a fixed switch may
    /// hold instead of its own, let packets turn up after going down.
    fn turns_with_unwritten(&self, fixed: &Unwritten) -> Vec<(SwitchIdx, Lid)> {
        let mut turns = Vec::new();
        for &(switch, lid, entry) in &fixed.others {
            match self.directions.get(switch, entry) {
                Direction::Up(_) => {
                    let above = self.directions.above(switch);
                    let senders = above.filter(|&sender| {
                        let before = self.difference.entry_before(sender, lid);
                        self.directions.next(sender, before) == Some(switch)
                    });
                    turns.extend(senders.map(|sender| (sender, lid)));
                }
                Direction::Down(receiver)
                    if self
                        .directions
                        .is_up(receiver, self.difference.entry_before(receiver, lid)) =>
                {
                    turns.push((receiver, lid));
                }
                Direction::Down(_) | Direction::Nowhere | Direction::End => {}
            }
        }
        turns.retain(|(switch, _)| !fixed.switches.contains(switch));
        turns
    }

    /// Computes the stages from the tables in force, which follow the order at the changed entries;
    /// `waiting` holds the entries of `blocks` that wait. `None` if there is no safe sequence.
    fn stages(
        &self,
        waiting: Result<Waiting, Conflict>,
        blocks: &[(usize, Vec<SwitchIdx>)],
    ) -> Option<Stages> {
        match waiting {
            Ok(waiting) => Some(self.tables(&waiting, true)),
            Err(Conflict::Turns(_) | Conflict::Cycle) => None,
            Err(Conflict::Dark) => {
                let idle = IdleLinks::default();
                let transition = TableTransition {
                    idle: &idle,
                    ..*self
                };
                let waiting = transition.waiting(blocks).ok();
                waiting.map(|waiting| transition.tables(&waiting, false))
            }
        }
    }

    /// Builds the tables of all stages from the waiting entries.
    fn tables(&self, waiting: &Waiting, links_first: bool) -> Stages {
        let Waiting {
            deferred,
            dark_last,
        } = waiting;
        let last = deferred.iter().map(|&(_, stage)| stage).max().unwrap_or(0);
        // With a single stage, there is no moment between that stage and the activation of links.
        let last = last.max(u8::from(*dark_last));
        let of_stage = |number: u8| {
            let deferred: Vec<Entries> = deferred
                .iter()
                .filter(|&&(_, stage)| stage > number)
                .map(|&(entries, _)| entries)
                .collect();
            let before =
                |deferred: &Entries| self.difference.block_in(deferred.switch, deferred.block)[0];
            replaced(self.difference.after(), &deferred, before)
        };
        Stages {
            tables: (0..=last).map(of_stage).collect(),
            links_first,
            has_cut: false,
            dark_last: *dark_last,
        }
    }

    /// All entries that wait.
    fn waiting(&self, blocks: &[(usize, Vec<SwitchIdx>)]) -> Result<Waiting, Conflict> {
        let found: Vec<Result<Waiting, Conflict>> = blocks
            .par_iter()
            .map_init(
                || Rounds::new(self),
                |rounds, (block, switches)| rounds.waiting(*block, switches),
            )
            .collect();
        // Illegal turns come before other conflicts, and from all blocks.
        let turns: Vec<Entries> = found
            .iter()
            .filter_map(|found| match found {
                Err(Conflict::Turns(turns)) => Some(turns),
                _ => None,
            })
            .flatten()
            .copied()
            .collect();
        if !turns.is_empty() {
            return Err(Conflict::Turns(turns));
        }
        let mut united = Waiting::default();
        for found in found {
            let Waiting {
                deferred,
                dark_last,
            } = found?;
            united.deferred.extend(deferred);
            united.dark_last |= dark_last;
        }
        Ok(united)
    }
}
