//! Counters of a port that moved since a time.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::wire::perf::Counter;
use rsm_monitor::counters::CountersSnapshot;
use rsm_past::{MovedErrors, PastReader, Quantity, Span, Wanted};

/// Minimum time to which errors are attributed, so that one error gives no high rate.
const SHORTEST_SPAN: Duration = Duration::from_secs(300);

/// An error counter that moved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::publish) struct Moved {
    pub(in crate::publish) counter: Counter,
    /// Number of errors.
    pub(in crate::publish) count: u64,
    /// Mean rate in errors per hour over the time from the first error to the last, or over the
    /// period in which the errors were counted; a time below five minutes counts as five minutes.
    pub(in crate::publish) per_hour: f64,
    /// Time of the first error, or start of the period in which the errors were counted, in
    /// milliseconds since the Unix epoch.
    pub(in crate::publish) from_unix_ms: u64,
    /// Whether all of the errors were certainly counted after the requested time: a reading that
    /// shows errors also covers the time since the reading before it.
    pub(in crate::publish) is_new: bool,
}

/// Counters of a port that moved since a time.
#[derive(Clone, PartialEq, Default, Debug)]
pub(in crate::publish) struct PortMoves {
    /// Error counters that moved. An entry may include errors from before the requested time.
    pub(in crate::publish) errors: Vec<Moved>,
    /// Share of time in which data waited to be sent, 0 to 1; `None` if it is unknown.
    pub(in crate::publish) wait_share: Option<f64>,
    /// Traffic of the busier direction as a share of the link's rate; `None` if it is unknown.
    pub(in crate::publish) use_share: Option<f64>,
    /// Bytes per second in both directions together; `None` if they are unknown.
    pub(in crate::publish) bytes_per_s: Option<f64>,
}

/// Source of the counters that moved on ports.
pub(in crate::publish) trait Past: Send + Sync {
    /// Counters of a port that moved at or after a time, in milliseconds since the Unix epoch;
    /// `None` if the port has no current reading.
    fn moves(&self, port: PortKey, since_unix_ms: u64) -> Option<PortMoves>;
}

/// Errors on the disk since a time.
#[derive(Default)]
pub(super) struct StoredErrors {
    /// Errors of the ports that counted any.
    errors: BTreeMap<PortKey, Vec<(Counter, MovedErrors)>>,
    /// Time since which counters are stored, in milliseconds since the Unix epoch; `None` if the
    /// past cannot be read.
    pub(super) from_unix_ms: Option<u64>,
}

impl StoredErrors {
    /// Reads the errors of all ports in the time between two times, both in milliseconds since the
    /// Unix epoch. Without a readable past, logs a warning and has no errors.
    pub(super) fn read(
        past: Option<PastReader>,
        since_unix_ms: u64,
        now_unix_ms: u64,
    ) -> StoredErrors {
        let Some(past) = past else {
            return StoredErrors::default();
        };
        let span = Span {
            since_unix_ms,
            until_unix_ms: now_unix_ms.saturating_add(1),
        };
        let moved = match past.moved(None, span, Wanted::Errors) {
            Ok(moved) => moved,
            Err(error) => {
                tracing::warn!(%error, "the past of the counters counts for nothing");
                return StoredErrors::default();
            }
        };
        let errors = moved.into_iter().map(|port| {
            let errors = port.errors.into_iter();
            let errors = errors.filter_map(|(quantity, errors)| Some((counter(quantity)?, errors)));
            (port.port, errors.collect())
        });
        StoredErrors {
            errors: errors.collect(),
            from_unix_ms: past.began_unix_ms(),
        }
    }
}

