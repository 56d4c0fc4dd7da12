//! Capabilities of device models, and rsm's use of them: tables of port states in place of
//! PortInfo, FDR10, aggregation nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_core::Event;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{
    ArInfo, Attribute, Capability, ExtendedPortInfo, GeneralInfo, LinkSpeed, PortInfo,
    SwitchPortStateTable,
};
use rsm_mad::wire::header::Method;
use rsm_routing::netlist::{Cable, LinkWidth, Netlist, Node, NodeKind};
use rsm_routing::topology::EndpointKind;
use rsm_sim::Devices;
use rsm_tests::virtual_time::{Dice, Memory, Settings, World, expect, seeds};

const LIMIT: Duration = Duration::from_secs(120);
/// A fabric of one switch model and one adapter model, both of which rsm asks for GeneralInfo.
const TREE: &str = "fat-tree:k=8,levels=2,speed=ndr";
/// A fabric of models that rsm does not ask for GeneralInfo.
const TREE_WITHOUT_QUERIES: &str = "fat-tree:k=8,levels=2,speed=qdr";

/// Settings of a manager that asks devices for GeneralInfo.
fn settings_with_queries() -> Settings {
    let mut settings = Settings::default();
    settings.core.asks_capabilities = true;
    settings
}

fn settings(devices: &str) -> Settings {
    let mut settings = settings_with_queries();
    settings.sim.devices = Devices::parse(devices).unwrap();
    settings
}

