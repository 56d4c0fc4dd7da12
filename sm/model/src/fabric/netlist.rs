//! Builds a fabric without hardware, from a netlist, for offline planning.

use rsm_ids::{Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, Mtu, NodeDescription, NodeInfo, NodeType,
    PortInfo, PortState, SwitchInfo, VlCap,
};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};

use super::Fabric;
use crate::{Hardware, InventoryNode, InventoryPort, InventorySwitch};

impl Fabric {
    /// Builds the model that a sweep from the first host of `netlist` would give if hardware were
    /// cabled and had LIDs as the netlist states.
    pub fn of_netlist(netlist: &Netlist) -> Fabric {
        let mut hardware = Hardware::default();
        for node in netlist.nodes() {
            hardware.insert(node.guid, inventory_node(node));
        }
        for cable in netlist.cables() {
            let [a, b] =
                [cable.a, cable.b].map(|end| PortKey::new(netlist.nodes()[end.0].guid, end.1));
            for key in [a, b] {
                if let Some(info) = hardware.port_mut(key).and_then(|port| port.info.as_mut()) {
                    bring_up(info, cable);
                }
            }
            // A cable back to its own node gives no peer.
            if a.node != b.node {
                hardware.join(a, b);
            }
        }
        hardware.local = netlist
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::Ca && !node.is_aggregation_node())
            .flat_map(|node| node.end_ports().map(|port| PortKey::new(node.guid, port)))
            .filter(|&key| hardware.port(key).is_some_and(|port| port.peer.is_some()))
            .min();
        if hardware.local.is_none() {
            let switches = netlist
                .nodes()
                .iter()
                .filter(|node| node.kind == NodeKind::Switch);
            hardware.local = switches
                .map(|node| PortKey::new(node.guid, PortNum::ZERO))
                .min();
        }
        forget_unplugged(netlist, &mut hardware);
        Fabric::build(&hardware)
    }
}

/// Removes the PortInfo of unplugged ports of channel adapters and routers, which no sweep reads.
/// Otherwise these ports would get LIDs: every node of a netlist has distance 0, where ports get
/// LIDs even without a cable.
fn forget_unplugged(netlist: &Netlist, hardware: &mut Hardware) {
    let adapters = netlist.nodes().iter();
    for node in adapters.filter(|node| node.kind != NodeKind::Switch) {
        for number in node.end_ports() {
            let port = hardware.port_mut(PortKey::new(node.guid, number));
            if let Some(port) = port.filter(|port| port.peer.is_none()) {
                port.info = None;
            }
        }
    }
}

/// The record of `node`, with the LIDs that the netlist states and every port Down.
fn inventory_node(node: &Node) -> InventoryNode {
    let mut info = NodeInfo::default();
    info.set_node_type(match node.kind {
        NodeKind::Ca => NodeType::Ca,
        NodeKind::Switch => NodeType::Switch,
        NodeKind::Router => NodeType::Router,
    })
    .set_num_ports(node.num_ports)
    .set_node_guid(node.guid)
    .set_system_image_guid(node.system_image_guid)
    .set_vendor_id(node.vendor_id)
    .set_device_id(node.device_id);
    let is_switch = node.kind == NodeKind::Switch;
    let ports = (0..=node.num_ports)
        .map(|number| {
            let stated = node.port(PortNum(number));
            let mut port = PortInfo::default();
            if !is_switch || number == 0 {
                // A LID that no port can hold is left out.
                let is_usable = stated.lid.is_unicast() && stated.lmc.aligns(stated.lid);
                port.set_lid(if is_usable { stated.lid } else { Lid::NONE });
                port.set_lmc(stated.lmc);
            }
            port.set_port_state(PortState::Down)
                .set_mtu_cap(Mtu::Bytes4096)
                .set_vl_cap(VlCap::Vl0To7);
            InventoryPort {
                info: Some(port),
                guid: stated.guid,
                ..InventoryPort::default()
            }
        })
        .collect();
    let switch = is_switch.then(|| {
        let mut switch = SwitchInfo::default();
        switch
            .set_linear_fdb_cap(Lid::UNICAST_LAST.0 + 1)
            .set_enhanced_port0(node.enhanced_port0);
        Box::new(InventorySwitch::new(switch))
    });
    InventoryNode {
        info,
        description: Some(NodeDescription::new(&node.description)),
        ports,
        switch,
        path: Default::default(),
        alternate: None,
        epoch: 0,
        first_epoch: 0,
        missed: 0,
    }
}

/// Makes a port Active, with the width and speed of its cable.
fn bring_up(info: &mut PortInfo, cable: &Cable) {
    info.set_port_state(PortState::Active);
    info.set_link_width_active(match cable.width {
        LinkWidth::X1 => LinkWidths::X1,
        LinkWidth::X2 => LinkWidths::X2,
        LinkWidth::X4 => LinkWidths::X4,
        LinkWidth::X8 => LinkWidths::X8,
        LinkWidth::X12 => LinkWidths::X12,
    });
    match cable.speed {
        LinkSpeed::Sdr => info.set_link_speed_active(LinkSpeeds::SDR),
        LinkSpeed::Ddr => info.set_link_speed_active(LinkSpeeds::DDR),
        // FDR10 shows as QDR in PortInfo.
        LinkSpeed::Qdr | LinkSpeed::Fdr10 => info.set_link_speed_active(LinkSpeeds::QDR),
        LinkSpeed::Fdr => info.set_link_speed_ext_active(LinkSpeedExt::FDR),
        LinkSpeed::Edr => info.set_link_speed_ext_active(LinkSpeedExt::EDR),
        LinkSpeed::Hdr => info.set_link_speed_ext_active(LinkSpeedExt::HDR),
        LinkSpeed::Ndr => info.set_link_speed_ext_active(LinkSpeedExt::NDR),
        LinkSpeed::Xdr => info.set_link_speed_ext_active2(LinkSpeedExt2::XDR),
    };
}
