//! The agent's answers for GeneralInfo and ExtendedPortInfo of NVIDIA devices, and for
//! SwitchPortStateTable and PortInfoExtended.

use rsm_ids::{LinkSpeed, PortNum};
use rsm_mad::wire::attr::{
    ArGroupTable, ArLinearForwardingTable, Attribute, Capabilities, Capability, ExtendedPortInfo,
    FecMode, GeneralInfo, MlnxLinkSpeed, PortInfoExtended, PortInfoExtendedCapabilities, PortState,
    SpecialPortType, SwitchPortStateTable,
};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::SMP_DATA_LEN;
use rsm_routing::netlist::NodeKind;

use super::{Handled, Request};
use crate::fabric::NONE;
use crate::personality::Habit;

type Data = [u8; SMP_DATA_LEN];

/// The vendor's identity in NodeInfo.
const MELLANOX: u32 = 0x02C9;

/// The capabilities of a Quantum-2 switch in a running fabric, except those that the simulated
/// switch lacks.
const SWITCH: Capabilities = Capabilities::NONE
    .with(Capability::ExtendedPortInfo)
    .with(Capability::ExtendedNodeInfo)
    .with(Capability::SharpAggregationNode)
    .with(Capability::SpecialPortMarking)
    .with(Capability::EnhancedTrap128);
/// The capabilities of a ConnectX-7 adapter.
const ADAPTER: Capabilities = Capabilities::NONE
    .with(Capability::ExtendedPortInfo)
    .with(Capability::OutOfOrder);
/// The capabilities of an adapter that accepts packets only in order.
const IN_ORDER: Capabilities = Capabilities::NONE.with(Capability::ExtendedPortInfo);

