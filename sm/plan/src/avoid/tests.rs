//! Tests of drained nodes and cables: which may be drained, and which routes then avoid them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::fabric::Fabric;
use rsm_routing::engine::EngineKind;
use rsm_routing::generate::generate;

use super::{Avoid, AvoidError, Drained, ISOLATION, NodeOrCable, Reason};
use crate::policy::Policy;
use crate::{Plan, PlanJob};

/// A tree of four leaves with four hosts each, and two spines.
const TREE: &str = "pgft:2;4,4;1,2;1,1";

fn fabric(spec: &str) -> Arc<Fabric> {
    Arc::new(Fabric::of_netlist(&generate(spec).unwrap()))
}

/// The plan of a job that must succeed.
fn planned(job: &PlanJob) -> Arc<Plan> {
    let outcome = crate::plan(job).plan();
    outcome.unwrap_or_else(|refused| panic!("{}", refused.with_causes()))
}

/// The reason of a part that the operator drained at this time.
fn drained(since_unix_ms: u64) -> Reason {
    Reason::Drained(Drained::new("operator", since_unix_ms))
}

/// The parts as drained, one after another, from the time 1 on.
fn drained_parts(parts: impl IntoIterator<Item = NodeOrCable>) -> BTreeMap<NodeOrCable, Reason> {
    let parts = parts.into_iter().zip(1..);
    parts.map(|(part, since)| (part, drained(since))).collect()
}

/// Drains these parts without checks.
fn avoid(parts: impl IntoIterator<Item = NodeOrCable>) -> Arc<Avoid> {
    let mut avoid = Avoid::default();
    avoid.add(&drained_parts(parts)).unwrap();
    Arc::new(avoid)
}

/// Whether a host is attached to the switch.
fn has_hosts(fabric: &Fabric, guid: Guid) -> bool {
    let node = fabric.node_of(guid).unwrap();
    node.cables()
        .any(|(_, peer)| !fabric.node_of(peer.node).unwrap().is_switch())
}

/// The switches with hosts, and the other switches.
fn tiers(fabric: &Fabric) -> (Vec<Guid>, Vec<Guid>) {
    let switches = fabric.switches().map(|(_, node)| node.guid);
    switches.partition(|&guid| has_hosts(fabric, guid))
}

/// The cables between switches, each by its lower end.
fn cables(fabric: &Fabric) -> Vec<PortKey> {
    let links = fabric
        .links()
        .filter(|(a, b)| fabric.node(a.node).is_switch() && fabric.node(b.node).is_switch());
    links.map(|(a, _)| fabric.key(a)).collect()
}

/// The number of LIDs to which switches send packets over a part.
fn lids_over_count(plan: &Plan, part: NodeOrCable) -> usize {
    let lids = plan.lids_over(part, |guid| plan.table(guid));
    lids.expect("the fabric has the part").over.len()
}

fn assert_all_reachable(plan: &Plan) {
    let report = &plan.report;
    assert_eq!(
        (report.unreachable_pairs, report.disconnected_pairs),
        (0, 0)
    );
}

#[test]
fn drained_spine_carries_no_transit_and_keeps_its_table() {
    let fabric = fabric(TREE);
    let (_, spines) = tiers(&fabric);
    let first = planned(&PlanJob::first(fabric.clone(), Arc::default()));
    assert!(lids_over_count(&first, NodeOrCable::Node(spines[0])) > 0);
    let job = PlanJob {
        avoid: avoid([NodeOrCable::Node(spines[0])]),
        ..PlanJob::after(&first, fabric)
    };
    let plan = planned(&job);
    assert_all_reachable(&plan);
    assert_eq!(lids_over_count(&plan, NodeOrCable::Node(spines[0])), 0);
    assert!(plan.avoided.in_use.is_empty());
    assert!(
        plan.table(spines[0]).is_some(),
        "a drained switch keeps its table"
    );
    let undrained = planned(&PlanJob {
        avoid: Arc::default(),
        ..PlanJob::after(&plan, plan.fabric.clone())
    });
    assert_eq!(undrained.routing.tables, first.routing.tables);
}

/// Both ends of each cable between the switch `guid` and another switch.
fn cable_ends(fabric: &Fabric, guid: Guid) -> Vec<NodeOrCable> {
    let cables = fabric.node_of(guid).unwrap().cables();
    let cables = cables.filter(|(_, peer)| fabric.is_switch(peer.node));
    cables
        .flat_map(|(port, peer)| [port, peer])
        .map(NodeOrCable::Port)
        .collect()
}

