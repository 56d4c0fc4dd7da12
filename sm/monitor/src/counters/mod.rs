//! The performance counters of all ports: their collection, and the last readings.
//!
//! [`Collector`] is a state machine without I/O, with a window of its own. It reads the agents of
//! performance management (IBA 16.1) of the nodes in the published fabric and never writes, so that
//! every other reader of the hardware's counters sees them unchanged. Readers get a
//! [`CountersSnapshot`]: immutable, a few pointers to copy, and shared with the collector until a
//! reading replaces it.
//!
//! `sm/src/daemon/counters` has the daemon's thread that runs the collector.
//!
//! # Readings and their intervals
//!
//! | tier | what | when |
//! |---|---|---|
//! | sums | AllPortSelect at each switch that has it | every [`CountersConfig::interval`] |
//! | ports | each cabled port of a switch | every [`CountersConfig::ports_interval`], at once where the sum of error counters moved |
//! | causes | PortRcvErrorDetails, PortXmitDiscardDetails | where PortRcvErrors or PortXmitDiscards moved |
//! | corrections | PortExtendedSpeedsCounters, where an agent has them (IsRSFECModeCountersSupported) | every hour on links with a Reed-Solomon code, and where errors of the link moved |
//! | firmware | GeneralInfo of the vendor's class, of NVIDIA devices | every hour |
//! | adapters | each port of a channel adapter or router | every [`CountersConfig::adapters_interval`] |
//!
//! The counters of a port come from PortCountersExtended if the agent has it, including error
//! counters and PortXmitWait if they have 64 bits there; otherwise from PortCounters.

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
pub use self::port::{ErrorRates, PortReading, Rates, RecentErrors, TRAFFIC};
pub use self::snapshot::{
    AgentCounters, AgentState, CountersSnapshot, DeviceFirmware, PortCounters,
};
pub use self::stats::CollectorStats;
pub use crate::agent_window::Transmit;
