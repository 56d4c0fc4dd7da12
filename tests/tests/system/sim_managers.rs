//! Two subnet managers, one of which is suspended for a while.

use std::cell::Cell;
use std::time::Duration;

use rsm_core::{CoreConfig, MastershipPolicy};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, SmInfo, SmState};
use rsm_mad::wire::header::Method;
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_routing::netlist::NodeKind;
use rsm_sim::Devices;
use rsm_state::{Activity, Command, Identity, Role};
use rsm_tests::virtual_time::{ForeignManager, Memory, Settings, World, expect};

use crate::sim_seeds::planar;

const LIMIT: Duration = Duration::from_secs(60);
const TREE: &str = "fat-tree:k=4,levels=2";
/// A pause long enough for a standby to declare the master dead: its poll with all retries.
const PAUSE: Duration = Duration::from_secs(10);
const SM_KEY: u64 = 0x11;

fn config(priority: u8) -> CoreConfig {
    CoreConfig {
        mastership: MastershipPolicy {
            identity: Identity {
                priority,
                sm_key: SM_KEY,
            },
            ..MastershipPolicy::default()
        },
        ..CoreConfig::default()
    }
}

fn last_host(world: &World) -> Guid {
    let hosts = world.sim.nodes().filter(|&(_, kind)| kind == NodeKind::Ca);
    hosts.last().expect("there are hosts").0
}

/// A subnet at rest with two managers: the manager with the first of `priorities` is at the first
/// host.
fn two_managers(priorities: [u8; 2]) -> World {
    let settings = Settings {
        core: config(priorities[0]),
        ..Settings::default()
    };
    let mut world = World::brought_up(TREE, settings);
    let guid = last_host(&world);
    world.add_manager_with(guid, PortNum(1), config(priorities[1]));
    world.run_for(LIMIT);
    assert_eq!(masters(&world).len(), 1);
    world
}

fn is_master(world: &World, index: usize) -> bool {
    *world.managers()[index].core().role() == Role::Master
}

/// The managers that consider themselves master.
fn masters(world: &World) -> Vec<usize> {
    (0..world.managers().len())
        .filter(|&index| is_master(world, index))
        .collect()
}

/// The cables between switches, each by one of its ends.
fn trunks(world: &World) -> Vec<(Guid, PortNum)> {
    let is_switch = |guid: Guid| {
        world
            .sim
            .nodes()
            .any(|(node, kind)| node == guid && kind == NodeKind::Switch)
    };
    let reach = expect::reach(world, &[]);
    let links = reach.links.iter();
    links
        .filter(|(a, b)| is_switch(a.0) && is_switch(b.0))
        .map(|&(a, _)| a)
        .collect()
}

/// Disconnects a cable at once, and informs the watch.
fn unplug(world: &mut World, (node, port): (Guid, PortNum)) {
    world.schedule(Duration::ZERO, move |world| {
        world.sim.unlink(node, port).expect("it is cabled");
    });
}

/// Disconnects a cable after `delay`, and reconnects it 300 ms later.
fn toggle(world: &mut World, (node, port): (Guid, PortNum), delay: Duration) {
    world.schedule(delay, move |world| {
        world.sim.unlink(node, port).expect("it is cabled");
    });
    world.schedule(delay + Duration::from_millis(300), move |world| {
        world.sim.relink(node, port).expect("it was unplugged");
    });
}

/// Runs for `duration`. Fails if `deposed` sends a Set while the other manager is master.
fn run_watched(world: &mut World, deposed: usize, duration: Duration) {
    let other = 1 - deposed;
    let seen = Cell::new(world.managers()[deposed].sets());
    let until = world.now() + duration;
    let violated = world.run(until, |world| {
        let sets = world.managers()[deposed].sets();
        let sent = sets > seen.replace(sets);
        sent && is_master(world, other)
    });
    assert!(
        !violated,
        "manager {deposed} sets while {other} is master, at {:?}",
        world.now()
    );
}

