//! Discovers the virtual ports of hosts' ports.
//!
//! A port supports virtual ports if its CapabilityMask2 and the GeneralInfo of its device type both
//! show that. The sweep reads VirtualizationInfo; the push enables the virtual ports, which
//! otherwise stay Down. Then the sweep reads the states of all indices. For each index that is not
//! Down, it reads VPortInfo, VNodeInfo, VNodeDescription, the P_KeyTable and the GUID table. The
//! sweep reads all of this again after trap 1144 or 1146, when VPortStateChange is set (which light
//! sweeps check), and after the push has cleared that bit.
//!
//! If a kind of device refuses VirtualizationInfo, or leaves it unanswered several times, the
//! [habit](DeviceHabit::RefusesVPorts) is recorded, and the kind is not asked again.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    Attribute, Capability, CapabilityMask, CapabilityMask2, PortInfo, PortState, VNodeDescription,
    VNodeInfo, VPortGuidInfo, VPortInfo, VPortPKeyTable, VPortState, VirtualizationInfo,
};
use rsm_mad::wire::header::{AttrId, Status};
use rsm_model::habits::{DeviceHabit, DeviceKind};
use rsm_model::vports::{INDICES_MAX, PortVPorts, VNode, VPort};
use rsm_model::{InventoryNode, p_keys};

use super::inventory::Inventory;
use super::kind_answers::KindAnswers;
use super::reading::Reading;
use super::{Query, SweepPolicy, SweepScope, rate_limits, vport_guids};

/// A query about virtual ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VPortQuery {
    /// VirtualizationInfo.
    Virtualization,
    /// A block of VPortState.
    States(u16),
    /// VPortInfo of an index.
    Info(u16),
    /// VNodeInfo of an index.
    Node(u16),
    /// VNodeDescription of an index.
    Description(u16),
    /// A block of the P_KeyTable of an index.
    PKeys(u16, u16),
    /// A block of the GUID table of an index.
    Guids(u16, u8),
}

impl VPortQuery {
    /// The AttributeID.
    pub fn attribute(self) -> AttrId {
        match self {
            VPortQuery::Virtualization => VirtualizationInfo::ID,
            VPortQuery::States(_) => VPortState::ID,
            VPortQuery::Info(_) => VPortInfo::ID,
            VPortQuery::Node(_) => VNodeInfo::ID,
            VPortQuery::Description(_) => VNodeDescription::ID,
            VPortQuery::PKeys(..) => VPortPKeyTable::ID,
            VPortQuery::Guids(..) => VPortGuidInfo::ID,
        }
    }

    /// The AttributeModifier.
    pub(super) fn modifier(self) -> u32 {
        match self {
            VPortQuery::Virtualization => VirtualizationInfo::MODIFIER,
            VPortQuery::States(block) => VPortState::modifier(block),
            VPortQuery::Info(index) => VPortInfo::modifier(index),
            VPortQuery::Node(index) => VNodeInfo::modifier(index),
            VPortQuery::Description(index) => VNodeDescription::modifier(index),
            VPortQuery::PKeys(index, block) => VPortPKeyTable::modifier(index, block),
            VPortQuery::Guids(index, block) => VPortGuidInfo::modifier(index, block.into()),
        }
    }

    /// The index of the virtual port; `None` if the query is about the physical port.
    fn index(self) -> Option<u16> {
        match self {
            VPortQuery::Virtualization | VPortQuery::States(_) => None,
            VPortQuery::Info(index)
            | VPortQuery::Node(index)
            | VPortQuery::Description(index)
            | VPortQuery::PKeys(index, _)
            | VPortQuery::Guids(index, _) => Some(index),
        }
    }
}

