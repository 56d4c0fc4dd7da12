//! Tests of lookups of missing nodes.

use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::{
    DrainQuestion, FindingFilter, GivenUp, LossSelector, MissingKind, Selector, SubnetState,
};
use rsm_api::{Control, ControlError, LookupError, RoutingQueries, Subnet, v1};
use rsm_core::Event;
use rsm_ids::PortNum;
use rsm_model::expected::Accept;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::netlist::{Netlist, Node};
use rsm_state::Command;
use tokio::sync::mpsc;

use super::world::*;
use crate::publish::{Controller, RouteAnalyst};

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
            assert_eq!(&**place, "leaf-1 port 2");
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
fn list_of_missing_parts_is_kept_while_they_stay_the_same() {
    let mut world = without_a_host();
    let before = world.view.published();
    let text = "a line is wrong".to_owned();
    let refused = Finding::new(
        FindingKind::ConfigRefused,
        Subject::Subnet,
        Severity::Error,
        text,
    );
    world.handle(Event::Refused(vec![refused]));
    world.run(Duration::from_millis(1));
    let after = world.view.published();
    assert!(after.generation > before.generation);
    assert!(!after.missing.is_empty());
    assert!(Arc::ptr_eq(&after.missing, &before.missing));
    assert!(Arc::ptr_eq(
        after.names.missing_nodes(),
        before.names.missing_nodes()
    ));
}

#[test]
fn only_missing_nodes_and_cables_can_be_accepted() {
    let mut world = without_a_host();
    let (sender, mut events) = mpsc::channel::<Event>(4);
    let controller = Controller::new(sender, Arc::clone(&world.view));
    let accept = |name: &str| controller.accept_missing(GivenUp::Named(named(name)));
    assert!(matches!(
        accept("host-1"),
        Err(ControlError::Refused { .. })
    ));
    assert!(matches!(accept("host-9"), Err(ControlError::Lookup(_))));
    // Accepting the node covers its cable.
    let parts = accept("host-2").unwrap();
    assert_eq!((parts.hosts, parts.total()), (1, 1));
    let event = events.try_recv().unwrap();
    assert!(matches!(
        &event,
        Event::Command(Command::Accept(accepts)) if *accepts == [Accept::Node(HOSTS[1])]
    ));
    world.handle(event);
    world.run(Duration::from_secs(1));
    assert_eq!(world.view.missing(None, 10).items, []);
    let gone = world.view.node(&"host-2".parse().unwrap());
    assert!(matches!(gone, Err(LookupError::NotFound { .. })));
}

#[test]
fn part_of_a_missing_hosts_name_in_any_letter_case_finds_it() {
    let world = without_a_host();
    for name in ["HOST-2", "ost-2", "host-2:1", "Host-2:1"] {
        let error = world.view.node(&named(name)).unwrap_err();
        let LookupError::Gone { node, name, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*node, name.as_str()), (HOSTS[1], "host-2"));
    }
    // A present node takes precedence over a missing node.
    assert_eq!(world.view.node(&named("host-1")).unwrap().key, HOSTS[0]);
    let one = world.view.node(&named("host")).unwrap();
    assert_eq!(one.key, HOSTS[0]);
}

#[test]
fn a_name_of_several_missing_hosts_is_ambiguous() {
    let mut world = World::up();
    for port in [1, 2] {
        world.sim.unlink(LEAF_2, PortNum(port)).unwrap();
    }
    world.run(Duration::from_secs(30));
    for name in ["twin", "twi"] {
        let error = world.view.node(&named(name)).unwrap_err();
        assert!(
            matches!(&error, LookupError::Ambiguous { total: 2, candidates, .. }
                if candidates[0].name == HOSTS[2].to_string()
                    && candidates[0].facts.contains("gone, was at leaf-2 port 1")),
            "{error}"
        );
    }
}

/// A world whose last two adapters belong to one host, `rails`.
fn with_a_host_of_two_adapters() -> World {
    let (nodes, cables) = netlist().into_parts();
    let adapters = nodes.into_iter().map(|node| Node {
        description: match node.guid {
            guid if guid == HOSTS[2] => b"rails mlx5_0".to_vec(),
            guid if guid == HOSTS[3] => b"rails mlx5_1".to_vec(),
            _ => node.description,
        },
        ..node
    });
    let netlist = Netlist::new(adapters.collect(), cables).unwrap();
    let mut world = World::of(&netlist, HOSTS[0]);
    world.run(Duration::from_secs(2));
    world
}