#[test]
fn cables_of_a_drained_spine_carry_nothing_and_cables_of_a_drained_leaf_only_its_hosts() {
    let netlist = crate::aggregated::with_aggregation_nodes(generate(TREE).unwrap());
    let fabric = Arc::new(Fabric::of_netlist(&netlist));
    let spine = fabric.switches().map(|(_, node)| node);
    let spine = spine.filter(|node| node.reported().contains("spine-"));
    let spine = spine.map(|node| node.guid).next().unwrap();
    let first = planned(&PlanJob::first(fabric.clone(), Arc::default()));
    let drained = |part| {
        planned(&PlanJob {
            avoid: avoid([part]),
            ..PlanJob::after(&first, fabric.clone())
        })
    };
    let plan = drained(NodeOrCable::Node(spine));
    for part in cable_ends(&fabric, spine) {
        assert!(lids_over_count(&first, part) > 0, "{part:?}");
        assert_eq!(lids_over_count(&plan, part), 0, "{part:?}");
    }
    assert_eq!(lids_over_count(&plan, NodeOrCable::Node(spine)), 0);

    let local = fabric.local.unwrap();
    let manager_leaf = fabric.port(local).peer.unwrap().node;
    let leaf = fabric.switches().map(|(_, node)| node);
    let leaf = leaf.filter(|node| node.reported().contains("leaf-") && node.guid != manager_leaf);
    let leaf = leaf.map(|node| node.guid).next().unwrap();
    let plan = drained(NodeOrCable::Node(leaf));
    let lids_over = |part: &NodeOrCable| lids_over_count(&plan, *part);
    assert_eq!(lids_over(&NodeOrCable::Node(leaf)), 4, "its hosts");
    let carrying = cable_ends(&fabric, leaf);
    let carrying = carrying.iter().filter(|part| lids_over(part) > 0);
    assert_eq!(
        carrying.count(),
        2,
        "both ends of the cable that the leaf keeps"
    );
}

#[test]
fn drained_cable_carries_nothing_and_other_cables_take_over() {
    let fabric = fabric(TREE);
    let cable = NodeOrCable::Port(cables(&fabric)[0]);
    let plan = planned(&PlanJob {
        avoid: avoid([cable]),
        ..PlanJob::first(fabric, Arc::default())
    });
    assert_all_reachable(&plan);
    assert_eq!(lids_over_count(&plan, cable), 0);
}

#[test]
fn draining_a_leaf_is_refused_unless_its_hosts_are_drained_too() {
    let fabric = fabric(TREE);
    let (leaves, _) = tiers(&fabric);
    let local = fabric.local.unwrap();
    let manager_leaf = fabric.port(local).peer.unwrap().node;
    let leaf = *leaves.iter().find(|&&leaf| leaf != manager_leaf).unwrap();
    let mut avoid = Avoid::default();
    let none = BTreeSet::new();
    let leaf_alone = drained_parts([NodeOrCable::Node(leaf)]);
    let Err(AvoidError::CutOff(cut_off)) = avoid.try_add(&leaf_alone, &fabric, &none) else {
        panic!("its hosts have no other cable");
    };
    assert_eq!((cut_off.names.len(), cut_off.includes_manager), (4, false));
    assert!(avoid.is_empty());
    let node = fabric.node_of(leaf).unwrap();
    let hosts = node.cables().map(|(_, peer)| peer.node);
    let hosts = hosts.filter(|&guid| !fabric.node_of(guid).unwrap().is_switch());
    let leaf_with_hosts = drained_parts(hosts.chain([leaf]).map(NodeOrCable::Node));
    assert_eq!(avoid.try_add(&leaf_with_hosts, &fabric, &none), Ok(()));
    let leaf_of_manager = drained_parts([NodeOrCable::Node(manager_leaf)]);
    let Err(AvoidError::CutOff(cut_off)) = avoid.try_add(&leaf_of_manager, &fabric, &none) else {
        panic!("the switch connects the subnet manager");
    };
    assert!(cut_off.includes_manager && cut_off.to_string().contains("subnet manager itself"));
}

