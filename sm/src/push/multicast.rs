//! What is to be written to multicast tables, and how far that is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::SwitchInfo;
use rsm_routing::mcast::BLOCK_MLIDS;

use super::{Cause, Failure, Order, Push, Task, tables};
use crate::diff::{MulticastChange, kept};
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::mft_image::MftBlock;

/// The writing of all multicast tables: every switch lets go of what it is to lose before any gains
/// a port.
///
/// A switch that cannot be made to let go keeps all others from gaining ports for the multicast
/// LIDs of that block, and only for those.
#[derive(Debug, Default)]
pub(super) struct MulticastPush {
    switches: BTreeMap<Guid, SwitchPush>,
    /// Switches that may have something to send, in turn.
    turn: VecDeque<Guid>,
    /// Blocks that are to let go and are not acknowledged.
    unmet: usize,
    /// Blocks in which some switch did not let go.
    withheld: BTreeSet<u16>,
    stopped: bool,
}

#[derive(Debug)]
struct SwitchPush {
    change: MulticastChange,
    first_sent: usize,
    blocks_sent: usize,
    unsettled: usize,
    top_sent: bool,
    failed: bool,
    in_turn: bool,
}

/// What other parts of a push let be sent now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// Ports may be gained: unicast tables are not on the way to where trees would meet them in
    /// cycles.
    pub(super) gain: bool,
    /// SwitchInfo may be written: no other Set of it is to come.
    pub(super) top: bool,
}

impl MulticastPush {
    /// `mute` do not answer: what they do not let go of nobody else gains.
    pub(super) fn new(
        mut changes: BTreeMap<Guid, MulticastChange>,
        mute: &BTreeSet<Guid>,
    ) -> MulticastPush {
        let left_out = mute.iter().filter_map(|guid| changes.remove(guid));
        let withheld = left_out.flat_map(|change| change.first).map(|at| at.block);
        let withheld: BTreeSet<u16> = withheld.collect();
        let unmet = changes.values().map(|change| change.first.len()).sum();
        let switch = |change| SwitchPush {
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

    /// How many blocks have still to let go of ports.
    pub(super) fn unmet(&self) -> usize {
        self.unmet
    }

    /// Whether no switch waits for its turn.
    pub(super) fn is_idle(&self) -> bool {
        self.turn.is_empty()
    }

    /// Sends nothing more.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.turn.clear();
    }

    /// Something that any switch may have waited for has happened.
    pub(super) fn give_turns(&mut self) {
        if self.stopped {
            return;
        }
        for (&guid, switch) in &mut self.switches {
            if !switch.in_turn && switch.has_more() {
                switch.in_turn = true;
                self.turn.push_back(guid);
            }
        }
    }

    /// Something that this switch may have waited for has happened.
    pub(super) fn give_turn(&mut self, guid: Guid) {
        if !self.stopped
            && let Some(switch) = self.switches.get_mut(&guid)
            && !switch.in_turn
            && switch.has_more()
        {
            switch.in_turn = true;
            self.turn.push_back(guid);
        }
    }

    /// The next Set.
    pub(super) fn next(&mut self, allowed: impl Fn(Guid) -> Allowed) -> Option<Task> {
        while let Some(guid) = self.turn.pop_front() {
            let mut allowed = allowed(guid);
            allowed.gain &= self.unmet == 0;
            let Some(switch) = self.switches.get_mut(&guid) else {
                continue;
            };
            match switch.next(guid, allowed, &self.withheld) {
                Some(task) => {
                    // Whether there is more is found out when its turn comes.
                    self.turn.push_back(guid);
                    return Some(task);
                }
                None => switch.in_turn = false,
            }
        }
        None
    }

    /// The Set of `task` was answered, or given up. Returns whether that was one of those that let
    /// go.
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

    /// The top to be written to a switch.
    pub(super) fn top(&self, guid: Guid) -> Option<Lid> {
        self.switches.get(&guid)?.change.top
    }
}

impl SwitchPush {
    fn has_more(&self) -> bool {
        self.first_sent < self.change.first.len()
            || self.blocks_sent < self.change.blocks.len()
            || (self.change.top.is_some() && !self.top_sent)
    }

