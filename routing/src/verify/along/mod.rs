//! Computes stages from one set of tables to another; both sets follow one up*/down* order of the
//! switches.
//!
//! Under each set, packets go up and then down. A mixture of both sets can break this only by a
//! pair of entries, one old and one new: the entry of a switch `x` sends down to `s`, and the entry
//! of `s` sends up. A mixture without such a pair has no illegal turn (up after going down), and so
//! neither a loop nor a credit loop. Every pair consists of changed entries and entries that lead
//! to changed ones.
//!
//! # No entry has to discard packets between stages
//!
//! In each pair, one entry waits for the other. An entry that begins to send up waits for the
//! entries above that still send down to its switch; these may wait for entries further above. An
//! entry that begins to send down waits for the entry below that still sends up. No entry above
//! sends down to that lower entry, because it sends up; it can only wait in the same way for an
//! entry further below. Chains of waits therefore go up the order, then down, and never form a
//! cycle: a finite number of stages writes every entry once, from its old to its new content.
//!
//! # Packets that arrive continue to arrive
//!
//! An entry whose packets arrive also waits until packets that follow its new content arrive: it
//! waits for entries on the new path that lead nowhere yet, and for links that are not Active
//! ([`IdleLinks`]). These waits follow the new paths. An entry that is removed, such as the entry
//! of a detour, waits for the entries that lead to it. Together with the waits above, these waits
//! can close a cycle only if packets to the LID did not arrive under the old tables. The entries of
//! such a LID change without the waits of this section.
//!
//! LIDs are independent of each other. This module processes them block by block, because one
//! block's entries in all switches fit a processor's cache.

mod block_entries;
mod directions;

use rayon::prelude::*;
use rsm_ids::{Lid, PortNum};

use self::block_entries::{BLOCKS_PER_CHANGE, BlockEntries};
use self::directions::{Direction, Directions};
use super::{IdleLinks, Unwritten};
use crate::tables::{Difference, NO_PATH, Tables};
use crate::topology::{SwitchIdx, Topology};

/// The sequence of tables that the switches hold one after the other.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The tables of each stage; the last stage is the target. All switches hold one stage before
    /// the next begins.
    pub tables: Vec<Tables>,
    /// When idle links become Active. If true, all do after the first stage, or after the second if
    /// the first is a cut. If false, each link does when the switches at both of its ends hold the
    /// last stage.
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
/// A dark switch gets all of its entries in the first stage. If that would make an illegal turn
/// with an entry that stays until a later stage, no link counts as idle, and no link may become
/// Active before both of its ends hold the last stage.
///
/// The tables in force may follow another order, in whole or in part. The first stage then removes
/// the entries by which packets turn up after going down, and packets on these paths are lost until
/// a later stage writes new entries. Switches of `fixed` keep their entries: if such a switch sends
/// down to one that sends up, the entry of the latter is removed instead. A fixed switch may also
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
    let all = blocks.last().map_or(0, |(last, _)| last + 1) * topology.switch_count();
    if changes * BLOCKS_PER_CHANGE >= all {
        directions.find_all();
    }
    let transition = TableTransition {
        directions: &directions,
        idle,
        difference,
    };
    let waiting = transition.waiting(&blocks);
    // Without a conflict there are no illegal turns: the search for waiting entries examines every
    // turn of the old tables next to a changed entry, and reports an illegal one as a conflict.
    let turns = match waiting {
        Ok(_) => Vec::new(),
        Err(_) => transition.turns(&blocks),
    };
    let turns_beside = transition.turns_beside(fixed);
    if turns.is_empty() && turns_beside.is_empty() {
        return transition.stages(waiting, &blocks);
    }
    let mut cut = old.clone();
    for (sender, lid) in turns {
        let mut switch = sender;
        if fixed.switches.contains(&sender)
            && let Direction::Down(receiver) =
                directions.get(sender, difference.entry_before(sender, lid))
        {
            switch = receiver;
        }
        cut.lfts[switch.index()].set_entry(lid, NO_PATH);
    }
    for (switch, lid) in turns_beside {
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

/// An entry that waits for a stage after the first.
struct DeferredEntry {
    switch: SwitchIdx,
    lid: Lid,
    /// The stage in which the entry is written.
    stage: u8,
}

/// The entries that wait for a stage after the first.
#[derive(Default)]
struct Waiting {
    deferred: Vec<DeferredEntry>,
    /// The value of [`Stages::dark_last`].
    dark_last: bool,
}

/// The reason why there are no stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Conflict {
    /// The tables in force have an illegal turn: up after going down.
    Order,
    /// A dark switch cannot hold all of its entries in the first stage.
    Dark,
    /// Entries wait for each other.
    Cycle,
}

