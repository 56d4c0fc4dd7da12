//! Quality of service: the operator's tables at every port, on devices with few VLs, and on devices
//! that do not accept the tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::{QosConfig, QosKeys, SlToVl, VlWeights};
use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::AttrId;
use rsm_model::findings::FindingKind;
use rsm_model::whole::Step;
use rsm_plan::policy::Policy;
use rsm_plan::qos::Qos;
use rsm_routing::engine::EngineKind;
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Devices, SimConfig};
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

/// The maximum time until the subnet is at rest.
const LIMIT: Duration = Duration::from_secs(60);
/// A fat tree of two levels.
const TREE: &str = "fat-tree:k=4,levels=2";

/// A mapping of SL 0 to VL 0, SL 1 to VL 1 and SL 9 to VL 14. The other SLs have VL 15, which means
/// that packets on these SLs are dropped.
const SL2VL: [u8; 16] = [0, 1, 15, 15, 15, 15, 15, 15, 15, 14, 15, 15, 15, 15, 15, 15];
/// The high-priority VLArbitrationTable: each VL with its weight.
const HIGH: &[(u8, u8)] = &[(0, 200), (1, 10)];
/// The low-priority VLArbitrationTable: each VL with its weight.
const LOW: &[(u8, u8)] = &[(1, 4), (14, 8)];

/// A configuration with tables that differ from the defaults.
fn operator_config() -> QosConfig {
    let weights = |entries: &[(u8, u8)]| {
        let entries = entries.iter().map(|(vl, weight)| format!("{vl}:{weight}"));
        VlWeights::parse(&entries.collect::<Vec<_>>().join(","))
    };
    QosConfig {
        enabled: true,
        high_limit: Some(3),
        swe: QosKeys {
            high_limit: Some(7),
            ..QosKeys::default()
        },
        vlarb_high: weights(HIGH),
        vlarb_low: weights(LOW),
        sl2vl: Some(SlToVl(SL2VL)),
        ..QosConfig::default()
    }
}

/// The configuration of a manager with this QoS section and engine.
fn core(qos: &QosConfig, engine: EngineKind) -> CoreConfig {
    CoreConfig {
        policy: Arc::new(Policy {
            qos: Qos::of(qos, 5).map(Arc::new),
            engine,
            ..Policy::default()
        }),
        ..CoreConfig::default()
    }
}

/// The settings of a world whose manager has this QoS section.
fn settings(qos: &QosConfig) -> Settings {
    Settings {
        core: core(qos, EngineKind::Auto),
        ..Settings::default()
    }
}

/// The Active ports without port 0, each with its node and the kind of the node.
fn ports(world: &World) -> Vec<(Guid, PortNum, NodeKind)> {
    let nodes = world.sim.nodes();
    let ports = nodes.flat_map(|(guid, kind)| {
        let active = (1..=254).map(PortNum).filter(move |&port| {
            let info = world.sim.port_info(guid, port);
            info.is_ok_and(|info| info.port_state() == PortState::Active)
        });
        active.map(move |port| (guid, port, kind))
    });
    ports.collect()
}

/// The VL that replaces `vl` on a port with `vls` VLs, a power of two.
fn folded_vl(vl: u8, vls: u8) -> u8 {
    if vl == 15 { 15 } else { vl % vls }
}

/// Asserts that every port holds the operator's tables, folded to the VLs that its link uses.
fn assert_tables(world: &World) {
    let all = ports(world);
    assert!(!all.is_empty());
    for &(guid, port, kind) in &all {
        let info = world.sim.port_info(guid, port).unwrap();
        let vls = match info.operational_vls().code() {
            5 => 16,
            code => 1 << (code - 1),
        };
        let inputs: Vec<PortNum> = match kind {
            NodeKind::Switch => {
                let others = all
                    .iter()
                    .filter(|(node, other, _)| *node == guid && *other != port);
                let others = others.map(|(_, other, _)| *other);
                std::iter::once(PortNum::ZERO).chain(others).collect()
            }
            _ => vec![PortNum::ZERO],
        };
        for input in inputs {
            let held = world.sim.virtual_lanes(guid, input, port).unwrap();
            let expected = SL2VL.map(|vl| folded_vl(vl, vls));
            assert_eq!(held, expected, "{guid} from {input} to {port}");
            let fits = held.iter().all(|&vl| vl == 15 || vl < vls.min(15));
            assert!(fits, "{guid} to {port}: {held:?} on {vls} VLs");
        }
        let has_one_vl = info.vl_cap().code() == 1;
        for (block, weights) in [(1, LOW), (3, HIGH)] {
            let mut held = world.sim.vl_weights(guid, port, block).unwrap();
            held.truncate(weights.len());
            let expected = weights
                .iter()
                .map(|&(vl, weight)| (folded_vl(vl, vls), weight));
            let expected: Vec<_> = expected.filter(|_| !has_one_vl).collect();
            assert_eq!(held, expected, "{guid} port {port}, block {block}");
        }
        let limit = match kind {
            _ if has_one_vl => 0,
            NodeKind::Switch => 7,
            _ => 3,
        };
        assert_eq!(info.vl_high_limit(), limit, "{guid} port {port}");
    }
}

