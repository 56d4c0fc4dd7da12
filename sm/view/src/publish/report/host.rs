//! Facts about the manager's host, which no snapshot contains.

use super::topic::Measured;

/// A fact about the manager's host: a verdict, and a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostFact {
    /// The part works as it should.
    Good(String),
    /// The part works, but is impaired.
    Doubtful(String),
    /// The state is unknown, for this reason.
    NotKnown(String),
}

/// Source of facts about the manager's host. A method may query the system, and does not wait.
pub trait HostFacts: Send + Sync {
    /// Whether the state of the subnet survives a restart.
    fn store(&self) -> HostFact;

    /// Whether the clock is synchronised: times of events and the expiry of tokens depend on it.
    fn clock(&self) -> HostFact;

    /// Expiry of the certificate of the API.
    fn certificates(&self) -> HostFact;
}

impl HostFact {
    pub(super) fn measured(self) -> Measured {
        match self {
            HostFact::Good(text) => Measured::pass(text),
            HostFact::Doubtful(text) => Measured::warn(text),
            HostFact::NotKnown(reason) => Measured::not_known(reason),
        }
    }
}
