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

/// The same where managers share a store: a standby of rsm takes over after 300 ms at the earliest
/// (three questions, 100 ms apart), and needs some more for the claim.
const LONGEST_OF_PEERS: Duration = TURN.saturating_add(Duration::from_millis(150));

/// Compares the time passed with the processor time of this thread.
#[derive(Debug)]
pub(super) struct PauseWatch {
    /// When the turn began, on the clock that runs on while the machine is suspended.
    seen: Duration,
    /// The processor time of this thread at `seen`.
    worked: Duration,
    /// The longest time between two looks that does not count as a pause.
    longest: Duration,
}

impl PauseWatch {
    /// A watch of the calling thread.
    pub(super) fn start() -> PauseWatch {
        PauseWatch {
            longest: LONGEST_TURN,
            seen: read(ClockId::Boottime),
            worked: read(ClockId::ThreadCPUTime),
        }
    }

    /// The same for a manager that shares its store with others.
    pub(super) fn of_peers() -> PauseWatch {
        PauseWatch {
            longest: LONGEST_OF_PEERS,
            ..PauseWatch::start()
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
        if passed <= self.longest {
            return None;
        }
        pause_in(
            self.longest,
            passed,
            read(ClockId::ThreadCPUTime).saturating_sub(self.worked),
        )
    }
}

/// The pause in a turn of this length, in which the thread worked for `worked`, if it is longer
/// than `longest`.
fn pause_in(longest: Duration, passed: Duration, worked: Duration) -> Option<Duration> {
    let idle = passed.saturating_sub(worked);
    (idle > longest).then_some(idle)
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
        let pause = |passed, worked| pause_in(LONGEST_TURN, passed, worked);
        assert_eq!(pause(ms(10_000), ms(1)), Some(ms(9_999)));
        assert_eq!(pause(ms(10_000), ms(9_600)), None);
        assert_eq!(pause(TURN, Duration::ZERO), None);
        assert_eq!(pause(ms(300), ms(1)), None);
        assert!(pause_in(LONGEST_OF_PEERS, ms(300), ms(1)).is_some());
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
