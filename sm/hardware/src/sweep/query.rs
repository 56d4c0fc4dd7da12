//! The queries of a sweep: one [`Query`] is one Get.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    ArGroupTable, ArInfo, ArLinearForwardingTable, Attribute, ExtendedPortInfo, GeneralInfo,
    LinearForwardingTable, MulticastForwardingTable, NodeDescription, NodeInfo, PKeyTable,
    PortInfo, SlToVlMapping, SmInfo, SwitchInfo, SwitchPortStateTable,
};
use rsm_mad::wire::header::AttrId;
use rsm_model::managed::BlockKey;
use rsm_model::mft_image::MftBlock;

#[cfg(feature = "error-correction")]
use super::error_correction;
use super::inventory::Inventory;
use super::partition;
use super::vports::VPortQuery;

/// A single Get: an attribute of a node or port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Query {
    /// NodeInfo of the local node, or of the node behind a port.
    Node(Option<PortKey>),
    /// NodeDescription.
    Description(Guid),
    /// SwitchInfo.
    Switch(Guid),
    /// PortInfo.
    Port(PortKey),
    /// A block of the linear forwarding table.
    Table(Guid, u16),
    /// A block of the multicast forwarding table.
    Multicast(Guid, MftBlock),
    /// SMInfo of the subnet manager behind an end port.
    Sm(PortKey),
    /// A block of a port's P_KeyTable.
    PKeys(PortKey, u16),
    /// A block of a managed attribute.
    Managed(BlockKey),
    /// The SLtoVLMappingTable of a switch from an input to an output port.
    SlToVl(Guid, PortNum, PortNum),
    /// ARInfo of a switch.
    AdaptiveRouting(Guid),
    /// A block of the ARGroupTable of a switch.
    ArGroups(Guid, u16),
    /// A block of the adaptive linear forwarding table of a switch.
    ArEntries(Guid, u16),
    /// GeneralInfo: the capabilities of a node's type.
    Capabilities(Guid),
    /// A block of the SwitchPortStateTable of a switch.
    PortStates(Guid, u8),
    /// ExtendedPortInfo.
    ExtendedPort(PortKey),
    /// PortInfoExtended: the error correction of a link.
    #[cfg(feature = "error-correction")]
    ErrorCorrection(PortKey),
    /// An attribute of virtual ports.
    VPorts(PortKey, VPortQuery),
}

impl Query {
    /// The node that the query names; `None` for NodeInfo, which asks an unknown node.
    pub fn node(self) -> Option<Guid> {
        match self {
            Query::Node(_) => None,
            Query::Description(guid)
            | Query::Switch(guid)
            | Query::Table(guid, _)
            | Query::Multicast(guid, _)
            | Query::AdaptiveRouting(guid)
            | Query::ArGroups(guid, _)
            | Query::ArEntries(guid, _)
            | Query::Capabilities(guid)
            | Query::PortStates(guid, _)
            | Query::SlToVl(guid, ..) => Some(guid),
            Query::Port(key)
            | Query::ExtendedPort(key)
            | Query::VPorts(key, _)
            | Query::Sm(key)
            | Query::PKeys(key, _)
            | Query::Managed(BlockKey { port: key, .. }) => Some(key.node),
            #[cfg(feature = "error-correction")]
            Query::ErrorCorrection(key) => Some(key.node),
        }
    }

    /// The node that probably answers: for NodeInfo, the node that was last found behind the port.
    /// `None` if there is none.
    pub(super) fn target(self, inventory: &Inventory) -> Option<Guid> {
        match self {
            Query::Node(from) => Some(inventory.hardware.port(from?)?.peer?.node),
            _ => self.node(),
        }
    }

    /// The port of the query; 0 for attributes of a node.
    pub(super) fn port(self) -> PortNum {
        match self {
            Query::Port(key)
            | Query::ExtendedPort(key)
            | Query::VPorts(key, _)
            | Query::Sm(key)
            | Query::PKeys(key, _)
            | Query::Managed(BlockKey { port: key, .. }) => key.port,
            #[cfg(feature = "error-correction")]
            Query::ErrorCorrection(key) => key.port,
            _ => PortNum::ZERO,
        }
    }

    /// Whether silence does not count against the node, because the agent may not know the
    /// attribute (optional or vendor-specific), or because a subnet manager answers, which may hang
    /// although its node works.
    pub fn is_optional(self) -> bool {
        match self {
            Query::AdaptiveRouting(_)
            | Query::ArGroups(..)
            | Query::ArEntries(..)
            | Query::Capabilities(_)
            | Query::PortStates(..)
            | Query::ExtendedPort(_)
            | Query::VPorts(..)
            | Query::Sm(_) => true,
            #[cfg(feature = "error-correction")]
            Query::ErrorCorrection(_) => true,
            Query::Managed(key) => key.is_rate_limit(),
            _ => false,
        }
    }

    /// The AttributeID.
    pub fn attribute(self) -> AttrId {
        match self {
            Query::Node(_) => NodeInfo::ID,
            Query::Description(_) => NodeDescription::ID,
            Query::Switch(_) => SwitchInfo::ID,
            Query::Port(_) => PortInfo::ID,
            Query::Table(..) => LinearForwardingTable::ID,
            Query::Multicast(..) => MulticastForwardingTable::ID,
            Query::Sm(_) => SmInfo::ID,
            Query::PKeys(..) => PKeyTable::ID,
            Query::Managed(key) => key.attribute(),
            Query::SlToVl(..) => SlToVlMapping::ID,
            Query::AdaptiveRouting(_) => ArInfo::ID,
            Query::ArGroups(..) => ArGroupTable::ID,
            Query::ArEntries(..) => ArLinearForwardingTable::ID,
            Query::Capabilities(_) => GeneralInfo::ID,
            Query::PortStates(..) => SwitchPortStateTable::ID,
            Query::ExtendedPort(_) => ExtendedPortInfo::ID,
            #[cfg(feature = "error-correction")]
            Query::ErrorCorrection(_) => error_correction::ATTRIBUTE,
            Query::VPorts(_, query) => query.attribute(),
        }
    }

    /// The AttributeModifier.
    pub(super) fn modifier(self, inventory: &Inventory) -> u32 {
        match self {
            Query::PKeys(key, block) => partition::modifier(inventory, key, block),
            Query::Managed(key) => key.modifier(),
            Query::Port(key) => {
                PortInfo::modifier(key.port, inventory.hardware.asks_extended_speeds(key))
            }
            Query::Table(_, block) => u32::from(block),
            Query::Multicast(_, at) => at.modifier(),
            Query::SlToVl(_, input, output) => SlToVlMapping::modifier(input, output),
            Query::AdaptiveRouting(_) => ArInfo::MODIFIER,
            Query::ArGroups(_, block) => ArGroupTable::modifier(block),
            Query::ArEntries(_, block) => ArLinearForwardingTable::modifier(block),
            Query::Capabilities(_) => GeneralInfo::CAPABILITIES,
            Query::PortStates(_, block) => SwitchPortStateTable::modifier(block),
            Query::ExtendedPort(key) => ExtendedPortInfo::modifier(key.port),
            #[cfg(feature = "error-correction")]
            Query::ErrorCorrection(key) => error_correction::modifier(key),
            Query::VPorts(_, query) => query.modifier(),
            Query::Node(_) | Query::Description(_) | Query::Switch(_) | Query::Sm(_) => 0,
        }
    }
}
