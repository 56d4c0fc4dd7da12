mod refused;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Lid, PortNum};

use super::*;
use crate::ibnetdiscover;
use crate::netlist::{Node, NodeKind};

fn generated(spec: &str) -> Netlist {
    generate(spec).unwrap_or_else(|error| panic!("{error}"))
}

/// The kind of a node in its fabric: `host`, or the leading word of the switch's name.
fn level(node: &Node) -> &'static str {
    let name = node.name();
    ["host", "leaf", "spine", "core"]
        .into_iter()
        .find(|word| name.contains(word))
        .unwrap_or("switch")
}

/// The number of nodes of each level.
fn levels(netlist: &Netlist) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for node in netlist.nodes() {
        *counts.entry(level(node)).or_default() += 1;
    }
    counts
}

/// The number of cables between two levels.
fn cables(netlist: &Netlist, one: &str, other: &str) -> usize {
    netlist
        .cables()
        .iter()
        .filter(|cable| {
            let [a, b] = [cable.a.0, cable.b.0].map(|index| level(&netlist.nodes()[index]));
            (a, b) == (one, other) || (b, a) == (one, other)
        })
        .count()
}

/// The number of nodes that cables connect with the first node.
fn connected_nodes(netlist: &Netlist) -> usize {
    let mut seen = vec![false; netlist.nodes().len()];
    let mut open = vec![0];
    seen[0] = true;
    while let Some(node) = open.pop() {
        for port in 1..=netlist.nodes()[node].num_ports {
            if let Some((peer, _)) = netlist.peer((node, PortNum(port)))
                && !seen[peer]
            {
                seen[peer] = true;
                open.push(peer);
            }
        }
    }
    seen.into_iter().filter(|seen| *seen).count()
}

fn assert_connected(spec: &str, netlist: &Netlist) {
    assert_eq!(connected_nodes(netlist), netlist.nodes().len(), "{spec}");
}

#[test]
fn every_example_generates_a_connected_fabric_that_is_read_back() {
    for spec in specs() {
        let netlist = generated(spec.example);
        assert_connected(spec.example, &netlist);
        assert_eq!(netlist, generated(spec.example));
        assert!(spec.example.starts_with(spec.name) && spec.synopsis.starts_with(spec.name));
        let mut text = Vec::new();
        ibnetdiscover::write(&netlist, &mut text).unwrap();
        let parsed = ibnetdiscover::parse(&text, spec.example).unwrap();
        assert_eq!((&parsed.netlist, &parsed.warnings[..]), (&netlist, &[][..]));
    }
}

#[test]
fn generated_nodes_have_distinct_names_and_no_lids() {
    let netlist = generated("superpod");
    let names: BTreeSet<_> = netlist
        .nodes()
        .iter()
        .map(|node| &node.description)
        .collect();
    assert_eq!(names.len(), netlist.nodes().len());
    for node in netlist.nodes() {
        assert!(node.ports.values().all(|port| port.lid == Lid::NONE));
        assert_eq!(node.ports.len(), 1);
    }
}

#[test]
fn faults_remove_the_requested_parts() {
    let whole = generated("superpod");
    let between = |netlist: &Netlist| cables(netlist, "leaf", "spine");
    assert_eq!(between(&whole), 1024);
    for (faults, left) in [
        ("links:3", 1021),
        ("links:1%", 1013),
        ("links:0.1%", 1022),
        ("links:100%", 0),
        ("links:0%", 1024),
        ("seed=9", 1024),
    ] {
        let netlist = generated(&format!("superpod,faults={faults}"));
        assert_eq!(between(&netlist), left, "{faults}");
        assert_eq!(netlist.nodes(), whole.nodes(), "{faults}");
        assert_eq!(cables(&netlist, "host", "leaf"), 1024, "{faults}");
    }

    let netlist = generated("superpod,faults=switches:2,seed=7");
    assert_eq!(netlist.count(NodeKind::Switch), 46);
    assert_eq!(netlist.count(NodeKind::Ca), 1024);
    let known: BTreeSet<_> = whole.nodes().iter().map(|node| node.guid).collect();
    assert!(
        netlist
            .nodes()
            .iter()
            .all(|node| known.contains(&node.guid))
    );
    // The remaining nodes are connected as before, though their indices have changed.
    for cable in netlist.cables() {
        let [a, b] = [cable.a, cable.b].map(|(index, port)| {
            let guid = netlist.nodes()[index].guid;
            (whole.by_guid(guid).unwrap(), port)
        });
        assert_eq!(whole.peer(a), Some(b));
    }
}

#[test]
fn faults_depend_only_on_their_seed_and_not_on_the_order_of_options() {
    let one = generated("superpod,faults=links:5%,switches:1,seed=1");
    assert_eq!(one, generated("superpod,faults=seed=1,switches:1,links:5%"));
    assert!(one != generated("superpod,faults=links:5%,switches:1,seed=2"));
}

#[test]
fn options_change_the_speed_of_cables() {
    let fast = generated("ring:3,speed=ndr");
    assert!(
        fast.cables()
            .iter()
            .all(|cable| cable.speed == LinkSpeed::Ndr)
    );
    assert!(
        generated("ring:3")
            .cables()
            .iter()
            .all(|cable| cable.speed == LinkSpeed::Hdr)
    );
    assert_eq!(
        generated("superpod,speed=HDR,faults=links:1"),
        generated("superpod:speed=HDR,su=4,faults=links:1")
    );
}
