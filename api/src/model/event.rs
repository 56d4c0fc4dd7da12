use super::{Convergence, Finding, Link, Node, Port, SubnetState};

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

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The subnet manager's own state changed.
    StateChanged {
        /// The new state.
        state: SubnetState,
        /// Why, in a few words.
        reason: String,
    },
    /// A node is there that was not.
    NodeAppeared(Node),
    /// A node is gone; its last known form.
    NodeVanished(Node),
    /// A node is there as before, but says something else of itself.
    NodeChanged(Node),
    /// A port of a known node is there that was not.
    PortAppeared(Port),
    /// A port of a known node is gone; its last known form.
    PortVanished(Port),
    /// A port changed its state, LID or anything else that [`Port`] holds.
    PortChanged(Port),
    /// A link is there that was not.
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

/// Something that happened, in the order in which it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Counts up by one from 1 over the subnet manager's life.
    pub sequence: u64,
    /// The generation that the event belongs to.
    pub generation: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// What happened.
    pub change: Change,
}
