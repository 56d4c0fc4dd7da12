use super::ClientConfig;
use crate::Time;

/// Round trips count as flat up to this multiple of the lowest smoothed one, …
const FLAT_FACTOR: u64 = 2;
/// … or as long as they are no more than this many nanoseconds above it: scheduling noise of the local host.
const FLAT_SLACK: u64 = 50_000;
/// The lowest round trip is forgotten by this fraction of the difference with every answer, so that a fabric that
/// became slower for good, by a longer way or a slower adapter, counts as flat again after some thousand answers.
const FORGET_SHIFT: u32 = 12;

/// How many requests may be out at a time, over all targets.
///
/// SMPs travel on VL 15, which has no flow control (IBA 7.6.4): too many at a place are dropped there. The window grows
/// while answers come as fast as ever: by one with every answer at first, and by one with every window full of
/// answers after the first loss or the first slow round trip. A loss halves it, but only once for all that was sent
/// before it was last halved, because those are one and the same congestion.
///
/// What counts as a loss is decided outside: a request that a later attempt got an answer to. A node
/// that never answers says nothing of the fabric's load, and must not slow the rest down.
#[derive(Debug)]
pub(super) struct Window {
    size: u32,
    min: u32,
    max: u32,
    /// Growing by one with every answer.
    probing: bool,
    /// Answers since the window last grew, when not probing.
    answers: u32,
    last_halved: Option<Time>,
    /// The lowest smoothed round trip in nanoseconds.
    base: u64,
    /// Something had to wait for the window since it last grew.
    limited: bool,
    halvings: u64,
}

impl Window {
    pub(super) fn new(config: &ClientConfig) -> Window {
        Window {
            size: config.initial_window,
            min: config.min_window,
            max: config.max_window,
            probing: true,
            answers: 0,
            last_halved: None,
            base: u64::MAX,
            limited: false,
            halvings: 0,
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// How often it was halved.
    pub(super) fn halvings(&self) -> u64 {
        self.halvings
    }

    /// A request has to wait because as many as the window allows are out.
    pub(super) fn note_limited(&mut self) {
        self.limited = true;
    }

    /// An answer came; `smoothed` is the smoothed round trip in nanoseconds with it.
    pub(super) fn answered(&mut self, smoothed: u64) {
        if smoothed < self.base {
            self.base = smoothed;
        } else {
            self.base += (smoothed - self.base) >> FORGET_SHIFT;
        }
        // A window that nothing waits for proves nothing by its answers.
        if !self.limited || self.size >= self.max {
            return;
        }
        let flat = self
            .base
            .saturating_mul(FLAT_FACTOR)
            .max(self.base.saturating_add(FLAT_SLACK));
        if smoothed > flat {
            self.probing = false;
            self.answers = 0;
            return;
        }
        self.answers += 1;
        if self.probing || self.answers >= self.size {
            self.size += 1;
            self.answers = 0;
            self.limited = false;
        }
    }

    /// What was sent at `sent` was lost.
    pub(super) fn lost(&mut self, sent: Time, now: Time) {
        if self.last_halved.is_some_and(|halved| sent < halved) {
            return;
        }
        self.last_halved = Some(now);
        self.probing = false;
        self.answers = 0;
        self.halvings += 1;
        self.size = (self.size / 2).max(self.min);
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
            window.note_limited();
            window.answered(smoothed);
        }
    }

    #[test]
    fn it_grows_with_every_answer_to_its_maximum_while_round_trips_stay_flat() {
        let mut window = window();
        answers(&mut window, 100, 100 * MICROSECOND);
        assert_eq!(window.size(), 132);
        answers(&mut window, 1000, 100 * MICROSECOND);
        assert_eq!(window.size(), 512);
    }

    #[test]
    fn it_stays_when_nothing_waits_for_it_or_round_trips_rise() {
        let mut window = window();
        for _ in 0..1000 {
            window.answered(100 * MICROSECOND);
        }
        assert_eq!(window.size(), 32);
        answers(&mut window, 1000, 300 * MICROSECOND);
        assert_eq!(window.size(), 32);
    }

    #[test]
    fn losses_before_a_halving_are_part_of_it() {
        let mut window = window();
        let [sent, now, later] = [10, 20, 30].map(Time::from_nanos);
        window.lost(sent, now);
        assert_eq!(window.size(), 16);
        window.lost(sent, later);
        window.lost(Time::from_nanos(19), later);
        assert_eq!(window.size(), 16, "sent before it was halved");
        window.lost(later, later);
        assert_eq!(window.size(), 8);
        for nanos in 31..40 {
            window.lost(Time::from_nanos(nanos), Time::from_nanos(nanos));
        }
        assert_eq!(window.size(), 4);
    }

    #[test]
    fn after_a_loss_it_grows_by_one_with_every_window_full() {
        let mut window = window();
        window.lost(Time::from_nanos(1), Time::from_nanos(2));
        answers(&mut window, 16, 100 * MICROSECOND);
        assert_eq!(window.size(), 17);
        answers(&mut window, 16, 100 * MICROSECOND);
        assert_eq!(window.size(), 17);
        answers(&mut window, 1, 100 * MICROSECOND);
        assert_eq!(window.size(), 18);
    }
}
