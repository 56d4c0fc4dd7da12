//! Stages of the entries of one block of LIDs, found round by round.
//!
//! Each round writes the entries that wait for none of the entries still in force: round *n* writes
//! the entries of stage *n*. The LIDs of a block pass through the rounds together, although none
//! depends on another; a mask has one bit for each LID of the block.

use rsm_ids::PortNum;

use super::block_entries::{ALL_LIDS, BlockEntries, Entries, ones};
use super::directions::{Direction, Directions};
use crate::tables::Difference;
use crate::topology::SwitchIdx;
use crate::verify::IdleLinks;

/// The transition from the tables in force to the planned tables.
pub(super) struct TableTransition<'a> {
    pub(super) directions: &'a Directions<'a>,
    pub(super) idle: &'a IdleLinks,
    /// The switches that keep their entries.
    pub(super) fixed: &'a [SwitchIdx],
    pub(super) difference: &'a Difference<'a>,
}

impl TableTransition<'_> {
    pub(super) fn switches(&self) -> usize {
        self.difference.after().lfts.len()
    }
}

/// The entries that wait for a stage after the first.
#[derive(Default)]
pub(super) struct Waiting {
    /// The entries, each with the stage in which they are written.
    pub(super) deferred: Vec<(Entries, u8)>,
    /// The value of [`Stages::dark_last`](super::Stages::dark_last).
    pub(super) dark_last: bool,
}

/// The reason why there are no stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Conflict {
    /// The tables in force have illegal turns next to a change: up after going down. For each turn,
    /// the sender's entry, or the receiver's entry if the sender keeps its entries.
    Turns(Vec<Entries>),
    /// A dark switch cannot hold all of its entries in the first stage.
    Dark,
    /// Entries wait for each other.
    Cycle,
}

/// The mask of LIDs for each switch.
struct Masks {
    masks: Vec<u64>,
    /// The switches whose mask is nonempty or was nonempty earlier.
    used: Vec<SwitchIdx>,
}

