//! Congestion control: settings of switches and adapters, their keys, and devices that misbehave.

use std::sync::Arc;
use std::time::Duration;

use rsm_config::{CongestionPolicy, KeyPolicy};
use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::congestion::{
    CongestionControlTableEntry, CongestionKeyInfo, PortMask, SwitchControlMap,
};
use rsm_mad::wire::header::Status;
use rsm_model::congestion::AgentStatus;
use rsm_model::findings::FindingKind;
use rsm_routing::netlist::NodeKind;
use rsm_sim::{CongestionAgent, Devices, DropReason};
use rsm_tests::virtual_time::{Dice, Memory, Settings, World, expect, seeds};

const LIMIT: Duration = Duration::from_secs(120);
/// A time longer than all settings take without losses.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const TREE: &str = "fat-tree:k=4,levels=2,speed=ndr";
/// The personality of devices without congestion control.
const PLAIN: &str = "plain";
const KEY: u64 = 0x1122_3344_5566_7788;

/// Settings of switches and adapters, with a table of two blocks.
fn policy() -> CongestionPolicy {
    let mut policy = CongestionPolicy {
        enabled: true,
        ..CongestionPolicy::default()
    };
    policy
        .switch
        .set_control_map(SwitchControlMap::VICTIM_MASK | SwitchControlMap::THRESHOLD)
        .set_threshold(11)
        .set_packet_size(3)
        .set_marking_rate(9);
    policy.switch.victim_mask = PortMask([0xFF; 32]);
    policy.adapter.set_control_map(0b1001).set_port_control(1);
    for entry in &mut policy.adapter.entries {
        entry.set_ccti_timer(150).set_ccti_increase(2);
    }
    policy.table = (0..100)
        .map(|delay| {
            let mut entry = CongestionControlTableEntry::default();
            entry.set_shift(1).set_multiplier(delay);
            entry
        })
        .collect();
    policy
}

/// The settings of [`policy`] with a CC_Key, which the manager gives to devices with a lease of 30
/// s.
fn with_key(key: u64) -> CongestionPolicy {
    CongestionPolicy {
        key,
        gives_key: Some(KeyPolicy {
            protects: true,
            lease_s: 30,
        }),
        ..policy()
    }
}

fn settings(devices: &str, policy: CongestionPolicy) -> Settings {
    let mut settings = Settings::default();
    if devices != PLAIN {
        settings.sim.devices = Devices::parse(devices).unwrap();
    }
    settings.core.congestion = Arc::new(policy);
    settings
}

