//! Each generator builds the fabric that its formula or its publication describes.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::PortNum;

use super::{assert_connected, cables, generated, level, levels};
use crate::generate::generate;
use crate::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, NodeKind};

/// The name of the switch, and the port, to which an adapter is connected.
fn port_of(netlist: &Netlist, adapter: &str) -> (String, u8) {
    let adapter = netlist.by_name(adapter).expect(adapter);
    let (switch, port) = netlist
        .peer((adapter, PortNum(1)))
        .expect("the adapter has a cable");
    (netlist.nodes()[switch].name(), port.0)
}

#[test]
fn options_for_irregularity_change_hosts_of_spines_and_leaves_and_cable_rates() {
    let whole = generated("pgft:2;18,12;1,6;1,1");
    assert_eq!(whole.count(NodeKind::Ca), 216);
    let managed = generated("pgft:2;18,12;1,6;1,1,management=2,hosts-on-spines=5x3");
    assert_eq!(managed.count(NodeKind::Ca), 216 + 2 + 15);
    // The storage hosts are at spines 1, 3 and 5, on the ports behind those to the twelve leaves.
    assert_eq!(
        port_of(&managed, "storage-01 mlx5_0"),
        ("MF0;spine-01:MQM8700/U1".to_owned(), 13)
    );
    assert_eq!(
        port_of(&managed, "storage-15 mlx5_0"),
        ("MF0;spine-05:MQM8700/U1".to_owned(), 17)
    );
    assert_eq!(
        port_of(&managed, "mgmt-02 mlx5_0"),
        ("MF0;spine-04:MQM8700/U1".to_owned(), 13)
    );
    let uneven = generated("pgft:2;18,12;1,6;1,1,uneven=50");
    assert_connected("uneven", &uneven);
    let hosts = uneven.count(NodeKind::Ca);
    assert!((108..216).contains(&hosts), "{hosts}");
    assert_eq!(generated("pgft:2;18,12;1,6;1,1,uneven=50"), uneven);
    let mixed = generated("pgft:2;18,12;1,6;1,1,slow=50,narrow=25");
    let at = |is: &dyn Fn(&Cable) -> bool| mixed.cables().iter().filter(|&cable| is(cable)).count();
    // There are 72 cables between switches.
    assert_eq!(at(&|cable| cable.speed == LinkSpeed::Edr), 36);
    assert_eq!(at(&|cable| cable.width == LinkWidth::X1), 18);
    let both = at(&|cable| cable.speed == LinkSpeed::Edr && cable.width == LinkWidth::X1);
    assert!((1..18).contains(&both), "{both}");
    let error = generate("ring:6,management=2").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`ring:6,management=2`, character 19: spines is 2, expected at most 0"
    );
}

#[test]
fn superpod_has_the_published_counts() {
    // Columns: units, hosts, leaves, spines, cores.
    let published = [
        (1, 32, 8, 4, 0),
        (2, 64, 16, 8, 0),
        (3, 96, 24, 16, 0),
        (4, 128, 32, 16, 0),
        (8, 256, 64, 32, 0),
        (16, 512, 128, 128, 64),
        (32, 1024, 256, 256, 128),
        (64, 2048, 512, 512, 256),
    ];
    for (units, hosts, leaves, spines, cores) in published {
        let spec = format!("superpod:su={units}");
        let netlist = generated(&spec);
        let adapters = hosts * 8;
        let counts = levels(&netlist);
        let count = |name| counts.get(name).copied().unwrap_or(0);
        assert_eq!(
            [count("host"), count("leaf"), count("spine"), count("core")],
            [adapters, leaves, spines, cores],
            "{spec}"
        );
        // Equally many cables at every level give full bisection.
        assert_eq!(cables(&netlist, "host", "leaf"), adapters, "{spec}");
        assert_eq!(cables(&netlist, "leaf", "spine"), adapters, "{spec}");
        let to_cores = if cores == 0 { 0 } else { adapters };
        assert_eq!(cables(&netlist, "spine", "core"), to_cores, "{spec}");
        assert!(netlist.cables().iter().all(|c| c.speed == LinkSpeed::Ndr));
        assert_connected(&spec, &netlist);
    }
    assert_eq!(generated("superpod"), generated("superpod:su=4"));
}

