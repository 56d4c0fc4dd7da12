use std::time::Duration;

use super::ClientConfig;

/// The smoothed round trip and its variation, as in TCP (RFC 6298), of one slow target or of all
/// other targets.
///
/// Targets differ in distance and speed. The differences are part of the variation, and therefore
/// of the timeout.
#[derive(Debug)]
pub(super) struct RoundTrip {
    /// The smoothed round trip in nanoseconds; `None` before the first answer.
    smoothed: Option<u64>,
    /// The variation of the round trip in nanoseconds.
    variation: u64,
    /// The timeout before the first answer, and its bounds; all in nanoseconds.
    initial_timeout: u64,
    floor: u64,
    ceiling: u64,
}

/// The duration in nanoseconds, at most [`u64::MAX`].
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl RoundTrip {
    pub(super) fn new(config: &ClientConfig) -> RoundTrip {
        RoundTrip {
            smoothed: None,
            variation: 0,
            initial_timeout: nanos(config.initial_timeout),
            floor: nanos(config.timeout_floor),
            ceiling: nanos(config.timeout_ceiling),
        }
    }

    /// Updates the estimates with the round trip of one answer.
    pub(super) fn sample(&mut self, round_trip: Duration) {
        let sample = nanos(round_trip);
        match &mut self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                let deviation = smoothed.abs_diff(sample);
                self.variation = self.variation - self.variation / 4 + deviation / 4;
                *smoothed = *smoothed - *smoothed / 8 + sample / 8;
            }
        }
    }

    /// The smoothed round trip in nanoseconds; `None` before the first answer.
    pub(super) fn smoothed(&self) -> Option<u64> {
        self.smoothed
    }

    /// The timeout of attempt number `attempt`, counted from 0. The timeout doubles with every
    /// attempt, up to the ceiling.
    pub(super) fn timeout(&self, attempt: u8) -> Duration {
        let first = match self.smoothed {
            None => self.initial_timeout,
            Some(smoothed) => smoothed.saturating_add(self.variation.saturating_mul(4)),
        };
        let doublings = u32::from(attempt).min(u64::BITS - 1);
        let backed_off = first.max(self.floor).saturating_mul(1 << doublings);
        Duration::from_nanos(backed_off.min(self.ceiling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator() -> RoundTrip {
        RoundTrip::new(&ClientConfig {
            initial_timeout: Duration::from_millis(100),
            timeout_floor: Duration::from_millis(20),
            timeout_ceiling: Duration::from_millis(1000),
            ..ClientConfig::default()
        })
    }

    #[test]
    fn the_timeout_doubles_up_to_its_ceiling() {
        let round_trip = estimator();
        let timeouts: Vec<u128> = [0, 1, 2, 3, 4, 63, 255]
            .map(|attempt| round_trip.timeout(attempt).as_millis())
            .to_vec();
        assert_eq!(timeouts, [100, 200, 400, 800, 1000, 1000, 1000]);
    }

    #[test]
    fn fast_answers_lower_the_timeout_to_its_floor_and_slow_answers_raise_it() {
        let mut round_trip = estimator();
        for _ in 0..100 {
            round_trip.sample(Duration::from_micros(50));
        }
        assert_eq!(round_trip.timeout(0), Duration::from_millis(20));
        for _ in 0..100 {
            round_trip.sample(Duration::from_millis(300));
        }
        let timeout = round_trip.timeout(0).as_millis();
        assert!((300..400).contains(&timeout), "{timeout}");
        round_trip.sample(Duration::MAX);
        assert_eq!(round_trip.timeout(0), Duration::from_millis(1000));
    }
}
