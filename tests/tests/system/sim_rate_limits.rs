//! Rate limits by service level (`qos.rate_limits_file`): QoSConfigSL of ports and virtual ports,
//! on devices that accept it, refuse it, drop it, or are silent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::{RateLimits, parse_rate_limits};
use rsm_core::Event;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{Attribute, GeneralInfo, PortState, QosConfigSl};
use rsm_mad::wire::header::Method;
use rsm_model::findings::FindingKind;
use rsm_plan::policy::Policy;
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Devices, VPortLids};
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(120);
const TREE: &str = "fat-tree:k=4,levels=2,speed=ndr";
const PORT: PortNum = PortNum(1);

/// The limits of a file with these rules, which may use `slow` (1000 Mb/s) and `fast` (50,000
/// Mb/s).
fn limits(rules: &str) -> Option<Arc<RateLimits>> {
    let text = format!("BW_NAMES\nslow = 1000\nfast = 50000\nBW_RULES\n{rules}\n");
    let (limits, findings) = parse_rate_limits(Path::new("limits"), &text);
    assert!(findings.is_empty(), "{findings:?}");
    Some(Arc::new(limits))
}

fn settings(devices: &str, rules: Option<&str>) -> Settings {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::parse(devices).unwrap();
    settings.core.policy = Arc::new(Policy {
        rate_limits: rules.and_then(limits),
        ..Policy::default()
    });
    settings
}

