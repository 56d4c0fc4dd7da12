//! Subnet managers hand the subnet over to each other, and send SubnSet(SMInfo) (IBA 14.4.1).

use std::time::Duration;

use rsm_core::{CoreConfig, Event, MastershipPolicy};
use rsm_ids::{Guid, PortNum};
use rsm_mad::transport::{Inbound, PortEvent};
use rsm_mad::wire::attr::{SmControl, SmState};
use rsm_mad::wire::header::Status;
use rsm_model::findings::{Finding, FindingKind, Severity};
use rsm_routing::netlist::NodeKind;
use rsm_sim::{AttachId, Personality, PortField, PortFields, Silence};
use rsm_state::{Activity, Identity, Role};
use rsm_tests::virtual_time::{ForeignManager, Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

/// The priority of rsm's manager; a manager with a higher priority has precedence.
const PRIORITY: u8 = 5;

fn settings() -> Settings {
    Settings {
        core: CoreConfig {
            mastership: MastershipPolicy {
                identity: identity(PRIORITY),
                ..MastershipPolicy::default()
            },
            ..CoreConfig::default()
        },
        ..Settings::default()
    }
}

fn identity(priority: u8) -> Identity {
    Identity {
        priority,
        sm_key: 0x11,
    }
}

/// A fabric that rsm's manager, at its first host, has brought up.
fn brought_up() -> World {
    World::brought_up("ring:4", settings())
}

fn last_host(world: &World) -> Guid {
    let hosts = world.sim.nodes().filter(|&(_, kind)| kind == NodeKind::Ca);
    hosts.last().expect("there are hosts").0
}

/// Attaches another manager with the SM_Key of rsm's manager to the last host.
fn attach_manager(world: &mut World, priority: u8, state: SmState) -> AttachId {
    let guid = last_host(world);
    let manager = ForeignManager {
        sm_key: 0x11,
        ..ForeignManager::new(guid, priority, state)
    };
    world.add_foreign(guid, PortNum(1), manager)
}

fn role(world: &World) -> SmState {
    world.manager().core().role().state()
}

#[test]
fn a_standby_with_precedence_gets_the_subnet() {
    let mut world = brought_up();
    let successor = attach_manager(&mut world, PRIORITY + 1, SmState::Standby);
    world.run_for(LIMIT);
    assert_eq!(world.foreign(successor).orders, [SmControl::HANDOVER]);
    assert_eq!(world.foreign(successor).state, SmState::Master);
    let guid = world.foreign(successor).guid;
    assert!(
        matches!(world.manager().core().role(), Role::Standby { master } if master.guid == guid)
    );
    world.watched().assert_harmless();

    let sets = world.sim.counters().sets();
    world.run_for(LIMIT);
    assert_eq!(world.sim.counters().sets(), sets, "a standby sets nothing");
    world.remove_foreign(successor);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Master);
    expect::assert_up(&world);
}

#[test]
fn a_master_whose_handover_is_refused_stays_master() {
    let mut world = brought_up();
    let successor = attach_manager(&mut world, PRIORITY + 1, SmState::Standby);
    world.foreign_mut(successor).takes_over = false;
    world.run_for(LIMIT);
    let orders = world.foreign(successor).orders.len();
    assert!(
        (1..=3).contains(&orders),
        "asked {orders} times in a minute"
    );
    assert_eq!(role(&world), SmState::Master);
    expect::assert_up(&world);
    world.foreign_mut(successor).takes_over = true;
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
}

/// The finding of `kind`, if there is one.
fn finding(world: &World, kind: FindingKind) -> Option<Finding> {
    let findings = &world
        .manager()
        .snapshot()
        .expect("it is published")
        .findings;
    findings
        .iter()
        .find(|finding| finding.kind == kind)
        .cloned()
}

#[test]
fn a_manager_with_another_sm_key_never_gets_the_subnet_of_a_master() {
    for key in [0, 0x12] {
        let mut world = brought_up();
        let stranger = attach_manager(&mut world, 15, SmState::Standby);
        world.foreign_mut(stranger).sm_key = key;
        world.run_for(LIMIT);
        assert_eq!(role(&world), SmState::Master);
        let found = finding(&world, FindingKind::ManagerNotAllowed).expect("it is found");
        assert_eq!(found.severity, Severity::Warning);

        world.foreign_mut(stranger).state = SmState::Master;
        world.run_for(LIMIT);
        assert_eq!(role(&world), SmState::Master);
        assert_eq!(world.foreign(stranger).orders, []);
        expect::assert_up(&world);
        let found = finding(&world, FindingKind::ManagerNotAllowed).expect("it lasts");
        assert_eq!(found.severity, Severity::Error);

        world.remove_foreign(stranger);
        world.run_for(LIMIT);
        assert_eq!(finding(&world, FindingKind::ManagerNotAllowed), None);
        expect::assert_no_findings(&world);
    }
}

