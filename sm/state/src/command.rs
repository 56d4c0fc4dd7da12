//! Commands to the core.

use std::collections::{BTreeMap, BTreeSet};

use rsm_config::PartitionLoss;
use rsm_config::overlay::{Change, WhenCutOff};
use rsm_ids::PortKey;
use rsm_model::expected::Accept;
use rsm_plan::avoid::{Part, Reason};
use rsm_routing::engine::EngineKind;

/// Identifies a command whose issuer waits for its effect.
pub type Ticket = u64;

/// A command of an operator or a signal. The core says by an effect what has become of it.
#[derive(Debug)]
pub enum Command {
    /// Sweep everything; `full`: read the forwarding tables back as well, although they are known.
    Resweep {
        /// Whether to read tables back.
        full: bool,
        /// `Effect::Done` names it when the hardware holds the resulting plan.
        ticket: Ticket,
    },
    /// Sweep everything and write every block of every linear forwarding table, whether or not the
    /// switch holds it.
    Rewrite {
        /// `Effect::Done` names it when the hardware holds the resulting plan.
        ticket: Ticket,
    },
    /// Route with another engine until the configuration is read again.
    Engine {
        /// Which one.
        engine: EngineKind,
        /// Whether its tables may drop packets of present routes while they are written.
        when_cut_off: WhenCutOff,
        /// `Effect::Done` names it when the engine's tables are in force; `Effect::Declined`
        /// when the proof refutes them, and `Effect::CutOff` when they would drop packets, and
        /// the engine before stays.
        ticket: Ticket,
    },
    /// The issuer of `ticket` no longer waits; an engine that it requested and no job has used yet
    /// is not tried.
    Withdraw {
        /// From the command before.
        ticket: Ticket,
    },
    /// Route around these parts as well, all of them or none.
    Drain {
        /// The parts, each with [`Reason::Drained`](rsm_plan::avoid::Reason::Drained).
        parts: BTreeMap<Part, Reason>,
        /// Whether the parts are drained even if ports would be cut off without them.
        forced: bool,
        /// `Effect::Done` names it when the hardware holds a plan around them,
        /// `Effect::Declined` when they are not drained.
        ticket: Ticket,
    },
    /// Use these drained parts again.
    Undrain {
        /// The parts.
        parts: BTreeSet<Part>,
        /// `Effect::Done` names it when the hardware holds a plan with them.
        ticket: Ticket,
    },
    /// Take the link of a port down, so that it trains again.
    ResetPort {
        /// The port that the Set goes to.
        port: PortKey,
        /// `Effect::Done` names it when the Set has been answered.
        ticket: Ticket,
    },
    /// Let the link of a disabled port train.
    EnablePort {
        /// The port that the Set goes to.
        port: PortKey,
        /// `Effect::Done` names it when the Set has been answered.
        ticket: Ticket,
    },
    /// Change a partition of the overlay.
    Partition {
        /// The change.
        change: Box<Change>,
        /// `Effect::PartitionTaken` names it when the change waits for its plan,
        /// `Effect::Done` when the hardware holds a plan with the change,
        /// `Effect::PartitionRefused` when the overlay stays as it was.
        ticket: Ticket,
    },
    /// Give every port another M_Key, where each has its own.
    RotateMKeys {
        /// Whether ports may hold keys of the rotation before.
        forced: bool,
        /// `Effect::Done` names it when the ports that answer hold the new keys,
        /// `Effect::Declined` when no key is rotated.
        ticket: Ticket,
    },
    /// Forget missing parts that the operator accepts as gone.
    Accept(Accept),
}

/// The effect of a change, beside the changes that wait with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeEffect {
    /// Number of memberships that differ from before: of the overlay, or of the ports of hosts if
    /// the change is of all of them.
    pub memberships: usize,
    /// The partners that ports of the fabric lose by it.
    pub loss: PartitionLoss,
}
