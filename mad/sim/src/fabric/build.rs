//! Builds the hardware of a netlist in its state after power-on.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{
    CapabilityMask, CapabilityMask2, LinkDownDefault, LinkWidths, Mtu, NodeDescription, NodeInfo,
    NodeType, PortInfo, PortPhysicalState, PortState, SwitchInfo, VlCap,
};
use rsm_routing::netlist::{self, LinkSpeed, Netlist, NodeKind};

use super::adaptive::AdaptiveRouting;
use super::node::{Node, Silence, Switch};
use super::port::{NONE, Port, RateSet};
use super::{Fabric, MAX_PORTS};
use crate::config::SimConfig;
use crate::error::SimError;
use crate::personality::{Habit, Personality, PortFields};
use crate::rng::Probability;

/// The rate of a node's ports if none of its cables states a rate: 4x HDR.
pub(crate) const USUAL: (netlist::LinkWidth, LinkSpeed) = (netlist::LinkWidth::X4, LinkSpeed::Hdr);

/// The NeighborMTU after power-on: 256 bytes, the minimum, so that data packets are lost if a
/// manager forgets to set it.
const FIRST_MTU: Mtu = Mtu::Bytes256;

/// The RespTimeValue of ports with an address, as on ConnectX-7: 0.27 s.
const RESP_TIME_VALUE: u8 = 16;

impl Fabric {
    /// Builds the nodes and cables of a netlist, all powered and with links that are down. Fails if
    /// there are too many ports.
    pub(crate) fn build(netlist: &Netlist, config: &SimConfig) -> Result<Fabric, SimError> {
        let mut fabric = Fabric::default();
        // Every port of a node supports the rate of its best cable.
        let mut best = vec![None; netlist.nodes().len()];
        for cable in netlist.cables() {
            for (node, _) in [cable.a, cable.b] {
                let (width, speed) = best[node].unwrap_or((cable.width, cable.speed));
                best[node] = Some((width.max(cable.width), speed.max(cable.speed)));
            }
        }
        for (node, &best) in netlist.nodes().iter().zip(&best) {
            let (width, speed) = best.unwrap_or(USUAL);
            fabric.add_node(node, rate_up_to(width, speed), config)?;
        }
        for cable in netlist.cables() {
            let end =
                |(node, port): netlist::CableEnd| fabric.nodes[node].first_port + u32::from(port.0);
            let (a, b) = (end(cable.a), end(cable.b));
            fabric.connect(a, b, rate_up_to(cable.width, cable.speed));
        }
        Ok(fabric)
    }

    /// Adds a powered node without cables, and returns its index. All of its ports support the
    /// rates `supported`.
    pub(crate) fn add_node(
        &mut self,
        spec: &netlist::Node,
        supported: RateSet,
        config: &SimConfig,
    ) -> Result<u32, SimError> {
        let first_port = self.ports.len();
        let after = first_port + usize::from(spec.num_ports) + 1;
        if after > MAX_PORTS as usize {
            return Err(SimError::TooManyPorts { max: MAX_PORTS });
        }
        let index = self.nodes.len() as u32;
        let personality = config.devices.of(spec.kind, spec.guid);
        let enhanced_port0 = spec.enhanced_port0 || personality.has(Habit::EnhancedPort0);
        let node = Node {
            personality,
            supported,
            guid: spec.guid,
            kind: spec.kind,
            first_port: first_port as u32,
            num_ports: spec.num_ports,
            is_powered: true,
            silence: Silence::None,
            busy_answers: 0,
            loss: Probability::NEVER,
            epoch: 0,
            busy_until: Time::ZERO,
            answers_until: Time::ZERO,
            requests: 0,
            queued: 0,
            sets: 0,
            info: node_info(spec, config),
            description: NodeDescription::new(&spec.description),
            switch: (spec.kind == NodeKind::Switch).then(|| {
                let mut switch = blank_switch(enhanced_port0, config);
                switch.adaptive = adaptive_routing(personality, spec.guid);
                Box::new(switch)
            }),
            traps: Vec::new(),
            traps_begun: 0,
        };
        for number in 0..=spec.num_ports {
            let mut port = Port {
                info: PortInfo::default(),
                guid: spec.port(PortNum(number)).guid,
                tables: None,
                peer: NONE,
                node: index,
                link_generation: 0,
                lease_generation: 0,
                client: NONE,
                loss: Probability::NEVER,
                number,
                is_unplugged: false,
                is_lease_running: false,
                shown_old: PortFields::NONE,
                aggregation_enabled: false,
                out_of_order_sls: 0,
                cable: supported,
                fdr10_disabled: false,
                trained_without_fdr10: false,
            };
            reset_port(&mut port, &node, config);
            if config.keep_lids && (number != 0) != node.is_switch() {
                let spec = spec.port(PortNum(number));
                port.info.set_lid(spec.lid).set_lmc(spec.lmc);
            }
            self.ports.push(port);
        }
        self.nodes.push(node);
        self.by_guid.insert(spec.guid, index);
        self.add_vports(index, config);
        Ok(index)
    }