#[test]
fn a_manager_with_another_sm_key_never_makes_a_new_manager_stand_by() {
    for key in [0, 0x12] {
        for state in [SmState::Discovering, SmState::Standby, SmState::Master] {
            let mut world = World::generated("ring:4", settings());
            let stranger = attach_manager(&mut world, 15, state);
            world.foreign_mut(stranger).sm_key = key;
            world.run_for(LIMIT);
            assert_eq!(role(&world), SmState::Master, "{key:#x} {state:?}");
            expect::assert_up(&world);
        }
    }
}

#[test]
fn the_finding_about_a_manager_with_another_sm_key_names_the_manager_and_its_cable() {
    let mut world = brought_up();
    let stranger = attach_manager(&mut world, 15, SmState::Master);
    world.foreign_mut(stranger).sm_key = 0x12;
    world.run_for(LIMIT);
    let guid = world.foreign(stranger).guid;
    let peer = world.sim.peer(guid, PortNum(1)).expect("it is there");
    let (switch, port) = peer.expect("it is cabled");
    let switch = world.manager().core().inventory().hardware.name(switch);
    let text = finding(&world, FindingKind::ManagerNotAllowed)
        .unwrap()
        .text;
    for part in [
        guid.to_string(),
        format!("{switch} port {port}"),
        "sm_key".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} is not in {text:?}");
    }
    assert!(
        !text.contains("0x12,") && !text.contains("0x0000000000000012"),
        "{text}"
    );
}

#[test]
fn a_master_that_changes_its_sm_key_is_replaced() {
    let mut world = brought_up();
    let master = attach_manager(&mut world, PRIORITY + 1, SmState::Master);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    world.foreign_mut(master).sm_key = 0x12;
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Master);
    expect::assert_up(&world);
}

#[test]
fn a_master_that_hides_the_sm_key_it_has_shown_stays_master() {
    let mut world = brought_up();
    let master = attach_manager(&mut world, PRIORITY + 1, SmState::Master);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    world.foreign_mut(master).sm_key = 0;
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
}

#[test]
fn a_frozen_standby_is_a_finding_about_the_manager_and_not_about_its_host() {
    let mut world = brought_up();
    let standby = attach_manager(&mut world, 0, SmState::Standby);
    world.run_for(LIMIT);
    expect::assert_no_findings(&world);
    world.foreign_mut(standby).is_frozen = true;
    let host = world.foreign(standby).guid;
    let until = world.now() + 2 * LIMIT;
    let blamed = world.run(until, |world| {
        let findings = world.manager().findings();
        findings.iter().any(|(code, _)| *code != "manager-silent")
    });
    assert!(!blamed, "{:?}", world.manager().findings());
    assert_eq!(
        world.manager().findings(),
        [("manager-silent", format!("{host}:1"))]
    );
    let found = finding(&world, FindingKind::ManagerSilent).unwrap();
    assert_eq!(found.severity, Severity::Warning);
    expect::assert_up(&world);

    world.foreign_mut(standby).is_frozen = false;
    world.run_for(LIMIT);
    expect::assert_no_findings(&world);

    world.foreign_mut(standby).is_frozen = true;
    world.run_for(LIMIT);
    world.remove_foreign(standby);
    world.run_for(LIMIT);
    expect::assert_no_findings(&world);
}

#[test]
fn a_manager_frozen_from_the_start_is_a_finding() {
    let mut world = World::generated("ring:4", settings());
    let frozen = attach_manager(&mut world, 15, SmState::Standby);
    world.foreign_mut(frozen).is_frozen = true;
    let host = world.foreign(frozen).guid;
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Master);
    assert_eq!(
        world.manager().findings(),
        [("manager-silent", format!("{host}:1"))]
    );
    expect::assert_up(&world);
}

#[test]
fn a_frozen_master_is_replaced_and_stays_a_finding() {
    let mut world = brought_up();
    let master = attach_manager(&mut world, PRIORITY + 1, SmState::Master);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    world.foreign_mut(master).is_frozen = true;
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Master);
    expect::assert_up(&world);
    assert!(finding(&world, FindingKind::ManagerSilent).is_some());
}

