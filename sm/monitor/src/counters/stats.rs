use std::time::Duration;

/// Counts of a [`Collector`](super::Collector) since it began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CollectorStats {
    /// Requests sent, repetitions included.
    pub sent: u64,
    /// Answers with counters or capabilities.
    pub answered: u64,
    /// Requests without an answer in time.
    pub timed_out: u64,
    /// Answers that the agent does not know the attribute, or refuses a port.
    pub refused: u64,
    /// Answers that the agent has no time.
    pub busy: u64,
    /// Answers that name another agent.
    pub redirected: u64,
    /// Datagrams that answer no request in flight: late ones, repeated ones, forged ones.
    pub stray: u64,
    /// Readings in which a counter was lower than before: another program reset it, or the device
    /// began anew.
    pub resets: u64,
    /// Agents there are now.
    pub agents: usize,
    /// Agents whose last request had no answer.
    pub silent: usize,
    /// How long the most overdue agent has been waiting for its turn.
    pub behind: Duration,
}
