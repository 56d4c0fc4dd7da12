//! Converts the published snapshot to the source of the dump files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{NodeType, PortState};
use rsm_model::fabric::{Fabric, Node, Port, PortRef};
use rsm_plan::Plan;
use rsm_routing::ibnetdiscover;
use rsm_routing::netlist::{Cable, Netlist, Node as NetNode, NodeKind, PortSpec};
use rsm_state::Snapshot;

use super::{
    DumpLink, DumpNode, DumpPort, DumpSource, DumpTables, HopRule, LinkState, write_all, write_file,
};

/// Name of the file in ibnetdiscover's format.
const TOPOLOGY: &str = "topology.ibnetdiscover";

/// Writes every dump file of `snapshot` to `dir`. Writes nothing while there is no plan.
///
/// # Errors
/// A file could not be written, or the fabric contradicts itself (see
/// [`SourceError`](super::SourceError)).
pub fn write(dir: &Path, snapshot: &Snapshot) -> anyhow::Result<()> {
    let Some(plan) = &snapshot.plan else {
        return Ok(());
    };
    let fabric = &snapshot.fabric;
    let nodes = fabric.nodes().map(|node| dump_node(plan, node)).collect();
    let order: Vec<Guid> = match &plan.routing.ranking {
        Some(ranking) => ranking.followed(),
        None => Vec::new(),
    };
    let rule = if plan.routing.ranking.is_some() {
        HopRule::UpDown(&order)
    } else {
        HopRule::Shortest
    };
    let source =
        DumpSource::new(nodes, plan.sm_lid, rule).context("the fabric cannot be dumped")?;
    write_all(dir, &source)?;
    let netlist = netlist(fabric).context("the fabric cannot be written as a topology")?;
    write_file(dir, TOPOLOGY, |mut out| {
        ibnetdiscover::write(&netlist, &mut out)
    })?;
    Ok(())
}

fn kind(node: &Node) -> NodeKind {
    match node.kind() {
        NodeType::Switch => NodeKind::Switch,
        NodeType::Router => NodeKind::Router,
        _ => NodeKind::Ca,
    }
}

fn dump_node<'a>(plan: &'a Plan, node: &'a Node) -> DumpNode<'a> {
    let holds_lid = |number: usize| (node.kind() == NodeType::Switch) == (number == 0);
    let ports: BTreeMap<PortNum, DumpPort> = node
        .ports
        .iter()
        .enumerate()
        .filter(|&(number, _)| number > 0 || node.kind() == NodeType::Switch)
        .map(|(number, port)| {
            let number_on_node = PortNum(number as u8);
            let claim = plan
                .claim(PortKey::new(node.guid, number_on_node))
                .filter(|_| holds_lid(number));
            let dumped = DumpPort {
                guid: port.guid,
                lid: claim.map_or(
                    if holds_lid(number) {
                        port.lid()
                    } else {
                        Lid::NONE
                    },
                    |claim| claim.base,
                ),
                lmc: claim.map_or(port.lmc(), |claim| claim.lmc),
                link: link(port),
            };
            (number_on_node, dumped)
        })
        .collect();
    DumpNode {
        kind: kind(node),
        guid: node.guid,
        system_image_guid: node.info.system_image_guid(),
        vendor_id: node.info.vendor_id(),
        device_id: node.info.device_id(),
        revision: node.info.revision(),
        description: node.description.as_bytes(),
        num_ports: node.info.num_ports(),
        ports,
        tables: plan.table(node.guid).map(|table| DumpTables {
            linear: table.clone(),
            multicast: multicast(plan, node.guid),
        }),
    }
}

/// The planned output ports of each multicast LID at a switch.
fn multicast(plan: &Plan, switch: Guid) -> BTreeMap<Lid, Vec<PortNum>> {
    let table = plan.multicast_table(switch).into_iter();
    let entries = table.flat_map(|table| table.entries());
    entries
        .map(|(mlid, mask)| (mlid, mask.ports().collect()))
        .collect()
}

fn link(port: &Port) -> Option<DumpLink> {
    let peer = port.peer?;
    let info = port.info.as_ref()?;
    Some(DumpLink {
        node: peer.node,
        port: peer.port,
        width: info.link_width_active().single()?,
        speed: port.speed()?,
        state: match info.port_state() {
            PortState::Active => LinkState::Active,
            PortState::Armed => LinkState::Armed,
            PortState::Init => LinkState::Init,
            _ => LinkState::Down,
        },
    })
}

/// Converts the fabric to nodes and cables. Cables without a known width or speed are left out.
fn netlist(fabric: &Fabric) -> Result<Netlist, rsm_routing::netlist::NetlistError> {
    let nodes = fabric.nodes().map(net_node).collect();
    let cables = fabric
        .links()
        .filter_map(|(a, b)| {
            let [a_port, b_port] = [a, b].map(|at| fabric.port(at));
            let port = if a_port.info.is_some() {
                a_port
            } else {
                b_port
            };
            let info = port.info.as_ref()?;
            let end = |at: PortRef| (at.node.0 as usize, at.port);
            Some(Cable {
                a: end(a),
                b: end(b),
                width: info.link_width_active().single()?,
                speed: port.speed()?,
            })
        })
        .collect();
    Netlist::new(nodes, cables)
}

fn net_node(node: &Node) -> NetNode {
    let ports = node
        .end_ports()
        .map(|(number, port)| {
            let spec = PortSpec {
                guid: port.guid,
                lid: port.lid(),
                lmc: port.lmc(),
            };
            (number, spec)
        })
        .collect();
    NetNode {
        kind: kind(node),
        guid: node.guid,
        system_image_guid: node.info.system_image_guid(),
        vendor_id: node.info.vendor_id(),
        device_id: node.info.device_id(),
        description: node.reported().as_bytes().to_vec(),
        num_ports: node.info.num_ports(),
        enhanced_port0: node
            .switch
            .as_ref()
            .is_some_and(|switch| switch.enhanced_port0()),
        ports,
    }
}
