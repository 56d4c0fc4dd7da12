//! A fabric without hardware: from a file or a generator to the model that planning works on.

use std::path::Path;

use anyhow::Context as _;
use rsm_ids::{Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, Mtu, NodeDescription, NodeInfo, NodeType,
    PortInfo, PortState, SwitchInfo, VlCap,
};
use rsm_routing::generate;
use rsm_routing::ibnetdiscover::{self, Strictness};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};
use rsm_sim::{Devices, SimConfig};

use crate::fabric::Fabric;
use crate::model::{InventoryNode, InventoryPort, InventorySwitch};
use crate::sweep::inventory::Inventory;

/// The largest fabric file that is read, in bytes: a full subnet of 49,151 LIDs is a tenth of it.
const FILE_MAX: u64 = 256 * 1024 * 1024;

/// The fabric of `spec`: a file in ibnetdiscover's or ibsim's format if there is one of that name,
/// else a generator's specification.
///
/// # Errors
/// The file cannot be read, or holds no fabric (with file and line); or the specification is wrong
/// (with the expected text and its place).
pub fn load(spec: &str) -> anyhow::Result<Netlist> {
    load_as(spec, Strictness::Strict)
}

/// The fabric of `spec` as for [`load`], with a choice for lines of a file that cannot be read.
///
/// # Errors
/// As [`load`]; of a lenient reading, where no node is left.
pub fn load_as(spec: &str, strictness: Strictness) -> anyhow::Result<Netlist> {
    let path = Path::new(spec);
    if !path.is_file() {
        if spec.contains('/') || path.extension().is_some_and(|end| end == "txt") {
            anyhow::bail!("there is no file {spec}");
        }
        return Ok(generate::generate(spec)?);
    }
    let size = std::fs::metadata(path)
        .with_context(|| format!("cannot read {spec}"))?
        .len();
    anyhow::ensure!(
        size <= FILE_MAX,
        "{spec} has {size} bytes: expected a fabric of at most {FILE_MAX}"
    );
    let text = std::fs::read(path).with_context(|| format!("cannot read {spec}"))?;
    let parsed = ibnetdiscover::parse_as(&text, spec, strictness)?;
    for warning in &parsed.warnings {
        tracing::warn!("{spec}: {warning}");
    }
    Ok(parsed.netlist)
}

/// Follows the name of a file of which lines that cannot be read are left out.
const LENIENT: &str = ",lenient";

/// The fabric to simulate and its hardware: `spec` as for [`load`], with `devices=…` for devices
/// with habits (`ring:6,devices=mix:7`, `fabric.txt,devices=qib`), `vports=…` for hosts with virtual
/// ports (`ring:6,vports=16`), and `lenient` for a file of which lines that cannot be read are left
/// out (`fabric.txt,lenient`).
///
/// # Errors
/// As [`load_as`]; or `devices=` has an unknown name (with the known ones), or `vports=` no number.
pub fn simulated(spec: &str) -> anyhow::Result<(Netlist, SimConfig)> {
    simulated_as(spec, Strictness::Strict)
}

/// The fabric to simulate as for [`simulated`]; `strictness` where `spec` does not say `lenient`.
///
/// # Errors
/// As [`simulated`].
pub fn simulated_as(spec: &str, strictness: Strictness) -> anyhow::Result<(Netlist, SimConfig)> {
    let (spec, devices) = Devices::split(spec)?;
    let mut config = SimConfig {
        devices,
        ..SimConfig::default()
    };
    let spec = config.split_vports(&spec)?;
    let netlist = match spec.strip_suffix(LENIENT) {
        Some(file) => load_as(file, Strictness::Lenient)?,
        None => load_as(&spec, strictness)?,
    };
    Ok((netlist, config))
}

/// The model of `netlist` as a sweep of such hardware would build it, seen from its first host,
/// with the LIDs that it states.
pub fn fabric(netlist: &Netlist) -> Fabric {
    let mut inventory = Inventory::default();
    for node in netlist.nodes() {
        inventory.insert(node.guid, record(node));
    }
    for cable in netlist.cables() {
        let [a, b] = [cable.a, cable.b].map(|end| PortKey::new(netlist.nodes()[end.0].guid, end.1));
        for key in [a, b] {
            if let Some(info) = inventory.port_mut(key).and_then(|port| port.info.as_mut()) {
                bring_up(info, cable);
            }
        }
        // A cable back to its own node leads to no other node.
        if a.node != b.node {
            inventory.join(a, b);
        }
    }
    inventory.local = netlist
        .nodes()
        .iter()
        .filter(|node| node.kind == NodeKind::Ca && !node.is_aggregation_node())
        .flat_map(|node| node.end_ports().map(|port| PortKey::new(node.guid, port)))
        .filter(|&key| inventory.port(key).is_some_and(|port| port.peer.is_some()))
        .min();
    if inventory.local.is_none() {
        let switches = netlist
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::Switch);
        inventory.local = switches
            .map(|node| PortKey::new(node.guid, PortNum::ZERO))
            .min();
    }
    forget_unplugged(netlist, &mut inventory);
    Fabric::build(&inventory)
}

/// Takes away the PortInfo of adapters' ports without a cable, which no sweep reads: every node here
/// is as near as that of the sweep's own port, whose ports get LIDs without a cable.
fn forget_unplugged(netlist: &Netlist, inventory: &mut Inventory) {
    let adapters = netlist.nodes().iter();
    for node in adapters.filter(|node| node.kind != NodeKind::Switch) {
        for number in node.end_ports() {
            let port = inventory.port_mut(PortKey::new(node.guid, number));
            if let Some(port) = port.filter(|port| port.peer.is_none()) {
                port.info = None;
            }
        }
    }
}

fn record(node: &Node) -> InventoryNode {
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
                let usable = stated.lid.is_unicast() && stated.lmc.aligns(stated.lid);
                port.set_lid(if usable { stated.lid } else { Lid::NONE });
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

/// The fabric with an aggregation node (SHARP) at the last port of each switch, one more than it
/// had before.
#[cfg(test)]
pub(crate) fn with_aggregation_nodes(netlist: Netlist) -> Netlist {
    let (mut nodes, mut cables) = netlist.into_parts();
    for switch in 0..nodes.len() {
        let node = &mut nodes[switch];
        if node.kind != NodeKind::Switch {
            continue;
        }
        node.num_ports += 1;
        let near = (switch, PortNum(node.num_ports));
        let inside = Node {
            kind: NodeKind::Ca,
            guid: rsm_ids::Guid(node.guid.0 | 1 << 62),
            description: b"Mellanox Technologies Aggregation Node".to_vec(),
            num_ports: 1,
            enhanced_port0: false,
            ports: std::collections::BTreeMap::new(),
            ..node.clone()
        };
        cables.push(Cable {
            a: near,
            b: (nodes.len(), PortNum(1)),
            width: LinkWidth::X4,
            speed: LinkSpeed::Hdr,
        });
        nodes.push(inside);
    }
    Netlist::new(nodes, cables).expect("each cable has a port of its own")
}
