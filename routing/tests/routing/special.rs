//! The promises of `dragonfly+`, `dfsssp`, `dnup` and `file`.

use crate::common;
use crate::random;

use std::fmt::Write as _;
use std::sync::Arc;

use common::{
    Fabric, assert_sound_on_lanes as assert_sound, dragonfly, generated, grid, pgft, ring,
};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid};
use rsm_routing::engine::{EngineError, EngineKind, Options, Routing, route};
use rsm_routing::lfts;
use rsm_routing::tables::Tables;
use rsm_routing::topology::{EndpointKind, Topology};
use rsm_routing::verify::verify_on_lanes;

fn routed(kind: EngineKind, topology: &Topology) -> Routing {
    route(kind, topology, &Options::default(), None).unwrap()
}

fn refused(kind: EngineKind, topology: &Topology) -> String {
    let error = route(kind, topology, &Options::default(), None).unwrap_err();
    error.to_string()
}

/// The SLs that packets to hosts need.
fn host_levels(topology: &Topology, routing: &Routing) -> Vec<Option<u8>> {
    let hosts = |switch: &_| topology.hosts(*switch) > 0;
    let first = topology.indices().next().unwrap();
    let mut levels: Vec<Option<u8>> = topology
        .indices()
        .filter(hosts)
        .map(|to| routing.lanes.level(first, to))
        .collect();
    levels.dedup();
    levels
}

#[test]
fn a_dragonfly_plus_has_one_hop_between_groups() {
    for (groups, leaves, spines, links) in [(2, 3, 2, 1), (5, 4, 4, 4), (9, 2, 4, 1), (4, 3, 6, 8)]
    {
        let topology = dragonfly(groups, leaves, spines, 4, links);
        let routing = routed(EngineKind::DragonflyPlus, &topology);
        let report = assert_sound(&topology, &routing);
        assert_eq!(report.switch_pairs.unreachable, 0);
        assert_eq!(routing.lanes.vls(), 3);
        // Hosts may use any service level but 1.
        assert_eq!(
            host_levels(&topology, &routing),
            [Some(0)],
            "{}",
            routing.reason
        );
        // Up, across, down: 3 hops to another group, 2 within one, 0 to the own leaf.
        let hosts = (groups * leaves * 4) as f64;
        let far = hosts - (leaves * 4) as f64;
        let near = ((leaves - 1) * 4) as f64;
        let mean = (3.0 * far + 2.0 * near) / (hosts - 1.0);
        assert!(
            (report.average_hops - mean).abs() < 1e-9,
            "{}",
            report.average_hops
        );
    }
}

#[test]
fn a_dragonfly_plus_shares_its_links_evenly() {
    let topology = dragonfly(5, 4, 4, 4, 4);
    let routing = routed(EngineKind::DragonflyPlus, &topology);
    let report = assert_sound(&topology, &routing);
    // 16 hosts of one group to 16 of another over 4 links: 64 on each.
    assert!(report.load.max <= 80, "{:?}", report.load);
}

#[test]
fn a_dragonfly_plus_without_its_second_lane_has_a_credit_loop() {
    use rsm_routing::lanes::{Lanes, Mapping};
    // Spines without a link to a group go by the leaf on top of their own.
    let topology = dragonfly(9, 2, 4, 2, 1);
    let routing = routed(EngineKind::DragonflyPlus, &topology);
    let mut row = [0; 16];
    row[1] = 2;
    let mapping = Mapping::new(&topology, 1, |_, _| 0, |_, _| row);
    let merged = Lanes::new(routing.lanes.levels().clone(), mapping, 3);
    let report = verify_on_lanes(&topology, &routing.tables, &merged).report;
    assert!(!report.credit_loop_free);
}

#[test]
fn a_leaf_without_a_path_over_the_direct_link_is_still_reached() {
    // Two groups, one link between them; it ends at a spine that has lost its link to a leaf.
    let topology = dragonfly(2, 3, 2, 2, 1);
    let spines: Vec<_> = topology
        .indices()
        .filter(|&s| topology.hosts(s) == 0)
        .collect();
    let crossing = spines.iter().copied().find(|&spine| {
        topology
            .groups(spine)
            .any(|group| topology.hosts(group.neighbour) == 0)
    });
    let spine = crossing.unwrap();
    let down = topology
        .groups(spine)
        .find(|group| topology.hosts(group.neighbour) > 0);
    let cut = (topology.switch(spine).guid, down.unwrap().links[0].port);
    let broken = topology.without_cables(&[cut]);
    let routing = routed(EngineKind::DragonflyPlus, &broken);
    assert_sound(&broken, &routing);
    assert!(
        routing.reason.contains("1 switches with hosts"),
        "{}",
        routing.reason
    );
    assert!(routing.reason.contains("NCCL"), "{}", routing.reason);
}