/// Suspends the master in each round while links go down and come back, and asserts that it sends
/// no Set while its successor is master.
fn stop_and_continue_with_links_toggling(priorities: [u8; 2], rounds: u32) {
    let mut world = two_managers(priorities);
    let trunks = trunks(&world);
    for round in 0..rounds {
        let deposed = masters(&world)[0];
        // In some rounds a push is under way at the suspension, or a link changes at the moment of
        // resumption.
        let jitter = Duration::from_micros(u64::from(round) * 137 % 4000);
        let toggles = [Duration::ZERO, PAUSE / 2, PAUSE - jitter];
        for (turn, delay) in toggles.into_iter().enumerate() {
            let trunk = trunks[(round as usize * 3 + turn) % trunks.len()];
            toggle(&mut world, trunk, delay);
        }
        world.schedule(jitter, move |world| world.pause_for(deposed, PAUSE));
        world.run_for(PAUSE + jitter - Duration::from_nanos(1));
        let successor = 1 - deposed;
        assert!(is_master(&world, successor), "round {round}: no successor");
        run_watched(&mut world, deposed, Duration::from_secs(1));
        assert_eq!(masters(&world).len(), 1, "round {round}");
        run_watched(&mut world, deposed, Duration::from_secs(9));
        assert_eq!(masters(&world).len(), 1, "round {round}");
        assert!(
            priorities[0] == priorities[1]
                || is_master(&world, usize::from(priorities[1] > priorities[0])),
            "round {round}: the one with precedence is master in the end"
        );
        world.settle(LIMIT);
        expect::assert_up(&world);
    }
    world.watched().assert_harmless();
}

#[test]
fn a_master_of_higher_priority_paused_for_ten_seconds_sets_nothing_until_the_handover() {
    stop_and_continue_with_links_toggling([7, 5], 25);
}

#[test]
fn a_master_of_equal_priority_paused_for_ten_seconds_sets_nothing_while_another_is_master() {
    stop_and_continue_with_links_toggling([5, 5], 25);
}

#[test]
fn a_master_paused_during_a_push_sends_none_of_its_sets_after_a_takeover() {
    for after_us in [0, 50, 200, 1000] {
        let mut world = two_managers([7, 5]);
        let trunk = trunks(&world)[0];
        unplug(&mut world, trunk);
        let until = world.now() + LIMIT;
        let pushes =
            |world: &World| matches!(world.manager().core().activity(), Activity::Pushing { .. });
        assert!(world.run(until, pushes), "the lost link is written");
        world.run_for(Duration::from_micros(after_us));
        world.pause_for(0, PAUSE);
        world.run_for(PAUSE - Duration::from_nanos(1));
        assert!(is_master(&world, 1));
        run_watched(&mut world, 0, Duration::from_secs(10));
        assert_eq!(masters(&world), [0]);
        world.settle(LIMIT);
        expect::assert_up(&world);
    }
}

#[test]
fn a_pause_without_a_successor_delays_the_push_and_loses_nothing() {
    let mut world = World::brought_up(TREE, Settings::default());
    let trunk = trunks(&world)[0];
    unplug(&mut world, trunk);
    let until = world.now() + LIMIT;
    let pushes =
        |world: &World| matches!(world.manager().core().activity(), Activity::Pushing { .. });
    assert!(world.run(until, pushes), "the lost link is written");
    world.pause_for(0, PAUSE);
    world.run_for(PAUSE + Duration::from_secs(1));
    assert_eq!(masters(&world), [0]);
    world.settle(LIMIT);
    expect::assert_up(&world);
    // The missing cable is the only finding.
    let findings = world.manager().findings();
    assert!(
        findings.iter().all(|(code, _)| *code == "cable-missing"),
        "{findings:?}"
    );
    world.watched().assert_harmless();
}

/// Drains the spine at a trunk, by the first manager.
fn drain(world: &mut World, ticket: u64) {
    let (spine, port) = trunks(world)[0];
    let part = NodeOrCable::Port(PortKey::new(spine, port));
    let reason = Reason::Drained(Drained::new("alice", ticket));
    world.command(Command::Drain {
        parts: [(part, reason)].into(),
        forced: false,
        ticket,
    });
}

#[test]
fn a_drain_while_another_manager_becomes_master_is_declined_and_blocks_no_later_drain() {
    let mut world = two_managers([7, 5]);
    world.pause_for(0, PAUSE);
    world.run_for(PAUSE);
    assert!(is_master(&world, 1));
    // The first manager still queries all managers for the master.
    drain(&mut world, 1);
    world.run_for(LIMIT);
    let [(1, reason)] = world.manager().declined() else {
        panic!("{:?}", world.manager().declined());
    };
    assert!(reason.contains("is master now"), "{reason}");
    // The subnet is handed back to the first manager.
    assert_eq!(masters(&world), [0]);
    drain(&mut world, 2);
    world.settle(LIMIT);
    assert_eq!(world.manager().done(), &[2]);
}

