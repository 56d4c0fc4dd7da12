//! Reads SwitchPortStateTable (IBA 14.2.5.20), which shows the states of all ports of a switch in
//! one or two Gets.
//!
//! After a report, and after a push that cleared PortStateChange, a sweep reads the table of a
//! switch, and then PortInfo of only the ports whose state differs. The tables of a switch are
//! trusted once they are proved: a table showed another state of a port than the previous table,
//! and PortInfo confirmed that state. Until then, a report also makes the sweep read PortInfo of
//! all ports. A table that always shows the same states is no proof, even if PortInfo agrees.
//!
//! If a kind of device refuses the table, leaves it unanswered, or fills it with states that do not
//! exist or that PortInfo contradicts, the [habit](DeviceHabit::RefusesPortStates) is recorded, and
//! the table is no longer read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    CapabilityMask, CapabilityMask2, PortInfo, PortState, SwitchPortStateTable,
};
use rsm_model::InventoryNode;
use rsm_model::habits::{DeviceHabit, DeviceKind};

use super::inventory::Inventory;
use super::reading::Reading;
use super::{Query, SweepPolicy};

/// Number of contradictions between PortInfo and the tables of a kind of switch after which the
/// tables are no longer read. One is not enough, because a port can change between the two Gets.
const CONTRADICTIONS_MAX: u8 = 3;

/// Lowest number of ports to read at one switch for which the table costs less than PortInfo of
/// each port.
const PORTS_FOR_TABLE: usize = 3;

/// Proofs that the tables of switches are right.
#[derive(Clone, Default, Debug)]
pub struct PortStateProofs {
    /// Switches whose tables are proved.
    switches: BTreeSet<Guid>,
    /// The last tables of switches whose tables are not proved, by switch and block.
    last: BTreeMap<(Guid, u8), SwitchPortStateTable>,
    /// Number of contradictions since the last proof, by kind of switch.
    contradictions: BTreeMap<DeviceKind, u8>,
}

impl PortStateProofs {
    /// Records that the tables of a switch are proved.
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

    /// Records that PortInfo contradicted a table of the switch: its tables no longer count as
    /// proved. Returns whether the limit for the kind is reached.
    fn contradict(&mut self, guid: Guid, kind: DeviceKind) -> bool {
        self.forget(guid);
        let count = self.contradictions.entry(kind).or_default();
        *count = count.saturating_add(1);
        *count >= CONTRADICTIONS_MAX
    }
}

/// State of a port in a table that this sweep read.
#[derive(Clone, Copy, Debug)]
struct Shown {
    /// State that the table shows.
    state: PortState,
    /// State in the inventory when the table was read.
    known: Option<PortState>,
    /// State in the former table; `None` if the tables of the switch are proved.
    in_last: Option<PortState>,
}

/// Reason for reading ports of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// The switch reported a change.
    Report,
    /// A push cleared PortStateChange, and with it perhaps a change that no sweep has read.
    Cleared,
}

fn kind_of(node: &InventoryNode) -> DeviceKind {
    DeviceKind::of(&node.info, PortNum::ZERO)
}

/// The blocks of a switch's table that cover its ports.
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
    /// Whether the SwitchPortStateTable of a switch is read: the settings allow it
    /// (`sweep.capabilities`), PortInfo of port 0 shows that the switch has the table, and no habit
    /// of its kind is recorded.
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
                .hardware
                .habits
                .has(kind_of(node), DeviceHabit::RefusesPortStates)
    }
}

/// Tables of port states in one sweep.
#[derive(Default, Debug)]
pub(super) struct PortStateTables {
    /// Tables asked for because of a report.
    reported: BTreeSet<Query>,
    /// States from tables that PortInfo must confirm.
    shown: HashMap<PortKey, Shown>,
    /// Switches that left a table unanswered.
    silent: BTreeSet<Guid>,
}

impl PortStateTables {
    /// Reads the external ports of a switch that reported a change: by the switch's table if it has
    /// one, otherwise one by one. `repeats` says that earlier answers may be older than the report.
    pub(super) fn ask_reported_ports(
        &mut self,
        reading: &mut Reading,
        inventory: &Inventory,
        guid: Guid,
        repeats: bool,
    ) {
        let Some(node) = inventory.hardware.node(guid) else {
            return;
        };
        if inventory.has_port_states(&reading.policy, node) && node.ports.len() > PORTS_FOR_TABLE {
            for block in blocks(node) {
                self.ask_table(reading, guid, block, Reason::Report);
            }
            if inventory.port_state_proofs.switches.contains(&guid) {
                return;
            }
        }
        for (number, _) in node.external_ports() {
            let query = Query::Port(PortKey::new(guid, number));
            if repeats {
                reading.again(query);
            } else {
                reading.ask(query);
            }
        }
    }

