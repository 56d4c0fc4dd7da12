//! Sets of multicast tables, and their progress.
//!
//! During the push, packets follow a part of the old tree or of the new one, never a mixture with a
//! cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::SwitchInfo;
use rsm_model::mft_image::MftBlock;
use rsm_routing::mcast::BLOCK_MLIDS;

use super::{Cause, FailedSet, Order, Push, Task};
use crate::diff::{MulticastChange, kept};
use crate::sweep::inventory::Inventory;

/// Sets of all multicast tables: every switch removes ports before any switch adds one.
///
/// If a switch does not remove its ports from a block, no other switch adds ports for the multicast
/// LIDs of that block. Other blocks are not affected.
#[derive(Debug, Default)]
pub(super) struct MulticastPush {
    switches: BTreeMap<Guid, MulticastSwitchPush>,
    /// Switches that may have a Set to send, in the order of their turns.
    turn: VecDeque<Guid>,
    /// Number of blocks that must lose ports and whose Sets are not acknowledged.
    unmet: usize,
    /// Blocks from which some switch failed to remove its ports.
    withheld: BTreeSet<u16>,
    stopped: bool,
}

#[derive(Debug)]
struct MulticastSwitchPush {
    change: MulticastChange,
    first_sent: usize,
    blocks_sent: usize,
    unsettled: usize,
    top_sent: bool,
    failed: bool,
    in_turn: bool,
}

impl MulticastPush {
    /// Prepares the Sets. `mute` are the switches that do not answer: no other switch adds ports to
    /// blocks from which a mute switch must remove ports.
    pub(super) fn new(
        mut changes: BTreeMap<Guid, MulticastChange>,
        mute: &BTreeSet<Guid>,
    ) -> MulticastPush {
        let left_out = mute.iter().filter_map(|guid| changes.remove(guid));
        let withheld = left_out.flat_map(|change| change.first).map(|at| at.block);
        let withheld: BTreeSet<u16> = withheld.collect();
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
            withheld,
            stopped: false,
        };
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

    /// Queues every switch, after an event that any switch may have waited for.
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

    /// Queues a switch, after an event that the switch may have waited for.
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

    /// Records that the Set of `task` is sent. Returns `false` for a withheld block, which is left
    /// for another push.
    fn take(&mut self, guid: Guid, task: Task) -> bool {
        let Some(switch) = self.switches.get_mut(&guid) else {
            return false;
        };
        match task {
            Task::Multicast { first: true, .. } => switch.first_sent += 1,
            Task::Multicast { at, .. } => {
                switch.blocks_sent += 1;
                if self.withheld.contains(&at.block) {
                    switch.failed = true;
                    return false;
                }
            }
            _ => switch.top_sent = true,
        }
        switch.unsettled += 1;
        true
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

    /// Whether all blocks sent to a switch were acknowledged.
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
        if first {
            self.unmet = self.unmet.saturating_sub(1);
            if failed {
                self.withheld.insert(at.block);
            }
        }
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
        let loses = self.change.first.get(self.first_sent);
        let gains = self.change.blocks.get(self.blocks_sent);
        let top = self.change.top.filter(|_| !self.top_sent);
        loses
            .map(|at| block(at, true))
            .or_else(|| gains.map(|at| block(at, false)))
            .or_else(|| top.map(|_| Task::MulticastTop(switch)))
    }
}

impl Push {
    /// Whether multicast tables differ from the plan after failures that no later answer of a
    /// switch may show.
    pub fn owes_multicast(&self) -> bool {
        let failures = self.failures.iter();
        failures
            .into_iter()
            .any(|failure| matches!(failure.task, Task::Multicast { .. } | Task::MulticastTop(_)))
    }

    /// The next Set of a multicast table; `None` if none may be sent now.
    pub(super) fn next_multicast(&mut self, inventory: &Inventory) -> Option<Order> {
        while let Some(guid) = self.multicast.turn.pop_front() {
            let task = loop {
                let task = self.multicast.switches.get(&guid);
                let task = task.and_then(|switch| switch.next(guid));
                let task = task.filter(|&task| self.may(inventory, task));
                if task.is_none_or(|task| self.multicast.take(guid, task)) {
                    break task;
                }
            };
            // The next turn of the switch shows whether more of its Sets may be sent.
            self.multicast.end_turn(guid, task.is_some());
            let Some(task) = task else { continue };
            if let Some(order) = self.write_table(inventory, task) {
                return Some(order);
            }
            // A withheld Set gets no answer.
            self.failures.push(FailedSet {
                task,
                cause: Cause::Silence,
            });
            self.multicast_settled(inventory, task, true);
        }
        None
    }

    /// The content of a block of a multicast table: of the Set that removes ports, or of the final
    /// one.
    pub(super) fn wanted_masks(
        &self,
        inventory: &Inventory,
        switch: Guid,
        at: MftBlock,
        first: bool,
    ) -> Option<[u16; BLOCK_MLIDS]> {
        let table = self.plan.multicast_table(switch)?;
        let masks = table.block(usize::from(at.block), usize::from(at.position));
        if !first {
            return Some(masks);
        }
        let record = inventory.node(switch)?.switch.as_ref()?;
        Some(kept(&record.mft, at, &masks))
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
        self.progress.multicast_blocks += 1;
        // The kept masks depend on the held ones, which the answer overwrites; they are therefore
        // computed first.
        let wanted = self.wanted_masks(inventory, switch, at, first);
        if let Some(record) = inventory.switch_mut(switch) {
            record.mft.store(at, masks);
        }
        if wanted.as_ref() == Some(masks) {
            self.multicast_settled(inventory, task, false);
        } else {
            self.failed(inventory, task, Cause::NotHeld);
        }
    }

    /// Handles the failed Set of a block.
    pub(super) fn masks_failed(&mut self, inventory: &mut Inventory, task: Task, cause: Cause) {
        if let Task::Multicast { switch, at, .. } = task
            && cause == Cause::Silence
            && let Some(record) = inventory.switch_mut(switch)
        {
            record.mft.mark_dirty(at);
        }
        self.multicast_settled(inventory, task, true);
    }

    /// Handles the answer to the Set of MulticastFDBTop.
    pub(super) fn top_answered(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        info: &SwitchInfo,
    ) {
        let task = Task::MulticastTop(guid);
        // This Set of SwitchInfo would hide an earlier reset.
        self.unread.insert(PortKey::new(guid, PortNum::ZERO));
        let held = info.multicast_fdb_top();
        // A switch that does not know the field answers 0.
        let is_unknown = held == Lid::NONE;
        inventory.put_switch_info(guid, info);
        if let Some(record) = inventory.switch_mut(guid) {
            record.forgets_multicast_top = is_unknown;
        }
        if is_unknown || self.multicast.top(guid) == Some(held) {
            self.multicast_settled(inventory, task, false);
        } else {
            self.failed(inventory, task, Cause::NotHeld);
        }
    }

    /// Handles a settled Set of a multicast table: queues the Sets that it permits.
    pub(super) fn multicast_settled(&mut self, inventory: &Inventory, task: Task, failed: bool) {
        let (Task::Multicast { switch: guid, .. } | Task::MulticastTop(guid)) = task else {
            return;
        };
        let let_go = self.multicast.settle(guid, task, failed);
        if let_go && !self.phases.is_last() {
            self.phases.unmet -= 1;
            if failed {
                // The masks of the switch could close a cycle with the next unicast tables.
                self.stop();
            } else {
                self.advance(inventory);
            }
        }
    }
}
