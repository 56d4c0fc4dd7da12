//! Reads SwitchPortStateTable (IBA 14.2.5.20), which shows the states of all ports of a switch in
//! one or two Gets.
//!
//! After a report, and after a push that cleared PortStateChange, a sweep reads the table of a
//! switch, and then PortInfo of only those ports whose state differs. A table is trusted once it
//! was proved right: it showed another state of a port than the table before, and PortInfo
//! confirmed that state. Until then, a report also makes the sweep read PortInfo of all ports: a
//! table that never changes proves nothing, however often it agrees.
//!
//! A kind of device has a [habit](DeviceHabit::RefusesPortStates) if it refuses the table, leaves
//! it unanswered, or fills it with states that do not exist or that PortInfo contradicts.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    CapabilityMask, CapabilityMask2, PortInfo, PortState, SwitchPortStateTable,
};
use rsm_model::InventoryNode;
use rsm_model::habits::{DeviceHabit, DeviceKind};

use super::inventory::Inventory;
use super::{Query, Sweep, SweepPolicy};

/// Number of times that PortInfo may contradict the tables of a kind of switch before they are no
/// longer read. A port can change between the two Gets.
const CONTRADICTIONS_MAX: u8 = 3;

/// Number of ports to read from which on a table costs less.
const WORTH_A_TABLE: usize = 3;

/// Proofs that the tables of switches are right.
#[derive(Clone, Default, Debug)]
pub struct PortStateProofs {
    switches: BTreeSet<Guid>,
    /// The last table of each switch whose tables are not proved, by block.
    last: BTreeMap<(Guid, u8), SwitchPortStateTable>,
    /// Number of contradictions since the last proof, by kind of switch.
    contradictions: BTreeMap<DeviceKind, u8>,
}

impl PortStateProofs {
    fn prove(&mut self, guid: Guid, kind: DeviceKind) {
        self.switches.insert(guid);
        for block in 0..=1 {
            self.last.remove(&(guid, block));
        }
        self.contradictions.remove(&kind);
    }

    /// Forgets a switch that vanished.
    pub(super) fn forget(&mut self, guid: Guid) {
        self.switches.remove(&guid);
        for block in 0..=1 {
            self.last.remove(&(guid, block));
        }
    }

    /// Records a contradiction. Returns whether the limit is reached.
    fn contradict(&mut self, guid: Guid, kind: DeviceKind) -> bool {
        self.forget(guid);
        let count = self.contradictions.entry(kind).or_default();
        *count = count.saturating_add(1);
        *count >= CONTRADICTIONS_MAX
    }
}

/// State of a port as a table of this sweep shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    state: PortState,
    /// State that the inventory held when the table was read.
    known: Option<PortState>,
    /// State in the former table; `None` if the tables of the switch are proved.
    in_last: Option<PortState>,
}

/// Reason for reading ports of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// The switch reported a change.
    Report,
    /// A push cleared reports of changes that the sweep before it may have missed.
    Cleared,
}

fn kind_of(node: &InventoryNode) -> DeviceKind {
    DeviceKind::of(&node.info, PortNum::ZERO)
}

/// The blocks with external ports of a switch.
fn blocks(node: &InventoryNode) -> impl Iterator<Item = u8> + use<> {
    0..=SwitchPortStateTable::block_of(PortNum(node.info.num_ports()))
}

/// The external ports of a switch in a block, each with its index in the block.
fn ports_in(node: &InventoryNode, block: u8) -> impl Iterator<Item = (usize, PortNum)> + use<> {
    (1..=node.info.num_ports())
        .map(PortNum)
        .filter(move |&port| SwitchPortStateTable::block_of(port) == block)
        .map(|port| (port.index() % SwitchPortStateTable::ENTRIES, port))
}

