//! Facts about the host of the manager, which no snapshot has.

use super::topic::Measured;

/// A fact about the manager's host: whether it is as it should be, in a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostFact {
    /// The part is as it should be.
    Good(String),
    /// The part works, but not as it should.
    Doubtful(String),
    /// The state is not known, for this reason.
    NotKnown(String),
}

/// Facts about the manager's host. A method may ask the system, and does not wait.
pub trait HostFacts: Send + Sync {
    /// Whether the state of the subnet is kept over a restart.
    fn store(&self) -> HostFact;

    /// Whether the clock is in step with others: times of events and expiry of tokens follow it.
    fn clock(&self) -> HostFact;

    /// Until when the certificate of the API holds.
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
