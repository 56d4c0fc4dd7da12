//! Sends the Sets of adaptive routing: groups go out of force before forwarding tables change, and
//! come into force once all switches hold their forwarding tables.
//!
//! Each switch takes the steps of [`AdaptiveStep`] in order; the Sets of one step are sent
//! together. A switch that fails a step takes no further step, and forwards by its forwarding
//! table.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{ArGroupTable, ArInfo, ArLinearForwardingTable, Attribute};
use rsm_mad::wire::header::AttrId;
use rsm_model::adaptive_image::entries_of_block;

use super::{Cause, Order, Phase, Push, Task};
use crate::diff::AdaptiveChange;
use crate::diff::adaptive::planned_groups;
use crate::sweep::adaptive;
use crate::sweep::inventory::Inventory;

/// A step of adaptive routing on one switch. The variants are in the order of sending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AdaptiveStep {
    /// ARInfo, with groups out of force.
    Prepare,
    /// A block of groups; groups that become empty keep their ports.
    Groups(u16),
    /// A block of entries.
    Entries(u16),
    /// A block with groups that become empty.
    Emptied(u16),
    /// ARInfo, with groups in force.
    Enable,
}

impl AdaptiveStep {
    /// The attribute that the Set writes.
    pub fn attribute(self) -> AttrId {
        match self {
            AdaptiveStep::Prepare | AdaptiveStep::Enable => ArInfo::ID,
            AdaptiveStep::Groups(_) | AdaptiveStep::Emptied(_) => ArGroupTable::ID,
            AdaptiveStep::Entries(_) => ArLinearForwardingTable::ID,
        }
    }

    /// The AttributeModifier of the Set.
    fn modifier(self) -> u32 {
        match self {
            AdaptiveStep::Prepare | AdaptiveStep::Enable => ArInfo::MODIFIER,
            AdaptiveStep::Groups(block) | AdaptiveStep::Emptied(block) => {
                ArGroupTable::modifier(block)
            }
            AdaptiveStep::Entries(block) => ArLinearForwardingTable::modifier(block),
        }
    }

    /// Position of the step in the order. Sets of one position are sent together.
    fn place(self) -> usize {
        match self {
            AdaptiveStep::Prepare => 0,
            AdaptiveStep::Groups(_) => 1,
            AdaptiveStep::Entries(_) => 2,
            AdaptiveStep::Emptied(_) => 3,
            AdaptiveStep::Enable => 4,
        }
    }
}

/// Number of positions of [`AdaptiveStep::place`].
const PLACES: usize = 5;

/// Maximum number of Sets of one switch under way, so that a silent switch delays a push only
/// briefly.
const WINDOW: usize = 4;

/// The Sets of one switch, and their progress.
#[derive(Debug)]
struct Chain {
    change: AdaptiveChange,
    /// Position ([`AdaptiveStep::place`]) of the Sets that are under way or sent next.
    place: usize,
    /// Number of Sets of this position that were queued.
    queued: usize,
    /// Number of queued Sets that are not settled.
    open: usize,
    /// Whether a Set has failed; the switch then gets no further Sets.
    failed: bool,
}

impl Chain {
    /// The Sets of `change`, none of them sent.
    fn new(change: AdaptiveChange) -> Chain {
        let mut chain = Chain {
            change,
            place: 0,
            queued: 0,
            open: 0,
            failed: false,
        };
        chain.skip();
        chain
    }

    /// The Set at `index` among the Sets of the present position; `None` beyond the last one.
    fn step(&self, index: usize) -> Option<AdaptiveStep> {
        let change = &self.change;
        let block =
            |blocks: &[u16], step: fn(u16) -> AdaptiveStep| blocks.get(index).copied().map(step);
        let is_first = index == 0;
        match self.place {
            0 => change
                .prepare
                .filter(|_| is_first)
                .map(|_| AdaptiveStep::Prepare),
            1 => block(&change.groups, AdaptiveStep::Groups),
            2 => block(&change.entries, AdaptiveStep::Entries),
            3 => block(&change.emptied, AdaptiveStep::Emptied),
            _ => change
                .enable
                .filter(|_| is_first)
                .map(|_| AdaptiveStep::Enable),
        }
    }

    /// Moves to the next position with Sets, if all Sets of the present one are settled.
    fn skip(&mut self) {
        while self.place < PLACES && self.open == 0 && self.step(self.queued).is_none() {
            self.place += 1;
            self.queued = 0;
        }
    }
}

/// The adaptive routing Sets of all switches.
#[derive(Default, Debug)]
pub(super) struct AdaptivePush {
    /// The Sets of each switch.
    chains: BTreeMap<Guid, Chain>,
    /// Sets whose conditions are met.
    queue: VecDeque<Task>,
    /// Number of switches with groups that must still go out of force.
    leaving: usize,
    /// Whether a Set that takes groups out of force has failed, so that the switch may still
    /// forward by groups of an earlier plan.
    keeps_old: bool,
    stopped: bool,
}

