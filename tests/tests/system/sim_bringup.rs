//! From power-on to a subnet in which every host reaches every other host.

use std::time::Duration;

use rsm_core::Event;
use rsm_ids::{Guid, Lid, Lmc};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::policy::Policy;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Habit;
use rsm_state::{Activity, Command};
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

/// Asserts that the subnet comes up without a redundant Set, and that a second full sweep sends no
/// Set.
fn comes_up_with_the_fewest_sets(spec: &str) {
    let mut world = World::generated(spec, Settings::default());
    world.watch();
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    world.watched().assert_harmless();

    let reach = expect::reach(&world, &[]);
    let counters = world.sim.counters();
    let switches = reach
        .end_ports
        .iter()
        .filter(|(_, port)| port.0 == 0)
        .count();
    // Each end of a link gets one Set that arms it with its settings, and one Set that activates
    // it; port 0 of a switch gets one Set.
    assert_eq!(
        counters.received(AttrId::PORT_INFO, Method::SET) as usize,
        4 * reach.links.len() + switches,
        "PortInfo Sets for {} links and {switches} switches",
        reach.links.len()
    );
    assert_eq!(
        counters.received(AttrId::SWITCH_INFO, Method::SET) as usize,
        switches
    );
    let top = reach.lids(&world.sim).last().map_or(0, |_| {
        let plan = world.manager().core().plan().expect("there is a plan");
        plan.blocks()
    });
    assert_eq!(
        counters.received(AttrId::LINEAR_FORWARDING_TABLE, Method::SET) as usize,
        switches * top,
        "each block once"
    );

    world.command(Command::Resweep {
        full: true,
        ticket: 7,
    });
    world.settle(LIMIT);
    assert_eq!(
        expect::sets(&world.sim.counters()),
        expect::sets(&counters),
        "a full sweep sets nothing"
    );
    assert_eq!(world.manager().done().back(), Some(&7));
}

/// The LIDs of Active hosts that the SA does not know.
fn unknown_to_the_sa(world: &World) -> Vec<Lid> {
    let ends = world.sim.end_ports().filter(|&(_, port)| port.0 != 0);
    let infos = ends.filter_map(|(node, port)| world.sim.port_info(node, port).ok());
    let directory = world.manager().sa_snapshot().directory();
    infos
        .filter(|info| info.port_state() == PortState::Active)
        .map(|info| info.lid())
        .filter(|&lid| directory.and_then(|known| known.by_lid(lid)).is_none())
        .collect()
}

/// Runs until the world is at rest, and asserts that the SA knows every Active host at every
/// moment.
fn settle_with_all_hosts_known(world: &mut World) {
    let limit = world.now() + LIMIT;
    world.run(limit, |world| {
        !unknown_to_the_sa(world).is_empty() || world.is_quiet()
    });
    assert_eq!(unknown_to_the_sa(world), []);
    assert!(world.is_quiet());
    expect::assert_up(world);
}

#[test]
fn the_sa_knows_every_host_before_its_port_goes_active() {
    let mut world = World::generated("fat-tree:k=4,levels=3", Settings::default());
    world.keep_sa_snapshot();
    let hosts = world.sim.end_ports().filter(|&(_, port)| port.0 != 0);
    let (node, port) = hosts.last().expect("there are hosts");
    world.sim.unlink(node, port).expect("it is cabled");
    settle_with_all_hosts_known(&mut world);

    // The SA knows a later host equally early.
    world.sim.relink(node, port).expect("its cable is there");
    settle_with_all_hosts_known(&mut world);
    let lid = world.sim.port_info(node, port).unwrap().lid();
    let directory = world.manager().sa_snapshot().directory();
    assert!(directory.unwrap().by_lid(lid).is_some());
}

#[test]
fn a_ring_comes_up_with_the_fewest_sets() {
    comes_up_with_the_fewest_sets("ring:4");
}

#[test]
fn a_superpod_comes_up_with_the_fewest_sets() {
    comes_up_with_the_fewest_sets("superpod:su=1");
}

#[test]
fn a_fat_tree_comes_up_with_the_fewest_sets() {
    comes_up_with_the_fewest_sets("fat-tree:k=8,levels=3");
}

#[test]
fn a_tree_with_parallel_cables_comes_up_with_the_fewest_sets() {
    comes_up_with_the_fewest_sets("pgft:2;4,4;1,2;1,2");
}

#[test]
fn a_torus_comes_up_with_the_fewest_sets() {
    comes_up_with_the_fewest_sets("torus:4x4x2");
}

#[test]
fn a_dragonfly_comes_up_with_the_fewest_sets() {
    comes_up_with_the_fewest_sets("dragonfly+:groups=3,leaves=2,spines=2,hosts=2");
}

#[test]
fn a_random_graph_comes_up_with_the_fewest_sets() {
    comes_up_with_the_fewest_sets("random:switches=20,degree=4,hosts=2,seed=3");
}

