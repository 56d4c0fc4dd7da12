//! Adaptive routing: rsm writes groups and entries to switches, and simulated packets test them
//! while switches make the worst choices. Some runs add faults, or switches that do not accept the
//! tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_config::AdaptiveRouting;
use rsm_core::Event;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{
    ArGroupTable, ArInfo, ArLinearForwardingTable, Attribute, ExtendedPortInfo,
    LinearForwardingTable,
};
use rsm_mad::wire::header::Method;
use rsm_plan::Plan;
use rsm_plan::adaptive::{ALL_SLS, Adaptive, AdaptivePolicy};
use rsm_routing::adaptive::{AdaptiveTable, AdaptiveTables, NO_GROUP};
use rsm_routing::netlist::NodeKind;
use rsm_routing::tables::{Lft, Tables};
use rsm_routing::verify::{Held, verify_sets};
use rsm_sim::{Choices, Devices, Picks, Probe};
use rsm_state::Command;
use rsm_tests::virtual_time::{Dice, Memory, Settings, World, expect, seeds};

use crate::sim_seeds::{Hardware, schedule_fault};

const LIMIT: Duration = Duration::from_secs(120);
/// A fabric of Quantum-2 switches and ConnectX-7 adapters.
const TREE: &str = "fat-tree:k=8,levels=2,speed=ndr";
pub(crate) const DEEP: &str = "fat-tree:k=4,levels=3,speed=ndr";
pub(crate) const DEVICES: &str = "general-info+adaptive-routing";
/// The device ID of Quantum-2.
const DEVICE: u16 = 0xD2F2;
const SECOND: Duration = Duration::from_secs(1);

/// Settings with adaptive routing at Quantum-2 switches on all service levels, on these devices.
pub(crate) fn settings(mode: AdaptiveRouting, devices: &str) -> Settings {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::parse(devices).unwrap();
    set_policy(&mut settings, mode, ALL_SLS);
    settings
}

/// Sets the mode of adaptive routing, and the mask of service levels on which packets have a
/// choice.
fn set_policy(settings: &mut Settings, mode: AdaptiveRouting, sls: u16) {
    let policy = Arc::make_mut(&mut settings.core.policy);
    policy.adaptive = AdaptivePolicy {
        mode,
        sls,
        devices: BTreeSet::from([DEVICE]),
    };
    settings.core.asks_capabilities = mode != AdaptiveRouting::Off;
}