impl Inventory {
    /// Whether the SwitchPortStateTable of a switch is read: the operator allows capabilities to be
    /// used, PortInfo of port 0 shows that the switch has the table, and its kind has no habit of
    /// wrong tables.
    fn has_port_states(&self, policy: &SweepPolicy, node: &InventoryNode) -> bool {
        let info = node.port(PortNum::ZERO).and_then(|port| port.info.as_ref());
        let claims = |info: &PortInfo| {
            info.capability_mask()
                .contains(CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED)
                && info
                    .capability_mask2()
                    .contains(CapabilityMask2::IS_SWITCH_PORT_STATE_TABLE_SUPPORTED)
        };
        policy.asks_capabilities
            && info.is_some_and(claims)
            && !self
                .habits
                .has(kind_of(node), DeviceHabit::RefusesPortStates)
    }
}

impl Sweep {
    /// Reads the external ports of a switch that reported a change: by its table if it has one,
    /// otherwise one by one.
    pub(super) fn ask_reported_ports(&mut self, inventory: &Inventory, guid: Guid) {
        let Some(node) = inventory.node(guid) else {
            return;
        };
        if inventory.has_port_states(&self.policy, node) && node.ports.len() > WORTH_A_TABLE {
            for block in blocks(node) {
                self.ask_table(guid, block, Reason::Report);
            }
            if inventory.port_state_proofs.switches.contains(&guid) {
                return;
            }
        }
        // Answers to earlier Gets may be older than the report that this sweep got.
        let repeats = self.is_target(guid);
        for (number, _) in node.external_ports() {
            let query = Query::Port(PortKey::new(guid, number));
            if repeats {
                self.again(query);
            } else {
                self.ask(query);
            }
        }
    }

    /// Adds ports that may have changed without a report. If a switch has a table, its ports of
    /// which only the state is unverified are read by that table; other ports are read by PortInfo.
    pub fn read_all_again(
        &mut self,
        inventory: &Inventory,
        ports: impl IntoIterator<Item = PortKey>,
    ) {
        let mut by_node: BTreeMap<Guid, Vec<PortKey>> = BTreeMap::new();
        for port in ports {
            by_node.entry(port.node).or_default().push(port);
        }
        let unverified: BTreeSet<PortKey> =
            inventory.unverified.iter().map(|(key, _)| key).collect();
        for (guid, ports) in by_node {
            let tabled = |key: &PortKey| key.port != PortNum::ZERO && !unverified.contains(key);
            let is_proved = inventory.node(guid).is_some_and(|node| {
                inventory.has_port_states(&self.policy, node)
                    && ports.iter().filter(|key| tabled(key)).count() >= WORTH_A_TABLE
                    && inventory.port_state_proofs.switches.contains(&guid)
            });
            for &key in &ports {
                if is_proved && tabled(&key) {
                    let block = SwitchPortStateTable::block_of(key.port);
                    self.ask_table(guid, block, Reason::Cleared);
                } else {
                    self.read_again(key);
                }
            }
        }
    }

    fn ask_table(&mut self, guid: Guid, block: u8, reason: Reason) {
        let query = Query::PortStates(guid, block);
        match reason {
            Reason::Report => {
                self.reported_tables.insert(query);
                self.again(query);
            }
            Reason::Cleared => self.ask(query),
        }
    }

