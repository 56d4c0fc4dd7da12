//! The outputs of mastership: actions, which the core carries out in the order of decision.

use rsm_hardware::diff::LastComparison;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::Request;
use rsm_mad::transport::Datagram;

use crate::handover::HandingOver;
use crate::inquiry::Question;

/// The purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MastershipRequest {
    /// Offers the subnet to another manager.
    HandOver,
    /// Polls a master that shares the store.
    PeerPoll,
    /// Asks whether another manager is master.
    Inquiry(Question),
    /// Asks the silent manager at a port with IsSM.
    Manager(PortKey),
    /// Sends an acknowledgement to another manager; its answer has no effect.
    Announcement,
}

/// A request to the store that several managers share. The core does not wait for its outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochRequest {
    /// Claim the epoch.
    Claim {
        /// GUID of this manager.
        own: Guid,
        /// GUID of the silent or former master whose epoch the claim ends; `None` without such a
        /// master.
        over: Option<Guid>,
        /// Whether the epoch of `over` ends even if `over` shows signs of life in the store.
        insists: bool,
        /// Whether this manager is already master, so that its state counts.
        is_master: bool,
    },
    /// Check that this manager still holds the epoch.
    Check,
    /// Give the epoch up, because another manager is master.
    Release,
}

/// Work for the stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PassRequest {
    /// Sweep the whole subnet.
    Everything {
        /// Whether to read known tables back as well.
        audit: bool,
        /// Cause, for the operator.
        cause: String,
    },
    /// Plan again, for this cause.
    Plan(String),
    /// Sweep a switch, for this cause.
    Switch(Guid, &'static str),
    /// Poll the master.
    Master,
    /// Poll the master at this time.
    MasterAt(Time),
    /// Take over, for this cause: read the parts of the subnet that the first push needs. This
    /// standby has read all other parts before.
    Succession(&'static str),
    /// Read the parts that a takeover would need, while the master is silent.
    ReadAhead,
    /// Read the parts that the master has changed since the last reading.
    Following,
    /// Make all waiting work wait for the pause of a repair.
    Postpone,
}

/// An output of mastership: an action of the core.
#[derive(Debug)]
pub enum Action {
    /// Send a request, and pass its outcome to
    /// [`Mastership::on_answer`](crate::Mastership::on_answer).
    Ask(Box<Request<MastershipRequest>>),
    /// Send a datagram that expects no answer, before all other effects.
    Reply(Box<Datagram>),
    /// Withdraw the open requests for which this function returns true.
    Withdraw(fn(MastershipRequest) -> bool),
    /// Send a request to the shared store.
    Store(EpochRequest),
    /// End a push under way at once: withdraw all its Sets, including sent and unanswered Sets.
    HaltPush,
    /// Repeat all open Gets of sweeps.
    RepeatGets,
    /// Drop the stage under way, and its requests.
    DropStage,
    /// Drop the record of the pass under way.
    DiscardPass,
    /// Wait for the answer to an offer of the subnet; the offer follows as [`Action::Ask`].
    HandOver(Box<HandingOver>),
    /// Turn the reading ahead that is under way into the sweep of a succession, for this cause.
    ContinueAsSuccession(&'static str),
    /// Queue work for the stages.
    Work(PassRequest),
    /// Keep the LIDs of ports from now on: a takeover must not change LIDs.
    KeepLids,
    /// Forget findings about foreign writes: another manager has written the subnet.
    ForgetForeignWrites,
    /// Decline all waiting commands and end all trials of settings, for this reason.
    AbandonCommands(&'static str),
    /// Inherit multicast members from the switches' tables again.
    InheritMembers,
    /// Ask all hosts to register again.
    ReregisterHosts,
    /// Give switches M_Keys that the former master does not know.
    FenceSwitches,
    /// Continue with the generations of M_Keys that ports show, if they are later.
    FollowGenerations,
    /// Make the next comparison with the hardware start from this comparison.
    FollowComparison(Box<LastComparison>),
    /// Make a plan ahead of a takeover.
    PlanAhead,
    /// Publish the state to readers.
    Publish,
}
