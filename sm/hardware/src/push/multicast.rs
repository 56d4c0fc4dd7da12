//! Sets of multicast tables, and their progress.
//!
//! Ports to other switches are removed on all switches before any switch adds ports. During the
//! push, packets of a group therefore never travel in a cycle that parts of the old and the new
//! tree form.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::SwitchInfo;
use rsm_model::mft_image::MftBlock;
use rsm_routing::mcast::BLOCK_MLIDS;

use super::{Cause, FailedSet, Order, Push, Task};
use crate::diff::{LidsOfBlock, MulticastChange, MulticastLoss, kept};
use crate::sweep::inventory::Inventory;

/// Sets of all multicast tables: every switch removes ports before any switch adds one.
///
/// If a switch does not remove its ports from the mask of a multicast LID, no other switch adds
/// ports to its mask of that LID. Other LIDs are affected only if the routes follow no order of the
/// switches, and the plan did not know that the switch is mute.
#[derive(Debug, Default)]
pub(super) struct MulticastPush {
    switches: BTreeMap<Guid, MulticastSwitchPush>,
    /// Switches that may have a Set to send, in the order of their turns.
    turn: VecDeque<Guid>,
    /// Number of blocks that must lose ports and whose Sets are not acknowledged.
    unmet: usize,
    /// Multicast LIDs, by block, from whose masks some switch does not remove its ports.
    withheld: BTreeMap<u16, LidsOfBlock>,
    stopped: bool,
}

/// The Sets of one switch's multicast table, and their progress.
#[derive(Debug)]
struct MulticastSwitchPush {
    change: MulticastChange,
    /// Number of blocks sent that remove ports.
    first_sent: usize,
    /// Number of final blocks sent, or left out because all that they add is withheld.
    blocks_sent: usize,
    /// Number of Sets sent and neither answered nor given up.
    unsettled: usize,
    /// Whether MulticastFDBTop was sent.
    top_sent: bool,
    /// Whether a Set has failed.
    failed: bool,
    /// Whether the switch is queued for its turn.
    in_turn: bool,
}

impl MulticastPush {
    /// Prepares the Sets. `mute` are the switches that do not answer; they get no Sets, and no
    /// other switch adds ports to masks from which a mute switch should remove ports.
    pub(super) fn new(
        mut changes: BTreeMap<Guid, MulticastChange>,
        mute: &BTreeSet<Guid>,
    ) -> MulticastPush {
        let left_out = mute.iter().filter_map(|guid| changes.remove(guid));
        let losses: Vec<MulticastLoss> = left_out.flat_map(|change| change.first).collect();
        let unmet = changes.values().map(|change| change.first.len()).sum();
        let switch = |change| MulticastSwitchPush {
            change,
            first_sent: 0,
            blocks_sent: 0,
            unsettled: 0,
            top_sent: false,
            failed: false,
            in_turn: false,
        };
        let mut push = MulticastPush {
            switches: changes
                .into_iter()
                .map(|(guid, change)| (guid, switch(change)))
                .collect(),
            turn: VecDeque::new(),
            unmet,
            withheld: BTreeMap::new(),
            stopped: false,
        };
        losses.into_iter().for_each(|loss| push.withhold(loss));
        push.give_turns();
        push
    }

    /// Number of blocks that must still lose ports.
    pub(super) fn unmet(&self) -> usize {
        self.unmet
    }

    /// Whether no switch is queued for its turn.
    pub(super) fn is_idle(&self) -> bool {
        self.turn.is_empty()
    }

