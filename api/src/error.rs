//! Why the subnet manager could not answer, in its own terms.

use rsm_ids::Lid;

use crate::model::{GroupSelector, PortKey};

/// A name that does not lead to one node or port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Nothing has this name.
    #[error("nothing in the fabric is named `{selector}`: `rsmctl nodes` lists what is there")]
    NotFound {
        /// The name.
        selector: String,
    },
    /// A node had this name until the subnet manager lost it.
    #[error("`{selector}` is not there any more: it was at {place} until {until}")]
    Gone {
        /// The name.
        selector: String,
        /// The port that it was cabled to, as people name it.
        place: String,
        /// When it was last known to be there, in UTC.
        until: String,
    },
    /// Several have this name.
    #[error("`{selector}` names {total} things; use one of: {}{}", candidates.join(", "), if *total > candidates.len() { ", …" } else { "" })]
    Ambiguous {
        /// The name.
        selector: String,
        /// Names that are not ambiguous, at most [`MAX_CANDIDATES`](crate::limits::MAX_CANDIDATES),
        /// in order of GUID and port.
        candidates: Vec<String>,
        /// How many there are.
        total: usize,
    },
    /// The node has no such port.
    #[error("{port} does not exist: `rsmctl ports --node {}` lists the ports of that node", port.node)]
    NoSuchPort {
        /// The port that was asked for.
        port: PortKey,
    },
    /// A switch was expected.
    #[error(
        "`{selector}` is not a switch, so it has no forwarding table: `rsmctl nodes --kind switch` lists the switches"
    )]
    NotASwitch {
        /// The name.
        selector: String,
    },
    /// There is no such partition.
    #[error("no partition has the P_Key {p_key:#06x}: `rsmctl partitions` lists those there are")]
    NoSuchPartition {
        /// The P_Key that was asked for.
        p_key: u16,
    },
    /// There is no such multicast group.
    #[error("no multicast group is named `{group}`: `rsmctl multicast` lists those there are")]
    NoSuchGroup {
        /// The name.
        group: GroupSelector,
    },
    /// The port cannot be an end of a route.
    #[error(
        "{port} has no LID, so no route starts or ends there: name an end port (a switch's is port 0)"
    )]
    NoLid {
        /// The port.
        port: PortKey,
    },
}

/// Why a request to act was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The name does not lead to one node or port.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Another subnet manager is master.
    #[error("this subnet manager is standby and sends no Set: ask the master at LID {master}")]
    Standby {
        /// Where the master is.
        master: Lid,
    },
    /// There is no subnet to manage.
    #[error("the subnet manager is not attached to a subnet: {reason}")]
    NotAttached {
        /// Why, in a few words.
        reason: String,
    },
    /// More requests wait than are queued.
    #[error(
        "too many requests are waiting already: ask again once a convergence has finished (`rsmctl watch`)"
    )]
    Busy,
    /// No engine has the name.
    #[error("{message}: `rsmctl engine list` tells what each promises")]
    UnknownEngine {
        /// What was asked for, and what there is.
        message: String,
    },
    /// What was asked for does not stand the proof; everything stays as it was.
    #[error("refused, and everything stays as it was: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The subnet manager is being stopped.
    #[error("the subnet manager is stopping")]
    Stopping,
    /// It was carried out and failed.
    #[error("the sweep failed: {reason}")]
    Failed {
        /// Why, in a few words.
        reason: String,
    },
}

/// Why routes were not measured or foreseen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The name does not lead to one node or port.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Nothing is routed.
    #[error("no routes are in force: `rsmctl status` tells what the subnet manager does")]
    NoRoutes,
    /// What is to go cannot go.
    #[error("{reason}")]
    Impossible {
        /// Why.
        reason: String,
    },
    /// More requests wait than are queued.
    #[error(
        "too many requests for route measurements are waiting already: ask again in some seconds"
    )]
    Busy,
    /// The computation ended without an answer.
    #[error("the subnet manager is stopping")]
    Stopping,
}

/// Why the SA could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// The name does not lead to one thing.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// It answers nobody: hosts hear nothing, and ask again.
    #[error("the SA does not answer here: {reason}")]
    NotAnswering {
        /// Why, in a few words.
        reason: String,
    },
    /// More want to know than are kept waiting.
    #[error("too many requests are waiting for the SA already: ask again")]
    Busy,
    /// The subnet manager is being stopped.
    #[error("the subnet manager is stopping")]
    Stopping,
}

/// Why something was not done to the simulated fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The name does not lead to one node.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The port never had a cable.
    #[error("{port} has no cable in this simulation: `rsmctl links` lists the cables")]
    NoCable {
        /// The port.
        port: PortKey,
    },
    /// The simulation has ended.
    #[error("the simulation has ended")]
    Ended,
}
