//! Handles the answers to all Gets except NodeInfo.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    ArGroupTable, ArInfo, ArLinearForwardingTable, Attribute, CapabilityMask, ExtendedPortInfo,
    GeneralInfo, LinearForwardingTable, MulticastForwardingTable, NodeDescription, PKeyTable,
    PortInfo, PortState, SlToVlMapping, SmInfo, SwitchInfo, SwitchPortStateTable,
};
use rsm_mad::wire::header::Status;
use rsm_model::habits::{DeviceHabit, DeviceKind};
use rsm_model::lft_image::LFT_BLOCK;
use rsm_model::mft_image::{self, MftBlock};
use rsm_model::{InventoryNode, InventoryPort, InventorySwitch, MISSES_TOLERATED};

#[cfg(feature = "error-correction")]
use super::error_correction;
use super::fault::Fault;
use super::inventory::Inventory;
use super::read_back::multicast_top;
use super::reading::Reading;
use super::{
    Query, Sweep, SweepScope, adaptive, capabilities, extended_port, managed, partition,
    rate_limits, reset, sl2vl, succession, vports,
};

impl Sweep {
    /// Handles the missing answer to a query other than NodeInfo: a refusal with `status`, or
    /// silence if `status` is `None`.
    pub(super) fn on_missing(
        &mut self,
        inventory: &mut Inventory,
        query: Query,
        status: Option<Status>,
    ) {
        if self.reading.misses_sample(query) {
            return;
        }
        if let Query::Sm(key) = query {
            return self.on_no_manager(inventory, key, status);
        }
        if status.is_some()
            && let Query::Port(key) = query
            && self.asks_without_extended_speeds(key)
        {
            return;
        }
        if status.is_some() {
            // A refusal ends an earlier silence. If the query still counts as unanswered, it is
            // recorded again below.
            inventory.faults.pay(query);
        }
        if let Query::Managed(key) = query
            && key.is_rate_limit()
        {
            return rate_limits::on_no_rate_limits(&mut self.reading, inventory, key, status);
        }
        if status.is_some()
            && let Query::Managed(key) = query
            && managed::on_managed_refused(inventory, key)
        {
            self.reading.changed = true;
            return;
        }
        let Some(guid) = query.node() else { return };
        if status.is_none() && !query.is_optional() {
            inventory.record_unanswered_get(PortKey::new(guid, query.port()));
        }
        if self.on_feature_missing(inventory, query, status) {
            return;
        }
        if status.is_none() {
            self.silent.insert(guid);
        } else if let Query::PKeys(key, _) = query {
            partition::on_p_keys_refused(&mut self.reading, inventory, key);
        }
        inventory.faults.owe(query, status);
        self.ask_neighbours(inventory, query, guid, status);
    }

    /// Handles the silence or refusal of a manager that was asked for SMInfo.
    fn on_no_manager(&mut self, inventory: &mut Inventory, key: PortKey, status: Option<Status>) {
        if status.is_none() {
            inventory.record_unanswered_get(key);
            // PortInfo shows whether the manager and its host are still there.
            self.reading.ask(Query::Port(key));
        }
        if inventory.hardware.manager(key).is_some() {
            self.reading.changed = true;
            inventory.hardware.put_manager(key, None);
        }
    }

    /// Handles a refusal of PortInfo: asks once more without the modifier's bit for extended
    /// speeds, which some devices refuse. Returns whether the refusal has no further consequence.
    ///
    /// The recorded habit of the device does not tell whether the refused Get had the bit, because
    /// the sweep may have sent the Get before the habit was learned.
    fn asks_without_extended_speeds(&mut self, key: PortKey) -> bool {
        match self.without_extended_speeds.get(&key) {
            None => {
                self.without_extended_speeds.insert(key, false);
                self.reading.again(Query::Port(key));
                true
            }
            // The refused Get was sent before the answered one.
            Some(true) => true,
            Some(false) => false,
        }
    }

