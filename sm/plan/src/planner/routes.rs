//! Computes the routes of a plan, with an engine or by moving single entries.

use std::sync::Arc;

use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::whole::{Step, Whole};
use rsm_routing::engine::{self, AbsentRoots, EngineError, EngineKind, Options, Routing, Unmoved};
use rsm_routing::topology::Topology;

use super::input::RoutingInput;
use crate::error::PlanError;
use crate::job::{JobKind, PlanJob};
use crate::levels;
use crate::plan::Plan;

/// Result of the computation of routes.
pub(super) enum Routed {
    /// New routes.
    Made {
        /// The routes, including entries of virtual ports.
        routing: Box<Routing>,
        /// Number of entries moved off the links with maximum load; `None` if the engine computed
        /// all entries.
        relieved: Option<usize>,
    },
    /// No entry was moved, for the stated reason: the plan in force stays.
    Unchanged(Arc<Plan>, Unmoved),
}

/// Computes routes by `engine`, and checks that the operator's VL tables stop no packet on them.
/// Appends to `whole` the reason if the engine computed all entries anew.
///
/// # Errors
/// Fails if the engine finds no routes, for lack of VLs or otherwise, or if the operator's tables
/// stop packets.
pub(super) fn of_engine(
    job: &PlanJob,
    engine: EngineKind,
    input: &RoutingInput,
    whole: &mut Vec<Whole>,
) -> Result<Routed, PlanError> {
    let (fabric, policy, topology) = (&*job.fabric, &*job.policy, &*input.topology);
    let mut routed = compute(job, engine, input).map_err(|source| {
        match levels::vl_limit(fabric, policy, topology, &source) {
            Some(limit) => PlanError::FewLanes { limit, source },
            None => PlanError::Engine(source),
        }
    })?;
    if let Routed::Made { routing, relieved } = &mut routed {
        if relieved.is_none() {
            whole.extend(routing.whole().map(|why| Whole::new(Step::Routes, why)));
        }
        route_vports(job, topology, routing);
        levels::check_lanes(fabric, policy, topology, routing)?;
    }
    Ok(routed)
}

/// Computes routes by `engine`. A job that rebalances starts from the routes in force, and moves
/// entries off the links with maximum load. Entries of virtual ports are added later.
fn compute(job: &PlanJob, engine: EngineKind, input: &RoutingInput) -> Result<Routed, EngineError> {
    let policy = &job.policy;
    // Rankings and tables that were computed under other rules do not follow the present rules.
    let had_other_rules = |plan: &Plan| {
        plan.policy.switch_rules != policy.switch_rules
            || plan.policy.order.listed != policy.order.listed
            || plan.policy.layout != policy.layout
    };
    let rules_changed = job.previous.as_deref().is_some_and(had_other_rules);
    let previous = job.previous.as_deref().filter(|_| !rules_changed);
    let options = Options {
        root_guids: policy.root_guids.clone(),
        absent_roots: AbsentRoots::LeaveOut,
        threads: 0,
        previous_ranking: previous.and_then(|plan| plan.routing.ranking.clone()),
        previous_coordinates: previous.and_then(|plan| plan.routing.coordinates.clone()),
        layout: policy.layout.clone(),
        previous_choice: previous.and_then(|plan| plan.routing.choice.clone()),
        max_vls: input.link_ports.data_vls(policy),
        tables: policy.tables.clone(),
        engine_options: policy.engine_options.clone(),
        categories: input.order.categories.clone(),
        numbers: input.order.numbers.clone(),
        listed: policy.order.listed.clone(),
        connect_roots: policy.connect_roots,
        shortest_only: job.adaptive.is_some(),
    };
    if let (&JobKind::Rebalance { max_blocks }, Some(previous)) = (&job.kind, &job.previous) {
        let rebalanced = engine::rebalance(&input.topology, &options, &previous.tally, max_blocks);
        return Ok(match rebalanced {
            Ok(rebalanced) => Routed::Made {
                routing: Box::new(rebalanced.routing),
                relieved: Some(rebalanced.moved),
            },
            Err(why) => Routed::Unchanged(previous.clone(), why),
        });
    }
    let used = job.hardware.iter().any(|held| held.entries.lids() > 0);
    let held = (used && !rules_changed).then_some(&input.held);
    let routing = engine::route(engine, &input.topology, &options, held)?;
    let routing = match (&job.previous, held) {
        // A restart changes no entry that rebalancing moved.
        (None, Some(held)) => engine::adopt_moves(&input.topology, routing, held),
        _ => routing,
    };
    Ok(Routed::Made {
        routing: Box::new(routing),
        relieved: None,
    })
}

/// Adds entries for the LIDs of virtual ports to an engine's tables.
fn route_vports(job: &PlanJob, topology: &Topology, routing: &mut Routing) {
    if routing.tables.copy_to_further_lids(topology)
        && let Some(previous) = &job.previous
        && previous.topology.switches() == topology.switches()
    {
        routing.tables.share_with(&previous.routing.tables);
    }
}

/// The engine that computed the routes of a plan, and the finding that this engine replaced
/// another; `None` if it replaced no engine. A plan that only moves entries takes both from the
/// previous plan.
pub(super) fn engine_of_routes(
    job: &PlanJob,
    engine: EngineKind,
    refused: Option<&PlanError>,
) -> (EngineKind, Option<Finding>) {
    match job
        .previous
        .as_deref()
        .filter(|_| !job.kind.computes_routes())
    {
        Some(basis) => {
            let mut findings = basis.findings.iter();
            let found = findings.find(|finding| finding.kind == FindingKind::EngineReplaced);
            (basis.engine, found.cloned())
        }
        None => (engine, refused.map(|error| replaced(job, engine, error))),
    }
}

/// The finding that `engine` replaces the engine of the policy, which failed with `error`.
fn replaced(job: &PlanJob, engine: EngineKind, error: &PlanError) -> Finding {
    let text = format!(
        "routes are of {engine}, and not of {}, the first engine of routing.engine: {}; remove \
         the cause, or set routing.engine",
        job.policy.engine,
        error.with_causes()
    );
    let kind = FindingKind::EngineReplaced;
    Finding::new(kind, Subject::Subnet, Severity::Warning, text)
}
