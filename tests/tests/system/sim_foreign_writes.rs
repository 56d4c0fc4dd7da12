//! Sets from other senders: switches without M_Keys accept them from any host, and light sweeps
//! find and repair the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_config::QosConfig;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    Attribute, GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKey, PKeyTable,
    PortInfo, PortPhysicalState, PortState, SlToVlMapping, SwitchInfo,
};
use rsm_model::alias_guids::AliasGuids;
use rsm_model::findings::{Finding, FindingKind, Subject};
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_plan::policy::Policy;
use rsm_plan::qos::Qos;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Devices;
use rsm_state::Command;
use rsm_tests::virtual_time::{Settings, World, expect, partitions};

use crate::sim_multicast::{assert_delivered, hosts, join};

const LIMIT: Duration = Duration::from_secs(60);

/// The time between two light sweeps.
const LIGHT_SWEEP_INTERVAL: Duration = Duration::from_secs(10);

const TREE: &str = "fat-tree:k=4,levels=3";

const MLID: Lid = Lid(0xC001);

/// A leaf switch with hosts.
fn leaf(world: &World) -> Guid {
    let (_, (host, port)) = hosts(world).pop().expect("there are hosts");
    world
        .sim
        .peer(host, port)
        .unwrap()
        .expect("it has a cable")
        .0
}

/// A port of a switch with a cable to another switch.
fn uplink(world: &World, switch: Guid) -> PortNum {
    let ports = world.sim.num_ports(switch).unwrap();
    let mut ports = (1..=ports).map(PortNum);
    let leads_to_switch = |&port: &PortNum| {
        let far = world.sim.peer(switch, port).unwrap();
        far.is_some_and(|(node, _)| world.sim.switch_info(node).is_ok())
    };
    ports
        .find(leads_to_switch)
        .expect("it has a cable to a switch")
}

/// The default policy, with tables for quality of service.
fn with_quality_of_service() -> Arc<Policy> {
    let qos = QosConfig {
        enabled: true,
        ..QosConfig::default()
    };
    Arc::new(Policy {
        qos: Qos::of(&qos, 5).map(Arc::new),
        ..Policy::default()
    })
}

/// Runs through light sweeps, which begin shortly before the end of each interval.
fn light_sweeps(world: &mut World, count: u32) {
    world.run_for(LIGHT_SWEEP_INTERVAL * count + Duration::from_millis(500));
}

fn all_findings(world: &World) -> Vec<Finding> {
    world
        .manager()
        .core()
        .snapshot(world.now())
        .findings
        .to_vec()
}

/// The findings about foreign Sets.
fn findings(world: &World) -> Vec<Finding> {
    let findings = all_findings(world).into_iter();
    let about = findings.filter(|finding| finding.kind.code() == "foreign-write");
    about.collect()
}

/// The only finding about foreign Sets.
fn finding(world: &World) -> Finding {
    let all = all_findings(world);
    let [finding] = &findings(world)[..] else {
        panic!("one finding: {all:?}");
    };
    finding.clone()
}

/// Block 0 of the forwarding table of a switch, with all entries from `from` on changed to `port`.
fn all_to(world: &World, switch: Guid, from: usize, port: u8) -> LinearForwardingTable {
    let mut entries: [u8; 64] = std::array::from_fn(|lid| world.sim.lft(switch).unwrap()[lid]);
    for entry in entries[from..].iter_mut().filter(|entry| **entry != 255) {
        *entry = port;
    }
    let mut block = LinearForwardingTable::default();
    *block.ports_mut() = entries;
    block
}

/// Sets block 0 of a leaf's forwarding table so that the leaf forwards nothing to its hosts.
fn forge_table(world: &mut World, switch: Guid) {
    let block = all_to(world, switch, 1, 255);
    world.forge(switch, LinearForwardingTable::ID, 0, block.as_data());
    assert_eq!(world.sim.lft(switch).unwrap()[1], 255);
}

/// Sets changed fields of SwitchInfo from another program.
fn forge_switch_info(world: &mut World, switch: Guid, change: impl FnOnce(&mut SwitchInfo)) {
    let mut info = *world.sim.switch_info(switch).unwrap();
    change(&mut info);
    world.forge(switch, SwitchInfo::ID, 0, info.as_data());
}

