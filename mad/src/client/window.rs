use super::ClientConfig;
use super::loss::{Tolerance, Verdict};
use crate::Time;

/// Round trips count as constant up to this multiple of the lowest smoothed round trip.
const FLAT_FACTOR: u64 = 2;
/// Round trips also count as constant up to this many nanoseconds above the lowest smoothed round
/// trip, because scheduling on the local host varies.
const FLAT_SLACK: u64 = 50_000;
/// The fraction (a shift) of the difference by which the lowest round trip rises with every answer:
/// after some thousand answers, the round trips of a fabric that became slower permanently, by a
/// longer path or a slower adapter, count as constant again.
const FORGET_SHIFT: u32 = 12;

/// The window: the number of requests that may be out at a time, over all targets.
///
/// SMPs travel on VL 15, which has no flow control (IBA 7.6.4): ports drop SMPs beyond their
/// buffers. The window grows while round trips stay constant: by one with every answer at first,
/// and by one with every window full of answers after the first loss or the first slow round trip.
/// A loss halves the window, but only once for all attempts sent before the last halving, because
/// their losses have the same cause.
///
/// The client decides which attempts are lost: attempts followed by an answered attempt of the same
/// request. A node that never answers says nothing about load, and must not slow down requests to
/// other nodes.
///
/// Losses without load, for example from bad cables, would keep the window at its minimum. The
/// window therefore counts losses at the minimum and tolerates that rate from then on; only losses
/// beyond that rate halve the window ([`Tolerance`]).
#[derive(Debug)]
pub(super) struct Window {
    /// The number of requests that may be out, and its bounds.
    size: u32,
    min: u32,
    max: u32,
    /// Whether the window grows by one with every answer.
    is_probing: bool,
    /// The number of answers since the window last grew, unless it is probing.
    answers: u32,
    /// The time of the last halving; `None` before the first halving.
    last_halved: Option<Time>,
    tolerance: Tolerance,
    /// Whether the limit is the minimum until the loss rate at the minimum is known.
    is_measuring_loss: bool,
    /// The size before the first halving since the last measurement.
    peak: Option<u32>,
    /// The lowest recent smoothed round trip in nanoseconds, which slowly follows higher round
    /// trips.
    base: u64,
    /// Whether a request had to wait since the window last grew.
    was_limited: bool,
    /// The number of halvings so far.
    halvings: u64,
}