fn brought_up(settings: Settings) -> World {
    let mut world = World::generated(TREE, settings);
    world.count_requests();
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

/// The number of requests for QoSConfigSL.
fn requests(world: &World, method: Method) -> u64 {
    let nodes = world.requests().nodes(method, QosConfigSl::ID);
    let counts = nodes.iter();
    counts
        .map(|&node| world.requests().of(node, method, QosConfigSl::ID))
        .sum()
}

/// The limits that the simulated adapter holds.
fn held_limits(world: &World, host: Guid, vport: Option<u16>) -> [u32; 16] {
    let config = world.sim.rate_limits((host, PORT), vport).unwrap();
    config.rate_limits()
}

/// The limits of all service levels in Mb/s: 0, which means no limit, except for `levels`.
fn limits_of_levels(levels: &[(usize, u32)]) -> [u32; 16] {
    let mut all = [0; 16];
    for &(sl, limit) in levels {
        all[sl] = limit;
    }
    all
}

fn port_guid(world: &World, host: Guid) -> Guid {
    let snapshot = world.manager().snapshot().unwrap();
    let node = snapshot.fabric.node_of(host).unwrap();
    node.ports[1].guid
}

/// Reloads the configuration with these rules, or without a file of rules, and makes a full sweep.
fn reload(world: &mut World, settings: &Settings, rules: Option<&str>) {
    let mut config = settings.core.clone();
    let mut policy = Policy::clone(&config.policy);
    policy.rate_limits = rules.and_then(limits);
    config.policy = Arc::new(policy);
    world.event(Event::Reload(Box::new(config)));
    world.settle(LIMIT);
    world.resweep(LIMIT);
}

/// Whether the text of a finding about a habit of devices contains `part`.
fn has_habit(world: &World, part: &str) -> bool {
    let findings = &world.manager().snapshot().unwrap().findings;
    let mut habits = findings.iter();
    habits.any(|finding| finding.kind == FindingKind::DeviceHabit && finding.text.contains(part))
}

#[test]
fn each_port_gets_its_limits_once_and_keeps_its_shares() {
    let probe = brought_up(settings("rate-limits", None));
    let hosts = probe.nodes(NodeKind::Ca);
    let special = port_guid(&probe, hosts[2]);
    let rules = format!("default = 1:fast\n{special} = 0:slow, 3:fast");
    let mut world = World::generated(TREE, settings("rate-limits", Some(&rules)));
    // Another manager has left shares, and limits of its own.
    let mut left = QosConfigSl::default();
    left.set_bandwidth_share(4, 77).set_rate_limit(9, 123);
    world.sim.set_rate_limits((hosts[2], PORT), &left).unwrap();
    world.count_requests();
    world.settle(LIMIT);
    expect::assert_up(&world);
    for &host in &hosts {
        let expected = match host == hosts[2] {
            true => limits_of_levels(&[(0, 1000), (3, 50_000)]),
            false => limits_of_levels(&[(1, 50_000)]),
        };
        assert_eq!(held_limits(&world, host, None), expected, "{host}");
    }
    let config = world.sim.rate_limits((hosts[2], PORT), None).unwrap();
    assert_eq!(config.bandwidth_share(4), Some(77));
    let count = hosts.len() as u64;
    assert_eq!(
        (requests(&world, Method::GET), requests(&world, Method::SET)),
        (count, count)
    );
    // Light sweeps do not read the limits; an audit reads them once more.
    world.run_for(Duration::from_secs(30));
    assert_eq!(requests(&world, Method::GET), count);
    world.resweep(LIMIT);
    assert_eq!(
        (requests(&world, Method::GET), requests(&world, Method::SET)),
        (2 * count, count)
    );
    expect::assert_no_findings(&world);
}

#[test]
fn restart_reads_the_limits_and_sets_none() {
    for memory in [Memory::Kept, Memory::Lost] {
        let mut world = brought_up(settings("rate-limits", Some("default = 0:slow")));
        world.kill(0);
        world.start(0, memory);
        world.count_requests();
        world.settle(LIMIT);
        assert_eq!(
            requests(&world, Method::GET),
            world.nodes(NodeKind::Ca).len() as u64
        );
        assert_eq!(requests(&world, Method::SET), 0, "{memory:?}");
    }
}

#[test]
fn without_rate_limits_no_device_is_asked_about_them() {
    let cost = |devices: &str, rules: Option<&str>| {
        let mut world = brought_up(settings(devices, rules));
        world.run_for(Duration::from_secs(60));
        let ledger = world.requests();
        let general = ledger.nodes(Method::GET, GeneralInfo::ID).len();
        let all = (ledger.count(Method::GET), ledger.count(Method::SET));
        (
            requests(&world, Method::GET) + requests(&world, Method::SET),
            general,
            all,
        )
    };
    let off = cost("rate-limits", None);
    assert_eq!((off.0, off.1), (0, 0));
    assert_eq!(off, cost("general-info", None));
    // Devices without the capability cost one GeneralInfo for each model.
    let without = cost("general-info", Some("default = 0:slow"));
    assert_eq!(without.0, 0);
    assert_eq!(without.2, (off.2.0 + without.1 as u64, off.2.1));
    assert_eq!(without.1, 1, "switches are not asked");
}

#[test]
fn devices_that_claim_limits_and_do_not_accept_them_are_not_asked_again() {
    for devices in [
        "refuses-rate-limits",
        "refuses-rate-limit-sets",
        "drops-rate-limits",
        "deaf-to-rate-limits",
    ] {
        let mut world = brought_up(settings(devices, Some("default = 0:slow")));
        world.run_for(Duration::from_secs(60));
        world.settle(LIMIT);
        expect::assert_up(&world);
        assert!(has_habit(&world, "QoSConfigSL"), "{devices}");
        world.count_requests();
        world.resweep(LIMIT);
        world.run_for(Duration::from_secs(60));
        assert_eq!(requests(&world, Method::SET), 0, "{devices}");
        if devices.starts_with("refuses-rate-limits") || devices.starts_with("deaf") {
            assert_eq!(requests(&world, Method::GET), 0, "{devices}");
        }
        for host in world.nodes(NodeKind::Ca) {
            assert_eq!(held_limits(&world, host, None), [0; 16], "{devices}");
        }
    }
}

/// The silent adapter is of a kind that accepts limits, and gets its limits once it answers.
#[test]
fn other_adapters_get_their_limits_while_one_is_silent() {
    let mut world = World::generated(TREE, settings("rate-limits", Some("default = 0:slow")));
    let hosts = world.nodes(NodeKind::Ca);
    let deaf = Devices::parse("deaf-to-rate-limits").unwrap();
    let silent = hosts[3];
    let personality = deaf.of(NodeKind::Ca, silent);
    world.sim.set_personality(silent, personality).unwrap();
    world.run_for(Duration::from_secs(120));
    expect::assert_up(&world);
    assert!(!has_habit(&world, "QoSConfigSL"));
    let slow = limits_of_levels(&[(0, 1000)]);
    for &host in &hosts {
        let expected = if host == silent { [0; 16] } else { slow };
        assert_eq!(held_limits(&world, host, None), expected, "{host}");
    }
    let polite = Devices::parse("rate-limits").unwrap();
    let personality = polite.of(NodeKind::Ca, silent);
    world.sim.set_personality(silent, personality).unwrap();
    world.run_for(Duration::from_secs(60));
    world.resweep(LIMIT);
    assert_eq!(held_limits(&world, silent, None), slow);
    expect::assert_no_findings(&world);
}

#[test]
fn changed_rules_set_only_what_differs_and_a_removed_file_sets_nothing() {
    let before = settings("rate-limits", Some("default = 0:slow"));
    let mut world = brought_up(before.clone());
    let hosts = world.nodes(NodeKind::Ca);
    let guid = port_guid(&world, hosts[1]);
    world.count_requests();
    reload(
        &mut world,
        &before,
        Some(&format!("default = 0:slow\n{guid} = 0:fast")),
    );
    assert_eq!(
        held_limits(&world, hosts[1], None),
        limits_of_levels(&[(0, 50_000)])
    );
    assert_eq!(
        held_limits(&world, hosts[0], None),
        limits_of_levels(&[(0, 1000)])
    );
    assert_eq!(requests(&world, Method::SET), 1);
    // A file without rules lifts all limits.
    reload(&mut world, &before, Some(""));
    for &host in &hosts {
        assert_eq!(held_limits(&world, host, None), [0; 16]);
    }
    reload(&mut world, &before, Some("default = 0:slow"));
    world.count_requests();
    reload(&mut world, &before, None);
    assert_eq!(
        requests(&world, Method::SET) + requests(&world, Method::GET),
        0
    );
    assert_eq!(
        held_limits(&world, hosts[0], None),
        limits_of_levels(&[(0, 1000)])
    );
}

#[test]
fn rebooted_host_gets_its_limits_again() {
    let mut world = brought_up(settings("rate-limits", Some("default = 2:fast")));
    let host = world.nodes(NodeKind::Ca)[2];
    world.sim.reboot(host).unwrap();
    assert_eq!(held_limits(&world, host, None), [0; 16], "it forgets them");
    world.run_for(Duration::from_secs(10));
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(
        held_limits(&world, host, None),
        limits_of_levels(&[(2, 50_000)])
    );
}

/// Each virtual port has the limits of its GUID before it is Active, also at an index that another
/// virtual port had before.
#[test]
fn vports_have_limits_before_they_are_active() {
    let special = Guid(0x00AA_0001);
    let rules = format!("default = 1:fast\n{special} = 0:slow");
    let mut settings = settings("rate-limits", Some(&rules));
    settings.core.manages_vports = true;
    (settings.sim.vports, settings.sim.vport_lids) = (4, VPortLids::Own);
    let mut world = brought_up(settings);
    let hosts = world.nodes(NodeKind::Ca);
    let state = |world: &World, host: Guid, index: u16| {
        let vports = world.sim.vports(host, PORT).unwrap();
        let found = vports.into_iter().find(|(at, _)| *at == index);
        found.map(|(_, vport)| vport.info.state())
    };
    for &host in &hosts {
        for index in 1..4 {
            assert_eq!(state(&world, host, index), Some(PortState::Active));
            assert_eq!(
                held_limits(&world, host, Some(index)),
                limits_of_levels(&[(1, 50_000)])
            );
        }
        assert_eq!(
            held_limits(&world, host, Some(0)),
            [0; 16],
            "that is the port"
        );
    }
    let at = (hosts[1], PORT, 9);
    world.sim.set_vport(at, special, VPortLids::Own).unwrap();
    for _ in 0..2_000 {
        world.run_for(Duration::from_millis(1));
        if state(&world, at.0, at.2) == Some(PortState::Active) {
            break;
        }
    }
    assert_eq!(state(&world, at.0, at.2), Some(PortState::Active));
    assert_eq!(
        held_limits(&world, at.0, Some(at.2)),
        limits_of_levels(&[(0, 1000)])
    );
    world.settle(LIMIT);
    // Another machine at the same index has the limits of its own GUID.
    world.sim.remove_vport(at).unwrap();
    world.run_for(Duration::from_secs(2));
    world
        .sim
        .set_vport(at, Guid(0x00AA_0002), VPortLids::Own)
        .unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    assert_eq!(state(&world, at.0, at.2), Some(PortState::Active));
    assert_eq!(
        held_limits(&world, at.0, Some(at.2)),
        limits_of_levels(&[(1, 50_000)])
    );
    expect::assert_no_findings(&world);
}

/// Devices refuse the Set as if the virtual port did not exist, although it does. rsm sends no more
/// of these Sets to devices of this kind.
#[test]
fn devices_that_refuse_limits_of_vports_are_not_asked_again() {
    let mut settings = settings("refuses-rate-limit-sets", Some("default = 0:slow"));
    settings.core.manages_vports = true;
    (settings.sim.vports, settings.sim.vport_lids) = (3, VPortLids::Own);
    let mut world = World::generated(TREE, settings);
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert!(has_habit(&world, "QoSConfigSL of virtual ports"));
    let findings = &world.manager().snapshot().unwrap().findings;
    let mut others = findings.iter();
    assert!(others.all(|finding| finding.kind == FindingKind::DeviceHabit));
    world.count_requests();
    world.resweep(LIMIT);
    world.run_for(Duration::from_secs(60));
    assert_eq!(requests(&world, Method::SET), 0);
}

/// An adapter of a kind that accepts limits is silent, so a new virtual port waits for its limits.
/// If the adapter stays silent, the virtual port becomes Active without limits.
#[test]
fn vport_waits_for_its_limits_for_a_bounded_time() {
    for answers_again in [true, false] {
        let mut settings = settings("rate-limits", Some("default = 1:fast"));
        settings.core.manages_vports = true;
        (settings.sim.vports, settings.sim.vport_lids) = (2, VPortLids::Own);
        let mut world = brought_up(settings);
        let host = world.nodes(NodeKind::Ca)[3];
        let behave = |world: &mut World, devices: &str| {
            let personality = Devices::parse(devices).unwrap().of(NodeKind::Ca, host);
            world.sim.set_personality(host, personality).unwrap();
        };
        let is_active = |world: &World| {
            let vports = world.sim.vports(host, PORT).unwrap();
            let mut added = vports.into_iter().filter(|(index, _)| *index == 9);
            added.any(|(_, vport)| vport.info.state() == PortState::Active)
        };
        behave(&mut world, "deaf-to-rate-limits");
        let guid = Guid(0x00AA_0001);
        world
            .sim
            .set_vport((host, PORT, 9), guid, VPortLids::Own)
            .unwrap();
        world.count_requests();
        world.run_for(Duration::from_secs(6));
        assert!(!is_active(&world), "it waits");
        if answers_again {
            behave(&mut world, "rate-limits");
        }
        let until = world.now() + Duration::from_secs(60);
        assert!(world.run(until, is_active));
        // The device was queried in three passes, each time more than once.
        assert!(requests(&world, Method::GET) > 6 || answers_again);
        let expected = match answers_again {
            true => limits_of_levels(&[(1, 50_000)]),
            false => [0; 16],
        };
        assert_eq!(held_limits(&world, host, Some(9)), expected);
        assert!(!has_habit(&world, "QoSConfigSL"));
    }
}
