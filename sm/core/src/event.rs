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
use rsm_mastership::EpochRequest;
use rsm_model::alias_guids::AliasGuids;
use rsm_model::expected::Expected;
use rsm_model::findings::Finding;
use rsm_model::footprint::Footprints;
use rsm_monitor::health::PortErrors;
use rsm_plan::avoid::Drained;
use rsm_plan::groups::GroupSet;
use rsm_plan::lids::Claims;
use rsm_plan::{Outcome, PlanJob};
use rsm_state::{ChangeEffect, Command, Convergence, Forthcoming, Snapshot, Ticket};
use rsm_store::Epoch;

use super::saved_state::SavedCoreState;
use super::settings::CoreConfig;

/// An input of the core.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all events are datagrams; boxing each would cost more than the copy"
)]
pub enum Event {
    /// The transport received a datagram, failed to send one, or its port changed.
    Inbound(Inbound),
    /// A job of [`Effect::Plan`] has ended.
    Planned {
        /// Generation of the job.
        generation: u64,
        /// The plan, or why there is none.
        outcome: Outcome,
    },
    /// The job of [`Effect::Prepare`] has ended with this outcome.
    Prepared(Outcome),
    /// The members of multicast groups changed, or became known. Before the first report of groups,
    /// the core does not change multicast tables.
    Groups(Arc<GroupSet>),
    /// The alias GUIDs that ports shall have, in place of all former alias GUIDs.
    Guids(Arc<AliasGuids>),
    /// Inventories of GPU hosts arrived or were forgotten. The value has all present inventories.
    GpuHosts(Arc<GpuInventory>),
    /// The SA lost the registrations of the hosts behind these ports; they must register again.
    Reregister(BTreeSet<Guid>),
    /// The ports whose performance counters exceed a health limit, in place of all former ports.
    PortErrors(Arc<BTreeMap<PortKey, PortErrors>>),
    /// The process, or its machine, was stopped for this time. This event precedes every event that
    /// arrived or became due during the stop.
    Paused(Duration),
    /// An event of the store that several managers share.
    Epoch(EpochEvent),
    /// A command of an operator or a signal.
    Command(Command),
    /// A new configuration to use from now on.
    Reload(Box<CoreConfig>),
    /// A new configuration was refused for these reasons; the former configuration stays in force.
    Refused(Vec<Finding>),
}

impl From<Command> for Event {
    fn from(command: Command) -> Event {
        Event::Command(command)
    }
}

/// An event of the store that several managers share.
#[derive(Debug)]
pub enum EpochEvent {
    /// This manager holds the epoch.
    Granted {
        /// The epoch.
        epoch: Epoch,
        /// State to continue with, if another manager wrote the store last; else `None`.
        /// A manager that is already master takes only the LIDs of ports unknown to it, drained
        /// parts that it lacks, later key generations, and partitions if it has none.
        state: Option<Box<SavedCoreState>>,
        /// Time since the former manager's last sign of life in the store; zero if it gave the
        /// epoch up properly, or there was none.
        unseen: Duration,
    },
    /// The claim failed: the holder of this epoch is alive.
    Refused(Epoch),
    /// The store does not answer. The claim is repeated until the store answers. `Some` is the
    /// state last read from the store, if another manager had written it: this manager continues
    /// with that state until then.
    Unreachable(Option<Box<SavedCoreState>>),
    /// A check found that this manager still holds the epoch.
    Held,
    /// This manager's epoch has ended: from now on, this manager sets nothing.
    Deposed {
        /// The epoch that this manager held.
        ended: Epoch,
        /// The epoch in the store, of another manager or from an older copy of the store.
        by: Epoch,
    },
    /// The epoch in the store, which another manager holds; `None` if there is no epoch.
    Seen(Option<Epoch>),
    /// Number of the last plan that the master, another manager, has stored.
    Planned(u64),
    /// Footprints of the master's last plans; precedes [`EpochEvent::Planned`].
    Footprints(Footprints),
    /// The LIDs of ports as stored by the holder of the epoch, another manager.
    Claims(Arc<Claims>),
    /// The host order as stored by the holder of the epoch, another manager.
    Positions(Arc<HostPositions>),
    /// The cables of the subnet as stored by the holder of the epoch, another manager. A cable
    /// shows which node is behind a port before that node answers: the node may answer only
    /// requests with its M_Key, which depends on the node.
    Cabling(Arc<Expected>),
    /// State of the M_Keys as stored by the holder of the epoch, another manager.
    MKeys {
        /// Number of rotations, including one that has just begun.
        generations: Generations,
        /// Whether that manager is writing hardware.
        is_pushing: bool,
    },
    /// Whether the store has stopped answering this manager, the presumed holder of the epoch;
    /// `false` once the store answers again.
    Silent(bool),
    /// Checksums of the settings of all managers that share the store, by their GUID.
    Configurations(BTreeMap<Guid, String>),
}

/// An output of the core: an action for the daemon.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all effects are datagrams; boxing each would cost more than the copy"
)]
pub enum Effect {
    /// Send a datagram.
    Send {
        /// The MAD and its address.
        datagram: Datagram,
        /// Time within which an answer counts; zero if none is expected.
        timeout: Duration,
    },
    /// Compute a plan, and return it as [`Event::Planned`].
    Plan(Box<PlanJob>),
    /// Compute a plan ahead of a takeover, and return it as [`Event::Prepared`]. No stage waits for
    /// the plan.
    Prepare(Box<PlanJob>),
    /// Answer SA queries from this state until the next [`Effect::Publish`]. This effect precedes
    /// the first Set of a push to this state, so that the SA knows every port before the port
    /// becomes Active.
    Serve(Arc<Forthcoming>),
    /// Report the Sets of a dry run ([`Mode::DryRun`](super::Mode::DryRun)), in the order in which
    /// a push would send them.
    Foreseen(Vec<Foreseen>),
    /// Publish this snapshot to readers.
    Publish(Arc<Snapshot>),
    /// Send a request to the shared store.
    Epoch(EpochRequest),
    /// Store this state for the next run.
    Remember(Box<SavedCoreState>),
    /// Pass a port's notice to its subscribers.
    Notice(Box<Notice>),
    /// Record a convergence that has ended.
    Converged(Arc<Convergence>),
    /// Report that the command of `ticket` is done.
    Done {
        /// Ticket of the command.
        ticket: Ticket,
        /// Convergence that completed it.
        convergence: Arc<Convergence>,
    },
    /// Report that the command of `ticket` will not be done.
    Declined {
        /// Ticket of the command.
        ticket: Ticket,
        /// Reason.
        reason: String,
    },
    /// Report that the command of `ticket` was not carried out: it would cut ports off, and its
    /// issuer has not accepted that.
    CutOff {
        /// Ticket of the command.
        ticket: Ticket,
        /// Number of ports that would be cut off.
        ports: usize,
        /// Names of the ports, and why they would be cut off.
        reason: String,
    },
    /// Report that the command of `ticket` was not carried out: it would end the order of another
    /// operator, and its issuer has not accepted that.
    OfAnother {
        /// Ticket of the command.
        ticket: Ticket,
        /// The other operator's order.
        order: Box<Drained>,
    },
    /// Report that the change of [`Command::Partition`] waits for its plan.
    PartitionTaken {
        /// Ticket of the command.
        ticket: Ticket,
        /// Effect of the change; a later effect with the same ticket replaces it.
        effect: Box<ChangeEffect>,
    },
    /// Report that the change of [`Command::Partition`] was refused.
    PartitionRefused {
        /// Ticket of the command.
        ticket: Ticket,
        /// Reason.
        error: ChangeError,
    },
}
