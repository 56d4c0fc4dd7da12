//! The operator's settings.

use std::collections::BTreeMap;

use rsm_ids::Guid;

use super::roles::TrafficRole;

/// The input of hints and findings beside hosts and fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnalysisConfig {
    /// The roles of ports that differ from the result of the rules, by port GUID.
    pub roles: BTreeMap<Guid, TrafficRole>,
    /// The service level of collectives, 0 to 15: libraries put it on every queue pair. `None`
    /// leaves it to them, and to the operator of a job.
    pub sl: Option<u8>,
    /// An inventory that was seen so many seconds ago is stale. `None`: never.
    pub max_age: Option<u64>,
    /// The time, in seconds of the clock that inventories were seen by.
    pub now: u64,
}
