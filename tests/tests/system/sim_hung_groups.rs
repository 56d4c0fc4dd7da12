//! Multicast groups beside a switch whose agent hangs: it answers nothing, and forwards as before.

use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_plan::policy::Policy;
use rsm_routing::engine::EngineKind;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Silence;
use rsm_tests::virtual_time::{Dice, Settings, World, expect, seeds};

use crate::sim_multicast::{FABRICS, assert_delivered, cables, hosts, join, schedule_step};

const LIMIT: Duration = Duration::from_secs(600);
const MLID: Lid = Lid(0xC001);

/// The time in which changes beside a hung switch come into force.
const WITHIN: Duration = Duration::from_secs(10);

/// A member below the hung leaf leaves, and its port stays in the mask of the leaf.
#[test]
fn leave_below_a_hung_leaf_keeps_nobody_out_of_the_group() {
    let mut world = World::brought_up("fat-tree:k=4,levels=2", Settings::default());
    let own = world.manager().local(&world.sim).unwrap().0;
    let leaf_of = |world: &World, (host, port)| world.sim.peer(host, port).unwrap().unwrap().0;
    let hosts = hosts(&world);
    let own = hosts.iter().find(|(_, at)| at.0 == own).unwrap().1;
    let own = leaf_of(&world, own);
    let (leaving, hung) = hosts
        .iter()
        .map(|&(guid, at)| (guid, leaf_of(&world, at)))
        .find(|&(_, leaf)| leaf != own)
        .unwrap();
    let others = hosts.iter().filter(|(_, at)| leaf_of(&world, *at) != hung);
    let others: Vec<_> = others.copied().collect();
    let (newcomer, members) = others.split_last().unwrap();
    join(&mut world, MLID, members);
    world.regroup(MLID, |ports| {
        ports.insert(leaving, true);
    });
    world.settle(LIMIT);

    world.sim.set_silence(hung, Silence::Answers).unwrap();
    world.regroup(MLID, |ports| {
        ports.remove(&leaving);
    });
    world.run_for(WITHIN);
    join(&mut world, MLID, &[*newcomer]);
    world.run_for(WITHIN);

    let (_, sender) = members[0];
    let probe = world.sim.probe_multicast(sender, MLID, 0).unwrap();
    assert!(probe.delivered.contains_key(&newcomer.1), "{probe:?}");
    world.sim.set_silence(hung, Silence::None).unwrap();
    world.settle(LIMIT);
    assert_delivered(&world);
    expect::assert_no_findings(&world);
}

/// The number of pairs of hosts whose packets do not arrive after a cable is lost beside a hung
/// switch, with or without a group of all hosts.
fn lost_pairs((spec, engine): (&str, EngineKind), hung: usize, has_group: bool) -> usize {
    let policy = Policy {
        engine,
        engines: vec![engine],
        ..Policy::default()
    };
    let mut world = World::brought_up(spec, Settings::of(policy));
    if has_group {
        let hosts = hosts(&world);
        join(&mut world, MLID, &hosts);
        world.settle(LIMIT);
    }
    world.watch();
    let switches: Vec<Guid> = world.nodes(NodeKind::Switch).into_iter().collect();
    let hung = switches[hung];
    world.sim.set_silence(hung, Silence::Answers).unwrap();
    let is_near = |world: &World, (switch, port)| {
        let (peer, _) = world.sim.peer(switch, port).unwrap().unwrap();
        [switch, peer].contains(&hung)
    };
    let elsewhere = cables(&world).into_iter().find(|&at| !is_near(&world, at));
    let (switch, port) = elsewhere.unwrap();
    world.sim.unlink(switch, port).unwrap();
    world.run_for(WITHIN);
    let ends: Vec<_> = hosts(&world).into_iter().map(|(_, at)| at).collect();
    let lids = ends
        .iter()
        .map(|&(host, port)| world.sim.port_info(host, port).unwrap().lid());
    let lids: Vec<Lid> = lids.collect();
    let arrives = |from: usize, to: usize| {
        world
            .sim
            .probe(ends[from], lids[to], 0)
            .unwrap()
            .is_delivered()
    };
    let pairs = (0..ends.len()).flat_map(|from| (0..ends.len()).map(move |to| (from, to)));
    let lost = pairs
        .filter(|&(from, to)| from != to && !arrives(from, to))
        .count();
    world.sim.set_silence(hung, Silence::None).unwrap();
    world.settle(LIMIT);
    expect::assert_up(&world);
    world.watched().assert_harmless();
    lost
}

#[test]
fn change_beside_a_hung_switch_serves_as_many_pairs_with_groups() {
    let random = "random:switches=12,degree=4,hosts=1";
    let torus = "torus:4x3,hosts=1";
    for fabric in [(torus, EngineKind::Nue), (random, EngineKind::Nue)] {
        for hung in 0..6 {
            let [without, with] = [false, true].map(|group| lost_pairs(fabric, hung, group));
            assert!(
                with <= without,
                "{fabric:?}, switch {hung}: {without}, {with}"
            );
        }
    }
}

/// Joins, leaves and lost cables while one switch hangs, and when it answers again: no mixture of
/// its tables and those of the others closes a loop.
fn change_beside_a_hung_switch(seed: u64) {
    let mut dice = Dice::new(seed ^ 0x6875_6E67);
    let engine = dice.pick(&[EngineKind::Auto, EngineKind::Nue]);
    let policy = Policy {
        engine,
        engines: vec![engine],
        ..Policy::default()
    };
    let settings = Settings {
        seed,
        ..Settings::of(policy)
    };
    let mut world = World::brought_up(dice.pick(&FABRICS), settings);
    world.watch();
    let hosts = hosts(&world);
    join(&mut world, MLID, &hosts);
    world.settle(LIMIT);
    let switches: Vec<Guid> = world.nodes(NodeKind::Switch).into_iter().collect();
    let hung = dice.pick(&switches);
    world.sim.set_silence(hung, Silence::Answers).unwrap();
    let cables = cables(&world);
    for _ in 0..1 + dice.below(4) {
        let within = Duration::from_secs(3);
        for _ in 0..dice.below(4) {
            let delay = dice.duration(Duration::from_millis(1), within);
            schedule_step(&mut world, &hosts, delay, &mut dice);
        }
        let (switch, port) = dice.pick(&cables);
        let delay = dice.duration(Duration::from_millis(1), within);
        let back = delay + dice.duration(Duration::from_millis(1), within);
        world.schedule(delay, move |world| {
            // Two faults may choose the same cable.
            let _ = world.sim.unlink(switch, port);
        });
        world.schedule(back, move |world| {
            let _ = world.sim.relink(switch, port);
        });
        world.run_for(2 * within);
    }
    world.sim.set_silence(hung, Silence::None).unwrap();
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_delivered(&world);
    world.watched().assert_harmless();
}

#[test]
fn random_changes_beside_a_hung_switch_close_no_loop() {
    let test = "random_changes_beside_a_hung_switch_close_no_loop";
    let test = format!("--test system sim_hung_groups::{test}");
    let count = seeds::number("RSM_SEEDS").unwrap_or(100);
    seeds::run(&test, count, change_beside_a_hung_switch);
}
