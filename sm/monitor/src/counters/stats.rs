use std::time::Duration;

/// Statistics of a [`Collector`](super::Collector) since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CollectorStats {
    /// Requests sent, including repetitions.
    pub sent: u64,
    /// Answers with counters or capabilities.
    pub answered: u64,
    /// Requests that were not answered in time.
    pub timed_out: u64,
    /// Answers with a status that says that the agent does not know the attribute, or refuses a
    /// port.
    pub refused: u64,
    /// Answers with the status busy.
    pub busy: u64,
    /// Answers that redirect to another agent.
    pub redirected: u64,
    /// Datagrams that answer no request in flight: late, repeated or forged answers.
    pub stray: u64,
    /// Readings in which a counter was lower than before, because another program reset it or the
    /// device was reset.
    pub resets: u64,
    /// Present number of agents.
    pub agents: usize,
    /// Number of agents whose last request was not answered.
    pub silent: usize,
    /// Time for which the most overdue agent has waited for its turn.
    pub behind: Duration,
}
