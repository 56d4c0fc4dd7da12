//! Converts the fabric into the input of GPU hints.

use std::sync::Arc;

use rsm_gdr::fabric::{self as gdr, FabricPort};
use rsm_mad::wire::attr::NodeType;
use rsm_mad::wire::sa::Rate;
use rsm_model::fabric::Fabric;
use rsm_routing::tables::Tables;
use rsm_routing::topology::{PortUse, Topology};

/// Builds the fabric for GPU hints, with the LIDs of `topology`, and with `tables` if given.
pub fn fabric(
    fabric: &Fabric,
    topology: &Arc<Topology>,
    tables: Option<Arc<Tables>>,
    generation: u64,
) -> gdr::GpuFabric {
    let mut names = vec![String::new(); topology.switch_count()];
    let mut ports = Vec::new();
    for node in fabric.nodes() {
        if node.kind() == NodeType::Switch {
            if let Some(switch) = topology.switch_by_guid(node.guid) {
                names[switch.index()] = node.description.clone();
            }
            continue;
        }
        for (number, port) in node.end_ports() {
            let Some(peer) = port.peer.filter(|peer| peer.node != node.guid) else {
                continue;
            };
            let leaf = topology.switch_by_guid(peer.node);
            let Some(leaf) = leaf else { continue };
            let PortUse::Destination(at) = topology.port_use(leaf, peer.port) else {
                continue;
            };
            let destination = &topology.destinations()[at as usize];
            if !destination.kind.is_host() {
                continue;
            }
            let info = port.info.as_ref();
            let rate = info
                .and_then(|info| info.link_rate())
                .and_then(|link| Rate::of_link(link).tenth_gbps());
            ports.push(FabricPort {
                guid: destination.guid,
                node_guid: node.guid,
                system_image_guid: node.info.system_image_guid(),
                port: number,
                description: node.reported().to_owned(),
                lid: destination.lid,
                lmc: destination.lmc,
                leaf,
                leaf_port: peer.port,
                rate_tenth_gbps: rate.unwrap_or(0),
                mtu: info
                    .and_then(|info| info.neighbor_mtu().bytes())
                    .unwrap_or(0),
            });
        }
    }
    gdr::GpuFabric::new(Arc::clone(topology), tables, names, ports, generation)
}
