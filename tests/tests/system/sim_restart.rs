//! The subnet manager dies and starts again: a start at rest sends no Set, and a start during a
//! bring-up does no harm.

use std::time::Duration;

use rsm_ids::Lid;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

/// Each LID in use, with the GUID of the node that holds it.
fn lids(world: &World) -> Vec<(Lid, u64)> {
    expect::reach(world, &[])
        .lids(&world.sim)
        .into_iter()
        .map(|(lid, (guid, _))| (lid, guid.0))
        .collect()
}

fn restart_from_idle(spec: &str, memory: Memory) {
    let mut world = World::brought_up(spec, Settings::default());
    let before = lids(&world);
    let sets = expect::sets(&world.sim.counters());
    world.kill(0);
    world.run_for(Duration::from_secs(3));
    world.start(0, memory);
    world.settle(LIMIT);
    assert_eq!(
        expect::sets(&world.sim.counters()),
        sets,
        "{spec}, memory {memory:?}: nothing is set"
    );
    assert_eq!(lids(&world), before);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn a_restart_from_idle_sets_nothing() {
    for spec in [
        "ring:5",
        "superpod:su=1",
        "torus:3x3x2",
        "fat-tree:k=6,levels=3,faults=links:10%,switches:1,seed=4",
        "random:switches=24,degree=4,hosts=2,seed=9",
    ] {
        restart_from_idle(spec, Memory::Kept);
        restart_from_idle(spec, Memory::Lost);
    }
}

/// Restarts the manager while a cable is missing, when the time `after` has passed since the repair
/// of the routes, and asserts that no Set is sent.
fn restart_beside_a_fault(spec: &str, after: Duration, memory: Memory) {
    let mut world = World::brought_up(spec, Settings::default());
    let snapshot = world.manager().snapshot().expect("it is up");
    let plan = snapshot.plan.as_ref().expect("it is routed");
    let (node, port) = plan.topology.cables()[plan.topology.link_count() / 3].a;
    world.sim.unlink(node, port).expect("there is a cable");
    world.settle(LIMIT);
    world.run_for(after);
    world.settle(LIMIT);
    let sets = expect::sets(&world.sim.counters());
    world.kill(0);
    world.run_for(Duration::from_secs(3));
    world.start(0, memory);
    world.settle(LIMIT);
    // Rebalancing that has ended does not begin again.
    world.run_for(after);
    world.settle(LIMIT);
    assert_eq!(
        expect::sets(&world.sim.counters()),
        sets,
        "{spec} after {after:?}, memory {memory:?}: nothing is set"
    );
    expect::assert_up(&world);
}

#[test]
fn a_restart_while_a_cable_is_missing_sets_nothing() {
    for spec in [
        "superpod:su=1",
        "fat-tree:k=6,levels=3",
        "pgft:2;16,8;1,4;1,2",
    ] {
        // Rebalancing begins after half a minute, and its steps follow each other.
        for after in [Duration::ZERO, Duration::from_secs(60)] {
            restart_beside_a_fault(spec, after, Memory::Kept);
            restart_beside_a_fault(spec, after, Memory::Lost);
        }
    }
}

/// The manager is killed repeatedly during bring-up, each time a little later.
#[test]
fn kills_during_bring_up_do_no_harm() {
    for memory in [Memory::Kept, Memory::Lost] {
        for step in 1..40 {
            let mut world = World::generated("fat-tree:k=4,levels=3", Settings::default());
            world.watch();
            let pause = Duration::from_micros(150) * step;
            for _ in 0..4 {
                world.run_for(pause);
                world.kill(0);
                world.run_for(Duration::from_micros(step.into()));
                world.start(0, memory);
            }
            world.settle(LIMIT);
            expect::assert_up(&world);
            expect::assert_no_findings(&world);
            world.watched().assert_harmless();
        }
    }
}

#[test]
fn a_subnet_comes_up_after_its_manager_was_killed_while_planning() {
    let settings = Settings {
        planning_time: Duration::from_secs(1),
        ..Settings::default()
    };
    let mut world = World::generated("ring:4", settings);
    world.run_for(Duration::from_millis(500));
    world.kill(0);
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}
