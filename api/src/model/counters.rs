use std::time::Duration;

use rsm_ids::Guid;

use super::PortId;

/// The counters of a port as last read, for sums and metrics.
#[derive(Debug, Clone, Copy)]
pub struct PortTotals<'a> {
    /// The port.
    pub port: PortId,
    /// The GUID of the port; the node's on a switch.
    pub guid: Guid,
    /// Whether its node is a switch.
    pub is_switch: bool,
    /// The counters that the device has, by the specification's name, with the count of each: the
    /// value of the hardware at the first reading and all since. Data is in words of 4 bytes.
    pub totals: &'a [(&'static str, u64)],
    /// The causes of PortRcvErrors and PortXmitDiscards as the device counts them (IBA 16.1.4.1 and
    /// 16.1.4.2), where they were read.
    pub causes: &'a [(&'static str, u64)],
    /// Bytes sent a second; `None` where the last two readings give no rate.
    pub xmit_bytes_per_s: Option<f64>,
    /// Bytes received a second, as above.
    pub rcv_bytes_per_s: Option<f64>,
    /// The share of the time in which data waited without being sent, 0 to 1, as above.
    pub wait_share: Option<f64>,
    /// The busier direction as a share of the rate of the link, as above.
    pub use_share: Option<f64>,
    /// Errors of all kinds in an hour, without PortRcvRemotePhysicalErrors, whose cause is another
    /// link.
    pub errors_sum: f64,
    /// Errors of each kind in an hour, by the specification's name, those that are not zero.
    pub errors_per_hour: &'a [(&'static str, f64)],
}

/// How an agent of performance management answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// It has not been asked yet.
    New,
    /// Its last answer was right.
    Answers,
    /// It did not answer the last request, or has no time.
    Silent,
    /// It knows no attribute with counters, or wants requests where rsm cannot send them.
    Unreadable,
}

/// An agent of performance management: a switch's, or that of a port of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentState {
    /// Its node.
    pub node: Guid,
    /// The GUID of its port; the node's on a switch.
    pub guid: Guid,
    /// Whether its node is a switch.
    pub is_switch: bool,
    /// How it answers.
    pub answering: Answering,
    /// How long the last reading of all its ports took; `None` before the first one.
    pub took: Option<Duration>,
}

/// The state of reading counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountersState {
    /// Whether counters are read now.
    pub is_collecting: bool,
    /// Agents that are asked.
    pub agents: u64,
    /// Agents that did not answer the last request.
    pub silent_agents: u64,
    /// Ports with a reading that holds.
    pub ports: u64,
    /// Ports with a reading that is stale.
    pub stale_ports: u64,
    /// Requests sent, repetitions included.
    pub requests: u64,
    /// Answers by result, each with a word for it.
    pub results: [(&'static str, u64); 5],
    /// Readings in which a counter was lower than before.
    pub resets: u64,
    /// How long the most overdue agent has been waiting for its turn.
    pub behind: Duration,
}