    fn next(&mut self, guid: Guid, allowed: Allowed, withheld: &BTreeSet<u16>) -> Option<Task> {
        let task = if let Some(&at) = self.change.first.get(self.first_sent) {
            self.first_sent += 1;
            Task::Multicast {
                switch: guid,
                at,
                first: true,
            }
        } else if !allowed.gain {
            return None;
        } else if let Some(at) = self.next_block(withheld) {
            Task::Multicast {
                switch: guid,
                at,
                first: false,
            }
        } else if self.is_top_due() && allowed.top {
            self.top_sent = true;
            Task::MulticastTop(guid)
        } else {
            return None;
        };
        self.unsettled += 1;
        Some(task)
    }

    /// The next block that is to gain ports; those that are withheld are left for another push.
    fn next_block(&mut self, withheld: &BTreeSet<u16>) -> Option<MftBlock> {
        while let Some(&at) = self.change.blocks.get(self.blocks_sent) {
            self.blocks_sent += 1;
            if !withheld.contains(&at.block) {
                return Some(at);
            }
            self.failed = true;
        }
        None
    }

    /// The top is raised when everything below it is as it should be.
    fn is_top_due(&self) -> bool {
        self.change.top.is_some() && !self.top_sent && !self.failed && self.unsettled == 0
    }
}

impl Push {
    /// Whether multicast tables are not as planned, although no answer of the switches may ever say
    /// so.
    pub fn owes_multicast(&self) -> bool {
        let failures = self.failures.iter();
        failures
            .into_iter()
            .any(|failure| matches!(failure.task, Task::Multicast { .. } | Task::MulticastTop(_)))
    }

    /// The next Set of a multicast table, if one can go now.
    pub(super) fn next_multicast(&mut self, inventory: &Inventory) -> Option<Order> {
        loop {
            let (gain, switches) = (self.phases.is_last(), &self.switches);
            let task = self.multicast.next(|guid| Allowed {
                gain,
                top: switches
                    .get(&guid)
                    .is_none_or(tables::SwitchPush::is_info_held),
            })?;
            if let Some(order) = self.write_table(inventory, task) {
                return Some(order);
            }
            // Nobody will answer for it.
            self.failures.push(Failure {
                task,
                cause: Cause::Silence,
            });
            self.multicast_settled(inventory, task, true);
        }
    }

    /// What a block of a multicast table is to hold, on the way or in the end.
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

    /// A switch answered the Set of a block with `masks`.
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
        // What is kept depends on what was held: look before that is overwritten.
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

    /// The Set of a block came to nothing.
    pub(super) fn masks_failed(&mut self, inventory: &mut Inventory, task: Task, cause: Cause) {
        if let Task::Multicast { switch, at, .. } = task
            && cause == Cause::Silence
            && let Some(record) = inventory.switch_mut(switch)
        {
            record.mft.mark_dirty(at);
        }
        self.multicast_settled(inventory, task, true);
    }

    /// A switch answered the Set of MulticastFDBTop.
    pub(super) fn top_answered(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        info: &SwitchInfo,
    ) {
        let task = Task::MulticastTop(guid);
        // As with any Set of SwitchInfo, a reset before it would not show.
        self.unread.insert(PortKey::new(guid, PortNum::ZERO));
        let held = info.multicast_fdb_top();
        // What a switch that does not know the field answers.
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

    /// A Set to a multicast table was answered or given up: see what that makes possible.
    pub(super) fn multicast_settled(&mut self, inventory: &Inventory, task: Task, failed: bool) {
        let (Task::Multicast { switch: guid, .. } | Task::MulticastTop(guid)) = task else {
            return;
        };
        let let_go = self.multicast.settle(guid, task, failed);
        if let_go && !self.phases.is_last() {
            self.phases.unmet -= 1;
            if failed {
                // It could close a cycle with the unicast tables that would follow.
                self.stop();
            } else {
                self.advance(inventory);
            }
        }
    }
}