#[test]
fn a_standby_acknowledges_a_handover_and_becomes_master() {
    let mut world = brought_up();
    let master = attach_manager(&mut world, PRIORITY + 1, SmState::Master);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    world.foreign_mut(master).orders.clear();
    world.order(master, SmControl::HANDOVER);
    world.foreign_mut(master).state = SmState::Standby;
    world.foreign_mut(master).priority = 0;
    world.run_for(LIMIT);
    assert_eq!(world.foreign(master).answers, [Status::OK]);
    assert_eq!(world.foreign(master).orders, [SmControl::ACKNOWLEDGE]);
    assert_eq!(role(&world), SmState::Master);
    expect::assert_up(&world);
}

#[test]
fn a_disabled_manager_sends_nothing_until_its_master_orders_it_to_stand_by() {
    let mut world = brought_up();
    let master = attach_manager(&mut world, PRIORITY + 1, SmState::Master);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    world.order(master, SmControl::DISABLE);
    world.run_for(Duration::from_secs(1));
    assert_eq!(role(&world), SmState::NotActive);
    let (gets, sets) = (world.sim.counters().gets(), world.sim.counters().sets());
    world.run_for(LIMIT);
    let counters = world.sim.counters();
    assert_eq!((counters.gets(), counters.sets()), (gets, sets));

    world.order(master, SmControl::STANDBY);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    world.order(master, SmControl::DISCOVER);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    assert_eq!(world.foreign(master).answers, [Status::OK; 3]);
}

/// DISABLE makes a standby inactive, and DISCOVER makes it read the whole subnet. Only its master
/// may send these controls, and a standby answers too frequent DISCOVER with BUSY.
#[test]
fn a_standby_obeys_only_its_master_and_publishes_that_it_is_disabled() {
    let mut world = brought_up();
    let master = attach_manager(&mut world, PRIORITY + 1, SmState::Master);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    let hosts = world.nodes(NodeKind::Ca);
    let stranger = ForeignManager {
        sm_key: 0x11,
        ..ForeignManager::new(hosts[1], 0, SmState::Master)
    };
    let stranger = world.add_foreign(hosts[1], PortNum(1), stranger);
    for control in [SmControl::DISABLE, SmControl::DISCOVER] {
        world.order(stranger, control);
        world.run_for(Duration::from_millis(100));
    }
    assert_eq!(world.foreign(stranger).answers, [Status::INVALID_FIELD; 2]);
    assert_eq!(role(&world), SmState::Standby);

    for _ in 0..20 {
        world.order(master, SmControl::DISCOVER);
        world.run_for(Duration::from_millis(500));
    }
    let answers = &world.foreign(master).answers;
    let obeyed = answers.iter().filter(|&&status| status == Status::OK);
    assert!(answers.contains(&Status::BUSY), "{answers:?}");
    assert!(obeyed.count() < 10, "{answers:?}");
    world.run_for(LIMIT);

    world.order(master, SmControl::DISABLE);
    world.run_for(Duration::from_secs(1));
    let published = world.manager().snapshot().map(|shown| &shown.role);
    assert_eq!(published, Some(&Role::NotActive));
}

#[test]
fn a_manager_that_starts_inactive_leaves_the_subnet_to_a_manager_without_precedence() {
    let mut world = brought_up();
    let guid = last_host(&world);
    let config = CoreConfig {
        mastership: MastershipPolicy {
            starts_inactive: true,
            identity: identity(PRIORITY + 1),
            ..MastershipPolicy::default()
        },
        ..settings().core
    };
    world.add_manager_with(guid, PortNum(1), config);
    world.run_for(LIMIT);
    let managers = world.managers().iter();
    let roles: Vec<_> = managers.map(|m| m.core().role().state()).collect();
    assert_eq!(roles, [SmState::Master, SmState::NotActive]);
    expect::assert_up(&world);
}

#[test]
fn a_master_refuses_controls_that_the_sender_may_not_send() {
    let mut world = brought_up();
    let other = attach_manager(&mut world, 0, SmState::Standby);
    world.run_for(LIMIT);
    let try_all = |world: &mut World| {
        for control in (0..=6).map(SmControl) {
            world.order(other, control);
            world.run_for(Duration::from_secs(1));
        }
        std::mem::take(&mut world.foreign_mut(other).answers)
    };
    // A standby may send ACKNOWLEDGE, and no other control.
    let mut expected = [Status::INVALID_FIELD; 7];
    expected[SmControl::ACKNOWLEDGE.0 as usize] = Status::OK;
    assert_eq!(try_all(&mut world), expected);
    // A manager without the SM_Key may send no control.
    world.foreign_mut(other).sm_key = 0;
    assert_eq!(try_all(&mut world), [Status::INVALID_FIELD; 7]);
    assert_eq!(role(&world), SmState::Master);
    expect::assert_up(&world);
}

