//! Queues Sets that may be sent once another Set is settled or another phase begins.

use rsm_ids::{Guid, PortKey, PortNum};

use super::phases::{Phase, Phases};
use super::tables::SwitchPush;
use super::{Push, Task};
use crate::sweep::inventory::Inventory;

impl Push {
    /// Determines the phases of the push.
    pub(super) fn start_phases(&mut self) {
        let (interim, cuts) = (
            self.plan.transition.interim.len(),
            self.plan.transition.cuts,
        );
        // Multicast tables lose ports in an early phase, because the old masks and the last unicast
        // tables must not be in force together. This phase is needed even if all switches already
        // hold the interim tables.
        let removes_masks = interim > 0 && self.multicast.unmet() > 0;
        let links = interim > cuts && !self.awaited.is_empty();
        let sl2vl = self.switches.values().any(|switch| switch.sl2vl() > 0);
        if removes_masks || links || sl2vl || self.switches.values().any(SwitchPush::has_interim) {
            self.phases = Phases::new(interim, cuts, sl2vl, links);
        }
        if self.adaptive.leaving() > 0 {
            self.phases = std::mem::replace(&mut self.phases, Phases::last()).after_groups();
        }
        self.phases.unmet = self.counted(self.phases.current());
    }

    /// Number of Sets or links that must be settled in `phase`, counted at its beginning.
    fn counted(&self, phase: Phase) -> usize {
        let mute = &self.plan.transition.mute;
        let switches = self.switches.iter();
        let tables = switches
            .filter(|&(guid, _)| !mute.contains(guid))
            .map(|(_, switch)| switch.counted(phase));
        let beside = match phase {
            Phase::Adaptive => self.adaptive.leaving(),
            Phase::Interim(0) => self.multicast.unmet(),
            Phase::Links => self.awaited.len(),
            Phase::Interim(_) | Phase::SlToVl | Phase::Last => 0,
        };
        tables.sum::<usize>() + beside
    }

    /// If the current phase is settled, moves to the next phase with Sets or links to settle, or
    /// else to the last phase. Queues the Sets that waited for the new phase.
    pub(super) fn advance(&mut self, inventory: &Inventory) {
        if self.stopped {
            return;
        }
        let was_last = self.phases.is_last();
        while let Some(phase) = self.phases.next() {
            self.phases.unmet = self.counted(phase);
            let ends: Vec<PortKey> = self.awaited.iter().flat_map(|(&a, &b)| [a, b]).collect();
            for end in ends {
                self.consider(inventory, end);
            }
        }
        let switches = self.switches.iter();
        let due: Vec<Guid> = switches
            .filter(|&(&guid, switch)| self.is_turn_due(inventory, guid, switch))
            .map(|(&guid, _)| guid)
            .collect();
        for guid in due {
            self.queue(guid);
        }
        self.multicast.give_turns();
        if self.phases.is_last() {
            self.release_all_vports(inventory);
            if !was_last {
                self.release_all_managed(inventory);
            }
        }
        self.release_adaptive(inventory);
    }

    /// The next Set of a switch's tables that may be sent now; `None` if there is none.
    pub(super) fn due_table(
        &self,
        inventory: &Inventory,
        guid: Guid,
        switch: &SwitchPush,
    ) -> Option<Task> {
        let at = PortKey::new(guid, PortNum::ZERO);
        let mut left = switch.left(guid);
        left.find(|&task| self.are_met(inventory, task.needs(), (task, at, Some(switch))))
    }

    /// Whether a switch is not queued, and one of its Sets may be sent now.
    fn is_turn_due(&self, inventory: &Inventory, guid: Guid, switch: &SwitchPush) -> bool {
        !switch.in_turn && self.due_table(inventory, guid, switch).is_some()
    }

    /// Queues a switch if one of its Sets may be sent now.
    pub(super) fn give_turn(&mut self, inventory: &Inventory, guid: Guid) {
        let switch = self.switches.get(&guid);
        if switch.is_some_and(|switch| self.is_turn_due(inventory, guid, switch)) {
            self.queue(guid);
        }
    }

    /// Adds a switch to the queue of switches with a table Set to send.
    fn queue(&mut self, guid: Guid) {
        if let Some(switch) = self.switches.get_mut(&guid) {
            switch.in_turn = true;
            self.turn.push_back(guid);
        }
    }