/// State of reading virtual ports, in addition to the records of the physical ports.
#[derive(Clone, Default, Debug)]
pub(crate) struct VPortReading {
    /// Whether virtual ports are managed (`sm.virtualization`).
    is_on: bool,
    /// Ports whose virtual ports and their states must be read again.
    stale: BTreeSet<PortKey>,
    /// Virtual ports, by port and index, whose GUID tables must be read again.
    pub(super) stale_guids: BTreeSet<(PortKey, u16)>,
    /// Answers of kinds of devices to VirtualizationInfo.
    answers: KindAnswers,
    /// Answers of kinds of devices to VPortGUIDInfo.
    pub(super) guid_answers: KindAnswers,
}

impl VPortReading {
    /// Forgets a node that vanished.
    pub(super) fn forget(&mut self, node: Guid) {
        if !self.stale.is_empty() {
            self.stale.retain(|port| port.node != node);
        }
        if !self.stale_guids.is_empty() {
            self.stale_guids.retain(|(port, _)| port.node != node);
        }
    }
}

impl Inventory {
    /// Turns the management of virtual ports on or off. Forgets all virtual ports when it is turned
    /// off.
    pub fn use_vports(&mut self, is_on: bool) {
        if self.vport_reading.is_on && !is_on {
            let all: Vec<PortKey> = self.ports_with_vports().collect();
            for key in all {
                self.forget_vports(key);
            }
            self.vport_reading = VPortReading::default();
            self.faults
                .forget_owed(|query| matches!(query, Query::VPorts(..)));
        }
        self.vport_reading.is_on = is_on;
    }

    /// Whether virtual ports are managed.
    pub fn manages_vports(&self) -> bool {
        self.vport_reading.is_on
    }

    /// The ports with known VirtualizationInfo.
    pub(crate) fn ports_with_vports(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.hardware.nodes().flat_map(|(guid, node)| {
            let ports = node.external_ports();
            let ports = ports.filter(|(_, port)| port.vports.is_some());
            ports.map(move |(number, _)| PortKey::new(guid, number))
        })
    }

    /// Forgets the virtual ports of a port. The next PortInfo of the port makes the sweep read them
    /// again.
    pub(super) fn forget_vports(&mut self, key: PortKey) {
        if self
            .hardware
            .port(key)
            .is_some_and(|port| port.vports.is_some())
            && let Some(port) = self.hardware.port_mut(key)
        {
            port.vports = None;
        }
    }

    /// Records that the virtual ports of a port may have changed. Returns whether the port has
    /// virtual ports.
    pub fn mark_vports_stale(&mut self, key: PortKey) -> bool {
        let has_any = self
            .hardware
            .port(key)
            .is_some_and(|port| port.vports.is_some());
        has_any && {
            self.vport_reading.stale.insert(key);
            true
        }
    }

    /// The record of a port's virtual ports; `None` if the port has none.
    pub fn vports(&self, key: PortKey) -> Option<&PortVPorts> {
        self.hardware.port(key)?.vports.as_deref()
    }

    /// Like [`Inventory::vports`], mutable. Copies the record first if it is shared.
    pub fn vports_mut(&mut self, key: PortKey) -> Option<&mut PortVPorts> {
        self.vports(key)?;
        Some(Arc::make_mut(self.hardware.port_mut(key)?.vports.as_mut()?))
    }

    /// Whether a port supports virtual ports and the sweep may ask for them.
    fn has_vports(&self, node: &InventoryNode, key: PortKey, info: &PortInfo) -> bool {
        self.vport_reading.is_on
            && !node.is_switch()
            && info
                .capability_mask()
                .contains(CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED)
            && info
                .capability_mask2()
                .contains(CapabilityMask2::IS_VIRTUALIZATION_SUPPORTED)
            && self
                .hardware
                .capabilities
                .has(&node.info, Capability::Virtualization)
            && !self.refuses_vports(node, key)
    }

    /// Whether the kind of device has the habit to refuse VirtualizationInfo.
    fn refuses_vports(&self, node: &InventoryNode, key: PortKey) -> bool {
        let kind = DeviceKind::of(&node.info, key.port);
        self.hardware.habits.has(kind, DeviceHabit::RefusesVPorts)
    }

