//! Switches lose power: their links go down and they stop answering.

#![expect(
    clippy::print_stdout,
    reason = "the figures of a run are read with --nocapture"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_routing::netlist::NodeKind;
use rsm_sim::Silence;
use rsm_state::{Activity, Command};
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(300);
const SUPERPOD: &str = "superpod";
const THREE_LEVELS: &str = "fat-tree:k=8,levels=3";

/// The capacity of the journal: more Sets than any loss of power in these tests causes.
const JOURNAL: usize = 1 << 18;

/// The number of pairs of hosts that exchange data packets.
const PAIRS: usize = 512;

/// The maximum time with traps, from the loss of power until the last table is written.
const WITH_TRAPS: Duration = Duration::from_millis(50);

/// The maximum time without traps: from the beginning of the light sweep that finds the loss until
/// the last table is written.
const WITHOUT_TRAPS: Duration = Duration::from_secs(1);

/// The maximum number of Gets to a node without power, retries and light sweeps included. The
/// largest node has 64 cables.
const GETS_TO_DEAD: u64 = 4;

fn is_switch(world: &World, node: Guid) -> bool {
    world
        .sim
        .nodes()
        .any(|(guid, kind)| guid == node && kind == NodeKind::Switch)
}

/// The nodes at the other ends of a node's cables.
fn neighbours(world: &World, node: Guid) -> BTreeSet<Guid> {
    let ports = world.sim.num_ports(node).unwrap();
    (1..=ports)
        .filter_map(|port| world.sim.peer(node, PortNum(port)).unwrap())
        .map(|(peer, _)| peer)
        .collect()
}

/// The leaf of the subnet manager's host.
fn manager_leaf(world: &World) -> Guid {
    let local = world.manager().local(&world.sim).unwrap();
    world.sim.peer(local.0, local.1).unwrap().unwrap().0
}

/// The switches with hosts (`leaves`) or without hosts, in the order of the netlist.
fn switches(world: &World, leaves: bool) -> Vec<Guid> {
    let nodes = world.sim.nodes().map(|(guid, _)| guid);
    nodes
        .filter(|&guid| is_switch(world, guid))
        .filter(|&guid| {
            neighbours(world, guid)
                .iter()
                .any(|&peer| !is_switch(world, peer))
                == leaves
        })
        .collect()
}

/// A leaf other than the subnet manager's.
fn other_leaf(world: &World) -> Vec<Guid> {
    let own = manager_leaf(world);
    let leaf = switches(world, true).into_iter().rfind(|&leaf| leaf != own);
    vec![leaf.unwrap()]
}

/// The spines next to the subnet manager's leaf. The spine that most traps pass is among the first
/// spines.
fn manager_spines(world: &World) -> Vec<Guid> {
    let near = neighbours(world, manager_leaf(world));
    let spines = switches(world, false);
    spines
        .into_iter()
        .filter(|guid| near.contains(guid))
        .collect()
}

/// The spine on the path from another leaf to the subnet manager. Traps of that leaf are lost if
/// the spine loses power.
fn spine_of_traps(world: &World) -> Vec<Guid> {
    let local = world.manager().local(&world.sim).unwrap();
    let lid = world.sim.port_info(local.0, local.1).unwrap().lid();
    let near = manager_spines(world);
    let leaf = switches(world, true)
        .into_iter()
        .find(|&leaf| leaf != manager_leaf(world) && neighbours(world, leaf).contains(&near[0]))
        .unwrap();
    let exit = world.sim.lft(leaf).unwrap()[lid.index()];
    vec![world.sim.peer(leaf, PortNum(exit)).unwrap().unwrap().0]
}

/// The last spine of the netlist. In a fabric of several pods, this spine is no neighbour of the
/// subnet manager's leaf.
fn last_spine(world: &World) -> Vec<Guid> {
    let spine = switches(world, false).pop();
    vec![spine.unwrap()]
}

/// The last two spines of the netlist.
fn two_spines(world: &World) -> Vec<Guid> {
    let mut spines = switches(world, false);
    spines.drain(..spines.len() - 2);
    spines
}