#[test]
fn other_fabrics_are_refused_by_dragonfly_plus_with_the_reason() {
    let cases = [
        (ring(5), "both have hosts, and a link between them"),
        (
            pgft(&[4, 6], &[1, 4], &[1, 1], 0),
            "all leaves are in one group",
        ),
        (
            pgft(&[2, 3, 3], &[1, 3, 3], &[1, 1, 1], 0),
            "no link to a switch with hosts",
        ),
        (grid(&[(3, false)], 0, &[]), "it has no hosts"),
    ];
    for (topology, what) in cases {
        let text = refused(EngineKind::DragonflyPlus, &topology);
        assert!(
            text.contains("it is no dragonfly+: ") && text.contains(what),
            "{text}"
        );
    }
    let whole = dragonfly(3, 2, 2, 1, 1);
    let is_leaf = |guid: Guid| whole.hosts(whole.switch_by_guid(guid).unwrap()) > 0;
    let global = whole
        .cables()
        .into_iter()
        .find(|cable| !is_leaf(cable.a.0) && !is_leaf(cable.b.0));
    let text = refused(
        EngineKind::DragonflyPlus,
        &whole.without_cables(&[global.unwrap().a]),
    );
    assert!(text.contains("have no link between them"), "{text}");
    let options = Options {
        max_vls: Some(2),
        ..Options::default()
    };
    let error = route(EngineKind::DragonflyPlus, &whole, &options, None).unwrap_err();
    assert!(matches!(error, EngineError::TooFewLanes { needed: 3, .. }));
}

#[test]
fn dfsssp_uses_shortest_paths_and_fails_when_lanes_run_out() {
    let topology = grid(&[(5, true), (5, true)], 1, &[]);
    let routing = routed(EngineKind::Dfsssp, &topology);
    let report = assert_sound(&topology, &routing);
    assert_eq!(report.max_hops, 4);
    assert!(routing.lanes.vls() > 1 && routing.lanes.needs_levels());
    assert!(routing.reason.contains("NCCL"), "{}", routing.reason);
    let options = Options {
        max_vls: Some(1),
        ..Options::default()
    };
    let error = route(EngineKind::Dfsssp, &topology, &options, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "dfsssp needs 2 virtual lanes on this fabric, and its links have 1; auto, fabric-tree, updn \
         and nue need one"
    );
    // A tree needs one.
    let tree = pgft(&[4, 6], &[1, 4], &[1, 1], 0);
    let routing = routed(EngineKind::Dfsssp, &tree);
    assert_sound(&tree, &routing);
    assert!(routing.lanes.is_single());
}

#[test]
fn dfsssp_needs_few_lanes() {
    for (spec, most) in [
        ("fat-tree:k=8,levels=3", 1),
        ("superpod:su=2", 1),
        ("torus:4x4x4,hosts=4", 4),
        ("torus:5x5", 3),
        ("random:switches=100,degree=8,hosts=4,seed=1", 5),
    ] {
        let topology = generated(spec);
        let routing = routed(EngineKind::Dfsssp, &topology);
        let report = assert_sound(&topology, &routing);
        assert_eq!(report.switch_pairs.unreachable, 0);
        let lanes = routing.lanes.vls();
        assert!(lanes <= most, "{spec}: {lanes} lanes");
    }
}

#[test]
fn dfsssp_uses_shortest_paths_between_hosts() {
    for spec in [
        "fat-tree:k=8,levels=3",
        "torus:4x4x4,hosts=2",
        "random:switches=60,degree=6,hosts=3,seed=4",
    ] {
        let topology = generated(spec);
        let report = assert_sound(&topology, &routed(EngineKind::Dfsssp, &topology));
        let shortest = routed(EngineKind::MinHop, &topology);
        let shortest = rsm_routing::verify::verify(&topology, &shortest.tables);
        assert_eq!(report.average_hops, shortest.average_hops, "{spec}");
    }
}

