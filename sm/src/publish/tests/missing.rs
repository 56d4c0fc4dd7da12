//! Lookups of missing nodes.

use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::{MissingKind, Selector};
use rsm_api::{Control, ControlError, LookupError, Subnet};
use rsm_ids::PortNum;
use tokio::sync::mpsc;

use super::world::*;
use crate::core::{Command, Event};
use crate::expected::Accept;
use crate::publish::Controller;

/// The world after the second host has lost its cable.
fn without_a_host() -> World {
    let mut world = World::up();
    world.sim.unlink(HOSTS[1], PortNum(1)).unwrap();
    world.run(Duration::from_secs(30));
    world
}

#[test]
fn lookups_of_a_missing_host_give_its_place_and_time() {
    let world = without_a_host();
    let node_guid = Selector::guid(HOSTS[1]);
    for name in ["host-2".parse().unwrap(), node_guid] {
        let errors = [
            world.view.node(&name).unwrap_err(),
            world.view.port(&name).unwrap_err(),
            world
                .view
                .route(&name, &Selector::guid(HOSTS[0]))
                .unwrap_err(),
        ];
        for error in errors {
            let LookupError::Gone { place, until, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(place, "leaf-1 port 2");
            // Virtual time begins at 1,000 s.
            assert!(until.starts_with("1970-01-01T00:16:4"), "{until}");
        }
    }
    let missing = world.view.missing(None, 10).items;
    let [host] = &missing[..] else {
        panic!("{missing:?}");
    };
    let host = &host.message;
    assert_eq!(
        (host.kind(), host.name.as_str()),
        (MissingKind::Host, "host-2")
    );
    let never = world.view.node(&"host-9".parse().unwrap());
    assert!(matches!(never, Err(LookupError::NotFound { .. })));
}

#[test]
fn only_missing_nodes_and_cables_can_be_accepted() {
    let mut world = without_a_host();
    let (sender, mut events) = mpsc::channel(4);
    let controller = Controller::new(sender, Arc::clone(&world.view));
    let accept = |name: &str| controller.accept_missing(Some(name.parse().unwrap()));
    assert!(matches!(
        accept("host-1"),
        Err(ControlError::Refused { .. })
    ));
    assert!(matches!(accept("host-9"), Err(ControlError::Lookup(_))));
    // The node, its port and the leaf's.
    assert_eq!(accept("host-2"), Ok(3));
    let event = events.try_recv().unwrap();
    assert!(matches!(
        event,
        Event::Command(Command::Accept(Accept::Node(guid))) if guid == HOSTS[1]
    ));
    world.handle(event);
    world.run(Duration::from_secs(1));
    assert_eq!(world.view.missing(None, 10).items, []);
    let gone = world.view.node(&"host-2".parse().unwrap());
    assert!(matches!(gone, Err(LookupError::NotFound { .. })));
}