/// The reaction to a loss of power.
#[derive(Debug)]
struct Reaction {
    /// The time until the last block of a forwarding table is written.
    tables: Duration,
    /// The time until all packets between hosts with power arrive.
    delivered: Duration,
    /// The number of Gets to nodes without power.
    gets_to_dead: u64,
}

type End = (Guid, PortNum);

/// The source port and the destination LID of [`PAIRS`] pairs of hosts that stay cabled after the
/// loss of `dead`.
fn pairs(world: &World, dead: &[Guid]) -> Vec<(End, Lid)> {
    let hosts: Vec<(End, Lid)> = world
        .sim
        .end_ports()
        .filter(|&(node, _)| !is_switch(world, node))
        .filter(|&(node, port)| {
            let peer = world.sim.peer(node, port).unwrap();
            peer.is_some_and(|(leaf, _)| !dead.contains(&leaf))
        })
        .map(|end| (end, world.sim.port_info(end.0, end.1).unwrap().lid()))
        .collect();
    // Factors that are coprime to most numbers of hosts spread sources and destinations evenly.
    (0..PAIRS)
        .map(|at| {
            (
                hosts[at * 7 % hosts.len()].0,
                hosts[(at * 31 + 5) % hosts.len()].1,
            )
        })
        .collect()
}

/// Whether the packets of all `pairs` are delivered.
fn all_delivered(world: &World, pairs: &[(End, Lid)]) -> bool {
    pairs
        .iter()
        .all(|&(from, to)| world.sim.probe(from, to, 0).unwrap().is_delivered())
}

/// The ports of a leaf that lead to switches, with these switches.
fn uplinks(world: &World, leaf: Guid) -> Vec<(PortNum, Guid)> {
    let ports = (1..=world.sim.num_ports(leaf).unwrap()).map(PortNum);
    let peers = ports.filter_map(|port| Some((port, world.sim.peer(leaf, port).unwrap()?.0)));
    peers.filter(|&(_, peer)| is_switch(world, peer)).collect()
}

/// Disconnects a cable that `pairs` use. Returns the time until the packets of all of them arrive.
fn outage(world: &mut World, cable: End, pairs: &[(End, Lid)]) -> Duration {
    let began = world.now();
    world.sim.unlink(cable.0, cable.1).unwrap();
    assert!(!all_delivered(world, pairs), "the cable is in use");
    while !all_delivered(world, pairs) {
        world.run_for(Duration::from_millis(1));
        assert!(world.now().since(began) < LIMIT);
    }
    world.now().since(began)
}

/// Switches off the nodes that `choose` returns, and measures the reaction until the subnet is at
/// rest.
fn power_off(spec: &str, traps: bool, choose: fn(&World) -> Vec<Guid>) -> Reaction {
    let mut world = World::generated(spec, Settings::default());
    world.settle(LIMIT);
    expect::assert_no_findings(&world);
    let dead = choose(&world);
    let pairs = pairs(&world, &dead);
    assert!(all_delivered(&world, &pairs));
    if !traps {
        world.sim.set_attribute_loss(AttrId::NOTICE, 1.0).unwrap();
    }
    world.sim.start_journal(JOURNAL);
    world.count_requests();
    let passes = world.manager().convergences().len();
    let began = world.now();
    for &switch in &dead {
        world.sim.power_off(switch).unwrap();
    }
    while !all_delivered(&world, &pairs) {
        world.run_for(Duration::from_millis(1));
        assert!(
            world.now().since(began) < LIMIT,
            "{spec}: packets are lost for good"
        );
    }
    let delivered = world.now();
    world.settle(LIMIT);
    for switch in &dead {
        let inventory = world.manager().core().inventory();
        assert!(
            inventory.hardware.node(*switch).is_none(),
            "{spec}: it is taken for gone"
        );
    }
    assert!(all_delivered(&world, &pairs));
    let journal = world.sim.take_journal().unwrap();
    let tables = journal
        .entries()
        .filter(|entry| entry.attribute == AttrId::LINEAR_FORWARDING_TABLE)
        .map(|entry| entry.time)
        .max()
        .expect("tables were written");
    // Without traps the core notices nothing before the light sweep.
    let noticed = if traps {
        began
    } else {
        let pass = &world.manager().convergences()[passes];
        Time::ZERO + (pass.finished.since(Time::ZERO) - pass.total)
    };
    let requests = world.requests();
    let to = |guid: &Guid| -> u64 {
        let attributes = requests.attributes(Method::GET);
        let counts = attributes
            .iter()
            .map(|&at| requests.of(*guid, Method::GET, at));
        counts.sum()
    };
    let reaction = Reaction {
        tables: tables.since(noticed),
        delivered: delivered.since(noticed),
        gets_to_dead: dead.iter().map(to).max().unwrap(),
    };
    println!("{spec}, traps {traps}, without {dead:?}: {reaction:?}");
    reaction
}

