//! Counters of a port that moved since a time.

use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::wire::perf::Counter;
use rsm_monitor::counters::CountersSnapshot;

/// Shortest time to which errors are attributed, so that one error gives no high rate.
const SHORTEST_SPAN: Duration = Duration::from_secs(300);

/// An error counter that moved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::publish) struct Moved {
    pub(in crate::publish) counter: Counter,
    /// Number of errors.
    pub(in crate::publish) count: u64,
    /// Highest rate in the time: errors an hour, over five minutes or more.
    pub(in crate::publish) per_hour: f64,
    /// Time of the first of the errors, or of the beginning of the time that they are counted in,
    /// in milliseconds since the Unix epoch.
    pub(in crate::publish) from_unix_ms: u64,
}

/// Counters of a port that moved since a time.
#[derive(Clone, PartialEq, Default, Debug)]
pub(in crate::publish) struct PortMoves {
    /// Error counters that moved. An entry that begins before the asked time may hold errors from
    /// before it.
    pub(in crate::publish) errors: Vec<Moved>,
    /// Share of the time in which data waited to be sent, 0 to 1; `None` if it is not known.
    pub(in crate::publish) wait_share: Option<f64>,
    /// Busier direction as a share of the rate of the link; `None` if it is not known.
    pub(in crate::publish) use_share: Option<f64>,
    /// Bytes a second in both directions together; `None` if they are not known.
    pub(in crate::publish) bytes_per_s: Option<f64>,
}

/// Knows what moved on ports.
pub(in crate::publish) trait Past: Send + Sync {
    /// Counters of a port that moved at or after a time, in milliseconds since the Unix epoch;
    /// `None` if the port is not read.
    fn moves(&self, port: PortKey, since_unix_ms: u64) -> Option<PortMoves>;
}

/// The last readings, whose errors reach back ten to twenty minutes.
pub(super) struct Readings {
    pub(super) counters: CountersSnapshot,
    pub(super) now: Time,
    /// The time of [`Time::ZERO`], in milliseconds since the Unix epoch.
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
    fn moves(&self, port: PortKey, since_unix_ms: u64) -> Option<PortMoves> {
        let port = self.counters.port(port)?;
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
            })
        });
        Some(PortMoves {
            errors: errors.collect(),
            wait_share: rates.and_then(|rates| rates.wait_share).map(f64::from),
            use_share: reading.use_share().map(f64::from),
            bytes_per_s: rates
                .map(|rates| f64::from(rates.xmit_bytes) + f64::from(rates.rcv_bytes)),
        })
    }
}
