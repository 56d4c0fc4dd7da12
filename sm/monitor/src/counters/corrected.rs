//! Forward error correction of one port: the counters at the last reading, and how much they moved.

use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;

use super::causes::Corrections;

/// Time between two readings of a port. An hour is short enough, because trends last for days. A
/// shorter time would cost too much: reading these counters of 270,000 ports takes as many requests
/// as reading all other counters of the ports.
const READING_INTERVAL: Duration = Duration::from_secs(3600);

/// Lowest share of the correctable symbol rate at which a port is watched. A port below this share
/// loses no packets within weeks.
const MIN_WATCHED_SHARE: f64 = 1e-5;

/// Counters of forward error correction of a port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Corrected {
    /// Counters at the last reading.
    pub counters: Corrections,
    /// Time of the last reading.
    pub at: Time,
    /// Differences between the last two readings. `None` after the first reading, after a reset,
    /// and if the counter of symbols was already at its maximum at the previous reading.
    pub moved: Option<MovedCorrections>,
    /// Symbols per second that the link can correct; zero if that is unknown.
    pub mendable_per_s: f32,
}

/// Differences between two readings of the counters of forward error correction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovedCorrections {
    /// Number of corrected symbols, the errors of the link before correction; a lower bound if the
    /// counter has reached its maximum.
    pub symbols: u64,
    /// Number of blocks that could not be corrected, the errors of the link after correction.
    pub lost_blocks: u64,
    /// Time between the readings.
    pub over: Duration,
}

impl Corrected {
    /// The state after a reading at the time `at`. `before` is the state after the previous
    /// reading; `None` for the first reading.
    pub(super) fn after_reading(
        before: Option<&Corrected>,
        counters: Corrections,
        mendable_per_s: f32,
        at: Time,
    ) -> Corrected {
        let moved = before.and_then(|before| {
            let earlier = &before.counters;
            let symbols = counters
                .corrected_symbols
                .checked_sub(earlier.corrected_symbols)?;
            let lost = counters
                .uncorrectable_blocks
                .checked_sub(earlier.uncorrectable_blocks)?;
            let was_full = earlier.corrected_symbols == u32::MAX;
            let over = at.since(before.at);
            (!was_full && !over.is_zero()).then_some(MovedCorrections {
                symbols: symbols.into(),
                lost_blocks: lost.into(),
                over,
            })
        });
        Corrected {
            counters,
            at,
            moved,
            mendable_per_s,
        }
    }

    /// Symbols corrected per second between the last two readings; `None` if `moved` is `None`.
    pub fn symbols_per_s(&self) -> Option<f64> {
        let moved = self.moved?;
        Some(moved.symbols as f64 / moved.over.as_secs_f64())
    }

    /// Corrected symbols as a share of the rate that the code can correct; `None` if either rate is
    /// unknown.
    pub fn share(&self) -> Option<f64> {
        let mendable = f64::from(self.mendable_per_s);
        (mendable > 0.0).then_some(self.symbols_per_s()? / mendable)
    }

    /// Whether the counter of symbols is at its maximum, and counts no further until another
    /// program resets it.
    pub fn is_full(&self) -> bool {
        self.counters.corrected_symbols == u32::MAX
    }

    /// Whether the port corrects so many symbols that its past is worth keeping.
    pub fn is_watched(&self) -> bool {
        self.share().is_some_and(|share| share >= MIN_WATCHED_SHARE)
    }

    /// Whether a port that was last read at `last` (`None` if never) is due again. Each port has a
    /// phase of its own, so that the readings of all ports are spread evenly over the hour.
    pub(super) fn is_due(port: PortKey, last: Option<Time>, now: Time) -> bool {
        let every = READING_INTERVAL.as_nanos() as u64;
        let seed = (port.node.0 ^ u64::from(port.port.0) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let phase = (seed >> 20) % every;
        let turn = |at: Time| at.as_nanos().saturating_add(phase) / every;
        last.is_none_or(|last| turn(last) < turn(now))
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn read(before: Option<&Corrected>, symbols: u32, lost: u32, seconds: u64) -> Corrected {
        let counters = Corrections {
            corrected_symbols: symbols,
            uncorrectable_blocks: lost,
            ..Corrections::default()
        };
        Corrected::after_reading(before, counters, 1e8, at(seconds))
    }

    #[test]
    fn rate_is_known_after_two_readings_unless_the_counter_was_at_its_end() {
        let first = read(None, 1000, 3, 0);
        assert_eq!(first.symbols_per_s(), None);
        let second = read(Some(&first), 361_000, 5, 3600);
        assert_eq!(second.symbols_per_s(), Some(100.0));
        assert_eq!(second.moved.unwrap().lost_blocks, 2);
        assert!(second.share().unwrap() > 0.99e-6 && !second.is_watched());
        let full = read(Some(&second), u32::MAX, 5, 7200);
        assert!(full.is_full() && full.is_watched(), "at least so many");
        assert_eq!(read(Some(&full), u32::MAX, 5, 10_800).share(), None);
    }

    #[test]
    fn counter_that_decreases_has_no_rate_until_the_next_reading() {
        let first = read(None, 5000, 0, 0);
        let reset = read(Some(&first), 10, 0, 3600);
        assert_eq!(reset.moved, None);
        assert!(read(Some(&reset), 20, 0, 7200).moved.is_some());
    }

    #[test]
    fn each_port_is_due_once_an_hour_and_the_turns_are_spread_evenly() {
        let mut in_minute = [0; 60];
        for node in 0..600 {
            let port = PortKey::new(Guid(0x2C9_0300_0000 + node), PortNum(1));
            assert!(Corrected::is_due(port, None, at(0)));
            let mut last = Time::ZERO;
            let mut turns = 0;
            for minute in 1..=180 {
                if Corrected::is_due(port, Some(last), at(minute * 60)) {
                    last = at(minute * 60);
                    turns += 1;
                    in_minute[minute as usize % 60] += 1;
                }
            }
            assert_eq!(turns, 3);
        }
        assert!(in_minute.iter().all(|&ports| ports < 90), "{in_minute:?}");
    }
}