    /// Whether repeating an unanswered query is useless: the query is about virtual ports or GUID
    /// tables that the kind of device refuses, or about rate limits that are no longer planned.
    pub(super) fn is_useless(&self, policy: &SweepPolicy, query: Query) -> bool {
        match query {
            Query::VPorts(key, query) => {
                let is_unread =
                    matches!(query, VPortQuery::Guids(..)) && !self.reads_vport_guids(key);
                let node = self.hardware.node(key.node);
                is_unread || node.is_none_or(|node| self.refuses_vports(node, key))
            }
            Query::Managed(key) if key.is_rate_limit() => !policy.source(self).limits_rates(key),
            _ => false,
        }
    }
}

/// Handles a port's PortInfo: asks for VirtualizationInfo if the port's virtual ports are unknown
/// or may have changed, and forgets the virtual ports of a port whose link is down.
pub(super) fn check_vports(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    before: Option<PortState>,
) {
    if !inventory.vport_reading.is_on || key.port == PortNum::ZERO {
        return;
    }
    let (Some(node), Some(port)) = (
        inventory.hardware.node(key.node),
        inventory.hardware.port(key),
    ) else {
        return;
    };
    let Some(info) = &port.info else { return };
    if info.port_state() == PortState::Down || !inventory.has_vports(node, key, info) {
        if port.vports.is_some()
            && let Some(port) = inventory.hardware.port_mut(key)
        {
            port.vports = None;
            reading.changed = true;
        }
        return;
    }
    // A link that trained again may lead to a host that was powered off, and has new virtual
    // ports.
    let is_retrained = port.is_retrained(before);
    let is_known = port.vports.is_some();
    let is_stale = inventory.vport_reading.stale.contains(&key);
    let query = Query::VPorts(key, VPortQuery::Virtualization);
    if is_retrained && is_known {
        inventory.vport_reading.stale.insert(key);
        inventory.forget_vports(key);
        reading.again(query);
    } else if is_stale {
        reading.again(query);
    } else if !is_known || matches!(reading.scope, SweepScope::Full { .. }) {
        reading.ask(query);
    }
}

/// Asks all ports with virtual ports whether their states have changed.
pub(super) fn ask_vport_changes(reading: &mut Reading, inventory: &Inventory) {
    if !inventory.manages_vports() {
        return;
    }
    for key in inventory.ports_with_vports() {
        reading.ask(Query::VPorts(key, VPortQuery::Virtualization));
    }
}

/// Handles an answer about virtual ports.
pub(super) fn on_vports(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    query: VPortQuery,
    data: &[u8; 64],
) {
    match query {
        VPortQuery::Virtualization => {
            let info = *VirtualizationInfo::from_data(data);
            on_virtualization(reading, inventory, key, info);
        }
        VPortQuery::States(block) => {
            on_vport_states(reading, inventory, key, block, VPortState::from_data(data));
        }
        VPortQuery::Info(index) => {
            on_vport_info(reading, inventory, key, index, VPortInfo::from_data(data));
        }
        VPortQuery::Node(index) => {
            on_vnode_info(reading, inventory, key, index, VNodeInfo::from_data(data));
        }
        VPortQuery::Description(index) => {
            let text = VNodeDescription::from_data(data);
            let text: Arc<str> = String::from_utf8_lossy(text.text()).into();
            let vport = vport_of(inventory, key, index);
            if vport.is_some_and(|vport| vport.description != text)
                && let Some(vport) = vport_mut(inventory, key, index)
            {
                reading.changed = true;
                vport.description = text;
            }
        }
        VPortQuery::PKeys(index, block) => {
            let table = VPortPKeyTable::from_data(data);
            on_vport_p_keys(reading, inventory, key, (index, block), table);
        }
        VPortQuery::Guids(index, block) => {
            let info = VPortGuidInfo::from_data(data);
            vport_guids::on_vport_guids(reading, inventory, key, (index, block), info);
        }
    }
}

