//! Test fabrics with aggregation nodes (SHARP).

use std::collections::BTreeMap;

use rsm_ids::{Guid, PortNum};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};

/// Adds an aggregation node (SHARP) at a new last port of each switch.
pub(crate) fn with_aggregation_nodes(netlist: Netlist) -> Netlist {
    let (mut nodes, mut cables) = netlist.into_parts();
    for switch in 0..nodes.len() {
        let node = &mut nodes[switch];
        if node.kind != NodeKind::Switch {
            continue;
        }
        node.num_ports += 1;
        let switch_end = (switch, PortNum(node.num_ports));
        let aggregation_node = Node {
            kind: NodeKind::Ca,
            guid: Guid(node.guid.0 | 1 << 62),
            description: b"Mellanox Technologies Aggregation Node".to_vec(),
            num_ports: 1,
            enhanced_port0: false,
            ports: BTreeMap::new(),
            ..node.clone()
        };
        cables.push(Cable {
            a: switch_end,
            b: (nodes.len(), PortNum(1)),
            width: LinkWidth::X4,
            speed: LinkSpeed::Hdr,
        });
        nodes.push(aggregation_node);
    }
    Netlist::new(nodes, cables).expect("each cable has a port of its own")
}
