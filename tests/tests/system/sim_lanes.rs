//! Routes that need several VLs, on switches with SLtoVLMappingTables.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::{QosConfig, SlToVl};
use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::AttrId;
use rsm_plan::Plan;
use rsm_plan::policy::Policy;
use rsm_plan::qos::Qos;
use rsm_routing::engine::EngineKind;
use rsm_routing::netlist::NodeKind;
use rsm_routing::topology::Destination;
use rsm_tests::virtual_time::{BlockWrite, Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

fn brought_up(spec: &str, engine: EngineKind) -> World {
    let mut settings = Settings::default();
    settings.core.policy = Arc::new(Policy {
        engine,
        ..Policy::default()
    });
    let mut world = World::generated(spec, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    world
}

fn plan(world: &World) -> Arc<Plan> {
    let snapshot = world.manager().snapshot().expect("it is up");
    snapshot.plan.clone().expect("there is a plan")
}

/// The manager's findings with their causes.
fn finding_texts(world: &World) -> Vec<String> {
    let snapshot = world.manager().snapshot().expect("it was published");
    let findings = snapshot.findings.iter();
    findings
        .map(|finding| format!("{}: {}", finding.subject, finding.text))
        .collect()
}

/// The ports of a switch that are Active.
fn active(world: &World, switch: Guid) -> Vec<PortNum> {
    let is_active = |port: &PortNum| {
        let info = world.sim.port_info(switch, *port);
        info.is_ok_and(|info| info.port_state() == PortState::Active)
    };
    (1..=254).map(PortNum).filter(is_active).collect()
}

/// Asserts that the SLtoVLMappingTables of every switch match the plan, between all ports that
/// carry data.
fn assert_mapped(world: &World) {
    let plan = plan(world);
    let lanes = &plan.routing.lanes;
    assert!(!lanes.is_single(), "{}", plan.routing.reason);
    for guid in world.nodes(NodeKind::Switch) {
        let Some(switch) = plan.topology.switch_by_guid(guid) else {
            continue;
        };
        let outputs = active(world, guid);
        let inputs = std::iter::once(PortNum::ZERO).chain(outputs.iter().copied());
        for input in inputs {
            for &output in outputs.iter().filter(|&&output| output != input) {
                let held = world.sim.virtual_lanes(guid, input, output).unwrap();
                let planned = lanes.row(switch, input, output);
                assert_eq!(Some(&held), planned, "{guid} from {input} to {output}");
            }
        }
    }
}

/// A switch other than the switch next to the manager's host.
fn other_switch(world: &World) -> Guid {
    let local = world.manager().local(&world.sim).unwrap().0;
    let own = world.sim.peer(local, PortNum(1)).unwrap().unwrap().0;
    let mut switches = world.nodes(NodeKind::Switch).into_iter();
    switches.rfind(|&guid| guid != own).unwrap()
}

/// The number of Sets of SLtoVLMappingTable so far.
fn mappings_set(world: &World) -> u64 {
    let sets = expect::sets(&world.sim.counters());
    sets.get(&AttrId::SL_TO_VL_MAPPING).copied().unwrap_or(0)
}

/// The service level of every ordered pair of the switches `of`; `None` where any service level is
/// permitted.
fn levels(plan: &Plan, of: &[Guid]) -> Vec<Option<u8>> {
    let index = |guid: &Guid| plan.topology.switch_by_guid(*guid).expect("it is there");
    of.iter()
        .flat_map(|from| of.iter().map(move |to| (from, to)))
        .map(|(from, to)| plan.routing.lanes.level(index(from), index(to)))
        .collect()
}

#[test]
fn a_torus_gets_its_sl2vl_mappings_and_a_restart_sets_nothing() {
    for spec in ["torus:5x5,hosts=1", "torus:3x5x3,hosts=1"] {
        let mut world = brought_up(spec, EngineKind::Torus);
        assert_mapped(&world);
        let sets = expect::sets(&world.sim.counters());
        for memory in [Memory::Kept, Memory::Lost] {
            world.kill(0);
            world.run_for(Duration::from_secs(3));
            world.start(0, memory);
            world.settle(LIMIT);
            assert_eq!(
                expect::sets(&world.sim.counters()),
                sets,
                "{spec}, memory {memory:?}: nothing is set"
            );
            expect::assert_up(&world);
            expect::assert_no_findings(&world);
        }
    }
}

#[test]
fn updn_sets_no_sl2vl_mapping() {
    let world = brought_up("torus:5x5,hosts=1", EngineKind::UpDn);
    assert_eq!(mappings_set(&world), 0);
}

#[test]
fn a_switch_that_fails_and_returns_changes_no_service_level() {
    let mut world = brought_up("torus:5x5,hosts=1", EngineKind::Torus);
    let before = plan(&world);
    let failed = other_switch(&world);
    world.sim.power_off(failed).unwrap();
    // The core removes the routes of the switch after a long silence. Some of its neighbours are
    // reachable only then.
    world.settle(2 * LIMIT);
    let during = plan(&world);
    assert!(during.generation > before.generation);
    assert!(during.topology.switch_by_guid(failed).is_none());
    let left: Vec<Guid> = during
        .topology
        .switches()
        .iter()
        .map(|switch| switch.guid)
        .collect();
    assert_eq!(
        levels(&during, &left),
        levels(&before, &left),
        "{}",
        during.routing.reason
    );
    assert_mapped(&world);
    world.sim.power_on(failed).unwrap();
    world.run_for(Duration::from_secs(20));
    assert_eq!(finding_texts(&world), [""; 0]);
    world.settle(LIMIT);
    let after = plan(&world);
    assert_eq!(after.routing.tables, before.routing.tables);
    expect::assert_up(&world);
    // The switch came back in its power-on state, and the core wrote its tables again.
    assert_mapped(&world);
}

/// Hosts continue to send to a host that has gone, on levels that the proof of a new plan does not
/// know. No switch changes another entry while an entry towards that host is left.
#[test]
fn entries_towards_a_gone_switch_are_removed_before_others_change() {
    let mut world = brought_up("torus:5x5,hosts=1", EngineKind::Torus);
    let failed = other_switch(&world);
    let before = plan(&world);
    world.watch();
    world.keep_writes();
    world.sim.power_off(failed).unwrap();
    world.settle(2 * LIMIT);
    let after = plan(&world);
    let present: BTreeSet<Lid> = lids(&after).collect();
    let gone: BTreeSet<Lid> = lids(&before).filter(|lid| !present.contains(lid)).collect();
    assert_eq!(gone.len(), 2, "the switch and its host");

    let writes = world.keep_writes();
    let concerns = |write: &BlockWrite, wanted: bool| {
        let mut entries = write.entries.iter();
        entries.any(|(lid, _)| gone.contains(lid) == wanted)
    };
    let last_gone = writes.iter().rposition(|write| concerns(write, true));
    let first_other = writes.iter().position(|write| concerns(write, false));
    assert!(
        last_gone.expect("entries go") < first_other.expect("entries change"),
        "{last_gone:?} {first_other:?}"
    );
}

fn lids(plan: &Plan) -> impl Iterator<Item = Lid> {
    plan.topology
        .destinations()
        .iter()
        .flat_map(Destination::lids)
}

#[test]
fn a_dragonfly_and_a_torus_with_dfsssp_get_their_sl2vl_mappings() {
    let spec = "dragonfly+:groups=4,leaves=2,spines=3,hosts=2,links=3";
    assert_mapped(&brought_up(spec, EngineKind::DragonflyPlus));
    assert_mapped(&brought_up("torus:5x5,hosts=1", EngineKind::Dfsssp));
}

#[test]
fn links_with_too_few_vls_are_a_finding_before_any_mapping_is_set() {
    let mut settings = Settings::default();
    settings.sim.vl_cap = 1;
    settings.core.policy = Arc::new(Policy {
        engine: EngineKind::Torus,
        ..Policy::default()
    });
    let mut world = World::generated("torus:5x5,hosts=1", settings);
    world.run_for(Duration::from_secs(5));
    let needs = "torus needs 2 virtual lanes on this fabric, and its links have 1; auto,";
    let said = finding_texts(&world);
    assert!(said.iter().any(|text| text.contains(needs)), "{said:?}");
    assert_eq!(mappings_set(&world), 0);
}

/// The configuration of a site that maps all service levels to VL 0. Routes on one VL stay sound on
/// it, the rings of a torus do not.
fn core_with_one_vl(engine: EngineKind) -> CoreConfig {
    let qos = QosConfig {
        enabled: true,
        sl2vl: Some(SlToVl(OPERATORS_ROW)),
        ..QosConfig::default()
    };
    let policy = Policy {
        engine,
        qos: Qos::of(&qos, 5).map(Arc::new),
        ..Policy::default()
    };
    CoreConfig {
        policy: Arc::new(policy),
        ..CoreConfig::default()
    }
}

const OPERATORS_ROW: [u8; 16] = [0; 16];

/// A torus with the operator's mapping of [`core_with_one_vl`], routed by `torus`.
fn torus_with_operators_mapping() -> World {
    let settings = Settings {
        core: core_with_one_vl(EngineKind::Torus),
        ..Settings::default()
    };
    let mut world = World::generated("torus:5x5,hosts=1", settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_mapped(&world);
    world
}

fn change_engine(world: &mut World, engine: EngineKind) {
    let core = core_with_one_vl(engine);
    world.event(Event::Reload(Box::new(core)));
    world.settle(LIMIT);
    expect::assert_up(world);
}

/// Asserts that every switch holds the operator's SLtoVLMappingTables between its Active ports.
fn assert_operators_mapping(world: &World) {
    for guid in world.nodes(NodeKind::Switch) {
        let ports = active(world, guid);
        for &input in &ports {
            for &output in ports.iter().filter(|&&output| output != input) {
                let held = world.sim.virtual_lanes(guid, input, output).unwrap();
                assert_eq!(held, OPERATORS_ROW, "{guid} from {input} to {output}");
            }
        }
    }
}

#[test]
fn mappings_of_a_torus_return_after_routes_on_one_vl() {
    let mut world = torus_with_operators_mapping();
    for _ in 0..2 {
        change_engine(&mut world, EngineKind::UpDn);
        assert_operators_mapping(&world);
        change_engine(&mut world, EngineKind::Torus);
        assert_mapped(&world);
        // Two light sweeps read back what the switches hold.
        world.run_for(Duration::from_secs(25));
        expect::assert_no_findings(&world);
    }
}

/// The SLtoVLMappingTables between the Active ports of all switches.
fn mappings(world: &World) -> Vec<[u8; 16]> {
    let of_switch = |guid: Guid| {
        let ports = active(world, guid);
        let pairs = ports
            .iter()
            .flat_map(|&input| ports.iter().map(move |&output| (input, output)));
        let pairs: Vec<_> = pairs.filter(|(input, output)| input != output).collect();
        let held = pairs.into_iter();
        held.map(move |(input, output)| world.sim.virtual_lanes(guid, input, output).unwrap())
            .collect::<Vec<_>>()
    };
    world
        .nodes(NodeKind::Switch)
        .into_iter()
        .flat_map(of_switch)
        .collect()
}

/// Whether the entries that switches hold make a packet on each link of some ring wait for the next
/// link of the ring.
fn has_ring_of_links(world: &World) -> bool {
    type Link = (Guid, u8);
    let switches = world.nodes(NodeKind::Switch);
    let next_of = |switch: Guid, port: u8| {
        let peer = world.sim.peer(switch, PortNum(port)).ok()??.0;
        switches.contains(&peer).then_some(peer)
    };
    let mut waits: BTreeSet<(Link, Link)> = BTreeSet::new();
    for &switch in &switches {
        for (lid, &port) in world.sim.lft(switch).unwrap().iter().enumerate() {
            if let Some(next) = next_of(switch, port) {
                let on = world.sim.lft(next).unwrap()[lid];
                waits.insert(((switch, port), (next, on)));
            }
        }
    }
    // Links that no remaining link waits for cannot be in a ring.
    loop {
        let awaited: BTreeSet<Link> = waits.iter().map(|&(_, awaited)| awaited).collect();
        let before = waits.len();
        waits.retain(|(waiting, _)| awaited.contains(waiting));
        if waits.len() == before {
            return before > 0;
        }
    }
}

#[test]
fn mapping_of_the_operator_waits_until_old_routes_of_a_torus_close_no_ring() {
    let mut world = torus_with_operators_mapping();
    assert!(has_ring_of_links(&world), "a torus needs its mappings");
    let before = mappings(&world);
    world.event(Event::Reload(Box::new(core_with_one_vl(EngineKind::UpDn))));
    let (mut steps, mut set) = (0, mappings_set(&world));
    loop {
        world.run_for(Duration::from_micros(5));
        steps += 1;
        assert!(steps < 1_000_000, "no mapping between cables is set");
        // Ports 0 get their mappings at once: no packet leaves a switch by them.
        if std::mem::replace(&mut set, mappings_set(&world)) != set && mappings(&world) != before {
            break;
        }
    }
    assert!(!has_ring_of_links(&world), "the first mapping is set");
    world.settle(LIMIT);
    assert!(plan(&world).routing.lanes.is_single());
    assert_operators_mapping(&world);
}
