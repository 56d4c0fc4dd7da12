//! A link or a switch comes back while hosts use the fabric: no packet is lost, and no SMP is sent
//! twice.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_routing::netlist::NodeKind;
use rsm_sim::Silence;
use rsm_tests::virtual_time::{Dice, Settings, World, expect, seeds};

/// The maximum time until the subnet is at rest: the subnet manager queries a switch without power
/// over each of its cables, with timeouts.
const LIMIT: Duration = Duration::from_secs(600);

type End = (Guid, PortNum);

fn switches(world: &World) -> BTreeSet<Guid> {
    world.nodes(NodeKind::Switch).into_iter().collect()
}

/// The cables between two switches.
fn cables(world: &World) -> Vec<(End, End)> {
    let switches = switches(world);
    expect::reach(world, &[])
        .links
        .into_iter()
        .filter(|(a, b)| switches.contains(&a.0) && switches.contains(&b.0))
        .collect()
}

/// Runs `come_back`, and asserts that no packet between hosts is lost and no SMP is sent twice
/// until the subnet is at rest.
///
/// Packets from hosts to switches are not lost either, unless the earlier routes follow no order of
/// the switches, as after the loss of a link next to the switches that connect the roots.
fn assert_comes_back_unnoticed(world: &mut World, what: &str, come_back: impl FnOnce(&mut World)) {
    world.follow_deliveries();
    let plan = world.manager().core().plan().unwrap();
    let ranking = plan.routing.ranking.as_ref();
    // Between two orders, packets of switches' own ports may wait for entries.
    let follows = plan.follows_ranking && ranking.is_some_and(|ranking| !ranking.is_interim);
    let before = world.manager().convergences().len();
    come_back(world);
    world.settle(LIMIT);
    let retries: u64 = world.manager().convergences()[before..]
        .iter()
        .map(|convergence| convergence.retries)
        .sum();
    assert!(world.deliveries().followed() > 0, "{what}: tables changed");
    world.deliveries().assert_nothing_lost_to_hosts();
    if follows {
        world.deliveries().assert_nothing_lost();
    }
    assert_eq!(retries, 0, "{what}");
}

/// Disconnects each of these cables, and reconnects it when the subnet is at rest.
fn reconnect_one_by_one(world: &mut World, cables: &[(End, End)]) {
    for &(a, b) in cables {
        world.schedule(Duration::ZERO, move |world| {
            world.sim.unlink(a.0, a.1).unwrap();
        });
        world.settle(LIMIT);
        let what = format!("{} port {} to {} port {}", a.0, a.1, b.0, b.1);
        assert_comes_back_unnoticed(world, &what, |world| {
            world.schedule(Duration::ZERO, move |world| {
                world.sim.relink(a.0, a.1).unwrap();
            });
        });
    }
    expect::assert_up(world);
    expect::assert_no_findings(world);
}

#[test]
fn every_cable_of_a_small_tree_comes_back_without_loss() {
    for spec in ["fat-tree:k=4,levels=3", "pgft:2;4,4;1,2;1,2"] {
        let mut world = World::brought_up(spec, Settings::default());
        let cables = cables(&world);
        reconnect_one_by_one(&mut world, &cables);
        world.watched().assert_harmless();
    }
}

#[test]
fn every_cable_of_a_tree_of_three_levels_comes_back_without_loss() {
    let mut world = World::generated("fat-tree:k=8,levels=3", Settings::default());
    world.settle(LIMIT);
    let cables = cables(&world);
    assert_eq!(cables.len(), 256);
    reconnect_one_by_one(&mut world, &cables);
}

#[test]
fn cables_that_come_back_together_close_no_loop() {
    seeds::run(
        "--test system sim_relink::cables_that_come_back_together",
        40,
        |seed| {
            let mut dice = Dice::new(seed);
            let mut world = World::brought_up("fat-tree:k=4,levels=3", Settings::default());
            let cables = cables(&world);
            let count = 2 + dice.below(4);
            let gone: BTreeSet<End> = (0..count).map(|_| dice.pick(&cables).0).collect();
            for &(guid, port) in &gone {
                world.schedule(Duration::ZERO, move |world| {
                    world.sim.unlink(guid, port).unwrap();
                });
            }
            world.settle(LIMIT);
            for &(guid, port) in &gone {
                let delay = dice.duration(Duration::from_micros(10), Duration::from_millis(20));
                world.schedule(delay, move |world| {
                    world.sim.relink(guid, port).unwrap();
                });
            }
            world.settle(LIMIT);
            expect::assert_up(&world);
            world.watched().assert_harmless();
        },
    );
}

#[test]
fn a_link_whose_end_falls_silent_comes_back_without_loss() {
    seeds::run(
        "--test system sim_relink::a_link_whose_end_falls_silent",
        40,
        |seed| {
            let mut dice = Dice::new(seed);
            let mut world = World::brought_up("fat-tree:k=4,levels=3", Settings::default());
            let (a, b) = dice.pick(&cables(&world));
            world.schedule(Duration::ZERO, move |world| {
                world.sim.unlink(a.0, a.1).unwrap();
            });
            world.settle(LIMIT);
            let silence = dice.duration(Duration::from_micros(10), Duration::from_millis(5));
            world.follow_deliveries();
            world.schedule(Duration::ZERO, move |world| {
                world.sim.relink(a.0, a.1).unwrap();
            });
            world.schedule(silence, move |world| {
                world.sim.set_silence(b.0, Silence::Answers).unwrap();
            });
            world.schedule(silence + Duration::from_secs(2), move |world| {
                world.sim.set_silence(b.0, Silence::None).unwrap();
            });
            world.settle(LIMIT);
            world.deliveries().assert_nothing_lost_to_hosts();
            expect::assert_up(&world);
            world.watched().assert_harmless();
        },
    );
}

#[test]
fn a_switch_comes_back_without_loss_to_others() {
    let mut world = World::brought_up("fat-tree:k=4,levels=3", Settings::default());
    let own = world.manager().local(&world.sim).unwrap();
    let own_leaf = world.sim.peer(own.0, own.1).unwrap().unwrap().0;
    for switch in switches(&world) {
        if switch == own_leaf {
            continue;
        }
        world.schedule(Duration::ZERO, move |world| {
            world.sim.power_off(switch).unwrap();
        });
        world.settle(LIMIT);
        assert_comes_back_unnoticed(&mut world, &format!("{switch}"), |world| {
            world.schedule(Duration::ZERO, move |world| {
                world.sim.power_on(switch).unwrap();
            });
        });
        expect::assert_up(&world);
    }
    world.watched().assert_harmless();
}

#[test]
#[ignore = "a hundred cables of 3,456 hosts: some minutes"]
fn a_hundred_cables_of_a_large_tree_come_back_without_loss() {
    let mut world = World::generated("fat-tree:k=24,levels=3", Settings::default());
    world.settle(LIMIT);
    let all = cables(&world);
    let mut dice = Dice::new(24);
    let some: Vec<_> = (0..100).map(|_| dice.pick(&all)).collect();
    reconnect_one_by_one(&mut world, &some);
}
