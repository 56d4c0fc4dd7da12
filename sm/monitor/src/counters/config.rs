use std::time::Duration;

/// The settings of a [`Collector`](super::Collector).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountersConfig {
    /// Whether counters are read.
    pub enabled: bool,
    /// Time between two readings of the sums over all ports of a switch, more than zero.
    pub interval: Duration,
    /// Time between two readings of each port of a switch, more than zero.
    pub ports_interval: Duration,
    /// Whether ports of channel adapters and routers are read.
    pub adapters: bool,
    /// Time between two readings of a port of a channel adapter or router, more than zero.
    pub adapters_interval: Duration,
    /// Maximum number of requests in flight, 1 or more; each agent has at most one.
    pub window: u32,
    /// Maximum number of requests per second, 1 or more.
    pub requests_per_s: u32,
    /// Time after which a request counts as unanswered, more than zero.
    pub timeout: Duration,
}

impl Default for CountersConfig {
    fn default() -> CountersConfig {
        CountersConfig {
            enabled: true,
            interval: Duration::from_secs(5),
            ports_interval: Duration::from_secs(30),
            adapters: true,
            adapters_interval: Duration::from_secs(300),
            window: 64,
            requests_per_s: 20_000,
            timeout: Duration::from_millis(500),
        }
    }
}
