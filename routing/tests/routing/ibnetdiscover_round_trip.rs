//! The text form of any fabric states all of it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::ibnetdiscover::{WarningKind, parse, write};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind, PortSpec};

/// Ports of which something is stated, by a number that is mapped into the node's range:
/// LID and LMC.
type Stated = BTreeMap<u8, (u16, u8)>;

fn node() -> impl Strategy<Value = (Node, Stated)> {
    (
        prop::sample::select(vec![NodeKind::Switch, NodeKind::Ca, NodeKind::Router]),
        (any::<u64>(), 0..1u32 << 24, any::<u16>(), any::<bool>()),
        prop::collection::vec(1u8.., 0..=64),
        1..=254u8,
        prop::collection::btree_map(any::<u8>(), (any::<u16>(), 0..8u8), 0..4),
    )
        .prop_map(
            |(kind, (image, vendor_id, device_id, enhanced), description, ports, stated)| {
                let node = Node {
                    kind,
                    guid: Guid::ZERO,
                    system_image_guid: Guid(image),
                    vendor_id,
                    device_id,
                    description,
                    num_ports: ports,
                    enhanced_port0: enhanced && kind == NodeKind::Switch,
                    ports: BTreeMap::new(),
                };
                (node, stated)
            },
        )
}

/// Nodes with GUIDs far enough apart for ports' GUIDs in between, and cables where both ports
/// that were drawn are free.
fn netlist() -> impl Strategy<Value = Netlist> {
    let nodes = prop::collection::vec(node(), 1..12);
    let end = || (any::<prop::sample::Index>(), any::<u8>());
    let cable = (
        end(),
        end(),
        prop::sample::select(LinkWidth::ALL.to_vec()),
        prop::sample::select(LinkSpeed::ALL.to_vec()),
    );
    (nodes, any::<u32>(), prop::collection::vec(cable, 0..40)).prop_map(|(nodes, base, drawn)| {
        let nodes: Vec<Node> = nodes
            .into_iter()
            .enumerate()
            .map(|(index, (mut node, stated))| {
                node.guid = Guid((u64::from(base) << 20) + (index as u64 + 1) * 0x1000);
                for (number, (lid, lmc)) in stated {
                    let port = match node.kind {
                        NodeKind::Switch => PortNum::ZERO,
                        NodeKind::Ca | NodeKind::Router => PortNum(number % node.num_ports + 1),
                    };
                    let guid = Guid(node.guid.0 + 0x100 + u64::from(port.0));
                    let spec = PortSpec {
                        guid,
                        lid: Lid(lid),
                        lmc: Lmc::from_bits(lmc),
                    };
                    node.ports.insert(port, spec);
                }
                node
            })
            .collect();
        let mut used = Vec::new();
        let mut cables = Vec::new();
        for (a, b, width, speed) in drawn {
            let [a, b] = [a, b].map(|(node, port)| {
                let node = node.index(nodes.len());
                (node, PortNum(port % nodes[node].num_ports + 1))
            });
            if used.contains(&a) || used.contains(&b) {
                continue;
            }
            used.extend([a, b]);
            cables.push(Cable { a, b, width, speed });
        }
        Netlist::new(nodes, cables).expect("drawn to be valid")
    })
}

proptest! {
    #[test]
    fn written_netlists_read_back_equal(netlist in netlist()) {
        let mut text = Vec::new();
        write(&netlist, &mut text).unwrap();
        let parsed = parse(&text, "written");
        prop_assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
        let parsed = parsed.unwrap();
        prop_assert_eq!(parsed.netlist, netlist);
        // A cable of a node to itself causes a warning, and is read as it is.
        let mut warnings = parsed.warnings;
        warnings.retain(|warning| !matches!(warning.kind, WarningKind::Loop { .. }));
        prop_assert_eq!(warnings, []);
    }
}