#[test]
fn of_two_managers_the_manager_with_precedence_becomes_master() {
    let mut world = brought_up();
    let guid = last_host(&world);
    let config = CoreConfig {
        mastership: MastershipPolicy {
            identity: identity(PRIORITY + 1),
            ..MastershipPolicy::default()
        },
        ..settings().core
    };
    world.add_manager_with(guid, PortNum(1), config);
    world.run_for(LIMIT);
    let roles = |world: &World| -> Vec<SmState> {
        let managers = world.managers().iter();
        managers.map(|m| m.core().role().state()).collect()
    };
    assert_eq!(roles(&world), [SmState::Standby, SmState::Master]);
    expect::assert_up(&world);
    world.watched().assert_harmless();

    world.kill(1);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Master);
    expect::assert_up(&world);
    world.start(1, Memory::Lost);
    world.run_for(LIMIT);
    assert_eq!(roles(&world), [SmState::Standby, SmState::Master]);
    expect::assert_up(&world);
    world.watched().assert_harmless();
}

/// The first sweep went on beside the early bring-up when the master stepped down: its Gets were
/// withdrawn, and it never ended.
#[test]
fn master_paused_in_an_early_bring_up_stands_by_and_can_take_over_again() {
    let second = Duration::from_secs(1);
    let pause = 30 * second;
    // The master learns of its successor before it has the plan.
    let mut settings = Settings {
        planning_time: 2 * pause,
        ..settings()
    };
    // The successor keeps the subnet.
    settings.core.mastership.master_priority = PRIORITY + 1;
    let mut world = World::generated("fat-tree:k=4,levels=3", settings.clone());
    let mut config = settings.core;
    config.mastership.identity = identity(PRIORITY - 1);
    let standby = world.add_manager_with(last_host(&world), PortNum(1), config);
    let leaf_of = |world: &World, index: usize| {
        let (host, port) = world.managers()[index].local(&world.sim).unwrap();
        world.sim.peer(host, port).unwrap().unwrap().0
    };
    let leaves = [leaf_of(&world, 0), leaf_of(&world, standby)];
    let mut switches = world.nodes(NodeKind::Switch).into_iter();
    let hung = switches.find(|switch| !leaves.contains(switch)).unwrap();
    // The sweep waits for this switch while the rest is brought up.
    world.sim.set_silence(hung, Silence::Answers).unwrap();
    let is_early = world.run(world.now() + LIMIT, |world| {
        let core = world.manager().core();
        core.activity() == Activity::Planning && core.progress().outstanding > 0
    });
    assert!(is_early, "{:?}", world.manager().core().progress());
    world.pause_for(0, pause);
    world.run_for(4 * pause);
    let state = |world: &World, index: usize| world.managers()[index].core().role().state();
    assert_eq!(state(&world, standby), SmState::Master);
    assert_eq!(state(&world, 0), SmState::Standby);
    world.kill(standby);
    world.run_for(4 * pause);
    assert_eq!(state(&world, 0), SmState::Master);
    world.sim.set_silence(hung, Silence::None).unwrap();
    world.run_for(4 * pause);
    expect::assert_up(&world);
}

/// The findings about the last plan and push, and about the own port, of a manager that stands by.
#[test]
fn a_standby_shows_no_findings_of_its_time_as_master() {
    let mut world = brought_up();
    let host = last_host(&world);
    let drops = Personality::drops(PortFields::of(PortField::MasterSmLid));
    world.sim.set_personality(host, drops).unwrap();
    world.sim.power_off(host).unwrap();
    world.run_for(LIMIT);
    world.sim.power_on(host).unwrap();
    world.run_for(LIMIT);
    assert!(finding(&world, FindingKind::SetFailed).is_some());
    let hosts = world.nodes(NodeKind::Ca);
    let other = hosts[1];
    let manager = ForeignManager {
        sm_key: 0x11,
        ..ForeignManager::new(other, PRIORITY + 1, SmState::Standby)
    };
    world.add_foreign(other, PortNum(1), manager);
    world.run_for(LIMIT);
    assert_eq!(role(&world), SmState::Standby);
    assert_eq!(finding(&world, FindingKind::SetFailed), None);
    world.event(Event::Inbound(Inbound::Port(PortEvent::Retrained)));
    let is_shown = world.run(world.now() + LIMIT, |world| {
        finding(world, FindingKind::LocalPort).is_some()
    });
    assert!(is_shown);
    world.run_for(LIMIT);
    assert_eq!(finding(&world, FindingKind::LocalPort), None);
}
