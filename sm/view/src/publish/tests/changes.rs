//! Tests of changes in the form that watchers receive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::{LinkFilter, NodeFilter, PortFilter, PortState, SubnetState};
use rsm_api::v1::event::Change;
use rsm_api::{Subnet, v1};
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::NodeInfo;
use rsm_model::InventoryNode;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::netlist::{LinkSpeed, LinkWidth};
use rsm_state::Snapshot;

use super::world::*;
use crate::publish::{MAX_CHANGES, View};

/// A copy of the subnet that only events keep up to date.
#[derive(PartialEq, Debug)]
struct Mirror {
    nodes: BTreeMap<String, v1::Node>,
    ports: BTreeMap<(String, u32), v1::Port>,
    links: BTreeMap<(String, u32), v1::Link>,
}

fn key(port: &Option<v1::PortKey>) -> (String, u32) {
    let key = port.clone().unwrap();
    (key.node_guid, key.number)
}

fn port_key(port: &v1::Port) -> (String, u32) {
    key(&port.key)
}

/// The key of the end `a` of a link.
fn link_key(link: &v1::Link) -> (String, u32) {
    key(&link.a.as_ref().unwrap().port)
}

impl Mirror {
    fn of(view: &View) -> Mirror {
        let nodes = view.nodes(None, usize::MAX, &NodeFilter::default()).items;
        let ports = view.ports(None, usize::MAX, &PortFilter::default()).items;
        let links = view.links(None, usize::MAX, &LinkFilter::default()).items;
        Mirror {
            nodes: (nodes.into_iter().map(|node| node.message))
                .map(|node| (node.guid.clone(), node))
                .collect(),
            ports: (ports.into_iter().map(|port| port.message))
                .map(|port| (port_key(&port), port))
                .collect(),
            links: (links.into_iter().map(|link| link.message))
                .map(|link| (link_key(&link), link))
                .collect(),
        }
    }

    fn apply(&mut self, change: &Change) {
        match change.clone() {
            Change::NodeChanged(node) => {
                let before = self.nodes.insert(node.guid.clone(), node.clone());
                assert_ne!(before, Some(node));
            }
            Change::PortChanged(port) => {
                let before = self.ports.insert(port_key(&port), port.clone());
                assert_ne!(before, Some(port));
            }
            Change::LinkAppeared(link) => {
                assert_eq!(self.links.insert(link_key(&link), link), None);
            }
            Change::LinkChanged(link) => {
                let before = self.links.insert(link_key(&link), link.clone());
                assert_ne!(before, Some(link));
            }
            Change::LinkVanished(link) => {
                assert_eq!(self.links.remove(&link_key(&link)), Some(link));
            }
            Change::NodeVanished(node) => {
                assert!(self.nodes.remove(&node.guid).is_some());
                self.ports.retain(|(owner, _), _| *owner != node.guid);
            }
            _ => {}
        }
    }
}

#[test]
fn first_fabric_is_reported_with_three_events() {
    let world = World::up();
    let events = world.events_after(0);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| kind_of(change_of(event)))
        .collect();
    assert_eq!(
        kinds,
        ["state changed", "routes changed", "convergence finished"]
    );
    assert!(events.iter().all(|event| event.generation == 1));
    let Change::StateChanged(v1::StateChanged { state, reason }) = change_of(&events[0]) else {
        panic!("the state comes first");
    };
    assert_eq!(*state, i32::from(SubnetState::Up));
    assert!(
        reason.contains("4 switches, 4 channel adapters"),
        "{reason}"
    );
    let Change::RoutesChanged(routes) = change_of(&events[1]) else {
        panic!("then the routes");
    };
    // Four switches with eight LIDs each, without the spines' entries for each other.
    assert_eq!((routes.switches, routes.blocks, routes.entries), (4, 4, 30));
}

#[test]
fn lost_link_has_one_event_and_events_keep_a_copy_up_to_date() {
    let mut world = World::up();
    let mut mirror = Mirror::of(&world.view);
    let before = world.last_event_number();
    world.sim.unlink(LEAF_1, PortNum(3)).unwrap();
    world.run(Duration::from_secs(1));
    let events = world.events_after(before);
    for event in &events {
        mirror.apply(change_of(event));
    }
    assert_eq!(mirror, Mirror::of(&world.view));
    let count = |kind| {
        events
            .iter()
            .filter(|event| kind_of(change_of(event)) == kind)
            .count()
    };
    assert_eq!(count("link vanished"), 1);
    assert_eq!(count("port changed"), 2);
    assert_eq!(count("routes changed"), 1);
    assert!(count("convergence finished") >= 1);
    for kind in [
        "node vanished",
        "node appeared",
        "link changed",
        "link appeared",
    ] {
        assert_eq!(count(kind), 0, "{kind}");
    }
    let vanished = events.iter().find_map(|event| match change_of(event) {
        Change::LinkVanished(link) => Some(link.clone()),
        _ => None,
    });
    let vanished = vanished.unwrap();
    let [a, b] = [&vanished.a, &vanished.b].map(|end| key(&end.as_ref().unwrap().port).0);
    assert_eq!((a, b), (SPINE_A.to_string(), LEAF_1.to_string()));
    assert_eq!(vanished.state(), PortState::Active);

    let before = world.last_event_number();
    world.sim.relink(LEAF_1, PortNum(3)).unwrap();
    world.run(Duration::from_secs(1));
    for event in world.events_after(before) {
        mirror.apply(change_of(&event));
    }
    assert_eq!(mirror, Mirror::of(&world.view));
    assert_eq!(mirror.links.len(), 8);
}

