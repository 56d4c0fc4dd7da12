//! NodeInfo, PortInfo and GUIDInfo of virtual ports.
//!
//! No public source specifies the records of a virtual port. Here they contain the adapter's values
//! in VNodeInfo, VNodeDescription and VPortInfo, the planned values, and the values of the physical
//! port about the link, which its virtual ports share.

use std::ops::BitOr;

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::wire::attr::{CapabilityMask, CapabilityMask2, GuidInfo, NodeInfo, PortInfo};
use rsm_model::vports::{GuidBlock, VPort};

/// Capabilities of a port that say how to interpret the fields about its link. Virtual ports have
/// no other capability of the physical port; VPortInfo numbers capabilities differently.
const ABOUT_LINK: [CapabilityMask; 2] = [
    CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED,
    CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED,
];

/// Capabilities in CapabilityMask2 that say how to interpret the fields about the link.
const ABOUT_LINK2: [CapabilityMask2; 5] = [
    CapabilityMask2::IS_LINK_WIDTH_2X_SUPPORTED,
    CapabilityMask2::IS_LINK_SPEED_HDR_SUPPORTED,
    CapabilityMask2::IS_LINK_SPEED_NDR_SUPPORTED,
    CapabilityMask2::IS_EXTENDED_SPEEDS2_SUPPORTED,
    CapabilityMask2::IS_LINK_SPEED_XDR_SUPPORTED,
];

/// Number of a virtual port at its virtual node; the number of the physical port if VNodeInfo
/// states no number.
pub(super) fn number(vport: &VPort, port: PortNum) -> PortNum {
    match vport.node.local_port {
        PortNum::ZERO => port,
        number => number,
    }
}

/// A block of a virtual port's GUIDs, with zeros beyond GUIDCap; `None` if the adapter did not show
/// the block. Block 0 always begins with the GUID of the virtual port.
pub(super) fn guid_block(vport: &VPort, block: u8) -> Option<GuidBlock> {
    let mut guids = [Guid::ZERO; GuidInfo::ENTRIES];
    let shown = vport.guid_block(block);
    if block > 0 && shown.is_none() {
        return None;
    }
    let first = usize::from(block) * GuidInfo::ENTRIES;
    let count = usize::from(vport.info.guid_cap()).saturating_sub(first);
    let shown = shown.into_iter().flatten().take(count);
    for (guid, &shown) in guids.iter_mut().zip(shown) {
        *guid = shown;
    }
    if block == 0 {
        guids[0] = vport.guid();
    }
    Some(guids)
}

/// NodeInfo of a virtual node, at port `port` of an adapter with the NodeInfo `adapter`.
pub(super) fn node_info(adapter: &NodeInfo, vport: &VPort, port: PortNum) -> NodeInfo {
    let mut info = *adapter;
    info.set_node_guid(vport.node.guid)
        .set_port_guid(vport.guid())
        .set_num_ports(vport.node.ports)
        .set_partition_cap(vport.node.partition_cap)
        .set_local_port_num(number(vport, port));
    info
}

/// PortInfo of a virtual port with LID `lid`, at the physical port with the number `port` and the
/// PortInfo `held`. A virtual port has no M_Key.
pub(super) fn port_info(held: &PortInfo, vport: &VPort, lid: Lid, port: PortNum) -> PortInfo {
    let mut info = *held;
    let about_link = ABOUT_LINK
        .into_iter()
        .fold(CapabilityMask::NONE, BitOr::bitor);
    let about_link2 = ABOUT_LINK2
        .into_iter()
        .fold(CapabilityMask2::NONE, BitOr::bitor);
    info.set_lid(lid)
        .set_lmc(Lmc::ZERO)
        .set_local_port_num(number(vport, port))
        .set_port_state(vport.info.state())
        .set_capability_mask(held.capability_mask() & about_link)
        .set_capability_mask2(held.capability_mask2() & about_link2)
        .set_guid_cap(vport.info.guid_cap())
        .set_p_key_violations(vport.info.p_key_violations())
        .set_q_key_violations(vport.info.q_key_violations())
        .set_client_reregister(false)
        .set_m_key(0)
        .set_m_key_protect_bits(0)
        .set_m_key_lease_period(0)
        .set_m_key_violations(0);
    info
}
