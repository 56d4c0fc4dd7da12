//! Rebalancing: reduces the load of the fullest links while a fault persists.
//!
//! A repair begins at once and moves as few paths as possible. If the subnet has not changed for a
//! while and parts of it are still missing, rebalancing reduces the load of the fullest links step
//! by step. Other work comes first: urgent work discards a step that is being planned, and may
//! interrupt the push of a step like any other push.

use std::time::Duration;

use rsm_mad::Time;
use rsm_plan::Plan;
use rsm_plan::policy::RebalancePolicy;
use rsm_routing::engine::misses_parts;

/// Pause between two steps.
const PAUSE: Duration = Duration::from_secs(1);

/// Time of the next step, at the end of a pass with `plan` in force. `None` if rebalancing is off,
/// or no part of the topology is missing.
pub(super) fn next_step(plan: &Plan, policy: &RebalancePolicy, now: Time) -> Option<Time> {
    let ranking = plan.routing.ranking.as_ref();
    let is_wanted = !policy.after.is_zero() && ranking.is_some_and(misses_parts);
    is_wanted.then(|| match plan.relieved {
        None => now + policy.after,
        Some(_) => now + PAUSE,
    })
}
