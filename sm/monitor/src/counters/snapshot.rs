//! The last readings of all ports, in the form in which the daemon's other parts read them.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::perf::{PerfCapabilityMask, PerfCapabilityMask2};
use rsm_mad::wire::vendor::FirmwareVersion;

use super::config::CountersConfig;
use super::port::PortReading;
use super::stats::CollectorStats;

/// Whether an agent answers its requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum AgentState {
    /// The agent has not been asked yet.
    #[default]
    New,
    /// The agent's last answer was valid.
    Answers,
    /// The agent did not answer in this number of successive turns, and is asked at growing
    /// intervals, up to ten minutes. A busy agent counts as silent in at least one turn, and is
    /// asked again at the usual time.
    Silent(u16),
    /// The agent knows no attribute with counters, or redirects requests to an address to which rsm
    /// cannot send. rsm asks the agent once per hour.
    Unreadable,
}

/// The firmware of a device, as far as it is known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum DeviceFirmware {
    /// The device has not been asked yet.
    #[default]
    New,
    /// The device is not asked, because its vendor has no public attribute with the firmware.
    OtherVendor,
    /// The device's answer.
    Known {
        /// Version of the firmware.
        version: FirmwareVersion,
        /// Name of the device's parameter set; bytes that are not text are replaced.
        psid: String,
    },
    /// The device does not know the attribute, or refuses it.
    Refused,
    /// The device did not answer. The collector asks the device again after an hour.
    Silent,
}

/// The counters of the ports behind one agent: a switch, or one port of an adapter or router.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentCounters {
    /// Port 0 of the switch, or the port of the adapter or router.
    pub key: PortKey,
    /// LID that requests go to, unless the agent redirects them.
    pub lid: Lid,
    /// Whether the agent belongs to a switch.
    pub is_switch: bool,
    /// Whether the agent answers.
    pub state: AgentState,
    /// CapabilityMask of the agent; empty until the agent has shown its capabilities.
    pub capabilities: PerfCapabilityMask,
    /// CapabilityMask2 of the agent; empty until the agent has shown its capabilities.
    pub capabilities2: PerfCapabilityMask2,
    /// Firmware of the device.
    pub firmware: DeviceFirmware,
    /// Duration of the last reading of all ports of the agent; `None` before the first reading.
    pub took: Option<Duration>,
    /// Number of the port at index 0.
    pub(super) first: PortNum,
    /// Readings by index of the port, including ports that were never read.
    pub(super) ports: Box<[PortReading]>,
}

impl AgentCounters {
    /// The ports that were read, ascending.
    pub fn ports(&self) -> impl Iterator<Item = (PortKey, &PortReading)> {
        let numbers = (self.first.0..=u8::MAX).map(PortNum);
        let ports = numbers.zip(&self.ports);
        let read = ports.filter(|(_, reading)| reading.at().is_some());
        read.map(|(port, reading)| (PortKey::new(self.key.node, port), reading))
    }

    /// The reading of a port; `None` if it was not read.
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
    /// Key of the port.
    pub key: PortKey,
    /// Agent of the port.
    pub agent: &'a AgentCounters,
    /// Counters of the port.
    pub reading: &'a PortReading,
}

/// Number of intervals without a reading after which a port's last reading is stale, so that two
/// readings in succession may fail.
const INTERVALS_UNTIL_STALE: u32 = 3;

/// Intervals between two readings, by kind of port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Intervals {
    switch_ports: Duration,
    adapters: Duration,
}

impl Intervals {
    pub(super) fn of(config: &CountersConfig) -> Intervals {
        Intervals {
            switch_ports: config.ports_interval,
            adapters: config.adapters_interval,
        }
    }
}

/// The last readings of all agents at one moment. Clones cost three pointers.
#[derive(Clone, Debug)]
pub struct CountersSnapshot {
    /// Time of the snapshot.
    pub at: Time,
    /// Whether counters are being read: rsm is master, and `counters.enabled` is set. If false, the
    /// readings are from the time when both conditions held.
    pub is_collecting: bool,
    /// Statistics of the collector.
    pub stats: CollectorStats,
    pub(super) intervals: Intervals,
    /// Agents by ascending key.
    pub(super) agents: Arc<[Arc<AgentCounters>]>,
}

impl Default for CountersSnapshot {
    fn default() -> CountersSnapshot {
        CountersSnapshot {
            at: Time::ZERO,
            is_collecting: false,
            stats: CollectorStats::default(),
            intervals: Intervals::of(&CountersConfig::default()),
            agents: Arc::from([]),
        }
    }
}

impl CountersSnapshot {
    /// Whether the reading of a port is stale at `now`: the port was not read for three times the
    /// interval of its kind, so its counters may have moved.
    pub fn is_stale(&self, port: &PortCounters<'_>, now: Time) -> bool {
        let interval = match port.agent.is_switch {
            true => self.intervals.switch_ports,
            false => self.intervals.adapters,
        };
        port.reading
            .at()
            .is_none_or(|at| now.since(at) > interval * INTERVALS_UNTIL_STALE)
    }

    /// All agents by ascending key.
    pub fn agents(&self) -> impl Iterator<Item = &AgentCounters> {
        self.agents.iter().map(|agent| &**agent)
    }

    /// The agents of a node by ascending port; a switch has one agent.
    pub fn of_node(&self, node: Guid) -> impl Iterator<Item = &AgentCounters> {
        let start = self.agents.partition_point(|agent| agent.key.node < node);
        let agents = self.agents[start..].iter();
        agents
            .take_while(move |agent| agent.key.node == node)
            .map(|agent| &**agent)
    }

    /// The counters of a port; `None` if it was not read.
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

    /// The ports that were read, in the order of nodes and ports, after the port `after`; all ports
    /// if `after` is `None`.
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