#[test]
fn dfsssp_reaches_the_hosts_of_a_switch_by_different_paths() {
    // With one path to a leaf the fullest link has 8 times the mean.
    let topology = generated("superpod:su=2");
    let routing = routed(EngineKind::Dfsssp, &topology);
    let links = rsm_routing::quality::link_uses(&topology, &routing.tables);
    let sum: u64 = links.iter().map(|link| link.paths).sum();
    let most = links.iter().map(|link| link.paths).max().unwrap();
    assert!(most * links.len() as u64 <= 2 * sum, "{most}");
}

#[test]
fn dfsssp_spreads_the_hosts_of_a_leaf_on_a_tree_that_lacks_links() {
    for spec in [
        "fat-tree:k=8,levels=3,faults=links:1%,seed=1",
        "fat-tree:k=12,levels=3,faults=links:1%,seed=2",
        "pgft:3;6,6,6;1,6,3;1,1,2,faults=links:2%,seed=3",
    ] {
        let topology = generated(spec);
        let routing = routed(EngineKind::Dfsssp, &topology);
        assert_sound(&topology, &routing);
        let fullest = |routing: &Routing| {
            let links = rsm_routing::quality::link_uses(&topology, &routing.tables);
            links.iter().map(|link| link.paths).max().unwrap()
        };
        let tree = fullest(&routed(EngineKind::FabricTree, &topology));
        let dfsssp = fullest(&routing);
        assert!(
            dfsssp <= tree * 3 / 2,
            "{spec}: {dfsssp} paths, fabric-tree {tree}"
        );
    }
}

#[test]
fn dnup_ranks_by_the_hosts_and_never_by_given_roots() {
    // The given root would turn the tree upside down.
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(4);
    let spines = fabric.switches(2);
    for &leaf in &leaves {
        fabric.hosts(leaf, 4);
        for &spine in &spines {
            fabric.link(leaf, spine);
        }
    }
    let topology = fabric.build();
    let options = Options {
        root_guids: vec![Guid(0x1000)],
        ..Options::default()
    };
    let routing = route(EngineKind::DnUp, &topology, &options, None).unwrap();
    assert_sound(&topology, &routing);
    assert_eq!(routing.engine, "dnup");
    assert_eq!(routing.ranks.unwrap()[..4], [1, 1, 1, 1]);
    assert!(
        routing.reason.contains("from the hosts alone"),
        "{}",
        routing.reason
    );
}

/// The tables as OpenSM dumps them.
fn dump(topology: &Topology, tables: &Tables) -> String {
    let mut text = String::new();
    for (switch, lft) in topology.switches().iter().zip(&tables.lfts) {
        let top = topology.top_lid();
        writeln!(
            text,
            "Unicast lids [0-{top}] of switch Lid 1 guid {} (''):",
            switch.guid
        )
        .unwrap();
        for lid in (1..=top.0).map(Lid) {
            let (Some(port), Some(owner)) = (lft.port(lid), topology.destination_of(lid)) else {
                continue;
            };
            let (lid, port) = (lid.0, port.0);
            writeln!(
                text,
                "0x{lid:04x} {port:03} # Port portguid {}: ''",
                owner.guid
            )
            .unwrap();
        }
    }
    text
}

fn with_tables(text: &str) -> Options {
    Options {
        tables: Some(Arc::new(lfts::parse(text.as_bytes(), "tables").unwrap())),
        ..Options::default()
    }
}