    /// Puts a cable between two ports.
    pub(crate) fn connect(&mut self, a: u32, b: u32, cable: RateSet) {
        for (end, peer) in [(a, b), (b, a)] {
            let port = self.port_mut(end);
            port.peer = peer;
            port.cable = cable;
            port.is_unplugged = false;
        }
    }

    /// Sets the personality of a node. Links keep their states, but change to the best rate that
    /// both ends now have.
    pub(crate) fn set_personality(
        &mut self,
        index: u32,
        personality: Personality,
        config: &SimConfig,
    ) {
        let node = &mut self.nodes[index as usize];
        node.personality = personality.fitting(node.kind);
        if let Some(switch) = &mut node.switch
            && personality.has(Habit::EnhancedPort0)
        {
            switch.info.set_enhanced_port0(true);
        }
        if let Some(switch) = &mut node.switch
            && switch.adaptive.is_none()
        {
            switch.adaptive = adaptive_routing(node.personality, node.guid);
        }
        let node = &self.nodes[index as usize];
        for index in node.ports() {
            let port = &mut self.ports[index as usize];
            let fresh = fresh_info(node, port.number, config);
            copy_capabilities(&mut port.info, &fresh);
            if let Some(vports) = self.vports.get(&index) {
                vports.add_capability(&mut port.info);
            }
            if node.is_switch() && port.number == 0 {
                port.info
                    .set_link_width_active(fresh.link_width_active())
                    .set_link_speed_active(fresh.link_speed_active());
                continue;
            }
            let (port, peer) = (&self.ports[index as usize], self.ports[index as usize].peer);
            if peer == NONE || !port.is_up() {
                continue;
            }
            if let Some(rate) = port.train_with(&self.ports[peer as usize]) {
                self.ports[index as usize].run_at(rate);
                self.ports[peer as usize].run_at(rate);
            }
        }
    }

    /// Resets a node to its state after power-on: without tables, LIDs and keys. The links of the
    /// node are down.
    pub(crate) fn reset_node(&mut self, index: u32, config: &SimConfig) {
        let node = &mut self.nodes[index as usize];
        if let Some(switch) = &mut node.switch {
            **switch = blank_switch(switch.info.enhanced_port0(), config);
            switch.adaptive = adaptive_routing(node.personality, node.guid);
        }
        node.traps.clear();
        node.queued = 0;
        node.busy_until = Time::ZERO;
        node.answers_until = Time::ZERO;
        node.requests = 0;
        node.epoch += 1;
        let node = &self.nodes[index as usize];
        for port in node.ports() {
            let port = &mut self.ports[port as usize];
            let is_sm = port.info.capability_mask() & CapabilityMask::IS_SM;
            port.tables = None;
            port.fdr10_disabled = false;
            port.is_lease_running = false;
            port.lease_generation += 1;
            port.shown_old = PortFields::NONE;
            (port.aggregation_enabled, port.out_of_order_sls) = (false, 0);
            reset_port(port, node, config);
            // IsSM stays, because it tells whether the host runs a manager.
            let capabilities = port.info.capability_mask() | is_sm;
            port.info.set_capability_mask(capabilities);
        }
        for port in self.nodes[index as usize].ports() {
            if let Some(vports) = self.vports.get_mut(&port) {
                vports.reset();
                vports.add_capability(&mut self.ports[port as usize].info);
            }
        }
    }
}

