//! FDR10 by the operator's choice (`links.fdr10`), on devices that support it, refuse it, or lack
//! it.

use std::sync::Arc;
use std::time::Duration;

use rsm_config::Fdr10;
use rsm_core::Event;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{Attribute, ExtendedPortInfo, LinkSpeed};
use rsm_mad::wire::header::Method;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Devices;
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(120);
const TREE: &str = "fat-tree:k=4,levels=2,speed=fdr10";

fn settings(devices: &str, fdr10: Fdr10) -> Settings {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::parse(devices).unwrap();
    let policy = Arc::make_mut(&mut settings.core.policy);
    policy.ports.links.fdr10 = fdr10;
    settings
}

fn brought_up(devices: &str, fdr10: Fdr10) -> World {
    let mut world = World::generated(TREE, settings(devices, fdr10));
    world.count_requests();
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

fn reload(world: &mut World, fdr10: Fdr10) {
    let config = settings("fdr10", fdr10).core;
    world.event(Event::Reload(Box::new(config)));
    world.settle(LIMIT);
}

/// The number of Sets of ExtendedPortInfo so far.
fn sets(world: &World) -> u64 {
    let nodes = world.requests().nodes(Method::SET, ExtendedPortInfo::ID);
    let counts = nodes.iter();
    let counts = counts.map(|&node| world.requests().of(node, Method::SET, ExtendedPortInfo::ID));
    counts.sum()
}

/// The ports with a cable.
fn cabled(world: &World) -> Vec<(Guid, PortNum)> {
    let nodes = [NodeKind::Switch, NodeKind::Ca].map(|kind| world.nodes(kind));
    let ports = nodes.into_iter().flatten().flat_map(|node| {
        let last = world.sim.num_ports(node).unwrap();
        (1..=last).map(move |port| (node, PortNum(port)))
    });
    let is_cabled = |&(node, port): &(Guid, PortNum)| world.sim.peer(node, port).unwrap().is_some();
    ports.filter(is_cabled).collect()
}

/// Retrains every link between switches. The manager's own host keeps its link.
fn retrain(world: &mut World) {
    let switches = world.nodes(NodeKind::Switch);
    for (node, port) in cabled(world) {
        let (peer, _) = world.sim.peer(node, port).unwrap().unwrap();
        if node < peer && switches.contains(&node) && switches.contains(&peer) {
            world.sim.unlink(node, port).unwrap();
            world.run_for(Duration::from_secs(1));
            world.sim.relink(node, port).unwrap();
            world.run_for(Duration::from_secs(1));
        }
    }
    world.settle(LIMIT);
    expect::assert_up(world);
}

/// The speeds of links between switches, as the model shows them.
fn speeds(world: &World) -> Vec<LinkSpeed> {
    let snapshot = world.manager().snapshot().unwrap();
    let switches = world.nodes(NodeKind::Switch);
    let nodes = snapshot.fabric.nodes();
    let nodes = nodes.filter(|node| switches.contains(&node.guid));
    let ports = nodes.flat_map(|node| &node.ports);
    let between = ports.filter(|port| port.peer.is_some_and(|peer| switches.contains(&peer.node)));
    between.filter_map(|port| port.speed()).collect()
}

/// Asserts that all links between switches have the speed `expected`.
fn assert_all(world: &World, expected: LinkSpeed) {
    let speeds = speeds(world);
    assert!(!speeds.is_empty());
    let all = speeds.iter().all(|&speed| speed == expected);
    assert!(all, "{speeds:?}, expected {expected}");
}

#[test]
fn fdr10_is_disabled_and_enabled_by_one_set_per_port_and_takes_effect_when_links_train() {
    let mut world = brought_up("fdr10", Fdr10::Off);
    let ports = cabled(&world).len() as u64;
    assert_eq!(sets(&world), ports);
    // Links keep their speed until they train again.
    assert_all(&world, LinkSpeed::Fdr10);
    world.resweep(LIMIT);
    retrain(&mut world);
    assert_all(&world, LinkSpeed::Qdr);
    assert_eq!(sets(&world), ports, "what is held is not set");
    reload(&mut world, Fdr10::On);
    assert_eq!(sets(&world), 2 * ports);
    retrain(&mut world);
    assert_all(&world, LinkSpeed::Fdr10);
    reload(&mut world, Fdr10::AsIs);
    world.resweep(LIMIT);
    assert_eq!(sets(&world), 2 * ports);
}

#[test]
fn a_switch_that_lost_power_gets_the_setting_again() {
    let mut world = brought_up("fdr10", Fdr10::Off);
    let before = sets(&world);
    let spine = world.nodes(NodeKind::Switch).into_iter().find(|&switch| {
        let mut ports = cabled(&world)
            .into_iter()
            .filter(|&(node, _)| node == switch);
        let is_switch = |node: Guid| world.sim.switch_info(node).is_ok();
        ports.all(|(node, port)| is_switch(world.sim.peer(node, port).unwrap().unwrap().0))
    });
    let spine = spine.expect("it has spines");
    let own = cabled(&world)
        .iter()
        .filter(|(node, _)| *node == spine)
        .count() as u64;
    world.sim.power_off(spine).unwrap();
    world.run_for(Duration::from_secs(5));
    world.settle(LIMIT);
    world.sim.power_on(spine).unwrap();
    world.run_for(Duration::from_secs(5));
    world.settle(LIMIT);
    expect::assert_up(&world);
    // The switch's own ports are back at their default; the ports across its cables are not.
    assert_eq!(sets(&world), before + own);
}

#[test]
fn no_set_is_sent_where_fdr10_is_unsupported_or_not_configured_or_already_on() {
    for (devices, fdr10) in [
        ("fdr10", Fdr10::AsIs),
        ("fdr10", Fdr10::On),
        ("qib", Fdr10::Off),
    ] {
        let world = brought_up(devices, fdr10);
        assert_eq!(sets(&world), 0, "{devices}, {fdr10:?}");
    }
}

#[test]
fn devices_that_refuse_fdr10_are_reported_as_a_habit_and_not_asked_again() {
    let mut world = brought_up("fdr10+refuses-fdr10", Fdr10::Off);
    let codes: Vec<_> = world.manager().findings();
    assert!(
        codes.iter().all(|(code, _)| *code == "device-habit") && !codes.is_empty(),
        "{codes:?}"
    );
    let before = sets(&world);
    assert!(before > 0 && before <= cabled(&world).len() as u64);
    world.resweep(LIMIT);
    world.run_for(Duration::from_secs(120));
    world.settle(LIMIT);
    assert_eq!(sets(&world), before, "it is remembered");
    assert_all(&world, LinkSpeed::Fdr10);
}
