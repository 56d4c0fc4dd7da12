//! The operator's rules about switches and ports, and the order of ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::{EngineKind, Numbers, Options, Routing, route};
use rsm_routing::topology::{SwitchIdx, SwitchRules, Topology};
use rsm_routing::verify::verify;

use crate::adaptive::with_groups;
use crate::common::{Fabric, assert_sound_on_lanes, followed, generated};

/// Engines that weigh hops.
const WEIGHED: [EngineKind; 4] = [
    EngineKind::MinHop,
    EngineKind::UpDn,
    EngineKind::DnUp,
    EngineKind::FabricTree,
];

fn routed(engine: EngineKind, topology: &Topology, options: &Options) -> Routing {
    route(engine, topology, options, None).unwrap_or_else(|error| panic!("{engine}: {error}"))
}

fn with_hops(topology: Topology, hops: &[((Guid, PortNum), u8)]) -> Topology {
    topology.with_rules(Arc::new(SwitchRules {
        hops: hops.iter().copied().collect(),
        ..SwitchRules::default()
    }))
}

/// How many hosts elsewhere a switch reaches by each of its ports.
fn uses(topology: &Topology, routing: &Routing, switch: SwitchIdx) -> BTreeMap<u8, usize> {
    let mut uses = BTreeMap::new();
    let hosts = topology.destinations().iter();
    for host in hosts.filter(|host| host.kind.is_host() && host.switch != switch) {
        let port = routing.tables.lfts[switch.index()].entry(host.lid);
        *uses.entry(port).or_default() += 1;
    }
    uses
}

/// The first leaf of a fat tree, and its ports that lead up.
fn leaf_of(topology: &Topology) -> (SwitchIdx, Vec<PortNum>) {
    let leaf = topology
        .indices()
        .find(|&switch| topology.hosts(switch) > 0)
        .unwrap();
    let groups = topology.groups(leaf);
    let up = groups.flat_map(|group| group.links.iter().map(|link| link.port));
    (leaf, up.collect())
}

#[test]
fn a_heavy_hop_carries_nothing_while_a_lighter_path_exists() {
    let plain = generated("fat-tree:k=8,levels=2");
    let (leaf, up) = leaf_of(&plain);
    let guid = plain.switch(leaf).guid;
    for engine in WEIGHED {
        let before = uses(&plain, &routed(engine, &plain, &Options::default()), leaf);
        assert_eq!(before.len(), up.len(), "{engine}");
        let weighed = with_hops(plain.clone(), &[((guid, up[0]), 2)]);
        let routing = routed(engine, &weighed, &Options::default());
        let after = uses(&weighed, &routing, leaf);
        assert_eq!(after.len(), up.len() - 1, "{engine}");
        assert!(!after.contains_key(&up[0].0), "{engine}: {after:?}");
        let report = verify(&weighed, &routing.tables);
        assert!(
            report.loop_free && report.unreachable_pairs == 0,
            "{engine}"
        );
        // Equal weights of all links up change nothing.
        let equal: Vec<_> = up.iter().map(|&port| ((guid, port), 7)).collect();
        let weighed = with_hops(plain.clone(), &equal);
        let again = uses(
            &weighed,
            &routed(engine, &weighed, &Options::default()),
            leaf,
        );
        assert_eq!(again, before, "{engine}");
    }
}

#[test]
fn the_only_path_is_used_however_heavy_it_is() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(6);
    let mut ports = Vec::new();
    for pair in switches.windows(2) {
        ports.push((pair[0], fabric.link(pair[0], pair[1]).0));
    }
    for &switch in &switches {
        fabric.host(switch);
    }
    let most = SwitchRules::MOST_HOPS;
    let hops: Vec<_> = ports
        .iter()
        .map(|&(switch, port)| ((Guid(0x1000 + switch as u64), port), most))
        .collect();
    let topology = with_hops(fabric.build(), &hops);
    for engine in WEIGHED {
        assert_sound_on_lanes(&topology, &routed(engine, &topology, &Options::default()));
    }
}

/// The cost of each switch's path to `to` by the tables.
fn costs(topology: &Topology, routing: &Routing, to: SwitchIdx) -> Vec<u32> {
    let lid = topology.destinations_of(to)[0].lid;
    let cost = |mut switch: SwitchIdx| {
        let mut cost = 0;
        while switch != to {
            let port = PortNum(routing.tables.lfts[switch.index()].entry(lid));
            let guid = topology.switch(switch).guid;
            cost += topology
                .rules()
                .hops
                .get(&(guid, port))
                .map_or(1, |&hops| u32::from(hops));
            switch = topology.peer(switch, port).unwrap().0;
        }
        cost
    };
    topology.indices().map(cost).collect()
}