/// The number of Sets of each attribute so far.
fn sets_of(world: &World) -> BTreeMap<AttrId, u64> {
    expect::sets(&world.sim.counters())
}

/// The number of Sets of SLtoVLMappingTable and VLArbitrationTable so far.
fn table_sets(world: &World) -> u64 {
    let sets = sets_of(world);
    let count = |attribute| sets.get(&attribute).copied().unwrap_or(0);
    count(AttrId::SL_TO_VL_MAPPING) + count(AttrId::VL_ARBITRATION)
}

/// Reloads the configuration, and waits until the subnet is at rest.
fn reload(world: &mut World, config: CoreConfig) {
    world.event(Event::Reload(Box::new(config)));
    world.settle(LIMIT);
}

#[test]
fn every_port_gets_the_operators_tables_and_a_restart_sets_nothing() {
    let mut qos = operator_config();
    qos.optimized_sl2vl = false;
    let mut world = World::brought_up(TREE, settings(&qos));
    assert_tables(&world);
    let sets = sets_of(&world);
    for memory in [Memory::Kept, Memory::Lost] {
        world.kill(0);
        world.run_for(Duration::from_secs(3));
        world.start(0, memory);
        world.settle(LIMIT);
        assert_eq!(sets_of(&world), sets, "memory {memory:?}");
        expect::assert_no_findings(&world);
    }
    assert_tables(&world);
}

#[test]
fn one_set_per_output_covers_all_inputs_of_a_switch_that_supports_it() {
    let world = World::brought_up(TREE, settings(&operator_config()));
    assert_tables(&world);
    // Port 0 of each switch is enhanced, and an output as well.
    let count = ports(&world).len() + world.nodes(NodeKind::Switch).len();
    let sets = sets_of(&world);
    assert_eq!(sets.get(&AttrId::SL_TO_VL_MAPPING), Some(&(count as u64)));
}

#[test]
fn turning_quality_of_service_off_keeps_tables_and_turning_it_on_writes_only_differences() {
    let mut qos = operator_config();
    let mut world = World::brought_up(TREE, settings(&qos));
    let sets = table_sets(&world);
    reload(&mut world, core(&QosConfig::default(), EngineKind::Auto));
    assert_eq!(table_sets(&world), sets, "off sets nothing");
    assert_tables(&world);
    reload(&mut world, core(&qos, EngineKind::Auto));
    assert_eq!(table_sets(&world), sets, "on again finds nothing to set");
    // A different high-priority table at adapters costs one block of each.
    qos.ca.vlarb_high = VlWeights::parse("1:1,0:2");
    reload(&mut world, core(&qos, EngineKind::Auto));
    let adapters = ports(&world)
        .into_iter()
        .filter(|(_, _, kind)| *kind == NodeKind::Ca);
    let adapters: Vec<_> = adapters.collect();
    assert_eq!(table_sets(&world), sets + adapters.len() as u64);
    for (guid, port, _) in adapters {
        assert_eq!(
            world.sim.vl_weights(guid, port, 3).unwrap()[..2],
            [(1, 1), (0, 2)]
        );
    }
    expect::assert_no_findings(&world);
}

