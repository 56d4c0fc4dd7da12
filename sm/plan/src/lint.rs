//! The proof of a plan, before its first Set.

use rsm_routing::engine::Routing;
use rsm_routing::mcast::Orientation;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{
    Candidate, Dependencies, Inconclusive, ProvedTables, Report, Tally, Verified, verify_changes,
    verify_on_lanes,
};

use super::policy::Policy;
use super::{Plan, multicast};

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Packets would cycle.
    #[error("the routes of {engine} contain a forwarding loop")]
    Loop {
        /// The engine that made the routes.
        engine: &'static str,
    },
    /// Links could wait for each other for ever.
    #[error(
        "the routes of {engine} close a credit loop, so that the fabric could deadlock; use updn, or accept_credit_loops"
    )]
    CreditLoop {
        /// The engine that made the routes.
        engine: &'static str,
    },
    /// Ports that are cabled together could not reach each other.
    #[error("the routes of {engine} leave {pairs} pairs without a path although cables join them")]
    Unreachable {
        /// The engine that made the routes.
        engine: &'static str,
        /// How many.
        pairs: u64,
    },
}

/// How the tables were proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proved {
    /// By all entries.
    Whole {
        /// Why changed entries alone did not suffice, as a phrase.
        why: String,
    },
    /// By the difference from the proved tables of the plan before. The result is the same.
    Changes {
        /// Number of (switch, LID) pairs that were followed.
        ways: u64,
    },
}

impl std::fmt::Display for Proved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Proved::Whole { why } => write!(f, "as a whole: {why}"),
            Proved::Changes { ways } => write!(f, "by what changed: {ways} ways"),
        }
    }
}

/// The result of a proof.
pub struct Proof<'a> {
    /// The complete report, present without faults, too.
    pub report: Report,
    /// The sums behind the report.
    pub tally: Tally,
    /// Why the tables are refused; `None` if they are sound.
    pub refusal: Option<Refusal>,
    /// Whether every route takes legal turns only (up*/down*).
    pub follows: bool,
    /// How it was proved.
    pub proved: Proved,
    /// The channel dependencies of the tables; `None` if the proof did not need them.
    pub dependencies: Option<Dependencies<'a>>,
}

impl Proof<'_> {
    /// Why all entries were looked at; `None` if the changed ones sufficed.
    pub(super) fn why_whole(&self) -> Option<String> {
        match &self.proved {
            Proved::Whole { why } => Some(why.clone()),
            Proved::Changes { .. } => None,
        }
    }
}

/// Proves the tables of `routing`, on the lanes that they need: by the difference from the plan
/// before if that is conclusive, else as a whole. `orientation` is the up*/down* order of the
/// routes.
pub fn prove<'a>(
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

/// Proves by the difference. Leaves faulty tables to the whole proof, which names the fault.
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
        return Err("the routes need lanes".to_owned());
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
        proved: Proved::Changes { ways: changed.ways },
        dependencies: None,
    })
}

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
