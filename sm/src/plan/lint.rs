//! The proof of a plan, before the first SMP leaves.

use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Report, verify};

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

/// Proves `tables`; the report is returned also where there is nothing to object to.
pub fn prove(
    topology: &Topology,
    tables: &Tables,
    engine: &'static str,
    policy: &Policy,
) -> (Report, Option<Refusal>) {
    let report = verify(topology, tables);
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
    (report, refusal)
}
