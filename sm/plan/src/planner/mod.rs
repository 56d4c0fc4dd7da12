//! The planner: the steps from a [`PlanJob`] to its [`Outcome`].
//!
//! [`plan_around`] decides about the parts to avoid, [`try_plan`] takes the first engine that finds
//! routes, and [`try_engine`] runs each engine on the same [`RoutingInput`]: routes, then their
//! proof and the interim tables in parallel, then partitions, adaptive routing and multicast.

mod adaptive;
mod findings;
mod groups;
mod input;
mod proof;
mod routes;
mod unproved;

use std::sync::Arc;

use rsm_model::whole::{Step, Whole};
use rsm_routing::engine::{EngineKind, Routing};

use self::groups::UnicastSequence;
use self::input::RoutingInput;
use self::routes::Routed;
use self::unproved::UnprovedRoutes;
use crate::avoided::Avoided;
use crate::error::PlanError;
use crate::interrupted::Interrupted;
use crate::job::{JobKind, PlanJob};
use crate::multicast;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::refused::{self, RefusedPlan};

/// Reason why there is no plan to follow.
const NO_PLAN: &str = "no plan is in force";

/// Plans a job. Every failure becomes a refusal in the outcome.
pub fn plan(job: &PlanJob) -> Outcome {
    match plan_around(job) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Refused(Box::new(RefusedPlan::new(job, error))),
    }
}

/// Plans a job with routes that avoid the job's parts. If no such routes exist, the routes use
/// these parts, unless the parts are on trial.
fn plan_around(job: &PlanJob) -> Result<Outcome, PlanError> {
    let mut avoided = Avoided {
        avoid: job.avoid.clone(),
        damped: job.damped.clone(),
        ..Avoided::default()
    };
    // A multicast job keeps the routes in force.
    if job.avoid.is_empty() || matches!(job.kind, JobKind::Multicast { .. }) {
        return try_plan(job, &Arc::new(avoided));
    }
    if let Some(before) = &job.avoided_before {
        job.avoid.check(before, &job.fabric, &job.damped)?;
    }
    let resolved = job.avoid.resolve(&job.fabric, &job.damped);
    if resolved.out.is_empty() {
        avoided.in_use = resolved.in_use;
        return try_plan(job, &Arc::new(avoided));
    }
    let damped = job.damped.union(&resolved.out).copied().collect();
    let around = PlanJob {
        damped: Arc::new(damped),
        ..job.clone()
    };
    avoided.in_use = resolved.in_use;
    match try_plan(&around, &Arc::new(avoided.clone())) {
        Err(error) if job.avoided_before.is_none() => {
            avoided.suspended = Some(error.with_causes());
            try_plan(job, &Arc::new(avoided))
        }
        outcome => outcome,
    }
}

/// Plans with the first engine of the policy that finds routes. Routes avoid the cables in the
/// job's `damped`, which include the cables of `avoided`.
fn try_plan(job: &PlanJob, avoided: &Arc<Avoided>) -> Result<Outcome, PlanError> {
    if let JobKind::Multicast { routes } = &job.kind {
        return Ok(Outcome::Plan(Arc::new(groups::replan(job, routes))));
    }
    let preferred = job.policy.engine;
    let error = match try_engine(job, avoided, preferred, None) {
        Err(error) if error.is_engine_specific() && job.kind.computes_routes() => error,
        outcome => return outcome,
    };
    for &engine in job.policy.fallback_engines() {
        if let Ok(outcome) = try_engine(job, avoided, engine, Some(&error)) {
            return Ok(outcome);
        }
    }
    match may_try_auto(job) {
        true => try_engine(job, avoided, EngineKind::Auto, Some(&error)).map_err(|_| error),
        false => Err(error),
    }
}

/// Whether `auto` is tried after all engines of the policy have failed: ports that no packet
/// reaches are worse than the routes of another engine. If the routes in force serve all ports,
/// these routes stay instead. An engine on trial is refused.
fn may_try_auto(job: &PlanJob) -> bool {
    let policy = &job.policy;
    if policy.is_on_trial() || policy.engines.contains(&EngineKind::Auto) {
        return false;
    }
    match &job.previous {
        Some(plan) => auto_replaces_policy(plan),
        None => refused::verify_held(job).is_none_or(|held| held.unreachable_pairs > 0),
    }
}

/// Whether `auto` has replaced all engines of the plan's policy.
fn auto_replaces_policy(plan: &Plan) -> bool {
    plan.engine == EngineKind::Auto && !plan.policy.engines.contains(&EngineKind::Auto)
}

/// Plans with `engine`. `refused` says why the first engine of the policy found no routes.
fn try_engine(
    job: &PlanJob,
    avoided: &Arc<Avoided>,
    engine: EngineKind,
    refused: Option<&PlanError>,
) -> Result<Outcome, PlanError> {
    let mut whole = Vec::new();
    let input = RoutingInput::of(job, &mut whole)?;
    let (routing, relieved) = match routes::of_engine(job, engine, &input, &mut whole)? {
        Routed::Made { routing, relieved } => (routing, relieved),
        Routed::Unchanged(plan, why) => return Ok(Outcome::Unchanged { plan, why }),
    };
    let routing = Arc::<Routing>::from(routing);
    let with_damped = input.with_damped_links(job)?;
    let links = with_damped.as_ref().unwrap_or(&input.topology);
    let orientation = multicast::orientation(&input.topology, &routing);
    let unproved = UnprovedRoutes {
        job,
        input: &input,
        links,
        routing: &routing,
        orientation: &orientation,
    };
    let (proof, checked) = unproved.proof_and_transition()?;
    whole.extend(proof.why_whole().map(|why| Whole::new(Step::Proof, why)));
    whole.extend(checked.whole.map(|why| Whole::new(Step::Interim, why)));
    let partitions = input::partitions_of(job, &input.policy_change, &mut whole);
    let (engine, replacement) = routes::engine_of_routes(job, engine, refused);
    // The dependencies that the proof found concern only links that routes may use.
    let dependencies = proof.dependencies.filter(|_| with_damped.is_none());
    let mut plan = Plan {
        generation: job.generation,
        fabric: job.fabric.clone(),
        lids: input.lids.clone(),
        sm_lid: input.sm_lid,
        damped: job.damped.clone(),
        avoided: avoided.clone(),
        topology: input.topology.clone(),
        order: input.order.clone(),
        slow_cables: crate::slow::cables(&input.topology, &routing, &job.fabric),
        routing: routing.clone(),
        report: proof.report,
        tally: Arc::new(proof.tally),
        proved: proof.proved,
        relieved,
        follows_ranking: proof.follows,
        adaptive: None,
        multicast: None,
        transition: checked.transition,
        link_ports: input.link_ports.clone(),
        partitions,
        engine,
        policy: job.policy.clone(),
        policy_change: input.policy_change.clone(),
        findings: Vec::new(),
        whole,
    };
    plan.findings = findings::of(&plan, replacement);
    adaptive::add(&mut plan, job, links, &input.held, &orientation);
    let unicast = UnicastSequence {
        held: &input.held,
        links,
        follows: checked.follows,
        dependencies,
    };
    groups::add(&mut plan, job, &orientation, unicast);
    if job.refuses_interruption {
        Interrupted::check(&plan, &input.held)?;
    }
    Ok(Outcome::Plan(Arc::new(plan)))
}