/// Sets fields of PortInfo, without a change of the port's state unless `change` makes one.
fn forge_port(
    world: &mut World,
    (node, port): (Guid, PortNum),
    change: impl FnOnce(&mut PortInfo),
) {
    let mut info = *world.sim.port_info(node, port).unwrap();
    info.set_port_state(PortState::NoChange);
    info.set_port_physical_state(PortPhysicalState::NoChange);
    change(&mut info);
    world.forge(node, PortInfo::ID, u32::from(port.0), info.as_data());
}

#[test]
fn a_forged_block_of_a_forwarding_table_is_found_and_repaired_within_two_light_sweeps() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    let before = world.sim.lft(switch).unwrap().to_vec();
    forge_table(&mut world, switch);
    light_sweeps(&mut world, 2);
    assert_eq!(world.sim.lft(switch).unwrap(), before);
    expect::assert_up(&world);
    let finding = finding(&world);
    assert_eq!(finding.subject, Subject::Node(switch));
    let says = |part: &str| assert!(finding.text.contains(part), "{}", finding.text);
    says("forwarding table");
    says("M_Key");
}

#[test]
fn a_forged_linear_fdb_top_is_found_and_repaired_within_two_light_sweeps() {
    for top in [3, 0, 200] {
        let mut world = World::brought_up(TREE, Settings::default());
        let switch = leaf(&world);
        let (before, planned) = (
            world.sim.lft(switch).unwrap().to_vec(),
            world.sim.switch_info(switch).unwrap().linear_fdb_top(),
        );
        forge_switch_info(&mut world, switch, |info| {
            info.set_linear_fdb_top(Lid(top));
        });
        light_sweeps(&mut world, 2);
        let info = world.sim.switch_info(switch).unwrap();
        assert_eq!(info.linear_fdb_top(), planned);
        assert_eq!(world.sim.lft(switch).unwrap(), before);
        expect::assert_up(&world);
        let finding = finding(&world);
        assert_eq!(finding.subject, Subject::Node(switch));
        assert!(finding.text.contains("LinearFDBTop"), "{}", finding.text);
    }
}

#[test]
fn a_forged_block_of_a_multicast_table_is_found_and_repaired_within_two_light_sweeps() {
    let mut world = World::brought_up(TREE, Settings::default());
    let members = hosts(&world);
    join(&mut world, MLID, &members);
    world.settle(LIMIT);
    assert_delivered(&world);
    let switch = leaf(&world);
    let nothing = MulticastForwardingTable::default();
    world.forge(switch, MulticastForwardingTable::ID, 0, nothing.as_data());
    light_sweeps(&mut world, 2);
    assert_delivered(&world);
    let finding = finding(&world);
    assert_eq!(finding.subject, Subject::Node(switch));
    assert!(finding.text.contains("multicast"), "{}", finding.text);
}

#[test]
fn a_forged_multicast_fdb_top_is_found_and_repaired_within_two_light_sweeps() {
    let mut world = World::brought_up(TREE, Settings::default());
    let members = hosts(&world);
    join(&mut world, MLID, &members);
    world.settle(LIMIT);
    let switch = leaf(&world);
    forge_switch_info(&mut world, switch, |info| {
        info.set_multicast_fdb_top(Lid(0xBFFF));
    });
    light_sweeps(&mut world, 2);
    assert_delivered(&world);
    let finding = finding(&world);
    assert!(finding.text.contains("MulticastFDBTop"), "{}", finding.text);
}

/// Other hosts send to the LID that the manager gave, so a host with a forged LID gets no packets.
/// A host that takes the LID of another host would get the packets of that host.
#[test]
fn a_forged_lid_of_a_host_is_found_and_repaired_within_two_light_sweeps() {
    let mut world = World::brought_up(TREE, Settings::default());
    let hosts = hosts(&world);
    let (victim, attacker) = (hosts[1].1, hosts[hosts.len() - 1].1);
    let lid = |world: &World, at: (Guid, PortNum)| world.sim.port_info(at.0, at.1).unwrap().lid();
    let (of_victim, of_attacker) = (lid(&world, victim), lid(&world, attacker));
    for (at, forged) in [(victim, Lid(of_victim.0 + 100)), (attacker, of_victim)] {
        forge_port(&mut world, at, |info| {
            info.set_lid(forged);
        });
        light_sweeps(&mut world, 2);
        let now = [victim, attacker].map(|at| lid(&world, at));
        assert_eq!(now, [of_victim, of_attacker]);
        expect::assert_up(&world);
        let about = findings(&world).into_iter();
        let mut about = about.filter(|finding| finding.subject == Subject::Node(at.0));
        let finding = about.next().expect("its node is named");
        assert!(finding.text.contains("port 1 (LID)"), "{}", finding.text);
    }
}

