//! Relieves the fullest links while a fault persists.
//!
//! A repair moves as few paths as it can, at once. When the subnet has not changed for a while and
//! parts of it are still missing, rebalancing relieves the fullest links step by step. Other work
//! comes first: urgent work discards a step being planned, and cuts one being written short like
//! any other push.

use std::time::Duration;

use rsm_mad::Time;
use rsm_plan::Plan;
use rsm_plan::policy::RebalancePolicy;
use rsm_routing::engine::misses_parts;

/// Pause between two steps.
const PAUSE: Duration = Duration::from_secs(1);

/// Time of the next step, computed at the end of a pass with `plan` in force; `None` if there is
/// nothing to relieve.
pub(super) fn due(plan: &Plan, policy: &RebalancePolicy, now: Time) -> Option<Time> {
    let ranking = plan.routing.ranking.as_ref();
    let is_wanted = !policy.after.is_zero() && ranking.is_some_and(misses_parts);
    is_wanted.then(|| match plan.relieved {
        None => now + policy.after,
        Some(_) => now + PAUSE,
    })
}