    /// Stops sending Sets.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.turn.clear();
    }

    /// Queues every switch with a Set to send, after an event that any switch may have waited for.
    pub(super) fn give_turns(&mut self) {
        if self.stopped {
            return;
        }
        for (&guid, switch) in &mut self.switches {
            if !switch.in_turn && switch.next(guid).is_some() {
                switch.in_turn = true;
                self.turn.push_back(guid);
            }
        }
    }

    /// Queues a switch if it has a Set to send, after an event that it may have waited for.
    pub(super) fn give_turn(&mut self, guid: Guid) {
        if !self.stopped
            && let Some(switch) = self.switches.get_mut(&guid)
            && !switch.in_turn
            && switch.next(guid).is_some()
        {
            switch.in_turn = true;
            self.turn.push_back(guid);
        }
    }

    /// Leaves the gains of some multicast LIDs for another push.
    fn withhold(&mut self, loss: MulticastLoss) {
        *self.withheld.entry(loss.at.block).or_default() |= loss.lids;
    }

    /// Whether no switch may add ports to a mask, given by its place in a block.
    fn withholds(&self, at: MftBlock, index: usize) -> bool {
        let lids = self.withheld.get(&at.block);
        lids.is_some_and(|lids| lids & (1 << index) != 0)
    }

    /// Records that the Set of `task` is sent, or left out if `is_sent` is false.
    fn take(&mut self, guid: Guid, task: Task, is_sent: bool) {
        let Some(switch) = self.switches.get_mut(&guid) else {
            return;
        };
        match task {
            Task::Multicast { first: true, .. } => switch.first_sent += 1,
            Task::Multicast { .. } => switch.blocks_sent += 1,
            _ => switch.top_sent = true,
        }
        switch.unsettled += usize::from(is_sent);
    }

    /// Ends the turn of a switch; if `again` is true, the switch gets another turn.
    fn end_turn(&mut self, guid: Guid, again: bool) {
        if let Some(switch) = self.switches.get_mut(&guid) {
            switch.in_turn = again;
        }
        if again {
            self.turn.push_back(guid);
        }
    }

    /// Whether all Sets to a switch so far were acknowledged.
    pub(super) fn holds_blocks(&self, guid: Guid) -> bool {
        let switch = self.switches.get(&guid);
        switch.is_none_or(|switch| !switch.failed && switch.unsettled == 0)
    }

    /// Settles the Set of `task`, which was answered or given up. Returns whether the Set removes
    /// ports.
    pub(super) fn settle(&mut self, guid: Guid, task: Task, failed: bool) -> bool {
        let Some(switch) = self.switches.get_mut(&guid) else {
            return false;
        };
        switch.unsettled = switch.unsettled.saturating_sub(1);
        switch.failed |= failed;
        let Task::Multicast { at, first, .. } = task else {
            return false;
        };
        let mut losses = switch.change.first.iter();
        let lost = losses
            .find(|loss| failed && first && loss.at == at)
            .copied();
        self.unmet = self.unmet.saturating_sub(usize::from(first));
        lost.into_iter().for_each(|loss| self.withhold(loss));
        if first && self.unmet == 0 {
            self.give_turns();
        } else {
            self.give_turn(guid);
        }
        first
    }

    /// The planned MulticastFDBTop of a switch; `None` if the push does not write it.
    pub(super) fn top(&self, guid: Guid) -> Option<Lid> {
        self.switches.get(&guid)?.change.top
    }
}

impl MulticastSwitchPush {
    /// The next Set of a switch; `None` if none is left.
    fn next(&self, switch: Guid) -> Option<Task> {
        let block = |&at: &MftBlock, first| Task::Multicast { switch, at, first };
        let loses = self.change.first.get(self.first_sent).map(|loss| &loss.at);
        let gains = self.change.blocks.get(self.blocks_sent);
        let top = self.change.top.filter(|_| !self.top_sent);
        loses
            .map(|at| block(at, true))
            .or_else(|| gains.map(|at| block(at, false)))
            .or_else(|| top.map(|_| Task::MulticastTop(switch)))
    }
}

impl Push {
    /// The next Set of a multicast table; `None` if none may be sent now.
    pub(super) fn next_multicast(&mut self, inventory: &Inventory) -> Option<Order> {
        while let Some(guid) = self.multicast.turn.pop_front() {
            let task = loop {
                let task = self.multicast.switches.get(&guid);
                let task = task.and_then(|switch| switch.next(guid));
                let Some(task) = task.filter(|&task| self.may(inventory, task)) else {
                    break None;
                };
                let is_sent = !self.changes_no_mask(inventory, task);
                self.multicast.take(guid, task, is_sent);
                if is_sent {
                    break Some(task);
                }
            };
            // The next turn of the switch shows whether more of its Sets may be sent.
            self.multicast.end_turn(guid, task.is_some());
            let Some(task) = task else { continue };
            if let Some(order) = self.write_table(inventory, task) {
                return Some(order);
            }
            // The Set cannot be built, for example because its switch is gone.
            self.report.failures.push(FailedSet {
                task,
                cause: Cause::Silence,
            });
            self.multicast_settled(inventory, task, true);
        }
        None
    }