impl AdaptivePush {
    pub(super) fn new(changes: impl Iterator<Item = (Guid, AdaptiveChange)>) -> AdaptivePush {
        let changes = changes.filter(|(_, change)| !change.is_empty());
        let chain = |(guid, change): (Guid, AdaptiveChange)| (guid, Chain::new(change));
        let chains: BTreeMap<Guid, Chain> = changes.map(chain).collect();
        AdaptivePush {
            leaving: chains.values().filter(|chain| chain.change.leaves).count(),
            chains,
            ..AdaptivePush::default()
        }
    }

    /// Number of switches with groups that must still go out of force.
    pub(super) fn leaving(&self) -> usize {
        self.leaving
    }

    /// Whether all groups that must go out of force are out of force.
    pub(super) fn has_left(&self) -> bool {
        self.leaving == 0 && !self.keeps_old
    }

    /// Whether all Sets of a switch that precede `step` have succeeded, and its later Sets are not
    /// sent yet.
    pub(super) fn has_reached(&self, guid: Guid, step: AdaptiveStep) -> bool {
        let chain = self.chains.get(&guid);
        chain.is_some_and(|chain| !chain.failed && chain.place == step.place())
    }

    /// Whether no Set is queued.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Stops sending Sets.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.queue.clear();
    }
}

impl Push {
    /// Queues the Sets that may be sent now, of all switches.
    pub(super) fn release_adaptive(&mut self, inventory: &Inventory) {
        let switches: Vec<Guid> = self.adaptive.chains.keys().copied().collect();
        for guid in switches {
            self.release_adaptive_of(inventory, guid);
        }
    }

    /// Queues the Sets of one switch that may be sent now.
    fn release_adaptive_of(&mut self, inventory: &Inventory, guid: Guid) {
        if self.adaptive.stopped {
            return;
        }
        loop {
            let chain = self.adaptive.chains.get(&guid);
            let chain = chain.filter(|chain| !chain.failed && chain.open < WINDOW);
            let task = chain.and_then(|chain| chain.step(chain.queued));
            let task = task.map(|step| Task::Adaptive(guid, step));
            let Some(task) = task.filter(|&task| self.may(inventory, task)) else {
                return;
            };
            if let Some(chain) = self.adaptive.chains.get_mut(&guid) {
                chain.queued += 1;
                chain.open += 1;
            }
            self.adaptive.queue.push_back(task);
        }
    }

    /// The next queued Set; `None` if none is queued.
    pub(super) fn next_adaptive(&mut self, inventory: &Inventory) -> Option<Order> {
        while let Some(task) = self.adaptive.queue.pop_front() {
            match self.write_adaptive(inventory, task) {
                Some(order) => return Some(order),
                None => self.report.failures.push(super::FailedSet {
                    task,
                    cause: Cause::Silence,
                }),
            }
        }
        None
    }

    /// Builds an adaptive routing Set; `None` for another Set, or if its switch or table is gone.
    fn write_adaptive(&self, inventory: &Inventory, task: Task) -> Option<Order> {
        let Task::Adaptive(guid, step) = task else {
            return None;
        };
        let node = inventory.hardware.node(guid)?;
        Some(Order {
            task,
            attribute: step.attribute(),
            modifier: step.modifier(),
            data: self.wanted_adaptive(inventory, guid, step)?,
            target: guid,
            m_keys: inventory.m_keys_to(PortKey::new(guid, PortNum::ZERO)),
            lid: None,
            path: node.path,
            alternate: node.alternate,
        })
    }

    /// The content of an adaptive routing Set; `None` if the push does not write it.
    fn wanted_adaptive(
        &self,
        inventory: &Inventory,
        guid: Guid,
        step: AdaptiveStep,
    ) -> Option<[u8; 64]> {
        let change = &self.adaptive.chains.get(&guid)?.change;
        let planned = || {
            let adaptive = self.plan.adaptive.as_deref()?;
            let switch = inventory.hardware.node(guid)?.switch.as_ref()?;
            Some((adaptive.table(&self.plan, guid)?, switch))
        };
        Some(match step {
            AdaptiveStep::Prepare => *change.prepare?.as_data(),
            AdaptiveStep::Enable => *change.enable?.as_data(),
            AdaptiveStep::Groups(block) => {
                let (table, switch) = planned()?;
                *planned_groups(table, switch, block, true).as_data()
            }
            AdaptiveStep::Emptied(block) => {
                let (table, switch) = planned()?;
                *planned_groups(table, switch, block, false).as_data()
            }
            AdaptiveStep::Entries(block) => {
                let (table, _) = planned()?;
                *entries_of_block(table, self.plan.table(guid)?, block).as_data()
            }
        })
    }

