//! Devices with habits come up like other devices, and the core learns their habits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{LinkSpeed, PortPhysicalState, PortState};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_plan::policy::Policy;
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Devices, DropReason, Habit};
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const TREE: &str = "fat-tree:k=4,levels=2";
const LIMIT: Duration = Duration::from_secs(120);
const M_KEY: u64 = 0x1234_5678_9abc_def0;

fn settings(devices: &str) -> Settings {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::parse(devices).unwrap();
    settings
}

/// The number of findings, which must all be about habits of devices.
fn habits(world: &World) -> usize {
    let findings = world.manager().findings();
    assert!(
        findings.iter().all(|(code, _)| *code == "device-habit"),
        "{findings:?}"
    );
    findings.len()
}

#[test]
fn port_that_refuses_extended_speeds_becomes_active_and_is_remembered() {
    let mut world = World::generated(TREE, Settings::default());
    let host = *world.nodes(NodeKind::Ca).last().unwrap();
    world
        .sim
        .set_personality(host, Habit::NoExtendedSpeeds.into())
        .unwrap();
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(habits(&world), 1);

    let asked = |world: &World| world.requests().of(host, Method::GET, AttrId::PORT_INFO);
    world.count_requests();
    world.resweep(LIMIT);
    assert_eq!(asked(&world), 1, "its kind is known");
    world.kill(0);
    world.start(0, Memory::Kept);
    world.count_requests();
    world.settle(LIMIT);
    assert_eq!(asked(&world), 1, "its kind is remembered");
    assert_eq!(habits(&world), 1);
    expect::assert_up(&world);
}

#[test]
fn switch_that_drops_lid_routed_smps_gets_directed_route_smps_after_one_loss() {
    let lost = |world: &World| world.sim.counters().dropped_for(DropReason::InvalidRoute);
    let mut world = World::generated(TREE, settings("directed-only"));
    world.settle(LIMIT);
    expect::assert_up(&world);
    let switches = world.nodes(NodeKind::Switch).len() as u64;
    world.run_for(Duration::from_secs(30));
    let first = lost(&world);
    assert!((1..=switches).contains(&first), "{first} of {switches}");
    world.run_for(Duration::from_secs(60));
    assert_eq!(lost(&world), first);
    assert_eq!(habits(&world), 0);
}

#[test]
fn fabric_without_extended_speeds_comes_up_without_repeated_sets() {
    let mut world = World::generated(TREE, settings("no-extended-speeds"));
    world.settle(LIMIT);
    expect::assert_up(&world);
    // The habits concern ports of adapters, and port 0 and external ports of switches.
    assert_eq!(habits(&world), 3);
    world.count_requests();
    world.resweep(LIMIT);
    assert_eq!(world.requests().count(Method::SET), 0);
}

#[test]
fn port_is_disabled_and_enabled_at_a_switch_that_refuses_extended_speeds() {
    let mut world = World::generated(TREE, settings("no-extended-speeds"));
    world.settle(LIMIT);
    let host = *world.nodes(NodeKind::Ca).last().unwrap();
    let (leaf, number) = world.sim.peer(host, PortNum(1)).unwrap().unwrap();
    let port = PortKey::new(leaf, number);
    let state = |world: &World| *world.sim.port_info(leaf, number).unwrap();
    let reason = Reason::Drained(Drained {
        forced: true,
        disabled: true,
        ..Drained::new("alice", 7)
    });
    world.command(Command::Drain {
        parts: BTreeMap::from([(NodeOrCable::Port(port), reason)]),
        forced: true,
        ticket: 7,
    });
    world.settle(LIMIT);
    let physical = state(&world).port_physical_state();
    assert_eq!(physical, PortPhysicalState::Disabled);
    world.command(Command::EnablePort {
        port,
        by: "alice".to_owned(),
        accepts_other: false,
        ticket: 8,
    });
    world.settle(LIMIT);
    world.resweep(LIMIT);
    assert_eq!(state(&world).port_state(), PortState::Active);
    assert_eq!(habits(&world), 3);
    expect::assert_up(&world);
}

#[test]
fn fabric_of_plain_devices_has_no_habits_and_reads_ports_once() {
    let mut world = World::brought_up(TREE, Settings::default());
    world.count_requests();
    world.resweep(LIMIT);
    for host in world.nodes(NodeKind::Ca) {
        assert_eq!(world.requests().of(host, Method::GET, AttrId::PORT_INFO), 1);
    }
}

