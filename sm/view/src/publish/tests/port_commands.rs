//! Tests of ports that operators disable, enable and reset.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::{PortAction, PortCommand};
use rsm_api::{Control, ControlError, RoutingQueries, Subnet, v1};
use rsm_core::Event;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{PortPhysicalState, PortState};
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_state::Command;

use super::world::*;
use crate::publish::RouteAnalyst;

fn command(action: PortAction, port: &str) -> PortCommand {
    PortCommand {
        port: named(port),
        action,
        accept_cut_off: false,
        accept_own_cut_off: false,
        accept_other_operator: false,
        by: "alice".to_owned(),
        reason: "ticket 7".to_owned(),
    }
}

/// Sends a command to the core and lets the core work.
async fn send_command(
    world: &mut World,
    command: PortCommand,
) -> Result<v1::OperatePortResponse, ControlError> {
    carry_out(world, |controller| async move {
        controller.operate_port(command).await
    })
    .await
}

/// Isolates the port of a host, and lets the core work.
async fn isolate(world: &mut World, host: PortKey) -> Result<bool, ControlError> {
    let why = "forges notices and traps";
    carry_out(world, move |controller| async move {
        let mut results = controller.isolate(&[(host, why)]).await;
        results.remove(0).1
    })
    .await
}

fn state(world: &World, node: Guid, port: u8) -> (PortState, PortPhysicalState) {
    let info = world.sim.port_info(node, PortNum(port)).unwrap();
    (info.port_state(), info.port_physical_state())
}

fn kinds(world: &World) -> Vec<&'static str> {
    let findings = world.view.snapshot().findings.clone();
    findings.iter().map(|one| one.kind.code()).collect()
}

