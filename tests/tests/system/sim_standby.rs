//! rsm beside a foreign subnet manager: which of them is master, and when rsm takes over.

use std::time::Duration;

use rsm_core::{CoreConfig, MastershipPolicy};
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::SmState;
use rsm_routing::netlist::NodeKind;
use rsm_state::Role;
use rsm_tests::virtual_time::{ForeignManager, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

fn last_host(world: &World) -> (Guid, PortNum) {
    let (guid, _) = world
        .sim
        .nodes()
        .filter(|&(_, kind)| kind == NodeKind::Ca)
        .last()
        .expect("there are hosts");
    (guid, PortNum(1))
}

#[test]
fn beside_a_master_rsm_stands_by_and_sends_no_set() {
    let mut world = World::generated("ring:4", Settings::default());
    let (guid, port) = last_host(&world);
    let master = ForeignManager::new(guid, 0, SmState::Master);
    let foreign = world.add_foreign(guid, port, master);
    world.run_for(LIMIT);
    assert!(
        matches!(world.manager().core().role(), Role::Standby { master } if master.guid == guid)
    );
    assert_eq!(world.sim.counters().sets(), 0, "a standby sets nothing");
    assert_eq!(
        world.manager().findings(),
        [("other-master", guid.to_string())]
    );

    world.remove_foreign(foreign);
    world.run_for(LIMIT);
    assert_eq!(*world.manager().core().role(), Role::Master);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn with_a_higher_poll_limit_a_silent_master_has_more_time_to_come_back() {
    let core = CoreConfig {
        mastership: MastershipPolicy {
            standby_poll: Duration::from_secs(5),
            poll_limit: 5,
            ..MastershipPolicy::default()
        },
        ..CoreConfig::default()
    };
    let mut world = World::generated("ring:4", with_core(core));
    let (guid, port) = last_host(&world);
    let master = ForeignManager::new(guid, 0, SmState::Master);
    let foreign = world.add_foreign(guid, port, master);
    world.run_for(LIMIT);
    world.remove_foreign(foreign);
    world.run_for(Duration::from_secs(15));
    let role = world.manager().core().role();
    assert!(matches!(role, Role::Standby { .. }), "{role:?}");
    world.run_for(3 * LIMIT);
    assert_eq!(*world.manager().core().role(), Role::Master);
    expect::assert_up(&world);
}

#[test]
fn a_manager_that_ignores_others_brings_the_subnet_up_beside_a_master() {
    let core = CoreConfig {
        mastership: MastershipPolicy {
            ignores_others: true,
            ..MastershipPolicy::default()
        },
        ..CoreConfig::default()
    };
    let mut world = World::generated("ring:4", with_core(core));
    let (guid, port) = last_host(&world);
    world.add_foreign(guid, port, ForeignManager::new(guid, 15, SmState::Master));
    world.run_for(LIMIT);
    assert_eq!(*world.manager().core().role(), Role::Master);
    expect::assert_up(&world);
}

fn with_core(core: CoreConfig) -> Settings {
    Settings {
        core,
        ..Settings::default()
    }
}

#[test]
fn a_standby_of_lower_priority_changes_nothing() {
    let mut world = World::generated("ring:4", Settings::default());
    let (guid, port) = last_host(&world);
    let waiting = ForeignManager::new(Guid(u64::MAX), 0, SmState::Standby);
    world.add_foreign(guid, port, waiting);
    world.settle(LIMIT);
    assert_eq!(*world.manager().core().role(), Role::Master);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn rsm_yields_to_a_master_of_higher_priority_that_appears() {
    let mut world = World::generated("ring:4", Settings::default());
    world.settle(LIMIT);
    let (guid, port) = last_host(&world);
    let master = ForeignManager::new(guid, 15, SmState::Master);
    world.add_foreign(guid, port, master);
    world.run_for(LIMIT);
    assert!(matches!(
        world.manager().core().role(),
        Role::Standby { .. }
    ));
    let sets = world.sim.counters().sets();
    world.run_for(LIMIT);
    assert_eq!(world.sim.counters().sets(), sets, "a standby sets nothing");
    world.sim.unlink(guid, port).unwrap();
    world.run_for(LIMIT);
    assert_eq!(*world.manager().core().role(), Role::Master);
    expect::assert_up(&world);
}
