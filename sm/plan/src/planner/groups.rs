//! Plans multicast on the routes of a plan, and a transition that is safe for unicast and multicast
//! tables together.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::Lid;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::whole::{Step, Whole};
use rsm_routing::mcast::{Orientation, PortMask};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{Dependencies, LaneDependencies, masks_follow};

use super::NO_PLAN;
use crate::groups::GroupSet;
use crate::job::PlanJob;
use crate::multicast::{self, Multicast, masks_by_mlid};
use crate::plan::Plan;
use crate::transition::{Transition, mute};
use crate::witness;

/// Reason why interim tables for unicast packets alone do not suffice.
const OFF_ORDER: &str = "multicast and unicast packets could wait for each other";

/// Reason why there are no multicast trees to follow.
const NO_TREES: &str = "no multicast trees are in force";

/// The sequence of unicast tables from the held tables to the planned tables.
pub(super) struct UnicastSequence<'a> {
    /// The tables in force, in the order of the topology's switches.
    pub(super) held: &'a Tables,
    /// The switch graph with all links that may carry packets.
    pub(super) links: &'a Topology,
    /// Whether unicast packets take only legal turns throughout the transition.
    pub(super) follows: bool,
    /// The dependencies of the planned tables on `links`; `None` if they are not known.
    pub(super) dependencies: Option<Dependencies<'a>>,
}

/// Adds multicast to a plan with routes, if the members are known, and replaces the transition if
/// multicast packets require it.
pub(super) fn add(
    plan: &mut Plan,
    job: &PlanJob,
    orientation: &Orientation,
    unicast: UnicastSequence<'_>,
) {
    let Some(groups) = &job.groups else {
        return;
    };
    let previous = job.previous.as_deref().ok_or(NO_PLAN);
    let previous = previous.and_then(|plan| plan.multicast.as_deref().ok_or(NO_TREES));
    add_trees(plan, job, groups, orientation, previous);
    if let Some(safe) = safe_with_multicast(plan, job, unicast) {
        plan.whole.push(Whole::new(Step::Interim, OFF_ORDER));
        plan.transition = safe;
    }
}

/// Plans the job with the routes of `basis` and other multicast members.
pub(super) fn replan(job: &PlanJob, basis: &Plan) -> Plan {
    let mut plan = Plan {
        generation: job.generation,
        transition: Transition::default(),
        relieved: None,
        whole: Vec::new(),
        ..basis.clone()
    };
    plan.findings.retain(|finding| {
        !matches!(
            finding.kind,
            FindingKind::MulticastUnserved | FindingKind::MulticastRefused
        )
    });
    if let Some(groups) = &job.groups {
        let previous = plan.multicast.take();
        let orientation = match &previous {
            Some(previous) => previous.orientation().clone(),
            None => multicast::orientation(&plan.topology, &plan.routing),
        };
        let previous = previous.as_deref().ok_or(NO_TREES);
        add_trees(&mut plan, job, groups, &orientation, previous);
    }
    plan
}

/// Plans multicast on the plan's routes. If the proof refuses the trees, adds a finding; the
/// multicast tables of switches then keep their content.
fn add_trees(
    plan: &mut Plan,
    job: &PlanJob,
    groups: &Arc<GroupSet>,
    orientation: &Orientation,
    previous: Result<&Multicast, &'static str>,
) {
    let outcome = multicast::plan(&multicast::MulticastJob {
        fabric: &plan.fabric,
        topology: &plan.topology,
        routing: &plan.routing,
        orientation,
        policy: &plan.policy,
        unicast_follows: plan.follows_ranking,
        groups,
        held: &job.masks,
        previous,
    });
    let whole = outcome.whole.map(|why| Whole::new(Step::Multicast, why));
    plan.whole.extend(whole);
    match outcome.multicast {
        Ok(multicast) => {
            plan.findings.extend(multicast.findings());
            plan.multicast = Some(Arc::new(multicast));
        }
        Err(report) => plan.findings.push(Finding::new(
            FindingKind::MulticastRefused,
            Subject::Subnet,
            Severity::Error,
            format!(
                "the proof refused the multicast trees, and the tables in force stay: {}",
                witness::multicast_faults(&report)
            ),
        )),
    }
}