/// A leaf loses an uplink, and one of its hosts comes back while rsm reacts. The switch sends a
/// trap only for the first of these changes.
#[test]
fn change_between_reading_and_clearing_port_state_change_is_found() {
    for step in 0..60 {
        let mut settings = settings("trap-on-first-change");
        settings.sim.link_training = Duration::from_micros(10);
        let mut world = World::brought_up(TREE, settings);
        let host = *world.nodes(NodeKind::Ca).last().unwrap();
        let (leaf, _) = world.sim.peer(host, PortNum(1)).unwrap().unwrap();
        let ports = 1..=world.sim.num_ports(leaf).unwrap();
        let uplink = ports
            .map(PortNum)
            .find(|&port| {
                let peer = world.sim.peer(leaf, port).unwrap();
                peer.is_some_and(|(peer, _)| world.sim.switch_info(peer).is_ok())
            })
            .unwrap();
        world.sim.unlink(host, PortNum(1)).unwrap();
        world.settle(LIMIT);
        world.sim.unlink(leaf, uplink).unwrap();
        world.schedule(Duration::from_micros(50) * step, move |world| {
            world.sim.relink(host, PortNum(1)).unwrap();
        });
        world.run_for(Duration::from_millis(10));
        world.settle(LIMIT);
        expect::assert_up(&world);
        // The uplink stays down.
        let findings = world.manager().findings();
        let codes: Vec<_> = findings.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, ["cable-missing"], "{findings:?}");
    }
}

#[test]
fn trap_is_repressed_with_the_m_key() {
    let mut settings = settings("checks-repress");
    let mut policy = Policy::default();
    policy.ports.m_keys = rsm_config::m_keys::MKeyPolicy::one(M_KEY);
    settings.core.policy = Arc::new(policy);
    let mut world = World::brought_up(TREE, settings);
    let host = *world.nodes(NodeKind::Ca).last().unwrap();
    let before = world.sim.counters().traps;
    world.sim.set_description(host, b"renamed").unwrap();
    world.settle(LIMIT);
    assert_eq!(world.sim.counters().traps - before, 1);
    expect::assert_no_findings(&world);
}

#[test]
fn trap_of_the_own_node_from_lid_0_is_repressed_and_gets_the_own_lid_as_issuer() {
    let mut world = World::brought_up(TREE, settings("own-trap-from-lid-0"));
    let (own, port) = world.manager().local(&world.sim).unwrap();
    let lid = world.sim.port_info(own, port).unwrap().lid();
    let before = world.sim.counters().traps;
    world.sim.set_description(own, b"renamed").unwrap();
    world.settle(LIMIT);
    assert_eq!(world.sim.counters().traps - before, 1);
    let notice = world.manager().notices().last().unwrap();
    assert_eq!(notice.issuer_lid(), lid);
    let known = world
        .manager()
        .core()
        .inventory()
        .hardware
        .node(own)
        .unwrap();
    assert_eq!(known.described(), "renamed");
}

#[test]
fn values_of_real_devices_cause_no_finding_and_no_set() {
    for devices in [
        "unmanaged",
        "managed",
        "unmanaged+four-vls",
        "two-vls",
        "connectx-7",
        "aggregation",
        "legacy-speed-4+blank-base-port-0",
    ] {
        let mut world = World::brought_up(&format!("{TREE},speed=NDR"), settings(devices));
        world.count_requests();
        world.resweep(LIMIT);
        assert_eq!(world.requests().count(Method::SET), 0, "{devices}");
        expect::assert_no_findings(&world);
        let inventory = world.manager().core().inventory();
        for (guid, node) in inventory.hardware.nodes() {
            for (number, port) in node.external_ports().filter(|(_, port)| port.is_up()) {
                let info = port.info.as_ref().unwrap();
                let speed = info.effective_speed();
                assert_eq!(
                    speed,
                    Some(LinkSpeed::Ndr),
                    "{devices}: {guid} port {number}"
                );
            }
        }
        for switch in world.nodes(NodeKind::Switch) {
            let port0 = inventory
                .hardware
                .port(PortKey::new(switch, PortNum::ZERO))
                .unwrap();
            assert_eq!(port0.state(), Some(PortState::Active), "{devices}");
        }
    }
}

/// A host port with VLCap 2 (VL0 and VL1) is connected to a switch port with VLCap 4 (VL0 to VL7).
#[test]
fn link_between_ports_with_different_vls_uses_the_common_vls() {
    let mut world = World::generated(TREE, Settings::default());
    let host = *world.nodes(NodeKind::Ca).last().unwrap();
    world
        .sim
        .set_personality(host, Habit::TwoVls.into())
        .unwrap();
    world.bring_up();
    let (leaf, port) = world.sim.peer(host, PortNum(1)).unwrap().unwrap();
    for (guid, port) in [(host, PortNum(1)), (leaf, port)] {
        let info = world.sim.port_info(guid, port).unwrap();
        assert_eq!(info.operational_vls().data_vls(), Some(2));
    }
}