/// Copies the capabilities that a personality affects from `fresh`, the PortInfo after power-on.
/// IsSM stays; OperationalVLs falls to the new VLCap if it was higher.
fn copy_capabilities(to: &mut PortInfo, fresh: &PortInfo) {
    let is_sm = to.capability_mask() & CapabilityMask::IS_SM;
    let vls = to.operational_vls().min(fresh.vl_cap());
    to.set_capability_mask(fresh.capability_mask() | is_sm)
        .set_capability_mask2(fresh.capability_mask2())
        .set_link_width_supported(fresh.link_width_supported())
        .set_link_width_enabled(fresh.link_width_enabled())
        .set_link_speed_supported(fresh.link_speed_supported())
        .set_link_speed_enabled(fresh.link_speed_enabled())
        .set_link_speed_ext_supported(fresh.link_speed_ext_supported())
        .set_link_speed_ext_enabled(fresh.link_speed_ext_enabled())
        .set_link_speed_ext_supported2(fresh.link_speed_ext_supported2())
        .set_link_speed_ext_enabled2(fresh.link_speed_ext_enabled2())
        .set_vl_cap(fresh.vl_cap())
        .set_operational_vls(vls);
}

/// All rates up to this width and this speed.
pub(crate) fn rate_up_to(width: netlist::LinkWidth, speed: LinkSpeed) -> RateSet {
    let widths = match width {
        netlist::LinkWidth::X1 => LinkWidths::X1,
        netlist::LinkWidth::X2 => LinkWidths::X1 | LinkWidths::X2,
        netlist::LinkWidth::X4 => LinkWidths::X1 | LinkWidths::X2 | LinkWidths::X4,
        netlist::LinkWidth::X8 => LinkWidths::X1 | LinkWidths::X4 | LinkWidths::X8,
        netlist::LinkWidth::X12 => LinkWidths::X1 | LinkWidths::X4 | LinkWidths::X12,
    };
    let highest = match speed {
        LinkSpeed::Sdr => 0x01,
        LinkSpeed::Ddr => 0x02,
        // FDR10 differs from QDR only in an attribute of a vendor.
        LinkSpeed::Qdr | LinkSpeed::Fdr10 => 0x04,
        LinkSpeed::Fdr => 0x08,
        LinkSpeed::Edr => 0x10,
        LinkSpeed::Hdr => 0x20,
        LinkSpeed::Ndr => 0x40,
        LinkSpeed::Xdr => 0x80u8,
    };
    RateSet {
        widths,
        speeds: highest | (highest - 1),
    }
}

fn node_info(spec: &netlist::Node, config: &SimConfig) -> NodeInfo {
    let system = if spec.system_image_guid == Guid::ZERO {
        spec.guid
    } else {
        spec.system_image_guid
    };
    let mut info = NodeInfo::default();
    info.set_base_version(1)
        .set_class_version(1)
        .set_node_type(match spec.kind {
            NodeKind::Ca => NodeType::Ca,
            NodeKind::Switch => NodeType::Switch,
            NodeKind::Router => NodeType::Router,
        })
        .set_num_ports(spec.num_ports)
        .set_system_image_guid(system)
        .set_node_guid(spec.guid)
        .set_partition_cap(config.partition_cap)
        .set_device_id(spec.device_id)
        .set_vendor_id(spec.vendor_id);
    info
}

/// The switch part of a node after power-on, with empty tables and without adaptive routing.
fn blank_switch(enhanced_port0: bool, config: &SimConfig) -> Switch {
    let mut info = SwitchInfo::default();
    info.set_linear_fdb_cap(config.linear_fdb_cap)
        .set_multicast_fdb_cap(config.multicast_fdb_cap)
        .set_partition_enforcement_cap(config.partition_enforcement_cap)
        .set_inbound_enforcement_cap(true)
        .set_outbound_enforcement_cap(true)
        .set_optimized_sl_to_vl_mapping_programming(u8::from(config.optimized_sl_to_vl))
        .set_enhanced_port0(enhanced_port0);
    Switch {
        info,
        lft: Vec::new(),
        mft: BTreeMap::new(),
        frozen_states: BTreeMap::new(),
        adaptive: None,
    }
}

/// The adaptive routing of a switch after power-on, `None` if the switch does not support it.
fn adaptive_routing(personality: Personality, switch: Guid) -> Option<AdaptiveRouting> {
    let is_supported = personality.has(Habit::AdaptiveRouting);
    is_supported.then(|| AdaptiveRouting::blank(switch))
}

/// Resets a port to its state after power-on.
fn reset_port(port: &mut Port, node: &Node, config: &SimConfig) {
    port.info = fresh_info(node, port.number, config);
}

