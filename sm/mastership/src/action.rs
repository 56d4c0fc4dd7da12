//! The outputs: what the core does for mastership, in the order in which it is decided.

use rsm_hardware::diff::LastComparison;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::Request;
use rsm_mad::transport::Datagram;

use crate::handover::HandingOver;
use crate::inquiry::Question;

/// Why a request was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Offers the subnet to another manager.
    HandOver,
    /// Polls a master that shares the store.
    PeerPoll,
    /// Asks whether another manager is master.
    Inquiry(Question),
    /// Asks a visible manager that did not answer before.
    Manager(PortKey),
    /// Sends an order or acknowledgement to another manager, which need not answer.
    Announcement,
}

/// A request to the store that several managers share. The core does not wait for its outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochRequest {
    /// Claim the epoch.
    Claim {
        /// GUID of this manager.
        own: Guid,
        /// The master that no longer answers, or has handed over, and whose epoch ends.
        over: Option<Guid>,
        /// Whether its epoch ends even if it shows signs of life in the store.
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
pub enum Errand {
    /// Sweep everything.
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
    /// Read what the first push needs after a master whose subnet was read before, for this cause.
    Succession(&'static str),
    /// Read what a takeover needs, while the master is silent.
    ReadAhead,
    /// Read what the master has changed since the last reading.
    Following,
    /// Start no waiting work before the pause of a repair is over.
    Postpone,
}

/// An output of mastership: an action of the core.
#[derive(Debug)]
pub enum Action {
    /// Send a request, and return its completion.
    Ask(Box<Request<Asked>>),
    /// Send a datagram without an answer, before all other effects.
    Reply(Box<Datagram>),
    /// Withdraw the open requests that this predicate names.
    Withdraw(fn(Asked) -> bool),
    /// Send a request to the shared store.
    Store(EpochRequest),
    /// Withdraw every Set of a push under way, also those without an answer; the push ends at once.
    HaltPush,
    /// Repeat all open requests of sweeps.
    RepeatGets,
    /// Drop the stage under way, and its requests.
    DropStage,
    /// Drop the record of the pass under way.
    DiscardPass,
    /// Wait for the answer to an offer of the subnet; the offer follows as [`Action::Ask`].
    HandOver(Box<HandingOver>),
    /// Make the reading ahead under way the sweep of a succession, for this cause.
    GoOnAsSuccession(&'static str),
    /// Queue work for the stages.
    Work(Errand),
    /// Keep the LIDs of ports from now on: a takeover moves none.
    KeepLids,
    /// Forget differences that another manager may have written.
    ForgetForeignWrites,
    /// End all trials of settings without a decision, for this reason.
    AbandonTrials(&'static str),
    /// Inherit multicast members from the switches again.
    InheritMembers,
    /// Ask all hosts to register again.
    ReregisterHosts,
    /// Give switches keys that the former master does not know.
    FenceSwitches,
    /// Continue with the generations of M_Keys that ports show.
    FollowGenerations,
    /// Make the next comparison with the hardware follow this one.
    FollowComparison(Box<LastComparison>),
    /// Make a plan ahead of a takeover.
    PlanAhead,
    /// Publish the state to readers.
    Publish,
}