#[test]
fn a_spine_with_an_aggregation_node_may_be_drained() {
    let netlist = crate::aggregated::with_aggregation_nodes(generate(TREE).unwrap());
    let fabric = Arc::new(Fabric::of_netlist(&netlist));
    let spines = fabric.switches().map(|(_, node)| node);
    let spines = spines.filter(|node| node.reported().contains("spine-"));
    let spines: Vec<Guid> = spines.map(|node| node.guid).collect();
    assert_eq!(spines.len(), 2);
    let (mut avoid, none) = (Avoid::default(), BTreeSet::new());
    let first_spine = drained_parts([NodeOrCable::Node(spines[0])]);
    assert_eq!(avoid.try_add(&first_spine, &fabric, &none), Ok(()));
    let second_spine = drained_parts([NodeOrCable::Node(spines[1])]);
    let Err(AvoidError::CutOff(cut_off)) = avoid.try_add(&second_spine, &fabric, &none) else {
        panic!("the leaves have no other spine");
    };
    let is_aggregation_node = |name: &String| name.starts_with("Mellanox");
    let cut_off_nodes = cut_off
        .names
        .iter()
        .filter(|name| is_aggregation_node(name));
    assert_eq!(
        cut_off_nodes.count(),
        3,
        "the aggregation nodes of the leaves: {:?}",
        cut_off.names
    );
}

#[test]
fn host_is_drained_but_draining_its_switch_port_is_refused() {
    let fabric = fabric(TREE);
    let local = fabric.local.unwrap().node;
    let hosts = fabric
        .end_ports()
        .filter(|(port, _)| !fabric.node(port.node).is_switch());
    let (host, _) = hosts.filter(|(port, _)| port.node != local).last().unwrap();
    let key = fabric.key(host);
    let none = BTreeSet::new();
    let switch_port = fabric.port(host).peer.unwrap();
    let mut avoid = Avoid::default();
    let from_switch = drained_parts([NodeOrCable::Port(switch_port)]);
    let Err(AvoidError::CutOff(cut_off)) = avoid.try_add(&from_switch, &fabric, &none) else {
        panic!("the host has no other cable");
    };
    assert_eq!(cut_off.ports, [key]);
    for part in [NodeOrCable::Node(key.node), NodeOrCable::Port(key)] {
        assert_eq!(
            avoid.try_add(&drained_parts([part]), &fabric, &none),
            Ok(())
        );
    }
    assert_eq!(avoid.resolve(&fabric, &none).out, none, "its routes stay");
}

#[test]
fn draining_the_last_spine_is_refused_and_a_drained_spine_is_used_when_the_other_vanishes() {
    let fabric = fabric(TREE);
    let (_, spines) = tiers(&fabric);
    let none = BTreeSet::new();
    let mut avoid_first = Avoid::default();
    avoid_first
        .try_add(
            &drained_parts([NodeOrCable::Node(spines[0])]),
            &fabric,
            &none,
        )
        .unwrap();
    let second_spine = drained_parts([NodeOrCable::Node(spines[1])]);
    assert!(matches!(
        avoid_first.try_add(&second_spine, &fabric, &none),
        Err(AvoidError::CutOff(_))
    ));

    let first = planned(&PlanJob {
        avoid: Arc::new(avoid_first),
        ..PlanJob::first(fabric.clone(), Arc::default())
    });
    let vanished = fabric.node_of(spines[1]).unwrap();
    let vanished_ports = vanished.cables().map(|(port, _)| port).collect();
    let remaining = Arc::new(fabric.without(&vanished_ports));
    let plan = planned(&PlanJob::after(&first, remaining));
    assert_eq!(
        plan.avoided.in_use,
        BTreeSet::from([NodeOrCable::Node(spines[0])])
    );
    assert_eq!(plan.report.unreachable_pairs, 0);
    assert!(lids_over_count(&plan, NodeOrCable::Node(spines[0])) > 0);
    let in_use = plan
        .findings
        .iter()
        .filter(|finding| finding.kind.code() == "drained-in-use");
    assert_eq!(in_use.count(), 1);
    let recovered = planned(&PlanJob::after(&plan, fabric));
    assert_eq!(recovered.routing.tables, first.routing.tables);
    assert!(recovered.avoided.in_use.is_empty());
}

#[test]
fn plan_is_refused_if_parts_on_trial_would_cut_ports_off() {
    let fabric = fabric(TREE);
    let (leaves, _) = tiers(&fabric);
    let job = PlanJob {
        avoid: avoid([NodeOrCable::Node(leaves[3])]),
        avoided_before: Some(Arc::default()),
        ..PlanJob::first(fabric, Arc::default())
    };
    let refused = crate::plan(&job)
        .plan()
        .expect_err("hosts would be cut off");
    assert!(
        refused.with_causes().contains("4 nodes would be cut off"),
        "{}",
        refused.with_causes()
    );
    let forced = PlanJob {
        avoided_before: None,
        ..job
    };
    let plan = planned(&forced);
    assert_all_reachable(&plan);
    assert!(
        plan.avoided.in_use.is_empty(),
        "the leaf keeps one neighbour"
    );
}

