//! Pauses between the readings of switches that report repeatedly.
//!
//! A switch with a flapping link sends a trap for each change. The core must read all ports of the
//! switch after a report, because the trap does not say which link changed. Repeated reports
//! therefore cause one reading after a pause. The pause doubles while readings find no change.
//! While readings find changes, the pause is just long enough to keep all reporting switches
//! together within [`READINGS_PER_S`].

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;

/// Pause after a switch's first report.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// Shortest pause while readings find changes. Another fault at the same switch stays unread until
/// the pause ends.
const PAUSE_SHORTEST: Duration = Duration::from_millis(25);

/// Longest pause.
const PAUSE_LAST: Duration = Duration::from_secs(2);

/// Number of ports that may be read per second because of repeated reports. A switch with 64 ports
/// that is read at the shortest pause uses 2,560 of them.
const READINGS_PER_S: u32 = 20_000;

/// The switches that reported recently.
#[derive(Clone, Default, Debug)]
pub(super) struct TrapPauses {
    switches: BTreeMap<Guid, Reporter>,
}

/// A switch that reported.
#[derive(Clone, Copy, Debug)]
struct Reporter {
    /// Earliest time of the next reading.
    next: Time,
    /// Length of the pause that ends at `next`.
    pause: Duration,
    /// Number of ports that a reading of the switch asks for.
    ports: u32,
    /// Whether a reading has found a change since the pause began.
    has_changed: bool,
}

impl Reporter {
    /// Whether no report has come since the end of the pause, for twice the length of the pause.
    fn is_quiet(&self, now: Time) -> bool {
        now.since(self.next) > self.pause * 2
    }
}

impl TrapPauses {
    /// Checks whether a reading of the switch, which has this many ports, may begin now. If so, the
    /// next pause begins.
    ///
    /// # Errors
    ///
    /// The earliest time of the reading, if it may not begin now.
    pub(super) fn admit(&mut self, switch: Guid, ports: u32, now: Time) -> Result<(), Time> {
        let before = self.switches.get(&switch).copied();
        if let Some(before) = before
            && now < before.next
        {
            return Err(before.next);
        }
        let pause = match before.filter(|before| !before.is_quiet(now)) {
            None => PAUSE_FIRST,
            Some(before) if before.has_changed => self.share(switch, ports, now),
            Some(before) => (before.pause * 2).min(PAUSE_LAST),
        };
        let reporter = Reporter {
            next: now + pause,
            pause,
            ports,
            has_changed: false,
        };
        self.switches.insert(switch, reporter);
        Ok(())
    }

    /// Records that a reading found changes at this node.
    pub(super) fn record_change(&mut self, node: Guid) {
        if let Some(reporter) = self.switches.get_mut(&node) {
            reporter.has_changed = true;
        }
    }

    /// Pause of a switch that continues to change: long enough for all reporting switches together
    /// to stay within [`READINGS_PER_S`].
    fn share(&mut self, switch: Guid, ports: u32, now: Time) -> Duration {
        self.switches.retain(|_, reporter| !reporter.is_quiet(now));
        let others = self.switches.iter().filter(|&(&guid, _)| guid != switch);
        let all = others.fold(ports, |sum, (_, other)| sum.saturating_add(other.ports));
        let share = Duration::from_secs(1) * all / READINGS_PER_S;
        share.clamp(PAUSE_SHORTEST, PAUSE_LAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of readings of `switches` within a second, if all report every millisecond.
    /// `with_changes` says whether each reading finds a change.
    fn readings(switches: u64, ports: u32, with_changes: bool) -> usize {
        let mut pauses = TrapPauses::default();
        let mut readings = 0;
        for millisecond in 0..10_000 {
            let now = Time::ZERO + Duration::from_millis(millisecond);
            for switch in 0..switches {
                let is_read = pauses.admit(Guid(switch), ports, now).is_ok();
                // After nine seconds all pauses have reached their length.
                readings += usize::from(is_read && millisecond >= 9_000);
                if is_read && with_changes {
                    pauses.record_change(Guid(switch));
                }
            }
        }
        readings
    }

    #[test]
    fn a_few_switches_with_changes_are_read_at_the_shortest_pause() {
        assert_eq!(readings(1, 64, true), 40);
        assert_eq!(readings(5, 64, true), 5 * 40);
    }

    #[test]
    fn many_switches_with_changes_together_stay_within_the_reading_rate() {
        let ports = readings(100, 64, true) as u32 * 64;
        // One more reading of each switch may fall into the second.
        let most = READINGS_PER_S + 100 * 64;
        assert!((READINGS_PER_S / 2..=most).contains(&ports), "{ports}");
        let most = readings(1_000, 64, true);
        assert!(
            most <= 1_000,
            "{most}: none is read before the longest pause ends"
        );
    }

    #[test]
    fn without_changes_the_pause_grows_to_its_maximum() {
        assert!(readings(1, 64, false) <= 1);
    }

    #[test]
    fn a_switch_that_was_quiet_is_read_at_once() {
        let mut pauses = TrapPauses::default();
        let at = |milliseconds| Time::ZERO + Duration::from_millis(milliseconds);
        assert_eq!(pauses.admit(Guid(1), 64, at(0)), Ok(()));
        assert_eq!(pauses.admit(Guid(1), 64, at(10)), Err(at(50)));
        assert_eq!(pauses.admit(Guid(1), 64, at(50)), Ok(()));
        assert_eq!(pauses.admit(Guid(1), 64, at(5_000)), Ok(()));
        assert_eq!(pauses.switches.len(), 1);
    }
}
