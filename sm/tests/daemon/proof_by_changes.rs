//! Tests that a plan that follows a proved plan is proved by its changes, with the same report as a
//! proof of the whole plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Lid, PortKey};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_plan::groups::{GroupMembers, GroupSet};
use rsm_plan::lint::Proved;
use rsm_plan::policy::Policy;
use rsm_plan::{Plan, PlanJob, plan};
use rsm_routing::engine::EngineKind;
use rsm_routing::generate::generate;
use rsm_routing::verify::verify;

/// The plan for `job`. Panics if the plan is refused.
fn accepted(job: &PlanJob) -> Arc<Plan> {
    let planned = plan(job).plan();
    planned.unwrap_or_else(|refused| panic!("{}", refused.with_causes()))
}

/// The plan for `job`, whose report equals that of a proof of the whole plan.
fn planned(job: &PlanJob) -> Arc<Plan> {
    let plan = accepted(job);
    let whole = verify(&plan.topology, &plan.routing.tables);
    assert_eq!(plan.report, whole, "proved {}", plan.proved);
    plan
}

/// Job of the plan after `before`, when all switches hold the tables of `before`.
fn next(before: &Arc<Plan>, fabric: Fabric) -> PlanJob {
    PlanJob {
        groups: before.multicast.as_ref().map(|of| of.groups.clone()),
        ..PlanJob::after(before, Arc::new(fabric))
    }
}

/// One end of each link between two switches.
fn between_switches(fabric: &Fabric) -> Vec<PortKey> {
    let is_switch = |at: PortRef| fabric.node(at.node).is_switch();
    let links = fabric
        .links()
        .filter(|&(a, b)| is_switch(a) && is_switch(b));
    links.map(|(a, _)| fabric.key(a)).collect()
}

/// One group with every fifth host.
fn group(fabric: &Fabric) -> GroupSet {
    let hosts = fabric.end_ports().filter(|(_, port)| port.peer.is_some());
    let ports = hosts.step_by(5).map(|(_, port)| (port.guid, true));
    let members = GroupMembers {
        ports: ports.collect(),
    };
    GroupSet {
        by_mlid: [(Lid::MULTICAST_FIRST, Arc::new(members))].into(),
        ..GroupSet::default()
    }
}

/// Whether `plan` was proved by its changes.
fn is_proved_by_changes(plan: &Plan) -> bool {
    matches!(plan.proved, Proved::Changes { .. })
}

#[test]
fn loss_and_return_of_links_are_proved_by_changes() {
    let whole = Fabric::of_netlist(&generate("pgft:3;4,4,4;1,4,4;1,1,1").unwrap());
    for with_groups in [false, true] {
        let policy = Arc::new(Policy::default());
        let first = planned(&PlanJob {
            groups: with_groups.then(|| Arc::new(group(&whole))),
            ..PlanJob::first(Arc::new(whole.clone()), policy)
        });
        assert!(matches!(first.proved, Proved::Whole { .. }));
        let cables = between_switches(&whole);
        let mut proved_by_changes = 0;
        for number in 0..40 {
            let gone = cables[number * 7919 % cables.len()];
            let during = planned(&next(&first, whole.without(&BTreeSet::from([gone]))));
            let after = planned(&next(&during, whole.clone()));
            assert_eq!(after.routing.tables, first.routing.tables);
            assert_eq!(after.report, first.report);
            proved_by_changes += usize::from(is_proved_by_changes(&during))
                + usize::from(is_proved_by_changes(&after));
        }
        assert_eq!(proved_by_changes, 80);
    }
}

#[test]
fn other_engines_and_routes_over_lanes_are_proved_as_a_whole() {
    let whole = Fabric::of_netlist(&generate("pgft:3;4,4,4;1,4,4;1,1,1").unwrap());
    let first = planned(&PlanJob::first(
        Arc::new(whole.clone()),
        Arc::new(Policy::default()),
    ));
    // The new policy selects another engine, whose routes follow no order.
    let policy = Policy {
        engine: EngineKind::MinHop,
        accept_credit_loops: true,
        ..Policy::default()
    };
    let other = planned(&PlanJob {
        policy: Arc::new(policy),
        ..next(&first, whole.clone())
    });
    assert!(!is_proved_by_changes(&other), "{}", other.proved);
    assert!(!other.follows_ranking);
    let back = planned(&PlanJob {
        policy: first.policy.clone(),
        ..next(&other, whole)
    });
    assert!(!is_proved_by_changes(&back), "{}", back.proved);
    assert_eq!(back.report, first.report);
    // Routes that need several lanes are proved over lanes.
    let torus = Fabric::of_netlist(&generate("torus:5x5,hosts=1").unwrap());
    let policy = Policy {
        engine: EngineKind::Torus,
        ..Policy::default()
    };
    let first = accepted(&PlanJob::first(Arc::new(torus.clone()), Arc::new(policy)));
    let cable = between_switches(&torus)[0];
    let plan = accepted(&next(&first, torus.without(&BTreeSet::from([cable]))));
    assert!(!is_proved_by_changes(&plan), "{}", plan.proved);
}