/// Asserts that packets arrive, and that the last table is written, within [`WITH_TRAPS`] or
/// [`WITHOUT_TRAPS`] after the nodes that `choose` returns have lost power.
fn reroutes_in_time(spec: &str, choose: fn(&World) -> Vec<Guid>) {
    for (traps, limit) in [(true, WITH_TRAPS), (false, WITHOUT_TRAPS)] {
        let reaction = power_off(spec, traps, choose);
        assert!(
            reaction.tables <= limit,
            "{spec}, traps {traps}: {reaction:?}"
        );
        assert!(
            reaction.delivered <= limit,
            "{spec}, traps {traps}: {reaction:?}"
        );
        assert!(
            reaction.gets_to_dead <= GETS_TO_DEAD,
            "{spec}, traps {traps}: {reaction:?}"
        );
    }
}

#[test]
fn superpod_spine_without_power_is_routed_around() {
    reroutes_in_time(SUPERPOD, last_spine);
}

#[test]
fn superpod_leaf_without_power_is_routed_around() {
    reroutes_in_time(SUPERPOD, other_leaf);
}

#[test]
fn two_superpod_spines_without_power_are_routed_around() {
    reroutes_in_time(SUPERPOD, two_spines);
}

#[test]
fn superpod_spine_that_traps_pass_without_power_is_routed_around() {
    reroutes_in_time(SUPERPOD, spine_of_traps);
}

#[test]
fn fat_tree_core_without_power_is_routed_around() {
    reroutes_in_time(THREE_LEVELS, last_spine);
}

#[test]
fn fat_tree_leaf_without_power_is_routed_around() {
    reroutes_in_time(THREE_LEVELS, other_leaf);
}

#[test]
fn two_fat_tree_cores_without_power_are_routed_around() {
    reroutes_in_time(THREE_LEVELS, two_spines);
}

#[test]
fn fat_tree_spine_in_the_managers_pod_without_power_is_routed_around() {
    reroutes_in_time(THREE_LEVELS, |world| manager_spines(world)[..1].to_vec());
    reroutes_in_time(THREE_LEVELS, spine_of_traps);
}

#[test]
fn fat_tree_spines_of_the_managers_pod_without_power_are_routed_around() {
    reroutes_in_time(THREE_LEVELS, |world| manager_spines(world)[..2].to_vec());
}

/// Each leaf has two cables to a spine, and reports twice when the spine dies: one pass processes
/// all reports.
#[test]
fn superpod_spine_without_power_takes_one_pass() {
    let mut world = World::brought_up(SUPERPOD, Settings::default());
    let spine = last_spine(&world)[0];
    let leaves = neighbours(&world, spine);
    let before = world.manager().convergences().len();
    world.schedule(Duration::ZERO, move |world| {
        world.sim.power_off(spine).unwrap();
    });
    world.settle(LIMIT);
    let first = &world.manager().convergences()[before];
    assert!(first.complete, "{first:?}");
    assert!(first.lft_blocks > 0, "{first:?}");
    assert!(
        first
            .cause
            .ends_with(&format!("and {} more", leaves.len() - 4)),
        "{}",
        first.cause
    );
    let ports: u64 = leaves
        .iter()
        .map(|&leaf| u64::from(world.sim.num_ports(leaf).unwrap()))
        .sum();
    // After its second report, the core sends a leaf only the outstanding Gets, once each.
    assert!(first.gets < ports * 2, "{first:?}");
}