#[test]
fn fabrics_with_missing_links_and_switches_come_up_with_the_fewest_sets() {
    for seed in 0..5 {
        comes_up_with_the_fewest_sets(&format!(
            "fat-tree:k=6,levels=3,faults=links:10%,switches:2,seed={seed}"
        ));
        comes_up_with_the_fewest_sets(&format!("torus:4x4,faults=links:5,seed={seed}"));
    }
}

#[test]
fn an_lmc_above_zero_gives_every_host_port_its_lids() {
    for lmc in 1..=3 {
        let mut settings = Settings::default();
        settings.core.policy = std::sync::Arc::new(Policy {
            lmc: Lmc::new(lmc).expect("it is in range"),
            ..Policy::default()
        });
        let mut world = World::generated("fat-tree:k=4,levels=3", settings);
        world.watch();
        world.settle(LIMIT);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        world.watched().assert_harmless();
        let reach = expect::reach(&world, &[]);
        let hosts = reach
            .end_ports
            .iter()
            .filter(|(_, port)| port.0 != 0)
            .count();
        let switches = reach.end_ports.len() - hosts;
        assert_eq!(
            reach.lids(&world.sim).len(),
            (hosts << lmc) + switches,
            "LMC {lmc}"
        );
    }
}

/// Some switches need 40 ms for an answer, stop for 3 s, or drop bursts. The other nodes are up
/// within 2 s, and fewer than a fifth of all requests are repeated.
#[test]
fn slow_switches_delay_only_themselves() {
    for habit in [Habit::SlowProcessor, Habit::Pauses, Habit::SmallBuffer] {
        let mut world = World::generated("fat-tree:k=4,levels=3", Settings::default());
        let (host, port) = world.manager().local(&world.sim).unwrap();
        let own_leaf = world.sim.peer(host, port).unwrap().unwrap().0;
        let switches = world
            .sim
            .nodes()
            .filter(|&(guid, kind)| kind == NodeKind::Switch && guid != own_leaf);
        let slow: Vec<Guid> = switches.map(|(guid, _)| guid).step_by(7).collect();
        for &guid in &slow {
            world.sim.set_personality(guid, habit.into()).unwrap();
        }
        world.watch();
        world.run_for(Duration::from_secs(2));
        let others = expect::reach(&world, &slow);
        let inactive = expect::inactive(&world.sim, &others);
        assert_eq!(inactive, Vec::<String>::new(), "{habit:?}");
        world.settle(Duration::from_secs(60));
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        world.watched().assert_harmless();
        let stats = world.manager().core().snapshot(world.now()).stats;
        let sent = stats.sent_get + stats.sent_set;
        assert!(
            stats.retries * 5 < sent,
            "{habit:?}: {} of {sent}",
            stats.retries
        );
        assert_eq!(stats.timeout, Duration::from_millis(25), "{habit:?}");
    }
}

#[test]
fn a_finding_during_a_light_sweep_does_not_leave_the_subnet_converging() {
    let mut world = World::generated("fat-tree:k=4,levels=2", Settings::default());
    world.settle(LIMIT);
    let is_reading = |world: &World| world.manager().core().snapshot(world.now()).converging;
    let mut steps = 0;
    while !is_reading(&world) {
        world.run_for(Duration::from_micros(50));
        steps += 1;
        assert!(steps < 1_000_000, "no light sweep came");
    }
    let convergences = world.manager().convergences().len();
    let text = "a line of the configuration cannot be read".to_owned();
    let kind = FindingKind::ConfigRefused;
    let finding = Finding::new(kind, Subject::Subnet, Severity::Warning, text);
    world.event(Event::Refused(vec![finding]));
    world.run_for(Duration::from_micros(1));
    let shown = |world: &World| world.manager().snapshot().unwrap().converging;
    assert!(shown(&world), "the finding is told within the sweep");
    world.run_for(Duration::from_secs(5));
    assert!(!shown(&world), "the sweep is over");
    assert_eq!(
        world.manager().convergences().len(),
        convergences,
        "the sweep found no change"
    );
}

#[test]
fn a_pause_during_the_push_does_not_end_the_bring_up() {
    let mut world = World::generated("fat-tree:k=4,levels=2", Settings::default());
    let limit = world.now() + LIMIT;
    let is_pushing = |world: &World| {
        let core = world.manager().core();
        matches!(core.activity(), Activity::Pushing { done: 20.., .. })
    };
    assert!(world.run(limit, is_pushing), "it pushes");
    world.pause_for(0, Duration::from_secs(1));
    world.run_for(Duration::from_millis(1100));
    // `rsm --once` ends under the same condition.
    let is_finished = |world: &World| {
        let core = world.manager().core();
        core.is_settled() && !core.is_inquiring() && core.history().next().is_some()
    };
    assert!(world.run(limit, is_finished), "it ends");
    expect::assert_up(&world);
}