impl Request<'_> {
    /// Handles a Get of GeneralInfo. Refuses the Get unless the device has virtual ports, rate
    /// limits or a habit that provides GeneralInfo.
    pub(super) fn get_general_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let mut info = GeneralInfo::default();
        if self.has(Habit::NonsenseGeneralInfo) {
            *data = [0xFF; SMP_DATA_LEN];
            return Ok(());
        }
        let has_vports = self.fabric.vports.contains_key(&self.entry);
        let has_rate_limits = self.has_rate_limits();
        if !self.has(Habit::GeneralInfo) && !has_vports && !has_rate_limits {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        if modifier != GeneralInfo::CAPABILITIES {
            return Err(Status::INVALID_FIELD);
        }
        let routes_adaptively = self.has(Habit::AdaptiveRouting);
        let mut adapter = if self.has(Habit::NeedsOrder) {
            IN_ORDER
        } else {
            ADAPTER
        };
        if has_rate_limits {
            adapter = adapter
                .with(Capability::QosSlRateLimit)
                .with(Capability::QosSlVPortRateLimit);
        }
        info.set_capabilities(match (self.is_switch(), has_vports) {
            (true, _) if routes_adaptively => SWITCH.with(Capability::AdaptiveRouting),
            (true, _) => SWITCH,
            (false, true) if self.has(Habit::NoVPortGuids) => {
                adapter.with(Capability::Virtualization)
            }
            (false, true) => adapter
                .with(Capability::Virtualization)
                .with(Capability::VPortGuidInfo),
            (false, false) => adapter,
        });
        *data = *info.as_data();
        Ok(())
    }

    /// Handles a Get of ExtendedPortInfo, which only devices of the vendor know.
    pub(super) fn get_extended_port_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        if self.fabric.node(self.node).info.vendor_id() != MELLANOX {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let index = self.info_port(modifier)?;
        let port = self.fabric.port(index);
        let mut info = ExtendedPortInfo::default();
        info.set_ame(self.has(Habit::GeneralInfo))
            .set_sharp_an_enabled(port.aggregation_enabled)
            .set_ooo_sl_mask(port.out_of_order_sls);
        if self.has(Habit::Fdr10) {
            info.set_link_speed_supported(MlnxLinkSpeed::FDR10);
            if !port.fdr10_disabled {
                info.set_link_speed_enabled(MlnxLinkSpeed::FDR10);
            }
            let is_qdr = port.info.effective_speed() == Some(LinkSpeed::Qdr);
            if is_qdr && !port.trained_without_fdr10 {
                info.set_link_speed_active(MlnxLinkSpeed::FDR10);
            }
        }
        if port.peer != NONE {
            let peer = self.fabric.node(self.fabric.port(port.peer).node);
            let is_aggregation =
                peer.kind != NodeKind::Switch && peer.personality.has(Habit::AggregationNode);
            if is_aggregation && self.has(Habit::GeneralInfo) {
                info.set_is_special_port(true)
                    .set_special_port_type(SpecialPortType::AggregationNode);
            }
        }
        *data = *info.as_data();
        Ok(())
    }

    /// Handles a Set of ExtendedPortInfo: LinkSpeedEnabled of devices with FDR10, which takes
    /// effect when the link next trains, SHArPANEnable of special ports of switches, and OOOSLMask
    /// of adapters. Other fields stay unchanged.
    pub(super) fn set_extended_port_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        if self.has(Habit::RefusesFdr10) || self.has(Habit::RefusesExtendedPortSets) {
            return Err(Status::INVALID_FIELD);
        }
        let request = *ExtendedPortInfo::from_data(data);
        self.get_extended_port_info(modifier, data)?;
        let is_special = ExtendedPortInfo::from_data(data).is_special_port();
        let is_switch = self.is_switch();
        let sets_speed = request.state_change_enable() & ExtendedPortInfo::SETS_SPEED != 0;
        let sets_speed = sets_speed && self.has(Habit::Fdr10);
        let index = self.info_port(modifier)?;
        let port = self.fabric.port_mut(index);
        if sets_speed {
            port.fdr10_disabled = !request.link_speed_enabled().contains(MlnxLinkSpeed::FDR10);
        }
        if is_special {
            port.aggregation_enabled = request.sharp_an_enabled();
        }
        if !is_switch {
            port.out_of_order_sls = request.ooo_sl_mask();
        }
        self.get_extended_port_info(modifier, data)
    }

    /// Handles a Get of SwitchPortStateTable at devices that announce it in CapabilityMask2.
    pub(super) fn get_port_states(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let node = self.fabric.node(self.node);
        let has_forgotten = self.has(Habit::ForgetsPortStates) && node.epoch > 0;
        let answers = self.has(Habit::PortStates)
            || self.has(Habit::FrozenPortStates)
            || self.has(Habit::NonsensePortStates)
            || self.has(Habit::ForgetsPortStates) && !has_forgotten;
        if !self.is_switch() || !answers {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        // Bit 15 means that the requester knows state 5, which no simulated port has.
        let block = modifier & !0x8000;
        if block > u32::from(SwitchPortStateTable::block_of(PortNum(node.num_ports))) {
            return Err(Status::INVALID_FIELD);
        }
        let mut table = SwitchPortStateTable::default();
        for number in 0..=node.num_ports {
            let state = match node.port(number) {
                Some(port) => self.fabric.port(port).info.port_state(),
                None => PortState::NoChange,
            };
            if u32::from(SwitchPortStateTable::block_of(PortNum(number))) == block {
                let index = usize::from(number) % SwitchPortStateTable::ENTRIES;
                table.set_state(index, state);
            }
        }
        if self.has(Habit::NonsensePortStates) {
            table = *SwitchPortStateTable::from_data(&[0x9A; SMP_DATA_LEN]);
        }
        if self.has(Habit::FrozenPortStates) {
            let node = self.fabric.node_mut(self.node);
            if let Some(switch) = &mut node.switch {
                table = *switch.frozen_states.entry(block).or_insert(table);
            }
        }
        *data = *table.as_data();
        Ok(())
    }

    /// Handles a Get of PortInfoExtended at devices that announce it in CapabilityMask2.
    pub(super) fn get_port_info_extended(&mut self, modifier: u32, data: &mut Data) -> Handled {
        if !self.has(Habit::ErrorCorrection) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let index = self.info_port(modifier)?;
        let speed = self.fabric.port(index).info.effective_speed();
        let corrects = speed.is_some_and(|speed| speed >= LinkSpeed::Edr);
        let mode = match corrects {
            true => FecMode::ReedSolomon,
            false => FecMode::None,
        };
        let mut info = PortInfoExtended::default();
        info.set_capability_mask(PortInfoExtendedCapabilities::IS_FEC_MODE_SUPPORTED)
            .set_fec_mode_active(mode.code().into());
        *data = *info.as_data();
        Ok(())
    }

    /// Whether the agent leaves a Get of this attribute unanswered.
    pub(super) fn is_deaf_to(&self, attribute: rsm_mad::wire::header::AttrId) -> bool {
        (attribute == GeneralInfo::ID && self.has(Habit::DeafToGeneralInfo))
            || (attribute == SwitchPortStateTable::ID && self.has(Habit::DeafToPortStates))
            || (attribute == PortInfoExtended::ID && self.has(Habit::DeafToErrorCorrection))
            || (matches!(attribute, ArGroupTable::ID | ArLinearForwardingTable::ID)
                && self.has(Habit::DeafToAdaptiveTables))
    }
}
