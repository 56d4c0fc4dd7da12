//! The proof of a plan, before the first SMP leaves.

use rsm_routing::engine::Routing;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Dependencies, Report, verify_on_lanes};

use super::policy::Policy;

/// Why a plan is not put into force.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Packets would circle.
    #[error("the routes of {engine} contain a forwarding loop")]
    Loop {
        /// The engine that made them.
        engine: &'static str,
    },
    /// Links could wait for each other for ever.
    #[error(
        "the routes of {engine} close a credit loop, so that the fabric could deadlock; use updn, or accept_credit_loops"
    )]
    CreditLoop {
        /// The engine that made them.
        engine: &'static str,
    },
    /// Ports that are cabled together could not reach each other.
    #[error("the routes of {engine} leave {pairs} pairs without a path although cables join them")]
    Unreachable {
        /// The engine that made them.
        engine: &'static str,
        /// How many.
        pairs: u64,
    },
}

/// What is proved of tables.
pub struct Proof<'a> {
    /// All of it; it is there also where there is nothing to object to.
    pub report: Report,
    /// Why the tables are not put into force.
    pub refusal: Option<Refusal>,
    /// Which link can wait for which by these tables.
    pub dependencies: Dependencies<'a>,
}

/// Proves what `routing` found, on the lanes that it needs.
pub fn prove<'a>(topology: &'a Topology, routing: &Routing, policy: &Policy) -> Proof<'a> {
    let engine = routing.engine;
    let (report, dependencies) = verify_on_lanes(topology, &routing.tables, &routing.lanes);
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
        refusal,
        dependencies,
    }
}
