//! What reaches the core, and what it wants done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_gdr::hosts::Inventory;
use rsm_ids::Guid;
use rsm_mad::transport::{Datagram, Inbound};
use rsm_mad::wire::attr::Notice;
use rsm_routing::engine::EngineKind;

use super::convergence::Convergence;
use super::snapshot::{Forthcoming, Snapshot};
use super::{Config, Remembered};
use crate::expected::Accept;
use crate::findings::Finding;
use crate::plan::groups::GroupSet;
use crate::plan::guids::AliasGuids;
use crate::plan::{Job, Outcome};
use crate::push::Foreseen;

/// Names the one who waits for a command to have had its effect.
pub type Ticket = u64;

/// Something that happened.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are datagrams; a box each would cost more than the copy"
)]
pub enum Event {
    /// The transport received a datagram, failed to send one, or its port changed.
    Inbound(Inbound),
    /// A job of [`Effect::Plan`] is done.
    Planned {
        /// The job's generation.
        generation: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// Who takes part in multicast has changed, or became known. Before the first time multicast
    /// tables are left as they are.
    Groups(Arc<GroupSet>),
    /// Ports are to have other names beside their own.
    Guids(Arc<AliasGuids>),
    /// Hosts with GPUs have told of themselves, or are forgotten.
    GpuHosts(Arc<Inventory>),
    /// The hosts behind these ports have lost what they registered, and are to register anew.
    Reregister(BTreeSet<Guid>),
    /// This process did not run for this long until now: it was stopped, or its machine was. Given
    /// before anything that arrived or became due meanwhile.
    Paused(Duration),
    /// Somebody wants something.
    Command(Command),
}

/// What an operator or a signal asks for.
#[derive(Debug)]
pub enum Command {
    /// Sweep everything; `full`: read the forwarding tables back as well, although they are known.
    Resweep {
        /// Whether to read tables back.
        full: bool,
        /// Told with [`Effect::Done`] when the hardware holds the resulting plan.
        ticket: Ticket,
    },
    /// Sweep everything and write every block of every linear forwarding table, whatever switches
    /// read back.
    Rewrite {
        /// Told with [`Effect::Done`] when the hardware holds the resulting plan.
        ticket: Ticket,
    },
    /// Route with another engine until the configuration is read again.
    Engine {
        /// Which one.
        engine: EngineKind,
        /// Told with [`Effect::Done`] when its tables are in force, or [`Effect::Declined`] when
        /// they do not stand the proof and everything stays as it is.
        ticket: Ticket,
    },
    /// The one who waits for `ticket` does not any more: what was not begun for it alone is not
    /// begun.
    Withdraw {
        /// From the command before.
        ticket: Ticket,
    },
    /// Use another configuration from now on.
    Reload(Box<Config>),
    /// Expect no longer what is missing.
    Accept(Accept),
    /// A configuration was refused, and that in force stays: readers are told why.
    Refused(Vec<Finding>),
}

/// Something to be done outside.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are datagrams; a box each would cost more than the copy"
)]
pub enum Effect {
    /// Send a datagram whose answer is of use for `timeout`; zero: none is expected.
    Send {
        /// What and where to.
        datagram: Datagram,
        /// How long the answer is of use.
        timeout: Duration,
    },
    /// Compute a plan, and bring it back as [`Event::Planned`].
    Plan(Box<Job>),
    /// Answer hosts from this until the next [`Effect::Publish`]. It comes before the first Set of
    /// the push that makes it true, so that a port that goes Active finds an SA that knows it.
    Serve(Arc<Forthcoming>),
    /// What would be set, in this order, if this were no dry run
    /// ([`Mode::DryRun`](super::Mode::DryRun)).
    Foreseen(Vec<Foreseen>),
    /// Show this to readers from now on.
    Publish(Arc<Snapshot>),
    /// Keep this for the next run.
    Remember(Box<Remembered>),
    /// A port has reported this: whoever subscribed is to be told.
    Notice(Box<Notice>),
    /// A convergence ended.
    Converged(Arc<Convergence>),
    /// What `ticket` asked for is done.
    Done {
        /// From the command.
        ticket: Ticket,
        /// The convergence that did it.
        convergence: Arc<Convergence>,
    },
    /// What `ticket` asked for is not going to be done.
    Declined {
        /// From the command.
        ticket: Ticket,
        /// Why.
        reason: String,
    },
}
