//! What one Set that is settled makes possible for others.

use rsm_ids::{Guid, PortNum};

use super::ports::PortPush;
use super::tables::SwitchPush;
use super::{Push, Task};
use crate::sweep::inventory::{Inventory, PortKey};

impl Push {
    /// Gives a turn to every switch that has something to send now.
    pub(super) fn give_turns(&mut self) {
        let on_the_way = self.unmet > 0;
        for (&guid, switch) in &mut self.switches {
            if !switch.in_turn && switch.has_next(on_the_way) {
                switch.in_turn = true;
                self.turn.push_back(guid);
            }
        }
    }

    /// Gives a turn to a switch if it has something to send now.
    fn give_turn(&mut self, guid: Guid) {
        let on_the_way = self.unmet > 0;
        if let Some(switch) = self.switches.get_mut(&guid)
            && !switch.in_turn
            && switch.has_next(on_the_way)
        {
            switch.in_turn = true;
            self.turn.push_back(guid);
        }
    }

    /// A Set of PortInfo was settled; tables may have waited for that of port 0.
    pub(super) fn lid_settled(&mut self, key: PortKey) {
        if key.port == PortNum::ZERO
            && !self.stopped
            && let Some(switch) = self.switches.get_mut(&key.node)
        {
            switch.lid_settled();
            self.give_turn(key.node);
        }
    }

    /// The PortInfo of a port was written or given up; if it is port 0, the switch's other ports may have waited for it.
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

    /// A Set to a switch's tables was answered or given up: see what that makes possible.
    pub(super) fn table_settled(
        &mut self,
        inventory: &Inventory,
        task: Task,
        guid: Guid,
        failed: bool,
    ) {
        let Some(switch) = self.switches.get_mut(&guid) else {
            return;
        };
        switch.settle(task, failed);
        let is_programmed = switch.is_programmed();
        let on_the_way = self.unmet > 0;
        if on_the_way {
            self.unmet -= 1;
        }
        if failed && on_the_way {
            // A switch that does not hold the waypoint could close a loop with what would follow.
            self.stop();
        }
        if self.stopped {
            return;
        }
        if on_the_way && self.unmet == 0 {
            self.open_lanes();
            self.give_turns();
            self.multicast.give_turns();
        } else {
            self.give_turn(guid);
            self.multicast.give_turn(guid);
        }
        if is_programmed {
            let ports: Vec<PortKey> = inventory
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

    /// Whether a switch forwards as planned: it never had to change, or all of its changes are acknowledged.
    fn is_programmed(&self, guid: Guid) -> bool {
        self.switches
            .get(&guid)
            .is_none_or(SwitchPush::is_programmed)
    }

    /// Whether a port holds its keys: they never had to change, or all changes are acknowledged.
    fn holds_p_keys(&self, key: PortKey) -> bool {
        let port = self.ports.get(&key);
        port.is_none_or(|port| port.p_keys.is_held())
    }

    /// Queues the next Sets of a port if they are due.
    pub(super) fn consider(&mut self, inventory: &Inventory, key: PortKey) {
        if self.stopped {
            return;
        }
        let Some(port) = self.ports.get(&key) else {
            return;
        };
        let peer = port.peer();
        let open = [Some(key), peer]
            .into_iter()
            .flatten()
            .all(|end| self.is_programmed(end.node) && self.holds_p_keys(end));
        let waits_for_peer = peer
            .and_then(|peer| self.ports.get(&peer))
            .is_some_and(|peer| peer.is_enforcing() && !peer.p_keys.is_settled());
        // The LID of port 0 tells of a reset of the switch; it has to be there before anything else of the switch is.
        let zero = PortKey::new(key.node, PortNum::ZERO);
        let waits_for_zero =
            port.is_enforcing() && self.ports.get(&zero).is_some_and(PortPush::awaits_info);
        let state_of = |key: PortKey| inventory.port(key).and_then(|record| record.state());
        let peer_state = peer.and_then(state_of);
        let Some(info) = inventory.port(key).and_then(|record| record.info.as_ref()) else {
            return;
        };
        let Some(port) = self.ports.get_mut(&key) else {
            return;
        };
        if !waits_for_peer && !waits_for_zero && !port.info_goes_first(info) {
            let blocks = port.p_keys.take_due();
            self.ready
                .extend(blocks.into_iter().map(|block| Task::PKeys(key, block)));
        }
        if let Some(step) = port.due(info, peer_state, open) {
            port.sent();
            self.ready.push_back(Task::Port(key, step));
        }
    }
}