/// Handles VirtualizationInfo: asks for the states of all indices if they may have changed.
fn on_virtualization(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    info: VirtualizationInfo,
) {
    let Some(node) = inventory.hardware.node(key.node) else {
        return;
    };
    let kind = DeviceKind::of(&node.info, key.port);
    inventory.vport_reading.answers.answered(kind);
    let known = inventory.vports(key);
    let was_enabled = known.is_some_and(|known| known.info.enabled());
    if known.is_none_or(|known| known.info != info) {
        reading.changed = true;
        let Some(port) = inventory.hardware.port_mut(key) else {
            return;
        };
        let vports = Arc::make_mut(port.vports.get_or_insert_default());
        vports.info = info;
        if !info.enabled() {
            vports.vports.clear();
        }
    }
    if reading.audits(key) {
        vport_guids::audit_vport_guids(reading, inventory, key);
    }
    let is_stale = inventory.vport_reading.stale.remove(&key);
    if info.enabled() && (is_stale || !was_enabled || info.vport_state_change()) {
        for block in 0..=VPortState::block_of(last_index(&info)) {
            reading.again(Query::VPorts(key, VPortQuery::States(block)));
        }
    }
}

/// Handles a block of VPortState: asks for VPortInfo of each index that is up, and forgets virtual
/// ports that are Down.
fn on_vport_states(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    block: u16,
    states: &VPortState,
) {
    let Some(known) = inventory.vports(key) else {
        return;
    };
    let first = block.saturating_mul(VPortState::ENTRIES as u16);
    let last = last_index(&known.info);
    let mut gone = Vec::new();
    for (entry, index) in (0..VPortState::ENTRIES).zip(first..=last) {
        let is_up = states
            .state(entry)
            .is_some_and(|state| !matches!(state, PortState::Down | PortState::NoChange));
        if is_up {
            reading.again(Query::VPorts(key, VPortQuery::Info(index)));
        } else if known.get(index).is_some() {
            gone.push(index);
        }
    }
    // The highest index may be lower than before.
    let beyond = known.vports.range(last.saturating_add(1)..);
    gone.extend(beyond.map(|(&index, _)| index));
    if !gone.is_empty()
        && let Some(vports) = inventory.vports_mut(key)
    {
        reading.changed = true;
        vports.vports.retain(|index, _| !gone.contains(index));
    }
}

/// Handles VPortInfo of an index: asks for the other attributes of a new or reset virtual port.
fn on_vport_info(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    index: u16,
    info: &VPortInfo,
) {
    let Some(known) = inventory.vports(key) else {
        return;
    };
    let before = known.get(index);
    let is_same_port = before.is_some_and(|before| before.guid() == info.port_guid());
    let has_fallen = info.state() == PortState::Init
        && before.is_some_and(|before| before.info.state() != PortState::Init);
    if before.is_none_or(|before| before.info != *info) {
        reading.changed = true;
        let Some(vports) = inventory.vports_mut(key) else {
            return;
        };
        let vport = vports.vports.entry(index).or_default();
        if !is_same_port {
            *vport = VPort::default();
        } else if has_fallen {
            // The host may have reset the virtual port, which clears its tables.
            vport.p_keys = None;
            vport.guids = None;
        }
        vport.info = *info;
    }
    rate_limits::check_vport_rate_limits(
        reading,
        inventory,
        (key, index),
        !is_same_port || has_fallen,
    );
    let vport = vport_of(inventory, key, index);
    let wants_keys = vport.is_some_and(|vport| vport.p_keys.is_none());
    if !is_same_port || wants_keys {
        reading.again(Query::VPorts(key, VPortQuery::Node(index)));
    }
    if !is_same_port {
        reading.again(Query::VPorts(key, VPortQuery::Description(index)));
    }
    vport_guids::check_vport_guids(reading, inventory, key, index);
}

