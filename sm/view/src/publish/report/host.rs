//! Facts about the manager's host for the report. Snapshots do not contain these facts.

use super::topic::Measured;

/// A fact about the manager's host: a verdict, with a sentence for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostFact {
    /// The store, clock or certificate works as it should.
    Good(String),
    /// The store, clock or certificate works, but is impaired.
    Doubtful(String),
    /// The state is unknown; the text is the reason.
    NotKnown(String),
}

/// Source of facts about the manager's host. A method may query the system, but does not block.
pub trait HostFacts: Send + Sync {
    /// Whether the state of the subnet survives a restart.
    fn store(&self) -> HostFact;

    /// Whether the clock is synchronised: times of events and the expiry of tokens depend on it.
    fn clock(&self) -> HostFact;

    /// How soon the certificate of the API expires.
    fn certificates(&self) -> HostFact;
}

impl HostFact {
    /// The measured value of the fact's check.
    pub(super) fn measured(self) -> Measured {
        match self {
            HostFact::Good(text) => Measured::pass(text),
            HostFact::Doubtful(text) => Measured::warn(text),
            HostFact::NotKnown(reason) => Measured::not_known(reason),
        }
    }
}