    /// Handles a missing answer about an optional feature. Returns whether the query concerns an
    /// optional feature.
    fn on_feature_missing(
        &mut self,
        inventory: &mut Inventory,
        query: Query,
        status: Option<Status>,
    ) -> bool {
        let is_silent = status.is_none();
        match query {
            Query::AdaptiveRouting(guid) => {
                adaptive::on_no_ar_info(&mut self.reading, inventory, guid, is_silent)
            }
            Query::ArGroups(guid, _) | Query::ArEntries(guid, _) => {
                adaptive::on_no_adaptive_table(&mut self.reading, inventory, guid, is_silent);
            }
            Query::Capabilities(guid) => {
                capabilities::on_no_capabilities(&mut self.reading, inventory, guid, is_silent)
            }
            Query::PortStates(guid, block) => {
                self.port_states.on_no_port_states(
                    &mut self.reading,
                    inventory,
                    guid,
                    block,
                    is_silent,
                );
            }
            Query::ExtendedPort(key) => {
                extended_port::on_extended_port(&mut self.reading, inventory, key, None)
            }
            #[cfg(feature = "error-correction")]
            Query::ErrorCorrection(key) => {
                error_correction::on_error_correction(&mut self.reading, inventory, key, None)
            }
            Query::VPorts(key, query) => {
                vports::on_no_vports(&mut self.reading, inventory, key, query, status)
            }
            _ => return false,
        }
        true
    }

    /// Handles a missing answer of the node `guid`. A silent switch may be gone, so a light sweep
    /// asks its neighbours for their links.
    fn ask_neighbours(
        &mut self,
        inventory: &Inventory,
        query: Query,
        guid: Guid,
        status: Option<Status>,
    ) {
        if matches!(query, Query::Switch(_)) && self.is_outward() {
            if status.is_some() {
                // A switch that refuses SwitchInfo is alive, and may have nodes behind it.
                self.ask_reported_ports(inventory, guid);
            }
        } else if matches!(
            (query, self.reading.scope),
            (Query::Switch(_), SweepScope::Light)
        ) {
            let neighbours: Vec<PortKey> = inventory
                .hardware
                .node(guid)
                .map(|node| {
                    node.external_ports()
                        .filter_map(|(_, port)| port.peer)
                        .collect()
                })
                .unwrap_or_default();
            for peer in neighbours {
                self.reading.ask(Query::Port(peer));
            }
        }
    }

    /// Handles the answer to a query other than NodeInfo.
    pub(super) fn on_attribute(
        &mut self,
        inventory: &mut Inventory,
        query: Query,
        data: &[u8; 64],
    ) {
        inventory.faults.pay(query);
        match query {
            Query::Node(_) => {}
            Query::Description(guid) => {
                self.on_description(inventory, guid, *NodeDescription::from_data(data));
            }
            Query::Switch(guid) => self.on_switch(inventory, guid, SwitchInfo::from_data(data)),
            Query::Port(key) => {
                if let Some(answered) = self.without_extended_speeds.get_mut(&key) {
                    *answered = true;
                    learn_refused_extended_speeds(inventory, key);
                }
                self.on_port(inventory, key, PortInfo::from_data(data));
            }
            Query::Table(guid, block) => {
                let entries = LinearForwardingTable::from_data(data);
                self.on_table(inventory, guid, block, entries);
            }
            Query::PortStates(guid, block) => {
                let table = SwitchPortStateTable::from_data(data);
                let reading = &mut self.reading;
                let same = self
                    .port_states
                    .on_port_states(reading, inventory, guid, block, table);
                for key in same {
                    self.continue_over(inventory, key);
                }
            }
            Query::Sm(key) => self.on_manager(inventory, key, *SmInfo::from_data(data)),
            _ => on_table_or_feature(&mut self.reading, inventory, query, data),
        }
        match query {
            Query::Description(guid) | Query::Switch(guid) => self.record_answer(inventory, guid),
            Query::Port(key) => self.record_answer(inventory, key.node),
            _ => {}
        }
    }

    /// Handles NodeDescription.
    fn on_description(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        description: NodeDescription,
    ) {
        if let Some(node) = inventory.hardware.node_mut(guid) {
            self.reading.changed |= node.description != Some(description);
            node.description = Some(description);
        }
    }

    /// Handles SMInfo of another manager.
    fn on_manager(&mut self, inventory: &mut Inventory, key: PortKey, info: SmInfo) {
        let known = inventory.hardware.manager(key);
        inventory.hardware.put_manager(key, Some(info));
        let relevant = |sm: SmInfo| (sm.priority(), sm.sm_state(), sm.sm_key());
        let now = inventory.hardware.manager(key);
        self.reading.changed |= known.map(relevant) != now.map(relevant);
    }

    /// Handles a block of a linear forwarding table.
    fn on_table(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        block: u16,
        entries: &LinearForwardingTable,
    ) {
        let query = Query::Table(guid, block);
        let block = usize::from(block);
        let known = inventory
            .hardware
            .node(guid)
            .and_then(|node| node.switch.as_ref());
        // An unchanged block must not count as a change of the switch.
        let is_sample = self.reading.read_back.is_sample(query);
        let is_held = known.is_some_and(|known| {
            let top = known.info.linear_fdb_top();
            known.lft.holds(block, entries.ports())
                || is_sample && known.lft.agrees(block, entries.ports(), top)
        });
        if !is_held && let Some(switch) = inventory.hardware.switch_mut(guid) {
            self.reading.changed = true;
            self.stale |= switch.lft.is_known(block);
            switch.lft.read(block, entries);
            self.reading.on_differing_block(inventory, query);
        }
    }

