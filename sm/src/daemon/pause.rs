//! Detects pauses of this process.
//!
//! A process that is stopped (SIGSTOP, a debugger, a cgroup freezer), or whose machine is
//! suspended, does not notice the pause, and another subnet manager may take over in the meantime.
//!
//! A heartbeat on its own thread distinguishes a pause of the process from a wait of the event loop
//! for other threads that compute a large difference. The loop reads the clock between two
//! datagrams of one turn, so that a process that is stopped in the middle of a push sends at most
//! the current datagram afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time between two turns of an idle event loop.
pub(super) const TURN: Duration = Duration::from_millis(100);

/// Longest time between two readings of the clock that does not count as a pause: a turn and half a
/// second of delay. A standby manager declares the master dead after 600 ms at the earliest (three
/// transaction time-outs of 200 ms, the defaults of opensm.conf), rsm's own standby after 2.6 s.
const LONGEST_TURN: Duration = TURN.saturating_add(Duration::from_millis(500));

/// Longest time between two readings of the clock that does not count as a pause if managers share
/// a store. An rsm standby then takes over after 300 ms at the earliest (three requests, 100 ms
/// apart), plus the time for its claim.
const LONGEST_TURN_WITH_PEERS: Duration = TURN.saturating_add(Duration::from_millis(150));

/// Time between two beats of the heartbeat.
const BEAT: Duration = Duration::from_millis(40);

/// Proves, on its own thread, that the process runs while the event loop waits for other threads:
/// computing a difference over a large fabric occupies all processors.
#[derive(Debug, Default)]
struct Heartbeat {
    /// Time of the last beat, in nanoseconds.
    last: AtomicU64,
    /// Longest time between two beats since the turn began, in nanoseconds.
    longest: AtomicU64,
    stopped: AtomicBool,
}

impl Heartbeat {
    /// Starts the thread; `None` if it cannot be started.
    fn start() -> Option<Arc<Heartbeat>> {
        let heartbeat = Arc::new(Heartbeat::default());
        heartbeat.beat(clock_time(ClockId::Boottime));
        heartbeat.longest.store(0, Ordering::SeqCst);
        let beats = heartbeat.clone();
        let thread = std::thread::Builder::new().name("heartbeat".to_owned());
        let thread = thread.spawn(move || {
            while !beats.stopped.load(Ordering::SeqCst) {
                std::thread::sleep(BEAT);
                beats.beat(clock_time(ClockId::Boottime));
            }
        });
        match thread {
            Ok(_) => Some(heartbeat),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "no heartbeat: long computations count as pauses");
                None
            }
        }
    }

    /// Records a beat.
    fn beat(&self, now: Duration) {
        let now = nanos(now);
        let before = self.last.fetch_max(now, Ordering::SeqCst);
        self.longest
            .fetch_max(now.saturating_sub(before), Ordering::SeqCst);
    }

    /// Longest time without a beat since the turn began.
    fn longest(&self, now: Duration) -> Duration {
        let last = self.last.load(Ordering::SeqCst);
        let open = nanos(now).saturating_sub(last);
        Duration::from_nanos(self.longest.load(Ordering::SeqCst).max(open))
    }

    /// Begins a turn.
    fn begin(&self, now: Duration) {
        self.last.fetch_max(nanos(now), Ordering::SeqCst);
        self.longest.store(0, Ordering::SeqCst);
    }
}

/// A time in nanoseconds.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Detects pauses from three measurements since the turn began: the elapsed time, the processor
/// time of this thread, and the time without a heartbeat.
#[derive(Debug)]
pub(super) struct PauseWatch {
    /// Time when the turn began, on a clock that continues while the machine is suspended.
    began_at: Duration,
    /// Processor time of this thread at `began_at`.
    cpu_time: Duration,
    /// Total time for which the thread had waited for a processor, and the time of this reading,
    /// which lies in this turn or shortly before. The total is `None` if the kernel does not tell.
    run_delay: (Option<Duration>, Duration),
    /// Longest time between two readings of the clock that does not count as a pause.
    longest: Duration,
    heartbeat: Option<Arc<Heartbeat>>,
}

impl PauseWatch {
    /// Creates a watch of the calling thread. `has_peers` tells whether other managers share the
    /// store.
    pub(super) fn start(has_peers: bool) -> PauseWatch {
        PauseWatch {
            longest: match has_peers {
                true => LONGEST_TURN_WITH_PEERS,
                false => LONGEST_TURN,
            },
            began_at: clock_time(ClockId::Boottime),
            cpu_time: clock_time(ClockId::ThreadCPUTime),
            run_delay: (run_delay(), clock_time(ClockId::Boottime)),
            heartbeat: Heartbeat::start(),
        }
    }

    /// Whether the manager shared its store with others when the watch was created.
    pub(super) fn has_peers(&self) -> bool {
        self.longest == LONGEST_TURN_WITH_PEERS
    }

    /// Checks for a pause as [`PauseWatch::check`] does, and begins a turn of the loop.
    pub(super) fn begin_turn(&mut self) -> Option<Duration> {
        let now = clock_time(ClockId::Boottime);
        let pause = self.pause_until(now);
        self.begin(now);
        pause
    }

