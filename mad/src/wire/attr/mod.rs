//! The attributes of subnet management, one file each (IBA 14.2.5).
//!
//! All attributes are views of the 64 data bytes of an [`Smp`](super::smp::Smp); see the
//! [contract](super) of the whole module. `Default` is all zeroes. The diagrams number bits 7 to 0
//! in each byte, most significant first; `-` is reserved.

mod ar_encoding;
mod ar_group_table;
mod ar_info;
mod ar_linear_forwarding_table;
mod capability;
mod extended_node_info;
mod extended_port_info;
mod extended_switch_info;
mod general_info;
mod guid_info;
mod linear_forwarding_table;
mod link;
mod multicast_forwarding_table;
mod node_description;
mod node_info;
mod notice;
mod p_key_table;
mod packed_states;
mod port_info;
mod port_info_extended;
mod qos_config_sl;
mod sl_to_vl_mapping;
mod sm_info;
mod switch_info;
mod switch_port_state_table;
mod trap;
mod virtualization_info;
mod vl_arbitration;
mod vnode_info;
mod vport_encoding;
mod vport_info;
mod vport_state;
mod vport_tables;
mod vport_trap;

pub use ar_group_table::ArGroupTable;
pub use ar_info::ArInfo;
pub use ar_linear_forwarding_table::{ArEntry, ArLidState, ArLinearForwardingTable};
pub use capability::{CapabilityMask, CapabilityMask2};
pub use extended_node_info::ExtendedNodeInfo;
pub use extended_port_info::{
    ExtendedPortCapabilities, ExtendedPortInfo, MlnxLinkSpeed, SpecialPortType, UnhealthyReason,
};
pub use extended_switch_info::ExtendedSwitchInfo;
pub use general_info::{Capabilities, Capability, GeneralInfo};
pub use guid_info::GuidInfo;
pub use linear_forwarding_table::LinearForwardingTable;
pub use link::{ActiveRate, LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths};
pub use multicast_forwarding_table::MulticastForwardingTable;
pub use node_description::NodeDescription;
pub use node_info::{NodeInfo, NodeType};
pub use notice::{Notice, NoticeType, ProducerType, Trap};
pub use p_key_table::{PKey, PKeyTable};
pub use port_info::{LinkDownDefault, Mtu, PortInfo, PortPhysicalState, PortState, VlCap};
pub use port_info_extended::{FecMode, PortInfoExtended, PortInfoExtendedCapabilities};
pub use qos_config_sl::QosConfigSl;
pub use sl_to_vl_mapping::SlToVlMapping;
pub use sm_info::{SmControl, SmInfo, SmState};
pub use switch_info::SwitchInfo;
pub use switch_port_state_table::SwitchPortStateTable;
pub use trap::{
    BadKeys, BadMKey, BadPKeyAtSwitch, Details, GidChange, LinkStateChange, LocalChange,
    LocalChanges, PortThreshold, SystemImageGuidChange, TrapDetails,
};
pub use virtualization_info::VirtualizationInfo;
pub use vl_arbitration::{VlArbitration, VlArbitrationBlock, VlArbitrationEntry};
pub use vnode_info::{VNodeDescription, VNodeInfo};
pub use vport_info::VPortInfo;
pub use vport_state::VPortState;
pub use vport_tables::{VPortGuidInfo, VPortPKeyTable};
pub use vport_trap::{
    NVIDIA, VPORT_LOCAL_CHANGE, VPORT_STATE_CHANGE, VPortLocalChange, VPortStateChange,
};

use super::header::AttrId;
use super::smp::SMP_DATA_LEN;

/// A view of the data bytes of an SMP.
pub trait Attribute: Copy + Default {
    /// The identifier that names the attribute in the header.
    const ID: AttrId;
    /// The name of the attribute in the specification.
    const NAME: &'static str;

    /// Views `data` as the attribute. Any bytes are valid.
    fn from_data(data: &[u8; SMP_DATA_LEN]) -> &Self;

    /// The attribute in `data`, mutable in place.
    fn from_data_mut(data: &mut [u8; SMP_DATA_LEN]) -> &mut Self;

    /// The bytes as they are sent.
    fn as_data(&self) -> &[u8; SMP_DATA_LEN];
}

/// Makes a 64-byte zerocopy structure an [`Attribute`].
macro_rules! attribute {
    ($view:ident, $id:ident, $name:literal) => {
        const _: () = assert!(size_of::<$view>() == $crate::wire::smp::SMP_DATA_LEN);

        impl $crate::wire::attr::Attribute for $view {
            const ID: $crate::wire::header::AttrId = $crate::wire::header::AttrId::$id;
            const NAME: &'static str = $name;

            fn from_data(data: &[u8; $crate::wire::smp::SMP_DATA_LEN]) -> &Self {
                zerocopy::transmute_ref!(data)
            }

            fn from_data_mut(data: &mut [u8; $crate::wire::smp::SMP_DATA_LEN]) -> &mut Self {
                zerocopy::transmute_mut!(data)
            }

            fn as_data(&self) -> &[u8; $crate::wire::smp::SMP_DATA_LEN] {
                zerocopy::transmute_ref!(self)
            }
        }

        impl Default for $view {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        impl std::fmt::Debug for $view {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::wire::dissect::debug_attribute(self, f)
            }
        }
    };
}
use attribute;
