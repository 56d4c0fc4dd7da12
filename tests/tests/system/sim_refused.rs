//! Refused plans, and root GUIDs that no switch has: the status of the routes in force matches the
//! current fabric.

use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_plan::policy::Policy;
use rsm_routing::engine::EngineKind;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Probe;
use rsm_tests::virtual_time::{Settings, World, expect};
use rsm_view::publish::summary::OnceReport;

const LIMIT: Duration = Duration::from_secs(60);

/// A fabric of two spines over four leaves with four hosts each.
const TREE: &str = "pgft:2;4,4;1,2;1,1";

fn with_roots(engine: EngineKind, roots: &[Guid]) -> Settings {
    Settings::of(Policy {
        engine,
        root_guids: roots.to_vec(),
        ..Policy::default()
    })
}

/// The switches without hosts, sorted by GUID.
fn spines(world: &World) -> Vec<Guid> {
    let is_host = |guid: Guid| {
        let mut nodes = world.sim.nodes();
        nodes.any(|(other, kind)| other == guid && kind == NodeKind::Ca)
    };
    let has_host = |switch: Guid| {
        let ports = 1..=world.sim.num_ports(switch).expect("it is there");
        ports
            .filter_map(|port| world.sim.peer(switch, PortNum(port)).expect("it is there"))
            .any(|(peer, _)| is_host(peer))
    };
    let switches = world
        .sim
        .nodes()
        .filter(|&(_, kind)| kind == NodeKind::Switch);
    let spines = switches
        .map(|(guid, _)| guid)
        .filter(|&guid| !has_host(guid));
    spines.collect()
}

fn unlink(world: &mut World, switch: Guid, ports: impl Iterator<Item = u8>) {
    for port in ports {
        world
            .sim
            .unlink(switch, PortNum(port))
            .expect("a cable is there");
    }
}

const ROOTS_ABSENT: (&str, &str) = ("roots-absent", "subnet");