impl Masks {
    fn new(switches: usize) -> Masks {
        Masks {
            masks: vec![0; switches],
            used: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for switch in self.used.drain(..) {
            self.masks[switch.index()] = 0;
        }
    }

    fn get(&self, switch: SwitchIdx) -> u64 {
        self.masks[switch.index()]
    }

    fn contains(&self, switch: SwitchIdx, offset: usize) -> bool {
        self.get(switch) >> offset & 1 != 0
    }

    fn add(&mut self, switch: SwitchIdx, lids: u64) {
        let mask = &mut self.masks[switch.index()];
        if *mask == 0 && lids != 0 {
            self.used.push(switch);
        }
        *mask |= lids;
    }

    /// The LIDs in the mask of any switch.
    fn any(&self) -> u64 {
        let masks = self.used.iter().map(|&switch| self.get(switch));
        masks.fold(0, |all, mask| all | mask)
    }

    /// Removes LIDs from the masks of all switches.
    fn remove(&mut self, lids: u64) {
        let masks = &mut self.masks;
        self.used.retain(|switch| {
            masks[switch.index()] &= !lids;
            masks[switch.index()] != 0
        });
    }
}

/// The mask of all LIDs of `entries`.
fn any(entries: &[Entries]) -> u64 {
    entries.iter().fold(0, |all, entries| all | entries.lids)
}

/// The masks of the LIDs whose entries have no stages, by the reason.
#[derive(Clone, Copy, Default)]
struct Stuck {
    dark: u64,
    cycle: u64,
}

impl Stuck {
    fn lids(self) -> u64 {
        self.dark | self.cycle
    }
}

/// The rounds of one block after another.
pub(super) struct Rounds<'a> {
    transition: &'a TableTransition<'a>,
    entries: BlockEntries<'a>,
    /// The entries that change.
    changed: Masks,
    /// The entries that change and that no earlier round has written.
    pending: Masks,
    /// The LIDs for which a pending entry of a neighbour sends to the switch.
    receiving: Masks,
    /// The LIDs for which a pending entry of a neighbour sends down to the switch, unless both
    /// switches are dark: these hold all of their entries before a link between them becomes
    /// Active.
    receiving_from_above: Masks,
    /// The LIDs for which `arriving` is known.
    known: Masks,
    /// The LIDs whose packets at the switch arrive under the tables in force.
    arriving: Masks,
    /// The switches on a path, until it is known whether its packets arrive.
    passed: Vec<SwitchIdx>,
    /// Whether packets that arrive must continue to arrive.
    keeps_delivering: bool,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(transition: &'a TableTransition<'a>) -> Rounds<'a> {
        let masks = || Masks::new(transition.switches());
        Rounds {
            transition,
            entries: BlockEntries::new(transition.difference),
            changed: masks(),
            pending: masks(),
            receiving: masks(),
            receiving_from_above: masks(),
            known: masks(),
            arriving: masks(),
            passed: Vec::new(),
            keeps_delivering: true,
        }
    }

    /// The waiting entries of a block; `switches` holds the switches whose block changes.
    ///
    /// If the entries of a LID wait in a cycle, they only wait until they make no illegal turn, and
    /// packets to the LID may be lost.
    ///
    /// # Errors
    /// Fails with the illegal turns of the tables in force if there are any, else if some entries
    /// still have no stage.
    pub(super) fn waiting(
        &mut self,
        block: usize,
        switches: &[SwitchIdx],
    ) -> Result<Waiting, Conflict> {
        self.begin_block(block, switches);
        let turns = self.turns();
        if !turns.is_empty() {
            return Err(Conflict::Turns(turns));
        }
        let mut waiting = Waiting::default();
        let stuck = self.run(ALL_LIDS, true, &mut waiting);
        let stuck = self.run(stuck.lids(), false, &mut waiting);
        match stuck {
            Stuck { dark: 0, cycle: 0 } => Ok(waiting),
            Stuck { dark: 0, .. } => Err(Conflict::Cycle),
            Stuck { .. } => Err(Conflict::Dark),
        }
    }

    fn begin_block(&mut self, block: usize, switches: &[SwitchIdx]) {
        self.entries.begin_block(block, switches.len());
        self.known.clear();
        self.arriving.clear();
        self.changed.clear();
        for &switch in switches {
            self.changed.add(switch, self.entries.changed(switch));
        }
    }

    /// The entries in force that send down to a switch that sends up again, where one of the two
    /// entries changes. If the sender keeps its entries, the receiver's entry stands for the turn.
    /// Turns between two switches that keep their entries are left out.
    fn turns(&mut self) -> Vec<Entries> {
        let (directions, entries) = (self.transition.directions, &self.entries);
        let goes_up = |switch, offset| directions.is_up(switch, entries.before(switch, offset));
        // No round uses these masks yet.
        let (senders, turning) = (&mut self.receiving_from_above, &mut self.receiving);
        senders.clear();
        turning.clear();
        for &switch in &self.changed.used {
            let changed = self.changed.get(switch);
            let up = ones(changed)
                .filter(|&offset| goes_up(switch, offset))
                .fold(0, |up, offset| up | 1 << offset);
            senders.add(switch, changed);
            if up != 0 {
                let above = directions.above(switch);
                above.for_each(|above| senders.add(above, up));
            }
        }
        for &sender in &senders.used {
            for offset in ones(senders.get(sender)) {
                let before = entries.before(sender, offset);
                let Direction::Down(receiver) = directions.get(sender, before) else {
                    continue;
                };
                if !goes_up(receiver, offset) {
                    continue;
                }
                // No stage removes a turn between two switches that keep their entries.
                let keeps = |switch| self.transition.fixed.contains(&switch);
                match (keeps(sender), keeps(receiver)) {
                    (true, true) => {}
                    (true, false) => turning.add(receiver, 1 << offset),
                    (false, _) => turning.add(sender, 1 << offset),
                }
            }
        }
        let of_switch =
            |&switch: &SwitchIdx| self.entries.masked(switch, self.receiving.get(switch));
        self.receiving.used.iter().map(of_switch).collect()
    }

    /// Adds the entries of `lids` that wait to `waiting`, and returns the LIDs whose entries have
    /// no stages.
    fn run(&mut self, lids: u64, keeps_delivering: bool, waiting: &mut Waiting) -> Stuck {
        self.begin(lids, keeps_delivering);
        let mut stuck = Stuck::default();
        let mut dark = Vec::new();
        for stage in 0..=u8::MAX {
            self.find_senders();
            let mut written = self.ready_entries(stage);
            match stage {
                0 => dark = self.add_dark(&mut written),
                1 => stuck.dark = self.unready(&dark, stage),
                _ => {}
            }
            // In the first stage, all entries of a LID may wait for the end of that stage alone. In
            // a later stage, a LID of which no entry is written has entries that wait in a cycle.
            if stage > 0 {
                stuck.cycle |= self.pending.any() & !any(&written);
                let deferred = written.iter().filter(|entries| entries.lids != 0);
                waiting
                    .deferred
                    .extend(deferred.map(|&entries| (entries, stage)));
            }
            for entries in &written {
                self.pending.masks[entries.switch.index()] &= !entries.lids;
            }
            self.pending.remove(stuck.lids());
            if self.pending.used.is_empty() {
                break;
            }
        }
        stuck.cycle |= self.pending.any();
        waiting.dark_last |= any(&dark) & !stuck.lids() != 0;
        waiting.deferred.retain_mut(|(deferred, _)| {
            deferred.lids &= !stuck.lids();
            deferred.lids != 0
        });
        stuck
    }

    fn begin(&mut self, lids: u64, keeps_delivering: bool) {
        self.keeps_delivering = keeps_delivering;
        self.pending.clear();
        for &switch in &self.changed.used {
            self.pending.add(switch, self.changed.get(switch) & lids);
        }
    }

    /// The pending entries of each switch that can be written in a stage.
    fn ready_entries(&mut self, stage: u8) -> Vec<Entries> {
        let switches = self.pending.used.clone();
        let of_switch = |switch| {
            let ready = self.ready(switch, self.pending.get(switch), stage);
            self.entries.masked(switch, ready)
        };
        switches.into_iter().map(of_switch).collect()
    }

    /// The LIDs of `entries` that cannot be written in a stage.
    fn unready(&mut self, entries: &[Entries], stage: u8) -> u64 {
        let unready =
            |&Entries { switch, lids, .. }: &Entries| lids & !self.ready(switch, lids, stage);
        entries.iter().map(unready).fold(0, |all, lids| all | lids)
    }

    /// Adds all pending entries of dark switches to the entries `ready` for the first stage, and
    /// returns the added entries. Links of a dark switch can become Active after the first stage,
    /// when all of the switch's entries are in place.
    fn add_dark(&self, ready: &mut [Entries]) -> Vec<Entries> {
        let dark = ready
            .iter_mut()
            .filter(|entries| self.transition.idle.is_dark(entries.switch));
        let add = |entries: &mut Entries| {
            let pending = self.pending.get(entries.switch);
            let ready = std::mem::replace(&mut entries.lids, pending);
            self.entries.masked(entries.switch, pending & !ready)
        };
        dark.map(add).collect()
    }

    /// Finds the switches to which pending entries send.
    fn find_senders(&mut self) {
        let (directions, idle) = (self.transition.directions, self.transition.idle);
        self.receiving.clear();
        self.receiving_from_above.clear();
        for &switch in &self.pending.used {
            for offset in ones(self.pending.get(switch)) {
                let lid = 1 << offset;
                match directions.get(switch, self.entries.before(switch, offset)) {
                    Direction::Up(next) => self.receiving.add(next, lid),
                    Direction::Down(next) => {
                        self.receiving.add(next, lid);
                        if !idle.is_dark(switch) || !idle.is_dark(next) {
                            self.receiving_from_above.add(next, lid);
                        }
                    }
                    Direction::Nowhere | Direction::End => {}
                }
            }
        }
    }

    /// The LIDs among `lids` for which the planned entry of a switch waits for no pending entry
    /// and, in the first stage, for no idle link.
    fn ready(&mut self, switch: SwitchIdx, lids: u64, stage: u8) -> u64 {
        let is_dark = self.transition.idle.is_dark(switch);
        let mut ready = 0;
        for offset in ones(lids) {
            let after = self.entries.after(switch, offset);
            let waits = self.waits_for_pair(switch, offset, after)
                || !is_dark && self.waits_for_path(switch, offset, after, stage);
            ready |= u64::from(!waits) << offset;
        }
        ready
    }

    /// Whether the planned entry `after` of a switch must not be in force together with a pending
    /// entry: the pair makes an illegal turn, or the pending entry sends packets that arrive to an
    /// entry that is removed.
    fn waits_for_pair(&mut self, switch: SwitchIdx, offset: usize, after: u8) -> bool {
        let (directions, idle) = (self.transition.directions, self.transition.idle);
        match directions.get(switch, after) {
            Direction::Up(_) => self.receiving_from_above.contains(switch, offset),
            Direction::Down(receiver) => {
                self.pending.contains(receiver, offset)
                    && directions.is_up(receiver, self.entries.before(receiver, offset))
                    && !(idle.is_dark(switch) && idle.is_dark(receiver))
            }
            Direction::Nowhere => {
                self.keeps_delivering
                    && self.receiving.contains(switch, offset)
                    && self.arrives(switch, offset)
            }
            Direction::End => false,
        }
    }

    /// Whether the planned entry `after` of a switch would lose packets that arrive by the entry in
    /// force, because a link or an entry on the planned path does not forward them yet.
    fn waits_for_path(&mut self, switch: SwitchIdx, offset: usize, after: u8, stage: u8) -> bool {
        let directions = self.transition.directions;
        if stage == 0 && self.transition.idle.contains(switch, PortNum(after)) {
            return true;
        }
        let mut next = directions.next(switch, after);
        // No path is longer than the number of switches.
        for _ in 0..self.transition.switches() {
            let Some(at) = next.filter(|&at| self.keeps_delivering && !self.arrives(at, offset))
            else {
                return false;
            };
            if stage == 0 || self.pending.contains(at, offset) {
                // If packets do not arrive now, the planned entry can lose none.
                return self.arrives(switch, offset);
            }
            next = directions.next(at, self.entries.after(at, offset));
        }
        false
    }

    /// Whether packets at a switch arrive under the tables in force.
    fn arrives(&mut self, from: SwitchIdx, offset: usize) -> bool {
        let directions = self.transition.directions;
        let mut at = from;
        let arrives = loop {
            if self.known.contains(at, offset) {
                break self.arriving.contains(at, offset);
            }
            let entry = self.entries.before(at, offset);
            self.passed.push(at);
            let is_endless = self.passed.len() > self.transition.switches();
            if is_endless || self.transition.idle.contains(at, PortNum(entry)) {
                break false;
            }
            match directions.next(at, entry) {
                Some(next) => at = next,
                None => break directions.get(at, entry) == Direction::End,
            }
        };
        for switch in self.passed.drain(..) {
            self.known.add(switch, 1 << offset);
            if arrives {
                self.arriving.add(switch, 1 << offset);
            }
        }
        arrives
    }
}
