//! Tests of the report's checks over a core that manages a simulated fabric.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_api::model::CountersState;
use rsm_api::v1;
use rsm_api::v1::Verdict;
use rsm_core::Event;
use rsm_ids::PortNum;
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_state::Command;

use super::partitions::{divided, one_apart};
use super::world::*;
use crate::publish::report::{HostFact, HostFacts, Sources, make_checks};
use crate::publish::{RouteAnalyst, View};

/// Facts about a host whose clock drifts, and that has no certificate.
struct Host;

impl HostFacts for Host {
    fn store(&self) -> HostFact {
        HostFact::Good("kept".to_owned())
    }

    fn clock(&self) -> HostFact {
        HostFact::Doubtful("it drifts".to_owned())
    }

    fn certificates(&self) -> HostFact {
        HostFact::NotKnown("there are none".to_owned())
    }
}

async fn report(view: &Arc<View>) -> Vec<v1::Check> {
    let spread = RouteAnalyst::new(view.clone()).spread().await;
    make_checks(&Sources {
        published: view.published(),
        spread: spread.map_err(|error| error.to_string()),
        counters: CountersState::default(),
        errors: Ok(Vec::new()),
        day: Ok(Vec::new()),
        waits: Ok((Vec::new(), 0)),
        firmware: Vec::new(),
        gpus: v1::GetGpuStatusResponse::default(),
        multicast_lids: Some(3),
        host: Arc::new(Host),
    })
}

fn find<'a>(checks: &'a [v1::Check], name: &str) -> &'a v1::Check {
    let found = checks.iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("no check {name}"))
}

#[tokio::test]
async fn fabric_without_faults_fails_no_check() {
    let world = World::up();
    let checks = report(&world.view).await;
    let of = |verdict| {
        let checks = checks.iter().filter(|check| check.verdict() == verdict);
        checks.map(|check| check.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(Verdict::Fail), [""; 0]);
    // There is only one manager, and its clock drifts.
    assert_eq!(of(Verdict::Warn), ["managers", "clock"], "{checks:?}");
    let unknown = of(Verdict::NotKnown);
    for name in [
        "link-errors",
        "link-flaps",
        "congestion",
        "gpu-rails",
        "firmware",
        "certificates",
    ] {
        assert!(unknown.contains(&name), "{unknown:?}");
        assert!(!find(&checks, name).summary.is_empty());
    }
    let nodes = find(&checks, "nodes");
    assert_eq!(nodes.summary, "4 switches and 4 hosts answer");
    let points = find(&checks, "single-points-of-failure");
    assert_eq!(points.verdict(), Verdict::Pass, "{points:?}");
    assert!(
        points
            .summary
            .ends_with("besides those at the switch itself"),
        "{points:?}"
    );
    let capacity = find(&checks, "capacity");
    assert!(
        capacity
            .summary
            .starts_with("LIDs 8 of 49151, MLIDs 3 of 16383, LFT "),
        "{capacity:?}"
    );
}

#[tokio::test]
async fn dead_spine_impairs_the_check_of_nodes_and_makes_the_other_a_single_point_of_failure() {
    let mut world = World::up();
    world.sim.power_off(SPINE_A).unwrap();
    world.run(Duration::from_secs(120));
    let checks = report(&world.view).await;
    let nodes = find(&checks, "nodes");
    assert!(
        nodes.verdict() >= Verdict::Warn && nodes.verdict() <= Verdict::Fail,
        "{nodes:?}"
    );
    assert!(nodes.worst[0].contains("spine-a"), "{nodes:?}");
    let points = find(&checks, "single-points-of-failure");
    assert_eq!(points.verdict(), Verdict::Warn);
    assert_eq!(
        points.worst[0], "spine-b: without it 2 ports of hosts cannot reach the rest",
        "{points:?}"
    );
    assert_eq!(
        points.summary,
        "1 switch and 2 cables whose loss cuts hosts elsewhere off"
    );
}

#[tokio::test]
async fn gone_host_is_named_in_the_summary_of_the_check_of_nodes() {
    let mut world = World::up();
    world.sim.power_off(HOSTS[1]).unwrap();
    world.run(Duration::from_secs(120));
    let checks = report(&world.view).await;
    let nodes = find(&checks, "nodes");
    assert_eq!(nodes.verdict(), Verdict::Warn, "{nodes:?}");
    assert!(
        nodes.summary.contains("1 host missing (host-2)"),
        "{nodes:?}"
    );
}

#[tokio::test]
async fn a_lost_cable_is_named_with_both_ends() {
    let mut world = World::up();
    world.sim.unlink(LEAF_2, PortNum(3)).unwrap();
    world.run(Duration::from_secs(60));
    let checks = report(&world.view).await;
    let cabling = find(&checks, "cabling");
    assert_eq!(cabling.verdict(), Verdict::Warn);
    let named = |end: &str| cabling.worst.iter().any(|part| part.contains(end));
    assert!(named("leaf-2") && named("spine-a"), "{cabling:?}");
    // The spine that leads to one leaf alone has no host behind it.
    let points = find(&checks, "single-points-of-failure");
    let zero = points.worst.iter().find(|part| part.contains(" 0 ports"));
    assert_eq!(zero, None, "{points:?}");
    assert_eq!(
        points.summary,
        "1 switch and 2 cables whose loss cuts hosts elsewhere off"
    );
}

#[tokio::test]
async fn host_that_shares_no_partition_impairs_the_check_of_partitions() {
    let checks = report(&divided().view).await;
    let divided = find(&checks, "partitions");
    assert_eq!(divided.verdict(), Verdict::Warn, "{divided:?}");
    let checks = report(&one_apart().view).await;
    let partitions = find(&checks, "partitions");
    assert_eq!(partitions.verdict(), Verdict::Warn);
    assert_eq!(
        partitions.summary,
        "2 partitions; 1 of 3 ports of hosts reach no other host"
    );
    assert_eq!(
        partitions.worst,
        ["twin (1 port) reaches no other host by its partitions: 0x7fff Default (limited)"]
    );
    let checks = report(&World::up().view).await;
    let one = find(&checks, "partitions");
    assert_eq!(
        (one.verdict(), one.summary.as_str()),
        (Verdict::Pass, "1 partition")
    );
}

#[tokio::test]
async fn orders_in_force_are_named_with_operator_time_and_reason() {
    let mut world = World::up();
    let checks = report(&world.view).await;
    assert_eq!(find(&checks, "orders").verdict(), Verdict::Pass);
    let order = Drained {
        note: "fan".to_owned(),
        ..Drained::new("alice", BEGIN_UNIX_MS)
    };
    world.handle(Event::Command(Command::Drain {
        parts: BTreeMap::from([(NodeOrCable::Node(SPINE_A), Reason::Drained(order))]),
        forced: false,
        ticket: 1,
    }));
    world.run(Duration::from_secs(2));
    let checks = report(&world.view).await;
    let orders = find(&checks, "orders");
    assert_eq!(orders.verdict(), Verdict::Warn, "{orders:?}");
    assert_eq!(orders.summary, "1 part drained");
    assert_eq!(
        orders.worst,
        ["spine-a drained by alice, 1970-01-01 00:16Z: fan"]
    );
}

#[tokio::test]
async fn checks_of_the_fabric_are_not_known_before_the_first_sweep() {
    let view = Arc::new(blank_view());
    let checks = report(&view).await;
    for name in [
        "nodes",
        "link-rates",
        "cabling",
        "routes",
        "balance",
        "capacity",
    ] {
        assert_eq!(find(&checks, name).verdict(), Verdict::NotKnown, "{name}");
    }
}
