//! Virtual ports: discovery, LIDs, P_Keys, activation, migration, and devices that misbehave.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_core::Event;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{Attribute, PKey, PortState, VPortInfo, VPortState, VirtualizationInfo};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_model::findings::FindingKind;
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Devices, VPortAt, VPortLids, VPortProbe};
use rsm_tests::virtual_time::{Dice, Memory, Settings, World, expect, partitions, seeds};

const LIMIT: Duration = Duration::from_secs(120);
/// A fabric of adapters of a model that is asked for GeneralInfo.
const TREE: &str = "fat-tree:k=4,levels=2,speed=ndr";
const PORT: PortNum = PortNum(1);
const ATTRIBUTES: [AttrId; 7] = [
    AttrId::VIRTUALIZATION_INFO,
    AttrId::VPORT_INFO,
    AttrId::VNODE_INFO,
    AttrId::VPORT_STATE,
    AttrId::VNODE_DESCRIPTION,
    AttrId::VPORT_GUID_INFO,
    AttrId::VPORT_P_KEY_TABLE,
];

/// Settings with `vports` virtual ports at each host, including the physical function.
fn settings(vports: u16, lids: VPortLids) -> Settings {
    let mut settings = Settings::default();
    settings.core.manages_vports = true;
    (settings.sim.vports, settings.sim.vport_lids) = (vports, lids);
    settings
}