/// The least costs of paths to `to`: relaxed until nothing changes.
fn least(topology: &Topology, to: SwitchIdx) -> Vec<u32> {
    let mut costs = vec![u32::MAX / 2; topology.switch_count()];
    costs[to.index()] = 0;
    loop {
        let before = costs.clone();
        for switch in topology.indices() {
            let guid = topology.switch(switch).guid;
            for group in topology.groups(switch) {
                for link in group.links {
                    let hops = topology.rules().hops.get(&(guid, link.port));
                    let over = before[group.neighbour.index()] + hops.map_or(1, |&h| u32::from(h));
                    costs[switch.index()] = costs[switch.index()].min(over);
                }
            }
        }
        if costs == before {
            return costs;
        }
    }
}

#[test]
fn minhop_paths_are_the_cheapest_on_random_fabrics_with_random_weights() {
    for seed in 0..20 {
        let mut fabric = Fabric::new();
        let switches = fabric.switches(12);
        // A ring, and chords by the seed.
        for number in 0..12 {
            fabric.link(switches[number], switches[(number + 1) % 12]);
        }
        let mut state: u64 = seed * 2 + 1;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005u64)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut linked = BTreeSet::new();
        for _ in 0..8 {
            let (a, b) = (next(12) as usize, next(12) as usize);
            let distance = a.abs_diff(b);
            if distance > 1 && distance < 11 && linked.insert((a.min(b), a.max(b))) {
                fabric.link(switches[a], switches[b]);
            }
        }
        for &switch in &switches {
            fabric.host(switch);
        }
        let plain = fabric.build();
        let mut hops = Vec::new();
        for switch in plain.indices() {
            for group in plain.groups(switch) {
                let key = (plain.switch(switch).guid, group.links[0].port);
                hops.push((key, 1 + next(9) as u8));
            }
        }
        let topology = with_hops(plain, &hops);
        let routing = routed(EngineKind::MinHop, &topology, &Options::default());
        for to in topology.indices() {
            assert_eq!(
                costs(&topology, &routing, to),
                least(&topology, to),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn weighed_irregular_fabrics_stay_sound_with_parts_missing() {
    const FABRICS: [&str; 4] = [
        "fat-tree:k=4,levels=3",
        "random:switches=16,degree=4,hosts=2",
        "superpod:su=1",
        "torus:4x4,hosts=1",
    ];
    for seed in 0..24 {
        let plain = generated(FABRICS[seed % FABRICS.len()]);
        let mut hops = Vec::new();
        for (number, cable) in plain.cables().into_iter().enumerate() {
            if (number + seed) % 3 == 0 {
                hops.push((cable.a, 2 + (number % 5) as u8));
            }
        }
        let whole = with_hops(plain, &hops);
        for engine in [EngineKind::UpDn, EngineKind::FabricTree] {
            let first = routed(engine, &whole, &Options::default());
            assert_sound_on_lanes(&whole, &first);
            let cables = whole.cables();
            let gone = cables[seed * 5 % cables.len()].a;
            let damaged = whole.without_cables(&[gone]);
            let options = Options {
                previous_ranking: first.ranking.clone(),
                ..Options::default()
            };
            // Debug builds compare the repair with the computation from nothing.
            let second = route(engine, &damaged, &options, Some(&first.tables)).unwrap();
            assert_sound_on_lanes(&damaged, &second);
        }
    }
}

/// All links up from a leaf cost the same, and more than one hop: a repair has to find that some of
/// them no longer lead to another leaf.
#[test]
fn routes_over_weighed_links_of_equal_cost_are_repaired_when_a_link_above_is_lost() {
    for spec in ["pgft:2;2,2;1,2;1,1", "fat-tree:k=4,levels=3"] {
        let plain = generated(spec);
        let (leaf, up) = leaf_of(&plain);
        let guid = plain.switch(leaf).guid;
        let hops: Vec<_> = up.iter().map(|&port| ((guid, port), 2)).collect();
        let whole = with_hops(plain, &hops);
        let first = routed(EngineKind::FabricTree, &whole, &Options::default());
        assert_sound_on_lanes(&whole, &first);
        let of_leaf = |end: (Guid, PortNum)| end.0 == guid;
        let elsewhere: Vec<_> = whole
            .cables()
            .into_iter()
            .filter(|cable| !of_leaf(cable.a) && !of_leaf(cable.b))
            .collect();
        for cable in elsewhere {
            let damaged = whole.without_cables(&[cable.a]);
            let options = Options {
                previous_ranking: first.ranking.clone(),
                ..Options::default()
            };
            let second = route(
                EngineKind::FabricTree,
                &damaged,
                &options,
                Some(&first.tables),
            );
            assert_sound_on_lanes(&damaged, &second.unwrap());
        }
    }
}

#[test]
fn groups_over_weighed_links_have_the_ports_of_links_that_cost_one_hop() {
    let plain = generated("fat-tree:k=4,levels=3");
    let (leaf, up) = leaf_of(&plain);
    let guid = plain.switch(leaf).guid;
    let hops: Vec<_> = up.iter().map(|&port| ((guid, port), 2)).collect();
    let weighed = with_hops(plain.clone(), &hops);
    let groups = |topology: &Topology| {
        let routing = routed(EngineKind::FabricTree, topology, &Options::default());
        with_groups(topology, &routing).tables
    };
    assert_eq!(groups(&weighed), groups(&plain));
}

#[test]
fn ids_reverse_the_order_of_switches_of_one_level() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(4);
    for a in 0..4 {
        for b in a + 1..4 {
            fabric.link(switches[a], switches[b]);
        }
        fabric.host(switches[a]);
    }
    let plain = fabric.build();
    let ids = (0..4).map(|number| (Guid(0x1000 + number), 100 - number));
    let rules = SwitchRules {
        ids: ids.collect(),
        ..SwitchRules::default()
    };
    let reversed = plain.clone().with_rules(Arc::new(rules));
    for engine in [EngineKind::UpDn, EngineKind::DnUp] {
        let options = Options {
            root_guids: (0..4).map(|number| Guid(0x1000 + number)).collect(),
            ..Options::default()
        };
        let before = followed(&routed(engine, &plain, &options));
        let mut after = followed(&routed(engine, &reversed, &options));
        after.reverse();
        assert_eq!(after, before, "{engine}");
    }
}

#[test]
fn ports_next_to_each_other_in_the_list_use_different_links() {
    let topology = generated("fat-tree:k=8,levels=2");
    let (leaf, up) = leaf_of(&topology);
    // Every fourth host of the other leaves: without the list, some of them share a link.
    let hosts: Vec<_> = topology
        .destinations()
        .iter()
        .filter(|host| host.kind.is_host() && host.switch != leaf)
        .step_by(up.len())
        .take(up.len())
        .collect();
    let listed: Numbers = hosts.iter().map(|host| host.guid).zip(0..).collect();
    let listed = Arc::new(listed);
    for engine in WEIGHED {
        let used_links = |options: &Options| {
            let routing = routed(engine, &topology, options);
            let report = verify(&topology, &routing.tables);
            assert!(report.loop_free && report.unreachable_pairs == 0);
            let lft = &routing.tables.lfts[leaf.index()];
            let ports: BTreeSet<u8> = hosts.iter().map(|host| lft.entry(host.lid)).collect();
            ports.len()
        };
        assert!(used_links(&Options::default()) < up.len(), "{engine}");
        let options = Options {
            listed: listed.clone(),
            // The plan passes the list to `fabric-tree` in this field.
            numbers: listed.clone(),
            ..Options::default()
        };
        assert_eq!(used_links(&options), up.len(), "{engine}");
    }
}

#[test]
fn load_on_an_uncounted_port_is_ignored() {
    let mut fabric = Fabric::new();
    let [a, b] = [fabric.switch(), fabric.switch()];
    let (first, _) = fabric.link(a, b);
    let (second, _) = fabric.link(a, b);
    fabric.hosts(a, 4);
    fabric.hosts(b, 4);
    let plain = fabric.build();
    let key = (plain.switch(SwitchIdx(0)).guid, first);
    let rules = SwitchRules {
        uncounted: BTreeSet::from([key]),
        ..SwitchRules::default()
    };
    let ruled = plain.clone().with_rules(Arc::new(rules));
    for engine in [EngineKind::Dfsssp, EngineKind::Nue] {
        let even = uses(
            &plain,
            &routed(engine, &plain, &Options::default()),
            SwitchIdx(0),
        );
        assert_eq!(
            even,
            BTreeMap::from([(first.0, 2), (second.0, 2)]),
            "{engine}"
        );
        let routing = routed(engine, &ruled, &Options::default());
        assert_sound_on_lanes(&ruled, &routing);
        // Nothing is counted there, so that it is always the emptier one.
        let uncounted = uses(&ruled, &routing, SwitchIdx(0));
        assert_eq!(uncounted, BTreeMap::from([(first.0, 4)]), "{engine}");
    }
}