    /// Whether the switch already holds what a final block may add now, because the rest is
    /// withheld.
    fn changes_no_mask(&self, inventory: &Inventory, task: Task) -> bool {
        let Task::Multicast { switch, at, first } = task else {
            return false;
        };
        let node = inventory.hardware.node(switch);
        let record = node.and_then(|node| node.switch.as_ref());
        let wanted = self.wanted_masks(inventory, switch, at, first);
        record
            .zip(wanted)
            .is_some_and(|(record, wanted)| record.mft.holds(at, &wanted))
    }

    /// The content to write to a block of a multicast table: the planned ports, but only the kept
    /// ports if `first`, and of withheld LIDs. `None` if the switch is not known or not planned.
    pub(super) fn wanted_masks(
        &self,
        inventory: &Inventory,
        switch: Guid,
        at: MftBlock,
        first: bool,
    ) -> Option<[u16; BLOCK_MLIDS]> {
        let table = self.plan.multicast_table(switch)?;
        let planned = table.block(usize::from(at.block), usize::from(at.position));
        let record = inventory.hardware.node(switch)?.switch.as_ref()?;
        let kept = kept(&record.mft, at, &planned);
        let waits = |index| first || self.multicast.withholds(at, index);
        Some(std::array::from_fn(|index| match waits(index) {
            true => kept[index],
            false => planned[index],
        }))
    }

    /// Handles the `masks` in the answer to the Set of a block.
    pub(super) fn masks_answered(
        &mut self,
        inventory: &mut Inventory,
        task: Task,
        masks: &[u16; BLOCK_MLIDS],
    ) {
        let Task::Multicast { switch, at, first } = task else {
            return;
        };
        self.report.progress.multicast_blocks += 1;
        // Compute the kept masks before the answer overwrites the held masks, on which they depend.
        let wanted = self.wanted_masks(inventory, switch, at, first);
        if let Some(record) = inventory.hardware.switch_mut(switch) {
            record.mft.store(at, masks);
        }
        if wanted.as_ref() == Some(masks) {
            self.multicast_settled(inventory, task, false);
        } else {
            self.failed(inventory, task, Cause::NotHeld);
        }
    }

    /// Handles the answer to the Set of MulticastFDBTop.
    pub(super) fn top_answered(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        info: &SwitchInfo,
    ) {
        let task = Task::MulticastTop(guid);
        // This Set of SwitchInfo hides an earlier reset of the switch.
        self.report.unread.insert(PortKey::new(guid, PortNum::ZERO));
        let held = info.multicast_fdb_top();
        // A switch that does not know the field answers 0.
        let is_unknown = held == Lid::NONE;
        inventory.hardware.put_switch_info(guid, info);
        if let Some(record) = inventory.hardware.switch_mut(guid) {
            record.forgets_multicast_top = is_unknown;
        }
        if is_unknown || self.multicast.top(guid) == Some(held) {
            self.multicast_settled(inventory, task, false);
        } else {
            self.failed(inventory, task, Cause::NotHeld);
        }
    }

    /// Handles a settled Set of a multicast table: queues the Sets that waited for it.
    pub(super) fn multicast_settled(&mut self, inventory: &Inventory, task: Task, failed: bool) {
        let (Task::Multicast { switch: guid, .. } | Task::MulticastTop(guid)) = task else {
            return;
        };
        let removes_ports = self.multicast.settle(guid, task, failed);
        if removes_ports && !self.phases.is_last() {
            self.phases.unmet -= 1;
            if failed {
                // The multicast table that the switch still holds could close a credit loop with
                // the next unicast tables.
                self.stop();
            } else if self.phases.unmet == 0 {
                self.advance(inventory);
            }
        } else if removes_ports && failed && !self.plan.follows_ranking {
            // Without an order of the switches, the mask that the switch keeps could close a
            // credit loop with the masks of other multicast LIDs.
            self.multicast.stop();
        }
    }
}