#[test]
fn a_host_that_goes_dark_is_reported_with_its_description() {
    let mut world = World::up();
    let mut mirror = Mirror::of(&world.view);
    let before = world.last_event_number();
    world.sim.power_off(HOSTS[3]).unwrap();
    world.run(Duration::from_secs(1));
    let events = world.events_after(before);
    for event in &events {
        mirror.apply(change_of(event));
    }
    assert_eq!(mirror, Mirror::of(&world.view));
    assert!(events.iter().any(|event| matches!(
        change_of(event),
        Change::NodeVanished(node) if node.guid == HOSTS[3].to_string() && node.description == "twin"
    )));
}

#[test]
fn damped_link_has_a_link_changed_event() {
    let world = World::up();
    let view = blank_view();
    view.replace(Arc::new(world.snapshot()));
    let before = view.events(0, usize::MAX).last().unwrap().sequence;
    let flapping = Finding::new(
        FindingKind::LinkFlapping,
        Subject::Port(PortKey::new(SPINE_A, PortNum(1))),
        Severity::Warning,
        "the link flaps".to_owned(),
    );
    view.replace(Arc::new(Snapshot {
        findings: Arc::from([flapping]),
        ..world.snapshot()
    }));
    let events = view.events(before, usize::MAX);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| kind_of(change_of(event)))
        .collect();
    assert_eq!(kinds, ["link changed", "finding raised"]);
    assert!(matches!(change_of(&events[0]), Change::LinkChanged(link) if link.damped));
}

#[test]
fn a_link_that_becomes_slow_is_changed_and_found_by_the_filter() {
    let mut world = World::up();
    let slow = |world: &World| {
        let filter = LinkFilter {
            slow: true,
            ..LinkFilter::default()
        };
        let links = world.view.links(None, usize::MAX, &filter).items;
        links
            .into_iter()
            .map(|link| link.message)
            .collect::<Vec<_>>()
    };
    assert_eq!(slow(&world), []);
    for (speed, slow_links) in [(LinkSpeed::Edr, 1), (LinkSpeed::Hdr, 0)] {
        let mut mirror = Mirror::of(&world.view);
        let before = world.last_event_number();
        let cable = (LEAF_1, PortNum(3));
        let set = world
            .sim
            .set_cable_rate(cable.0, cable.1, LinkWidth::X4, speed);
        set.unwrap();
        world.run(Duration::from_secs(5));
        for event in &world.events_after(before) {
            mirror.apply(change_of(event));
        }
        assert_eq!(mirror, Mirror::of(&world.view));
        let slow = slow(&world);
        assert_eq!(slow.len(), slow_links, "{speed:?}");
        let Some(slow) = slow.first().and_then(|link| link.slow) else {
            continue;
        };
        assert_eq!(slow.siblings_mbps, 200_000);
        assert_eq!(slow.speed(), v1::LinkSpeed::Hdr);
    }
}

#[test]
fn unchanged_snapshot_causes_no_events() {
    let world = World::up();
    let before = world.last_event_number();
    world.view.replace(Arc::new(world.snapshot()));
    assert_eq!(world.last_event_number(), before);
    assert_eq!(world.view.status().generation, 2);
}

/// A fabric of `count` nodes without ports.
fn fabric_of(count: u64) -> Fabric {
    let mut inventory = Inventory::default();
    for number in 1..=count {
        let mut info = NodeInfo::default();
        info.set_node_guid(Guid(number));
        inventory.hardware.insert(
            Guid(number),
            InventoryNode {
                info,
                description: None,
                ports: Vec::new(),
                switch: None,
                path: DirectedPath::new(),
                alternate: None,
                epoch: 0,
                first_epoch: 0,
                missed: 0,
            },
        );
    }
    Fabric::build(&inventory.hardware)
}

#[test]
fn changes_beyond_max_changes_are_summed_up() {
    let base = World::up().snapshot();
    let view = blank_view();
    let mut seen = 0;
    let mut show = |nodes: u64| {
        view.replace(Arc::new(Snapshot {
            fabric: Arc::new(fabric_of(nodes)),
            plan: None,
            ..base.clone()
        }));
        let events = view.events(seen, usize::MAX);
        seen = events.last().map_or(seen, |event| event.sequence);
        events
    };
    show(1);
    let listed = show(1 + MAX_CHANGES as u64);
    assert_eq!(listed.len(), MAX_CHANGES);
    assert!(
        listed
            .iter()
            .all(|event| kind_of(change_of(event)) == "node appeared")
    );
    let summed_up = show(2 + 2 * MAX_CHANGES as u64);
    assert_eq!(summed_up.len(), 1);
    let Change::StateChanged(v1::StateChanged { reason, .. }) = change_of(&summed_up[0]) else {
        panic!("a sentence instead");
    };
    let expected = format!("{} nodes appeared", MAX_CHANGES + 1);
    assert!(reason.contains(&expected), "{reason}");
}
