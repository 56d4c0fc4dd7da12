//! A wrong or forgotten M_Key becomes a finding within seconds, at every protection level, and the
//! other ports work.

use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::MKeyPolicy;
use rsm_core::CoreConfig;
use rsm_ids::PortNum;
use rsm_mad::wire::attr::PortState;
use rsm_routing::netlist::NodeKind;
use rsm_tests::virtual_time::{Manager, Settings, World, expect};

const SPEC: &str = "fat-tree:k=4,levels=3";
const KEY: u64 = 0x00c0_ffee;

/// The maximum time until the finding.
const TIME_TO_FINDING: Duration = Duration::from_secs(8);

/// The maximum time until `--once` ends.
const TIME_TO_END: Duration = Duration::from_secs(40);

/// A configuration with the same M_Key and protection level for all ports.
fn with_key(m_key: u64, protection: u8) -> CoreConfig {
    let mut config = CoreConfig::default();
    let policy = Arc::make_mut(&mut config.policy);
    policy.ports.m_keys = MKeyPolicy::one(m_key);
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

/// The end condition of `--once`, as in `daemon::Shell::is_finished`.
fn is_finished(manager: &Manager) -> bool {
    let core = manager.core();
    let settled = core.is_settled() && core.history().next().is_some();
    settled || core.repairs() >= 3 && core.is_idle()
}

/// Runs until the last manager names the remedy, and then until `--once` would end. Returns both
/// times, measured from the start of the run.
fn times_to_finding_and_end(world: &mut World, limit: Duration) -> (Duration, Duration) {
    let from = world.now();
    let last = |world: &World| world.managers().len() - 1;
    let is_named = world.run(from + limit, |world| {
        names_the_remedy(&world.managers()[last(world)])
    });
    let time_to_finding = world.now().since(from);
    let manager = &world.managers()[last(world)];
    assert!(
        is_named,
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
    (time_to_finding, world.now().since(from))
}

/// A subnet with the M_Key [`KEY`] whose manager has died, and a second manager with the
/// configuration `successor`.
fn with_successor(protection: u8, successor: CoreConfig) -> World {
    let settings = Settings {
        core: with_key(KEY, protection),
        ..Settings::default()
    };
    let mut world = World::brought_up(SPEC, settings);
    world.kill(0);
    let other = world.nodes(NodeKind::Ca)[5];
    world.add_manager_with(other, PortNum(1), successor);
    world
}

#[test]
fn a_missing_m_key_is_a_finding_at_every_protection_level() {
    for protection in 0..=3 {
        let mut world = with_successor(protection, with_key(0, 0));
        let (found_after, _) = times_to_finding_and_end(&mut world, TIME_TO_END);
        assert!(
            found_after < TIME_TO_FINDING,
            "level {protection}: {found_after:?}"
        );
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
fn a_leaf_that_ignores_requests_without_its_m_key_is_a_finding() {
    for protection in [2, 3] {
        let mut world = World::generated(SPEC, Settings::default());
        let (host, port) = world.manager().local(&world.sim).unwrap();
        let leaf = world.sim.peer(host, port).unwrap().unwrap().0;
        world
            .sim
            .set_m_key(leaf, PortNum::ZERO, KEY, protection)
            .unwrap();
        let (found_after, _) = times_to_finding_and_end(&mut world, TIME_TO_END);
        assert!(
            found_after < TIME_TO_FINDING,
            "level {protection}: {found_after:?}"
        );
        assert_key_named(&world);
    }
}

/// Asserts that a finding is about an M_Key that does not match.
fn assert_key_named(world: &World) {
    let codes = world.manager().findings();
    let is_named = codes.iter().any(|(code, _)| *code == "m-key-mismatch");
    assert!(is_named, "{codes:?}");
}

/// One host keeps a forgotten M_Key; all other nodes come up, and the host stays unchanged.
#[test]
fn a_host_with_a_forgotten_m_key_is_a_finding_and_delays_no_other_host() {
    for protection in [0, 1] {
        let mut world = World::generated(SPEC, Settings::default());
        let host = world.nodes(NodeKind::Ca)[9];
        world
            .sim
            .set_m_key(host, PortNum(1), KEY, protection)
            .unwrap();
        let (found_after, _) = times_to_finding_and_end(&mut world, TIME_TO_END);
        assert!(
            found_after < TIME_TO_FINDING,
            "level {protection}: {found_after:?}"
        );
        expect::assert_up_without(&world, &[host]);
        let state = world.sim.port_info(host, PortNum(1)).unwrap().port_state();
        assert_eq!(state, PortState::Init);
        assert_key_named(&world);
    }
}

#[test]
fn a_manager_with_the_right_m_key_has_no_findings() {
    for protection in 0..=3 {
        let mut world = with_successor(protection, with_key(KEY, protection));
        world.settle(TIME_TO_END);
        assert_eq!(world.managers()[1].findings(), []);
    }
}