    /// Handles a settled Set of PortInfo: tables may have waited for the LID of port 0.
    pub(super) fn lid_settled(&mut self, inventory: &Inventory, key: PortKey) {
        if key.port != PortNum::ZERO || self.stopped {
            return;
        }
        if let Some(switch) = self.switches.get_mut(&key.node) {
            switch.lid_settled();
            self.give_turn(inventory, key.node);
        }
        self.multicast.give_turn(key.node);
    }

    /// Handles settled PortInfo of a port. After port 0, queues Sets of the switch's other ports,
    /// which may have waited for it.
    pub(super) fn consider_others_after(&mut self, inventory: &Inventory, key: PortKey) {
        if key.port != PortNum::ZERO {
            return;
        }
        let external = PortKey::new(key.node, PortNum(1))..=PortKey::new(key.node, PortNum(255));
        let others: Vec<PortKey> = self.ports.range(external).map(|(&key, _)| key).collect();
        for other in others {
            self.consider(inventory, other);
        }
    }

    /// Handles a settled Set of a switch's tables: queues the Sets that waited for it.
    pub(super) fn table_settled(
        &mut self,
        inventory: &mut Inventory,
        task: Task,
        guid: Guid,
        failed: bool,
    ) {
        let Some(switch) = self.switches.get_mut(&guid) else {
            return;
        };
        switch.settle(task, failed);
        let is_programmed = switch.is_programmed();
        // Let the inventory share the memory of the plan's table.
        let before = inventory.hardware.mark();
        if is_programmed
            && let Some(table) = self.plan.last_table(guid)
            && let Some(record) = inventory.hardware.switch_mut(guid)
        {
            record.lft.share_with(table);
            self.known_routes.nothing_written(inventory, before);
        }
        let counts = self.phases.counts() && switch.is_counted(task);
        if counts {
            self.phases.unmet -= 1;
        }
        if failed && counts {
            self.on_interim_failure(guid);
        }
        if self.stopped {
            return;
        }
        if counts && self.phases.unmet == 0 {
            self.advance(inventory);
        } else {
            self.give_turn(inventory, guid);
            self.multicast.give_turn(guid);
        }
        if is_programmed && !self.vports.is_empty() {
            let behind = inventory.hardware.node(guid).into_iter();
            let behind = behind.flat_map(|node| node.external_ports());
            let behind: Vec<PortKey> = behind.filter_map(|(_, port)| port.peer).collect();
            for key in behind {
                self.release_vports(inventory, key);
            }
        }
        // Most pushes write no ports.
        if is_programmed && !self.ports.is_empty() {
            let ports: Vec<PortKey> = inventory
                .hardware
                .node(guid)
                .map(|node| {
                    node.external_ports()
                        .flat_map(|(number, port)| [Some(PortKey::new(guid, number)), port.peer])
                        .flatten()
                        .collect()
                })
                .unwrap_or_default();
            for key in ports {
                self.consider(inventory, key);
            }
        }
    }

    /// Handles a switch that failed to take its interim tables: the tables that it holds could form
    /// a credit loop with the next ones. The push continues only if the switch is dark (no packet
    /// passes it): the switch then gets no further tables, so its links do not become Active.
    fn on_interim_failure(&mut self, guid: Guid) {
        let phase = self.phases.current();
        match self.switches.get_mut(&guid) {
            Some(switch) if self.plan.transition.dark.contains(&guid) => {
                self.phases.unmet -= switch.forgo(phase);
            }
            _ => self.stop(),
        }
    }

    /// Queues the next Sets of a port, if they may be sent now.
    pub(super) fn consider(&mut self, inventory: &Inventory, key: PortKey) {
        if self.stopped {
            return;
        }
        let Some(port) = self.ports.get(&key) else {
            return;
        };
        let Some(info) = inventory
            .hardware
            .port(key)
            .and_then(|record| record.info.as_ref())
        else {
            return;
        };
        // All blocks of a P_KeyTable have the same conditions, so that checking block 0 suffices.
        let sends_p_keys = !port.p_keys.is_sent() && self.may(inventory, Task::PKeys(key, 0));
        let mut steps = port.steps(info).into_iter().flatten();
        let step = steps.find(|&step| self.may(inventory, Task::Port(key, step)));
        let Some(port) = self.ports.get_mut(&key) else {
            return;
        };
        if sends_p_keys {
            let blocks = port.p_keys.take_due();
            self.ready
                .extend(blocks.into_iter().map(|block| Task::PKeys(key, block)));
        }
        if let Some(step) = step {
            port.sent();
            self.ready.push_back(Task::Port(key, step));
        }
    }
}