fn brought_up(settings: Settings) -> World {
    let mut world = World::generated(TREE, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    world.run_for(SETTLE_TIME);
    world
}

/// The end ports of all nodes.
fn end_ports(world: &World) -> Vec<PortKey> {
    let switches = world.nodes(NodeKind::Switch).into_iter();
    let hosts = world.nodes(NodeKind::Ca).into_iter();
    let switches = switches.map(|guid| PortKey::new(guid, PortNum(0)));
    switches
        .chain(hosts.map(|guid| PortKey::new(guid, PortNum(1))))
        .collect()
}

/// The state of an agent in the simulator; the default state if no request has reached it.
fn agent(world: &World, key: PortKey) -> CongestionAgent {
    let agent = world.sim.congestion_agent(key.node, key.port).unwrap();
    agent.cloned().unwrap_or_default()
}

/// The state of an agent as the manager knows it; `None` if the manager does not know the agent.
fn status(world: &World, key: PortKey) -> Option<AgentStatus> {
    let snapshot = world.manager().snapshot().unwrap();
    snapshot.congestion.agent(key).map(|agent| agent.status)
}

/// The numbers of Gets and Sets that reached agents.
fn requests(world: &World) -> (u64, u64) {
    let agents = end_ports(world).into_iter().map(|key| agent(world, key));
    agents.fold((0, 0), |(gets, sets), agent| {
        (gets + agent.gets, sets + agent.sets)
    })
}

/// Asserts that every agent holds the settings of `policy()`, and that the manager knows this.
fn assert_set(world: &World) {
    for key in end_ports(world) {
        let held = agent(world, key);
        if key.port == PortNum(0) {
            let setting = held.switch;
            assert_eq!((setting.threshold(), setting.packet_size()), (11, 3));
            assert_eq!(setting.marking_rate(), 0, "not in Control_Map");
            // Switches have four ports, and the enhanced port 0.
            assert_eq!(setting.victim_mask.to_string(), "0x1f");
        } else {
            assert_eq!(held.adapter.port_control(), 1);
            let timers = held.adapter.entries.map(|entry| entry.ccti_timer());
            assert_eq!(timers[..5], [150, 0, 0, 150, 0]);
            assert_eq!(held.table.map(|block| block.ccti_limit()), [99, 99]);
            assert_eq!(held.table[0].entries[63].multiplier(), 63);
            assert_eq!(held.table[1].entries[35].multiplier(), 99);
            assert_eq!(held.table[1].entries[36].multiplier(), 0);
        }
        assert_eq!(status(world, key), Some(AgentStatus::Set), "{key:?}");
    }
}

/// The texts of the findings about congestion control.
fn findings(world: &World) -> Vec<String> {
    let snapshot = world.manager().snapshot().unwrap();
    let findings = snapshot.findings.iter();
    let ours = findings.filter(|finding| finding.kind == FindingKind::CongestionControl);
    ours.map(|finding| finding.text.clone()).collect()
}

/// Reloads the configuration with this policy, and waits until its settings have been written.
fn reload(world: &mut World, policy: CongestionPolicy) {
    let config = CoreConfig {
        congestion: Arc::new(policy),
        ..CoreConfig::default()
    };
    world.event(Event::Reload(Box::new(config)));
    world.settle(LIMIT);
    world.run_for(SETTLE_TIME);
}

#[test]
fn switches_and_adapters_get_the_settings_once() {
    let mut world = brought_up(settings("congestion-control", policy()));
    assert_set(&world);
    expect::assert_no_findings(&world);
    let (_, sets) = requests(&world);
    // Each switch gets one Set; each adapter gets one Set for the setting and two Sets for blocks.
    let (switches, hosts) = (
        world.nodes(NodeKind::Switch).len() as u64,
        world.nodes(NodeKind::Ca).len() as u64,
    );
    assert_eq!(sets, switches + 3 * hosts);
    let before = requests(&world);
    world.resweep(LIMIT);
    world.run_for(Duration::from_secs(300));
    assert_eq!(requests(&world), before, "nothing is asked again");
}

#[test]
fn without_congestion_control_no_datagram_of_its_class_is_sent() {
    let mut off = policy();
    off.enabled = false;
    let cost = |devices: &str, policy: CongestionPolicy| {
        let mut world = World::generated(TREE, settings(devices, policy));
        world.settle(LIMIT);
        world.run_for(Duration::from_secs(60));
        let counters = world.sim.counters();
        (requests(&world), counters.sent)
    };
    let plain = cost(PLAIN, CongestionPolicy::default());
    assert_eq!(plain.0, (0, 0));
    assert_eq!(cost("congestion-control", off), plain);
    // Congestion control is on, and the policy wants nothing from any device.
    let empty = CongestionPolicy {
        enabled: true,
        ..CongestionPolicy::default()
    };
    assert_eq!(cost("congestion-control", empty), plain);
}

#[test]
fn restarted_manager_reads_settings_back_and_sets_nothing() {
    for memory in [Memory::Kept, Memory::Lost] {
        let mut world = brought_up(settings("congestion-control", with_key(KEY)));
        assert_set(&world);
        let (gets, sets) = requests(&world);
        world.kill(0);
        world.start(0, memory);
        world.settle(LIMIT);
        world.run_for(SETTLE_TIME);
        assert_set(&world);
        let after = requests(&world);
        assert_eq!(after.1, sets, "{memory:?}");
        assert!(after.0 > gets, "it is read back");
    }
}

#[test]
fn device_without_the_class_is_asked_once() {
    for (devices, is_silent) in [(PLAIN, false), ("deaf-to-congestion-control", true)] {
        let mut world = brought_up(settings(devices, policy()));
        let asked = end_ports(&world);
        for &key in &asked {
            let known = status(&world, key).unwrap();
            // The manager's own host answers no datagram of the manager, so it counts as silent.
            match known {
                AgentStatus::Silent => {}
                AgentStatus::Absent(status) => {
                    assert!(!is_silent);
                    assert_eq!(status, Status::UNSUPPORTED_METHOD_ATTRIBUTE);
                }
                other => panic!("{other:?}"),
            }
        }
        let found = findings(&world);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("6 switches and 8 ports of adapters have no"));
        let sent = |world: &World| {
            let counters = world.sim.counters();
            counters.sent - counters.gets() - counters.sets()
        };
        let before = sent(&world);
        let dropped = world.sim.counters().dropped_for(DropReason::Silent);
        world.run_for(Duration::from_secs(7200));
        assert_eq!(sent(&world), before, "{devices}");
        let after = world.sim.counters().dropped_for(DropReason::Silent);
        assert_eq!(after, dropped);
    }
}

