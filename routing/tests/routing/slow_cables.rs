//! Cables that are slower than most of their siblings, and cables that are slower on purpose.

#![expect(clippy::print_stdout, reason = "figures of the fabrics are shown")]

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::{Guid, PortNum};
use rsm_routing::generate::{generate, specs};
use rsm_routing::ibnetdiscover::parse;
use rsm_routing::netlist::{LinkSpeed, Netlist};
use rsm_routing::topology::{SlowCable, SwitchIdx, Topology};

use crate::common::Fabric;

const EDR: u32 = 100;
const HDR: u32 = 200;

/// Leaves and spines with one cable between any two, with the rate of each.
struct Tree {
    fabric: Fabric,
    leaves: Vec<usize>,
    spines: Vec<usize>,
}

impl Tree {
    fn new(leaves: usize, spines: usize, rate: impl Fn(usize, usize) -> u32) -> Tree {
        let mut fabric = Fabric::new();
        let tree = (fabric.switches(leaves), fabric.switches(spines));
        for &leaf in &tree.0 {
            for &spine in &tree.1 {
                fabric.link_of_rate(leaf, spine, rate(leaf, spine - leaves));
            }
            fabric.hosts(leaf, 2);
        }
        Tree {
            fabric,
            leaves: tree.0,
            spines: tree.1,
        }
    }

    /// The slow cables, by leaf and spine.
    fn slow(self) -> Vec<(usize, usize, u32, u32)> {
        let spines_from = self.spines[0];
        let found = self.fabric.build();
        let found = found.slow_cables(|switch| found.hosts(switch) > 0);
        let number = |guid: Guid| (guid.0 - 0x1000) as usize;
        let ends =
            |slow: &SlowCable| (number(slow.cable.a.0), number(slow.cable.b.0) - spines_from);
        assert!(self.leaves.len() <= spines_from);
        found
            .iter()
            .map(|slow| (ends(slow).0, ends(slow).1, slow.rate, slow.beside))
            .collect()
    }
}

#[test]
fn a_cable_slower_than_most_at_both_ends_is_found_once() {
    let rate_of = |leaf, spine| if (leaf, spine) == (2, 1) { EDR } else { HDR };
    assert_eq!(Tree::new(4, 3, rate_of).slow(), [(2, 1, EDR, HDR)]);
    // If a leaf has two slow cables, the slower one is reported; a cable barely slower counts too.
    let barely = |leaf, spine| if (leaf, spine) == (3, 0) { 199 } else { HDR };
    assert_eq!(Tree::new(4, 2, barely).slow(), [(3, 0, 199, HDR)]);
}

#[test]
fn a_cable_slower_than_those_beside_it_between_two_switches_is_found() {
    for (rates, expected) in [
        (&[HDR, EDR][..], &[EDR][..]),
        (&[HDR, HDR, EDR], &[EDR]),
        (&[50, HDR, EDR], &[50]),
        (&[HDR, HDR, HDR, EDR, EDR], &[EDR, EDR]),
        // No rate is that of most of them.
        (&[HDR, HDR, EDR, EDR], &[]),
        (&[EDR, EDR, HDR], &[]),
        (&[EDR], &[]),
    ] {
        let mut fabric = Fabric::new();
        let switches = fabric.switches(2);
        for &rate in rates {
            fabric.link_of_rate(switches[0], switches[1], rate);
        }
        let found: Vec<u32> = fabric
            .build()
            .slow_cables(|_| 0)
            .iter()
            .map(|slow| slow.rate)
            .collect();
        assert_eq!(found, expected, "{rates:?}");
    }
}

#[test]
fn an_edge_switch_with_slow_cables_alone_is_not_reported() {
    let mut fabric = Fabric::new();
    let [one, other, edge] = fabric.switches(3)[..] else {
        unreachable!()
    };
    let slow = fabric.link_of_rate(one, other, 100);
    fabric.link_of_rate(one, other, 400);
    fabric.link_of_rate(one, other, 200);
    fabric.link_of_rate(other, edge, 100);
    let found = fabric.build().slow_cables(|_| 0);
    let [found] = found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((found.rate, found.beside), (100, 400));
    assert_eq!(found.cable.a, (Guid(0x1000), slow.0));
    assert_eq!(found.cable.b, (Guid(0x1001), slow.1));
}

#[test]
fn speeds_that_are_mixed_on_purpose_are_not_reported() {
    // A leaf, or a spine, of the older generation; half of either.
    let none: [(usize, usize, u32, u32); 0] = [];
    let old_leaf = |leaf, _| if leaf == 1 { EDR } else { HDR };
    assert_eq!(Tree::new(6, 4, old_leaf).slow(), none);
    let old_spine = |_, spine| if spine == 3 { EDR } else { HDR };
    assert_eq!(Tree::new(6, 4, old_spine).slow(), none);
    let half = |leaf, spine| if leaf < 3 && spine < 2 { EDR } else { HDR };
    assert_eq!(Tree::new(6, 4, half).slow(), none);
    let either = |leaf, spine| if leaf == 0 || spine == 0 { EDR } else { HDR };
    assert_eq!(Tree::new(6, 4, either).slow(), none);
}