/// Pseudo-random numbers, equal for equal seeds.
struct Dice(u64);

impl Dice {
    /// The next number, from 0 to below `below`.
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// One to four random switches and cables. If none of them carried traffic, ports might be cut off.
fn random_parts(fabric: &Fabric, dice: &mut Dice) -> Vec<NodeOrCable> {
    let switches: Vec<Guid> = fabric.switches().map(|(_, node)| node.guid).collect();
    let cables = cables(fabric);
    let mut parts = Vec::new();
    for _ in 0..=dice.roll(4) {
        parts.push(match dice.roll(2) {
            0 => NodeOrCable::Node(switches[dice.roll(switches.len())]),
            _ => NodeOrCable::Port(cables[dice.roll(cables.len())]),
        });
    }
    parts
}

/// Base LIDs of the drained switches, and of the hosts attached to these switches.
fn lids_at_drained(plan: &Plan) -> BTreeSet<u16> {
    let mut lids = BTreeSet::new();
    for (part, _) in plan.avoided.avoid.parts() {
        let NodeOrCable::Node(guid) = part else {
            continue;
        };
        let fabric = &plan.fabric;
        let cables = fabric
            .node_of(guid)
            .into_iter()
            .flat_map(|node| node.cables());
        let hosts = cables.map(|(_, peer)| peer.node);
        let hosts = hosts.filter(|&guid| !fabric.node_of(guid).unwrap().is_switch());
        for node in hosts.chain([guid]) {
            let ends = fabric.node_of(node).unwrap().end_ports();
            let claims = ends.filter_map(|(port, _)| plan.claim(PortKey::new(node, port)));
            lids.extend(claims.map(|claim| claim.base.0));
        }
    }
    lids
}

#[test]
fn random_drains_keep_all_ports_reachable_and_end_transit_over_unused_parts() {
    let specs = [
        (TREE, EngineKind::FabricTree),
        ("fat-tree:k=4,levels=3", EngineKind::FabricTree),
        ("fat-tree:k=4,levels=3", EngineKind::UpDn),
        ("ring:6", EngineKind::Nue),
        ("ring:5", EngineKind::UpDn),
        ("random:switches=10,degree=4,hosts=2", EngineKind::Auto),
    ];
    for (spec, engine) in specs {
        let Ok(netlist) = generate(spec) else {
            panic!("{spec} is a fabric");
        };
        let fabric = Arc::new(Fabric::of_netlist(&netlist));
        let policy = Arc::new(Policy {
            engine,
            ..Policy::default()
        });
        let mut before = planned(&PlanJob::first(fabric.clone(), policy));
        for seed in 0..12 {
            let mut dice = Dice(seed);
            let parts = random_parts(&fabric, &mut dice);
            let plan = planned(&PlanJob {
                avoid: avoid(parts.iter().copied()),
                ..PlanJob::after(&before, fabric.clone())
            });
            assert_all_reachable(&plan);
            assert!(plan.avoided.suspended.is_none(), "{spec} {parts:?}");
            let drained_lids = lids_at_drained(&plan);
            for &part in parts.iter().filter(|part| !plan.avoided.uses(**part)) {
                let lids = plan.lids_over(part, |guid| plan.table(guid)).unwrap();
                let transit = lids
                    .over
                    .iter()
                    .filter(|lid| !drained_lids.contains(&lid.0));
                assert_eq!(
                    transit.count(),
                    0,
                    "{spec} seed {seed} {part:?} of {parts:?}"
                );
            }
            before = plan;
        }
    }
}

#[test]
fn with_drained_leaf_of_the_manager_draining_another_leaf_is_refused() {
    let fabric = fabric(TREE);
    let local = fabric.local.expect("the manager has a port");
    let manager_leaf = fabric.port(local).peer.expect("the port has a cable").node;
    let leaves = tiers(&fabric).0;
    let other_leaf = leaves
        .into_iter()
        .find(|&leaf| leaf != manager_leaf)
        .unwrap();
    let (mut avoid, none) = (Avoid::default(), BTreeSet::new());
    avoid
        .add(&drained_parts([NodeOrCable::Node(manager_leaf)]))
        .unwrap();
    let parts = drained_parts([NodeOrCable::Node(other_leaf)]);
    let refused = avoid.try_add(&parts, &fabric, &none);
    let Err(AvoidError::CutOff(cut_off)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(cut_off.ports.len(), 4, "the hosts of that leaf");
    assert!(!cut_off.includes_manager);
}

#[test]
fn second_drain_of_a_part_keeps_the_record_of_the_first_until_the_port_is_disabled() {
    let part = NodeOrCable::Node(Guid(7));
    let record = |since_unix_ms: u64, disabled: bool| {
        let Reason::Drained(record) = drained(since_unix_ms) else {
            unreachable!("the part is drained");
        };
        BTreeMap::from([(part, Reason::Drained(Drained { disabled, ..record }))])
    };
    let since = |avoid: &Avoid| avoid.drained().next().map(|(_, it)| it.since_unix_ms);
    let mut avoid = Avoid::default();
    avoid.add(&record(1, false)).unwrap();
    avoid.add(&record(2, false)).unwrap();
    assert_eq!(since(&avoid), Some(1));
    avoid.add(&record(3, true)).unwrap();
    assert_eq!(since(&avoid), Some(3), "the port is disabled since then");
    avoid.add(&record(4, false)).unwrap();
    avoid.add(&record(5, true)).unwrap();
    assert_eq!(since(&avoid), Some(3));
    assert!(avoid.drained().all(|(_, record)| record.disabled));
}

/// An order of `by` about port 1 of node 7, by the drain of a test.
fn order(by: &str, disabled: bool) -> Drained {
    let Reason::Drained(record) = drained(1) else {
        unreachable!("the part is drained");
    };
    Drained {
        by: by.to_owned(),
        note: format!("note of {by}"),
        disabled,
        ..record
    }
}

/// Operators of the orders in force, an order that disables the port in capitals.
fn orders(avoid: &Avoid) -> Vec<String> {
    let orders = avoid.drained().flat_map(|(_, drained)| drained.orders());
    let shown = orders.map(|order| match order.disabled {
        true => order.by.to_uppercase(),
        false => order.by.clone(),
    });
    shown.collect()
}

#[test]
fn order_of_another_operator_stands_beside_and_outlasts_the_isolation() {
    const HOSTILE: &str = "HEALTH.HOSTILE_HOSTS";
    let port = PortKey::new(Guid(7), PortNum(1));
    let part = NodeOrCable::Port(port);
    let parts = BTreeSet::from([part]);
    let (bob, isolation) = (order("bob", false), order(ISOLATION, true));
    let (carol, dan) = (order("carol", true), order("dan", false));
    for (given, expected, enabled, undrained) in [
        // The drain is there first, or comes second.
        (
            vec![&bob, &isolation],
            vec![HOSTILE, "bob"],
            vec!["bob"],
            vec![HOSTILE],
        ),
        (
            vec![&isolation, &bob],
            vec![HOSTILE, "bob"],
            vec!["bob"],
            vec![HOSTILE],
        ),
        // An operator disables the port as well, and a third one drains the cable.
        (
            vec![&isolation, &carol],
            vec![HOSTILE, "CAROL"],
            vec![],
            vec![HOSTILE, "CAROL"],
        ),
        (
            vec![&bob, &isolation, &carol, &dan],
            vec![HOSTILE, "CAROL", "bob"],
            vec!["bob"],
            vec![HOSTILE, "CAROL"],
        ),
        (
            vec![&carol, &isolation],
            vec!["CAROL"],
            vec![],
            vec!["CAROL"],
        ),
        (
            vec![&bob, &carol],
            vec!["CAROL", "bob"],
            vec!["bob"],
            vec!["CAROL"],
        ),
        (
            vec![&bob, &order("bob", true)],
            vec!["BOB"],
            vec![],
            vec!["BOB"],
        ),
    ] {
        let mut avoid = Avoid::default();
        for order in given {
            let order = Reason::Drained(order.clone());
            avoid.add(&BTreeMap::from([(part, order)])).unwrap();
        }
        assert_eq!(orders(&avoid), expected);
        let mut after = avoid.clone();
        after.enable(port);
        assert_eq!(orders(&after), enabled, "{expected:?} enabled");
        let mut after = avoid.clone();
        after.undrain(&parts);
        assert_eq!(orders(&after), undrained, "{expected:?} undrained");
        // A port that only an isolation disables is no other operator's.
        let disabled_by = expected.iter().find(|by| ["BOB", "CAROL"].contains(by));
        for by in ["bob", "carol", "dan"] {
            let of_another = avoid.disabled_by_another(port, by);
            let found = of_another.map(|order| order.by.to_uppercase());
            let another = disabled_by.filter(|one| **one != by.to_uppercase());
            assert_eq!(found.as_deref(), another.copied(), "{expected:?} {by}");
        }
    }
}
