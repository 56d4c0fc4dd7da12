//! Adds up the readings of the current step of a tier.

use std::collections::BTreeMap;

use rsm_ids::PortKey;

use crate::quantity::{Counts, Quantity};
use crate::tier::Tier;

/// Counts of a port between two readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The port.
    pub port: PortKey,
    /// Whether the port's node is a switch.
    pub is_switch: bool,
    /// Time of the previous reading, in milliseconds since the Unix epoch; `None` if the traffic
    /// since then is unknown. In that case the traffic counts are left out, and errors are kept.
    pub since_unix_ms: Option<u64>,
    /// Time of the reading, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// Everything counted between the two readings.
    pub counts: Counts,
}

/// Sums over the ports of switches, or over all other ports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ClassSum {
    /// Number of ports that were read.
    pub(crate) ports: u32,
    /// Sum, over the ports, of the seconds between their readings.
    pub(crate) seconds: u64,
    /// Maximum, over the ports, of the seconds between the port's readings.
    pub(crate) max_interval: u32,
    /// Sums of the counts of the ports.
    pub(crate) counts: Counts,
}

/// Traffic counts of a port, by quantity.
pub(crate) type Traffic = [u64; Quantity::TRAFFIC];

/// The current step of a tier, which is not written yet.
#[derive(Debug)]
pub(crate) struct StepAccumulator {
    /// The tier.
    pub(crate) tier: Tier,
    /// Start of the step in milliseconds since the Unix epoch.
    pub(crate) start: u64,
    /// Time of the earliest reading, in the same unit; [`u64::MAX`] before the first reading.
    pub(crate) from: u64,
    /// Time of the latest reading, in the same unit; 0 before the first reading.
    pub(crate) until: u64,
    /// Seconds for which the readings of each port count traffic, by the port's number in the port
    /// table; 0 for a port without traffic counts.
    pub(crate) seconds: Vec<u32>,
    /// Traffic of each port, by the port's number in the port table.
    pub(crate) traffic: Vec<Traffic>,
    /// Number of errors by port number and kind.
    pub(crate) errors: BTreeMap<(u32, Quantity), u64>,
    /// Sums over ports of switches, and over all other ports.
    pub(crate) sums: [ClassSum; 2],
}

impl StepAccumulator {
    /// Creates an accumulator without readings.
    pub(crate) fn new(tier: Tier) -> StepAccumulator {
        StepAccumulator {
            tier,
            start: 0,
            from: u64::MAX,
            until: 0,
            seconds: Vec::new(),
            traffic: Vec::new(),
            errors: BTreeMap::new(),
            sums: Default::default(),
        }
    }

    /// Whether no reading was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.from > self.until
    }

    /// Whether a reading at this time belongs to a later step.
    pub(crate) fn is_over(&self, at_unix_ms: u64) -> bool {
        !self.is_empty() && self.tier.start_of(at_unix_ms) != self.start
    }

    /// Adds a reading of the port with this number.
    pub(crate) fn add(&mut self, number: usize, reading: &Reading) {
        let at = reading.at_unix_ms;
        if self.is_empty() {
            self.start = self.tier.start_of(at);
        }
        (self.from, self.until) = (self.from.min(at), self.until.max(at));
        if self.seconds.len() <= number {
            self.seconds.resize(number + 1, 0);
            self.traffic.resize(number + 1, Traffic::default());
        }
        let sum = &mut self.sums[usize::from(!reading.is_switch)];
        if let Some(since) = reading.since_unix_ms {
            // Times are rounded to whole seconds before they are subtracted, so that the seconds of
            // successive readings add up to the whole time.
            let seconds = (at / 1000).saturating_sub(since / 1000).max(1);
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            let of_port = &mut self.seconds[number];
            sum.ports += u32::from(*of_port == 0);
            sum.seconds += u64::from(seconds);
            *of_port = of_port.saturating_add(seconds);
            sum.max_interval = sum.max_interval.max(*of_port);
        }
        for quantity in Quantity::ALL {
            let count = reading.counts[quantity];
            if count == 0 || quantity.is_traffic() && reading.since_unix_ms.is_none() {
                continue;
            }
            let total = match quantity.is_traffic() {
                true => &mut self.traffic[number][quantity as usize],
                false => self.errors.entry((number as u32, quantity)).or_default(),
            };
            *total = total.saturating_add(count);
            sum.counts[quantity] = sum.counts[quantity].saturating_add(count);
        }
    }

    /// Removes all readings, but keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.seconds.clear();
        self.traffic.clear();
        self.errors.clear();
        (self.from, self.until, self.sums) = (u64::MAX, 0, Default::default());
    }
}
