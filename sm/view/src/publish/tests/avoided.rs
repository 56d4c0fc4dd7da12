//! Tests of the marks of drained and unhealthy parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::{LinkFilter, LossSelector, NodeFilter, PortFilter};
use rsm_api::v1::event::Change;
use rsm_api::{RoutingQueries as _, Subnet, v1};
use rsm_config::Symptom;
use rsm_core::Event;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_monitor::health::PortErrors;
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_sim::{Personality, PortField, PortFields, Silence, Sim};
use rsm_state::Command;

use super::world::*;
use crate::publish::RouteAnalyst;

/// Time for which a test waits for a drain.
const WAIT: Duration = Duration::from_secs(2);

fn drain(world: &mut World, part: NodeOrCable) {
    drain_as(world, part, false);
}

/// Drains a part, even if the drain cuts ports off if it is forced.
fn drain_as(world: &mut World, part: NodeOrCable, forced: bool) {
    let drained = Drained {
        forced,
        name: "spine-a".to_owned(),
        ..Drained::new("alice", 7)
    };
    world.handle(Event::Command(Command::Drain {
        parts: BTreeMap::from([(part, Reason::Drained(drained))]),
        forced,
        ticket: 1,
    }));
}

#[test]
fn host_and_cable_of_the_manager_are_never_safe_to_unplug() {
    let own = PortKey::new(HOSTS[0], PortNum(1));
    for part in [
        NodeOrCable::Node(HOSTS[0]),
        NodeOrCable::Port(own),
        NodeOrCable::Port(PortKey::new(LEAF_1, PortNum(1))),
        NodeOrCable::Node(LEAF_1),
    ] {
        let mut world = World::up();
        drain_as(&mut world, part, true);
        world.run(WAIT);
        let drained = world.view.drained(None, 9).items;
        let states: Vec<v1::DrainState> = drained.iter().map(|one| one.message.state()).collect();
        assert_eq!(states, [v1::DrainState::InUse], "{part:?}");
    }
}

/// The links with a mark, by the GUIDs of their ends.
fn marked_links(world: &World) -> BTreeMap<(String, String), v1::Avoidance> {
    let links = world.view.links(None, usize::MAX, &LinkFilter::default());
    let links = links.items.into_iter().map(|link| link.message);
    let marked = links.filter(|link| link.avoidance() != v1::Avoidance::Unspecified);
    let node = |end: &Option<v1::LinkEnd>| {
        let port = end.as_ref().and_then(|end| end.port.as_ref());
        port.expect("each end has a port").node_guid.clone()
    };
    marked
        .map(|link| ((node(&link.a), node(&link.b)), link.avoidance()))
        .collect()
}

fn between(spine: Guid, leaf: Guid) -> (String, String) {
    (spine.to_string(), leaf.to_string())
}

#[test]
fn a_drained_switch_its_links_and_its_ports_have_a_mark_and_the_status_counts_it() {
    let mut world = World::up();
    let before = world.last_event_number();
    drain(&mut world, NodeOrCable::Node(SPINE_A));
    world.run(WAIT);
    let drained = v1::Avoidance::Drained;
    let node = world.view.node(&named(&SPINE_A.to_string()));
    assert_eq!(node.expect("it is there").message.avoidance(), drained);
    let nodes = world.view.nodes(None, usize::MAX, &NodeFilter::default());
    let marked = nodes
        .items
        .iter()
        .filter(|node| node.message.avoidance != 0);
    assert_eq!(marked.count(), 1);
    assert_eq!(
        marked_links(&world),
        [LEAF_1, LEAF_2]
            .map(|leaf| (between(SPINE_A, leaf), drained))
            .into()
    );
    let ports = world.view.ports(None, usize::MAX, &PortFilter::default());
    let marked = ports
        .items
        .iter()
        .filter(|port| port.message.avoidance != 0);
    let marked: Vec<(Guid, u8)> = marked
        .map(|port| (port.key.node, port.key.number.0))
        .collect();
    let own = (0..3).map(|port| (SPINE_A, port));
    assert_eq!(
        marked,
        own.chain([(LEAF_1, 3), (LEAF_2, 3)]).collect::<Vec<_>>()
    );
    let avoided = world.view.status().avoided.expect("it is always there");
    assert_eq!((avoided.drained, avoided.draining), (1, 0));
    assert_eq!(avoided.names, ["spine-a"]);
    let events = world.events_after(before);
    let changed = events.iter().filter_map(|event| match change_of(event) {
        Change::NodeChanged(node) => Some(node.avoidance()),
        Change::LinkChanged(link) => panic!("{link:?}"),
        _ => None,
    });
    let changed: Vec<_> = changed.collect();
    assert_eq!(changed.last(), Some(&drained), "{changed:?}");

    let parts = BTreeSet::from([NodeOrCable::Node(SPINE_A)]);
    world.handle(Event::Command(Command::Undrain { parts, ticket: 2 }));
    world.run(WAIT);
    assert_eq!(marked_links(&world), BTreeMap::new());
    let avoided = world.view.status().avoided;
    assert_eq!(avoided, Some(v1::AvoidedParts::default()));
}

#[test]
fn a_drained_switch_changes_once_and_a_later_convergence_does_not_change_it_again() {
    let mut world = World::up();
    drain(&mut world, NodeOrCable::Node(SPINE_B));
    let mut seen = Vec::new();
    let before = world.last_event_number();
    world.run(WAIT);
    world.handle(Event::Command(Command::Resweep {
        full: true,
        ticket: 2,
    }));
    world.run(WAIT);
    for event in world.events_after(before) {
        if let Change::NodeChanged(node) = change_of(&event) {
            seen.push(node.avoidance());
        }
    }
    assert_eq!(seen, [v1::Avoidance::Drained]);
}

