//! Evidence of damaged links: symptoms and their rates, from performance counters.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_config::{Symptom, SymptomLimits};
use rsm_ids::PortKey;
use rsm_mad::Time;

use crate::counters::{CountersSnapshot, PortReading, SHORTEST_SPAN};

/// Maximum number of ports with evidence; the ports furthest above their limits are kept. If even
/// more links seem damaged, the cause is not in the links.
pub const MAX_PORTS: usize = 4096;

/// The errors of a port by symptom, without [`Symptom::Reports`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PortErrors {
    /// Errors per hour by [`Symptom`], computed over at least five minutes.
    pub per_hour: [f64; Symptom::ALL.len()],
    /// Time over which the errors were counted; zero if it is not known.
    pub observed: Duration,
    /// Sum of the error counters of all symptoms, which grows while errors occur.
    pub total: u64,
}

impl PortErrors {
    /// The errors in a reading; `None` if no error was counted since the first reading.
    fn of(reading: &PortReading) -> Option<PortErrors> {
        let rates = reading.errors()?;
        let counters = Symptom::ALL.map(Symptom::counter);
        let per_hour = counters.map(|one| one.map_or(0.0, |one| rates.cautious(one)));
        let totals = counters.iter().flatten();
        let totals = totals.filter_map(|&counter| reading.total(counter));
        Some(PortErrors {
            per_hour,
            observed: rates.observed(),
            total: totals.fold(0, u64::saturating_add),
        })
    }

    /// The errors of a symptom in words: their number and the time of observation if that time is
    /// shorter than the five minutes of [`PortErrors::per_hour`], otherwise their rate.
    pub(super) fn in_words(&self, symptom: Symptom) -> String {
        let (rate, name) = (self.per_hour[symptom as usize], symptom.name());
        let seconds = self.observed.as_secs();
        match seconds > 0 && self.observed < SHORTEST_SPAN {
            true => {
                let number = rate * SHORTEST_SPAN.as_secs_f64() / 3600.0;
                format!("{number:.0} {name} in {seconds} s")
            }
            false => format!("{name} at a rate of {rate:.0} an hour"),
        }
    }

    /// Largest ratio of a rate to the limit of its symptom: 1 at the limit, 0 without limits.
    pub fn excess(&self, limits: &SymptomLimits) -> f64 {
        let excess = Symptom::ALL.into_iter().filter_map(|symptom| {
            let limit = limits.of(symptom)?;
            Some(self.per_hour[symptom as usize] / f64::from(limit))
        });
        excess.fold(0.0, f64::max)
    }
}

/// The ports above a limit whose reading is not stale at `now`.
pub fn evidence(
    counters: &CountersSnapshot,
    limits: &SymptomLimits,
    now: Time,
) -> BTreeMap<PortKey, PortErrors> {
    let mut above: Vec<(PortKey, PortErrors)> = Vec::new();
    for port in counters.ports(None) {
        let errors = PortErrors::of(port.reading);
        let errors = errors.filter(|errors| errors.excess(limits) >= 1.0);
        if let Some(errors) = errors.filter(|_| !counters.is_stale(&port, now)) {
            above.push((port.key, errors));
        }
    }
    if above.len() > MAX_PORTS {
        above.sort_by(|(_, a), (_, b)| b.excess(limits).total_cmp(&a.excess(limits)));
        above.truncate(MAX_PORTS);
    }
    above.into_iter().collect()
}