#[test]
fn superpod_of_any_size_uses_every_uplink_and_core_port() {
    for units in 1..=64 {
        let spec = format!("superpod:su={units}");
        let netlist = generated(&spec);
        assert_connected(&spec, &netlist);
        // The number of cables upward of each leaf and spine, and of all cables of each core.
        let mut upward: BTreeMap<usize, usize> = BTreeMap::new();
        for cable in netlist.cables() {
            for (here, there) in [(cable.a.0, cable.b.0), (cable.b.0, cable.a.0)] {
                match [here, there].map(|index| level(&netlist.nodes()[index])) {
                    ["spine", "core"] | ["leaf", "spine"] => *upward.entry(here).or_default() += 1,
                    ["core", "spine"] => *upward.entry(here).or_default() += 1,
                    _ => {}
                }
            }
        }
        for (node, count) in upward {
            let full = if level(&netlist.nodes()[node]) == "core" {
                64
            } else {
                32
            };
            assert_eq!(count, full, "{spec}: {}", netlist.nodes()[node].name());
        }
    }
}

#[test]
fn superpod_adapters_follow_their_rails() {
    let netlist = generated("superpod:su=4");
    let port_of = |adapter| port_of(&netlist, adapter);
    let leaf = |name: &str| format!("MF0;{name}:MQM9700/U1");
    assert_eq!(port_of("host-001 mlx5_0"), (leaf("su-01-leaf-01"), 1));
    assert_eq!(port_of("host-001 mlx5_7"), (leaf("su-01-leaf-08"), 1));
    assert_eq!(port_of("host-032 mlx5_3"), (leaf("su-01-leaf-04"), 32));
    assert_eq!(port_of("host-033 mlx5_3"), (leaf("su-02-leaf-04"), 1));
    assert_eq!(port_of("host-128 mlx5_7"), (leaf("su-04-leaf-08"), 32));
    // Each leaf has two cables to each spine.
    let mut pairs: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for Cable { a, b, .. } in netlist.cables() {
        if netlist.nodes()[b.0].kind == NodeKind::Switch {
            *pairs.entry((a.0, b.0)).or_default() += 1;
        }
    }
    assert_eq!(pairs.len(), 32 * 16);
    assert!(pairs.values().all(|count| *count == 2));
}

#[test]
fn fat_trees_have_the_counts_of_the_formula() {
    for (k, height) in [(4, 1), (4, 2), (8, 3), (6, 4), (24, 3), (2, 3)] {
        let spec = format!("fat-tree:k={k},levels={height}");
        let netlist = generated(&spec);
        let half = k / 2usize;
        let hosts = 2 * half.pow(height);
        assert_eq!(netlist.count(NodeKind::Ca), hosts, "{spec}");
        let switches = (2 * height as usize - 1) * half.pow(height - 1);
        assert_eq!(netlist.count(NodeKind::Switch), switches, "{spec}");
        assert_eq!(netlist.cables().len(), hosts * height as usize, "{spec}");
        // Every port of every switch is in use.
        let used = 2 * netlist.cables().len() - hosts;
        assert_eq!(used, switches * k, "{spec}");
        if k > 2 {
            assert_connected(&spec, &netlist);
        }
    }
    let netlist = generated("fat-tree:k=24,levels=3");
    let sizes = [netlist.count(NodeKind::Ca), netlist.count(NodeKind::Switch)];
    assert_eq!(sizes, [3456, 720]);
}

#[test]
fn pgft_has_the_counts_of_the_formula() {
    let netlist = generated("pgft:3;32,32,44;1,32,16;1,1,2");
    let counts = levels(&netlist);
    assert_eq!(counts["host"], 45_056);
    assert_eq!(
        [counts["leaf"], counts["spine"], counts["core"]],
        [1408, 1408, 512]
    );
    assert_eq!(netlist.nodes().len(), 48_384);
    assert_eq!(cables(&netlist, "leaf", "spine"), 45_056);
    assert_eq!(cables(&netlist, "spine", "core"), 45_056);

    // The switches have 144 ports on two levels, for 1,296 hosts with 8 rails.
    let counts = levels(&generated("pgft:2;72,144;1,72;1,1,speed=XDR"));
    assert_eq!(
        [counts["host"], counts["leaf"], counts["spine"]],
        [10_368, 144, 72]
    );
}

