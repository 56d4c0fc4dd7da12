use std::time::Duration;

use rsm_proto::v1;

use crate::model::{Convergence, SmpCounts, Timing};

/// Milliseconds to the microsecond: more digits would be noise to whoever reads them.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

impl From<Timing> for v1::Timing {
    fn from(timing: Timing) -> Self {
        v1::Timing {
            discover: milliseconds(timing.discover),
            plan: milliseconds(timing.plan),
            push: milliseconds(timing.push),
            total: milliseconds(timing.total),
        }
    }
}

impl From<SmpCounts> for v1::SmpCounts {
    fn from(smps: SmpCounts) -> Self {
        v1::SmpCounts {
            get: smps.get,
            set: smps.set,
            retries: smps.retries,
            timeouts: smps.timeouts,
        }
    }
}

impl From<Convergence> for v1::Convergence {
    fn from(convergence: Convergence) -> Self {
        v1::Convergence {
            sequence: convergence.sequence,
            generation: convergence.generation,
            cause: convergence.cause,
            finished_unix_ms: convergence.finished_unix_ms,
            timing_ms: Some(convergence.timing.into()),
            smps: Some(convergence.smps.into()),
            lft_blocks: convergence.lft_blocks,
            ports_activated: convergence.ports_activated,
            complete: convergence.complete,
            mft_blocks: convergence.mft_blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_to_the_microsecond() {
        assert_eq!(milliseconds(Duration::from_nanos(1_234_567)), 1.235);
        assert_eq!(milliseconds(Duration::from_secs(2)), 2000.0);
        assert_eq!(milliseconds(Duration::ZERO), 0.0);
    }
}