#[test]
fn adapters_that_refuse_or_drop_settings_share_one_finding() {
    let cases = [
        (
            "congestion-control+refuses-congestion-sets",
            "refuses CongestionControlTable (invalid field), and so do 7 other ports",
        ),
        (
            "congestion-control+drops-congestion-sets",
            "acknowledges CongestionControlTable and holds other values, and so do 7 other ports",
        ),
    ];
    for (devices, text) in cases {
        let mut world = brought_up(settings(devices, policy()));
        let found = findings(&world);
        assert_eq!(found.len(), 2, "switches and adapters: {found:?}");
        assert!(found.iter().any(|one| one.contains(text)), "{found:?}");
        let before = requests(&world);
        world.run_for(Duration::from_secs(7200));
        assert_eq!(requests(&world), before, "{devices}: it is not tried again");
        expect::assert_up(&world);
    }
}

#[test]
fn agents_get_the_key_and_accept_no_other_key() {
    let mut world = brought_up(settings("congestion-control", with_key(KEY)));
    assert_set(&world);
    for key in end_ports(&world) {
        let held = agent(&world, key).key;
        assert_eq!((held.cc_key(), held.lease_period()), (KEY, 30));
        assert!(held.protect_bit());
    }
    // All agents hold the old key, and ignore requests with the new key.
    let mut other = with_key(KEY + 1);
    other.switch.set_threshold(5);
    reload(&mut world, other);
    let key = end_ports(&world)[0];
    let Some(AgentStatus::Unanswered(attribute)) = status(&world, key) else {
        panic!("{:?}", status(&world, key));
    };
    assert_eq!(attribute, "CongestionKeyInfo");
    assert_eq!(agent(&world, key).key.cc_key(), KEY);
    assert!(agent(&world, key).key.violations() > 0);
    let found = findings(&world);
    assert!(
        found.iter().any(|one| one.contains("another CC_Key")),
        "{found:?}"
    );
    // The correct key applies again.
    reload(&mut world, with_key(KEY));
    assert_set(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn manager_that_gives_no_key_uses_the_configured_key_that_devices_hold() {
    let mut world = World::generated(
        TREE,
        settings("congestion-control", {
            let mut policy = policy();
            policy.key = KEY;
            policy
        }),
    );
    for key in end_ports(&world) {
        let mut held = CongestionAgent::default();
        held.key.set_cc_key(KEY).set_protect_bit(true);
        world
            .sim
            .set_congestion_agent(key.node, key.port, held)
            .unwrap();
    }
    world.settle(LIMIT);
    world.run_for(SETTLE_TIME);
    assert_set(&world);
    for key in end_ports(&world) {
        let held: CongestionKeyInfo = agent(&world, key).key;
        assert_eq!((held.cc_key(), held.violations()), (KEY, 0));
    }
}

#[test]
fn device_that_lost_its_settings_gets_them_again() {
    let mut world = brought_up(settings("congestion-control", with_key(KEY)));
    let host = *world.nodes(NodeKind::Ca).last().unwrap();
    let switch = world.nodes(NodeKind::Switch)[0];
    for node in [host, switch] {
        world.sim.reboot(node).unwrap();
        world.run_for(Duration::from_secs(30));
        world.settle(LIMIT);
        world.run_for(SETTLE_TIME);
        assert_set(&world);
    }
}

#[test]
fn table_longer_than_the_table_of_the_device_is_not_written() {
    let mut long = policy();
    long.table = vec![CongestionControlTableEntry::default(); 129];
    let world = brought_up(settings("congestion-control", long));
    for host in world.nodes(NodeKind::Ca) {
        let key = PortKey::new(host, PortNum(1));
        assert_eq!(status(&world, key), Some(AgentStatus::TableTooSmall(2)));
        assert_eq!(agent(&world, key).sets, 0);
    }
    assert!(findings(&world)[0].contains("has a CongestionControlTable of 128 entries"));
}

#[test]
fn standby_sends_nothing_and_the_new_master_sets_nothing() {
    let mut world = brought_up(settings("congestion-control", policy()));
    let last = *world.nodes(NodeKind::Ca).last().unwrap();
    world.add_manager(last, PortNum(1));
    world.settle(LIMIT);
    let before = requests(&world);
    world.run_for(Duration::from_secs(60));
    assert_eq!(requests(&world), before);
    // The new master reads all settings back, and finds nothing to set.
    world.kill(0);
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT);
    world.run_for(SETTLE_TIME);
    let (gets, sets) = requests(&world);
    assert_eq!(sets, before.1);
    assert!(gets > before.0);
}

/// The settings arrive under loss, with devices that reboot and a manager that is killed.
fn run(seed: u64) {
    let mut settings = settings("congestion-control", with_key(KEY));
    settings.seed = seed;
    let mut world = World::generated(TREE, settings);
    let mut dice = Dice::new(seed);
    for _ in 0..8 {
        world.schedule_loss(Duration::ZERO, Duration::from_secs(2), 0.2);
        let mut nodes: Vec<Guid> = world.nodes(NodeKind::Ca).split_off(1);
        nodes.extend(world.nodes(NodeKind::Switch));
        match dice.below(4) {
            0 => world.sim.reboot(dice.pick(&nodes)).unwrap(),
            1 => world.schedule_kill(Duration::ZERO, Duration::from_millis(300), Memory::Kept),
            _ => {}
        }
        world.run_for(dice.duration(Duration::from_micros(10), Duration::from_secs(3)));
    }
    // An agent that did not answer a request is asked again after some minutes.
    world.run_for(Duration::from_secs(600));
    world.settle(LIMIT * 5);
    world.run_for(SETTLE_TIME);
    expect::assert_up(&world);
    assert_set_or_silent(&world);
}

/// Asserts that every agent counts as set and holds the key, or counts as silent, because all its
/// answers were lost.
fn assert_set_or_silent(world: &World) {
    for key in end_ports(world) {
        let known = status(world, key);
        let is_fine = matches!(known, Some(AgentStatus::Set | AgentStatus::Silent));
        assert!(is_fine, "{key:?}: {known:?}");
        if known == Some(AgentStatus::Set) {
            assert_eq!(agent(world, key).key.cc_key(), KEY, "{key:?}");
        }
    }
}

#[test]
fn settings_arrive_under_loss() {
    let test = "--test system sim_congestion::settings_arrive_under_loss";
    seeds::run(test, 12, run);
}