#[test]
fn forged_service_levels_and_guids_of_a_host_are_found_and_repaired_within_two_light_sweeps() {
    let mut settings = Settings::default();
    settings.core.policy = with_quality_of_service();
    let mut world = World::brought_up(TREE, settings);
    let (_, host) = hosts(&world).pop().expect("there are hosts");
    let port = world.sim.port_guid(host.0, host.1).expect("it is there");
    let mut guids = AliasGuids::default();
    guids
        .by_port
        .insert(port, BTreeMap::from([(1, Guid(0x11))]));
    world.set_alias_guids(guids);
    world.settle(LIMIT);
    let mut guids = [0; 64];
    guids[8..16].fill(0xBA);
    world.forge(host.0, GuidInfo::ID, 0, &guids);
    let mut lanes = [0; 64];
    lanes[..8].fill(0x11);
    let before = world.sim.virtual_lanes(host.0, PortNum(0), host.1).unwrap();
    world.forge(host.0, SlToVlMapping::ID, 0, &lanes);
    assert_ne!(
        world.sim.virtual_lanes(host.0, PortNum(0), host.1).unwrap(),
        before
    );
    light_sweeps(&mut world, 2);
    assert_eq!(world.sim.guids(host.0, host.1).unwrap()[1], Guid(0x11));
    assert_eq!(
        world.sim.virtual_lanes(host.0, PortNum(0), host.1).unwrap(),
        before
    );
    let finding = finding(&world);
    for part in ["GUIDInfo of port 1", "SLtoVLMappingTable of port 1"] {
        assert!(finding.text.contains(part), "{}", finding.text);
    }
}

#[test]
fn a_forged_setting_of_a_port_is_found_and_repaired_within_two_light_sweeps() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    let port = uplink(&world, switch);
    let before = world.sim.port_info(switch, port).unwrap().hoq_life();
    forge_port(&mut world, (switch, port), |info| {
        info.set_hoq_life(1);
    });
    assert_ne!(
        world.sim.port_info(switch, port).unwrap().hoq_life(),
        before
    );
    light_sweeps(&mut world, 2);
    let now = world.sim.port_info(switch, port).unwrap();
    assert_eq!(now.hoq_life(), before);
    expect::assert_up(&world);
    let finding = finding(&world);
    assert_eq!(finding.subject, Subject::Node(switch));
    assert!(finding.text.contains("HOQLife"), "{}", finding.text);
}

/// The forged tables let a host enter another partition, and let its switch pass the packets.
#[test]
fn forged_p_keys_of_hosts_and_switches_are_found_and_repaired_within_six_light_sweeps() {
    let policy = partitions::policy("Default=0x7fff : ALL=full;\nblue=0x8001 : ALL=full;\n");
    let mut settings = Settings::default();
    settings.core.policy = policy;
    let mut world = World::brought_up(TREE, settings);
    let (_, host) = hosts(&world).pop().expect("there are hosts");
    let (switch, port) = world.sim.peer(host.0, host.1).unwrap().expect("a cable");
    for (at, modifier) in [(host, 0), ((switch, port), u32::from(port.0) << 16)] {
        let before = partitions::held(&world.sim, at);
        let mut table = PKeyTable::default();
        let mut keys = [PKey::INVALID; PKeyTable::ENTRIES];
        keys[..2].copy_from_slice(&[PKey(0xFFFF), PKey(0x9999)]);
        table.set_p_keys(keys);
        world.forge(at.0, PKeyTable::ID, modifier, table.as_data());
        assert_ne!(partitions::held(&world.sim, at), before);
        light_sweeps(&mut world, 6);
        assert_eq!(partitions::held(&world.sim, at), before);
        let about = findings(&world).into_iter();
        let finding = about.filter(|finding| finding.subject == Subject::Node(at.0));
        let texts: Vec<String> = finding.map(|finding| finding.text).collect();
        let named = format!("P_KeyTable of port {} block 0", at.1);
        assert!(texts.iter().any(|text| text.contains(&named)), "{texts:?}");
    }
    expect::assert_up(&world);
}

