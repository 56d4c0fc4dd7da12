//! The performance counters of all ports: their collection, and the last readings.
//!
//! [`Collector`] is a state machine without I/O, which reads the agents of performance management
//! (IBA 16.1) of the nodes in the published fabric. The collector never writes, so that other
//! programs that read the counters of devices see them unchanged. Readers in the daemon get a
//! [`CountersSnapshot`], which is immutable and costs a few pointers to copy.
//!
//! The daemon's thread that runs the collector is in `sm/src/daemon/counters`.
//!
//! # Readings and their intervals
//!
//! | tier | what | when |
//! |---|---|---|
//! | sums | AllPortSelect at each switch that has it | every [`CountersConfig::interval`] |
//! | ports | each cabled port of a switch | every [`CountersConfig::ports_interval`], and earlier if a sum of error counters moved |
//! | causes | PortRcvErrorDetails, PortXmitDiscardDetails | if PortRcvErrors or PortXmitDiscards moved |
//! | corrections | PortExtendedSpeedsCounters, if the agent has them (IsRSFECModeCountersSupported) | every hour on links with a Reed-Solomon code, and if errors of the link moved |
//! | firmware | GeneralInfo of the vendor's class, of NVIDIA devices | every hour |
//! | adapters | each port of a channel adapter or router | every [`CountersConfig::adapters_interval`] |
//!
//! The counters of a port are read from PortCountersExtended if the agent has that attribute.
//! Error counters and PortXmitWait are read from the same attribute if it contains them, otherwise
//! from PortCounters.

mod agent;
mod causes;
mod collector;
mod config;
mod corrected;
mod port;
mod request;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;

pub use self::causes::Causes;
pub use self::collector::{Collector, CountedSubnet, PlannedLevels, Routes};
pub use self::config::CountersConfig;
pub use self::corrected::{Corrected, MovedCorrections};
pub(crate) use self::port::SHORTEST_SPAN;
pub use self::port::{ErrorRates, PortReading, Rates, RecentErrors, TRAFFIC, is_of_link};
pub use self::snapshot::{
    AgentCounters, AgentState, CountersSnapshot, DeviceFirmware, PortCounters,
};
pub use self::stats::CollectorStats;
pub use crate::agent_window::Transmit;
