//! Proves the tables of a plan, before its first Set.

use rsm_routing::engine::Routing;
use rsm_routing::mcast::Orientation;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{
    Candidate, Dependencies, Inconclusive, ProvedTables, Report, Tally, Verified, verify_changes,
    verify_on_lanes,
};

use crate::lint::{Proved, Refusal};
use crate::multicast;
use crate::plan::Plan;
use crate::policy::Policy;

/// The result of a proof.
pub(super) struct Proof<'a> {
    /// Complete report, even if there are no faults.
    pub(super) report: Report,
    /// Sums behind the report.
    pub(super) tally: Tally,
    /// Reason why the tables are refused; `None` if they are sound.
    pub(super) refusal: Option<Refusal>,
    /// Whether every route takes only legal turns (up*/down*).
    pub(super) follows: bool,
    /// The part of the tables that was proved.
    pub(super) proved: Proved,
    /// Channel dependencies of the tables; `None` if the proof did not need them.
    pub(super) dependencies: Option<Dependencies<'a>>,
}

impl Proof<'_> {
    /// The reason why all entries were examined; `None` if the changed entries sufficed.
    pub(super) fn why_whole(&self) -> Option<String> {
        match &self.proved {
            Proved::Whole { why } => Some(why.clone()),
            Proved::Changes { .. } => None,
        }
    }
}

/// Proves the tables of `routing` on the VLs that the tables need: by the differences from the
/// previous plan if these are conclusive, otherwise as a whole. `orientation` is the up*/down*
/// order of the routes.
pub(super) fn prove<'a>(
    topology: &'a Topology,
    routing: &Routing,
    orientation: &Orientation,
    policy: &Policy,
    previous: Option<&Plan>,
) -> Proof<'a> {
    match prove_changes(topology, routing, orientation, previous) {
        Ok(proof) => proof,
        Err(why) => prove_whole(topology, routing, orientation, policy, why),
    }
}

/// Proves the tables by the differences from the previous plan.
///
/// # Errors
/// The reason why the differences are not conclusive. The reason may be a fault of the tables,
/// which [`prove_whole`] then names.
fn prove_changes<'a>(
    topology: &Topology,
    routing: &Routing,
    orientation: &Orientation,
    previous: Option<&Plan>,
) -> Result<Proof<'a>, String> {
    let previous = previous.ok_or("no plan is in force")?;
    if !previous.follows_ranking {
        return Err("the routes in force follow no order".to_owned());
    }
    if !(routing.lanes.is_single() && previous.routing.lanes.is_single()) {
        return Err("the routes need several VLs".to_owned());
    }
    let proved_before = ProvedTables {
        topology: &previous.topology,
        tables: &previous.routing.tables,
        orientation: &multicast::orientation(&previous.topology, &previous.routing),
        tally: &previous.tally,
    };
    let candidate = Candidate {
        topology,
        tables: &routing.tables,
        orientation,
    };
    let changed = verify_changes(&proved_before, &candidate)
        .map_err(|inconclusive: Inconclusive| inconclusive.to_string())?;
    if changed.tally.unreachable_pairs() > 0 {
        return Err("some pairs have no path".to_owned());
    }
    Ok(Proof {
        report: changed.tally.report(topology),
        tally: changed.tally,
        refusal: None,
        follows: true,
        proved: Proved::Changes {
            ways: changed.pairs,
        },
        dependencies: None,
    })
}

/// Proves all entries; `why` is the reason why the changed entries did not suffice.
fn prove_whole<'a>(
    topology: &'a Topology,
    routing: &Routing,
    orientation: &Orientation,
    policy: &Policy,
    why: String,
) -> Proof<'a> {
    let engine = routing.engine;
    let Verified {
        report,
        tally,
        dependencies,
    } = verify_on_lanes(topology, &routing.tables, &routing.lanes);
    let refusal = if !report.loop_free {
        Some(Refusal::Loop { engine })
    } else if !report.credit_loop_free && !policy.accept_credit_loops {
        Some(Refusal::CreditLoop { engine })
    } else if report.unreachable_pairs > 0 {
        Some(Refusal::Unreachable {
            engine,
            pairs: report.unreachable_pairs,
        })
    } else {
        None
    };
    Proof {
        report,
        tally,
        refusal,
        follows: dependencies.follows(|high, low| orientation.is_above(high, low)),
        proved: Proved::Whole { why },
        dependencies: Some(dependencies),
    }
}