/// The transition from the tables in force to the planned tables.
struct TableTransition<'a> {
    directions: &'a Directions<'a>,
    idle: &'a IdleLinks,
    difference: &'a Difference<'a>,
}

/// The approximate number of neighbours above a switch. If more than one in this many switches go
/// up, examining all switches is quicker than examining the neighbours above each of these.
const NEIGHBOURS_ABOVE: usize = 16;

/// The switches on which the stages of one LID depend.
struct Group {
    lid: Lid,
    /// The switches whose entry changes, in ascending order.
    changed: Vec<SwitchIdx>,
    /// The switches that may send down to a switch that goes up, where one of the two entries is
    /// old and the other new.
    senders: Vec<SwitchIdx>,
}

impl TableTransition<'_> {
    /// The number of switches.
    fn switches(&self) -> usize {
        self.difference.after().lfts.len()
    }

    /// The entries in force, by switch and LID, that send down to a switch that sends up again.
    fn turns(&self, blocks: &[(usize, Vec<SwitchIdx>)]) -> Vec<(SwitchIdx, Lid)> {
        let of_block = |entries: &mut BlockEntries<'_>,
                        (block, switches): &(usize, Vec<SwitchIdx>)| {
            entries.turn_to(*block, switches.len());
            let mut turns = Vec::new();
            for Group { lid, senders, .. } in self.groups(entries, switches) {
                let turning = senders.into_iter();
                let turning = turning.filter(|&from| self.turns_up(entries, from, lid));
                turns.extend(turning.map(|sender| (sender, lid)));
            }
            turns
        };
        let by_block: Vec<Vec<(SwitchIdx, Lid)>> = blocks
            .par_iter()
            .map_init(|| BlockEntries::new(self.difference), of_block)
            .collect();
        by_block.into_iter().flatten().collect()
    }

    /// The entries of other switches in force that, together with an entry that a fixed switch may
    /// hold instead of its own, let packets turn up after going down.
    fn turns_beside(&self, fixed: &Unwritten) -> Vec<(SwitchIdx, Lid)> {
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

    /// Whether packets that `sender` sends down go up from there, under the tables in force.
    fn turns_up(&self, entries: &BlockEntries<'_>, sender: SwitchIdx, lid: Lid) -> bool {
        match self.directions.get(sender, entries.before(sender, lid)) {
            Direction::Down(receiver) => self
                .directions
                .is_up(receiver, entries.before(receiver, lid)),
            Direction::Up(_) | Direction::Nowhere | Direction::End => false,
        }
    }

    /// Computes the stages from the tables in force, which follow the order at the changed entries;
    /// `waiting` holds the entries of `blocks` that wait. `None` if there is no safe sequence.
    fn stages(
        &self,
        waiting: Result<Waiting, Conflict>,
        blocks: &[(usize, Vec<SwitchIdx>)],
    ) -> Option<Stages> {
        match waiting {
            Ok(waiting) => Some(self.tables(waiting, true)),
            Err(Conflict::Order | Conflict::Cycle) => None,
            Err(Conflict::Dark) => {
                let idle = IdleLinks::default();
                let transition = TableTransition {
                    idle: &idle,
                    ..*self
                };
                let waiting = transition.waiting(blocks).ok();
                waiting.map(|waiting| transition.tables(waiting, false))
            }
        }
    }

    /// Builds the tables of all stages from the waiting entries.
    fn tables(&self, waiting: Waiting, links_first: bool) -> Stages {
        let Waiting {
            mut deferred,
            dark_last,
        } = waiting;
        let last = deferred
            .iter()
            .map(|deferred| deferred.stage)
            .max()
            .unwrap_or(0);
        // With a single stage, there is no moment between it and the activation of the links.
        let last = last.max(u8::from(dark_last));
        deferred.sort_unstable_by_key(|deferred| (deferred.switch, deferred.lid));
        let of_stage = |number: u8| {
            let mut tables = self.difference.after().clone();
            let deferred = deferred.iter().filter(|deferred| deferred.stage > number);
            let entry = |deferred: &DeferredEntry| {
                let DeferredEntry { switch, lid, .. } = *deferred;
                (switch, lid, self.difference.entry_before(switch, lid))
            };
            tables.set_entries(&deferred.map(entry).collect::<Vec<_>>());
            tables
        };
        Stages {
            tables: (0..=last).map(of_stage).collect(),
            links_first,
            has_cut: false,
            dark_last,
        }
    }

    /// All entries that wait for a stage after the first, sorted by LID and switch.
    fn waiting(&self, blocks: &[(usize, Vec<SwitchIdx>)]) -> Result<Waiting, Conflict> {
        let found: Vec<Result<Waiting, Conflict>> = blocks
            .par_iter()
            .map_init(
                || Column::new(self),
                |column, (block, switches)| self.waiting_in(*block, switches, column),
            )
            .collect();
        // If there are several conflicts, report the same one in any order of the blocks.
        let conflicts = found.iter().filter_map(|found| found.as_ref().err());
        if conflicts
            .into_iter()
            .any(|&conflict| conflict == Conflict::Order)
        {
            return Err(Conflict::Order);
        }
        let mut all = Waiting::default();
        for found in found {
            let Waiting {
                deferred,
                dark_last,
            } = found?;
            all.deferred.extend(deferred);
            all.dark_last |= dark_last;
        }
        Ok(all)
    }

    /// The waiting entries of a block, sorted by LID and switch; `switches` holds the switches
    /// whose block changes.
    fn waiting_in(
        &self,
        block: usize,
        switches: &[SwitchIdx],
        column: &mut Column<'_>,
    ) -> Result<Waiting, Conflict> {
        let mut waiting = Waiting::default();
        column.entries.turn_to(block, switches.len());
        for group in self.groups(&column.entries, switches) {
            column.begin(group.lid, &group.senders)?;
            let found = match column.stages(&group.changed, true) {
                Err(Conflict::Cycle | Conflict::Dark) => column.stages(&group.changed, false)?,
                found => found?,
            };
            waiting.deferred.extend(found);
            waiting.dark_last |= column.dark_last;
        }
        Ok(waiting)
    }

    /// The LIDs that change in a block, lowest first; `switches` holds the switches whose block
    /// changes.
    ///
    /// A pair that closes an illegal turn contains a changed entry, because the new tables have no
    /// such turn. The upper switch of a pair is therefore a switch whose entry changes, or one
    /// above a switch whose changed entry goes up.
    fn groups(&self, entries: &BlockEntries<'_>, switches: &[SwitchIdx]) -> Vec<Group> {
        let group = |(lid, changed): (Lid, Vec<SwitchIdx>)| Group {
            lid,
            senders: self.senders(entries, lid, &changed),
            changed,
        };
        entries.changed(switches).map(group).collect()
    }

    /// The switches that may send down to a switch that goes up, where one of the two entries
    /// changes; `changed` holds the switches whose entry for `lid` changes.
    fn senders(
        &self,
        entries: &BlockEntries<'_>,
        lid: Lid,
        changed: &[SwitchIdx],
    ) -> Vec<SwitchIdx> {
        let is_up = |switch, entry| self.directions.is_up(switch, entry);
        let goes_up = |&switch: &SwitchIdx| {
            is_up(switch, entries.before(switch, lid)) || is_up(switch, entries.after(switch, lid))
        };
        let changed = changed.iter().copied();
        let up: Vec<SwitchIdx> = changed.clone().filter(goes_up).collect();
        if up.len() * NEIGHBOURS_ABOVE < self.switches() {
            let above = up.into_iter();
            let above = above.flat_map(|switch| self.directions.above(switch));
            let mut senders: Vec<SwitchIdx> = changed.chain(above).collect();
            senders.sort_unstable();
            senders.dedup();
            return senders;
        }
        let mut changes = vec![false; self.switches()];
        changed.for_each(|switch| changes[switch.index()] = true);
        let sends_to_change = |switch| {
            let next = self.directions.next(switch, entries.before(switch, lid));
            next.is_some_and(|next| changes[next.index()])
        };
        let switches = self.directions.topology.indices();
        switches
            .filter(|&switch| changes[switch.index()] || sends_to_change(switch))
            .collect()
    }
}