/// The replacement of the transition of `plan`, if multicast and unicast packets together could
/// close a credit loop during that transition; `None` if the transition of `plan` is safe.
///
/// A push removes masks from all multicast tables before it adds any mask, and adds masks after all
/// interim unicast tables. If all changed unicast entries discard packets in between, each half of
/// the push mixes only old or only new tables with the entries and masks that old and new tables
/// share.
///
/// No further proof is needed if unicast packets during the whole transition, and multicast
/// packets, take only legal turns.
fn safe_with_multicast(
    plan: &Plan,
    job: &PlanJob,
    unicast: UnicastSequence<'_>,
) -> Option<Transition> {
    let (topology, masks) = (unicast.links, &job.masks);
    let planned = &plan.routing.tables;
    let multicast = plan.multicast.as_ref()?;
    let trees = &multicast.trees.by_mlid;
    let orientation = multicast.orientation();
    let follows = |masks: &[_]| masks_follow(topology, orientation, masks);
    let concerned = multicast.concerned();
    let is_concerned = |mlid| concerned.is_none_or(|concerned| concerned.contains(mlid));
    if unicast.follows
        && masks_by_mlid(topology, masks, concerned)
            .values()
            .all(|masks| follows(masks))
        && trees
            .iter()
            .filter(|(mlid, _)| is_concerned(mlid))
            .all(|(_, tree)| follows(&tree.masks))
    {
        return None;
    }
    let held = masks_by_mlid(topology, masks, None);
    if held.is_empty() && trees.is_empty() {
        return None;
    }
    let old = unicast.held;
    if old == planned {
        return None;
    }
    if !plan.transition.mute.is_empty() {
        // The push cannot wait until mute switches remove their masks.
        let planned_masks = trees.iter().map(|(&mlid, tree)| (mlid, tree.masks.clone()));
        let masks = (&held, &planned_masks.collect());
        let tables = (old, planned);
        let transition = &plan.transition;
        let is_safe =
            mute::is_safe_with_multicast(topology, &job.hardware, transition, tables, masks);
        return (!is_safe).then(|| Transition::discarding(old, planned));
    }
    if !plan.routing.lanes.is_single() {
        let is_safe = plan.transition.discards || is_safe_on_vls(plan, topology, old, &held);
        return (!is_safe).then(|| Transition::discarding(old, planned));
    }
    let dependencies = unicast
        .dependencies
        .unwrap_or_else(|| Dependencies::of(topology, planned));
    let mut held_masks = Some(&held);
    let mut now = old;
    let mut is_safe = true;
    for interim in plan.transition.interim.iter() {
        let mut dependencies = Dependencies::of(topology, interim);
        dependencies.add_mixture(now, interim);
        held.values()
            .for_each(|masks| dependencies.add_multicast(masks));
        is_safe &= dependencies.is_acyclic();
        now = interim;
        held_masks = None;
    }
    let mut last = dependencies;
    last.add_mixture(now, planned);
    let held_masks = held_masks.into_iter().flat_map(|held| held.values());
    held_masks.for_each(|masks| last.add_multicast(masks));
    trees
        .values()
        .for_each(|tree| last.add_multicast(&tree.masks));
    is_safe &= last.is_acyclic();
    (!is_safe).then(|| Transition::discarding(old, planned))
}

/// Whether every mixture of `old` and planned unicast tables, together with the `held` masks and
/// the planned trees, is free of credit loops on the VLs of the plan.
fn is_safe_on_vls(
    plan: &Plan,
    topology: &Topology,
    old: &Tables,
    held: &BTreeMap<Lid, Vec<(SwitchIdx, PortMask)>>,
) -> bool {
    let Some(multicast) = plan.multicast.as_ref() else {
        return true;
    };
    let (planned, lanes) = (&plan.routing.tables, &plan.routing.lanes);
    let mut dependencies = LaneDependencies::of(topology, &[old, planned], lanes);
    for (&mlid, masks) in held {
        dependencies.add_multicast(masks, multicast.groups.levels_of(mlid));
    }
    for tree in multicast.trees.by_mlid.values() {
        dependencies.add_multicast(&tree.masks, tree.group.levels);
    }
    dependencies.is_sound()
}