#[test]
fn pgft_children_share_their_digits_with_their_parents() {
    // Each host is connected to two leaves, and each leaf by two cables to each of two spines.
    let netlist = generated("pgft:2;3,2;2,2;1,2");
    let counts = levels(&netlist);
    assert_eq!(
        [counts["host"], counts["leaf"], counts["spine"]],
        [12, 4, 4]
    );
    let leaf = |name: &str| format!("MF0;{name}:MQM8700/U1");
    assert_eq!(port_of(&netlist, "host-001 mlx5_0"), (leaf("leaf-01"), 1));
    assert_eq!(port_of(&netlist, "host-001 mlx5_1"), (leaf("leaf-02"), 1));
    assert_eq!(port_of(&netlist, "host-006 mlx5_0"), (leaf("leaf-03"), 3));
    let parents = |name: &str| -> Vec<String> {
        let index = netlist.by_name(&leaf(name)).unwrap();
        (4..=7)
            .filter_map(|port| netlist.peer((index, PortNum(port))))
            .map(|(peer, port)| format!("{}[{port}]", netlist.nodes()[peer].name()))
            .map(|name| name.replace("MF0;", "").replace(":MQM8700/U1", ""))
            .collect()
    };
    // Leaves 1 and 2 of a subtree have different parents, because parents share the low digit.
    assert_eq!(
        parents("leaf-01"),
        ["spine-01[1]", "spine-01[2]", "spine-03[1]", "spine-03[2]"]
    );
    assert_eq!(
        parents("leaf-04"),
        ["spine-02[3]", "spine-02[4]", "spine-04[3]", "spine-04[4]"]
    );
}

#[test]
fn tori_have_the_cables_of_their_rings() {
    for (spec, switches, between) in [
        ("torus:4x4x4", 64, 192),
        ("torus:5", 5, 5),
        ("torus:2x2", 4, 4),
        ("torus:3x1x2,hosts=0", 6, 9),
        ("ring:6,hosts=2", 6, 6),
        ("torus:16x16x16", 4096, 12288),
    ] {
        let netlist = generated(spec);
        assert_eq!(netlist.count(NodeKind::Switch), switches, "{spec}");
        assert_eq!(cables(&netlist, "switch", "switch"), between, "{spec}");
        assert_connected(spec, &netlist);
    }
    assert_eq!(generated("ring:6,hosts=2").count(NodeKind::Ca), 12);
}

#[test]
fn meshes_and_hyperx_have_the_cables_of_their_rows() {
    for (spec, switches, between) in [
        ("mesh:4x4x4", 64, 144),
        ("mesh:2x2x2x2x2x2", 64, 192),
        ("mesh:7,hosts=2", 7, 6),
        ("hyperx:4x4x4", 64, 288),
        ("hyperx:3x5,hosts=2", 15, 45),
    ] {
        let netlist = generated(spec);
        assert_eq!(netlist.count(NodeKind::Switch), switches, "{spec}");
        assert_eq!(cables(&netlist, "switch", "switch"), between, "{spec}");
        assert_connected(spec, &netlist);
    }
}

#[test]
fn switches_of_a_slim_fly_are_at_most_two_hops_apart() {
    for (q, degree) in [(5, 7), (13, 19)] {
        let netlist = generated(&format!("slim-fly:{q},hosts=2"));
        assert_eq!(netlist.count(NodeKind::Ca), 4 * q * q);
        let switches: Vec<usize> = (0..netlist.nodes().len())
            .filter(|&node| netlist.nodes()[node].kind == NodeKind::Switch)
            .collect();
        assert_eq!(switches.len(), 2 * q * q);
        let next = |node: usize| {
            let ports = 1..=netlist.nodes()[node].num_ports;
            let peers = ports
                .filter_map(|port| netlist.peer((node, PortNum(port))))
                .map(|(peer, _)| peer);
            peers
                .filter(|&peer| netlist.nodes()[peer].kind == NodeKind::Switch)
                .collect::<BTreeSet<usize>>()
        };
        let neighbours: BTreeMap<usize, BTreeSet<usize>> =
            switches.iter().map(|&node| (node, next(node))).collect();
        for (node, own) in &neighbours {
            assert_eq!(own.len(), degree);
            let mut near: BTreeSet<usize> = own.clone();
            near.extend(own.iter().flat_map(|other| &neighbours[other]));
            near.insert(*node);
            assert_eq!(near.len(), switches.len(), "q {q}");
        }
    }
}