#[tokio::test]
async fn a_disabled_cable_between_switches_stays_down_until_it_is_enabled() {
    let mut world = World::up();
    // The end at the spine is closer to the manager, regardless of the end that the command names.
    let answer = send_command(&mut world, command(PortAction::Disable, "leaf-2:3"))
        .await
        .unwrap();
    assert_eq!(answer.description, "spine-a");
    assert_eq!(answer.named_description, "leaf-2");
    assert_eq!(answer.named_port.unwrap().number, 3);
    assert_eq!(state(&world, SPINE_A, 2).1, PortPhysicalState::Disabled);
    assert!(kinds(&world).contains(&"drained"), "{:?}", kinds(&world));
    let drained = world.view.drained(None, 9).items.remove(0).message;
    assert_eq!(
        (drained.disabled, drained.note.as_str()),
        (true, "ticket 7")
    );

    // A switch that restarts has forgotten the disabled state.
    world.sim.reboot(SPINE_A).unwrap();
    world.run(Duration::from_secs(120));
    assert_eq!(state(&world, SPINE_A, 2).1, PortPhysicalState::Disabled);

    // The cable is present: the finding says who disabled the port, and how to enable it.
    let findings = world.view.snapshot().findings.clone();
    let missing = findings
        .iter()
        .find(|one| one.kind.code() == "cable-missing");
    let text = &missing.expect("a finding").text;
    for part in [
        "spine-a port 2 was disabled by alice at 1970-01-01T00:1",
        "rsmctl port enable 'spine-a:2'",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["gone", "expect --accept", "ibportstate"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    let gone = world.view.port(&named("leaf-2:3")).unwrap().message;
    let gone = gone.gone_cable.unwrap().disabled;
    assert!(gone.starts_with("spine-a port 2 was disabled by"), "{gone}");
    let analyst = RouteAnalyst::new(Arc::clone(&world.view));
    let refused = analyst.cable_use(named("leaf-2:3")).await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("disabled by alice") && !refused.contains("gone"),
        "{refused}"
    );

    send_command(&mut world, command(PortAction::Enable, "leaf-2:3"))
        .await
        .unwrap();
    world.run(WAIT);
    let up = (PortState::Active, PortPhysicalState::LinkUp);
    assert_eq!(state(&world, SPINE_A, 2), up);
    assert_eq!(kinds(&world), [""; 0]);
}

/// Drains a cable without disabling its port.
fn drain(world: &mut World, port: PortKey) {
    let drained = Drained {
        forced: true,
        ..Drained::new("bob", 7)
    };
    world.handle(Event::Command(Command::Drain {
        parts: BTreeMap::from([(NodeOrCable::Port(port), Reason::Drained(drained))]),
        forced: true,
        ticket: 1,
    }));
    world.run(WAIT);
    assert_eq!(world.declined, []);
    world.done.clear();
}

#[tokio::test]
async fn near_end_is_disabled_where_the_far_end_is_drained() {
    let mut world = World::up();
    drain(&mut world, PortKey::new(LEAF_2, PortNum(3)));
    let answer = send_command(&mut world, command(PortAction::Disable, "leaf-2:3"));
    assert_eq!(answer.await.unwrap().description, "spine-a");
    assert_eq!(state(&world, SPINE_A, 2).1, PortPhysicalState::Disabled);
}

/// A command of another operator than [`command`]'s.
fn by_carol(action: PortAction, accept_other_operator: bool) -> PortCommand {
    PortCommand {
        by: "carol".to_owned(),
        accept_other_operator,
        ..command(action, "leaf-2:3")
    }
}

/// Operator and note of each drained part, as lists show them.
fn drained(world: &World) -> Vec<(String, String)> {
    let drained = world.view.drained(None, 9).items.into_iter();
    drained
        .map(|one| (one.message.by, one.message.note))
        .collect()
}

#[tokio::test]
async fn drain_of_another_operator_outlasts_a_disabled_port_and_an_isolation() {
    let mut world = World::up();
    drain(&mut world, PortKey::new(SPINE_A, PortNum(2)));
    drain(&mut world, PortKey::new(LEAF_1, PortNum(2)));
    let bobs = ("bob".to_owned(), String::new());
    let also = "also drained by bob at 1970-01-01T00:00:00.007Z";
    let disabled = send_command(&mut world, by_carol(PortAction::Disable, false)).await;
    disabled.unwrap();
    let host = PortKey::new(HOSTS[1], PortNum(1));
    assert!(isolate(&mut world, host).await.unwrap());
    let isolation = format!("forges notices and traps; {also}");
    let carols = format!("ticket 7; {also}");
    let mut expected = vec![
        ("carol".to_owned(), carols),
        ("health.hostile_hosts".to_owned(), isolation),
    ];
    let mut shown = drained(&world);
    shown.sort();
    assert_eq!(shown, expected);
    // The findings name both as well.
    let findings = world.view.snapshot().findings.clone();
    let named = findings.iter().filter(|one| one.text.contains(also));
    assert_eq!(named.count(), 2, "{findings:?}");
    for port in ["leaf-2:3", "leaf-1:2"] {
        let enable = PortCommand {
            by: "carol".to_owned(),
            ..command(PortAction::Enable, port)
        };
        send_command(&mut world, enable).await.unwrap();
        world.run(WAIT);
    }
    expected = vec![bobs.clone(), bobs];
    assert_eq!(drained(&world), expected);
    assert_eq!(state(&world, SPINE_A, 2).0, PortState::Active);
    assert_eq!(state(&world, LEAF_1, 2).0, PortState::Active);
}

#[tokio::test]
async fn order_of_another_operator_ends_only_if_that_is_accepted() {
    let mut world = World::up();
    // Alice disables the port; carol enables it.
    let alice = command(PortAction::Disable, "leaf-2:3");
    send_command(&mut world, alice).await.unwrap();
    world.run(WAIT);
    let refused = send_command(&mut world, by_carol(PortAction::Enable, false)).await;
    let Err(ControlError::OfAnother { reason }) = refused else {
        panic!("{refused:?}");
    };
    for part in [
        "leaf-2 port 3 (cable to spine-a port 2): spine-a port 2 was disabled by alice at 1970",
        "(ticket 7): refused",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    // That ports may be cut off is another consequence.
    let cut_off = PortCommand {
        accept_cut_off: true,
        ..by_carol(PortAction::Enable, false)
    };
    let refused = send_command(&mut world, cut_off).await;
    assert!(matches!(refused, Err(ControlError::OfAnother { .. })));
    assert_eq!(state(&world, SPINE_A, 2).1, PortPhysicalState::Disabled);
    send_command(&mut world, by_carol(PortAction::Enable, true))
        .await
        .unwrap();
    world.run(WAIT);
    assert_eq!(state(&world, SPINE_A, 2).0, PortState::Active);
    assert!(drained(&world).is_empty());
}

#[tokio::test]
async fn near_end_of_a_link_that_is_down_is_disabled() {
    let mut world = World::up();
    world.sim.unlink(LEAF_2, PortNum(3)).unwrap();
    world.run(Duration::from_secs(30));
    let answer = send_command(&mut world, command(PortAction::Disable, "leaf-2:3"));
    assert_eq!(answer.await.unwrap().description, "spine-a");
    world.sim.relink(LEAF_2, PortNum(3)).unwrap();
    world.run(Duration::from_secs(30));
    assert_eq!(state(&world, SPINE_A, 2).1, PortPhysicalState::Disabled);
    let enabled = send_command(&mut world, command(PortAction::Enable, "leaf-2:3"));
    enabled.await.unwrap();
    world.run(Duration::from_secs(30));
    assert_eq!(state(&world, SPINE_A, 2).0, PortState::Active);
}

/// The cable of spine-a that led to leaf-2:3 leads to leaf-2:1 now, and leaf-2:3 has none.
#[tokio::test]
async fn former_port_of_a_moved_cable_does_not_refer_to_the_cable() {
    let mut world = World::up();
    world.sim.power_off(HOSTS[2]).unwrap();
    let (from, to) = ((LEAF_2, PortNum(3)), (LEAF_2, PortNum(1)));
    world.sim.swap_cables(from, to).unwrap();
    world.run(Duration::from_secs(60));
    assert_eq!(state(&world, SPINE_A, 2).0, PortState::Active);
    let answer = send_command(&mut world, command(PortAction::Disable, "leaf-2:3"));
    assert_eq!(answer.await.unwrap().description, "leaf-2");
    assert_eq!(state(&world, SPINE_A, 2).0, PortState::Active);
}

#[tokio::test]
async fn ports_before_a_switch_that_is_cut_off_are_enabled_by_its_own_ports() {
    let mut world = World::up();
    for port in ["leaf-2:3", "leaf-2:4"] {
        let accepted = PortCommand {
            accept_cut_off: true,
            ..command(PortAction::Disable, port)
        };
        send_command(&mut world, accepted).await.unwrap();
        world.run(Duration::from_secs(30));
    }
    assert!(world.view.node(&named("leaf-2")).is_err());
    for (port, number) in [("leaf-2:3", 3), ("leaf-2:4", 4)] {
        let answer = send_command(&mut world, command(PortAction::Enable, port)).await;
        assert_eq!(answer.unwrap().named_port.unwrap().number, number);
        world.run(Duration::from_secs(30));
    }
    assert!(world.view.node(&named("leaf-2")).is_ok());
    assert_eq!(kinds(&world), [""; 0]);
}

#[test]
fn disable_command_ends_when_the_port_reports_that_its_link_is_down() {
    let mut world = World::up();
    let port = PortKey::new(SPINE_A, PortNum(2));
    let drained = Drained {
        name: "spine-a port 2".to_owned(),
        disabled: true,
        ..Drained::new("alice", 7)
    };
    world.handle(Event::Command(Command::Drain {
        parts: BTreeMap::from([(NodeOrCable::Port(port), Reason::Drained(drained))]),
        forced: false,
        ticket: 1,
    }));
    while world.done.is_empty() {
        assert_eq!(world.declined, []);
        world.run(Duration::from_micros(1));
    }
    let shown = world.view.port(&named("spine-a:2")).unwrap().message;
    assert_eq!(
        (shown.state(), shown.physical_state()),
        (v1::PortState::Down, v1::PhysicalState::Disabled)
    );
    let gone = shown.gone_cable.expect("no link is shown there");
    assert!(
        gone.disabled
            .contains("by alice at 1970-01-01T00:00:00.007Z"),
        "{gone:?}"
    );
}

#[tokio::test]
async fn port_is_disabled_only_if_cutting_its_host_off_is_accepted() {
    let mut world = World::up();
    let refused = send_command(&mut world, command(PortAction::Disable, "host-2:1")).await;
    let Err(ControlError::CutOff { ports, reason }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(ports, 1);
    assert!(
        reason.starts_with("host-2 port 1 (cable to leaf-1 port 2): refused")
            && reason.contains("1 node would be cut off: host-2"),
        "{reason}"
    );
    assert_eq!(state(&world, LEAF_1, 2).0, PortState::Active);
    let accepted = PortCommand {
        accept_cut_off: true,
        ..command(PortAction::Disable, "host-2:1")
    };
    send_command(&mut world, accepted).await.unwrap();
    assert_eq!(state(&world, LEAF_1, 2).1, PortPhysicalState::Disabled);
    let refused = world.view.route(&named("host-1"), &named("host-2"));
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.starts_with("`host-2` is not reached: leaf-1 port 2 was disabled by alice at"),
        "{refused}"
    );
    let findings = world.view.snapshot().findings.clone();
    let text: Vec<String> = findings.iter().map(|one| one.text.clone()).collect();
    let text = text.join("\n");
    assert!(text.contains("rsmctl port enable 'leaf-1:2'"), "{text}");
    assert!(!text.contains("gone"), "{text}");
}

#[tokio::test]
async fn cutting_the_managers_own_link_requires_its_own_confirmation() {
    let mut world = World::up();
    for action in [PortAction::Disable, PortAction::Reset] {
        let accepted = PortCommand {
            accept_cut_off: true,
            ..command(action, "leaf-1:1")
        };
        let refused = send_command(&mut world, accepted)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("--cut-off-this-manager"), "{refused}");
    }
    assert_eq!(state(&world, LEAF_1, 1).0, PortState::Active);
}

#[tokio::test]
async fn reset_link_comes_up_again() {
    let mut world = World::up();
    let before = world.last_event_number();
    send_command(&mut world, command(PortAction::Reset, "leaf-2:3"))
        .await
        .unwrap();
    world.run(WAIT);
    let events = world.events_after(before);
    let kinds: Vec<&str> = events.iter().map(|one| kind_of(change_of(one))).collect();
    let moved = ["link vanished", "link changed", "port changed"];
    assert!(kinds.iter().any(|kind| moved.contains(kind)), "{kinds:?}");
    assert_eq!(state(&world, LEAF_2, 3).0, PortState::Active);
}

#[tokio::test]
async fn enabling_a_port_that_is_not_disabled_is_refused() {
    let mut world = World::up();
    let refused = send_command(&mut world, command(PortAction::Enable, "leaf-2:3")).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("is not disabled"), "{refused}");
    let refused = send_command(&mut world, command(PortAction::Disable, "leaf-2")).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("use one of: leaf-2:1 ("), "{refused}");
}