    /// Time for which this thread did not run since the turn began; `None` if this is no pause.
    /// Cheap for a short turn.
    pub(super) fn check(&mut self) -> Option<Duration> {
        let now = clock_time(ClockId::Boottime);
        let pause = self.pause_until(now);
        if pause.is_some() {
            self.begin(now);
        }
        pause
    }

    /// Begins a turn: takes the measurements against which the next check compares.
    fn begin(&mut self, now: Duration) {
        // The kernel's figure comes from a file, so not every one of the thousands of turns per
        // second reads it.
        if now.saturating_sub(self.run_delay.1) > BEAT {
            self.run_delay = (run_delay(), now);
        }
        self.began_at = now;
        self.cpu_time = clock_time(ClockId::ThreadCPUTime);
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.begin(now);
        }
    }

    /// Time for which this thread did not run from the beginning of the turn to `now`; `None` if
    /// that is no pause of the process.
    fn pause_until(&self, now: Duration) -> Option<Duration> {
        let passed = now.saturating_sub(self.began_at);
        if passed <= self.longest {
            return None;
        }
        let cpu_time = clock_time(ClockId::ThreadCPUTime).saturating_sub(self.cpu_time);
        let pause = pause_in(self.longest, passed, cpu_time)?;
        let (Some(heartbeat), Some(before), Some(run_delay)) =
            (&self.heartbeat, self.run_delay.0, run_delay())
        else {
            return Some(pause);
        };
        let starved = run_delay.saturating_sub(before);
        let stopped = heartbeat.longest(now);
        (stopped.max(starved) > self.longest).then_some(pause)
    }
}

impl Drop for PauseWatch {
    fn drop(&mut self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.stopped.store(true, Ordering::SeqCst);
        }
    }
}

/// Total time for which this thread was ready to run but waited for a processor; `None` if the
/// kernel does not tell.
fn run_delay() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Idle time in a turn that took `passed`, of which the thread ran for `cpu_time`; `None` if the
/// idle time is at most `longest`.
fn pause_in(longest: Duration, passed: Duration, cpu_time: Duration) -> Option<Duration> {
    let idle = passed.saturating_sub(cpu_time);
    (idle > longest).then_some(idle)
}

/// Present time of a clock of the kernel.
fn clock_time(clock: ClockId) -> Duration {
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
        let pause = |passed, cpu_time| pause_in(LONGEST_TURN, passed, cpu_time);
        assert_eq!(pause(ms(10_000), ms(1)), Some(ms(9_999)));
        assert_eq!(pause(ms(10_000), ms(9_600)), None);
        assert_eq!(pause(TURN, Duration::ZERO), None);
        assert_eq!(pause(ms(300), ms(1)), None);
        assert!(pause_in(LONGEST_TURN_WITH_PEERS, ms(300), ms(1)).is_some());
        let mut watch = PauseWatch::start(false);
        assert_eq!(watch.check(), None);
        // Simulates a stop of the whole process.
        let stop = |watch: &mut PauseWatch| {
            watch.began_at = watch.began_at.saturating_sub(ms(10_000));
            let heartbeat = watch.heartbeat.as_ref().unwrap();
            heartbeat.longest.store(nanos(ms(10_000)), Ordering::SeqCst);
        };
        stop(&mut watch);
        assert!(watch.check().is_some_and(|pause| pause >= ms(9_000)));
        assert_eq!(watch.check(), None);
        stop(&mut watch);
        assert!(watch.begin_turn().is_some());
        assert_eq!(watch.begin_turn(), None);
    }

    #[test]
    fn a_wait_for_other_threads_of_the_process_is_no_pause() {
        let mut watch = PauseWatch::start(false);
        // On a loaded machine the heartbeat may wait as well.
        let other = std::thread::spawn(|| std::thread::sleep(Duration::from_millis(1500)));
        other.join().unwrap();
        let heartbeat = watch.heartbeat.clone().unwrap();
        let now = clock_time(ClockId::Boottime);
        if heartbeat.longest(now) < LONGEST_TURN {
            assert_eq!(watch.check(), None);
        }
        // Without a heartbeat, the wait counts as a pause.
        watch.heartbeat = None;
        assert!(watch.check().is_some());
    }

    #[test]
    fn a_stop_is_detected_whichever_thread_runs_first_afterwards() {
        let ms = Duration::from_millis;
        let second = |seconds| Duration::from_secs(seconds);
        let heartbeat = Heartbeat::default();
        heartbeat.beat(second(100));
        heartbeat.begin(second(100));
        // The loop is the first thread to run after the stop.
        assert_eq!(heartbeat.longest(second(110)), second(10));
        heartbeat.begin(second(110));
        heartbeat.beat(second(110) + ms(1));
        assert_eq!(heartbeat.longest(second(110) + ms(2)), ms(1));
        // The heartbeat is the first thread to run after the stop.
        heartbeat.beat(second(120));
        assert_eq!(heartbeat.longest(second(120)), second(10) - ms(1));
    }
}