    /// Records that a node answered in this sweep.
    fn record_answer(&mut self, inventory: &mut Inventory, guid: Guid) {
        inventory.hardware.mark_seen(guid);
        let missed = inventory.hardware.node(guid).map_or(0, |node| node.missed);
        if missed > 0
            && let Some(node) = inventory.hardware.node_mut(guid)
        {
            self.reading.changed |= missed > MISSES_TOLERATED;
            node.missed = 0;
        }
    }

    /// Handles SwitchInfo: records it, detects a reset, and asks for the tables and ports to read.
    fn on_switch(&mut self, inventory: &mut Inventory, guid: Guid, info: &SwitchInfo) {
        let Some(node) = inventory.hardware.node(guid) else {
            return;
        };
        let port_state_change = info.port_state_change();
        let first = node.switch.is_none();
        let known = node.switch.as_ref().map(|switch| switch.info);
        let was_reset = known.is_some_and(|known| reset::forgot_tables(&known, info));
        self.stale |= known.is_some_and(|known| succession::differs(&known, info));
        if let Some(reported) = &mut self.reported_ahead {
            // Record nothing else: a standby keeps its known path to the master until it takes
            // over.
            reported.extend(port_state_change.then_some(guid));
            return;
        }
        if first && let Some(node) = inventory.hardware.node_mut(guid) {
            self.reading.changed = true;
            node.switch = Some(Box::new(InventorySwitch::new(*info)));
        }
        inventory.hardware.put_switch_info(guid, info);
        if was_reset {
            self.on_reset(inventory, guid);
        } else if first {
            partition::ask_enforced(&mut self.reading, inventory, guid);
        } else if !self.is_outward() {
            self.reading.ask_samples(inventory, guid);
        }
        if let Some(known) = known {
            self.reading
                .compare_switch_info(inventory, guid, &known, info);
        }
        let Some(node) = inventory.hardware.node(guid) else {
            return;
        };
        let audit = matches!(self.reading.scope, SweepScope::Full { audit: true });
        let top = info.linear_fdb_top();
        let blocks: Vec<u16> = match &node.switch {
            Some(_) if top.0 == 0 => Vec::new(),
            Some(_) if audit => (0..=(top.index() / LFT_BLOCK) as u16).collect(),
            Some(switch) => switch
                .lft
                .unknown_blocks(top)
                .map(|block| block as u16)
                .collect(),
            None => Vec::new(),
        };
        let multicast = match &node.switch {
            // A switch that forwards nothing has not been configured by a manager yet.
            Some(switch) if top.0 != 0 => multicast_blocks(inventory, node, switch, audit),
            _ => Vec::new(),
        };
        for block in blocks {
            self.reading.ask(Query::Table(guid, block));
        }
        for at in multicast {
            self.reading.ask(Query::Multicast(guid, at));
        }
        sl2vl::ask_sl2vl(&mut self.reading, inventory, guid, None);
        if first || audit {
            adaptive::ask_ar_info(&mut self.reading, inventory, guid);
        }
        adaptive::check_adaptive(&mut self.reading, inventory, guid, audit);
        if port_state_change && !matches!(self.reading.scope, SweepScope::Full { .. }) {
            self.reading.changed = true;
            self.ask_reported(inventory, guid);
        }
        self.continue_search(inventory, guid, port_state_change);
    }

    /// Handles the reset of a switch: its tables are lost, and its other settings may be lost.
    fn on_reset(&mut self, inventory: &mut Inventory, guid: Guid) {
        self.reading.changed = true;
        if let Some(switch) = inventory.hardware.switch_mut(guid) {
            switch.lft.forget();
            switch.mft.forget();
            switch.sl2vl.forget();
            switch.adaptive.forget();
        }
        inventory.hardware.put_ar_info(guid, None);
        inventory.adaptive_trials.end(guid);
        adaptive::check_adaptive(&mut self.reading, inventory, guid, false);
        partition::forget_all_p_keys(&mut self.reading, inventory, guid);
        self.ask_node(inventory, guid);
    }

