//! Fields of PortInfo that rsm sets as OpenSM does, at the ports that hold them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_core::Event;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{LinkDownDefault, Mtu};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};
use rsm_sim::{Devices, Habit};
use rsm_state::Command;
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);
const TREE: &str = "fat-tree:k=4,levels=2";
const MANAGER: Guid = Guid(0x10);
const ROUTER: Guid = Guid(0x20);
const SWITCH: Guid = Guid(0x100);

fn brought_up(devices: &str) -> World {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::parse(devices).unwrap();
    let mut world = World::generated(TREE, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

/// Cables between switches, by one end each.
fn cables_between_switches(world: &World) -> Vec<(Guid, PortNum)> {
    let switches = world.nodes(NodeKind::Switch);
    let ends = switches.iter().flat_map(|&node| {
        let last = world.sim.num_ports(node).unwrap();
        (1..=last).map(move |port| (node, PortNum(port)))
    });
    let is_first_end = |&(node, port): &(Guid, PortNum)| {
        let peer = world.sim.peer(node, port).unwrap();
        peer.is_some_and(|(peer, _)| node < peer && switches.contains(&peer))
    };
    ends.filter(is_first_end).collect()
}

#[test]
fn enhanced_port0_gets_its_largest_mtu_and_base_port0_causes_no_finding() {
    let world = brought_up("enhanced-port-0");
    for switch in world.nodes(NodeKind::Switch) {
        let info = world.sim.port_info(switch, PortNum::ZERO).unwrap();
        assert_ne!(info.mtu_cap(), Mtu::Bytes256);
        assert_eq!(info.neighbor_mtu(), info.mtu_cap(), "{switch}");
    }
    expect::assert_no_findings(&world);
    let world = brought_up("blank-base-port-0");
    expect::assert_no_findings(&world);
}

#[test]
fn link_of_ports_that_sleep_when_down_by_default_trains_again() {
    let mut world = brought_up("sleeps-when-down");
    let cables = cables_between_switches(&world);
    assert!(!cables.is_empty());
    for &(node, port) in &cables {
        let info = world.sim.port_info(node, port).unwrap();
        assert_eq!(info.link_down_default_state(), LinkDownDefault::Polling);
    }
    let (node, port) = cables[0];
    world.sim.unlink(node, port).unwrap();
    world.run_for(Duration::from_secs(1));
    world.sim.relink(node, port).unwrap();
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn router_port_gets_the_hoq_life_of_a_port_towards_a_switch() {
    let node = |kind, guid: Guid, num_ports| Node {
        kind,
        guid,
        system_image_guid: guid,
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        description: format!("node {guid}").into_bytes(),
        num_ports,
        enhanced_port0: false,
        ports: BTreeMap::new(),
    };
    let cable = |port, device| Cable {
        a: (0, PortNum(port)),
        b: (device, PortNum(1)),
        width: LinkWidth::X4,
        speed: LinkSpeed::Hdr,
    };
    let nodes = vec![
        node(NodeKind::Switch, SWITCH, 8),
        node(NodeKind::Ca, MANAGER, 1),
        node(NodeKind::Router, ROUTER, 1),
    ];
    let netlist = Netlist::new(nodes, vec![cable(1, 1), cable(2, 2)]).unwrap();
    let settings = Settings::default();
    let links = settings.core.policy.ports.links.clone();
    let mut world = World::new(&netlist, settings);
    world.add_manager(MANAGER, PortNum(1));
    world.settle(LIMIT);
    let lifetimes = |node, port| {
        let info = world.sim.port_info(node, PortNum(port)).unwrap();
        (info.hoq_life(), info.vl_stall_count())
    };
    assert_eq!(lifetimes(ROUTER, 1), (links.hoq_life, links.vl_stall_count));
    assert_eq!(
        lifetimes(SWITCH, 2),
        (links.leaf_hoq_life, links.leaf_vl_stall_count)
    );
    assert_eq!(lifetimes(MANAGER, 1), (0, 0), "adapters queue no packets");
}

#[test]
fn silent_device_with_a_long_response_time_is_asked_less_often() {
    // The response times are 0.27 s, which is less than the longest timeout, and 4.3 s.
    let [short, long] = ["connectx-7", "long-response-time"].map(|devices| {
        let mut settings = Settings::default();
        settings.sim.devices = Devices::parse(devices).unwrap();
        let mut world = World::generated(TREE, settings);
        world.settle(LIMIT);
        let host = *world.nodes(NodeKind::Ca).last().unwrap();
        world
            .sim
            .set_personality(host, Habit::Silent.into())
            .unwrap();
        world.count_requests();
        world.command(Command::Resweep {
            full: true,
            ticket: 0,
        });
        world.run_for(Duration::from_secs(5));
        world.requests().of(host, Method::GET, AttrId::NODE_INFO)
    });
    assert!(long < short, "{long} and {short} attempts");
}

/// Reloads the policy with these forced speeds of switch ports, and waits until the subnet is at
/// rest.
fn force_speeds(world: &mut World, speed: u8, speed_ext: u8) {
    let mut core = Settings::default().core;
    let links = &mut Arc::make_mut(&mut core.policy).ports.links;
    (links.force_speed, links.force_speed_ext) = (Some(speed), Some(speed_ext));
    world.event(Event::Reload(Box::new(core)));
    world.settle(LIMIT);
}

#[test]
fn forced_speeds_all_supported_become_the_mask_of_each_switch_port_without_a_finding() {
    let mut world = World::generated(TREE, Settings::default());
    let old = *world.nodes(NodeKind::Ca).last().unwrap();
    let habit = Habit::NoExtendedSpeeds.into();
    world.sim.set_personality(old, habit).unwrap();
    world.settle(LIMIT);
    let findings = world.manager().findings();
    let cables = cables_between_switches(&world);
    let enabled = |world: &World, (node, port)| {
        let info = world.sim.port_info(node, port).unwrap();
        (info.link_speed_enabled().0, info.link_speed_ext_enabled().0)
    };
    let old_leaf = world.sim.peer(old, PortNum(1)).unwrap().unwrap();
    let untouched = [
        enabled(&world, (old, PortNum(1))),
        enabled(&world, old_leaf),
    ];

    force_speeds(&mut world, 1, 1);
    for &cable in &cables {
        assert_eq!(enabled(&world, cable), (1, 1));
    }
    assert_eq!(enabled(&world, old_leaf), (1, untouched[1].1));
    force_speeds(&mut world, 15, 31);
    for &(node, port) in &cables {
        let info = world.sim.port_info(node, port).unwrap();
        let supported = (
            info.link_speed_supported().0,
            info.link_speed_ext_supported().0,
        );
        assert_eq!(enabled(&world, (node, port)), supported);
    }
    assert_eq!(enabled(&world, (old, PortNum(1))), untouched[0]);
    assert_eq!(enabled(&world, old_leaf), untouched[1]);
    assert_eq!(world.manager().findings(), findings);
    world.count_requests();
    world.resweep(LIMIT);
    assert_eq!(world.requests().count(Method::SET), 0);
}
