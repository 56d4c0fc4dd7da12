//! Computes the counts of ports between two snapshots of the collector.

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::wire::perf::Counter;
use rsm_monitor::counters::{AgentCounters, CountersSnapshot, PortReading};
use rsm_past::{Counts, Quantity, Reading};

/// Compares snapshots of the collector. The collector's totals continue when a counter of a port is
/// reset or wraps. A port whose totals began at zero again between the snapshots, because the
/// port's node had left, gives no reading.
pub(super) struct Differ {
    /// Counters of the collector that the past records, each with its quantity there.
    counters: Vec<(Quantity, Counter)>,
    readings: Vec<Reading>,
}

impl Default for Differ {
    fn default() -> Differ {
        let named = |counter: Counter| Some((Quantity::named(counter.name())?, counter));
        Differ {
            counters: Counter::ALL.into_iter().filter_map(named).collect(),
            readings: Vec::new(),
        }
    }
}

impl Differ {
    /// Readings of the ports that the collector has read between two snapshots. `unix_ms` converts
    /// the daemon's time to milliseconds since the Unix epoch.
    pub(super) fn between(
        &mut self,
        before: &CountersSnapshot,
        now: &CountersSnapshot,
        unix_ms: impl Fn(Time) -> u64,
    ) -> &mut [Reading] {
        self.readings.clear();
        let mut earlier = before.agents().peekable();
        for agent in now.agents() {
            while earlier.next_if(|one| one.key < agent.key).is_some() {}
            let matching = earlier.next_if(|one| one.key == agent.key);
            // Unchanged agents share their memory between snapshots.
            if let Some(before) = matching.filter(|before| !std::ptr::eq(*before, agent)) {
                self.add(before, agent, &unix_ms);
            }
        }
        &mut self.readings
    }

    /// Adds the readings of one agent's ports.
    fn add(&mut self, before: &AgentCounters, now: &AgentCounters, unix_ms: &impl Fn(Time) -> u64) {
        for (port, reading) in now.ports() {
            let earlier = before.port(port.port);
            let has_new_reading = |earlier: &&PortReading| {
                earlier.at() != reading.at() || corrected_at(earlier) != corrected_at(reading)
            };
            let earlier = earlier.filter(has_new_reading);
            let read = earlier.and_then(|earlier| self.reading(port, earlier, reading, unix_ms));
            self.readings.extend(read.map(|read| Reading {
                is_switch: now.is_switch,
                ..read
            }));
        }
    }

    /// The counts of a port between two readings; `None` if a total began at zero again.
    fn reading(
        &self,
        port: PortKey,
        before: &PortReading,
        now: &PortReading,
        unix_ms: &impl Fn(Time) -> u64,
    ) -> Option<Reading> {
        let mut counts = Counts::default();
        for &(quantity, counter) in &self.counters {
            if let (Some(before), Some(now)) = (before.total(counter), now.total(counter)) {
                counts[quantity] = now.checked_sub(before)?;
            }
        }
        let corrected = now.corrected();
        if let Some(corrected) = corrected.filter(|one| Some(one.at) != corrected_at(before))
            && let Some(moved) = corrected.moved
        {
            // Every link corrects symbols, and the readings of all links would fill the disk.
            if corrected.is_watched() {
                counts[Quantity::FecCorrectedSymbols] = moved.symbols;
            }
            counts[Quantity::FecUncorrectableBlocks] = moved.lost_blocks;
        }
        let has_traffic = now.rates().is_some() && before.at() != now.at();
        let since = before.at().filter(|_| has_traffic);
        Some(Reading {
            port,
            is_switch: false,
            since_unix_ms: since.map(unix_ms),
            at_unix_ms: unix_ms(now.at()?),
            counts,
        })
    }
}

/// Time at which counters of error correction were read.
fn corrected_at(reading: &PortReading) -> Option<Time> {
    reading.corrected().map(|corrected| corrected.at)
}
