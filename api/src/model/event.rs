use rsm_proto::v1::{Convergence, Finding, Link, Node, Port};

use super::SubnetState;

/// How much of the forwarding changed from one generation to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutesChanged {
    /// Switches with at least one changed entry.
    pub switches: u32,
    /// Blocks of 64 entries with at least one changed entry.
    pub blocks: u32,
    /// Changed entries.
    pub entries: u64,
}

/// The change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The subnet manager's own state changed.
    StateChanged {
        /// The new state.
        state: SubnetState,
        /// Why, in a few words.
        reason: String,
    },
    /// A node is new, or back.
    NodeAppeared(Node),
    /// A node is gone; its last known form.
    NodeVanished(Node),
    /// A known node reports other attributes.
    NodeChanged(Node),
    /// A port of a known node is new, or back.
    PortAppeared(Port),
    /// A port of a known node is gone; its last known form.
    PortVanished(Port),
    /// A port changed its state, LID or anything else that [`Port`] holds.
    PortChanged(Port),
    /// A link is new, or back.
    LinkAppeared(Link),
    /// A link is gone; its last known form.
    LinkVanished(Link),
    /// A link changed its width, speed or state.
    LinkChanged(Link),
    /// Forwarding tables changed.
    RoutesChanged(RoutesChanged),
    /// A finding was raised.
    FindingRaised(Finding),
    /// A finding no longer holds.
    FindingCleared(Finding),
    /// The pipeline ran through.
    ConvergenceFinished(Convergence),
}

/// A change in the subnet or the subnet manager.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Counts up by one from 1 over the subnet manager's life.
    pub sequence: u64,
    /// The generation that the event belongs to.
    pub generation: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// The change.
    pub change: Change,
}