fn brought_up(settings: Settings) -> World {
    let mut world = World::generated(TREE, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

/// All virtual ports that their hosts let come up, with their VPortInfo.
fn vports(world: &World) -> Vec<(VPortAt, VPortInfo)> {
    let hosts = world.nodes(NodeKind::Ca).into_iter();
    let all = hosts.flat_map(|host| {
        let vports = world.sim.vports(host, PORT).unwrap();
        let wanted = vports.into_iter().filter(|(_, vport)| vport.is_wanted);
        wanted.map(move |(index, vport)| ((host, PORT, index), vport.info))
    });
    all.collect()
}

fn base_lid(world: &World, host: Guid) -> Lid {
    world.sim.port_info(host, PORT).unwrap().lid()
}

/// The LID by which packets reach a virtual port.
fn lid_of(world: &World, at: VPortAt, info: &VPortInfo) -> Lid {
    if info.lid() != Lid::NONE {
        return info.lid();
    }
    let all = world.sim.vports(at.0, PORT).unwrap();
    // The LID of a virtual port that is Down leads nowhere, although its adapter still shows it.
    let mut up = all.iter().filter(|(_, vport)| vport.is_wanted);
    let by_index = up.find(|(index, _)| *index == info.lid_by_vport_index());
    let shared = by_index.map_or(Lid::NONE, |(_, vport)| vport.info.lid());
    match shared {
        Lid::NONE => base_lid(world, at.0),
        shared => shared,
    }
}

/// Asserts that all virtual ports are Active, that those that need a LID of their own have a unique
/// LID, and that packets from each virtual port reach the other virtual ports.
fn assert_vports_up(world: &World) {
    let all = vports(world);
    let hosts = world.nodes(NodeKind::Ca).into_iter();
    let mut lids: BTreeSet<Lid> = hosts.map(|host| base_lid(world, host)).collect();
    for (at, info) in &all {
        assert_eq!(info.state(), PortState::Active, "{at:?}");
        assert_eq!(info.lid() != Lid::NONE, info.lid_required(), "{at:?}");
        if info.lid_required() {
            assert!(lids.insert(info.lid()), "{at:?} shares {}", info.lid());
        }
    }
    let (from, _) = all[1];
    for (to, info) in &all {
        let lid = lid_of(world, *to, info);
        let guid = info.port_guid();
        let probe = world.sim.probe_vport(from, lid, guid, PKey::DEFAULT_FULL);
        assert_eq!(probe, Ok(VPortProbe::Delivered), "to {to:?}");
    }
}

fn sets(world: &World) -> u64 {
    world.requests().count(Method::SET)
}

fn requests_for(world: &World, attribute: AttrId, method: Method) -> u64 {
    let nodes = world.requests().nodes(method, attribute);
    let counts = nodes
        .iter()
        .map(|&node| world.requests().of(node, method, attribute));
    counts.sum()
}

/// Whether the manager has a finding of this kind with `part` in its text.
fn has_finding(world: &World, kind: FindingKind, part: &str) -> bool {
    let findings = &world.manager().snapshot().unwrap().findings;
    let mut findings = findings.iter();
    findings.any(|finding| finding.kind == kind && finding.text.contains(part))
}

/// Two hosts at different leaves, neither of them the manager's host.
fn two_hosts(world: &World) -> (Guid, Guid) {
    let hosts = world.nodes(NodeKind::Ca);
    (hosts[1], hosts[hosts.len() - 1])
}

#[test]
fn vports_come_up_with_each_kind_of_lid() {
    for lids in [VPortLids::Own, VPortLids::ByIndex, VPortLids::Base] {
        let mut world = brought_up(settings(8, lids));
        assert_eq!(vports(&world).len(), 8 * world.nodes(NodeKind::Ca).len());
        assert_vports_up(&world);
        expect::assert_no_findings(&world);
        world.count_requests();
        world.resweep(LIMIT);
        world.run_for(Duration::from_secs(60));
        assert_eq!(sets(&world), 0, "{lids:?}");
    }
}

#[test]
fn no_device_is_asked_about_vports_unless_vports_are_on() {
    let cost = |is_on: bool, vports: u16| {
        let mut settings = settings(vports, VPortLids::Own);
        settings.core.manages_vports = is_on;
        let mut world = World::generated(TREE, settings);
        world.count_requests();
        world.settle(LIMIT);
        world.run_for(Duration::from_secs(60));
        let about_vports: u64 = ATTRIBUTES
            .iter()
            .map(|&attribute| {
                requests_for(&world, attribute, Method::GET)
                    + requests_for(&world, attribute, Method::SET)
            })
            .sum();
        let requests = world.requests();
        (
            about_vports,
            requests.count(Method::GET),
            requests.count(Method::SET),
        )
    };
    let off = cost(false, 8);
    assert_eq!(off.0, 0);
    assert_eq!(off, cost(false, 0));
    // With the feature on and no virtual ports, the cost is GeneralInfo of one switch and one
    // adapter.
    let (about_vports, gets, sets) = cost(true, 0);
    assert_eq!((about_vports, gets, sets), (0, off.1 + 2, off.2));
}

#[test]
fn a_restart_writes_no_vport_and_no_forwarding_table() {
    for lids in [VPortLids::Own, VPortLids::Base] {
        for memory in [Memory::Kept, Memory::Lost] {
            let mut world = brought_up(settings(8, lids));
            let before = vports(&world);
            world.kill(0);
            world.start(0, memory);
            world.count_requests();
            world.settle(LIMIT);
            assert_vports_up(&world);
            assert_eq!(vports(&world), before, "{lids:?} {memory:?}");
            for attribute in ATTRIBUTES {
                let sets = requests_for(&world, attribute, Method::SET);
                assert_eq!(sets, 0, "{attribute}, {lids:?} {memory:?}");
            }
            let blocks = requests_for(&world, AttrId::LINEAR_FORWARDING_TABLE, Method::SET);
            assert_eq!(blocks, 0, "{lids:?} {memory:?}");
        }
    }
}

/// A virtual machine moves to another host: its GUID disappears from the old host and appears at
/// the new one. Each switch gets at most one block for each of these changes.
#[test]
fn migration_keeps_the_lid_and_writes_at_most_two_blocks_per_switch() {
    let mut world = brought_up(settings(4, VPortLids::Own));
    let (from, to) = two_hosts(&world);
    let moved = world.sim.vports(from, PORT).unwrap()[2].1.info;
    world.count_requests();
    world.sim.remove_vport((from, PORT, 2)).unwrap();
    world.run_for(Duration::from_secs(1));
    let place = (to, PORT, 9);
    world
        .sim
        .set_vport(place, moved.port_guid(), VPortLids::Own)
        .unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    assert_vports_up(&world);
    let there = world.sim.vports(to, PORT).unwrap();
    let (_, there) = there.iter().find(|(index, _)| *index == 9).unwrap();
    assert_eq!(there.info.lid(), moved.lid());
    for switch in world.nodes(NodeKind::Switch) {
        let blocks = AttrId::LINEAR_FORWARDING_TABLE;
        let written = world.requests().of(switch, Method::SET, blocks);
        // Once for the removal, once for the arrival.
        assert!(written <= 2, "{written} blocks at {switch}");
    }
    let infos = requests_for(&world, AttrId::PORT_INFO, Method::SET);
    assert_eq!(infos, 0, "no port is touched");
}

/// The copy at the new host appears before the original is gone, and waits.
#[test]
fn second_vport_of_a_guid_is_served_once_the_first_is_gone() {
    let mut world = brought_up(settings(4, VPortLids::Own));
    let (from, to) = two_hosts(&world);
    let moved = world.sim.vports(from, PORT).unwrap()[2].1.info;
    let place = (to, PORT, 9);
    world
        .sim
        .set_vport(place, moved.port_guid(), VPortLids::Own)
        .unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    let state = |world: &World| {
        let there = world.sim.vports(to, PORT).unwrap();
        let found = there.iter().find(|(index, _)| *index == 9);
        found.unwrap().1.info.state()
    };
    assert_eq!(state(&world), PortState::Init);
    assert!(has_finding(&world, FindingKind::DuplicateGuid, "vport 9"));
    world.sim.remove_vport((from, PORT, 2)).unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    assert_eq!(state(&world), PortState::Active);
    assert_vports_up(&world);
    expect::assert_no_findings(&world);
}

/// Two virtual ports of one port are in two partitions, by rules that name their GUIDs before they
/// exist; neither reaches the other's partition, and outside of the default partition they do not
/// reach each other.
#[test]
fn two_vports_of_one_port_are_isolated_by_their_p_keys() {
    const RED: u16 = 0x8010;
    const BLUE: u16 = 0x8020;
    for lids in [VPortLids::Own, VPortLids::Base] {
        let mut settings = settings(2, lids);
        let netlist = rsm_routing::generate::generate(TREE).unwrap();
        let hosts = netlist
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::Ca);
        let hosts: Vec<Guid> = hosts.map(|node| node.guid).collect();
        let (here, there) = (hosts[1], hosts[hosts.len() - 1]);
        let [red, blue, other_red] = [Guid(0x00AA_0001), Guid(0x00AA_0002), Guid(0x00AA_0003)];
        settings.core.policy = partitions::policy(&format!(
            "Default=0x7fff : ALL=full ;\nRed=0x10 : {red}=full, {other_red}=full ;\n\
             Blue=0x20 : {blue}=full ;"
        ));
        let mut world = World::new(&netlist, settings);
        world.add_manager(hosts[0], PORT);
        world.settle(LIMIT);
        for (at, guid) in [
            ((here, PORT, 5), red),
            ((here, PORT, 6), blue),
            ((there, PORT, 5), other_red),
        ] {
            world.sim.set_vport(at, guid, lids).unwrap();
        }
        world.run_for(Duration::from_secs(2));
        world.settle(LIMIT);
        let probe = |from: VPortAt, to: VPortAt, key: u16| {
            let all = vports(&world);
            let (_, info) = all.iter().find(|(at, _)| *at == to).unwrap();
            let lid = lid_of(&world, to, info);
            let probe = world
                .sim
                .probe_vport(from, lid, info.port_guid(), PKey(key));
            probe.unwrap()
        };
        let (red, blue, other) = ((here, PORT, 5), (here, PORT, 6), (there, PORT, 5));
        assert_eq!(probe(red, other, RED), VPortProbe::Delivered, "{lids:?}");
        assert_eq!(probe(other, red, RED), VPortProbe::Delivered);
        assert_eq!(probe(blue, other, RED), VPortProbe::NotSent);
        assert_eq!(probe(other, blue, RED), VPortProbe::PKey);
        assert_eq!(probe(red, blue, RED), VPortProbe::PKey);
        assert_eq!(probe(red, blue, BLUE), VPortProbe::NotSent);
        expect::assert_no_findings(&world);
    }
}

#[test]
fn vports_that_come_go_and_change_are_followed_by_trap_and_by_light_sweep() {
    for traps_are_lost in [false, true] {
        let mut world = brought_up(settings(4, VPortLids::Own));
        if traps_are_lost {
            world.sim.set_attribute_loss(AttrId::NOTICE, 1.0).unwrap();
        }
        let (host, other) = two_hosts(&world);
        // The cases are a hole, a high index, another GUID, and a port that goes down and up.
        world.sim.remove_vport((host, PORT, 1)).unwrap();
        let at = (host, PORT, 100);
        world
            .sim
            .set_vport(at, Guid(0x00AA_0100), VPortLids::Own)
            .unwrap();
        let renamed = (other, PORT, 2);
        world
            .sim
            .set_vport(renamed, Guid(0x00AA_0200), VPortLids::Own)
            .unwrap();
        world.sim.want_vport((other, PORT, 3), false).unwrap();
        world.run_for(Duration::from_secs(40));
        assert_vports_up(&world);
        world.sim.want_vport((other, PORT, 3), true).unwrap();
        world.run_for(Duration::from_secs(40));
        assert_vports_up(&world);
        let snapshot = world.manager().snapshot().unwrap();
        let served: BTreeSet<Guid> = snapshot
            .fabric
            .end_ports()
            .flat_map(|(_, port)| port.vports.iter())
            .flat_map(|vports| vports.vports.values())
            .map(|vport| vport.guid())
            .collect();
        let there: BTreeSet<Guid> = vports(&world)
            .iter()
            .map(|(_, info)| info.port_guid())
            .collect();
        assert_eq!(served, there);
    }
}

#[test]
fn more_than_a_block_of_vports_comes_up() {
    let mut settings = settings(300, VPortLids::Base);
    settings.sim.vport_cap = 300;
    let world = brought_up(settings);
    assert_vports_up(&world);
}

/// There are too few LIDs for all: ports get theirs first, and virtual ports get the remaining
/// LIDs.
#[test]
fn vports_without_a_lid_stay_down_and_are_reported() {
    let mut settings = settings(16, VPortLids::Own);
    settings.sim.linear_fdb_cap = 64;
    let mut world = World::generated(TREE, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    let up = vports(&world);
    let active = up
        .iter()
        .filter(|(_, info)| info.state() == PortState::Active);
    let without = up.len() - active.count();
    assert!(without > 0);
    let text = format!("no LID is left for {without} virtual ports");
    assert!(has_finding(&world, FindingKind::LidSpaceExhausted, &text));
}

#[test]
fn devices_that_refuse_or_ignore_vports_come_up_without_them() {
    for devices in ["refuses-vports", "deaf-to-vports"] {
        let mut settings = settings(4, VPortLids::Own);
        settings.sim.devices = Devices::parse(devices).unwrap();
        let mut world = World::generated(TREE, settings);
        world.settle(LIMIT);
        expect::assert_up(&world);
        let findings = world.manager().findings();
        let is_habit = |(code, _): &(&str, String)| *code == "device-habit";
        assert_eq!(
            findings.iter().filter(|finding| is_habit(finding)).count(),
            1,
            "{devices}: {findings:?}"
        );
        world.count_requests();
        world.resweep(LIMIT);
        for attribute in ATTRIBUTES {
            let gets = requests_for(&world, attribute, Method::GET);
            assert_eq!(gets, 0, "{devices}: {attribute}");
        }
        world.kill(0);
        world.start(0, Memory::Kept);
        world.count_requests();
        world.settle(LIMIT);
        assert_eq!(requests_for(&world, VirtualizationInfo::ID, Method::GET), 0);
    }
}

/// A host that reboots forgets its LIDs, its keys, and that virtual ports are enabled.
#[test]
fn vports_of_a_host_that_reboots_keep_their_lids() {
    let mut world = brought_up(settings(4, VPortLids::Own));
    let (host, _) = two_hosts(&world);
    let lids = |world: &World| -> Vec<Lid> {
        let vports = world.sim.vports(host, PORT).unwrap();
        vports.iter().map(|(_, vport)| vport.info.lid()).collect()
    };
    let before = lids(&world);
    world.sim.reboot(host).unwrap();
    world.run_for(Duration::from_secs(10));
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_vports_up(&world);
    assert_eq!(lids(&world), before);
}

#[test]
fn turning_vports_off_frees_their_lids_and_turning_them_on_brings_them_up() {
    let mut world = brought_up(settings(4, VPortLids::Own));
    let mut config = settings(4, VPortLids::Own).core;
    config.manages_vports = false;
    world.event(Event::Reload(Box::new(config.clone())));
    world.settle(LIMIT);
    world.resweep(LIMIT);
    let snapshot = world.manager().snapshot().unwrap();
    assert!(snapshot.plan.as_ref().unwrap().lids.vports.is_empty());
    world.count_requests();
    world.run_for(Duration::from_secs(60));
    assert_eq!(requests_for(&world, VirtualizationInfo::ID, Method::GET), 0);
    config.manages_vports = true;
    world.event(Event::Reload(Box::new(config)));
    world.settle(LIMIT);
    world.resweep(LIMIT);
    assert_vports_up(&world);
}

/// A light sweep costs one Get for each port with virtual ports, and no more while none changes.
#[test]
fn light_sweep_asks_each_port_with_vports_once() {
    let mut world = brought_up(settings(8, VPortLids::Base));
    let hosts = world.nodes(NodeKind::Ca).len() as u64;
    world.run_for(Duration::from_secs(30));
    world.count_requests();
    world.run_for(Settings::default().core.light_sweep);
    assert_eq!(
        requests_for(&world, VirtualizationInfo::ID, Method::GET),
        hosts
    );
    assert_eq!(requests_for(&world, VPortState::ID, Method::GET), 0);
    assert_eq!(sets(&world), 0);
}

/// Makes one change at a random virtual port.
fn make_random_change(world: &mut World, dice: &mut Dice, guids: &mut u64) {
    let hosts = world.nodes(NodeKind::Ca);
    let host = dice.pick(&hosts);
    let at = (host, PORT, 1 + dice.below(12) as u16);
    match dice.below(5) {
        0 => world.sim.remove_vport(at).unwrap(),
        1 => world.sim.want_vport(at, false).unwrap(),
        2 => world.sim.want_vport(at, true).unwrap(),
        3 => {
            // A virtual machine moves, and its copy appears before it is gone here, or after.
            let other = dice.pick(&hosts);
            let found = world.sim.vports(host, PORT).unwrap();
            let Some((index, vport)) = found.into_iter().find(|(index, _)| *index > 0) else {
                return;
            };
            let to = (other, PORT, 20 + dice.below(5) as u16);
            let guid = vport.info.port_guid();
            let lids = if vport.info.lid_required() {
                VPortLids::Own
            } else {
                VPortLids::Base
            };
            world.sim.set_vport(to, guid, lids).unwrap();
            world.run_for(dice.duration(Duration::from_micros(10), Duration::from_secs(1)));
            if to != (host, PORT, index) {
                world.sim.remove_vport((host, PORT, index)).unwrap();
            }
        }
        _ => {
            *guids += 1;
            let lids = dice.pick(&[VPortLids::Own, VPortLids::ByIndex, VPortLids::Base]);
            world
                .sim
                .set_vport(at, Guid(0x00BB_0000 + *guids), lids)
                .unwrap();
        }
    }
}

/// Virtual ports come, go, move and change under loss, with hosts that reboot and a manager that is
/// killed.
fn run(seed: u64) {
    let lids = [VPortLids::Own, VPortLids::ByIndex, VPortLids::Base];
    let mut settings = settings(4, lids[seed as usize % 3]);
    settings.seed = seed;
    let mut world = World::generated(TREE, settings);
    world.settle(LIMIT);
    let mut dice = Dice::new(seed);
    let mut guids = 0;
    for _ in 0..12 {
        world.schedule_loss(Duration::ZERO, Duration::from_secs(1), 0.1);
        make_random_change(&mut world, &mut dice, &mut guids);
        match dice.below(6) {
            0 => {
                let hosts = world.nodes(NodeKind::Ca);
                let host = dice.pick(&hosts[1..]);
                world.sim.reboot(host).unwrap();
            }
            1 => world.schedule_kill(Duration::ZERO, Duration::from_millis(300), Memory::Kept),
            _ => {}
        }
        world.run_for(dice.duration(Duration::from_micros(10), Duration::from_secs(3)));
    }
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT * 5);
    expect::assert_up(&world);
    assert_vports_up(&world);
}

/// A virtual port shared the LID of another virtual port, which its host took down. The first
/// virtual port then has the LID of its port.
#[test]
fn vport_whose_lid_owner_went_down_is_reached_by_the_lid_of_its_port() {
    for seed in [22, 25] {
        run(seed);
    }
}

/// The keys of a virtual port were queried in vain, and then it moved to another host: the refusal
/// of the next request ends the query.
#[test]
fn vport_that_moves_before_its_keys_are_read_leaves_no_query_behind() {
    run(231);
}

#[test]
fn vports_that_come_and_go_under_loss_converge() {
    let test = "--test system sim_vports::vports_that_come_and_go_under_loss_converge";
    seeds::run(test, 12, run);
}

/// Sets to virtual ports get no answer, Sets to ports do: hosts work as without virtual ports, and
/// a finding names the Sets that are tried again.
#[test]
fn host_that_leaves_sets_of_vports_unanswered_stays_in_use() {
    let mut world = World::generated(TREE, settings(4, VPortLids::Own));
    let (host, _) = two_hosts(&world);
    let deaf = Devices::parse("deaf-to-vport-sets").unwrap();
    let personality = deaf.of(NodeKind::Ca, host);
    world.sim.set_personality(host, personality).unwrap();
    world.run_for(Duration::from_secs(240));
    expect::assert_up(&world);
    assert!(has_finding(
        &world,
        FindingKind::SetFailed,
        "VirtualizationInfo"
    ));
    for (at, info) in vports(&world) {
        let expected = match at.0 == host {
            true => PortState::Down,
            false => PortState::Active,
        };
        assert_eq!(info.state(), expected, "{at:?}");
    }
    let polite = Devices::default().of(NodeKind::Ca, host);
    world.sim.set_personality(host, polite).unwrap();
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT);
    assert_vports_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 500"]
fn soak_of_vports_that_come_and_go_under_loss() {
    let count = seeds::number("RSM_SEEDS").unwrap_or(500);
    seeds::run(
        "--test system sim_vports::soak_of_vports_that_come_and_go_under_loss -- --ignored",
        count,
        run,
    );
}
