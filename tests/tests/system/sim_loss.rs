//! SMPs are lost, and the subnet still comes up.

use std::time::Duration;

use rsm_mad::wire::attr::PortState;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Silence;
use rsm_tests::virtual_time::{Settings, World, expect, seeds};

const LIMIT: Duration = Duration::from_secs(600);

/// Asserts that a subnet comes up without findings while packets are lost with the probability
/// `loss`.
fn comes_up_at_loss(loss: f64, spec: &str, seed: u64) {
    let settings = Settings {
        seed,
        kernel_timeouts: seed.is_multiple_of(2),
        ..Settings::default()
    };
    let mut world = World::generated(spec, settings);
    world.sim.set_loss(loss).unwrap();
    world.watch();
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    world.watched().assert_harmless();
}

#[test]
fn a_tree_and_a_torus_come_up_at_5_percent_loss() {
    seeds::run(
        "--test system sim_loss::a_tree_and_a_torus_come_up_at_5_percent_loss",
        40,
        |seed| {
            comes_up_at_loss(0.05, "fat-tree:k=4,levels=3", seed);
            comes_up_at_loss(0.05, "torus:3x3", seed);
        },
    );
}

#[test]
fn a_tree_and_a_ring_come_up_at_20_percent_loss() {
    seeds::run(
        "--test system sim_loss::a_tree_and_a_ring_come_up_at_20_percent_loss",
        40,
        |seed| {
            comes_up_at_loss(0.2, "fat-tree:k=4,levels=3", seed);
            comes_up_at_loss(0.2, "ring:6", seed);
        },
    );
}

#[test]
fn a_superpod_comes_up_at_5_percent_loss() {
    comes_up_at_loss(0.05, "superpod:su=1", 1);
}

/// Brings a fabric up while packets are lost with the probability `loss`. Returns the time until
/// its last port was Active and no work was left, and the number of SMPs that rsm sent.
fn bring_up_at(loss: f64, spec: &str) -> (Duration, u64) {
    let mut world = World::generated(spec, Settings::default());
    world.sim.set_loss(loss).unwrap();
    world.watch();
    world.settle(LIMIT);
    expect::assert_up(&world);
    world.watched().assert_harmless();
    let stats = world.manager().core().snapshot(world.now()).stats;
    let time = world.now().since(rsm_mad::Time::ZERO);
    (time, stats.sent_get + stats.sent_set)
}

/// Losses that do not depend on load neither shrink the window nor stretch timeouts.
/// `RSM_LOSS_FABRIC` names another fabric, for measurements only.
#[test]
fn at_random_loss_of_20_to_50_percent_rsm_sends_over_1000_smps_per_second() {
    let measured = std::env::var("RSM_LOSS_FABRIC");
    let spec = measured.as_deref().unwrap_or("fat-tree:k=8,levels=3");
    for (loss, limit, rate) in [
        (0.0, 1, 10_000.0),
        (0.2, 6, 1000.0),
        (0.35, 10, 1000.0),
        (0.5, 25, 1000.0),
    ] {
        let (time, smps) = bring_up_at(loss, spec);
        if measured.is_err() {
            assert!(time < Duration::from_secs(limit), "{loss}: {time:?}");
            assert!(
                smps as f64 / time.as_secs_f64() > rate,
                "{loss}: {smps} in {time:?}"
            );
        }
    }
}

/// Once the subnet is up, no finding is left.
#[test]
fn losses_are_a_finding_during_the_first_sweep() {
    let mut world = World::generated("fat-tree:k=8,levels=3", Settings::default());
    world.sim.set_loss(0.35).unwrap();
    let is_shown = world.run(world.now() + Duration::from_secs(2), |world| {
        let findings = world.manager().findings();
        findings.iter().any(|&(code, _)| code == "smp-loss")
    });
    assert!(is_shown, "{:?}", world.manager().findings());
    let snapshot = world.manager().snapshot().expect("it was published");
    let mut texts = snapshot.findings.iter().map(|finding| &finding.text);
    let text = texts
        .find(|text| text.contains("lost"))
        .expect("it names losses");
    assert!(text.contains(" % of the SMPs that port 1 of "), "{text}");
    world.sim.set_loss(0.0).unwrap();
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

/// The number of Active ports of the fabric.
fn active(world: &World) -> usize {
    let ports = expect::reach(world, &[]).links;
    let ends = ports.iter().flat_map(|&(a, b)| [a, b]);
    ends.filter(|&(guid, port)| {
        let info = world.sim.port_info(guid, port).expect("it is there");
        info.port_state() == PortState::Active
    })
    .count()
}

/// The switch forwards SMPs and answers none.
#[test]
fn a_silent_switch_delays_only_its_own_links() {
    let mut world = World::generated("fat-tree:k=4,levels=3", Settings::default());
    let (host, port) = world.manager().local(&world.sim).unwrap();
    let own_leaf = world.sim.peer(host, port).unwrap().unwrap().0;
    let silent = world
        .sim
        .nodes()
        .find(|&(guid, kind)| kind == NodeKind::Switch && guid != own_leaf)
        .unwrap()
        .0;
    world.sim.set_silence(silent, Silence::Answers).unwrap();
    world.run_for(Duration::from_secs(1));
    let ends = 2 * expect::reach(&world, &[]).links.len();
    let of_the_silent = 2 * usize::from(world.sim.num_ports(silent).unwrap());
    assert!(
        active(&world) >= ends - of_the_silent,
        "{} of {ends}",
        active(&world)
    );
    world.sim.set_silence(silent, Silence::None).unwrap();
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

/// Half of all packets are lost. The first hundred ports become Active before four fifths of the
/// bring-up are over.
#[test]
fn ports_become_active_before_the_end_of_a_lossy_sweep() {
    let mut world = World::generated("fat-tree:k=8,levels=3", Settings::default());
    world.sim.set_loss(0.5).unwrap();
    while active(&world) < 100 {
        world.run_for(Duration::from_millis(100));
    }
    let when = world.now();
    world.settle(LIMIT);
    let all = world.now().since(rsm_mad::Time::ZERO);
    let some = when.since(rsm_mad::Time::ZERO);
    assert!(some * 5 < all * 4, "{some:?} of {all:?}");
    expect::assert_up(&world);
}

/// Some answers come twice, and some come after their request has timed out.
#[test]
fn a_tree_comes_up_with_late_and_duplicate_answers() {
    seeds::run(
        "--test system sim_loss::a_tree_comes_up_with_late_and_duplicate_answers",
        20,
        |seed| {
            let settings = Settings {
                seed,
                kernel_timeouts: seed.is_multiple_of(2),
                ..Settings::default()
            };
            let mut world = World::generated("fat-tree:k=4,levels=3", settings);
            world.sim.set_late(0.1).unwrap();
            world.sim.set_duplicates(0.1).unwrap();
            world.watch();
            world.settle(LIMIT);
            expect::assert_up(&world);
            expect::assert_no_findings(&world);
            world.watched().assert_harmless();
        },
    );
}