    /// Handles PortInfo: records it, and checks each attribute that depends on PortInfo.
    fn on_port(&mut self, inventory: &mut Inventory, key: PortKey, info: &PortInfo) {
        let Some(record) = inventory.hardware.port(key) else {
            return;
        };
        let (before, known) = (record.state(), record.info);
        // An unchanged answer must not count as a change of the node.
        if known != Some(InventoryPort::shown(key.port, info))
            && let Some(record) = inventory.hardware.port_mut(key)
        {
            record.answered(key.port, info);
        }
        if let Some(known) = &known {
            self.reading.compare_port_info(inventory, key, known);
        }
        inventory.unverified.on_read(key);
        self.port_states
            .check(inventory, key, before, info.port_state());
        extended_port::check_extended_port(&mut self.reading, inventory, key, before);
        #[cfg(feature = "error-correction")]
        error_correction::check_error_correction(&mut self.reading, inventory, key, before);
        vports::check_vports(&mut self.reading, inventory, key, before);
        let Some(record) = inventory.hardware.port(key) else {
            return;
        };
        self.reading.changed |= match (&record.info, &known) {
            // Changed error counters need no comparison with the plan.
            (Some(now), Some(known)) if self.reading.read_back.is_sample(Query::Port(key)) => {
                without_counts(now) != without_counts(known)
            }
            (now, known) => now != known,
        };
        if key.port == PortNum::ZERO && reset::forgot_lid(known.as_ref(), info) {
            self.on_reset(inventory, key.node);
        }
        if inventory.hardware.is_switch(key.node) && reset::forgot_settings(known.as_ref(), info) {
            self.reading.read_back.record_lost_settings(key.node);
        }
        if inventory.check_m_key(key, info) {
            self.reading.again(Query::Port(key));
        }
        partition::check_p_keys(&mut self.reading, inventory, key, known.as_ref());
        managed::check_managed(&mut self.reading, inventory, key);
        rate_limits::check_rate_limits(&mut self.reading, inventory, key);
        sl2vl::check_sl2vl(&mut self.reading, inventory, key);
        self.check_manager(inventory, key, info);
        let is_local = inventory.hardware.local == Some(key);
        if key.port != PortNum::ZERO && (is_local || inventory.hardware.is_switch(key.node)) {
            self.check_link(inventory, key, before, info.port_state());
        }
    }

    /// Handles a port's PortInfo: asks the subnet manager behind the port for SMInfo, if `info`
    /// shows one; forgets a manager that is no longer shown.
    fn check_manager(&mut self, inventory: &mut Inventory, key: PortKey, info: &PortInfo) {
        let is_local = inventory.hardware.local == Some(key);
        let external = key.port != PortNum::ZERO;
        if info.capability_mask().contains(CapabilityMask::IS_SM)
            && (is_local || !(external && inventory.hardware.is_switch(key.node)))
        {
            if !is_local {
                self.reading.ask(Query::Sm(key));
            }
        } else if inventory.hardware.manager(key).is_some() {
            inventory.hardware.put_manager(key, None);
        }
    }

    /// Handles the state of an external port whose state was `before`: asks for the node behind the
    /// port if the link may be a new one, and forgets the cable if the link is down.
    fn check_link(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        before: Option<PortState>,
        state: PortState,
    ) {
        if state == PortState::Down {
            inventory.faults.heal_port(key);
            self.link_down(key);
            if let Some(peer) = inventory.unplug(key) {
                self.reading.changed = true;
                self.lost(inventory, key, peer);
            }
            return;
        }
        let Some(record) = inventory.hardware.port(key) else {
            return;
        };
        let confirmed = record.peer.is_some() && record.peer_epoch == inventory.hardware.epoch;
        // The cable may have been moved since the last answer.
        let retrained = record.is_retrained(before);
        // Both ends of a link fall to Init together. A higher recorded state of the other end was
        // read before the fall, perhaps in this sweep.
        let is_init = record.state() == Some(PortState::Init);
        let outdated_peer = record.peer.filter(|&peer| {
            let state = inventory.hardware.port(peer).and_then(InventoryPort::state);
            is_init && matches!(state, Some(PortState::Armed | PortState::Active))
        });
        if retrained {
            // Earlier answers of this sweep concern the former link.
            self.reading.queries.forget(Query::Node(Some(key)));
            if let Some(peer) = record.peer {
                self.reading.queries.forget(Query::Port(peer));
            }
            if inventory.hardware.is_switch(key.node) {
                // A reset of the switch, too, lets its links train again.
                self.reading.again(Query::Switch(key.node));
            }
        }
        let wanted = match self.reading.scope {
            SweepScope::Full { .. } => !confirmed || retrained,
            // An audited port may have a new neighbour that the master knows.
            _ => {
                let is_moved = !confirmed && self.reading.audited.contains(&key);
                record.peer.is_none() || retrained || is_moved
            }
        };
        let is_settled_fault = match inventory.faults.port(key) {
            // The node may have another GUID by now.
            Some(Fault::DuplicateGuid { .. }) => !self.is_target(key.node),
            Some(Fault::SelfCabled | Fault::Loopback(_)) => true,
            _ => false,
        };
        if wanted && (retrained || !is_settled_fault) {
            self.reading.ask(Query::Node(Some(key)));
        } else {
            if let Some(peer) = outdated_peer {
                self.reading.again(Query::Port(peer));
            }
            self.continue_over(inventory, key);
        }
    }
}