#[test]
fn the_tables_of_a_file_are_used_and_completed() {
    let topology = pgft(&[4, 6], &[1, 4], &[1, 1], 0);
    let tables = routed(EngineKind::MinHop, &topology).tables;
    let text = dump(&topology, &tables);
    let whole = route(EngineKind::File, &topology, &with_tables(&text), None).unwrap();
    assert_eq!(whole.tables, tables);
    assert_eq!(whole.engine, "file");
    // Without one entry, its LID has the paths of updn everywhere.
    let line = text
        .lines()
        .find(|line| line.starts_with("0x0014"))
        .unwrap();
    let torn = text.replacen(&format!("{line}\n"), "", 1);
    let completed = route(EngineKind::File, &topology, &with_tables(&torn), None).unwrap();
    let report = verify_on_lanes(&topology, &completed.tables, &completed.lanes).report;
    assert_eq!((report.loop_free, report.unreachable_pairs), (true, 0));
    assert!(
        completed.reason.contains("updn's for the rest"),
        "{}",
        completed.reason
    );
    let updn = routed(EngineKind::UpDn, &topology).tables;
    for (switch, lft) in completed.tables.lfts.iter().enumerate() {
        assert_eq!(lft.entry(Lid(0x14)), updn.lfts[switch].entry(Lid(0x14)));
        assert_eq!(lft.entry(Lid(0x15)), tables.lfts[switch].entry(Lid(0x15)));
    }
    assert_eq!(
        route(EngineKind::File, &topology, &Options::default(), None),
        Err(EngineError::NoTables)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn broken_dragonflies_are_routed_or_refused(
        shape in (2usize..5, 1usize..5, 1usize..5, 1usize..4),
        holes in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let (groups, leaves, spines, links) = shape;
        let whole = dragonfly(groups, leaves, spines, 2, links);
        let cables = whole.cables();
        let ends: Vec<_> = holes.iter().map(|hole| cables[hole.index(cables.len())].a).collect();
        let broken = whole.without_cables(&ends);
        match route(EngineKind::DragonflyPlus, &broken, &Options::default(), None) {
            Ok(routing) => {
                let report = assert_sound(&broken, &routing);
                prop_assert_eq!(report.switch_pairs.unreachable, 0);
            }
            Err(error) => {
                let is_shape = matches!(error, EngineError::Shape { .. });
                prop_assert!(is_shape && !ends.is_empty(), "{}", error);
            }
        }
    }

    #[test]
    fn dfsssp_is_sound_or_returns_an_error(plan in random::any_fabric(), vls in 1u8..5) {
        let topology = plan.build();
        let options = Options { max_vls: Some(vls), ..Options::default() };
        match route(EngineKind::Dfsssp, &topology, &options, None) {
            Ok(routing) => {
                let report = assert_sound(&topology, &routing);
                prop_assert_eq!(report.switch_pairs.unreachable, 0);
                prop_assert!(routing.lanes.vls() <= vls);
                let on_threads = Options { threads: 3, ..options };
                let again = route(EngineKind::Dfsssp, &topology, &on_threads, None).unwrap();
                prop_assert_eq!(again, routing);
            }
            Err(error) => {
                let needed = vls + 1;
                let expected = EngineError::TooFewLanes { engine: "dfsssp", needed, available: vls };
                prop_assert_eq!(error, expected);
            }
        }
    }

    #[test]
    fn dnup_is_sound_on_any_fabric(plan in random::any_fabric()) {
        let topology = plan.build();
        assert_sound(&topology, &routed(EngineKind::DnUp, &topology));
    }

    #[test]
    fn files_are_completed_on_any_fabric(plan in random::any_fabric(), cut in any::<prop::sample::Index>()) {
        let topology = plan.build();
        let tables = routed(EngineKind::UpDn, &topology).tables;
        let text = dump(&topology, &tables);
        let lines: Vec<&str> = text.lines().collect();
        prop_assume!(!lines.is_empty());
        let torn = lines[..=cut.index(lines.len())].join("\n");
        let routing = route(EngineKind::File, &topology, &with_tables(&torn), None).unwrap();
        // Paths of one ranking complete each other.
        assert_sound(&topology, &routing);
    }
}

#[test]
fn a_spine_with_a_storage_host_is_no_leaf() {
    let mut fabric = Fabric::new();
    let mut spines = Vec::new();
    for _ in 0..3 {
        let leaves = fabric.switches(2);
        let spine = fabric.switch();
        for leaf in leaves {
            fabric.hosts(leaf, 8);
            fabric.link(leaf, spine);
        }
        spines.push(spine);
    }
    for (one, other) in [(0, 1), (1, 2), (0, 2)] {
        fabric.link(spines[one], spines[other]);
    }
    fabric.endport(spines[1], EndpointKind::Ca);
    let topology = fabric.build();
    let routing = routed(EngineKind::DragonflyPlus, &topology);
    assert_sound(&topology, &routing);
    assert!(
        routing.reason.contains("1 switches with hosts"),
        "{}",
        routing.reason
    );
}