    /// Handles the answer to an adaptive routing Set.
    pub(super) fn adaptive_answered(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        step: AdaptiveStep,
        data: &[u8; 64],
    ) {
        let wanted = self.wanted_adaptive(inventory, guid, step);
        let in_force = self.plan.adaptive.as_deref();
        let in_force = in_force.and_then(|adaptive| adaptive.table(&self.plan, guid));
        let in_force = in_force.filter(|_| step == AdaptiveStep::Enable);
        let in_force = in_force.cloned().map(Arc::new);
        let mut is_held = wanted.as_ref() == Some(data);
        match step {
            AdaptiveStep::Prepare | AdaptiveStep::Enable => {
                let info = ArInfo::from_data(data);
                inventory.hardware.put_ar_info(guid, Some(*info));
                if let Some(switch) = inventory.hardware.switch_mut(guid) {
                    switch.adaptive.info_unverified = false;
                    let is_on = info.uses_groups();
                    is_held &= is_on == (step == AdaptiveStep::Enable);
                    switch.keeps_adaptive_routing = is_on && step == AdaptiveStep::Prepare;
                    switch
                        .adaptive
                        .put_in_force(in_force.filter(|_| is_held && is_on));
                    if is_on {
                        switch.adaptive.mark_own();
                    }
                }
            }
            AdaptiveStep::Groups(block) | AdaptiveStep::Emptied(block) => {
                if let Some(switch) = inventory.hardware.switch_mut(guid) {
                    let table = ArGroupTable::from_data(data);
                    switch.adaptive.store_groups(block, Some(table));
                }
            }
            AdaptiveStep::Entries(block) => {
                if let Some(switch) = inventory.hardware.switch_mut(guid) {
                    let table = ArLinearForwardingTable::from_data(data);
                    switch.adaptive.store_entries(block, Some(table));
                }
            }
        }
        if !is_held {
            return self.failed(inventory, Task::Adaptive(guid, step), Cause::NotHeld);
        }
        match step {
            AdaptiveStep::Enable => adaptive::pass(inventory, guid),
            AdaptiveStep::Prepare => {}
            _ => adaptive::heard(inventory, guid),
        }
        self.adaptive_settled(inventory, guid, step, None);
    }

    /// Handles a failed Set: the switch gets no further Sets. After silence, the content that the
    /// Set would have replaced is unknown.
    pub(super) fn adaptive_failed(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        step: AdaptiveStep,
        cause: Cause,
    ) {
        if cause == Cause::Silence
            && let Some(switch) = inventory.hardware.switch_mut(guid)
        {
            match step {
                AdaptiveStep::Prepare => switch.adaptive.info_unverified = true,
                AdaptiveStep::Enable => {
                    // The switch may have put the groups in force.
                    switch.adaptive.info_unverified = true;
                    switch.adaptive.mark_own();
                }
                AdaptiveStep::Groups(block) | AdaptiveStep::Emptied(block) => {
                    switch.adaptive.store_groups(block, None);
                }
                AdaptiveStep::Entries(block) => switch.adaptive.store_entries(block, None),
            }
        }
        if step == AdaptiveStep::Enable && cause == Cause::Silence {
            let info = self.adaptive.chains.get(&guid);
            let info = info.and_then(|chain| chain.change.enable);
            inventory.hardware.put_ar_info(guid, info);
        }
        if step == AdaptiveStep::Prepare
            && matches!(cause, Cause::Refused(_))
            && let Some(switch) = inventory.hardware.switch_mut(guid)
        {
            let held = switch.ar_info();
            switch.keeps_adaptive_routing = held.is_some_and(|info| info.uses_groups());
        }
        self.adaptive_settled(inventory, guid, step, Some(cause));
    }

    /// Handles a settled Set, with the cause if it failed: queues the Sets that waited for it.
    fn adaptive_settled(
        &mut self,
        inventory: &Inventory,
        guid: Guid,
        step: AdaptiveStep,
        failure: Option<Cause>,
    ) {
        let Some(chain) = self.adaptive.chains.get_mut(&guid) else {
            return;
        };
        chain.open = chain.open.saturating_sub(1);
        chain.failed |= failure.is_some();
        if !chain.failed {
            chain.skip();
        }
        let left = step == AdaptiveStep::Prepare && chain.change.leaves;
        if left {
            self.adaptive.leaving = self.adaptive.leaving.saturating_sub(1);
            self.adaptive.keeps_old |= failure.is_some();
        }
        if left && self.phases.current() == Phase::Adaptive {
            self.phases.unmet = self.phases.unmet.saturating_sub(1);
            match failure {
                // The switch may be gone: end the push. A sweep follows, and a plan for the
                // switches that remain.
                Some(Cause::Silence | Cause::NotSent) => self.stop(),
                _ if self.phases.unmet == 0 => self.advance(inventory),
                _ => {}
            }
        }
        if self.stopped {
            return;
        }
        if left && self.adaptive.has_left() {
            self.release_adaptive(inventory);
        } else {
            self.release_adaptive_of(inventory, guid);
        }
    }
}