#[test]
fn missing_adapters_of_one_host_are_listed_and_accepted_together() {
    let mut world = with_a_host_of_two_adapters();
    let two = world.view.node(&named("rails")).unwrap_err().to_string();
    for part in [
        "use one of: 'rails mlx5_0' (CA, LID ",
        ", at leaf-2 port 1), 'rails mlx5_1' (CA, LID",
    ] {
        assert!(two.contains(part), "{part}: {two}");
    }
    for host in [HOSTS[2], HOSTS[3]] {
        world.sim.power_off(host).unwrap();
    }
    world.run(Duration::from_secs(30));
    let gone = world.view.node(&named("rails")).unwrap_err().to_string();
    let expected = "`rails` is gone: its 2 adapters were at leaf-2 port 1 and 1 more until 1970";
    assert!(gone.starts_with(expected), "{gone}");
    let found = world.view.status().missing.unwrap();
    assert_eq!(found.summary, "1 host missing");
    // A busy core takes both adapters or none.
    let (sender, mut events) = mpsc::channel::<Event>(1);
    let controller = Controller::new(sender, Arc::clone(&world.view));
    let parts = controller.accept_missing(GivenUp::Named(named("rails")));
    assert_eq!(parts.unwrap().summary, "1 host");
    world.handle(events.try_recv().unwrap());
    world.run(Duration::from_secs(1));
    assert_eq!(world.view.missing(None, 10).items, []);
}

#[test]
fn lookup_of_a_host_behind_a_missing_switch_says_that_both_are_gone() {
    let mut world = World::up();
    world.sim.power_off(LEAF_2).unwrap();
    world.run(Duration::from_secs(30));
    let error = world.view.node(&Selector::guid(HOSTS[2])).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("leaf-2 port 1, which is gone as well"),
        "{text}"
    );
}