/// Switches lose power one after the other, repeatedly, and all traps are lost: a light sweep
/// notices each loss of power.
#[test]
fn repeated_losses_of_power_without_traps_are_each_noticed_by_a_light_sweep() {
    let light = Duration::from_millis(500);
    let mut settings = Settings::default();
    settings.core.light_sweep = light;
    let mut world = World::generated(THREE_LEVELS, settings);
    world.run_for(Duration::from_secs(2));
    world.sim.set_attribute_loss(AttrId::NOTICE, 1.0).unwrap();
    let near = manager_spines(&world)[0];
    let faults = [
        last_spine(&world),
        two_spines(&world),
        other_leaf(&world),
        vec![near],
    ];
    for round in 0..12 {
        let dead = &faults[round % faults.len()];
        let pairs = pairs(&world, dead);
        let began = world.now();
        for &switch in dead {
            world.sim.power_off(switch).unwrap();
        }
        while world.now() == began || !all_delivered(&world, &pairs) {
            world.run_for(Duration::from_millis(1));
            assert!(world.now().since(began) < LIMIT, "round {round}");
        }
        let outage = world.now().since(began);
        println!("round {round}, {dead:?}: {outage:?}");
        // A light sweep begins within `light`, and waits for one time-out of requests that the dead
        // switch does not answer.
        let noticed = light + Duration::from_millis(60);
        assert!(outage < noticed, "round {round}: {outage:?}");
        world.run_for(Duration::from_secs(4));
        for &switch in dead {
            world.sim.power_on(switch).unwrap();
        }
        world.run_for(Duration::from_secs(4));
        for &switch in dead {
            assert!(
                world
                    .manager()
                    .core()
                    .inventory()
                    .hardware
                    .node(switch)
                    .is_some()
            );
        }
    }
}