#[test]
fn dragonfly_plus_has_the_published_counts() {
    let netlist = generated("dragonfly+:groups=23,leaves=18,spines=18,hosts=8,links=18");
    let counts = levels(&netlist);
    assert_eq!(
        [counts["host"], counts["leaf"], counts["spine"]],
        [23 * 18 * 8, 414, 414]
    );
    assert_eq!(cables(&netlist, "leaf", "spine"), 23 * 18 * 18);
    assert_eq!(cables(&netlist, "spine", "spine"), 23 * 22 / 2 * 18);
    // A spine has 18 ports to leaves and 22 * 18 / 18 = 22 global ones: 40 ports, as published.
    let spines = netlist.nodes().iter().filter(|node| level(node) == "spine");
    assert_eq!(
        spines.map(|node| node.num_ports).collect::<BTreeSet<_>>(),
        [40].into()
    );
    assert_connected("dragonfly+", &netlist);
}

#[test]
fn dragonfly_groups_are_complete_and_each_two_have_equally_many_links() {
    for (spec, groups, switches, hosts, links) in [
        ("dragonfly:groups=9,switches=4,hosts=2", 9, 4, 2, 1),
        ("dragonfly:groups=5,switches=3,hosts=4,links=7", 5, 3, 4, 7),
    ] {
        let netlist = generated(spec);
        assert_eq!(netlist.count(NodeKind::Switch), groups * switches, "{spec}");
        assert_eq!(
            netlist.count(NodeKind::Ca),
            groups * switches * hosts,
            "{spec}"
        );
        let mut between: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let group = |node: usize| node / switches;
        for Cable { a, b, .. } in netlist.cables() {
            if [a, b]
                .iter()
                .all(|end| netlist.nodes()[end.0].kind == NodeKind::Switch)
            {
                *between.entry((group(a.0), group(b.0))).or_default() += 1;
            }
        }
        for one in 0..groups {
            assert_eq!(
                between[&(one, one)],
                switches * (switches - 1) / 2,
                "{spec}"
            );
            for other in one + 1..groups {
                assert_eq!(between[&(one, other)], links, "{spec}");
            }
        }
        assert_connected(spec, &netlist);
    }
}

#[test]
fn xpander_connects_each_switch_once_to_each_other_group() {
    let netlist = generated("xpander:degree=6,size=4,hosts=3,seed=2");
    assert_eq!(netlist.count(NodeKind::Switch), 28);
    assert_eq!(netlist.count(NodeKind::Ca), 84);
    let mut partners: BTreeSet<(usize, usize)> = BTreeSet::new();
    for Cable { a, b, .. } in netlist.cables() {
        if [a, b]
            .iter()
            .all(|end| netlist.nodes()[end.0].kind == NodeKind::Switch)
        {
            assert!(partners.insert((a.0, b.0 / 4)), "one cable to each group");
            assert!(partners.insert((b.0, a.0 / 4)), "one cable to each group");
            assert_ne!(a.0 / 4, b.0 / 4);
        }
    }
    assert_eq!(partners.len(), 28 * 6);
    assert_connected("xpander", &netlist);
    assert!(generated("xpander:degree=6,size=4") != generated("xpander:degree=6,size=4,seed=1"));
}

#[test]
fn random_graphs_are_connected_for_any_seed() {
    for seed in 0..50 {
        let spec = format!("random:switches=40,degree=3,hosts=2,seed={seed}");
        let netlist = generated(&spec);
        assert_eq!(netlist.count(NodeKind::Ca), 80);
        assert_connected(&spec, &netlist);
    }
    assert_connected("line", &generated("random:switches=9,degree=2"));
    assert_eq!(generated("random:switches=1,degree=0").nodes().len(), 2);
    let one = generated("random:switches=40,degree=3,seed=1");
    assert!(one != generated("random:switches=40,degree=3,seed=2"));
}