/// The errors of a counter on the disk: those that are certainly new, or all errors if none is.
fn stored(counter: Counter, errors: MovedErrors) -> Moved {
    let ms = errors.last_unix_ms.saturating_sub(errors.first_unix_ms);
    let span = Duration::from_millis(ms).max(SHORTEST_SPAN);
    let is_new = errors.count_in_span > 0;
    let count = match is_new {
        true => errors.count_in_span,
        false => errors.count,
    };
    Moved {
        counter,
        count,
        per_hour: count as f64 * 3600.0 / span.as_secs_f64(),
        from_unix_ms: errors.first_unix_ms,
        is_new,
    }
}

/// The counter of performance management for a counter of the past; `None` if there is none.
fn counter(quantity: Quantity) -> Option<Counter> {
    let named = |counter: &Counter| counter.name() == quantity.name();
    Counter::ALL.into_iter().find(named)
}

/// The last readings, which have the errors of ten to twenty minutes, and the errors on the disk.
pub(super) struct Readings {
    pub(super) stored: StoredErrors,
    pub(super) counters: CountersSnapshot,
    pub(super) now: Time,
    /// Unix time of [`Time::ZERO`], in milliseconds.
    pub(super) began_unix_ms: u64,
}

impl Readings {
    fn unix_ms(&self, at: Time) -> u64 {
        self.began_unix_ms + at.as_nanos() / 1_000_000
    }

    fn time(&self, unix_ms: u64) -> Time {
        let ms = unix_ms.saturating_sub(self.began_unix_ms);
        Time::from_nanos(ms.saturating_mul(1_000_000))
    }
}

impl Past for Readings {
    fn moves(&self, key: PortKey, since_unix_ms: u64) -> Option<PortMoves> {
        let port = self.counters.port(key)?;
        if self.counters.is_stale(&port, self.now) {
            return None;
        }
        let reading = port.reading;
        let rates = reading.rates();
        let recent = reading.errors_since(self.time(since_unix_ms));
        let errors = recent.into_iter().flat_map(|recent| {
            let read = reading.at().unwrap_or(self.now);
            let hours = read.since(recent.from).max(SHORTEST_SPAN).as_secs_f64() / 3600.0;
            let moved = Counter::ALL.map(|counter| (counter, recent.count(counter)));
            let moved = moved.into_iter().filter(|&(_, count)| count > 0);
            let from_unix_ms = self.unix_ms(recent.from);
            moved.map(move |(counter, count)| Moved {
                counter,
                count,
                per_hour: count as f64 / hours,
                from_unix_ms,
                is_new: from_unix_ms >= since_unix_ms,
            })
        });
        // The errors on the disk reach further back; the last readings also cover the current step.
        let mut errors: Vec<Moved> = errors.collect();
        for &(counter, on_disk) in self.stored.errors.get(&key).into_iter().flatten() {
            let stored = stored(counter, on_disk);
            match errors
                .iter_mut()
                .find(|moved| moved.counter == stored.counter)
            {
                Some(moved) if (moved.is_new, moved.count) >= (stored.is_new, stored.count) => {}
                Some(moved) => *moved = stored,
                None => errors.push(stored),
            }
        }
        Some(PortMoves {
            errors,
            wait_share: rates.and_then(|rates| rates.wait_share).map(f64::from),
            use_share: reading.use_share().map(f64::from),
            bytes_per_s: rates
                .map(|rates| f64::from(rates.xmit_bytes) + f64::from(rates.rcv_bytes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_on_the_disk_are_new_only_as_far_as_their_steps_are_in_the_time() {
        let errors = |count_in_span| MovedErrors {
            count: 9000,
            count_in_span,
            first_unix_ms: 0,
            last_unix_ms: 60_000,
        };
        let discards = |count_in_span| {
            let moved = stored(Counter::XmitDiscards, errors(count_in_span));
            (moved.is_new, moved.count, moved.per_hour)
        };
        assert_eq!(discards(0), (false, 9000, 108_000.0));
        assert_eq!(discards(3), (true, 3, 36.0));
        assert_eq!(discards(9000), (true, 9000, 108_000.0));
    }
}