/// The manager's link goes down and up between two polls of the port state, so that the manager,
/// as with umad, sees only a port in Init.
#[test]
fn quick_restart_of_the_managers_leaf_triggers_a_sweep_at_once() {
    let mut settings = Settings {
        port_events: false,
        ..Settings::default()
    };
    settings.sim.reboot_time = Duration::from_millis(300);
    let mut world = World::brought_up("fat-tree:k=4,levels=3", settings);
    world.poll_ports();
    world.sim.reboot(manager_leaf(&world)).unwrap();
    world.run_for(Duration::from_millis(600));
    world.poll_ports();
    world.run_for(Duration::ZERO);
    let local = world.manager().core().inventory().hardware.local.unwrap();
    assert_eq!(
        world.manager().findings(),
        [("local-port", local.to_string())]
    );
    assert!(world.manager().snapshot().unwrap().converging);
    world.run_for(Duration::from_millis(100));
    expect::assert_up(&world);
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

/// Requests to a silent host whose link is up are under way when a switch loses a cable.
#[test]
fn fault_elsewhere_does_not_wait_for_a_silent_host() {
    for pause in [30, 100, 1_000, 4_000] {
        let mut world = World::brought_up(THREE_LEVELS, Settings::default());
        let leaf = other_leaf(&world)[0];
        let cable = |world: &World, to_switch: bool| {
            let ports = (1..=world.sim.num_ports(leaf).unwrap()).map(PortNum);
            let mut cabled = ports.filter_map(|port| {
                let peer = world.sim.peer(leaf, port).unwrap()?.0;
                (is_switch(world, peer) == to_switch).then_some((port, peer))
            });
            cabled.next().expect("a leaf has both")
        };
        let (port, host) = cable(&world, false);
        world.sim.set_silence(host, Silence::Everything).unwrap();
        world.sim.unlink(leaf, port).unwrap();
        world.settle(LIMIT);
        let pairs = pairs(&world, &[]);
        let pairs: Vec<_> = pairs
            .into_iter()
            .filter(|&((from, _), to)| from != host && to != lid_of(&world, host))
            .collect();
        world.sim.relink(leaf, port).unwrap();
        world.run_for(Duration::from_millis(pause));
        let (uplink, _) = cable(&world, true);
        let took = outage(&mut world, (leaf, uplink), &pairs);
        println!("{pause} ms later: {took:?}");
        assert!(
            took <= Duration::from_millis(100),
            "{pause} ms later: {took:?}"
        );
        world.sim.set_silence(host, Silence::None).unwrap();
        world.sim.relink(leaf, uplink).unwrap();
        world.settle(LIMIT);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        world.watched().assert_harmless();
    }
}

/// The hung switch keeps its links up and forwards, but does not answer: the push cannot write its
/// planned tables.
#[test]
fn fault_elsewhere_does_not_wait_for_a_hung_switch() {
    for (hung, what) in [
        (last_spine as fn(&World) -> Vec<Guid>, "core"),
        (other_leaf, "leaf"),
        (manager_spines, "spine of the own pod"),
    ] {
        for pause in [0, 30, 1_000, 30_000] {
            let mut world = World::brought_up(THREE_LEVELS, Settings::default());
            let hung = hung(&world)[0];
            world.sim.set_silence(hung, Silence::Everything).unwrap();
            world.run_for(Duration::from_millis(pause));
            let leaf = switches(&world, true)
                .into_iter()
                .find(|&leaf| leaf != hung && leaf != manager_leaf(&world))
                .unwrap();
            let mut uplinks = uplinks(&world, leaf).into_iter();
            let (uplink, _) = uplinks.find(|&(_, peer)| peer != hung).unwrap();
            let pairs = pairs(&world, &[]);
            let took = outage(&mut world, (leaf, uplink), &pairs);
            println!("{what}, {pause} ms later: {took:?}");
            assert!(
                took <= Duration::from_secs(1),
                "{what}, {pause} ms later: {took:?}"
            );
            world.sim.set_silence(hung, Silence::None).unwrap();
            world.settle(LIMIT);
            expect::assert_up(&world);
            world.watched().assert_harmless();
        }
    }
}

/// A cable comes back, so that the push writes interim tables, to the hung switch too; then another
/// cable is lost.
#[test]
fn fault_elsewhere_does_not_wait_for_interim_tables_of_a_hung_switch() {
    let hung = [last_spine, other_leaf, manager_spines] as [fn(&World) -> Vec<Guid>; 3];
    let pauses = [1, 5, 30, 300, 3_000];
    for (hung, pause) in hung
        .into_iter()
        .flat_map(|hung| pauses.map(|pause| (hung, pause)))
    {
        let mut world = World::brought_up(THREE_LEVELS, Settings::default());
        let hung = hung(&world)[0];
        let leaves = switches(&world, true);
        let [one, other] = [leaves[3], leaves[9]];
        let (back, gone) = (uplinks(&world, one)[0].0, uplinks(&world, other)[1].0);
        world.sim.unlink(one, back).unwrap();
        world.settle(LIMIT);
        let pairs = pairs(&world, &[]);
        world.sim.set_silence(hung, Silence::Everything).unwrap();
        world.sim.relink(one, back).unwrap();
        // The link trains, and the core notices it.
        world.run_for(Duration::from_millis(20 + pause));
        let took = outage(&mut world, (other, gone), &pairs);
        println!("{pause} ms later: {took:?}");
        assert!(took <= Duration::from_secs(1), "{pause} ms later: {took:?}");
        world.sim.set_silence(hung, Silence::None).unwrap();
        world.settle(LIMIT);
        expect::assert_up(&world);
        world.watched().assert_harmless();
    }
}

/// The LID of a host's first port.
fn lid_of(world: &World, host: Guid) -> Lid {
    world.sim.port_info(host, PortNum(1)).unwrap().lid()
}

#[test]
fn switch_that_gets_its_power_back_is_in_use_within_200_ms() {
    for choose in [other_leaf, last_spine] {
        let mut world = World::brought_up(THREE_LEVELS, Settings::default());
        let switch = choose(&world)[0];
        world.sim.power_off(switch).unwrap();
        world.settle(LIMIT);
        assert!(
            world
                .manager()
                .core()
                .inventory()
                .hardware
                .node(switch)
                .is_none()
        );
        expect::assert_up(&world);
        world.sim.power_on(switch).unwrap();
        // The links of the switch are up after 20 ms.
        world.run_for(Duration::from_millis(200));
        expect::assert_up(&world);
        assert!(
            world
                .manager()
                .core()
                .inventory()
                .hardware
                .node(switch)
                .is_some()
        );
        world.settle(LIMIT);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        world.watched().assert_harmless();
    }
}

/// The switch loses power during the push to it and to others.
#[test]
fn push_goes_on_without_a_switch_that_loses_power() {
    let settings = Settings::default();
    for after in [1, 2, 4, 8, 16] {
        let mut world = World::generated(THREE_LEVELS, settings.clone());
        let begins = |world: &World| matches!(world.manager().core().activity(), Activity::Pushing { done, .. } if done > 100 * after);
        let until = world.now() + LIMIT;
        assert!(world.run(until, begins), "it writes");
        let spine = last_spine(&world)[0];
        let began = world.now();
        world.sim.power_off(spine).unwrap();
        world.settle(LIMIT);
        println!(
            "after {after}00 Sets: quiet {:?} later",
            world.now().since(began)
        );
        expect::assert_up(&world);
        let findings = world.manager().findings();
        let are_true = findings.iter().all(|(code, _)| *code == "switch-missing");
        assert!(are_true, "{findings:?}");
        let last = world.manager().convergences().last().unwrap().finished;
        let took = last.since(began);
        assert!(
            took <= Duration::from_secs(6),
            "after {after}00 Sets: {took:?}"
        );
    }
}

/// A host that no fault of these tests concerns: only full sweeps ask it for NodeInfo.
fn witness(world: &World) -> Guid {
    let own = world.manager().local(&world.sim).unwrap().0;
    let mut hosts = world.nodes(NodeKind::Ca).into_iter();
    hosts.find(|&host| host != own).unwrap()
}

/// The number of full sweeps since the requests are counted.
fn full_sweeps(world: &World) -> u64 {
    let witness = witness(world);
    world.requests().of(witness, Method::GET, AttrId::NODE_INFO)
}

#[test]
fn full_sweep_that_missed_a_host_is_repeated_when_this_host_answers_and_not_for_others() {
    let mut settings = Settings::default();
    settings.core.light_sweep = Duration::from_millis(500);
    let mut world = World::brought_up("fat-tree:k=4,levels=3", settings);
    let host = world.nodes(NodeKind::Ca).pop().unwrap();
    let spine = last_spine(&world)[0];
    world.sim.set_silence(host, Silence::Everything).unwrap();
    world.command(Command::Resweep {
        full: true,
        ticket: 1,
    });
    world.run_for(LIMIT);
    world.count_requests();
    for round in 0..5 {
        world.sim.set_silence(spine, Silence::Answers).unwrap();
        world.run_for(Duration::from_secs(3));
        assert_eq!(world.manager().done().back(), Some(&1));
        world.sim.set_silence(spine, Silence::None).unwrap();
        world.run_for(Duration::from_secs(10));
        assert_eq!(full_sweeps(&world), 0, "round {round}");
    }
    world.sim.set_silence(host, Silence::None).unwrap();
    world.settle(LIMIT);
    assert_eq!(full_sweeps(&world), 1);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn full_sweep_that_the_own_node_does_not_answer_keeps_all_findings_and_is_repeated() {
    let mut world = World::brought_up("fat-tree:k=4,levels=3", Settings::default());
    let own = world.manager().local(&world.sim).unwrap().0;
    let host = world.nodes(NodeKind::Ca).pop().unwrap();
    world.sim.set_silence(host, Silence::Everything).unwrap();
    world.command(Command::Resweep {
        full: true,
        ticket: 1,
    });
    world.run_for(LIMIT);
    let before = world.manager().findings();
    assert!(!before.is_empty());
    world.sim.set_silence(own, Silence::Answers).unwrap();
    world.command(Command::Resweep {
        full: true,
        ticket: 2,
    });
    world.run_for(LIMIT);
    let during = world.manager().findings();
    assert!(before.iter().all(|one| during.contains(one)), "{during:?}");
    assert!(
        during.iter().any(|(code, _)| *code == "local-port"),
        "{during:?}"
    );
    world.count_requests();
    world.sim.set_silence(own, Silence::None).unwrap();
    world.run_for(LIMIT);
    assert_eq!(full_sweeps(&world), 1, "the sweep is repeated");
    assert_eq!(world.manager().findings(), before);
    world.sim.set_silence(host, Silence::None).unwrap();
    world.settle(LIMIT);
    expect::assert_no_findings(&world);
}