#[test]
fn ports_with_one_vl_get_no_weights_and_tables_are_folded_to_the_vls_of_a_link() {
    for vl_cap in 1..=5 {
        let mut settings = settings(&operator_config());
        settings.sim.vl_cap = vl_cap;
        let world = World::brought_up(TREE, settings);
        assert_tables(&world);
        let weights = sets_of(&world).get(&AttrId::VL_ARBITRATION).copied();
        assert_eq!(weights.is_some(), vl_cap > 1, "VLCap {vl_cap}");
    }
    let mut qos = operator_config();
    qos.max_vls = Some(3);
    let world = World::brought_up(TREE, settings(&qos));
    let codes = ports(&world).into_iter().map(|(guid, port, _)| {
        world
            .sim
            .port_info(guid, port)
            .unwrap()
            .operational_vls()
            .code()
    });
    assert!(codes.into_iter().all(|code| code == 2));
    assert_tables(&world);
}

#[test]
fn devices_that_refuse_tables_come_up_and_are_not_asked_again() {
    for (devices, gets_all_tables) in [
        ("no-vl-arbitration", false),
        ("no-sl2vl", false),
        ("no-optimized-sl2vl", true),
    ] {
        let mut settings = settings(&operator_config());
        settings.sim = SimConfig {
            devices: Devices::parse(devices).unwrap(),
            ..SimConfig::default()
        };
        let mut world = World::generated(TREE, settings);
        world.settle(LIMIT);
        expect::assert_up(&world);
        if gets_all_tables {
            assert_tables(&world);
        }
        let snapshot = world.manager().snapshot().expect("the manager is up");
        let kinds: Vec<FindingKind> = snapshot
            .findings
            .iter()
            .map(|finding| finding.kind)
            .collect();
        assert!(!kinds.is_empty(), "{devices}");
        assert!(
            kinds.iter().all(|&kind| kind == FindingKind::DeviceHabit),
            "{devices}: {kinds:?}"
        );
        let sets = table_sets(&world);
        world.run_for(Duration::from_secs(60));
        assert_eq!(table_sets(&world), sets, "{devices}");
    }
}

#[test]
fn random_devices_never_get_a_vl_that_their_link_lacks() {
    for seed in 1..=12 {
        let mut settings = settings(&operator_config());
        settings.seed = seed;
        settings.sim.devices = Devices::parse(&format!("mix:{seed}")).unwrap();
        let mut world = World::generated("torus:3x3,hosts=1", settings);
        world.settle(2 * LIMIT);
        expect::assert_up(&world);
        for (guid, port, kind) in ports(&world) {
            let info = world.sim.port_info(guid, port).unwrap();
            let vls = info.operational_vls().data_vls().unwrap();
            let inputs = match kind {
                NodeKind::Switch => ports(&world)
                    .into_iter()
                    .filter(|(node, other, _)| *node == guid && *other != port)
                    .map(|(_, other, _)| other)
                    .collect(),
                _ => vec![PortNum::ZERO],
            };
            for input in inputs {
                let held = world.sim.virtual_lanes(guid, input, port).unwrap();
                let fits = held.iter().all(|&vl| vl == 15 || vl < vls);
                assert!(fits, "seed {seed}: {guid} to {port}: {held:?} on {vls} VLs");
            }
        }
    }
}

#[test]
fn replugged_cable_recomputes_only_paths_as_a_whole_and_sets_no_table() {
    let mut world = World::brought_up("fat-tree:k=6,levels=3", settings(&operator_config()));
    let hosts: Vec<_> = ports(&world)
        .into_iter()
        .filter(|(_, _, kind)| *kind == NodeKind::Ca)
        .collect();
    let manager_host = world.manager().local(&world.sim).unwrap().0;
    let mut other_hosts = hosts.iter().filter(|(guid, ..)| *guid != manager_host);
    let (host, port, _) = *other_hosts.nth(hosts.len() / 2).unwrap();
    let replug = |world: &mut World| {
        world.sim.unlink(host, port).unwrap();
        world.settle(LIMIT);
        world.sim.relink(host, port).unwrap();
        world.settle(LIMIT);
    };
    replug(&mut world);
    let sets = table_sets(&world);
    let earlier_count = world.manager().convergences().len();
    replug(&mut world);
    let new = &world.manager().convergences()[earlier_count..];
    let whole: Vec<_> = new
        .iter()
        .flat_map(|convergence| convergence.whole.iter().cloned())
        .collect();
    let other_steps: Vec<_> = whole
        .iter()
        .filter(|whole| whole.step != Step::Paths)
        .collect();
    assert!(other_steps.is_empty(), "{other_steps:?}");
    assert_eq!(table_sets(&world), sets, "the ports kept their tables");
    assert_tables(&world);
}
