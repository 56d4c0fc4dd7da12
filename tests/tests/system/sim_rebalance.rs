//! Rebalancing takes load off the fullest links when a fault stays; other changes come first.

use std::time::Duration;

use rsm_core::CoreConfig;
use rsm_ids::{Guid, PortNum};
use rsm_plan::policy::RebalancePolicy;
use rsm_routing::tables::Tables;
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

/// A fabric with two cables from each leaf to each spine.
const TREE: &str = "pgft:2;16,8;1,4;1,2";

/// The age of a fault at which rebalancing begins.
const FAULT_AGE: Duration = Duration::from_secs(30);

/// The cause that convergences name.
const CAUSE: &str = "load taken off the fullest links";

fn world(rebalance: RebalancePolicy) -> World {
    let settings = Settings {
        core: CoreConfig {
            rebalance,
            ..CoreConfig::default()
        },
        ..Settings::default()
    };
    let mut world = World::brought_up(TREE, settings);
    world.watch();
    world
}

/// The maximum link load of the plan in force.
fn max_load(world: &World) -> u64 {
    let snapshot = world.manager().snapshot().expect("it is up");
    snapshot
        .plan
        .as_ref()
        .expect("it is routed")
        .report
        .load
        .max
}

fn tables(world: &World) -> Tables {
    let snapshot = world.manager().snapshot().expect("it is up");
    let plan = snapshot.plan.as_ref().expect("it is routed");
    plan.routing.tables.clone()
}

/// The number of blocks that each step has written so far.
fn steps(world: &World) -> Vec<u64> {
    let all = world.manager().convergences().iter();
    all.filter(|one| one.cause == CAUSE)
        .map(|one| one.lft_blocks)
        .collect()
}

/// The cables between switches, each by one of its ends.
fn cables(world: &World) -> Vec<(Guid, PortNum)> {
    let reach = expect::reach(world, &[]);
    let snapshot = world.manager().snapshot().expect("it is up");
    let topology = &snapshot.plan.as_ref().expect("it is routed").topology;
    let is_switch = |guid: Guid| topology.switch_by_guid(guid).is_some();
    let links = reach.links.iter();
    links
        .filter(|(a, b)| is_switch(a.0) && is_switch(b.0))
        .map(|&(a, _)| a)
        .collect()
}

#[test]
fn a_lasting_fault_is_rebalanced_in_small_steps_and_its_end_restores_the_tables() {
    const BLOCKS: usize = 3;
    let mut world = world(RebalancePolicy {
        after: FAULT_AGE,
        blocks: BLOCKS,
    });
    let (usual, before) = (max_load(&world), tables(&world));
    let (node, port) = cables(&world)[11];
    world.sim.unlink(node, port).expect("there is a cable");
    world.settle(LIMIT);
    let repaired = max_load(&world);
    assert!(repaired > usual * 3 / 2, "{repaired} after {usual}");
    world.run_for(FAULT_AGE / 2);
    assert_eq!(steps(&world), Vec::<u64>::new(), "it may come back yet");
    world.run_for(FAULT_AGE);
    world.settle(LIMIT);
    let step_sizes = steps(&world);
    assert!(step_sizes.len() > 1, "{step_sizes:?}");
    let is_small = |&blocks: &u64| (1..=BLOCKS as u64).contains(&blocks);
    assert!(step_sizes.iter().all(is_small), "{step_sizes:?}");
    let rebalanced = max_load(&world);
    assert!(
        rebalanced < repaired * 3 / 4,
        "{rebalanced} of {repaired} after {usual}"
    );
    expect::assert_up(&world);
    // After that, no Set follows.
    let sets = expect::sets(&world.sim.counters());
    world.run_for(FAULT_AGE * 4);
    assert_eq!(steps(&world), step_sizes);
    assert_eq!(expect::sets(&world.sim.counters()), sets);
    world.sim.relink(node, port).expect("there is a cable");
    world.settle(LIMIT);
    world.run_for(FAULT_AGE * 2);
    assert_eq!(tables(&world), before);
    assert_eq!(steps(&world), step_sizes);
    expect::assert_up(&world);
    world.watched().assert_harmless();
}

#[test]
fn faults_between_and_within_rebalancing_steps_leave_the_subnet_up() {
    let mut world = world(RebalancePolicy {
        after: FAULT_AGE,
        blocks: 2,
    });
    let cables = cables(&world);
    for &(node, port) in cables.iter().step_by(9).take(5) {
        world.sim.unlink(node, port).expect("there is a cable");
        // Some changes come between two steps, some within a step.
        world.run_for(FAULT_AGE + Duration::from_millis(1500));
        expect::assert_up(&world);
    }
    assert!(!steps(&world).is_empty());
    for &(node, port) in cables.iter().step_by(9).take(5) {
        world.sim.relink(node, port).expect("there is a cable");
    }
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    world.watched().assert_harmless();
}

#[test]
fn rebalance_after_zero_disables_rebalancing() {
    let mut world = world(RebalancePolicy {
        after: Duration::ZERO,
        ..RebalancePolicy::default()
    });
    let (node, port) = cables(&world)[11];
    world.sim.unlink(node, port).expect("there is a cable");
    world.settle(LIMIT);
    let repaired = max_load(&world);
    world.run_for(FAULT_AGE * 10);
    assert_eq!(steps(&world), Vec::<u64>::new());
    assert_eq!(max_load(&world), repaired);
}
