//! The status of all congestion control agents, for readers of the snapshot.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_mad::wire::header::Status;

/// Number of shards of a view. A change copies one shard.
const SHARDS: usize = 256;

/// Status of the congestion control agent of an end port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AgentStatus {
    /// The agent's settings are being read or written.
    Pending,
    /// The agent holds the settings of the policy.
    Set,
    /// The agent refuses the class: the device has no congestion control.
    Absent(Status),
    /// The agent has never answered a request of the class.
    Silent,
    /// The agent redirects requests to another port, which rsm does not follow.
    Redirects,
    /// The agent answers ClassPortInfo, but not this attribute: it may hold another CC_Key.
    Unanswered(&'static str),
    /// The agent refuses an attribute.
    Refuses(&'static str, Status),
    /// The agent acknowledges Sets of an attribute, and holds other values.
    NotKept(&'static str),
    /// The agent's congestion control table has only this many blocks of 64 entries.
    TableTooSmall(u8),
}

impl AgentStatus {
    /// Whether the device lacks settings that it could have.
    pub fn is_trouble(self) -> bool {
        use AgentStatus::{NotKept, Redirects, Refuses, TableTooSmall, Unanswered};
        match self {
            Redirects | Unanswered(_) | Refuses(..) | NotKept(_) | TableTooSmall(_) => true,
            AgentStatus::Pending
            | AgentStatus::Set
            | AgentStatus::Absent(_)
            | AgentStatus::Silent => false,
        }
    }
}

/// Formats the status as the end of a sentence about the device.
impl fmt::Display for AgentStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentStatus::Pending => f.write_str("is being read"),
            AgentStatus::Set => f.write_str("holds the settings"),
            AgentStatus::Absent(status) => write!(f, "refuses congestion control ({status})"),
            AgentStatus::Silent => f.write_str("answers no congestion control"),
            AgentStatus::Redirects => {
                f.write_str("redirects requests of congestion control, which rsm does not follow")
            }
            AgentStatus::Unanswered(attribute) => write!(
                f,
                "leaves {attribute} unanswered: it may hold another CC_Key than congestion.cc_key"
            ),
            AgentStatus::Refuses(attribute, status) => {
                write!(f, "refuses {attribute} ({status})")
            }
            AgentStatus::NotKept(attribute) => {
                write!(f, "acknowledges {attribute} and holds other values")
            }
            AgentStatus::TableTooSmall(blocks) => write!(
                f,
                "has a CongestionControlTable of {} entries, and congestion.table is longer",
                usize::from(*blocks) * 64
            ),
        }
    }
}

/// Status and counters of one agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentReport {
    /// Status of the agent.
    pub status: AgentStatus,
    /// Number of Sets that the agent acknowledged since this manager became master.
    pub sets: u32,
    /// CC_KeyViolations as last read; `None` if rsm sets no CC_Keys.
    pub key_violations: Option<u16>,
}

/// The reports of all agents at one moment. Cloning copies `SHARDS` pointers.
#[derive(Clone, Debug)]
pub struct CongestionView {
    shards: Vec<Arc<BTreeMap<PortKey, AgentReport>>>,
}

impl Default for CongestionView {
    fn default() -> CongestionView {
        CongestionView {
            shards: vec![Arc::default(); SHARDS],
        }
    }
}

impl CongestionView {
    /// The report of an end port's agent; `None` if rsm does not manage the agent.
    pub fn agent(&self, key: PortKey) -> Option<&AgentReport> {
        self.shards[Self::shard(key)].get(&key)
    }

    /// Records the report of an agent.
    pub fn put(&mut self, key: PortKey, report: AgentReport) {
        if self.agent(key) != Some(&report) {
            Arc::make_mut(&mut self.shards[Self::shard(key)]).insert(key, report);
        }
    }

    /// Forgets an agent.
    pub fn remove(&mut self, key: PortKey) {
        if self.agent(key).is_some() {
            Arc::make_mut(&mut self.shards[Self::shard(key)]).remove(&key);
        }
    }

    /// Picks the shard of a port by hash: GUIDs of one vendor differ in their low bytes, often by
    /// steps of a power of two.
    fn shard(key: PortKey) -> usize {
        let mixed = key.node.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 56) as usize
    }
}