/// The progress of the search at one switch's entry.
#[derive(Clone, Copy)]
enum Mark {
    /// The search is still visiting the entries for which this entry waits.
    Open,
    /// The stage in which the entry is written.
    Stage(u8),
}

/// The values of one LID that are already known, by switch.
struct Memo<T> {
    values: Vec<Option<T>>,
    known: Vec<SwitchIdx>,
}

impl<T: Copy> Memo<T> {
    fn new(switches: usize) -> Memo<T> {
        Memo {
            values: vec![None; switches],
            known: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for switch in self.known.drain(..) {
            self.values[switch.index()] = None;
        }
    }

    fn get(&self, switch: SwitchIdx) -> Option<T> {
        self.values[switch.index()]
    }

    fn set(&mut self, switch: SwitchIdx, value: T) {
        if self.values[switch.index()].replace(value).is_none() {
            self.known.push(switch);
        }
    }
}

/// The stages of the entries of one LID.
struct Column<'a> {
    transition: &'a TableTransition<'a>,
    entries: BlockEntries<'a>,
    lid: Lid,
    /// Pairs of (receiver, sender), sorted, in which the sender's entry in force sends down to the
    /// receiver.
    feeders: Vec<(SwitchIdx, SwitchIdx)>,
    /// Whether packets from each switch arrive under the tables in force.
    arrives: Memo<bool>,
    marks: Memo<Mark>,
    /// Whether packets that arrive must continue to arrive.
    keeps_delivering: bool,
    /// The value of [`Stages::dark_last`].
    dark_last: bool,
}