/// rsm does not enable the port, because operators disable ports in the same way (`ibportstate`).
#[test]
fn a_port_disabled_by_a_forged_set_is_routed_around_and_named() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    let near = uplink(&world, switch);
    forge_port(&mut world, (switch, near), |info| {
        info.set_port_physical_state(PortPhysicalState::Disabled);
    });
    light_sweeps(&mut world, 2);
    expect::assert_up(&world);
    let findings = all_findings(&world);
    let about = |finding: &&Finding| finding.kind == FindingKind::CableMissing;
    let finding = findings.iter().find(about).expect("the cable is missing");
    assert!(finding.text.contains("disabled"), "{}", finding.text);
    let info = world.sim.port_info(switch, near).unwrap();
    assert_eq!(info.port_physical_state(), PortPhysicalState::Disabled);
}

/// The table has four blocks, three of which are forged. On a fabric of this size, each light sweep
/// reads all blocks of a switch.
#[test]
fn several_forged_blocks_of_a_forwarding_table_are_repaired_within_two_light_sweeps() {
    let settings = Settings::default();
    let mut world = World::brought_up("fat-tree:k=8,levels=3", settings);
    let switch = leaf(&world);
    let before = world.sim.lft(switch).unwrap().to_vec();
    let top = world.sim.switch_info(switch).unwrap().linear_fdb_top();
    let blocks = top.index() / 64 + 1;
    for block in 1..blocks {
        let nothing = LinearForwardingTable::default();
        world.forge(
            switch,
            LinearForwardingTable::ID,
            block as u32,
            nothing.as_data(),
        );
    }
    light_sweeps(&mut world, 2);
    assert_eq!(world.sim.lft(switch).unwrap(), before);
    assert_eq!(finding(&world).subject, Subject::Node(switch));
}

#[test]
fn repeated_forged_sets_are_repaired_at_a_limited_rate() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    let before = world.sim.sets_at(switch).unwrap();
    for _ in 0..600 {
        forge_table(&mut world, switch);
        world.run_for(Duration::from_secs(1));
    }
    let sets = world.sim.sets_at(switch).unwrap() - before - 600;
    assert!((8..=30).contains(&sets), "{sets} Sets answer 600");
    let said = finding(&world).text;
    // Other nodes are served, and the switch as well once the attacker stops.
    world.run_for(Duration::from_secs(75));
    expect::assert_up(&world);
    let sets = world.manager().sets();
    light_sweeps(&mut world, 20);
    assert_eq!(world.manager().sets(), sets, "{said}");
}

#[test]
fn the_finding_disappears_an_hour_after_the_last_difference() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    forge_table(&mut world, switch);
    world.run_for(Duration::from_secs(3500));
    assert_eq!(findings(&world).len(), 1);
    world.run_for(Duration::from_secs(200));
    expect::assert_no_findings(&world);
}

/// A reset switch has lost its tables as well, although no other host wrote them.
#[test]
fn a_reset_switch_causes_no_finding_about_foreign_sets() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    world.sim.reboot(switch).unwrap();
    world.run_for(Duration::from_secs(60));
    expect::assert_up(&world);
    assert_eq!(findings(&world), []);
}

#[test]
fn lost_answers_to_read_back_queries_cause_no_finding_and_no_set() {
    let mut world = World::brought_up(TREE, Settings::default());
    for attribute in [
        LinearForwardingTable::ID,
        MulticastForwardingTable::ID,
        PortInfo::ID,
    ] {
        world.sim.set_attribute_loss(attribute, 1.0).unwrap();
    }
    let sets = world.manager().sets();
    light_sweeps(&mut world, 30);
    expect::assert_no_findings(&world);
    assert_eq!(world.manager().sets(), sets);
}

/// A fault happens while a light sweep waits for the answers of a silent host.
#[test]
fn the_repair_of_a_fault_does_not_wait_for_lost_answers_to_read_back_queries() {
    let mut world = World::brought_up(TREE, Settings::default());
    let (_, (silent, _)) = hosts(&world).pop().expect("there are hosts");
    let switch = leaf(&world);
    let spine = uplink(&world, switch);
    world.sim.set_node_loss(silent, 1.0).unwrap();
    let mut since = world.manager().gets();
    while world.manager().gets() == since {
        world.run_for(Duration::from_millis(1));
        since = since.min(world.manager().gets());
    }
    world.run_for(Duration::from_millis(20));
    world.sim.unlink(switch, spine).unwrap();
    world.run_for(Duration::from_millis(200));
    expect::assert_up_without(&world, &[silent]);
}