/// The PortInfo of the port with this number after power-on, without a link.
fn fresh_info(node: &Node, number: u8, config: &SimConfig) -> PortInfo {
    let supported = node.supported;
    let port0 = node.is_switch() && number == 0;
    let mut info = PortInfo::default();
    info.set_gid_prefix(DEFAULT_GID_PREFIX)
        .set_lid(Lid::NONE)
        .set_capability_mask(capabilities(node, port0))
        .set_capability_mask2(capabilities2(supported))
        .set_link_width_supported(supported.widths)
        .set_link_width_enabled(supported.widths)
        .set_link_speed_supported(supported.base())
        .set_link_speed_enabled(supported.base())
        .set_link_speed_ext_supported(supported.ext())
        .set_link_speed_ext_enabled(supported.ext())
        .set_link_speed_ext_supported2(supported.ext2())
        .set_link_speed_ext_enabled2(supported.ext2())
        .set_link_down_default_state(LinkDownDefault::Polling)
        .set_vl_cap(VlCap::from_code(config.vl_cap))
        .set_operational_vls(VlCap::Vl0)
        .set_vl_arbitration_high_cap(config.vl_arb_cap)
        .set_vl_arbitration_low_cap(config.vl_arb_cap)
        .set_mtu_cap(Mtu::from_code(config.mtu_cap))
        .set_neighbor_mtu(FIRST_MTU)
        .set_resp_time_value(if port0 || !node.is_switch() {
            RESP_TIME_VALUE
        } else {
            0
        })
        .set_guid_cap(if port0 || !node.is_switch() {
            config.guid_cap
        } else {
            0
        });
    if port0 {
        // A base port 0 is the management interface only; it has no link that could be down (IBA
        // 18.2.4.1).
        info.set_port_state(PortState::Active)
            .set_port_physical_state(PortPhysicalState::LinkUp);
        if !node.has_enhanced_port0() {
            info.set_neighbor_mtu(Mtu::from_code(config.mtu_cap));
        }
    } else {
        info.set_port_state(PortState::Down)
            .set_port_physical_state(PortPhysicalState::Polling);
    }
    node.personality
        .remove_missing_capabilities(&mut info, node.role(number));
    info
}

/// The CapabilityMask of a port; `port0` is set for port 0 of a switch.
fn capabilities(node: &Node, port0: bool) -> CapabilityMask {
    let enhanced = node.has_enhanced_port0();
    let mut capabilities = CapabilityMask::IS_TRAP_SUPPORTED
        | CapabilityMask::IS_SYSTEM_IMAGE_GUID_SUPPORTED
        | CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED
        | CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED
        | CapabilityMask::IS_CAPABILITY_MASK_NOTICE_SUPPORTED
        | CapabilityMask::IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED;
    if node.is_switch() {
        capabilities = capabilities | CapabilityMask::IS_MULTICAST_FDB_TOP_SUPPORTED;
    } else {
        capabilities = capabilities
            | CapabilityMask::IS_AUTOMATIC_MIGRATION_SUPPORTED
            | CapabilityMask::IS_COMMUNICATION_MANAGEMENT_SUPPORTED;
    }
    if !port0 || enhanced {
        capabilities = capabilities
            | CapabilityMask::IS_SL_MAPPING_SUPPORTED
            | CapabilityMask::IS_CLIENT_REREGISTRATION_SUPPORTED;
    }
    capabilities
}

/// The CapabilityMask2 of a port that supports these rates.
fn capabilities2(supported: RateSet) -> CapabilityMask2 {
    let mut capabilities = CapabilityMask2::NONE;
    for (is_supported, bit) in [
        (
            supported.widths.contains(LinkWidths::X2),
            CapabilityMask2::IS_LINK_WIDTH_2X_SUPPORTED,
        ),
        (
            supported.speeds & 0x20 != 0,
            CapabilityMask2::IS_LINK_SPEED_HDR_SUPPORTED,
        ),
        (
            supported.speeds & 0x40 != 0,
            CapabilityMask2::IS_LINK_SPEED_NDR_SUPPORTED,
        ),
        (
            supported.speeds & 0x80 != 0,
            CapabilityMask2::IS_EXTENDED_SPEEDS2_SUPPORTED
                | CapabilityMask2::IS_LINK_SPEED_XDR_SUPPORTED,
        ),
    ] {
        if is_supported {
            capabilities = capabilities | bit;
        }
    }
    capabilities
}

/// The prefix of GIDs before a manager sets one (IBA 4.1.1).
const DEFAULT_GID_PREFIX: u64 = 0xFE80_0000_0000_0000;