#[test]
fn port_of_a_missing_cable_shows_its_former_end_and_the_time_of_the_loss() {
    let mut world = World::up();
    world.sim.unlink(LEAF_1, PortNum(3)).unwrap();
    world.run(Duration::from_secs(30));
    let port = world.view.port(&named("leaf-1:3")).unwrap().message;
    assert_eq!(port.peer, None);
    let gone = port.gone_cable.expect("it had one");
    assert_eq!(
        (gone.description.as_str(), gone.port.unwrap().number),
        ("spine-a", 1)
    );
    assert!(gone.lost_unix_ms.unwrap() > BEGIN_UNIX_MS);
    let analyst = RouteAnalyst::new(Arc::clone(&world.view));
    let answer = analyst.cable_use(named("leaf-1:3"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let refused = runtime.block_on(answer).unwrap_err().to_string();
    assert!(
        refused.contains("is gone: it led to spine-a port 1 until"),
        "{refused}"
    );
    let question = DrainQuestion {
        parts: vec![named("leaf-1:3")],
        force: true,
        by: String::new(),
        note: String::new(),
    };
    let (sender, _events) = mpsc::channel::<Event>(4);
    let controller = Controller::new(sender, Arc::clone(&world.view));
    let refused = runtime.block_on(controller.drain(question)).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("is gone: it led to spine-a port 1 until"),
        "{refused}"
    );
    let never = world.view.port(&named("leaf-1:5")).unwrap().message;
    assert_eq!(never.gone_cable, None);
}

#[test]
fn missing_parts_are_counted_and_leave_the_state_up() {
    let mut world = World::up();
    let missing = |world: &World| world.view.status().missing.unwrap();
    assert_eq!(missing(&world), v1::MissingParts::default());
    world.sim.power_off(SPINE_B).unwrap();
    world.sim.power_off(HOSTS[1]).unwrap();
    world.run(Duration::from_secs(30));
    assert_eq!(world.view.status().state(), SubnetState::Up);
    let found = missing(&world);
    assert_eq!((found.switches, found.cables, found.hosts), (1, 2, 1));
    assert_eq!(found.summary, "1 switch, 2 cables and 1 host missing");
    let gone = world.view.gone_switches();
    let [switch] = &gone.switches[..] else {
        panic!("{gone:?}");
    };
    assert_eq!(
        (switch.guid, switch.has_hosts, gone.cables.len()),
        (SPINE_B, false, 2)
    );
    assert_eq!(gone.leaves, [LEAF_1], "the host was there");
}

/// A world with exchanged cables at the third ports of the leaves, which lead to the first spine.
fn with_exchanged_cables() -> World {
    let mut world = World::up();
    let ends = [LEAF_1, LEAF_2].map(|leaf| (leaf, PortNum(3)));
    world.sim.swap_cables(ends[0], ends[1]).unwrap();
    world.run(Duration::from_secs(30));
    world
}

#[test]
fn exchanged_cables_are_listed_until_they_are_back_or_accepted() {
    let found = |world: &World| -> Vec<String> {
        let findings = world
            .view
            .findings(None, 99, &FindingFilter::default())
            .items;
        let exchanged = findings
            .into_iter()
            .filter(|one| one.kind == "cables-exchanged");
        exchanged.map(|one| one.message).collect()
    };
    let mut world = with_exchanged_cables();
    let texts = found(&world);
    let [text] = &texts[..] else {
        panic!("one finding: {texts:?}");
    };
    for part in [
        "spine-a port 1 leads to leaf-2 port 3 (was at leaf-1 port 3)",
        "spine-a port 2 leads to leaf-1 port 3 (was at leaf-2 port 3)",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let missing = world.view.missing(None, 10).items;
    assert_eq!(missing.len(), 1, "{missing:?}");
    let entry = &missing[0].message;
    assert_eq!((entry.kind(), entry.cables), (MissingKind::Exchanged, 2));
    assert!(
        entry.seen.contains("leads to leaf-2 port 3"),
        "{}",
        entry.seen
    );
    let summary = world.view.status().missing.unwrap().summary;
    assert_eq!(summary, "2 cables exchanged");

    let ends = [LEAF_1, LEAF_2].map(|leaf| (leaf, PortNum(3)));
    world.sim.swap_cables(ends[0], ends[1]).unwrap();
    world.run(Duration::from_secs(30));
    assert_eq!(found(&world), [] as [String; 0]);

    let mut world = with_exchanged_cables();
    let (sender, mut events) = mpsc::channel::<Event>(4);
    let controller = Controller::new(sender, Arc::clone(&world.view));
    // The name of any of the four ends accepts all of them.
    let parts = controller.accept_missing(GivenUp::Named(named("leaf-2:3")));
    assert_eq!(parts.unwrap().summary, "2 exchanged cables");
    world.handle(events.try_recv().unwrap());
    world.run(Duration::from_secs(1));
    assert_eq!(found(&world), [] as [String; 0]);
    assert_eq!(world.view.missing(None, 10).items, []);
}

#[test]
fn exchanged_cables_are_accepted_by_port_or_alone_but_not_with_missing_parts() {
    let mut world = with_exchanged_cables();
    world.sim.power_off(SPINE_B).unwrap();
    world.run(Duration::from_secs(30));
    let (sender, mut events) = mpsc::channel::<Event>(4);
    let controller = Controller::new(sender, Arc::clone(&world.view));
    let summary = |world: &World| world.view.status().missing.unwrap().summary;
    // The name of a switch accepts what is missing there.
    let refused = controller.accept_missing(GivenUp::Named(named("spine-a")));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("only exchanged cables"), "{refused}");
    let parts = controller.accept_missing(GivenUp::Missing).unwrap();
    assert_eq!(parts.summary, "1 switch, 2 cables");
    world.handle(events.try_recv().unwrap());
    world.run(Duration::from_secs(1));
    assert_eq!(summary(&world), "2 cables exchanged");
    let again = controller.accept_missing(GivenUp::Missing).unwrap_err();
    assert!(
        again.to_string().contains("only exchanged cables"),
        "{again}"
    );
    let parts = controller.accept_missing(GivenUp::Exchanged).unwrap();
    assert_eq!(parts.summary, "2 exchanged cables");
    world.handle(events.try_recv().unwrap());
    world.run(Duration::from_secs(1));
    assert_eq!(summary(&world), "");
}

#[tokio::test]
async fn name_of_a_host_refers_to_all_its_adapters() {
    let mut world = with_a_host_of_two_adapters();
    let question = DrainQuestion {
        parts: vec![named("rails")],
        force: false,
        by: String::new(),
        note: String::new(),
    };
    let drained = carry_out(&mut world, |controller| async move {
        controller.drain(question).await
    });
    let names: Vec<String> = drained
        .await
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["rails mlx5_0", "rails mlx5_1"]);
    let analyst = RouteAnalyst::new(Arc::clone(&world.view));
    let foreseen = analyst
        .foresee(vec![LossSelector::Part(named("rails"))])
        .await;
    assert_eq!(foreseen.unwrap().consequence.unwrap().cables.len(), 2);
    let undrained = carry_out(&mut world, |controller| async move {
        controller.undrain(vec![named("rails")]).await
    });
    assert_eq!(undrained.await.unwrap().0, names);
    // One adapter is gone, the other one has lost nothing.
    world.sim.power_off(HOSTS[3]).unwrap();
    world.run(Duration::from_secs(30));
    let (sender, _events) = mpsc::channel::<Event>(4);
    let controller = Controller::new(sender, Arc::clone(&world.view));
    let parts = controller.accept_missing(GivenUp::Named(named("rails")));
    assert_eq!(parts.unwrap().summary, "1 adapter");
}