#[test]
fn slower_cables_between_groups_of_a_dragonfly_are_not_reported() {
    // Each group is a full mesh of fast cables; each switch has one slow cable to another group.
    let dragonfly = |fault: bool| {
        let (groups, size) = (9, 8);
        let mut fabric = Fabric::new();
        let switches = fabric.switches(groups * size);
        let at = |group: usize, number: usize| switches[group * size + number];
        for group in 0..groups {
            for a in 0..size {
                fabric.hosts(at(group, a), 2);
                for b in a + 1..size {
                    let rate = if fault && (group, a, b) == (4, 2, 5) {
                        50
                    } else {
                        HDR
                    };
                    fabric.link_of_rate(at(group, a), at(group, b), rate);
                }
            }
            for other in group + 1..groups {
                fabric.link_of_rate(at(group, other - 1), at(other, group), EDR);
            }
        }
        let topology = fabric.build();
        let found = topology.slow_cables(|_| 0);
        found
            .iter()
            .map(|slow| (slow.rate, slow.beside))
            .collect::<Vec<_>>()
    };
    assert_eq!(dragonfly(false), []);
    assert_eq!(dragonfly(true), [(50, HDR)]);
}

#[test]
fn uniform_fabrics_have_no_slow_cables() {
    for spec in specs() {
        let topology = Topology::from_netlist(&generate(spec.example).unwrap()).unwrap();
        let found = topology.slow_cables(|_| 0);
        assert_eq!(found, [], "{}", spec.example);
    }
}

/// The slow cables of a netlist: kinds are models, with and without hosts.
fn slow(netlist: &Netlist) -> (Topology, Vec<SlowCable>) {
    let topology = Topology::from_netlist(netlist).unwrap();
    let kind = |switch: SwitchIdx| {
        let node = netlist.by_guid(topology.switch(switch).guid).unwrap();
        let node = &netlist.nodes()[node];
        (topology.hosts(switch) > 0, node.vendor_id, node.device_id)
    };
    let found = topology.slow_cables(kind);
    (topology, found)
}

#[test]
fn one_slower_cable_is_found_on_every_tree_of_the_generators() {
    for spec in [
        "superpod:su=2",
        "pgft:2;6,6;1,6;1,1",
        "fat-tree:k=8,levels=3",
    ] {
        let regular = generate(spec).unwrap();
        let topology = Topology::from_netlist(&regular).unwrap();
        for cable in topology.cables().into_iter().step_by(37) {
            let (nodes, mut cables) = regular.clone().into_parts();
            let end = |(node, port): (usize, PortNum)| (nodes[node].guid, port);
            let one = cables
                .iter_mut()
                .find(|one| [end(one.a), end(one.b)].contains(&cable.a));
            // HDR is one generation below NDR, EDR one below HDR.
            let one = one.unwrap();
            one.speed = match one.speed {
                LinkSpeed::Ndr => LinkSpeed::Hdr,
                _ => LinkSpeed::Edr,
            };
            let (_, found) = slow(&Netlist::new(nodes, cables).unwrap());
            let found: Vec<_> = found.iter().map(|slow| slow.cable).collect();
            assert_eq!(found, [cable], "{spec}");
        }
    }
}

/// The slow cables of the files, by rate and the rate beside, in tenths of a Gb/s. The files are
/// not part of this repository.
#[test]
fn real_fabrics_have_these_slow_cables() {
    // In both one of two cables between the same switches has one lane.
    let voltaire: &[(u32, u32, usize)] = &[(25, 100, 1)];
    let oddities: &[(u32, u32, usize)] = &[(25, 1200, 1)];
    let expected_counts = BTreeMap::from([
        ("ibtopotool-1-manpage-voltaire-sdr.txt", voltaire),
        ("synthetic-oddities.txt", oddities),
    ]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/topologies");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("no fabrics in {}: nothing to look at", folder.display());
        return;
    };
    for file in files {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let parsed = parse(&std::fs::read(&path).unwrap(), &name).unwrap();
        let (topology, found) = slow(&parsed.netlist);
        let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for slow in &found {
            *counts.entry((slow.rate, slow.beside)).or_default() += 1;
        }
        let counts: Vec<_> = counts
            .into_iter()
            .map(|((rate, beside), count)| (rate, beside, count))
            .collect();
        println!(
            "{name}: {counts:?} of {} cables between switches",
            topology.cables().len()
        );
        let expected = expected_counts
            .get(name.as_str())
            .copied()
            .unwrap_or_default();
        assert_eq!(counts, expected, "{name}");
    }
}
