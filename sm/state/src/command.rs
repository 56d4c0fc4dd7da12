//! Commands to the core.

use std::collections::{BTreeMap, BTreeSet};

use rsm_config::PartitionLoss;
use rsm_config::overlay::{Change, WhenCutOff};
use rsm_ids::{Guid, PortKey};
use rsm_model::expected::Accept;
use rsm_plan::avoid::{NodeOrCable, Reason};
use rsm_routing::engine::EngineKind;

/// Identifies a command whose issuer waits for its effect.
pub type Ticket = u64;

/// A command of an operator or a signal. An effect of the core reports the result.
#[derive(Debug)]
pub enum Command {
    /// Sweep the whole subnet.
    Resweep {
        /// Whether to read back forwarding tables that are known.
        full: bool,
        /// Ticket that `Effect::Done` names once the hardware holds the resulting plan.
        ticket: Ticket,
    },
    /// Sweep the whole subnet and write every block of every linear forwarding table, even blocks
    /// that switches already hold.
    Rewrite {
        /// Ticket that `Effect::Done` names once the hardware holds the resulting plan.
        ticket: Ticket,
    },
    /// Route with another engine until the configuration is read again.
    Engine {
        /// Engine to use.
        engine: EngineKind,
        /// Whether packets of present routes may be dropped while a push writes the engine's
        /// tables.
        when_cut_off: WhenCutOff,
        /// Ticket that `Effect::Done` names once the engine's tables are in force.
        /// `Effect::Declined` names the ticket if the proof refutes the tables, and
        /// `Effect::CutOff` if packets would be dropped; in both cases the former engine stays.
        ticket: Ticket,
    },
    /// Stop waiting for `ticket`. If the command requested an engine that no job has used yet, the
    /// engine is not tried.
    Withdraw {
        /// Ticket of the earlier command.
        ticket: Ticket,
    },
    /// Avoid these parts in addition to the parts avoided already. Either all of them are drained,
    /// or none.
    Drain {
        /// Parts to drain, each with [`Reason::Drained`](rsm_plan::avoid::Reason::Drained).
        parts: BTreeMap<NodeOrCable, Reason>,
        /// Whether the parts are drained even if ports would be cut off without them.
        forced: bool,
        /// Ticket that `Effect::Done` names once the hardware holds a plan that avoids the parts,
        /// and `Effect::Declined` if they are not drained.
        ticket: Ticket,
    },
    /// Let routes use these drained parts again.
    Undrain {
        /// Parts to use.
        parts: BTreeSet<NodeOrCable>,
        /// Ticket that `Effect::Done` names once the hardware holds a plan that uses the parts, and
        /// `Effect::Declined` if one of them is a port that is disabled and not drained.
        ticket: Ticket,
    },
    /// Take the link of a port down, so that it trains again.
    ResetPort {
        /// The port that the Set goes to.
        port: PortKey,
        /// Ticket that `Effect::Done` names once the Set has been answered.
        ticket: Ticket,
    },
    /// Let the link of a disabled port train.
    EnablePort {
        /// The port that the Set goes to.
        port: PortKey,
        /// The operator.
        by: String,
        /// Whether orders of other operators, who disabled the port, may end.
        accepts_other: bool,
        /// Ticket that `Effect::Done` names once the Set has been answered, and
        /// `Effect::OfAnother` if the port stays disabled.
        ticket: Ticket,
    },
    /// Change a partition of the overlay.
    Partition {
        /// Change to make.
        change: Box<Change>,
        /// Ticket that `Effect::PartitionTaken` names once the change waits for its plan,
        /// `Effect::Done` once the hardware holds a plan with the change, and
        /// `Effect::PartitionRefused` if the overlay stays unchanged.
        ticket: Ticket,
    },
    /// Give every port a new M_Key, if each port has an M_Key of its own.
    RotateMKeys {
        /// Whether to rotate even if ports may still hold keys from before the last rotation.
        forced: bool,
        /// Ticket that `Effect::Done` names once the ports that answer hold the new keys, and
        /// `Effect::Declined` if no key is rotated.
        ticket: Ticket,
    },
    /// Forget these missing parts, whose loss the operator accepts.
    Accept(Vec<Accept>),
}

/// The effect of a change of a partition, on top of the changes that already wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeEffect {
    /// Number of memberships that change: memberships of the overlay, or memberships of hosts'
    /// ports if the change concerns the ports of all hosts.
    pub memberships: usize,
    /// GUIDs of the ports and virtual ports that the change names or whose membership changes;
    /// empty if the change concerns the ports of all hosts.
    pub concerned: BTreeSet<Guid>,
    /// The communication partners that ports of the fabric lose.
    pub loss: PartitionLoss,
}