impl<'a> Column<'a> {
    fn new(transition: &'a TableTransition<'a>) -> Column<'a> {
        let switches = transition.switches();
        Column {
            transition,
            entries: BlockEntries::new(transition.difference),
            lid: Lid::NONE,
            feeders: Vec::new(),
            arrives: Memo::new(switches),
            marks: Memo::new(switches),
            keeps_delivering: true,
            dark_last: false,
        }
    }

    /// Prepares for another LID of the block. Fails if the tables in force have an illegal turn.
    fn begin(&mut self, lid: Lid, senders: &[SwitchIdx]) -> Result<(), Conflict> {
        self.lid = lid;
        self.arrives.clear();
        self.feeders.clear();
        let directions = self.transition.directions;
        for &sender in senders {
            let before = self.entries.before(sender, lid);
            let Direction::Down(receiver) = directions.get(sender, before) else {
                continue;
            };
            if directions.is_up(receiver, self.entries.before(receiver, lid)) {
                return Err(Conflict::Order);
            }
            if directions.is_up(receiver, self.entries.after(receiver, lid)) {
                self.feeders.push((receiver, sender));
            }
        }
        self.feeders.sort_unstable();
        Ok(())
    }

    /// The waiting entries of the LID. If `keeps_delivering` is false, packets that arrive may be
    /// lost meanwhile.
    fn stages(
        &mut self,
        changed: &[SwitchIdx],
        keeps_delivering: bool,
    ) -> Result<Vec<DeferredEntry>, Conflict> {
        self.keeps_delivering = keeps_delivering;
        self.dark_last = false;
        self.marks.clear();
        let mut deferred = Vec::new();
        for &switch in changed {
            let stage = self.stage(switch)?;
            if stage > 0 {
                let lid = self.lid;
                deferred.push(DeferredEntry { switch, lid, stage });
            }
        }
        Ok(deferred)
    }

    /// The stage in which the entry of a switch is written; 0 if it does not change.
    fn stage(&mut self, switch: SwitchIdx) -> Result<u8, Conflict> {
        match self.marks.get(switch) {
            Some(Mark::Stage(stage)) => return Ok(stage),
            Some(Mark::Open) => return Err(Conflict::Cycle),
            None if !self.entries.changes(switch, self.lid) => return Ok(0),
            None => self.marks.set(switch, Mark::Open),
        }
        let mut stage = self.after_pairs(switch)?;
        if self.transition.idle.is_dark(switch) {
            // Links of the switch can become Active after the first stage, when all of its entries
            // are in place.
            if stage > 1 {
                return Err(Conflict::Dark);
            }
            self.dark_last |= stage == 1;
            stage = 0;
        } else {
            let after = self.entries.after(switch, self.lid);
            if self.transition.idle.contains(switch, PortNum(after)) {
                stage = stage.max(1);
            }
            stage = stage.max(self.after_new_path(switch, after)?);
        }
        self.marks.set(switch, Mark::Stage(stage));
        Ok(stage)
    }

    /// The first stage after all entries that would make an illegal turn together with the new
    /// entry of `switch`; if the new entry discards packets, after all entries that lead to the
    /// switch.
    fn after_pairs(&mut self, switch: SwitchIdx) -> Result<u8, Conflict> {
        let directions = self.transition.directions;
        let mut stage = 0;
        match directions.get(switch, self.entries.after(switch, self.lid)) {
            Direction::Up(_) => {
                let mut at = self.feeders.partition_point(|&(fed, _)| fed < switch);
                while let Some(&(fed, sender)) = self.feeders.get(at)
                    && fed == switch
                {
                    stage = stage.max(self.after_one(switch, sender)?);
                    at += 1;
                }
            }
            Direction::Down(receiver)
                if directions.is_up(receiver, self.entries.before(receiver, self.lid)) =>
            {
                stage = self.after_one(switch, receiver)?;
            }
            Direction::Nowhere => stage = self.after_predecessors(switch)?,
            Direction::Down(_) | Direction::End => {}
        }
        Ok(stage)
    }

    /// The first stage after all entries that lead to a switch whose entry is to be removed; 0 if
    /// its packets do not arrive.
    fn after_predecessors(&mut self, switch: SwitchIdx) -> Result<u8, Conflict> {
        let mut stage = 0;
        if self.keeps_delivering && self.arrives(switch) {
            let transition = self.transition;
            for group in transition.directions.topology.groups(switch) {
                let before = self.entries.before(group.neighbour, self.lid);
                if transition.directions.next(group.neighbour, before) == Some(switch)
                    && self.entries.changes(group.neighbour, self.lid)
                {
                    stage = stage.max(later(self.stage(group.neighbour)?)?);
                }
            }
        }
        Ok(stage)
    }

    /// The first stage after the entry of `other`, which must not be in force together with the new
    /// entry of `switch`.
    fn after_one(&mut self, switch: SwitchIdx, other: SwitchIdx) -> Result<u8, Conflict> {
        let idle = self.transition.idle;
        if idle.is_dark(switch) && idle.is_dark(other) {
            // Both switches hold all of their entries before a link between them becomes Active.
            return Ok(0);
        }
        later(self.stage(other)?)
    }

    /// The first stage after all entries and links on the path to which the new entry of `switch`
    /// leads.
    fn after_new_path(&mut self, switch: SwitchIdx, entry: u8) -> Result<u8, Conflict> {
        if !self.keeps_delivering {
            return Ok(0);
        }
        let directions = self.transition.directions;
        let mut ready = None;
        let mut next = directions.next(switch, entry);
        // No path is longer than the number of switches.
        for _ in 0..self.transition.switches() {
            let Some(at) = next.filter(|&at| !self.arrives(at)) else {
                break;
            };
            if ready.is_none() && !self.arrives(switch) {
                // Packets here do not arrive, so that none can be lost.
                return Ok(0);
            }
            let after = self.entries.after(at, self.lid);
            ready = ready.max(Some(self.stage(at)?));
            next = directions.next(at, after);
        }
        ready.map_or(Ok(0), later)
    }

    /// Whether packets at a switch arrive under the tables in force.
    fn arrives(&mut self, from: SwitchIdx) -> bool {
        let mut passed = Vec::new();
        let mut at = from;
        let arrives = loop {
            if let Some(known) = self.arrives.get(at) {
                break known;
            }
            let entry = self.entries.before(at, self.lid);
            passed.push(at);
            if self.transition.idle.contains(at, PortNum(entry))
                || passed.len() > self.transition.switches()
            {
                break false;
            }
            match self.transition.directions.next(at, entry) {
                Some(next) => at = next,
                None => break self.transition.directions.get(at, entry) == Direction::End,
            }
        };
        for switch in passed {
            self.arrives.set(switch, arrives);
        }
        arrives
    }
}

/// The stage after `stage`; fails if there are too many stages.
fn later(stage: u8) -> Result<u8, Conflict> {
    stage.checked_add(1).ok_or(Conflict::Cycle)
}