#[test]
fn a_standby_that_was_paused_does_not_take_over_from_a_master_that_answers() {
    let mut world = two_managers([7, 5]);
    // The pauses begin at all phases of the standby's poll.
    for phase_ms in (0..2000).step_by(97) {
        world.run_for(Duration::from_millis(phase_ms));
        world.pause_for(1, PAUSE);
        world.run_for(PAUSE - Duration::from_nanos(1));
        run_watched(&mut world, 1, Duration::from_secs(5));
        assert_eq!(masters(&world), [0], "phase {phase_ms} ms");
    }
}

/// Settings with these devices, and the priority of the first manager.
fn settings(devices: Devices, priority: u8) -> Settings {
    let mut settings = Settings {
        core: config(priority),
        ..Settings::default()
    };
    settings.sim.devices = devices;
    settings
}

#[test]
fn managers_hand_over_and_take_over_where_no_smp_by_lid_arrives() {
    let mut world = World::brought_up(TREE, settings(planar(), 5));
    let guid = last_host(&world);
    world.add_manager_with(guid, PortNum(1), config(7));
    world.run_for(LIMIT);
    assert_eq!(masters(&world), [1], "the subnet was handed over");
    world.kill(1);
    world.run_for(LIMIT);
    assert!(is_master(&world, 0), "the standby took over");
    world.start(1, Memory::Kept);
    world.run_for(LIMIT);
    assert_eq!(masters(&world), [1], "the subnet was handed over again");
    world.pause_for(1, PAUSE);
    world.run_for(PAUSE - Duration::from_nanos(1));
    run_watched(&mut world, 1, LIMIT);
    assert_eq!(masters(&world), [1], "and back after a pause");
    world.settle(LIMIT);
    expect::assert_up(&world);
    world.watched().assert_harmless();
}

#[test]
fn a_paused_master_sets_nothing_beside_a_successor_that_started_during_the_pause() {
    let devices = [Devices::default(), planar()];
    let both = devices.map(|devices| [[7, 5], [5, 7]].map(|priorities| (devices, priorities)));
    for (devices, priorities) in both.into_iter().flatten() {
        let mut world = World::brought_up(TREE, settings(devices, priorities[0]));
        let guid = last_host(&world);
        world.pause_for(0, PAUSE);
        world.schedule(PAUSE / 2, move |world| {
            world.add_manager_with(guid, PortNum(1), config(priorities[1]));
        });
        world.run_for(PAUSE - Duration::from_nanos(1));
        assert!(is_master(&world, 1));
        run_watched(&mut world, 0, Duration::from_secs(1));
        assert_eq!(masters(&world).len(), 1);
        run_watched(&mut world, 0, LIMIT);
        let stronger = usize::from(priorities[1] > priorities[0]);
        assert_eq!(masters(&world), [stronger]);
        expect::assert_up(&world);
    }
}

#[test]
fn a_master_of_lower_priority_is_a_finding_until_it_stands_by() {
    let settings = Settings {
        core: config(5),
        ..Settings::default()
    };
    let mut world = World::brought_up(TREE, settings);
    let guid = last_host(&world);
    let rival = ForeignManager {
        sm_key: SM_KEY,
        ..ForeignManager::new(guid, 3, SmState::Master)
    };
    let rival = world.add_foreign(guid, PortNum(1), rival);
    world.run_for(LIMIT);
    assert_eq!(masters(&world), [0]);
    assert_eq!(
        world.manager().findings(),
        [("other-master", guid.to_string())]
    );
    world.foreign_mut(rival).state = SmState::Standby;
    world.run_for(LIMIT);
    assert_eq!(masters(&world), [0]);
    assert_eq!(world.manager().findings(), []);
}

#[test]
fn every_light_sweep_queries_managers_at_switches_and_hosts() {
    let settings = Settings {
        core: config(8),
        ..Settings::default()
    };
    let mut world = World::generated(TREE, settings);
    let switch = world.nodes(NodeKind::Switch)[0];
    let places = [(switch, PortNum::ZERO), (last_host(&world), PortNum(1))];
    for (guid, (node, port)) in (0x5a01..).map(Guid).zip(places) {
        let standby = ForeignManager::new(guid, 1, SmState::Standby);
        world.add_foreign(node, port, standby);
    }
    world.count_requests();
    world.settle(LIMIT);
    assert!(is_master(&world, 0));
    let asked = |world: &World| {
        let requests = world.requests();
        [switch, last_host(world)].map(|node| requests.of(node, Method::GET, SmInfo::ID))
    };
    let before = asked(&world);
    assert!(before.iter().all(|&count| count > 0), "{before:?}");
    world.run_for(Duration::from_secs(25));
    let after = asked(&world);
    for (before, after) in before.into_iter().zip(after) {
        assert!(
            after >= before + 2,
            "two light sweeps ask: {before}, {after}"
        );
    }
}