fn brought_up(spec: &str, devices: &str) -> World {
    let mut world = World::generated(spec, settings(devices));
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

/// The number of Gets of `A` that were counted.
fn gets_of<A: Attribute>(world: &World) -> u64 {
    let nodes = world.requests().nodes(Method::GET, A::ID);
    let counts = nodes
        .iter()
        .map(|&node| world.requests().of(node, Method::GET, A::ID));
    counts.sum()
}

/// The leaf of the first host, and the port of its uplink with the index `nth`.
fn uplink(world: &World, nth: usize) -> (Guid, PortNum) {
    let is_switch = |node: Guid| world.sim.switch_info(node).is_ok();
    let host = world.nodes(NodeKind::Ca)[0];
    let (leaf, _) = world.sim.peer(host, PortNum(1)).unwrap().unwrap();
    let ports = (1..=world.sim.num_ports(leaf).unwrap()).map(PortNum);
    let mut up = ports.filter(|&port| {
        let peer = world.sim.peer(leaf, port).unwrap();
        peer.is_some_and(|(peer, _)| is_switch(peer))
    });
    (leaf, up.nth(nth).expect("it has uplinks"))
}

/// Disconnects an uplink and reconnects it.
fn flap(world: &mut World, (leaf, port): (Guid, PortNum)) {
    world.sim.unlink(leaf, port).unwrap();
    world.run_for(Duration::from_secs(1));
    world.settle(LIMIT);
    world.sim.relink(leaf, port).unwrap();
    world.run_for(Duration::from_secs(1));
    world.settle(LIMIT);
    expect::assert_up(world);
}

/// The number of findings about habits of devices.
fn habits(world: &World) -> usize {
    let findings = world.manager().findings();
    let habit = |finding: &&(&str, String)| finding.0 == "device-habit";
    findings.iter().filter(habit).count()
}

#[test]
fn general_info_is_asked_of_one_device_per_type_and_remembered() {
    let mut world = World::generated(TREE, settings("general-info"));
    world.count_requests();
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(gets_of::<GeneralInfo>(&world), 2);
    let snapshot = world.manager().snapshot().unwrap().clone();
    for node in snapshot.fabric.nodes() {
        let held = snapshot
            .capabilities
            .of(&node.info)
            .expect("its type answered");
        assert!(held.has(Capability::ExtendedPortInfo));
        assert_eq!(held.has(Capability::SharpAggregationNode), node.is_switch());
    }
    for (memory, count) in [(Memory::Kept, 0), (Memory::Lost, 2)] {
        world.kill(0);
        world.start(0, memory);
        world.count_requests();
        world.settle(LIMIT);
        world.resweep(LIMIT);
        assert_eq!(gets_of::<GeneralInfo>(&world), count);
    }
    // A reload asks again, because the firmware may have changed.
    world.count_requests();
    world.event(Event::Reload(Box::new(settings_with_queries().core)));
    world.settle(LIMIT);
    assert_eq!(gets_of::<GeneralInfo>(&world), 2);
}

/// The requests of a bring-up, a lost link, a full sweep and light sweeps are compared between a
/// fabric of models that rsm asks in vain and a fabric of models that it does not ask.
#[test]
fn fabric_without_capabilities_costs_one_general_info_per_device_type() {
    let cost = |spec: &str| {
        let mut world = World::generated(spec, settings_with_queries());
        world.count_requests();
        world.settle(LIMIT);
        let link = uplink(&world, 0);
        flap(&mut world, link);
        world.resweep(LIMIT);
        world.run_for(Duration::from_secs(60));
        let extended =
            gets_of::<ExtendedPortInfo>(&world) + gets_of::<SwitchPortStateTable>(&world);
        assert_eq!(extended, 0);
        // An audit also reads ARInfo of the switches that have it, which does not count here.
        let adaptive = gets_of::<ArInfo>(&world);
        let requests = world.requests();
        (
            requests.count(Method::GET) - adaptive,
            requests.count(Method::SET),
            gets_of::<GeneralInfo>(&world),
        )
    };
    let (gets, sets, general) = cost(TREE_WITHOUT_QUERIES);
    assert_eq!(general, 0);
    assert_eq!(cost(TREE), (gets + 2, sets, 2));
}

#[test]
fn devices_silent_on_general_info_come_up_and_are_no_longer_asked() {
    let mut world = World::generated(TREE, settings("deaf-to-general-info"));
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    for _ in 0..3 {
        world.resweep(LIMIT);
    }
    world.count_requests();
    world.resweep(LIMIT);
    assert_eq!(gets_of::<GeneralInfo>(&world), 0);
    expect::assert_no_findings(&world);
}

#[test]
fn nonsense_in_general_info_turns_no_feature_on() {
    let world = brought_up(TREE, "nonsense-general-info");
    assert_eq!(habits(&world), 2, "switches and adapters");
    let snapshot = world.manager().snapshot().unwrap();
    assert!(
        snapshot
            .capabilities
            .answers()
            .all(|(_, held)| held.is_empty())
    );
}

/// The first report of a switch makes rsm read its table of port states and, to verify the table,
/// its ports. From the second report on, the table alone shows which ports to read.
#[test]
fn lost_link_costs_fewer_gets_with_a_table_of_port_states() {
    let cost = |devices: &str| {
        let mut world = brought_up(TREE, devices);
        let link = uplink(&world, 0);
        flap(&mut world, link);
        world.count_requests();
        flap(&mut world, link);
        assert_eq!(habits(&world), 0);
        let tables = gets_of::<SwitchPortStateTable>(&world);
        let (leaf, _) = link;
        let at_leaf = world.requests().of(leaf, Method::GET, PortInfo::ID);
        (gets_of::<PortInfo>(&world) + tables, at_leaf, tables)
    };
    let (one_by_one, at_leaf, tables) = cost("general-info");
    assert_eq!(tables, 0);
    let (by_table, at_leaf_by_table, tables) = cost("port-states");
    assert!(tables > 0);
    assert!(
        by_table < one_by_one,
        "{by_table} Gets of ports and tables in place of {one_by_one}"
    );
    assert!(
        2 * at_leaf_by_table < at_leaf,
        "{at_leaf_by_table} Gets of PortInfo at the leaf in place of {at_leaf}"
    );
}

/// The switches have 64 ports, like those of the largest fabrics. A light sweep costs equally many
/// Gets with and without tables of port states; a report costs less than an eighth with tables.
#[test]
#[expect(clippy::print_stdout, reason = "a measurement shows its figures")]
fn report_of_a_switch_with_64_ports_costs_a_handful_of_gets() {
    const WIDE: &str = "pgft:2;32,2;1,32;1,1";
    let cost = |devices: &str| {
        let mut world = brought_up(WIDE, devices);
        let link = uplink(&world, 0);
        flap(&mut world, link);
        world.run_for(Duration::from_secs(60));
        world.count_requests();
        let period = Settings::default().core.light_sweep;
        world.run_for(period);
        let light = world.requests().count(Method::GET);
        world.count_requests();
        world.sim.unlink(link.0, link.1).unwrap();
        world.run_for(Duration::from_secs(1));
        world.settle(LIMIT);
        (light, world.requests().count(Method::GET))
    };
    let (light, report) = cost("general-info");
    let (light_by_table, report_by_table) = cost("port-states");
    println!(
        "light sweep {light} and {light_by_table} Gets, lost link {report} and {report_by_table}"
    );
    assert_eq!(light, light_by_table);
    assert!(
        8 * report_by_table < report,
        "{report_by_table} Gets in place of {report}"
    );
}

/// All traps are lost, so only PortStateChange in a light sweep shows the lost link.
#[test]
fn light_sweep_finds_a_lost_link_by_the_table_of_port_states() {
    let mut world = brought_up(TREE, "port-states");
    let link = uplink(&world, 0);
    flap(&mut world, link);
    let host = *world.nodes(NodeKind::Ca).last().unwrap();
    world
        .sim
        .set_attribute_loss(rsm_mad::wire::header::AttrId::NOTICE, 1.0)
        .unwrap();
    world.sim.unlink(host, PortNum(1)).unwrap();
    world.run_for(Duration::from_secs(60));
    let codes: Vec<_> = world
        .manager()
        .findings()
        .iter()
        .map(|(code, _)| *code)
        .collect();
    assert!(
        codes.iter().any(|code| code.ends_with("missing")),
        "{codes:?}"
    );
    world.sim.relink(host, PortNum(1)).unwrap();
    world.run_for(Duration::from_secs(60));
    expect::assert_up(&world);
}

#[test]
fn switches_with_an_unusable_table_of_port_states_are_read_port_by_port() {
    for devices in [
        "refuses-port-states",
        "deaf-to-port-states",
        "nonsense-port-states",
    ] {
        let mut world = brought_up(TREE, devices);
        let link = uplink(&world, 0);
        flap(&mut world, link);
        assert_eq!(habits(&world), 1, "{devices}");
        world.count_requests();
        let other = uplink(&world, 1);
        flap(&mut world, other);
        assert_eq!(
            gets_of::<SwitchPortStateTable>(&world),
            0,
            "{devices}: the kind is known"
        );
        world.kill(0);
        world.start(0, Memory::Kept);
        world.settle(LIMIT);
        flap(&mut world, link);
        assert_eq!(
            gets_of::<SwitchPortStateTable>(&world),
            0,
            "{devices}: it is remembered"
        );
    }
}

/// A table of port states that never changes is not trusted, however often it agrees with the known
/// state: every lost and every restored link is found.
#[test]
fn frozen_tables_of_port_states_hide_no_change_and_are_no_longer_read() {
    let mut world = brought_up(TREE, "frozen-port-states");
    for round in 0..4 {
        for nth in 0..2 {
            let link = uplink(&world, nth);
            flap(&mut world, link);
        }
        if habits(&world) == 1 {
            world.count_requests();
            let link = uplink(&world, 0);
            flap(&mut world, link);
            assert_eq!(gets_of::<SwitchPortStateTable>(&world), 0, "round {round}");
            return;
        }
    }
    panic!("the tables were contradicted and are still read");
}

#[test]
fn table_of_port_states_that_a_reboot_removes_is_reported_as_a_habit() {
    let mut world = brought_up(TREE, "forgets-port-states");
    let link = uplink(&world, 0);
    flap(&mut world, link);
    flap(&mut world, link);
    assert_eq!(habits(&world), 0);
    let (leaf, _) = link;
    world.sim.reboot(leaf).unwrap();
    world.run_for(Duration::from_secs(10));
    world.settle(LIMIT);
    expect::assert_up(&world);
    let other = uplink(&world, 1);
    flap(&mut world, other);
    assert_eq!(habits(&world), 1);
}

#[test]
fn mixed_devices_under_loss_converge() {
    seeds::run("mixed_devices_under_loss_converge", 40, |seed| {
        let mut settings = settings(&format!("mix:{seed}"));
        settings.seed = seed;
        let mut world = World::generated(TREE, settings);
        world.settle(LIMIT * 5);
        let mut dice = Dice::new(seed);
        for _ in 0..6 {
            let switches = world.nodes(NodeKind::Switch);
            let switch = dice.pick(&switches);
            let port =
                PortNum(1 + dice.below(usize::from(world.sim.num_ports(switch).unwrap())) as u8);
            world.schedule_loss(Duration::ZERO, Duration::from_secs(2), 0.1);
            if world.sim.peer(switch, port).unwrap().is_none() {
                continue;
            }
            world.sim.unlink(switch, port).unwrap();
            world.run_for(dice.duration(Duration::from_micros(10), Duration::from_secs(3)));
            world.sim.relink(switch, port).unwrap();
            world.run_for(dice.duration(Duration::from_micros(10), Duration::from_secs(3)));
        }
        world.run_for(Duration::from_secs(60));
        world.settle(LIMIT * 5);
        expect::assert_up(&world);
    });
}

#[test]
fn fdr10_links_are_not_taken_for_qdr() {
    let mut world = brought_up("fat-tree:k=4,levels=2,speed=fdr10", "fdr10");
    let is_fdr10 = |world: &World| {
        let snapshot = world.manager().snapshot().unwrap();
        let ports = snapshot.fabric.nodes().flat_map(|node| &node.ports);
        let mut speeds = ports
            .filter(|port| port.peer.is_some())
            .map(|port| port.speed());
        speeds.all(|speed| speed == Some(LinkSpeed::Fdr10))
    };
    assert!(is_fdr10(&world));
    world.count_requests();
    world.resweep(LIMIT);
    assert_eq!(
        gets_of::<ExtendedPortInfo>(&world),
        0,
        "known while the link stays up"
    );
    let link = uplink(&world, 0);
    flap(&mut world, link);
    assert_eq!(
        gets_of::<ExtendedPortInfo>(&world),
        2,
        "both ends trained anew"
    );
    assert!(is_fdr10(&world));
}

fn node(kind: NodeKind, guid: Guid, device_id: u16, num_ports: u8) -> Node {
    Node {
        kind,
        guid,
        system_image_guid: guid,
        vendor_id: 0x2c9,
        device_id,
        description: format!("node {guid}").into_bytes(),
        num_ports,
        enhanced_port0: kind == NodeKind::Switch,
        ports: BTreeMap::new(),
    }
}

/// A switch with two hosts and, at its last port, a node that its description does not identify as
/// an aggregation node.
fn with_aggregation_node(switch: Guid, behind_last: Guid) -> Netlist {
    let nodes = vec![
        node(NodeKind::Switch, switch, 0xd2f2, 5),
        node(NodeKind::Ca, Guid(0x1000), 0x1021, 1),
        node(NodeKind::Ca, Guid(0x1010), 0x1021, 1),
        node(NodeKind::Ca, behind_last, 0xcf09, 1),
    ];
    let cable = |port: u8, node: usize| Cable {
        a: (0, PortNum(port)),
        b: (node, PortNum(1)),
        width: LinkWidth::X4,
        speed: LinkSpeed::Ndr,
    };
    Netlist::new(nodes, vec![cable(1, 1), cable(2, 2), cable(5, 3)]).unwrap()
}

#[test]
fn aggregation_node_is_recognised_by_its_switch_and_is_no_host() {
    let (switch, behind_last) = (Guid(0x100), Guid(0x1020));
    let netlist = with_aggregation_node(switch, behind_last);
    for (devices, expected) in [
        (
            "general-info+aggregation-node",
            EndpointKind::AggregationNode,
        ),
        ("general-info", EndpointKind::Ca),
        ("aggregation-node", EndpointKind::Ca),
    ] {
        let mut world = World::new(&netlist, settings(devices));
        world.add_manager(Guid(0x1000), PortNum(1));
        world.count_requests();
        world.settle(LIMIT);
        expect::assert_up(&world);
        let plan = world.manager().core().plan().expect("planned").clone();
        let kinds: Vec<_> = plan.topology.destinations().iter().collect();
        let of = |guid: Guid| {
            kinds
                .iter()
                .find(|end| end.guid == guid)
                .expect("routed")
                .kind
        };
        let port = world.sim.port_guid(behind_last, PortNum(1)).unwrap();
        assert_eq!(of(port), expected, "{devices}");
        let host = world.sim.port_guid(Guid(0x1000), PortNum(1)).unwrap();
        assert_eq!(of(host), EndpointKind::Ca);
        let gets = world
            .requests()
            .of(switch, Method::GET, ExtendedPortInfo::ID);
        assert!(gets <= 1, "the last port alone, once");
    }
}

/// rsm makes the switch enable or disable its aggregation node, and does so again after a reboot of
/// the switch. A default configuration leaves the node unchanged.
#[test]
fn aggregation_node_is_enabled_and_disabled_as_configured() {
    let (switch, port) = (Guid(0x100), PortNum(5));
    let netlist = with_aggregation_node(switch, Guid(0x1020));
    let configured = |enables: Option<bool>| {
        let mut settings = settings("general-info+aggregation-node");
        Arc::make_mut(&mut settings.core.policy).aggregation_nodes = enables;
        settings
    };
    let is_enabled = |world: &World| world.sim.extended_port(switch, port).unwrap().0;
    let sets = |world: &World| {
        let requests = world.requests();
        let nodes = requests.nodes(Method::SET, ExtendedPortInfo::ID);
        let counts = nodes.iter();
        let counts = counts.map(|&node| requests.of(node, Method::SET, ExtendedPortInfo::ID));
        counts.sum::<u64>()
    };
    let mut world = World::new(&netlist, configured(None));
    world.add_manager(Guid(0x1000), PortNum(1));
    world.count_requests();
    world.settle(LIMIT);
    assert_eq!((is_enabled(&world), sets(&world)), (false, 0));
    for (enables, expected) in [(true, 1), (true, 0), (false, 1)] {
        let config = configured(Some(enables)).core;
        world.count_requests();
        world.event(Event::Reload(Box::new(config)));
        world.settle(LIMIT);
        world.resweep(LIMIT);
        assert_eq!(is_enabled(&world), enables);
        assert_eq!(sets(&world), expected, "{enables}");
        expect::assert_up(&world);
    }
    let mut world = World::new(&netlist, configured(Some(true)));
    world.add_manager(Guid(0x1000), PortNum(1));
    world.settle(LIMIT);
    assert!(is_enabled(&world));
    world.kill(0);
    world.start(0, Memory::Lost);
    world.count_requests();
    world.settle(LIMIT);
    world.run_for(Duration::from_secs(60));
    assert_eq!((is_enabled(&world), sets(&world)), (true, 0));
    // A reboot resets the setting.
    world.sim.reboot(switch).unwrap();
    world.run_for(Duration::from_secs(30));
    world.settle(LIMIT);
    assert!(is_enabled(&world));
}

#[test]
fn switch_that_refuses_to_enable_its_aggregation_node_is_reported_and_asked_once() {
    let switch = Guid(0x100);
    let netlist = with_aggregation_node(switch, Guid(0x1020));
    let mut settings = settings("general-info+aggregation-node+refuses-extended-port-sets");
    Arc::make_mut(&mut settings.core.policy).aggregation_nodes = Some(true);
    let mut world = World::new(&netlist, settings);
    world.add_manager(Guid(0x1000), PortNum(1));
    world.count_requests();
    world.settle(LIMIT);
    world.run_for(Duration::from_secs(120));
    expect::assert_up(&world);
    let tried = world
        .requests()
        .of(switch, Method::SET, ExtendedPortInfo::ID);
    assert_eq!(tried, 1, "it is not tried again");
    let snapshot = world.manager().snapshot().unwrap();
    let mut findings = snapshot.findings.iter();
    assert!(findings.any(|finding| finding.text.contains("do not take ExtendedPortInfo")));
}