/// Whether the cable at `port` may be unplugged as `cable_use` says, and `part` as `foresee` says.
fn unplug(world: &World, port: &str, part: &str) -> [v1::Unplug; 2] {
    let analyst = RouteAnalyst::new(Arc::clone(&world.view));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("it needs nothing");
    let cable = runtime.block_on(analyst.cable_use(named(port)));
    let cable = cable.expect("there is a cable").cable.expect("it is set");
    let part = LossSelector::Part(named(part));
    let loss = runtime.block_on(analyst.foresee(vec![part]));
    let loss = loss.expect("it is there").consequence.expect("it is set");
    [cable.unplug(), loss.unplug()]
}

#[test]
fn every_answer_says_that_a_drained_switch_and_a_drained_host_may_be_unplugged() {
    use v1::Unplug::{DrainFirst, DrainHost, Safe};
    let mut world = World::up();
    assert_eq!(unplug(&world, "spine-a:2", "spine-a"), [DrainFirst; 2]);
    assert_eq!(unplug(&world, "leaf-2:1", "leaf-2:1"), [DrainHost; 2]);
    drain(&mut world, NodeOrCable::Node(SPINE_A));
    world.run(WAIT);
    drain(&mut world, NodeOrCable::Node(HOSTS[2]));
    world.run(WAIT);
    let states = world.view.drained(None, 9).items.into_iter();
    let states = states.map(|part| part.message.state());
    assert_eq!(states.collect::<Vec<_>>(), [v1::DrainState::Safe; 2]);
    for port in ["spine-a:1", "spine-a:2", "leaf-1:3", "leaf-2:3"] {
        assert_eq!(unplug(&world, port, "spine-a"), [Safe; 2], "{port}");
        assert_eq!(unplug(&world, port, port), [Safe; 2], "{port}");
    }
    let host = HOSTS[2].to_string();
    assert_eq!(unplug(&world, "leaf-2:1", "leaf-2:1"), [Safe; 2]);
    assert_eq!(unplug(&world, &format!("{host}:1"), &host), [Safe; 2]);
    assert_eq!(unplug(&world, "leaf-2:2", "leaf-2:2"), [DrainHost; 2]);
    assert_eq!(
        unplug(&world, "spine-b:1", "spine-b:1"),
        [v1::Unplug::DrainFirst; 2]
    );
}

/// The final mark of a drained switch after `fault`, and whether the last convergence wrote the
/// whole plan.
fn mark_after(fault: impl Fn(&mut Sim)) -> (v1::Avoidance, bool) {
    let mut world = World::up();
    fault(&mut world.sim);
    world.run(WAIT);
    drain(&mut world, NodeOrCable::Node(SPINE_A));
    world.run(WAIT * 5);
    let node = world.view.node(&named(&SPINE_A.to_string()));
    let complete = world.core.history().last().expect("it is up").complete;
    (node.expect("it is there").message.avoidance(), complete)
}

#[test]
fn drain_is_done_once_the_tables_next_to_it_are_written_even_if_sets_fail_elsewhere() {
    let host = mark_after(|sim| {
        let keeps_no_lid = Personality::drops(PortFields::of(PortField::Lid));
        sim.set_personality(HOSTS[3], keeps_no_lid)
            .expect("it is there");
        sim.reboot(HOSTS[3]).expect("it is there");
    });
    assert_eq!(host, (v1::Avoidance::Drained, false));
    let leaf = mark_after(|sim| {
        sim.set_silence(LEAF_2, Silence::Answers)
            .expect("it is there");
    });
    assert_eq!(leaf, (v1::Avoidance::Draining, false));
}

#[test]
fn unhealthy_cable_is_isolated_but_the_last_cable_of_a_leaf_stays_in_use() {
    let mut world = World::up();
    let before = world.last_event_number();
    let mut total = 0;
    let mut isolate = |ports: &[u8]| {
        total += 1;
        let mut errors = PortErrors {
            total,
            ..PortErrors::default()
        };
        errors.per_hour[Symptom::SymbolErrors as usize] = 1000.0;
        let key = |&port| PortKey::new(LEAF_1, PortNum(port));
        let errors = ports.iter().map(|port| (key(port), errors));
        Event::PortErrors(Arc::new(errors.collect()))
    };
    world.handle(isolate(&[3]));
    world.run(WAIT);
    let isolated = BTreeMap::from([(between(SPINE_A, LEAF_1), v1::Avoidance::Isolated)]);
    assert_eq!(marked_links(&world), isolated);
    let events = world.events_after(before);
    let changed = events.iter().filter_map(|event| match change_of(event) {
        Change::LinkChanged(link) => Some(link.avoidance()),
        _ => None,
    });
    assert_eq!(changed.collect::<Vec<_>>(), [v1::Avoidance::Isolated]);
    world.handle(isolate(&[3, 4]));
    world.run(WAIT);
    let marks = marked_links(&world);
    assert_eq!(marks.len(), 2, "{marks:?}");
    let avoided = world.view.status().avoided.expect("it is always there");
    assert_eq!((avoided.isolated, avoided.in_use), (1, 1));
    assert_eq!(avoided.names, ["leaf-1:3", "leaf-1:4"]);
}