    /// Adds ports that may have changed without a report. If a switch has a proved table and at
    /// least [`PORTS_FOR_TABLE`] of the ports, the table is read instead of PortInfo, except for
    /// port 0 and for ports with an unverified Set.
    pub(super) fn read_all_again(
        &mut self,
        reading: &mut Reading,
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
            let is_proved = inventory.hardware.node(guid).is_some_and(|node| {
                inventory.has_port_states(&reading.policy, node)
                    && ports.iter().filter(|key| tabled(key)).count() >= PORTS_FOR_TABLE
                    && inventory.port_state_proofs.switches.contains(&guid)
            });
            for &key in &ports {
                if is_proved && tabled(&key) {
                    let block = SwitchPortStateTable::block_of(key.port);
                    self.ask_table(reading, guid, block, Reason::Cleared);
                } else {
                    reading.ask(Query::Port(key));
                }
            }
        }
    }

    /// Queues a block of a table. After a report, the block is read again even if this sweep has
    /// read it.
    fn ask_table(&mut self, reading: &mut Reading, guid: Guid, block: u8, reason: Reason) {
        let query = Query::PortStates(guid, block);
        match reason {
            Reason::Report => {
                self.reported.insert(query);
                reading.again(query);
            }
            Reason::Cleared => reading.ask(query),
        }
    }

    /// Handles a table: asks for PortInfo of the ports whose state differs. Returns the other ports
    /// whose link is up.
    pub(super) fn on_port_states(
        &mut self,
        reading: &mut Reading,
        inventory: &mut Inventory,
        guid: Guid,
        block: u8,
        table: &SwitchPortStateTable,
    ) -> Vec<PortKey> {
        let Some(node) = inventory.hardware.node(guid) else {
            return Vec::new();
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
            inventory
                .hardware
                .habits
                .learn(kind, DeviceHabit::RefusesPortStates);
            self.ask_ports_instead(reading, inventory, guid, block);
            return Vec::new();
        };
        let is_reported = self.reported.remove(&Query::PortStates(guid, block));
        let is_proved = inventory.port_state_proofs.switches.contains(&guid);
        let reads_all = is_reported && !is_proved;
        if !is_proved {
            let last = &mut inventory.port_state_proofs.last;
            last.insert((guid, block), *table);
        }
        let mut same = Vec::new();
        for (key, shown) in states {
            let differs = shown.known != Some(shown.state);
            if differs || reads_all {
                self.shown.insert(key, shown);
            }
            if reads_all {
                // The Get of the port was sent after the Get of the table.
                reading.ask(Query::Port(key));
            } else if differs {
                // The answer to an earlier Get of this sweep may be older than the table.
                reading.again(Query::Port(key));
            } else if shown.state != PortState::Down {
                same.push(key);
            }
        }
        same
    }

    /// Handles a refused or unanswered table: reads each port by PortInfo instead.
    pub(super) fn on_no_port_states(
        &mut self,
        reading: &mut Reading,
        inventory: &mut Inventory,
        guid: Guid,
        block: u8,
        is_silent: bool,
    ) {
        if is_silent {
            // A suspect may be gone. Any other switch lacks the table if it answers another query
            // of this sweep, before or after this silence.
            let is_suspect = inventory.suspects.contains(&guid);
            let epoch = inventory.hardware.epoch;
            match inventory.hardware.node(guid) {
                Some(node) if !is_suspect && node.epoch == epoch => {
                    let kind = kind_of(node);
                    inventory
                        .hardware
                        .habits
                        .learn(kind, DeviceHabit::RefusesPortStates);
                }
                Some(_) if !is_suspect => {
                    self.silent.insert(guid);
                }
                _ => {}
            }
        } else if let Some(node) = inventory.hardware.node(guid) {
            let kind = kind_of(node);
            inventory
                .hardware
                .habits
                .learn(kind, DeviceHabit::RefusesPortStates);
        }
        self.ask_ports_instead(reading, inventory, guid, block);
    }

    /// Asks for PortInfo of each port in a block of the table.
    fn ask_ports_instead(
        &mut self,
        reading: &mut Reading,
        inventory: &Inventory,
        guid: Guid,
        block: u8,
    ) {
        for key in self.ports_of_table(inventory, guid, block) {
            reading.ask(Query::Port(key));
        }
    }

    /// The ports whose states the block of the table would show. The block no longer counts as
    /// asked for because of a report.
    pub(super) fn ports_of_table(
        &mut self,
        inventory: &Inventory,
        guid: Guid,
        block: u8,
    ) -> Vec<PortKey> {
        self.reported.remove(&Query::PortStates(guid, block));
        let node = inventory.hardware.node(guid).into_iter();
        node.flat_map(|node| ports_in(node, block))
            .map(|(_, port)| PortKey::new(guid, port))
            .collect()
    }

    /// Compares the `state` in PortInfo of a port with the table that this sweep read; `before` is
    /// the state that was known until now.
    pub(super) fn check(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        before: Option<PortState>,
        state: PortState,
    ) {
        let Some(node) = inventory.hardware.node(key.node) else {
            return;
        };
        let kind = kind_of(node);
        if self.silent.remove(&key.node) {
            inventory
                .hardware
                .habits
                .learn(kind, DeviceHabit::RefusesPortStates);
        }
        let Some(shown) = self.shown.remove(&key) else {
            return;
        };
        if shown.state == state {
            if shown.in_last.is_some_and(|last| last != state) {
                inventory.port_state_proofs.prove(key.node, kind);
            }
        } else if before == shown.known && inventory.port_state_proofs.contradict(key.node, kind) {
            inventory
                .hardware
                .habits
                .learn(kind, DeviceHabit::RefusesPortStates);
        }
    }
}

/// Whether an external port can be in `state`. Devices show state 5 (ActiveDefer) only to
/// requesters that declare support for it.
fn exists(state: PortState) -> bool {
    matches!(
        state,
        PortState::Down | PortState::Init | PortState::Armed | PortState::Active
    )
}
