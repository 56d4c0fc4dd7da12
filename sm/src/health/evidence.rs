//! Evidence of damaged links: symptoms, and their rates from performance counters.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::wire::perf::Counter;

use super::policy::Limits;
use crate::counters::{CountersSnapshot, PortReading};

/// Most ports with evidence at a time, those furthest over their limits: where more links are
/// damaged, the fault is not in the links.
pub const MAX_PORTS: usize = 4096;

/// A sign of a damaged link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Symptom {
    /// SymbolErrorCounter.
    SymbolErrors,
    /// LinkErrorRecoveryCounter.
    LinkRecoveries,
    /// LinkDownedCounter.
    LinkDowns,
    /// PortRcvErrors.
    ReceiveErrors,
    /// LocalLinkIntegrityErrors.
    IntegrityErrors,
    /// ExcessiveBufferOverrunErrors.
    Overruns,
    /// Reports of the port itself: traps 129 to 131 (IBA 14.2.5.1).
    Reports,
}

impl Symptom {
    /// All symptoms.
    pub const ALL: [Symptom; 7] = [
        Symptom::SymbolErrors,
        Symptom::LinkRecoveries,
        Symptom::LinkDowns,
        Symptom::ReceiveErrors,
        Symptom::IntegrityErrors,
        Symptom::Overruns,
        Symptom::Reports,
    ];

    /// The counter that counts it.
    pub const fn counter(self) -> Option<Counter> {
        match self {
            Symptom::SymbolErrors => Some(Counter::SymbolError),
            Symptom::LinkRecoveries => Some(Counter::LinkErrorRecovery),
            Symptom::LinkDowns => Some(Counter::LinkDowned),
            Symptom::ReceiveErrors => Some(Counter::RcvErrors),
            Symptom::IntegrityErrors => Some(Counter::LocalLinkIntegrityErrors),
            Symptom::Overruns => Some(Counter::ExcessiveBufferOverrunErrors),
            Symptom::Reports => None,
        }
    }

    /// The limit in an hour without a configuration. A link at the bit error ratio that IBA permits
    /// (10^-12, IBA 5.10) has 120 symbol errors in an hour; the others take a few within minutes.
    pub const fn usual_limit(self) -> u32 {
        match self {
            Symptom::SymbolErrors => 120,
            Symptom::ReceiveErrors => 60,
            Symptom::LinkRecoveries
            | Symptom::LinkDowns
            | Symptom::IntegrityErrors
            | Symptom::Overruns => 30,
            Symptom::Reports => 10,
        }
    }

    /// In words, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Symptom::SymbolErrors => "symbol errors",
            Symptom::LinkRecoveries => "link recoveries",
            Symptom::LinkDowns => "link downs",
            Symptom::ReceiveErrors => "receive errors",
            Symptom::IntegrityErrors => "link integrity errors",
            Symptom::Overruns => "buffer overruns",
            Symptom::Reports => {
                "reports of link integrity, buffer overrun or flow control errors (traps 129 to 131)"
            }
        }
    }
}

/// The errors of a port by symptom, those of [`Symptom::Reports`] left out.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PortErrors {
    /// Errors in an hour.
    pub per_hour: [f64; Symptom::ALL.len()],
    /// Errors of all symptoms so far: more than before means that errors go on.
    pub total: u64,
}

impl PortErrors {
    /// The errors of a reading.
    fn of(reading: &PortReading) -> Option<PortErrors> {
        let rates = reading.errors()?;
        let counters = Symptom::ALL.map(Symptom::counter);
        let per_hour = counters.map(|one| one.map_or(0.0, |one| rates.per_hour(one)));
        let totals = counters.iter().flatten();
        let totals = totals.filter_map(|&counter| reading.total(counter));
        Some(PortErrors {
            per_hour,
            total: totals.fold(0, u64::saturating_add),
        })
    }

    /// How far the worst symptom is over its limit: 1 at the limit, below it less.
    pub fn excess(&self, limits: &Limits) -> f64 {
        let excess = Symptom::ALL.into_iter().filter_map(|symptom| {
            let limit = limits.of(symptom)?;
            Some(self.per_hour[symptom as usize] / f64::from(limit))
        });
        excess.fold(0.0, f64::max)
    }
}

/// The ports over a limit, of those with a reading that is not stale at `now`.
pub fn evidence(
    counters: &CountersSnapshot,
    limits: &Limits,
    now: Time,
) -> BTreeMap<PortKey, PortErrors> {
    let mut over: Vec<(PortKey, PortErrors)> = Vec::new();
    for port in counters.ports(None) {
        let errors = PortErrors::of(port.reading);
        let errors = errors.filter(|errors| errors.excess(limits) >= 1.0);
        if let Some(errors) = errors.filter(|_| !counters.is_stale(&port, now)) {
            over.push((port.key, errors));
        }
    }
    if over.len() > MAX_PORTS {
        over.sort_by(|(_, a), (_, b)| b.excess(limits).total_cmp(&a.excess(limits)));
        over.truncate(MAX_PORTS);
    }
    over.into_iter().collect()
}