/// Handles VNodeInfo of an index: asks for the first block of P_Keys if the keys are unknown.
fn on_vnode_info(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    index: u16,
    info: &VNodeInfo,
) {
    let Some(vport) = vport_of(inventory, key, index) else {
        return;
    };
    let node = VNode::from(info);
    let wants_keys = vport.p_keys.is_none();
    if vport.node != node
        && let Some(vport) = vport_mut(inventory, key, index)
    {
        reading.changed = true;
        vport.node = node;
    }
    if wants_keys && node.partition_cap > 0 {
        reading.again(Query::VPorts(key, VPortQuery::PKeys(index, 0)));
    }
}

/// Handles a block of P_Keys of a virtual port. After the first block, asks for the other blocks,
/// unless no manager has written the table yet.
fn on_vport_p_keys(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    (index, block): (u16, u16),
    table: &VPortPKeyTable,
) {
    let Some(vport) = vport_mut(inventory, key, index) else {
        return;
    };
    let image = Arc::make_mut(vport.p_keys.get_or_insert_default());
    reading.changed |= !image.holds(block, &table.p_keys());
    image.store(block, &table.p_keys());
    if block > 0 {
        return;
    }
    if vport.info.state() == PortState::Init && image.is_initial() {
        // The table has its power-on content: no manager has written it.
        image.mark_rest_empty();
        return;
    }
    for block in 1..p_keys::blocks(vport.node.partition_cap) {
        reading.again(Query::VPorts(key, VPortQuery::PKeys(index, block)));
    }
}

/// Handles the refusal (`status`) or silence of an agent that was asked about virtual ports.
pub(super) fn on_no_vports(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    query: VPortQuery,
    status: Option<Status>,
) {
    let Some(node) = inventory.hardware.node(key.node) else {
        return;
    };
    let kind = DeviceKind::of(&node.info, key.port);
    match (query, status) {
        (VPortQuery::Virtualization, Some(_)) => give_vports_up(reading, inventory, key, kind),
        (VPortQuery::Virtualization, None) => {
            if inventory.vport_reading.answers.unanswered(kind) {
                give_vports_up(reading, inventory, key, kind);
            } else {
                inventory.vport_reading.stale.insert(key);
                inventory.faults.owe(Query::VPorts(key, query), None);
            }
        }
        (VPortQuery::Guids(index, block), status) => {
            vport_guids::on_no_vport_guids(reading, inventory, key, (index, block), status);
        }
        // The index may be unused by now; VPortStateChange then shows that.
        (_, Some(_)) => {
            let is_gone = matches!(query, VPortQuery::Info(_));
            if let Some(index) = query.index().filter(|_| is_gone)
                && vport_of(inventory, key, index).is_some()
                && let Some(vports) = inventory.vports_mut(key)
            {
                vports.vports.remove(&index);
                reading.changed = true;
            }
        }
        (_, None) => inventory.faults.owe(Query::VPorts(key, query), None),
    }
}

/// Records that the kind of device does not support virtual ports, and forgets the virtual ports of
/// this port.
fn give_vports_up(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    kind: DeviceKind,
) {
    inventory
        .hardware
        .habits
        .learn(kind, DeviceHabit::RefusesVPorts);
    if let Some(port) = inventory.hardware.port_mut(key) {
        reading.changed |= port.vports.take().is_some();
    }
}

/// The highest index of a virtual port that rsm reads.
fn last_index(info: &VirtualizationInfo) -> u16 {
    info.vport_index_top().min(INDICES_MAX - 1)
}

/// The record of a virtual port; `None` if it is not known.
pub(super) fn vport_of(inventory: &Inventory, key: PortKey, index: u16) -> Option<&VPort> {
    inventory.vports(key)?.get(index)
}

/// Like [`vport_of`], mutable.
pub(super) fn vport_mut(inventory: &mut Inventory, key: PortKey, index: u16) -> Option<&mut VPort> {
    vport_of(inventory, key, index)?;
    inventory.vports_mut(key)?.vports.get_mut(&index)
}