/// Asserts the findings about absent roots and refused plans, by code and subject.
fn assert_findings(world: &World, expected: &[(&str, &str)]) {
    let findings = world.manager().findings();
    let found: Vec<(&str, &str)> = findings
        .iter()
        .map(|(kind, subject)| (*kind, &**subject))
        .filter(|(kind, _)| ["roots-absent", "routing-refused"].contains(kind))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn absent_roots_are_left_out_at_the_start() {
    for engine in [EngineKind::Auto, EngineKind::UpDn] {
        let spine = spines(&World::generated(TREE, Settings::default()))[0];
        for roots in [&[Guid(0xdead)][..], &[spine, Guid(0xdead)]] {
            let mut world = World::generated(TREE, with_roots(engine, roots));
            world.settle(LIMIT);
            expect::assert_up(&world);
            assert_findings(&world, &[ROOTS_ABSENT]);
            let snapshot = world.manager().snapshot().expect("it is up");
            let report = OnceReport::of(snapshot);
            assert!(report.is_complete(), "{report:?}");
            assert_eq!(report.unreachable_pairs, Some(0));
        }
    }
}

#[test]
fn a_root_that_loses_power_is_routed_around_and_named_until_it_is_back() {
    for engine in [EngineKind::Auto, EngineKind::UpDn] {
        let roots = spines(&World::generated(TREE, Settings::default()));
        let mut world = World::brought_up(TREE, with_roots(engine, &roots));
        assert_findings(&world, &[]);
        world.sim.power_off(roots[0]).expect("it is there");
        world.run_for(LIMIT);
        world.settle(LIMIT);
        expect::assert_up_without(&world, &roots[..1]);
        assert_findings(&world, &[ROOTS_ABSENT]);
        world.sim.power_on(roots[0]).expect("it is there");
        world.run_for(LIMIT);
        world.settle(LIMIT);
        expect::assert_up(&world);
        assert_findings(&world, &[]);
    }
}

/// The number of pairs of end ports, other than pairs of two switches, whose packets do not arrive.
fn lost_pairs(world: &World) -> u64 {
    let ends = expect::reach(world, &[]).end_ports;
    let mut lost = 0;
    for &source in &ends {
        for &(node, port) in &ends {
            if source == (node, port) || (source.1 == PortNum::ZERO && port == PortNum::ZERO) {
                continue;
            }
            let lid = world.sim.port_info(node, port).expect("it is there").lid();
            let probe = world.sim.probe(source, lid, 0).expect("it is an end port");
            let arrives = matches!(probe, Probe::Delivered { node: at, port: on, .. } if (at, on) == (node, port));
            lost += u64::from(!arrives);
        }
    }
    lost
}

/// Asserts the status of a subnet whose last plan was refused.
fn assert_outdated(world: &World) {
    assert_findings(world, &[("routing-refused", "subnet")]);
    let lost = lost_pairs(world);
    let snapshot = world.manager().snapshot().expect("it is up");
    let refused = snapshot.refused_plan.as_ref().expect("it was refused");
    assert_eq!(refused.cut_off_pairs(), Some(lost));
    let finding = snapshot.findings.iter();
    let mut finding = finding.filter(|finding| finding.kind.code() == "routing-refused");
    let text = &finding.next().expect("it is there").text;
    assert!(text.contains(&format!(" {lost} pairs")), "{text}");
    let report = OnceReport::of(snapshot);
    assert_eq!(
        (report.state, report.unreachable_pairs),
        ("degraded", Some(lost))
    );
    assert!(!report.is_complete());
}

#[test]
fn a_refused_plan_shows_how_many_pairs_are_cut_off_until_a_plan_is_accepted() {
    // Shortest paths over one spine are legal, and over two they can close a credit loop.
    let policy = Policy {
        engine: EngineKind::MinHop,
        ..Policy::default()
    };
    let mut world = World::generated(TREE, Settings::of(policy));
    let [first, second] = spines(&world)[..] else {
        panic!("two spines");
    };
    unlink(&mut world, second, 1..=4);
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_findings(&world, &[]);
    // No host can reach the new spine, because it gets no table and no LID.
    for port in 1..=4 {
        world
            .sim
            .relink(second, PortNum(port))
            .expect("a cable is there");
    }
    world.run_for(LIMIT);
    world.settle(LIMIT);
    assert!(lost_pairs(&world) > 0);
    assert_outdated(&world);
    // The hosts of a leaf lose their only routes, although there are cables for other paths.
    let before = lost_pairs(&world);
    unlink(&mut world, first, 3..=3);
    world.run_for(LIMIT);
    world.settle(LIMIT);
    assert!(lost_pairs(&world) > before);
    assert_outdated(&world);
    // Members that join or leave change multicast tables, and no route.
    let hosts = world.nodes(NodeKind::Ca);
    for joins in [true, false] {
        world.regroup(Lid(0xC001), |members| match joins {
            true => members.extend(hosts.iter().map(|&host| (host, true))),
            false => {
                members.remove(&hosts[0]);
            }
        });
        world.run_for(Duration::from_millis(50));
        world.settle(LIMIT);
        assert_outdated(&world);
    }
    world
        .sim
        .relink(first, PortNum(3))
        .expect("a cable is there");
    unlink(&mut world, second, 1..=4);
    world.run_for(LIMIT);
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_findings(&world, &[]);
    let snapshot = world.manager().snapshot().expect("it is up");
    assert!(snapshot.refused_plan.is_none());
    assert!(OnceReport::of(snapshot).is_complete());
}

#[test]
fn the_next_engine_of_the_list_routes_while_the_first_cannot_be_proved() {
    let settings = Settings::of(Policy {
        engine: EngineKind::MinHop,
        engines: vec![EngineKind::MinHop, EngineKind::Dor, EngineKind::UpDn],
        ..Policy::default()
    });
    let mut world = World::generated("ring:6", settings);
    let mut switches = world.sim.nodes().filter(|node| node.1 == NodeKind::Switch);
    let switch = switches.next().expect("it has switches").0;
    drop(switches);
    let is_switch = |world: &World, guid: Guid| {
        let mut nodes = world.sim.nodes();
        nodes.any(|(other, kind)| other == guid && kind == NodeKind::Switch)
    };
    let cable = (1..=world.sim.num_ports(switch).expect("it is there")).find(|&port| {
        let peer = world.sim.peer(switch, PortNum(port));
        let peer = peer.expect("it is there");
        peer.is_some_and(|(peer, _)| is_switch(&world, peer))
    });
    let cable = PortNum(cable.expect("it is cabled"));
    let engine = |world: &World| {
        let plan = world.manager().core().plan().expect("it is up");
        plan.routing.engine
    };
    let replaced = |world: &World| {
        let snapshot = world.manager().snapshot().expect("it is up");
        let found = snapshot.findings.iter();
        let mut found = found.filter(|finding| finding.kind.code() == "engine-replaced");
        found.next().map(|finding| finding.text.clone())
    };
    // A line has no cycle of links: shortest paths are safe.
    world.sim.unlink(switch, cable).expect("it is cabled");
    world.settle(LIMIT);
    assert_eq!((engine(&world), replaced(&world)), ("minhop", None));
    for _ in 0..2 {
        world.sim.relink(switch, cable).expect("it was cabled");
        world.run_for(LIMIT);
        world.settle(LIMIT);
        expect::assert_up(&world);
        assert_eq!(engine(&world), "updn");
        let text = replaced(&world).expect("it is named");
        assert!(
            text.starts_with("routes are of updn, and not of minhop"),
            "{text}"
        );
        assert!(text.contains("credit loop"), "{text}");
        assert_findings(&world, &[]);
        world.sim.unlink(switch, cable).expect("it is cabled");
        world.run_for(LIMIT);
        world.settle(LIMIT);
        assert_eq!((engine(&world), replaced(&world)), ("minhop", None));
    }
}