/// Handles an answer about a table or a feature of a node. Such an answer changes neither paths nor
/// suspects.
fn on_table_or_feature(
    reading: &mut Reading,
    inventory: &mut Inventory,
    query: Query,
    data: &[u8; 64],
) {
    match query {
        Query::Multicast(guid, at) => {
            let masks = MulticastForwardingTable::from_data(data).masks();
            let known = inventory
                .hardware
                .node(guid)
                .and_then(|node| node.switch.as_ref());
            let is_held = known.is_some_and(|known| known.mft.holds(at, &masks));
            if !is_held && let Some(switch) = inventory.hardware.switch_mut(guid) {
                reading.changed = true;
                switch.mft.store(at, &masks);
                reading.on_differing_block(inventory, query);
            }
        }
        Query::Managed(key) => managed::on_managed(reading, inventory, key, data),
        Query::PKeys(key, block) => {
            partition::on_p_keys(reading, inventory, key, block, PKeyTable::from_data(data));
        }
        Query::SlToVl(guid, input, output) => {
            let mapping = SlToVlMapping::from_data(data);
            sl2vl::on_sl2vl(reading, inventory, (guid, input, output), mapping);
        }
        Query::AdaptiveRouting(guid) => {
            adaptive::on_ar_info(reading, inventory, guid, *ArInfo::from_data(data));
        }
        Query::ArGroups(guid, block) => {
            adaptive::on_ar_groups(
                reading,
                inventory,
                guid,
                block,
                ArGroupTable::from_data(data),
            );
        }
        Query::ArEntries(guid, block) => {
            let table = ArLinearForwardingTable::from_data(data);
            adaptive::on_ar_entries(reading, inventory, guid, block, table);
        }
        Query::Capabilities(guid) => {
            capabilities::on_capabilities(reading, inventory, guid, GeneralInfo::from_data(data));
        }
        Query::ExtendedPort(key) => {
            let info = *ExtendedPortInfo::from_data(data);
            extended_port::on_extended_port(reading, inventory, key, Some(info));
        }
        #[cfg(feature = "error-correction")]
        Query::ErrorCorrection(key) => {
            error_correction::on_error_correction(reading, inventory, key, Some(data));
        }
        Query::VPorts(key, query) => vports::on_vports(reading, inventory, key, query, data),
        _ => {}
    }
}

/// PortInfo with the fields cleared that the device itself counts or measures.
fn without_counts(info: &PortInfo) -> PortInfo {
    let mut info = *info;
    info.set_m_key_violations(0)
        .set_p_key_violations(0)
        .set_q_key_violations(0)
        .set_diag_code(0)
        .set_max_credit_hint(0)
        .set_link_round_trip_latency(0);
    info
}

/// Records that a kind of device refuses PortInfo with the bit for extended speeds, after a port
/// refused the Get with the bit and answered the Get without it.
fn learn_refused_extended_speeds(inventory: &mut Inventory, key: PortKey) {
    if let Some(node) = inventory.hardware.node(key.node) {
        let kind = DeviceKind::of(&node.info, key.port);
        inventory
            .hardware
            .habits
            .learn(kind, DeviceHabit::RefusesExtendedSpeeds);
    }
}

/// The blocks of a switch's multicast table to read: the used blocks that are unknown, or all used
/// blocks if `audit` is true.
fn multicast_blocks(
    inventory: &Inventory,
    node: &InventoryNode,
    switch: &InventorySwitch,
    audit: bool,
) -> Vec<MftBlock> {
    let Some(top) = multicast_top(inventory, switch) else {
        return Vec::new();
    };
    mft_image::blocks_up_to(top, mft_image::positions(node.info.num_ports()))
        .filter(|&at| audit || !switch.mft.is_known(at))
        .collect()
}
