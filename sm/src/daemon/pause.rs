//! Pauses of this process.
//!
//! A process that is stopped (SIGSTOP, a debugger, a cgroup freezer) or whose machine is suspended
//! notices nothing; another subnet manager may have taken the subnet over meanwhile.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time between two turns of an idle event loop.
pub(super) const TURN: Duration = Duration::from_millis(100);

/// The longest time between two looks that does not count as a pause: a turn, and half a second of
/// delay. A standby declares a master gone after 600 ms at the earliest (three transaction
/// time-outs of 200 ms, the defaults of opensm.conf), rsm's own after 2.6 s.
const LONGEST_TURN: Duration = TURN.saturating_add(Duration::from_millis(500));

/// Compares the time passed with the processor time of this thread.
#[derive(Debug)]
pub(super) struct PauseWatch {
    /// When the turn began, on the clock that runs on while the machine is suspended.
    seen: Duration,
    /// The processor time of this thread at `seen`.
    worked: Duration,
}

impl PauseWatch {
    /// A watch of the calling thread.
    pub(super) fn start() -> PauseWatch {
        PauseWatch {
            seen: read(ClockId::Boottime),
            worked: read(ClockId::ThreadCPUTime),
        }
    }

    /// As [`PauseWatch::look`], at the beginning of a turn of the loop.
    pub(super) fn turn(&mut self) -> Option<Duration> {
        let now = read(ClockId::Boottime);
        let pause = self.pause_until(now);
        self.begin(now);
        pause
    }

    /// How long this thread did not run since the turn began, if that is a pause. Cheap otherwise.
    pub(super) fn look(&mut self) -> Option<Duration> {
        let now = read(ClockId::Boottime);
        let pause = self.pause_until(now);
        if pause.is_some() {
            self.begin(now);
        }
        pause
    }

    fn begin(&mut self, now: Duration) {
        self.seen = now;
        self.worked = read(ClockId::ThreadCPUTime);
    }

    fn pause_until(&self, now: Duration) -> Option<Duration> {
        let passed = now.saturating_sub(self.seen);
        if passed <= LONGEST_TURN {
            return None;
        }
        pause_in(
            passed,
            read(ClockId::ThreadCPUTime).saturating_sub(self.worked),
        )
    }
}

/// The pause in a turn of this length, in which the thread worked for `worked`.
fn pause_in(passed: Duration, worked: Duration) -> Option<Duration> {
    let idle = passed.saturating_sub(worked);
    (idle > LONGEST_TURN).then_some(idle)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_a_pause_and_a_long_computation_is_not() {
        let ms = Duration::from_millis;
        assert_eq!(pause_in(ms(10_000), ms(1)), Some(ms(9_999)));
        assert_eq!(pause_in(ms(10_000), ms(9_600)), None);
        assert_eq!(pause_in(TURN, Duration::ZERO), None);
        let mut watch = PauseWatch::start();
        assert_eq!(watch.look(), None);
        watch.seen = watch.seen.saturating_sub(ms(10_000));
        assert!(watch.look().is_some_and(|pause| pause >= ms(9_000)));
        assert_eq!(watch.look(), None);
        watch.seen = watch.seen.saturating_sub(ms(10_000));
        assert!(watch.turn().is_some());
        assert_eq!(watch.turn(), None);
    }
}