#[test]
fn a_standby_reads_nothing_back_and_repairs_nothing() {
    let mut world = World::brought_up(TREE, Settings::default());
    let last = *world.nodes(NodeKind::Ca).last().expect("there are hosts");
    let standby = world.add_manager(last, PortNum(1));
    world.settle(LIMIT);
    let switch = leaf(&world);
    let sets = world.managers()[standby].sets();
    forge_table(&mut world, switch);
    light_sweeps(&mut world, 2);
    assert_eq!(world.managers()[standby].sets(), sets);
    assert_ne!(world.sim.lft(switch).unwrap()[1], 255);
}

#[test]
fn quiet_light_sweeps_set_nothing_and_find_nothing() {
    let mut world = World::brought_up(TREE, Settings::default());
    let members = hosts(&world);
    join(&mut world, MLID, &members);
    world.settle(LIMIT);
    let (sets, convergences) = (
        world.manager().sets(),
        world.manager().core().history().count(),
    );
    light_sweeps(&mut world, 1_000);
    assert_eq!(world.manager().sets(), sets);
    assert_eq!(world.manager().core().history().count(), convergences);
    expect::assert_no_findings(&world);
}

/// Each device has habits. Even seeds also configure tables for quality of service.
#[test]
fn quiet_light_sweeps_on_devices_with_habits_set_nothing_and_find_nothing() {
    for seed in 1..=4 {
        let mut settings = Settings {
            seed,
            ..Settings::default()
        };
        settings.sim.devices = Devices::Mixed(seed);
        if seed % 2 == 0 {
            settings.core.policy = with_quality_of_service();
        }
        let mut world = World::generated(TREE, settings);
        world.settle(Duration::from_secs(600));
        let members = hosts(&world);
        join(&mut world, MLID, &members);
        world.run_for(Duration::from_secs(300));
        let (sets, known) = (world.manager().sets(), codes(&world));
        light_sweeps(&mut world, 1_000);
        assert_eq!(world.manager().sets(), sets, "seed {seed}");
        assert_eq!(codes(&world), known, "seed {seed}");
    }
}

fn codes(world: &World) -> BTreeSet<&'static str> {
    let findings = all_findings(world);
    findings.iter().map(|finding| finding.kind.code()).collect()
}

/// Cables flap so often that reports wait at the end of every pass.
#[test]
fn forged_table_is_repaired_and_a_drain_completes_while_cables_flap() {
    let interval = Duration::from_secs(1);
    let mut settings = Settings::default();
    settings.core.damping.threshold = 0;
    settings.planning_time = Duration::from_millis(100);
    settings.core.light_sweep = interval;
    let mut world = World::brought_up(TREE, settings);
    let forged = leaf(&world);
    let quiet = |world: &World, switch: Guid, port: u8| {
        let far = world.sim.peer(switch, PortNum(port)).unwrap();
        far.is_none_or(|(far, _)| far == forged || world.sim.switch_info(far).is_err())
    };
    let mut cables = Vec::new();
    for switch in world.nodes(NodeKind::Switch) {
        let ports = 1..=world.sim.num_ports(switch).unwrap();
        let mut ports = ports.filter(|&port| switch != forged && !quiet(&world, switch, port));
        cables.extend(ports.next().map(|port| (switch, PortNum(port))));
    }
    cables.truncate(10);
    let half = Duration::from_millis(40);
    for turn in 0..800 {
        let (switch, port) = cables[turn as usize % cables.len()];
        world.schedule(half * turn / 5, move |world| {
            world.sim.unlink(switch, port).unwrap();
        });
        world.schedule(half * turn / 5 + half, move |world| {
            world.sim.relink(switch, port).unwrap();
        });
    }
    world.run_for(Duration::from_millis(200));
    forge_table(&mut world, forged);
    let reason = Reason::Drained(Drained {
        forced: true,
        ..Drained::new("alice", 0)
    });
    let drained = NodeOrCable::Port(PortKey::new(forged, uplink(&world, forged)));
    world.command(Command::Drain {
        parts: BTreeMap::from([(drained, reason)]),
        forced: true,
        ticket: 7,
    });
    world.run_for(5 * interval);
    assert_ne!(world.sim.lft(forged).unwrap()[1], 255, "it is repaired");
    assert_eq!(world.manager().done().back(), Some(&7));
    world.settle(LIMIT);
    expect::assert_up(&world);
}