#[tokio::test]
async fn host_with_one_port_needs_no_port_number() {
    let mut world = World::up();
    let command = |action| PortCommand {
        accept_cut_off: true,
        ..command(action, "host-2")
    };
    let analyst = RouteAnalyst::new(Arc::clone(&world.view));
    analyst.cable_use(named("host-2")).await.unwrap();
    let answer = send_command(&mut world, command(PortAction::Reset)).await;
    assert_eq!(answer.unwrap().named_port.unwrap().number, 1);
    world.run(WAIT);
    let answer = send_command(&mut world, command(PortAction::Disable)).await;
    assert_eq!(answer.unwrap().named_description, "host-2");
    assert_eq!(state(&world, LEAF_1, 2).1, PortPhysicalState::Disabled);
    // The host has disappeared, and only one disabled port leads to it.
    let answer = send_command(&mut world, command(PortAction::Enable)).await;
    assert_eq!(answer.unwrap().description, "leaf-1");
    world.run(WAIT);
    assert_eq!(state(&world, LEAF_1, 2).0, PortState::Active);
}

#[tokio::test]
async fn hostile_host_stays_isolated_until_an_operator_enables_its_port() {
    let mut world = World::up();
    let host = PortKey::new(HOSTS[1], PortNum(1));
    assert!(isolate(&mut world, host).await.unwrap());
    assert_eq!(state(&world, LEAF_1, 2).1, PortPhysicalState::Disabled);
    let drained = world.view.drained(None, 9).items.remove(0).message;
    assert!(
        drained.disabled && drained.by == "health.hostile_hosts",
        "{drained:?}"
    );
    assert_eq!(drained.note, "forges notices and traps");
    // All other hosts keep their links.
    for (node, port) in [(LEAF_1, 1), (LEAF_2, 1), (LEAF_2, 2)] {
        assert_eq!(state(&world, node, port).0, PortState::Active);
    }
    // An operator enables the port of the leaf.
    send_command(&mut world, command(PortAction::Enable, "leaf-1:2"))
        .await
        .unwrap();
    world.run(WAIT);
    assert_eq!(state(&world, LEAF_1, 2).0, PortState::Active);
    assert!(isolate(&mut world, host).await.unwrap());
    // A restarted leaf has forgotten the disabled state, so the manager disables the port again.
    world.sim.reboot(LEAF_1).unwrap();
    world.run(Duration::from_secs(120));
    assert_eq!(state(&world, LEAF_1, 2).1, PortPhysicalState::Disabled);
}

#[tokio::test]
async fn switches_and_the_manager_are_not_isolated_and_a_port_disabled_by_hand_stays_as_it_is() {
    let mut world = World::up();
    for (node, port, why) in [
        (LEAF_2, 3, "is no port of a host"),
        (HOSTS[0], 1, "--cut-off-this-manager"),
        (HOSTS[1], 7, "no port"),
    ] {
        let refused = isolate(&mut world, PortKey::new(node, PortNum(port))).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(kinds(&world), [""; 0]);
    // A port that is disabled already stays as its operator has it.
    let by_hand = PortCommand {
        accept_cut_off: true,
        ..command(PortAction::Disable, "host-2:1")
    };
    send_command(&mut world, by_hand).await.unwrap();
    let before = world.view.drained(None, 9).items.remove(0).message;
    let again = isolate(&mut world, PortKey::new(HOSTS[1], PortNum(1))).await;
    // The command fails because the host is gone, or changes nothing because the port is disabled.
    assert!(!matches!(again, Ok(true)), "{again:?}");
    assert_eq!(world.view.drained(None, 9).items.remove(0).message, before);
}