    /// Handles a table: asks for PortInfo of the ports whose state differs.
    pub(super) fn on_port_states(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        block: u8,
        table: &SwitchPortStateTable,
    ) {
        let Some(node) = inventory.node(guid) else {
            return;
        };
        let kind = kind_of(node);
        let last = inventory.port_state_proofs.last.get(&(guid, block));
        let states: Option<Vec<(PortKey, Shown)>> = ports_in(node, block)
            .map(|(index, port)| {
                let state = table.state(index).filter(|&state| exists(state))?;
                let shown = Shown {
                    state,
                    known: node.port(port).and_then(|port| port.state()),
                    in_last: last.and_then(|last| last.state(index)),
                };
                Some((PortKey::new(guid, port), shown))
            })
            .collect();
        let Some(states) = states else {
            inventory.habits.learn(kind, DeviceHabit::RefusesPortStates);
            return self.ask_ports_instead(inventory, guid, block);
        };
        let is_reported = self.reported_tables.remove(&Query::PortStates(guid, block));
        let is_proved = inventory.port_state_proofs.switches.contains(&guid);
        let reads_all = is_reported && !is_proved;
        if !is_proved {
            let last = &mut inventory.port_state_proofs.last;
            last.insert((guid, block), *table);
        }
        for (key, shown) in states {
            let differs = shown.known != Some(shown.state);
            if differs || reads_all {
                self.shown_states.insert(key, shown);
            }
            if reads_all {
                // The Get of the port was sent after the Get of the table.
                self.ask(Query::Port(key));
            } else if differs {
                // The answer to an earlier Get of this sweep may be older than the table.
                self.again(Query::Port(key));
            } else if shown.state != PortState::Down {
                self.pass_on(inventory, key);
            }
        }
    }

    /// Handles a refused or unanswered table: reads each port by PortInfo instead.
    pub(super) fn on_no_port_states(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        block: u8,
        is_silent: bool,
    ) {
        if is_silent {
            // A suspect may be gone. Any other switch lacks only the table if it answers other
            // queries, before or after.
            let is_suspect = inventory.suspects.contains(&guid);
            let epoch = inventory.epoch;
            match inventory.node(guid) {
                Some(node) if !is_suspect && node.epoch == epoch => {
                    let kind = kind_of(node);
                    inventory.habits.learn(kind, DeviceHabit::RefusesPortStates);
                }
                Some(_) if !is_suspect => {
                    self.silent_tables.insert(guid);
                }
                _ => {}
            }
        } else if let Some(node) = inventory.node(guid) {
            let kind = kind_of(node);
            inventory.habits.learn(kind, DeviceHabit::RefusesPortStates);
        }
        self.ask_ports_instead(inventory, guid, block);
    }

    fn ask_ports_instead(&mut self, inventory: &Inventory, guid: Guid, block: u8) {
        for key in self.ports_of_table(inventory, guid, block) {
            self.ask(Query::Port(key));
        }
    }

    /// The ports whose states the missing table would have shown.
    pub(super) fn ports_of_table(
        &mut self,
        inventory: &Inventory,
        guid: Guid,
        block: u8,
    ) -> Vec<PortKey> {
        self.reported_tables.remove(&Query::PortStates(guid, block));
        let node = inventory.node(guid).into_iter();
        node.flat_map(|node| ports_in(node, block))
            .map(|(_, port)| PortKey::new(guid, port))
            .collect()
    }

    /// Compares PortInfo of a port with the table of this sweep that contains it; `before` is the
    /// state before this answer.
    pub(super) fn check_port_states(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        before: Option<PortState>,
        state: PortState,
    ) {
        let Some(node) = inventory.node(key.node) else {
            return;
        };
        let kind = kind_of(node);
        if self.silent_tables.remove(&key.node) {
            inventory.habits.learn(kind, DeviceHabit::RefusesPortStates);
        }
        let Some(shown) = self.shown_states.remove(&key) else {
            return;
        };
        if shown.state == state {
            if shown.in_last.is_some_and(|last| last != state) {
                inventory.port_state_proofs.prove(key.node, kind);
            }
        } else if before == shown.known && inventory.port_state_proofs.contradict(key.node, kind) {
            inventory.habits.learn(kind, DeviceHabit::RefusesPortStates);
        }
    }
}

/// Whether an external port can be in `state`. Devices show state 5 (ActiveDefer) only to
/// requesters that state that they know it.
fn exists(state: PortState) -> bool {
    matches!(
        state,
        PortState::Down | PortState::Init | PortState::Armed | PortState::Active
    )
}
