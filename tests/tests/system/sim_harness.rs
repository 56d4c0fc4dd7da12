//! The harness of these tests detects the faults that tests expect it to detect.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Lid, PortNum};
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, PortPhysicalState, PortState};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_plan::policy::Policy;
use rsm_routing::engine::EngineKind;
use rsm_routing::netlist::NodeKind;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

fn settings_with(policy: Policy) -> Settings {
    let mut settings = Settings::default();
    settings.core.policy = Arc::new(policy);
    settings
}

#[test]
fn the_watch_sees_a_credit_loop() {
    let settings = settings_with(Policy {
        engine: EngineKind::MinHop,
        accept_credit_loops: true,
        ..Policy::default()
    });
    let mut world = World::generated("ring:6", settings);
    world.watch();
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert!(
        !world.watched().credit_loops().is_empty(),
        "shortest paths round a ring wait for each other"
    );
}

#[test]
fn the_watch_sees_a_moved_lid() {
    let mut world = World::brought_up("ring:4", Settings::default());
    let (guid, _) = world
        .sim
        .nodes()
        .filter(|&(_, kind)| kind == NodeKind::Ca)
        .last()
        .unwrap();
    // The test sets another LID directly at the host.
    let port = PortNum(1);
    let attach = world.sim.attach(guid, port).unwrap();
    let mut info = *world.sim.port_info(guid, port).unwrap();
    let from = info.lid();
    let to = Lid(from.0 + 100);
    info.set_lid(to);
    info.set_port_state(PortState::NoChange);
    info.set_port_physical_state(PortPhysicalState::NoChange);
    let set = Smp::directed(
        &DirectedPath::new(),
        &SmpRequest {
            method: Method::SET,
            attribute: AttrId::PORT_INFO,
            modifier: 1,
            tid: Tid(1),
            m_key: 0,
            data: *info.as_data(),
        },
    );
    let datagram = Datagram {
        mad: *set.as_bytes(),
        remote: RemoteAddress::directed(),
    };
    let now = world.now();
    world.sim.send(attach, &datagram, now);
    world.run_for(Duration::from_millis(1));
    let moved = world.watched().moved();
    assert_eq!(moved.len(), 1);
    assert_eq!(
        (moved[0].port, moved[0].from, moved[0].to),
        ((guid, port), from, to)
    );
}

#[test]
fn expect_sees_inactive_links_and_missing_routes() {
    let mut world = World::brought_up("ring:4", Settings::default());
    world.kill(0);
    let (guid, _) = expect::reach(&world, &[])
        .end_ports
        .into_iter()
        .find(|(_, port)| *port == PortNum::ZERO)
        .unwrap();
    world.sim.reboot(guid).unwrap();
    world.run_for(Duration::from_secs(5));
    let reach = expect::reach(&world, &[]);
    assert!(!expect::inactive(&world.sim, &reach).is_empty());
    assert!(!expect::unreachable(&world.sim, &reach, 0).is_empty());
}

/// Runs with equal seeds end at the same time with the same counters; with different seeds they do
/// not.
#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        let mut world = World::generated("fat-tree:k=4,levels=3", settings);
        world.sim.set_loss(0.1).unwrap();
        world.settle(LIMIT);
        let (node, _) = world.sim.nodes().next().unwrap();
        world.sim.reboot(node).unwrap();
        world.run_for(Duration::from_millis(20));
        world.kill(0);
        world.start(0, Memory::Kept);
        world.run_for(LIMIT);
        (world.now(), world.sim.counters())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn requests_are_counted_at_their_target_node() {
    let mut world = World::generated("ring:4", Settings::default());
    world.count_requests();
    world.settle(LIMIT);
    let counters = world.sim.counters();
    let requests = world.requests();
    assert_eq!(requests.count(Method::GET), counters.gets());
    assert_eq!(requests.count(Method::SET), counters.sets());
    let switches = requests.nodes(Method::SET, AttrId::LINEAR_FORWARDING_TABLE);
    assert_eq!(switches.len(), 4);
    for switch in switches {
        assert_eq!(
            world.sim.sets_at(switch).unwrap(),
            [
                AttrId::SWITCH_INFO,
                AttrId::PORT_INFO,
                AttrId::LINEAR_FORWARDING_TABLE
            ]
            .into_iter()
            .map(|attribute| requests.of(switch, Method::SET, attribute))
            .sum::<u64>()
        );
    }
}
