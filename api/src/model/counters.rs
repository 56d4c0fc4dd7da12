use std::time::Duration;

use rsm_ids::Guid;

use super::PortId;

/// The counters of a port as last read, for sums and metrics.
#[derive(Debug, Clone, Copy)]
pub struct PortTotals<'a> {
    /// The port.
    pub port: PortId,
    /// The GUID of the port; for a switch, the node's GUID.
    pub guid: Guid,
    /// Whether the port's node is a switch.
    pub is_switch: bool,
    /// The counters that the device has, by the specification's name, with their totals: the value
    /// of the hardware at the first reading plus all increments since. Data is in words of 4 bytes.
    pub totals: &'a [(&'static str, u64)],
    /// The causes of PortRcvErrors and PortXmitDiscards as the device counts them (IBA 16.1.4.1 and
    /// 16.1.4.2), if they were read.
    pub causes: &'a [(&'static str, u64)],
    /// The bytes sent per second; `None` if the last two readings give no rate.
    pub xmit_bytes_per_s: Option<f64>,
    /// The bytes received per second; `None` if the last two readings give no rate.
    pub rcv_bytes_per_s: Option<f64>,
    /// The share of time in which data waited without being sent, 0 to 1; `None` if the last two
    /// readings give no rate.
    pub wait_share: Option<f64>,
    /// The busier direction as a share of the link's rate, 0 to 1; `None` if the last two readings
    /// give no rate.
    pub use_share: Option<f64>,
    /// The errors of all kinds per hour, without PortRcvRemotePhysicalErrors, whose cause is
    /// another link, and PortRcvSwitchRelayErrors, packets for which a switch has no way on; 0 if
    /// the last two readings give no rate.
    pub errors_sum: f64,
    /// The nonzero errors per hour of each kind, by the specification's name.
    pub errors_per_hour: &'a [(&'static str, f64)],
}

/// The state of an agent of performance management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// No request has been sent to the agent yet.
    New,
    /// The agent's last answer was correct.
    Answers,
    /// The agent did not answer the last request, or reported that it is busy.
    Silent,
    /// The agent supports no attribute with counters, or requires requests that rsm cannot send.
    Unreadable,
}

/// An agent of performance management, which answers for a switch, or for one port of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentState {
    /// The node of the agent.
    pub node: Guid,
    /// The GUID of the agent's port; for a switch, the node's GUID.
    pub guid: Guid,
    /// Whether the agent's node is a switch.
    pub is_switch: bool,
    /// The state of the agent.
    pub answering: Answering,
    /// The duration of the last reading of all its ports; `None` before the first one.
    pub took: Option<Duration>,
}

/// The state of the counter collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountersState {
    /// Whether counters are being read at present.
    pub is_collecting: bool,
    /// The number of agents that the collector asks.
    pub agents: u64,
    /// The number of agents that did not answer the last request.
    pub silent_agents: u64,
    /// The number of ports with a current reading.
    pub ports: u64,
    /// The number of ports with a stale reading.
    pub stale_ports: u64,
    /// The number of requests sent, repetitions included.
    pub requests: u64,
    /// The number of answers by result, each with the name of the result.
    pub results: [(&'static str, u64); 5],
    /// The number of readings in which a counter was lower than before.
    pub resets: u64,
    /// The time that the most overdue agent has been waiting for its turn.
    pub behind: Duration,
}

/// A span of the past in milliseconds since the Unix epoch; `since` is before `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastSpan {
    /// The beginning of the span, inclusive.
    pub since_unix_ms: u64,
    /// The end of the span, exclusive.
    pub until_unix_ms: u64,
}
