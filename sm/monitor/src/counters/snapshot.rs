//! The last readings, for readers.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::perf::{PerfCapabilityMask, PerfCapabilityMask2};

use super::config::CountersConfig;
use super::port::PortReading;
use super::stats::CollectorStats;

/// Whether an agent answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum AgentState {
    /// The agent has not been asked yet.
    #[default]
    New,
    /// The agent's last answer was right.
    Answers,
    /// This many requests in a row had no answer: it is asked more and more rarely, up to ten
    /// minutes apart. At least 1 after the answer that it has no time: then it is asked again after
    /// the usual time.
    Silent(u16),
    /// The agent knows no attribute with counters, or wants requests sent to where rsm cannot send
    /// them. It is asked once an hour.
    Unreadable,
}

/// The counters of the ports behind one agent: a switch, or one port of an adapter or router.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentCounters {
    /// Port 0 of the switch, or the port.
    pub key: PortKey,
    /// The LID that requests go to, unless the agent redirects them.
    pub lid: Lid,
    /// Whether it is a switch's.
    pub is_switch: bool,
    /// Whether it answers.
    pub state: AgentState,
    /// The agent's capabilities, empty until it has told them.
    pub capabilities: PerfCapabilityMask,
    /// Its further capabilities.
    pub capabilities2: PerfCapabilityMask2,
    /// How long the last reading of all its ports took; `None` before the first one.
    pub took: Option<Duration>,
    /// The number of the port at index 0.
    pub(super) first: PortNum,
    pub(super) ports: Box<[PortReading]>,
}

impl AgentCounters {
    /// The ports that have been read, ascending.
    pub fn ports(&self) -> impl Iterator<Item = (PortKey, &PortReading)> {
        let numbers = (self.first.0..=u8::MAX).map(PortNum);
        let ports = numbers.zip(&self.ports);
        let read = ports.filter(|(_, reading)| reading.at().is_some());
        read.map(|(port, reading)| (PortKey::new(self.key.node, port), reading))
    }

    /// The reading of a port, if there is one.
    pub fn port(&self, port: PortNum) -> Option<&PortReading> {
        let reading = self
            .ports
            .get(port.index().checked_sub(self.first.index())?)?;
        reading.at().map(|_| reading)
    }
}

/// A port with its agent.
#[derive(Clone, Copy, Debug)]
pub struct PortCounters<'a> {
    /// The port.
    pub key: PortKey,
    /// Its agent.
    pub agent: &'a AgentCounters,
    /// Its counters.
    pub reading: &'a PortReading,
}

/// How many times the interval of its kind a port may go without a reading before its last one is
/// stale: two readings may fail, and be repeated, without a gap.
const INTERVALS_UNTIL_STALE: u32 = 3;

/// How long readings hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Holds {
    switch_ports: Duration,
    adapters: Duration,
}

impl Holds {
    pub(super) fn of(config: &CountersConfig) -> Holds {
        Holds {
            switch_ports: config.ports_interval * INTERVALS_UNTIL_STALE,
            adapters: config.adapters_interval * INTERVALS_UNTIL_STALE,
        }
    }
}

/// All last readings at one moment. A clone costs three pointers.
#[derive(Clone, Debug)]
pub struct CountersSnapshot {
    /// When it was taken.
    pub at: Time,
    /// Whether counters are being read: rsm is master, and `counters.enabled` is set. If not, the
    /// readings are those of the time when it was.
    pub is_collecting: bool,
    /// Counts of the collector.
    pub stats: CollectorStats,
    pub(super) holds: Holds,
    /// By ascending key.
    pub(super) agents: Arc<[Arc<AgentCounters>]>,
}

impl Default for CountersSnapshot {
    fn default() -> CountersSnapshot {
        CountersSnapshot {
            at: Time::ZERO,
            is_collecting: false,
            stats: CollectorStats::default(),
            holds: Holds::of(&CountersConfig::default()),
            agents: Arc::from([]),
        }
    }
}

impl CountersSnapshot {
    /// Whether the reading of a port is stale at `now`: the port has not been read for three times
    /// the interval of its kind, so that its counters may have moved on.
    pub fn is_stale(&self, port: &PortCounters<'_>, now: Time) -> bool {
        let holds = match port.agent.is_switch {
            true => self.holds.switch_ports,
            false => self.holds.adapters,
        };
        port.reading.at().is_none_or(|at| now.since(at) > holds)
    }

    /// All agents by ascending key.
    pub fn agents(&self) -> impl Iterator<Item = &AgentCounters> {
        self.agents.iter().map(|agent| &**agent)
    }

    /// The agents of a node by ascending port: one of a switch.
    pub fn of_node(&self, node: Guid) -> impl Iterator<Item = &AgentCounters> {
        let start = self.agents.partition_point(|agent| agent.key.node < node);
        let rest = self.agents[start..].iter();
        rest.take_while(move |agent| agent.key.node == node)
            .map(|agent| &**agent)
    }

    /// The counters of a port, if they were read.
    pub fn port(&self, key: PortKey) -> Option<PortCounters<'_>> {
        self.of_node(key.node).find_map(|agent| {
            let reading = agent.port(key.port)?;
            Some(PortCounters {
                key,
                agent,
                reading,
            })
        })
    }

    /// The ports that have been read by ascending (node, port), from the first one above `after` on.
    pub fn ports(&self, after: Option<PortKey>) -> impl Iterator<Item = PortCounters<'_>> {
        let start = after.map_or(0, |after| {
            self.agents
                .partition_point(|agent| agent.key.node < after.node)
        });
        let ports = self.agents[start..].iter().flat_map(|agent| {
            agent.ports().map(|(key, reading)| PortCounters {
                key,
                agent,
                reading,
            })
        });
        ports.filter(move |port| after.is_none_or(|after| port.key > after))
    }
}