impl Window {
    pub(super) fn new(config: &ClientConfig) -> Window {
        Window {
            size: config.initial_window,
            min: config.min_window,
            max: config.max_window,
            is_probing: true,
            answers: 0,
            last_halved: None,
            tolerance: Tolerance::new(),
            is_measuring_loss: false,
            peak: None,
            base: u64::MAX,
            was_limited: false,
            halvings: 0,
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// The number of requests that may be out now.
    pub(super) fn limit(&self) -> u32 {
        if self.is_measuring_loss {
            self.min
        } else {
            self.size
        }
    }

    /// The number of times the window was halved.
    pub(super) fn halvings(&self) -> u64 {
        self.halvings
    }

    /// Records that a request has to wait because the window is full.
    pub(super) fn record_limited(&mut self) {
        self.was_limited = true;
    }

    /// Records an answer; `smoothed` is the smoothed round trip in nanoseconds, this answer
    /// included.
    pub(super) fn record_answer(&mut self, smoothed: u64) {
        if smoothed < self.base {
            self.base = smoothed;
        } else {
            self.base += (smoothed - self.base) >> FORGET_SHIFT;
        }
        // Answers say nothing about a window for which no request waits.
        if self.is_measuring_loss || !self.was_limited || self.size >= self.max {
            return;
        }
        let flat = self
            .base
            .saturating_mul(FLAT_FACTOR)
            .max(self.base.saturating_add(FLAT_SLACK));
        if smoothed > flat {
            self.is_probing = false;
            self.answers = 0;
            return;
        }
        self.answers += 1;
        if self.is_probing || self.answers >= self.size {
            self.size += 1;
            self.answers = 0;
            self.was_limited = false;
        }
    }

    /// Records that an attempt sent at `sent` was lost.
    pub(super) fn record_loss(&mut self, sent: Time, now: Time) {
        if !self.tolerance.covers_loss() {
            self.halve(sent, now);
        }
    }

    /// Records that an attempt sent at `sent` was lost while `out` requests are out. If `out` is at
    /// most the minimum, a smaller window would not help, so the loss rate is measured at once.
    pub(super) fn record_loss_among(&mut self, out: u32, sent: Time, now: Time) {
        if out <= self.min && !self.is_measuring_loss && !self.tolerance.covers_loss() {
            self.halve(sent, now);
            self.is_measuring_loss = true;
            self.tolerance.begin(now);
        } else {
            self.record_loss(sent, now);
        }
    }

    /// Records that since `sent` none of the `out` outstanding requests was answered.
    pub(super) fn record_silence(&mut self, sent: Time, out: u32, now: Time) {
        if !self.tolerance.covers_silence(out) {
            self.halve(sent, now);
        }
    }

    /// The time from which sent attempts are counted together.
    pub(super) fn epoch(&self) -> Time {
        self.tolerance.since()
    }

    /// Records that an attempt was answered after `lost` attempts of this [epoch](Window::epoch)
    /// were lost.
    pub(super) fn record_resolved(&mut self, lost: u32, now: Time) {
        self.tolerance.resolved(lost);
        if !self.is_measuring_loss {
            return;
        }
        match self.tolerance.verdict(now) {
            Verdict::Undecided => return,
            Verdict::Congestion => {}
            Verdict::Random => {
                let half = self.peak.map_or(self.size, |peak| peak / 2);
                self.size = half.clamp(self.min, self.max);
                self.is_probing = true;
                self.answers = 0;
            }
        }
        self.is_measuring_loss = false;
        self.peak = None;
    }

    /// The number of retries, at most `max`, that have the timeout of the first attempt; later
    /// retries have longer timeouts.
    pub(super) fn plain_retries(&self, max: u8) -> u8 {
        self.tolerance.plain_retries(max)
    }

    /// Halves the window because of an attempt sent at `sent`, unless the attempt was sent before
    /// the last halving or the window measures losses at its minimum.
    fn halve(&mut self, sent: Time, now: Time) {
        if self.last_halved.is_some_and(|halved| sent < halved) || self.is_measuring_loss {
            return;
        }
        self.last_halved = Some(now);
        self.is_probing = false;
        self.answers = 0;
        self.halvings += 1;
        self.peak.get_or_insert(self.size);
        self.size = (self.size / 2).max(self.min);
        self.is_measuring_loss = self.size == self.min;
        self.tolerance.begin(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: u64 = 1000;

    fn window() -> Window {
        Window::new(&ClientConfig {
            initial_window: 32,
            min_window: 4,
            max_window: 512,
            ..ClientConfig::default()
        })
    }

    fn answers(window: &mut Window, count: u32, smoothed: u64) {
        for _ in 0..count {
            window.record_limited();
            window.record_answer(smoothed);
        }
    }

    #[test]
    fn the_window_grows_with_every_answer_while_round_trips_stay_flat() {
        let mut window = window();
        answers(&mut window, 100, 100 * MICROSECOND);
        assert_eq!(window.size(), 132);
        answers(&mut window, 1000, 100 * MICROSECOND);
        assert_eq!(window.size(), 512);
    }

    #[test]
    fn the_window_keeps_its_size_without_waiting_requests_or_with_rising_round_trips() {
        let mut window = window();
        for _ in 0..1000 {
            window.record_answer(100 * MICROSECOND);
        }
        assert_eq!(window.size(), 32);
        answers(&mut window, 1000, 300 * MICROSECOND);
        assert_eq!(window.size(), 32);
    }

    #[test]
    fn losses_of_attempts_before_a_halving_halve_only_once() {
        let mut window = window();
        let [sent, now, later] = [10, 20, 30].map(Time::from_nanos);
        window.record_loss(sent, now);
        assert_eq!(window.size(), 16);
        window.record_loss(sent, later);
        window.record_loss(Time::from_nanos(19), later);
        assert_eq!(window.size(), 16, "sent before it was halved");
        window.record_loss(later, later);
        assert_eq!(window.size(), 8);
        for nanos in 31..40 {
            window.record_loss(Time::from_nanos(nanos), Time::from_nanos(nanos));
        }
        assert_eq!(window.size(), 4);
    }

    /// Makes `rounds` rounds of ten attempts each, of which `lost_of_ten(size of the window)` are
    /// lost.
    fn rounds(window: &mut Window, now: &mut u64, rounds: u32, lost_of_ten: impl Fn(u32) -> u32) {
        for _ in 0..rounds {
            let lost = lost_of_ten(window.size());
            *now += 1000;
            for _ in 0..10 - lost {
                window.record_limited();
                window.record_answer(100 * MICROSECOND);
                window.record_resolved(0, Time::from_nanos(*now));
            }
            for _ in 0..lost {
                window.record_loss(Time::from_nanos(*now - 1), Time::from_nanos(*now));
                window.record_resolved(1, Time::from_nanos(*now));
            }
        }
    }

    #[test]
    fn losses_that_do_not_depend_on_the_window_do_not_keep_it_small() {
        let mut window = window();
        let mut now = 1000;
        rounds(&mut window, &mut now, 8, |_| 5);
        let halvings = window.halvings();
        rounds(&mut window, &mut now, 200, |_| 5);
        assert!(window.size() > 256, "{window:?}");
        assert!(window.halvings() <= halvings + 1, "{window:?}");
    }

    #[test]
    fn losses_that_end_with_a_smaller_window_keep_it_small() {
        let mut window = window();
        let mut now = 1000;
        let congested = |size| if size > 16 { 5 } else { 0 };
        for _ in 0..100 {
            rounds(&mut window, &mut now, 1, congested);
            assert!(window.size() <= 32, "{window:?}");
        }
    }

    #[test]
    fn losses_among_few_requests_are_measured_before_the_window_is_at_its_minimum() {
        let mut window = window();
        let [sent, now] = [10, 20].map(Time::from_nanos);
        window.record_loss_among(4, sent, now);
        assert_eq!((window.size(), window.limit()), (16, 4));
        for _ in 0..12 {
            window.record_resolved(1, now);
        }
        assert_eq!((window.size(), window.limit()), (16, 16), "half of 32");
        window.record_loss_among(4, now, now);
        assert_eq!((window.size(), window.limit()), (16, 16), "tolerated");
    }

    #[test]
    fn congestion_beyond_random_losses_halves_the_window() {
        let mut window = window();
        let mut now = 1000;
        rounds(&mut window, &mut now, 200, |_| 3);
        assert!(window.size() > 256, "{window:?}");
        rounds(
            &mut window,
            &mut now,
            100,
            |size| if size > 64 { 8 } else { 3 },
        );
        assert!(window.size() <= 80, "{window:?}");
    }

    #[test]
    fn after_a_loss_the_window_grows_by_one_per_window_of_answers() {
        let mut window = window();
        window.record_loss(Time::from_nanos(1), Time::from_nanos(2));
        answers(&mut window, 16, 100 * MICROSECOND);
        assert_eq!(window.size(), 17);
        answers(&mut window, 16, 100 * MICROSECOND);
        assert_eq!(window.size(), 17);
        answers(&mut window, 1, 100 * MICROSECOND);
        assert_eq!(window.size(), 18);
    }
}
