//! A wrong or forgotten M_Key is named within seconds, at every protection level, and the rest of
//! the subnet works.

use std::sync::Arc;
use std::time::Duration;

use rsm::core::Config;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_routing::netlist::NodeKind;
use rsm_tests::virtual_time::{Manager, Settings, World, expect};

const SPEC: &str = "fat-tree:k=4,levels=3";
const KEY: u64 = 0x00c0_ffee;

/// How soon the operator has to know.
const SECONDS: Duration = Duration::from_secs(8);

/// How soon `--once` has to end.
const ONCE: Duration = Duration::from_secs(40);

fn with_key(m_key: u64, protection: u8) -> Config {
    let mut config = Config::default();
    let policy = Arc::make_mut(&mut config.policy);
    policy.ports.m_key = m_key;
    policy.ports.m_key_protect = protection;
    config
}

/// Whether some finding names the option that helps.
fn names_the_remedy(manager: &Manager) -> bool {
    let snapshot = manager.snapshot();
    let mut findings = snapshot
        .iter()
        .flat_map(|snapshot| snapshot.findings.iter());
    findings.any(|finding| finding.text.contains("sm.m_key"))
}

/// What `--once` waits for: see `daemon::Shell::is_finished`.
fn is_finished(manager: &Manager) -> bool {
    let core = manager.core();
    let settled = core.is_settled() && core.history().next().is_some();
    settled || core.repairs() >= 3 && core.is_idle()
}

/// Runs until the last manager names the remedy, and until `--once` would end. Returns when that
/// was, after `from`.
fn told_and_finished(world: &mut World, limit: Duration) -> (Duration, Duration) {
    let from = world.now();
    let last = |world: &World| world.managers().len() - 1;
    let told = world.run(from + limit, |world| {
        names_the_remedy(&world.managers()[last(world)])
    });
    let when_told = world.now().since(from);
    let manager = &world.managers()[last(world)];
    assert!(
        told,
        "{:?} in {:?}",
        manager.findings(),
        manager.core().activity()
    );
    let finished = world.run(from + limit, |world| {
        is_finished(&world.managers()[last(world)])
    });
    assert!(
        finished,
        "--once hangs: {:?}",
        world.managers()[last(world)].core().activity()
    );
    (when_told, world.now().since(from))
}

fn hosts(world: &World) -> Vec<Guid> {
    let nodes = world.sim.nodes();
    nodes
        .filter(|&(_, kind)| kind == NodeKind::Ca)
        .map(|(guid, _)| guid)
        .collect()
}

#[test]
fn a_manager_without_the_key_of_the_one_before_says_so_at_every_protection_level() {
    for protection in 0..=3 {
        let settings = Settings {
            core: with_key(KEY, protection),
            ..Settings::default()
        };
        let mut world = World::brought_up(SPEC, settings);
        world.kill(0);
        let other = hosts(&world)[5];
        world.add_manager_with(other, PortNum(1), with_key(0, 0));
        let (told, _) = told_and_finished(&mut world, ONCE);
        assert!(told < SECONDS, "level {protection}: {told:?}");
        let sets = world.managers()[1]
            .core()
            .snapshot(world.now())
            .stats
            .sent_set;
        assert!(
            protection != 0 || sets == 0,
            "{sets} Sets to ports that show another key"
        );
    }
}

#[test]
fn a_leaf_that_ignores_all_is_named_where_nothing_else_answers() {
    for protection in [2, 3] {
        let mut world = World::generated(SPEC, Settings::default());
        let (host, port) = world.manager().local(&world.sim).unwrap();
        let leaf = world.sim.peer(host, port).unwrap().unwrap().0;
        world
            .sim
            .set_m_key(leaf, PortNum::ZERO, KEY, protection)
            .unwrap();
        let (told, _) = told_and_finished(&mut world, ONCE);
        assert!(told < SECONDS, "level {protection}: {told:?}");
        assert_key_named(&world);
    }
}

fn assert_key_named(world: &World) {
    let codes = world.manager().findings();
    let is_named = codes.iter().any(|(code, _)| *code == "m-key-mismatch");
    assert!(is_named, "{codes:?}");
}

/// One host keeps a key that nobody remembers; everybody else comes up, and the host is left as it
/// is.
#[test]
fn a_host_with_a_forgotten_key_is_named_and_holds_up_nobody() {
    for protection in [0, 1] {
        let mut world = World::generated(SPEC, Settings::default());
        let host = hosts(&world)[9];
        world
            .sim
            .set_m_key(host, PortNum(1), KEY, protection)
            .unwrap();
        let (told, _) = told_and_finished(&mut world, ONCE);
        assert!(told < SECONDS, "level {protection}: {told:?}");
        expect::assert_up_without(&world, &[host]);
        let state = world.sim.port_info(host, PortNum(1)).unwrap().port_state();
        assert_eq!(state, PortState::Init);
        assert_key_named(&world);
    }
}

#[test]
fn a_manager_with_the_right_key_finds_nothing_wrong() {
    for protection in 0..=3 {
        let settings = Settings {
            core: with_key(KEY, protection),
            ..Settings::default()
        };
        let mut world = World::brought_up(SPEC, settings);
        world.kill(0);
        let other = hosts(&world)[5];
        world.add_manager_with(other, PortNum(1), with_key(KEY, protection));
        world.settle(ONCE);
        assert_eq!(world.managers()[1].findings(), []);
    }
}
