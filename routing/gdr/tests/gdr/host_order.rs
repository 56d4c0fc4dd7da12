//! The order of compute ports: routes that follow it, and the places that ports keep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{Fleet, FleetFaults, fleet, recabled, with_servers};
use rsm_gdr::host_order::{Blocks, HostPosition, HostPositions, PositionError};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::job::{Pattern, PatternLoad};
use rsm_gdr::{Analysis, AnalysisConfig, Survey};
use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::{Categories, Category, EngineKind, Options, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_routing::quality::{Settings, measure, topological_order};
use rsm_routing::topology::{Destination, SwitchIdx, Topology};
use rsm_routing::verify::verify;

fn superpod(units: usize) -> Netlist {
    generate(&format!("superpod:su={units}")).expect("a published fabric")
}

/// A SuperPOD as built in practice: hosts are cabled to the leaves in random order, and 4 of every
/// 32 are storage servers.
fn mixed(units: usize, seed: u64) -> Netlist {
    let netlist = with_servers(superpod(units), 4, 32).expect("only names differ");
    recabled(netlist, seed).expect("ends are only exchanged")
}

/// A fleet without faults.
fn generated(netlist: Netlist) -> Fleet {
    fleet(netlist, FleetFaults::default()).expect("hosts with plain names")
}

fn gpu_fabric(netlist: &Netlist) -> GpuFabric {
    let topology = Arc::new(Topology::from_netlist(netlist).expect("LIDs suffice"));
    GpuFabric::from_netlist(netlist, topology, None, 4096)
}

/// The positions that extend `earlier`, from the hosts' inventories, cables and names.
fn positions(
    fabric: &GpuFabric,
    inventory: &GpuInventory,
    earlier: &HostPositions,
) -> HostPositions {
    let survey = Survey::new(inventory, Some(fabric), &AnalysisConfig::default());
    let blocks = Blocks::find(&survey, fabric, &Categories::new());
    earlier.with(&blocks, fabric)
}

/// Routes the fabric in the order of `positions`, keeping the ranking of `before`. Asserts that the
/// tables have no loops.
fn routed(topology: &Topology, positions: &HostPositions, before: Option<&Routing>) -> Routing {
    let options = Options {
        numbers: Arc::new(positions.numbers()),
        previous_ranking: before.and_then(|before| before.ranking.clone()),
        ..Options::default()
    };
    let routing =
        route(EngineKind::FabricTree, topology, &options, None).expect("a tree can be routed");
    let report = verify(topology, &routing.tables);
    assert!(report.loop_free && report.credit_loop_free);
    routing
}

/// The load of all hosts with these routes, ranks in the order of the positions.
fn load(
    fleet: &Fleet,
    positions: &HostPositions,
    routing: &Routing,
    pattern: Pattern,
) -> PatternLoad {
    let mut fabric = gpu_fabric(&fleet.netlist);
    fabric.tables = Some(Arc::new(routing.tables.clone()));
    fabric.positions = Arc::new(positions.clone());
    let analysis = Analysis::new(&fleet.inventory, Some(fabric), AnalysisConfig::default());
    let request = analysis.job_request(Vec::new(), 8, pattern);
    let plan = analysis.plan(&request).expect("hosts with 8 GPUs");
    plan.load.expect("there are tables")
}

#[test]
fn hosts_cabled_in_order_have_equal_routes_with_and_without_positions() {
    let fabric = gpu_fabric(&superpod(4));
    let found = positions(&fabric, &GpuInventory::new(), &HostPositions::default());
    assert_eq!(found.ports().len(), 1024);
    assert_eq!((found.stride(), found.leaves().len()), (32, 32));
    let before = routed(&fabric.topology, &HostPositions::default(), None);
    let after = routed(&fabric.topology, &found, None);
    assert_eq!(after.tables, before.tables);
    // Inventories do not change the order.
    let with_inventories = generated(superpod(4)).inventory;
    assert_eq!(
        positions(&fabric, &with_inventories, &HostPositions::default()),
        found
    );
}

#[test]
fn with_positions_no_two_flows_of_recabled_hosts_share_a_link() {
    for seed in 0..3 {
        let fleet = generated(mixed(4, seed));
        let fabric = gpu_fabric(&fleet.netlist);
        let found = positions(&fabric, &fleet.inventory, &HostPositions::default());
        assert_eq!(found.ports().len(), 4 * 28 * 8);
        let routing = routed(&fabric.topology, &found, None);
        let without = routed(&fabric.topology, &HostPositions::default(), None);
        for pattern in [Pattern::Ring, Pattern::AllToAll] {
            assert_eq!(load(&fleet, &found, &routing, pattern).worst_link, 1);
        }
        let unordered = load(&fleet, &found, &without, Pattern::AllToAll);
        assert!(unordered.worst_link > 1, "the order makes the difference");
    }
}

#[test]
fn after_any_one_fault_at_most_two_flows_share_a_link() {
    let fleet = generated(superpod(4));
    let fabric = gpu_fabric(&fleet.netlist);
    let topology = &fabric.topology;
    let found = positions(&fabric, &fleet.inventory, &HostPositions::default());
    let before = routed(topology, &found, None);
    let assert_at_most_two = |ends: &[(Guid, PortNum)]| {
        let broken = topology.without_cables(ends);
        let during = routed(&broken, &found, Some(&before));
        // Switches keep their numbers, because none is removed.
        let load = load(&fleet, &found, &during, Pattern::AllToAll);
        assert_eq!(load.lost, 0);
        assert!(load.worst_link <= 2, "{ends:?}: {}", load.worst_link);
    };
    let cables = topology.cables();
    for cable in cables.iter().step_by(97) {
        assert_at_most_two(&[cable.a]);
    }
    // A spine without cables stands for a spine that failed.
    for spine in topology
        .indices()
        .filter(|&spine| topology.hosts(spine) == 0)
    {
        let guid = topology.switch(spine).guid;
        let of_spine = cables
            .iter()
            .filter(|cable| cable.a.0 == guid || cable.b.0 == guid);
        let ends: Vec<_> = of_spine.map(|cable| cable.a).collect();
        assert_at_most_two(&ends);
    }
}

#[test]
fn storage_ports_and_single_adapters_get_no_position() {
    let mut netlist = superpod(2);
    for storage in [
        rsm_gdr::generate::Storage::Far,
        rsm_gdr::generate::Storage::NearGpu,
    ] {
        let faults = FleetFaults {
            storage,
            ..FleetFaults::default()
        };
        let fleet = fleet(netlist.clone(), faults).expect("hosts with plain names");
        let fabric = gpu_fabric(&fleet.netlist);
        let with_inventories = positions(&fabric, &fleet.inventory, &HostPositions::default());
        let without_inventories =
            positions(&fabric, &GpuInventory::new(), &HostPositions::default());
        assert_eq!(with_inventories.ports().len(), 2 * 32 * 8, "{storage:?}");
        assert_eq!(without_inventories, with_inventories, "{storage:?}");
        netlist = superpod(2);
    }
    // Single adapters, as most clusters have, need no order.
    let fabric = gpu_fabric(&generate("fat-tree:k=8,levels=3").expect("a generator"));
    assert!(positions(&fabric, &GpuInventory::new(), &HostPositions::default()).is_empty());
}

#[test]
fn ports_excluded_by_the_operator_get_no_position() {
    let fabric = gpu_fabric(&superpod(1));
    let port = fabric.ports()[5].guid;
    let categories = Categories::from([(port, Category::Storage)]);
    let blocks = Blocks::find(&Survey::default(), &fabric, &categories);
    let found = HostPositions::default().with(&blocks, &fabric);
    assert_eq!(found.ports().len(), 255);
    assert!(!found.ports().contains_key(&port));
}

#[test]
fn a_replaced_adapter_takes_the_position_of_the_old_one() {
    let fleet = generated(mixed(2, 5));
    let fabric = gpu_fabric(&fleet.netlist);
    let found = positions(&fabric, &fleet.inventory, &HostPositions::default());
    let (mut nodes, cables) = fleet.netlist.clone().into_parts();
    let old = fabric
        .ports()
        .iter()
        .find(|port| port.description == "host-009 mlx5_3")
        .expect("a host of the first unit")
        .clone();
    let node = nodes
        .iter_mut()
        .find(|node| node.guid == old.node_guid)
        .expect("the old adapter is a node");
    node.guid = Guid(0xabc);
    node.ports.get_mut(&PortNum(1)).expect("one port").guid = Guid(0xabd);
    let replaced = gpu_fabric(&Netlist::new(nodes, cables).expect("new GUIDs"));
    let after = positions(&replaced, &GpuInventory::new(), &found);
    assert_eq!(after.ports()[&Guid(0xabd)], found.ports()[&old.guid]);
    assert!(!after.ports().contains_key(&old.guid));
}

#[test]
fn contradictory_positions_are_refused() {
    let found = positions(
        &gpu_fabric(&superpod(1)),
        &GpuInventory::new(),
        &HostPositions::default(),
    );
    let parts = || {
        (
            found.stride(),
            found.leaves().clone(),
            found.ports().clone(),
        )
    };
    let (stride, leaves, ports) = parts();
    assert_eq!(
        HostPositions::from_parts(stride, leaves, ports),
        Ok(found.clone())
    );
    let (stride, leaves, ports) = parts();
    let narrow = HostPositions::from_parts(stride - 1, leaves, ports);
    assert!(
        matches!(narrow, Err(PositionError::Beyond { .. })),
        "{narrow:?}"
    );
    let (stride, mut leaves, ports) = parts();
    leaves.pop_first();
    let unknown = HostPositions::from_parts(stride, leaves, ports);
    assert!(matches!(unknown, Err(PositionError::UnknownLeaf { .. })));
    let (stride, mut leaves, ports) = parts();
    *leaves.values_mut().next().expect("8 leaves") = u32::MAX / 2;
    let high = HostPositions::from_parts(stride, leaves, ports);
    assert!(matches!(high, Err(PositionError::Rank { .. })));
    let (stride, leaves, mut ports) = parts();
    let position: HostPosition = *ports.values().next().expect("256 ports");
    ports.insert(Guid(1), position);
    let twice = HostPositions::from_parts(stride, leaves, ports);
    assert!(matches!(twice, Err(PositionError::Taken { .. })));
}

/// The fabric without some of its hosts.
fn without(netlist: &Netlist, gone: &BTreeSet<String>) -> Netlist {
    let (nodes, cables) = netlist.clone().into_parts();
    let is_gone = |at: usize| {
        let name = nodes[at].name();
        let host = name.split(' ').next().unwrap_or_default();
        nodes[at].kind == NodeKind::Ca && gone.contains(host)
    };
    let kept = cables
        .iter()
        .filter(|cable| !is_gone(cable.a.0) && !is_gone(cable.b.0));
    let cables = kept.copied().collect();
    Netlist::new(nodes, cables).expect("fewer cables")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// While hosts leave and return, a port that stays keeps its position, no two ports share a
    /// place, and positions restored from their parts are equal.
    #[test]
    fn ports_keep_their_positions_while_hosts_leave_and_return(
        seed in any::<u64>(),
        rounds in prop::collection::vec(prop::collection::btree_set(1..=64usize, 0..20), 1..5),
    ) {
        let netlist = recabled(superpod(2), seed).expect("ends are only exchanged");
        let mut now = HostPositions::default();
        for gone in rounds {
            let gone: BTreeSet<String> = gone
                .iter()
                .map(|host| format!("host-{host:03}"))
                .collect();
            let fabric = gpu_fabric(&without(&netlist, &gone));
            let next = positions(&fabric, &GpuInventory::new(), &now);
            for (port, position) in now.ports() {
                if fabric.by_guid(*port).is_some() {
                    prop_assert_eq!(next.ports().get(port), Some(position));
                }
            }
            for (leaf, rank) in now.leaves() {
                prop_assert_eq!(next.leaves().get(leaf), Some(rank));
            }
            let (stride, leaves) = (next.stride(), next.leaves().clone());
            let again = HostPositions::from_parts(stride, leaves, next.ports().clone()).unwrap();
            prop_assert_eq!(&again, &next);
            prop_assert_eq!(&positions(&fabric, &GpuInventory::new(), &again), &next);
            now = next;
        }
        // After all hosts have returned, every port has a position, and no two flows share a link.
        let fleet = generated(netlist);
        let fabric = gpu_fabric(&fleet.netlist);
        let last = positions(&fabric, &fleet.inventory, &now);
        prop_assert_eq!((last.ports().len(), last.stride()), (512, 32));
        let routing = routed(&fabric.topology, &last, None);
        prop_assert_eq!(load(&fleet, &last, &routing, Pattern::AllToAll).worst_link, 1);
    }
}

/// For each shift of an all-to-all within rails, the number of flows on the most loaded link,
/// counted from the tables alone. Hosts have the order of their ports on the first rail.
fn counted_from_tables(netlist: &Netlist, topology: &Topology, routing: &Routing) -> Vec<u32> {
    let mut hosts: BTreeMap<String, BTreeMap<String, Guid>> = BTreeMap::new();
    for node in netlist.nodes() {
        if let Some((host, device)) = node.name().split_once(" mlx5_") {
            let guid = node.port(PortNum(1)).guid;
            hosts
                .entry(host.to_owned())
                .or_default()
                .insert(device.to_owned(), guid);
        }
    }
    let place =
        |guid: &Guid| topological_order(topology).position(|destination| destination.guid == *guid);
    let mut order: Vec<&BTreeMap<String, Guid>> = hosts.values().collect();
    order.sort_by_cached_key(|devices| devices.values().next().and_then(place));
    let host_of = |guid: &Guid| {
        let mut all = topology.destinations().iter();
        all.find(|destination| destination.guid == *guid)
            .expect("a port of the fabric")
    };
    let ends: Vec<Vec<&Destination>> = order
        .iter()
        .map(|devices| devices.values().map(host_of).collect())
        .collect();
    let shift = |distance: usize| {
        let mut load: BTreeMap<(SwitchIdx, PortNum), u32> = BTreeMap::new();
        for (from, ports) in ends.iter().enumerate() {
            let peers = &ends[(from + distance) % ends.len()];
            for (port, peer) in ports.iter().zip(peers) {
                let mut at = port.switch;
                while at != peer.switch {
                    let out = routing.tables.lft(at).port(peer.lid).expect("a route");
                    *load.entry((at, out)).or_default() += 1;
                    at = topology.peer(at, out).expect("a cable").0;
                }
            }
        }
        load.into_values().max().unwrap_or(0)
    };
    (1..ends.len()).map(shift).collect()
}

#[test]
fn measured_rail_all_to_all_equals_a_count_over_the_tables() {
    // There are four units, because with two units a leaf never sends to two other units at a time.
    let netlist = recabled(superpod(4), 3).expect("ends are only exchanged");
    let fleet = generated(netlist);
    let fabric = gpu_fabric(&fleet.netlist);
    let topology = &fabric.topology;
    let found = positions(&fabric, &fleet.inventory, &HostPositions::default());
    let device = |guid: Guid| {
        let port = fabric.port(fabric.by_guid(guid)?);
        port.host_and_device()
    };
    let hosts: Vec<&str> = fabric.hosts().map(|(name, _)| name).collect();
    let destinations = || {
        topology
            .destinations()
            .iter()
            .map(|destination| device(destination.guid))
    };
    let settings = Settings {
        seed: 1,
        rails: destinations()
            .map(|found| found?.1.strip_prefix("mlx5_")?.parse().ok())
            .collect(),
        hosts: destinations()
            .map(|found| {
                let place = hosts.binary_search(&found?.0).ok()?;
                u32::try_from(place).ok()
            })
            .collect(),
        ranks: None,
    };
    let mut means = Vec::new();
    for order in [&found, &HostPositions::default()] {
        let routing = routed(topology, order, None);
        let counts = counted_from_tables(&fleet.netlist, topology, &routing);
        let measured = measure(topology, &routing.tables, &settings)
            .rail_all_to_all
            .expect("names tell rails");
        assert_eq!((measured.phases, measured.of), (counts.len(), counts.len()));
        assert_eq!(Some(&measured.max), counts.iter().max());
        let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        assert!(
            (measured.mean - mean).abs() < 1e-9,
            "{} {mean}",
            measured.mean
        );
        means.push(mean);
    }
    // Without positions, the numbers of switch ports decide, and two flows share a link in about
    // half of the shifts.
    assert!(means[0] == 1.0 && means[1] > 1.25, "{means:?}");
}