pub(crate) fn brought_up_with(spec: &str, settings: Settings) -> World {
    let mut world = World::generated(spec, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

fn brought_up(spec: &str) -> World {
    brought_up_with(spec, settings(AdaptiveRouting::On, DEVICES))
}

fn switches(world: &World) -> Vec<Guid> {
    world.nodes(NodeKind::Switch)
}

pub(crate) fn plan(world: &World) -> Arc<Plan> {
    world.manager().core().plan().expect("planned").clone()
}

pub(crate) fn adaptive(plan: &Plan) -> &Adaptive {
    plan.adaptive.as_deref().expect("it routes adaptively")
}

fn lids_of_hosts(world: &World) -> Vec<((Guid, PortNum), Lid)> {
    let reach = expect::reach(world, &[]);
    let hosts = reach.lids(&world.sim).into_iter();
    let hosts = hosts.filter(|(_, port)| port.1 != PortNum::ZERO);
    hosts.map(|(lid, port)| (port, lid)).collect()
}

/// The outcomes of a packet from each host to each other host on service level `sl`.
fn choices(world: &World, sl: u8, picks: Picks) -> Vec<Choices> {
    let hosts = lids_of_hosts(world);
    let mut all = Vec::new();
    for &(source, own) in &hosts {
        for &(_, lid) in hosts.iter().filter(|&&(_, lid)| lid != own) {
            all.push(world.sim.probe_choices(source, lid, sl, picks).unwrap());
        }
    }
    all
}

/// Asserts that every pair of hosts is reached whatever the switches choose, in no more hops than
/// promised.
pub(crate) fn assert_delivers(world: &World, sl: u8, picks: Picks) {
    let plan = plan(world);
    // The links of the two hosts do not count as hops of the proof.
    let promised = plan
        .adaptive
        .as_ref()
        .map(|adaptive| adaptive.report.max_hops + 2);
    for outcome in choices(world, sl, picks) {
        let Probe::Delivered { hops, .. } = outcome.probe else {
            panic!(
                "{picks:?}, SL {sl}: {outcome:?}; {:?}",
                world.manager().findings()
            );
        };
        assert!(
            promised.is_none_or(|promised| hops <= promised),
            "{outcome:?}"
        );
    }
}

/// The switches' tables in force, in the order of the plan's topology.
pub(crate) fn held(world: &World, plan: &Plan) -> (Tables, AdaptiveTables) {
    let (mut tables, mut groups) = (Tables::default(), AdaptiveTables::default());
    for switch in plan.topology.switches() {
        let (mut lft, mut table) = (Lft::default(), AdaptiveTable::default());
        let routes_adaptively = world.sim.ar_info(switch.guid).unwrap();
        let routes_adaptively = routes_adaptively.is_some_and(|info| info.uses_groups());
        let linear = world.sim.lft(switch.guid).unwrap();
        for lid in (0..=plan.top().0).map(Lid) {
            let (port, group) = world.sim.ar_entry(switch.guid, lid).unwrap();
            match routes_adaptively {
                true => {
                    lft.set_entry(lid, port.0);
                    table.set_entry(lid, group);
                }
                false => lft.set_entry(lid, linear.get(lid.index()).copied().unwrap_or(255)),
            }
        }
        if routes_adaptively {
            for group in 1..=512 {
                let ports = world.sim.ar_group(switch.guid, group).unwrap();
                table.set_group(group, ports.into_iter().collect());
            }
        }
        tables.lfts.push(lft);
        groups.switches.push(table);
    }
    (tables, groups)
}

/// Asserts that every switch of the plan forwards by the planned groups and entries, beside the
/// planned forwarding table, and that the tables held have no loop and no credit loop.
pub(crate) fn assert_as_planned(world: &World) {
    let plan = plan(world);
    let adaptive = adaptive(&plan);
    for &guid in &adaptive.switches {
        let info = world.sim.ar_info(guid).unwrap().expect("it has ARInfo");
        assert!(info.enabled(), "{guid}: {:?}", world.manager().findings());
        let table = adaptive.table(&plan, guid).unwrap();
        let lft = plan.table(guid).unwrap();
        for group in 0..=adaptive.group_top {
            let held = world.sim.ar_group(guid, group).unwrap();
            let wanted: Vec<PortNum> = table.group(group).ports().collect();
            assert_eq!(held, wanted, "{guid} group {group}");
        }
        let linear = world.sim.lft(guid).unwrap();
        for lid in (1..=plan.top().0).map(Lid) {
            let entry = world.sim.ar_entry(guid, lid).unwrap();
            assert_eq!(
                entry,
                (PortNum(lft.entry(lid)), table.group_of(lid)),
                "{guid} {lid}"
            );
            assert_eq!(linear[lid.index()], lft.entry(lid), "{guid} {lid}");
        }
    }
    let (tables, groups) = held(world, &plan);
    let report = verify_sets(
        &plan.topology,
        Held {
            tables: &tables,
            adaptive: &groups,
        },
    );
    assert!(report.is_sound(), "{:?}", report.witnesses);
}

fn sets_of<A: Attribute>(world: &World) -> u64 {
    let nodes = world.requests().nodes(Method::SET, A::ID);
    let counts = nodes
        .iter()
        .map(|&node| world.requests().of(node, Method::SET, A::ID));
    counts.sum()
}

/// The ports of each group that switches hold, by switch and number of the group.
fn groups(world: &World) -> BTreeMap<(Guid, u16), Vec<PortNum>> {
    let top = adaptive(&plan(world)).group_top;
    let mut all = BTreeMap::new();
    for guid in switches(world) {
        for group in 1..=top {
            let ports = world.sim.ar_group(guid, group).unwrap();
            all.insert((guid, group), ports);
        }
    }
    all
}

/// A leaf with one of its uplinks.
fn uplink(world: &World) -> (Guid, PortNum) {
    let (leaf, ports) = uplinks(world);
    (leaf, ports[0])
}

/// The leaf of the last host, with its uplinks.
pub(crate) fn uplinks(world: &World) -> (Guid, Vec<PortNum>) {
    let host = *world.nodes(NodeKind::Ca).last().expect("there are hosts");
    let (leaf, _) = world.sim.peer(host, PortNum(1)).unwrap().unwrap();
    let ports = (1..=world.sim.num_ports(leaf).unwrap()).map(PortNum);
    let up = ports.filter(|&port| {
        let peer = world.sim.peer(leaf, port).unwrap();
        peer.is_some_and(|(peer, _)| world.sim.switch_info(peer).is_ok())
    });
    (leaf, up.collect())
}

#[test]
fn bring_up_writes_the_plan_and_a_restart_writes_nothing() {
    for spec in [TREE, DEEP] {
        let mut world = brought_up(spec);
        expect::assert_no_findings(&world);
        assert_as_planned(&world);
        assert_delivers(&world, 0, Picks::Worst);
        let free = choices(&world, 0, Picks::Worst);
        let free = free.iter().filter(|outcome| outcome.free > 0).count();
        assert!(free > 0, "switches have a choice");
        let before = adaptive(&plan(&world)).ids.clone();
        for memory in [Memory::Kept, Memory::Lost] {
            world.kill(0);
            world.run_for(SECOND);
            world.count_requests();
            world.start(0, memory);
            world.settle(LIMIT);
            assert_eq!(world.requests().count(Method::SET), 0, "{spec}, {memory:?}");
            assert_eq!(adaptive(&plan(&world)).ids, before);
            expect::assert_no_findings(&world);
            assert_as_planned(&world);
        }
    }
}

#[test]
fn groups_keep_their_numbers_after_a_restart_while_a_leaf_is_off() {
    let mut world = brought_up(TREE);
    let before = adaptive(&plan(&world)).ids.clone();
    let (leaf, _) = uplink(&world);
    world.sim.power_off(leaf).unwrap();
    world.run_for(SECOND);
    world.settle(LIMIT);
    world.kill(0);
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    let without = adaptive(&plan(&world)).ids.clone();
    assert_eq!(without, before, "the group of the absent leaf is kept");
    world.sim.power_on(leaf).unwrap();
    world.run_for(5 * SECOND);
    world.settle(LIMIT);
    assert_eq!(adaptive(&plan(&world)).ids, before);
    assert_as_planned(&world);
    assert_delivers(&world, 0, Picks::Worst);
}

#[test]
fn lost_link_changes_only_groups_of_the_leaf_that_it_touches() {
    let mut world = brought_up(TREE);
    let before = groups(&world);
    let link = uplink(&world);
    let own = adaptive(&plan(&world)).ids.group_of(link.0).unwrap();
    world.count_requests();
    world.sim.unlink(link.0, link.1).unwrap();
    world.run_for(SECOND);
    world.settle(LIMIT);
    assert_as_planned(&world);
    assert_delivers(&world, 0, Picks::Worst);
    let after = groups(&world);
    for (&(guid, group), ports) in &before {
        if after[&(guid, group)] != *ports {
            assert!(guid == link.0 || group == own, "{guid} group {group}");
        }
    }
    let blocks = sets_of::<ArGroupTable>(&world);
    let switches = switches(&world).len() as u64;
    // One block is written at each switch, and all groups at the leaf.
    assert!(blocks <= switches + 8, "{blocks} blocks of groups");
    world.sim.relink(link.0, link.1).unwrap();
    world.run_for(SECOND);
    world.settle(LIMIT);
    assert_eq!(groups(&world), before);
    assert_as_planned(&world);
}

#[test]
fn rebooted_switch_gets_its_tables_again() {
    for spec in [TREE, DEEP] {
        let mut world = brought_up(spec);
        for guid in switches(&world) {
            world.sim.reboot(guid).unwrap();
            world.run_for(6 * SECOND);
            world.settle(LIMIT);
            assert_as_planned(&world);
        }
        expect::assert_up(&world);
        assert_delivers(&world, 0, Picks::Worst);
        expect::assert_no_findings(&world);
    }
}

#[test]
fn with_adaptive_routing_off_capable_switches_get_no_additional_request() {
    let cost = |devices: &str| {
        let mut world = World::generated(TREE, settings(AdaptiveRouting::Off, devices));
        world.count_requests();
        world.settle(LIMIT);
        let (leaf, port) = uplink(&world);
        world.sim.unlink(leaf, port).unwrap();
        world.run_for(SECOND);
        world.settle(LIMIT);
        world.command(Command::Resweep {
            full: true,
            ticket: 0,
        });
        world.run_for(60 * SECOND);
        world.settle(LIMIT);
        let requests = world.requests();
        (requests.count(Method::GET), requests.count(Method::SET))
    };
    assert_eq!(cost(DEVICES), cost("general-info"));
}

#[test]
fn reload_that_turns_adaptive_routing_off_sends_each_switch_one_ar_info() {
    let mut world = brought_up(TREE);
    let mut off = settings(AdaptiveRouting::Off, DEVICES);
    off.core.asks_capabilities = true;
    world.count_requests();
    world.event(Event::Reload(Box::new(off.core)));
    world.settle(LIMIT);
    for guid in switches(&world) {
        assert!(!world.sim.routes_adaptively(guid).unwrap());
        assert_eq!(world.requests().of(guid, Method::SET, ArInfo::ID), 1);
    }
    assert_eq!(sets_of::<LinearForwardingTable>(&world), 0);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    let on = settings(AdaptiveRouting::On, DEVICES);
    world.event(Event::Reload(Box::new(on.core)));
    world.settle(LIMIT);
    assert_as_planned(&world);
}

/// The second manager starts without memory after the death of the first.
#[test]
fn manager_with_adaptive_routing_off_disables_adaptive_routing_of_its_predecessor() {
    let mut world = brought_up(TREE);
    let hosts = lids_of_hosts(&world);
    world.kill(0);
    let off = settings(AdaptiveRouting::Off, DEVICES);
    let (guid, port) = hosts[5].0;
    world.add_manager_with(guid, port, off.core);
    world.run_for(10 * SECOND);
    world.settle(LIMIT);
    for guid in switches(&world) {
        assert!(!world.sim.routes_adaptively(guid).unwrap());
    }
    for &(source, own) in &hosts {
        for &(_, lid) in hosts.iter().filter(|&&(_, lid)| lid != own) {
            assert!(world.sim.probe(source, lid, 0).unwrap().is_delivered());
        }
    }
}

#[test]
fn switches_that_do_not_accept_adaptive_tables_forward_by_their_linear_tables() {
    for habit in [
        "refuses-adaptive-tables",
        "deaf-to-adaptive-tables",
        "ignores-adaptive-blocks",
    ] {
        let devices = format!("{DEVICES}+{habit}");
        let mut world = World::generated(TREE, settings(AdaptiveRouting::On, &devices));
        world.count_requests();
        world.settle(LIMIT);
        world.run_for(120 * SECOND);
        world.settle(LIMIT);
        expect::assert_up(&world);
        for guid in switches(&world) {
            assert!(!world.sim.routes_adaptively(guid).unwrap(), "{habit}");
        }
        let codes: BTreeSet<&str> = world
            .manager()
            .findings()
            .iter()
            .map(|(code, _)| *code)
            .collect();
        let expected = BTreeSet::from(["adaptive-unused", "device-habit"]);
        assert_eq!(codes, expected, "{habit}");
        let requests = world.requests();
        let tried = requests.nodes(Method::SET, ArGroupTable::ID);
        assert_eq!(tried.len(), 1, "{habit}: one switch is tried");
        world.count_requests();
        world.command(Command::Resweep {
            full: true,
            ticket: 0,
        });
        world.settle(LIMIT);
        assert_eq!(
            sets_of::<ArGroupTable>(&world),
            0,
            "{habit}: it is remembered"
        );
        assert_eq!(sets_of::<ArLinearForwardingTable>(&world), 0);
    }
}

#[test]
fn device_types_that_are_not_listed_get_no_adaptive_tables() {
    let mut settings = settings(AdaptiveRouting::On, DEVICES);
    let policy = Arc::make_mut(&mut settings.core.policy);
    policy.adaptive.devices = BTreeSet::from([0xD2F0]);
    let mut world = World::generated(TREE, settings);
    world.count_requests();
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(
        sets_of::<ArInfo>(&world) + sets_of::<ArGroupTable>(&world),
        0
    );
    let findings = world.manager().findings();
    assert!(
        findings.iter().all(|(code, _)| *code == "adaptive-unused"),
        "{findings:?}"
    );
    assert_eq!(
        findings.len(),
        2,
        "the type, and that no switch is left: {findings:?}"
    );
}

#[test]
fn only_packets_on_configured_service_levels_are_routed_adaptively() {
    let mut settings = settings(AdaptiveRouting::On, DEVICES);
    set_policy(&mut settings, AdaptiveRouting::On, 0b10);
    let world = brought_up_with(TREE, settings);
    let free = |sl| {
        let all = choices(&world, sl, Picks::Worst);
        all.iter().filter(|outcome| outcome.free > 0).count()
    };
    assert_eq!(free(0), 0);
    assert!(free(1) > 0);
    assert_delivers(&world, 0, Picks::Worst);
    assert_delivers(&world, 1, Picks::Worst);
}

#[test]
fn hosts_that_need_order_are_reached_by_one_path() {
    let devices = format!("{DEVICES}+needs-order");
    let world = brought_up_with(TREE, settings(AdaptiveRouting::On, &devices));
    let all = choices(&world, 0, Picks::Worst);
    assert!(all.iter().all(|outcome| outcome.free == 0));
    let plan = plan(&world);
    let tables = &adaptive(&plan).tables.switches;
    let mut entries = tables.iter().flat_map(AdaptiveTable::entries);
    assert!(entries.all(|group| group == NO_GROUP));
}

/// The manager is dead when the link fails, so only the switch itself can avoid the link.
#[test]
fn with_fast_recovery_a_lost_uplink_loses_no_packet_upwards() {
    for (mode, is_safe) in [
        (AdaptiveRouting::FastRecovery, true),
        (AdaptiveRouting::On, false),
    ] {
        let mut world = brought_up_with(TREE, settings(mode, DEVICES));
        let hosts = lids_of_hosts(&world);
        let (leaf, port) = uplink(&world);
        world.kill(0);
        world.sim.unlink(leaf, port).unwrap();
        world.run_for(SECOND);
        let at_leaf = |host: Guid| world.sim.peer(host, PortNum(1)).unwrap().unwrap().0 == leaf;
        let mut lost = 0;
        for &(source, _) in hosts.iter().filter(|(source, _)| at_leaf(source.0)) {
            for &(_, lid) in hosts.iter().filter(|(host, _)| !at_leaf(host.0)) {
                let outcome = world.sim.probe_choices(source, lid, 0, Picks::Worst);
                lost += usize::from(!outcome.unwrap().probe.is_delivered());
            }
        }
        assert_eq!(lost == 0, is_safe, "{mode:?}: {lost} pairs are lost");
    }
}

const FABRICS: [&str; 4] = [
    "fat-tree:k=4,levels=2,speed=ndr",
    DEEP,
    "pgft:2;3,3;1,2;1,2,speed=ndr",
    "pgft:2;2,2;1,2;1,1,speed=ndr",
];

/// Random faults on a fabric whose switches make the worst choices: no packet loops at any observed
/// moment, and at the end every packet arrives.
fn run(seed: u64) {
    let mut dice = Dice::new(seed);
    let mode = dice.pick(&[AdaptiveRouting::On, AdaptiveRouting::FastRecovery]);
    let mut settings = settings(mode, DEVICES);
    settings.seed = seed;
    settings.planning_time = dice.duration(Duration::from_micros(10), SECOND / 20);
    settings.sim.reboot_time = dice.duration(Duration::from_micros(10), 2 * SECOND);
    settings.sim.link_training = dice.duration(Duration::from_micros(10), SECOND / 20);
    let mut world = World::generated(dice.pick(&FABRICS), settings);
    world.watch();
    let hardware = Hardware::of(&world);
    if dice.one_in(2) {
        world.settle(LIMIT);
    }
    let mut start = Duration::ZERO;
    for _ in 0..1 + dice.below(4) {
        for _ in 0..1 + dice.below(3) {
            let delay = start + dice.duration(Duration::from_micros(10), SECOND / 10);
            schedule_fault(&mut world, &hardware, delay, &mut dice);
        }
        for _ in 0..20 {
            let delay = start + dice.duration(Duration::from_micros(10), 3 * SECOND);
            world.schedule(delay, assert_no_loop);
        }
        start += dice.duration(SECOND / 100, 5 * SECOND);
    }
    world.run_for(start + 6 * SECOND);
    world.settle(5 * LIMIT);
    world.run_for(100 * SECOND);
    world.settle(5 * LIMIT);
    if world.watched().was_overtaken() {
        world.command(Command::Resweep {
            full: true,
            ticket: 1,
        });
        world.settle(5 * LIMIT);
    }
    expect::assert_up(&world);
    world.watched().assert_harmless();
    let mut findings = world.manager().findings();
    findings.retain(|(code, _)| *code != "lid-conflict");
    let snapshot = world.manager().snapshot().expect("it is up");
    assert_eq!(findings, Vec::new(), "{:?}", snapshot.findings);
    assert_as_planned(&world);
    assert_delivers(&world, 0, Picks::Worst);
    for picks in 0..4 {
        assert_delivers(&world, 0, Picks::Seeded(seed ^ picks));
    }
}

/// Asserts that no packet between hosts loops, whatever the switches choose at present.
pub(crate) fn assert_no_loop(world: &mut World) {
    let hosts: Vec<(Guid, PortNum)> = world
        .sim
        .end_ports()
        .filter(|&(_, port)| port != PortNum::ZERO)
        .collect();
    for &source in &hosts {
        for &(guid, port) in &hosts {
            let lid = world.sim.port_info(guid, port).unwrap().lid();
            if lid == Lid::NONE || (guid, port) == source {
                continue;
            }
            let outcome = world.sim.probe_choices(source, lid, 0, Picks::Worst);
            let outcome = outcome.expect("it is an end port");
            assert!(
                !matches!(outcome.probe, Probe::Loop { .. }),
                "at {:?} from {source:?} to {lid}: {outcome:?}",
                world.now()
            );
        }
    }
}

#[test]
fn packets_arrive_after_random_faults_whatever_switches_choose() {
    let test = "--test system sim_adaptive::packets_arrive";
    seeds::run(test, 50, run);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 500"]
fn soak_of_random_faults_with_adaptive_routing() {
    let count = seeds::number("RSM_SEEDS").unwrap_or(500);
    seeds::run(
        "--test system sim_adaptive::soak_of_random_faults_with_adaptive_routing -- --ignored",
        count,
        run,
    );
}

/// rsm writes to adapters that accept packets out of order the service levels on which such packets
/// may arrive, because libraries on the host read them. A restarted manager reads the levels back,
/// and a manager that turns adaptive routing off clears the levels that it wrote itself.
#[test]
fn adapters_get_the_service_levels_on_which_packets_may_arrive_out_of_order() {
    const LEVELS: u16 = 0b0110;
    let masks = |world: &World| -> BTreeSet<u16> {
        let hosts = world.nodes(NodeKind::Ca).into_iter();
        let ports = hosts.map(|host| world.sim.extended_port(host, PortNum(1)).unwrap().1);
        ports.collect()
    };
    let sets = |world: &World| {
        let requests = world.requests();
        let nodes = requests.nodes(Method::SET, ExtendedPortInfo::ID);
        let counts = nodes.iter();
        let counts = counts.map(|&node| requests.of(node, Method::SET, ExtendedPortInfo::ID));
        counts.sum::<u64>()
    };
    let with_levels = |mode, devices: &str| {
        let mut settings = settings(mode, devices);
        set_policy(&mut settings, mode, LEVELS);
        settings
    };
    let config = with_levels(AdaptiveRouting::On, DEVICES);
    let mut world = World::generated(TREE, config.clone());
    world.count_requests();
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(masks(&world), BTreeSet::from([LEVELS]));
    assert_eq!(sets(&world), world.nodes(NodeKind::Ca).len() as u64);
    world.kill(0);
    world.start(0, Memory::Lost);
    world.count_requests();
    world.settle(LIMIT);
    world.run_for(Duration::from_secs(60));
    assert_eq!(sets(&world), 0);
    world.event(Event::Reload(Box::new(Settings::default().core)));
    world.settle(LIMIT);
    // This run of the manager has written no levels, so it clears none.
    assert_eq!(masks(&world), BTreeSet::from([LEVELS]));
    world.event(Event::Reload(Box::new(config.core)));
    world.settle(LIMIT);
    assert_eq!(masks(&world), BTreeSet::from([LEVELS]));

    let mut world = World::generated(TREE, with_levels(AdaptiveRouting::On, DEVICES));
    world.settle(LIMIT);
    let off = with_levels(AdaptiveRouting::Off, DEVICES).core;
    world.event(Event::Reload(Box::new(off)));
    world.settle(LIMIT);
    assert_eq!(masks(&world), BTreeSet::from([0]));

    let devices = format!("{DEVICES}+needs-order");
    let mut world = World::generated(TREE, with_levels(AdaptiveRouting::On, &devices));
    world.count_requests();
    world.settle(LIMIT);
    assert_eq!(masks(&world), BTreeSet::from([0]));
    assert_eq!(sets(&world), 0);
}
