//! Results of a proof.

/// Reason why the proof refuses a plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Packets would loop.
    #[error("the routes of {engine} contain a forwarding loop")]
    Loop {
        /// The engine that computed the routes.
        engine: &'static str,
    },
    /// Links could wait for each other without end.
    #[error(
        "the routes of {engine} close a credit loop, so that the fabric could deadlock; use updn, or accept_credit_loops"
    )]
    CreditLoop {
        /// The engine that computed the routes.
        engine: &'static str,
    },
    /// Cabled ports could not reach each other.
    #[error("the routes of {engine} leave {pairs} pairs without a path although cables join them")]
    Unreachable {
        /// The engine that computed the routes.
        engine: &'static str,
        /// Number of ordered pairs of ports.
        pairs: u64,
    },
}

/// The part of the tables that was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proved {
    /// All entries.
    Whole {
        /// The reason why the proof of the changed entries did not suffice, as a phrase.
        why: String,
    },
    /// The entries that differ from the proved tables of the previous plan. The result equals that
    /// of a whole proof.
    Changes {
        /// Number of (switch, LID) pairs that the proof followed.
        ways: u64,
    },
}

impl std::fmt::Display for Proved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Proved::Whole { why } => write!(f, "as a whole: {why}"),
            Proved::Changes { ways } => write!(f, "by the changes: {ways} (switch, LID) pairs"),
        }
    }
}
