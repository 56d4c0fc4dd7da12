//! The core's inputs and outputs: events, commands and effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::Generations;
use rsm_config::overlay::ChangeError;
use rsm_gdr::host_order::HostPositions;
use rsm_gdr::hosts::GpuInventory;
use rsm_hardware::push::Foreseen;
use rsm_ids::{Guid, PortKey};
use rsm_mad::transport::{Datagram, Inbound};
use rsm_mad::wire::attr::Notice;
use rsm_model::alias_guids::AliasGuids;
use rsm_model::expected::Expected;
use rsm_model::findings::Finding;
use rsm_model::footprint::Footprints;
use rsm_monitor::health::PortErrors;
use rsm_plan::groups::GroupSet;
use rsm_plan::lids::Claims;
use rsm_plan::{Outcome, PlanJob};
use rsm_state::{ChangeEffect, Command, Convergence, Forthcoming, Snapshot, Ticket};
use rsm_store::Epoch;

use super::saved_state::SavedCoreState;
use super::settings::CoreConfig;

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
        /// The plan, or why there is none.
        outcome: Outcome,
    },
    /// A job of [`Effect::Prepare`] is done.
    Prepared(Outcome),
    /// The members of multicast groups have changed, or became known. Before the first such event
    /// the core leaves multicast tables as they are.
    Groups(Arc<GroupSet>),
    /// The alias GUIDs that ports are to have.
    Guids(Arc<AliasGuids>),
    /// Inventories of hosts with GPUs arrived, or were forgotten.
    GpuHosts(Arc<GpuInventory>),
    /// The SA lost the registrations of the hosts behind these ports; they must register anew.
    Reregister(BTreeSet<Guid>),
    /// The ports whose performance counters are over a limit of health; replaces those before.
    PortErrors(Arc<BTreeMap<PortKey, PortErrors>>),
    /// This process did not run for this long until now: it, or its machine, was stopped. Comes
    /// before any event that arrived or became due meanwhile.
    Paused(Duration),
    /// News of the store that several managers share.
    Epoch(EpochEvent),
    /// A command of an operator or a signal.
    Command(Command),
    /// Use another configuration from now on.
    Reload(Box<CoreConfig>),
    /// A configuration was refused and the one in force stays; publish these reasons.
    Refused(Vec<Finding>),
}

impl From<Command> for Event {
    fn from(command: Command) -> Event {
        Event::Command(command)
    }
}

/// News of the store that several managers share.
#[derive(Debug)]
pub enum EpochEvent {
    /// This manager holds the epoch.
    Granted {
        /// The epoch.
        epoch: Epoch,
        /// The state to continue with, where another manager has written the store since this one
        /// did. A manager that is master already takes only the LIDs of ports that it does not
        /// know.
        state: Option<Box<SavedCoreState>>,
        /// How long before this the last sign of life in the store of the manager before was seen;
        /// zero where it gave the epoch up in order, or there was none.
        unseen: Duration,
    },
    /// The claim failed: this manager holds the epoch and lives.
    Refused(Epoch),
    /// The store does not answer. A claim is repeated until it does. Until then this manager continues
    /// with the last state that the store showed, where another manager had written it.
    Unreachable(Option<Box<SavedCoreState>>),
    /// The answer to a check: the epoch is still this manager's.
    Held,
    /// Another manager has claimed the epoch: from now on this manager sets nothing.
    Deposed(Epoch),
    /// The epoch, which this manager does not hold, as the store shows it.
    Seen(Option<Epoch>),
    /// The number of the last plan of the master, which is another manager, as the store shows it.
    Planned(u64),
    /// The footprints of its last plans, as the store shows them; before [`EpochEvent::Planned`].
    Footprints(Footprints),
    /// The LIDs of ports as another manager, which holds the epoch, has stored them.
    Claims(Arc<Claims>),
    /// The host order as another manager, which holds the epoch, has stored it.
    Positions(Arc<HostPositions>),
    /// The cables of the subnet as another manager, which holds the epoch, has stored them: by them a
    /// port that answers nothing without its M_Key is known before it answers.
    Cabling(Arc<Expected>),
    /// The M_Keys of ports as another manager, which holds the epoch, has stored them.
    MKeys {
        /// How often they were rotated, a rotation that has just begun included.
        generations: Generations,
        /// That manager is writing hardware.
        is_pushing: bool,
    },
    /// The store does not answer this manager, which holds the epoch as far as it knows; `false`: it
    /// answers again.
    Silent(bool),
    /// Checksums of the settings of managers that share the store, by their GUID.
    Configurations(BTreeMap<Guid, String>),
}

/// A request to the store that several managers share. None waits for its outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochRequest {
    /// Claim the epoch.
    Claim {
        /// GUID of this manager.
        own: Guid,
        /// The master that no longer answers, or has handed over: its epoch ends.
        over: Option<Guid>,
        /// It ends even if that master shows signs of life in the store.
        insists: bool,
        /// This manager is master already: its state counts.
        is_master: bool,
    },
    /// Check that the epoch is still this manager's.
    Check,
    /// Another manager is master: give the epoch up.
    Release,
}

/// An action for the daemon.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are datagrams; a box each would cost more than the copy"
)]
pub enum Effect {
    /// Send a datagram whose answer is of use for `timeout`; zero: none is expected.
    Send {
        /// The MAD and its address.
        datagram: Datagram,
        /// How long the answer is of use.
        timeout: Duration,
    },
    /// Compute a plan, and bring it back as [`Event::Planned`].
    Plan(Box<PlanJob>),
    /// Compute a plan that a takeover can follow, and bring it back as [`Event::Prepared`]. Nothing
    /// waits for it.
    Prepare(Box<PlanJob>),
    /// Answer SA queries from this until the next [`Effect::Publish`]. It comes before the first
    /// Set of the push that makes it true, so that a port that goes Active finds an SA that knows
    /// it.
    Serve(Arc<Forthcoming>),
    /// The Sets of a dry run ([`Mode::DryRun`](super::Mode::DryRun)), in the order of a push.
    Foreseen(Vec<Foreseen>),
    /// Show this snapshot to readers from now on.
    Publish(Arc<Snapshot>),
    /// Ask the shared store.
    Epoch(EpochRequest),
    /// Store this for the next run.
    Remember(Box<SavedCoreState>),
    /// A notice from a port, for its subscribers.
    Notice(Box<Notice>),
    /// A convergence ended.
    Converged(Arc<Convergence>),
    /// The command of `ticket` is done.
    Done {
        /// From the command.
        ticket: Ticket,
        /// The convergence that did it.
        convergence: Arc<Convergence>,
    },
    /// The command of `ticket` will not be done.
    Declined {
        /// From the command.
        ticket: Ticket,
        /// Why.
        reason: String,
    },
    /// The command was not carried out: ports would be cut off by it, which its issuer has not
    /// accepted.
    CutOff {
        /// From the command.
        ticket: Ticket,
        /// How many ports.
        ports: usize,
        /// Which ones, and why.
        reason: String,
    },
    /// The change of [`Command::Partition`] waits for its plan.
    PartitionTaken {
        /// From the command.
        ticket: Ticket,
        /// What it does; a later effect with the same ticket replaces it.
        effect: Box<ChangeEffect>,
    },
    /// The partition of [`Command::Partition`] is not changed.
    PartitionRefused {
        /// From the command.
        ticket: Ticket,
        /// Why.
        error: ChangeError,
    },
}
