//! The readings of one port: totals, rates, and which of them are unknown.

#[cfg(test)]
mod tests;

use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::wire::perf::{Counter, CounterSet};

use crate::counters::causes::{Causes, Corrections};
use crate::counters::corrected::Corrected;

/// The counters that traffic moves. All other counters count errors.
pub const TRAFFIC: [Counter; 9] = [
    Counter::XmitData,
    Counter::RcvData,
    Counter::XmitPkts,
    Counter::RcvPkts,
    Counter::UnicastXmitPkts,
    Counter::UnicastRcvPkts,
    Counter::MulticastXmitPkts,
    Counter::MulticastRcvPkts,
    Counter::XmitWait,
];

/// The error counters that a damaged link moves.
const OF_LINK: [Counter; 5] = [
    Counter::SymbolError,
    Counter::LinkErrorRecovery,
    Counter::LinkDowned,
    Counter::RcvErrors,
    Counter::LocalLinkIntegrityErrors,
];

/// Number of error counters: all counters except [`TRAFFIC`].
const ERRORS: usize = Counter::ALL.len() - TRAFFIC.len();

/// Bytes in one unit of PortXmitData and PortRcvData (IBA 16.1.3.5).
const WORD: u64 = 4;

/// Number of values of a 32-bit counter.
const NARROW_SPAN: u64 = 1 << 32;

/// Value above which a narrow counter that goes back has wrapped; below it, the counter was reset.
/// A counter that wraps comes from near its highest value, if it is read often enough for a
/// meaningful rate.
const WRAPS_FROM: u64 = NARROW_SPAN / 2;

/// Time over which error rates are computed: at least one window, at most two.
const WINDOW: Duration = Duration::from_secs(600);

/// Minimum time to which [`ErrorRates::cautious`] attributes errors, so that one error right after
/// the first reading takes no link out of use.
pub(crate) const SHORTEST_SPAN: Duration = Duration::from_secs(300);

const HOUR_S: f64 = 3600.0;

/// A set of counters: one bit for each, in the order of [`Counter::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct CounterMask(u32);

impl CounterMask {
    /// Whether the set contains this counter.
    pub(super) fn has(self, counter: Counter) -> bool {
        self.0 >> (counter as u32) & 1 != 0
    }

    /// Adds a counter to the set, or removes it if `on` is false.
    pub(super) fn set(&mut self, counter: Counter, on: bool) {
        let bit = 1 << (counter as u32);
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Counter> for CounterMask {
    fn from_iter<I: IntoIterator<Item = Counter>>(counters: I) -> CounterMask {
        let mut mask = CounterMask::default();
        counters.into_iter().for_each(|one| mask.set(one, true));
        mask
    }
}

/// The counters in one answer, or in two answers that belong together.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sample {
    pub(super) values: CounterSet,
    /// Counters that the device has and the answers show.
    pub(super) present: CounterMask,
    /// Counters that stay at, or wrap from, the highest value in PortCounters.
    pub(super) narrow: CounterMask,
}

impl Sample {
    /// Whether a narrow counter is at its highest value.
    fn is_full(&self, counter: Counter) -> bool {
        self.narrow.has(counter) && counter.narrow_max() == Some(self.values[counter])
    }
}

/// Behaviour of a device's narrow counters at their highest value. IBA 16.1.3.5 requires counters
/// to stay at that value; counters of some devices wrap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum NarrowEnd {
    /// No reading has shown the behaviour so far.
    #[default]
    Unknown,
    /// Counters stay at their highest value.
    Stays,
    /// Counters continue with 0 after their highest value.
    Wraps,
}

/// The traffic of a port per second, between its last two readings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Bytes sent per second.
    pub xmit_bytes: f32,
    /// Bytes received per second.
    pub rcv_bytes: f32,
    /// Packets sent per second.
    pub xmit_packets: f32,
    /// Packets received per second.
    pub rcv_packets: f32,
    /// Share of time in which data waited without being sent, 0 to 1, if one tick of PortXmitWait
    /// is the time of a word of 4 bytes on the link. `None` if the device does not count it, or the
    /// rate of the link is unknown.
    pub wait_share: Option<f32>,
}

/// Errors of each kind in the last ten to twenty minutes, or since counting began less than ten
/// minutes ago, as rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ErrorRates {
    /// Number of errors, by index among the error counters.
    counts: [u32; ERRORS],
    observed: Duration,
}

impl ErrorRates {
    /// Errors of one counter per hour, over the time observed; zero for [`TRAFFIC`].
    pub fn per_hour(&self, counter: Counter) -> f64 {
        self.rate_over(counter, self.observed)
    }

    /// Errors of one counter per hour, for decisions about a link. If the errors were observed for
    /// less than five minutes, they are divided by five minutes.
    pub fn cautious(&self, counter: Counter) -> f64 {
        self.rate_over(counter, self.observed.max(SHORTEST_SPAN))
    }

    /// Time over which the errors were counted; zero before the second reading.
    pub fn observed(&self) -> Duration {
        self.observed
    }

    /// Errors per hour of all kinds that [`is_of_link`] counts.
    pub fn sum(&self) -> f64 {
        let counters = Counter::ALL.iter().filter(|&&one| is_of_link(one));
        counters.map(|&counter| self.per_hour(counter)).sum()
    }

    /// Errors of one counter per hour, if all errors were counted within `span`; zero for an empty
    /// span.
    fn rate_over(&self, counter: Counter, span: Duration) -> f64 {
        let index = error_index(counter).filter(|_| !span.is_zero());
        index.map_or(0.0, |index| {
            f64::from(self.counts[index]) * HOUR_S / span.as_secs_f64()
        })
    }
}

/// Whether a counter of errors tells of the port's own link: not PortRcvRemotePhysicalErrors, whose
/// cause is another link, and not PortRcvSwitchRelayErrors, packets for which the switch has no way
/// on.
pub fn is_of_link(counter: Counter) -> bool {
    !matches!(
        counter,
        Counter::RcvRemotePhysicalErrors | Counter::RcvSwitchRelayErrors
    )
}

/// Errors of each kind since a point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecentErrors {
    /// Time from which errors count.
    pub from: Time,
    counts: [u32; ERRORS],
}

impl RecentErrors {
    /// Number of errors of one counter; zero for [`TRAFFIC`].
    pub fn count(&self, counter: Counter) -> u64 {
        error_index(counter).map_or(0, |index| u64::from(self.counts[index]))
    }
}

/// The counters of a port as last read: 144 bytes, and some 400 bytes more once the port has
/// counted an error.
///
/// A total begins with the hardware's value at the first reading. It grows by everything counted
/// since, even if the hardware's counter is reset or wraps.
#[derive(Clone, PartialEq, Debug)]
pub struct PortReading {
    /// Time of the last reading; [`Time::MAX`] before the first reading.
    at: Time,
    /// Totals of the traffic counters, in the order of [`TRAFFIC`].
    totals: [u64; TRAFFIC.len()],
    rates: Option<Rates>,
    /// Bytes per second that the link carries in one direction; zero if its rate is unknown.
    link_bytes: f32,
    /// Symbols per second that error correction can correct; zero if not known, or the link has no
    /// error correction.
    mendable_per_s: f32,
    corrected: Option<Box<Corrected>>,
    /// Counters that were in any reading so far.
    present: CounterMask,
    /// Counters at their highest value, which count no more until another program resets them.
    full: CounterMask,
    /// Whether the last reading showed a reset.
    reset: bool,
    error_state: Option<Box<ErrorState>>,
}

/// The part of a reading that most ports do not need.
#[derive(Clone, PartialEq, Default, Debug)]
struct ErrorState {
    /// Totals of the error counters, by index among the error counters.
    errors: [u64; ERRORS],
    /// Total minus the hardware's value of each counter, in the order of [`Counter::ALL`]. `None`
    /// if each total equals the hardware's value.
    offsets: Option<Box<[u64; Counter::ALL.len()]>>,
    window: Window,
    causes: Option<Box<Causes>>,
}

/// Errors since two points in time. At first, both points are the start of the count; once
/// [`WINDOW`] has passed, the points are at least [`WINDOW`] apart.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Window {
    early: Time,
    since_early: [u32; ERRORS],
    late: Time,
    since_late: [u32; ERRORS],
}

impl Window {
    fn new(at: Time) -> Window {
        Window {
            early: at,
            late: at,
            ..Window::default()
        }
    }

    /// Adds errors of the counter with this index.
    fn add(&mut self, index: usize, errors: u64) {
        let errors = u32::try_from(errors).unwrap_or(u32::MAX);
        for counts in [&mut self.since_early, &mut self.since_late] {
            counts[index] = counts[index].saturating_add(errors);
        }
    }

    /// Moves both points in time forward if the later one is at least [`WINDOW`] ago.
    fn advance(&mut self, now: Time) {
        if now.since(self.late) >= WINDOW {
            (self.early, self.since_early) = (self.late, self.since_late);
            (self.late, self.since_late) = (now, [0; ERRORS]);
        }
    }

    fn rates(&self, now: Time) -> ErrorRates {
        ErrorRates {
            counts: self.since_early,
            observed: now.since(self.early),
        }
    }
}

/// Index of a counter in [`TRAFFIC`]; `None` for error counters.
const fn traffic_index(counter: Counter) -> Option<usize> {
    let mut index = 0;
    while index < TRAFFIC.len() {
        if TRAFFIC[index] as usize == counter as usize {
            return Some(index);
        }
        index += 1;
    }
    None
}

/// Index of each counter among the error counters; `None` for traffic counters.
const ERROR_INDICES: [Option<usize>; Counter::ALL.len()] = {
    let mut indices = [None; Counter::ALL.len()];
    let (mut index, mut next) = (0, 0);
    while index < indices.len() {
        if traffic_index(Counter::ALL[index]).is_none() {
            indices[index] = Some(next);
            next += 1;
        }
        index += 1;
    }
    indices
};

/// Index of a counter among the error counters; `None` for traffic counters.
fn error_index(counter: Counter) -> Option<usize> {
    ERROR_INDICES[counter as usize]
}

/// Results of one reading, in addition to the totals.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ReadingResult {
    /// Whether a counter was lower than before, and did not wrap.
    pub(super) reset: bool,
    /// Behaviour of narrow counters; `None` if this reading does not show it.
    pub(super) narrow_end: Option<NarrowEnd>,
    /// Whether PortRcvErrors or PortRcvSwitchRelayErrors moved.
    pub(super) rcv_moved: bool,
    /// Whether PortXmitDiscards moved.
    pub(super) xmit_moved: bool,
    /// Whether a counter of link errors moved.
    pub(super) link_moved: bool,
}

impl Default for PortReading {
    fn default() -> PortReading {
        PortReading {
            at: Time::MAX,
            totals: [0; TRAFFIC.len()],
            rates: None,
            link_bytes: 0.0,
            mendable_per_s: 0.0,
            corrected: None,
            present: CounterMask::default(),
            full: CounterMask::default(),
            reset: false,
            error_state: None,
        }
    }
}

impl PortReading {
    /// Time of the last reading; `None` if the port was never read.
    pub fn at(&self) -> Option<Time> {
        (self.at != Time::MAX).then_some(self.at)
    }

    /// The total of a counter: the hardware's value at the first reading, plus everything counted
    /// since. `None` if the port was never read, or the device lacks the counter. PortXmitData and
    /// PortRcvData are in words of 4 bytes, as in the hardware.
    pub fn total(&self, counter: Counter) -> Option<u64> {
        self.present.has(counter).then(|| self.sum(counter))
    }

    /// Total of bytes sent.
    pub fn xmit_bytes(&self) -> Option<u64> {
        Some(self.total(Counter::XmitData)?.saturating_mul(WORD))
    }

    /// Total of bytes received.
    pub fn rcv_bytes(&self) -> Option<u64> {
        Some(self.total(Counter::RcvData)?.saturating_mul(WORD))
    }

    /// Traffic between the last two readings. `None` before the second reading, if a counter was
    /// reset or appeared between these readings, or if 32-bit data counters are at their highest
    /// value or may have wrapped more than once.
    pub fn rates(&self) -> Option<Rates> {
        self.rates
    }

    /// Bytes per second that the link carries in each direction; `None` if its rate is unknown.
    pub(crate) fn link_bytes_per_s(&self) -> Option<f32> {
        (self.link_bytes > 0.0).then_some(self.link_bytes)
    }

    /// Traffic in the busier direction of the link, as a share of the link's rate; `None` if
    /// traffic or rate is unknown.
    pub fn use_share(&self) -> Option<f32> {
        let rates = self.rates?;
        Some(rates.xmit_bytes.max(rates.rcv_bytes) / self.link_bytes_per_s()?)
    }

    /// Rates of errors; `None` if no error was counted since the first reading.
    pub fn errors(&self) -> Option<ErrorRates> {
        let error_state = self.error_state.as_ref()?;
        Some(error_state.window.rates(self.at))
    }

    /// Errors counted since `since`, or since the nearest earlier time for which they are known, at
    /// most ten to twenty minutes ago. `None` if no error was counted since the first reading.
    pub fn errors_since(&self, since: Time) -> Option<RecentErrors> {
        let window = &self.error_state.as_ref()?.window;
        let is_late = window.late >= since && window.since_late != [0; ERRORS];
        let (from, counts) = match is_late {
            true => (window.late, window.since_late),
            false => (window.early, window.since_early),
        };
        Some(RecentErrors { from, counts })
    }

    /// Counters of forward error correction; `None` if the device does not show them, or they have
    /// not been read.
    pub fn corrected(&self) -> Option<&Corrected> {
        self.corrected.as_deref()
    }

    /// The causes of received errors and of discards; `None` if they were not read.
    pub fn causes(&self) -> Option<&Causes> {
        self.error_state.as_ref()?.causes.as_deref()
    }

    /// Whether a counter is at its highest value and counts no further until another program resets
    /// it. rsm never resets counters.
    pub fn is_full(&self, counter: Counter) -> bool {
        self.full.has(counter)
    }

    /// Whether a counter was lower in the last reading than in the previous reading, because
    /// another program reset the counter or the device was reset.
    pub fn was_reset(&self) -> bool {
        self.reset
    }

    /// The total of a counter; zero if it is unknown.
    fn sum(&self, counter: Counter) -> u64 {
        match (traffic_index(counter), error_index(counter)) {
            (Some(index), _) => self.totals[index],
            (_, Some(index)) => self
                .error_state
                .as_ref()
                .map_or(0, |error_state| error_state.errors[index]),
            (None, None) => 0,
        }
    }

    /// The total of a counter minus the hardware's value.
    fn offset(&self, counter: Counter) -> u64 {
        let offsets = self
            .error_state
            .as_ref()
            .and_then(|error_state| error_state.offsets.as_ref());
        offsets.map_or(0, |offsets| offsets[counter as usize])
    }

    /// The error state, which is created if it does not exist.
    fn error_state(&mut self) -> &mut ErrorState {
        let at = self.at;
        self.error_state.get_or_insert_with(|| {
            Box::new(ErrorState {
                window: Window::new(at),
                ..ErrorState::default()
            })
        })
    }

    /// Sets the total that belongs to the hardware's value `raw`.
    fn set_total(&mut self, counter: Counter, total: u64, raw: u64) {
        let offset = total.wrapping_sub(raw);
        if offset != self.offset(counter) {
            let all = self
                .error_state()
                .offsets
                .get_or_insert_with(|| Box::new([0; Counter::ALL.len()]));
            all[counter as usize] = offset;
        }
        if let Some(index) = traffic_index(counter) {
            self.totals[index] = total;
        } else if let Some(index) = error_index(counter)
            && total != self.sum(counter)
        {
            self.error_state().errors[index] = total;
        }
    }

    /// Sets the rate of the link in bytes per second, and the symbols per second that its error
    /// correction can correct; zero if unknown.
    pub(super) fn set_link(&mut self, bytes_per_s: f32, mendable_per_s: f32) {
        (self.link_bytes, self.mendable_per_s) = (bytes_per_s, mendable_per_s);
    }

    /// Whether the counters of error correction are due to be read.
    pub(super) fn is_correction_due(&self, port: PortKey, now: Time) -> bool {
        let last = self.corrected.as_ref().map(|corrected| corrected.at);
        self.mendable_per_s > 0.0 && Corrected::is_due(port, last, now)
    }

    /// Adds a reading of the counters of error correction.
    pub(super) fn record_corrections(&mut self, counters: Corrections, now: Time) {
        let before = self.corrected.as_deref();
        let corrected = Corrected::after_reading(before, counters, self.mendable_per_s, now);
        self.corrected = Some(Box::new(corrected));
    }

    /// Forgets rates and recent errors after the port got another cable: errors of the former cable
    /// say nothing about the new cable.
    pub(super) fn forget_former_cable(&mut self) {
        self.rates = None;
        self.corrected = None;
        let at = self.at;
        if let Some(error_state) = &mut self.error_state {
            error_state.window = Window::new(at);
        }
    }

    /// Changes the causes of errors, which are empty at first.
    pub(super) fn set_causes(&mut self, set: impl FnOnce(&mut Causes)) {
        set(self.error_state().causes.get_or_insert_default());
    }

    /// Adds a reading made at `now`. `end` is the behaviour of the device's narrow counters as
    /// known so far.
    pub(super) fn record(&mut self, sample: &Sample, end: NarrowEnd, now: Time) -> ReadingResult {
        let is_first = self.at == Time::MAX;
        if is_first {
            self.at = now;
        }
        let new_counters: CounterMask = Counter::ALL
            .into_iter()
            .filter(|&counter| sample.present.has(counter) && !self.present.has(counter))
            .collect();
        let delta = ReadingDelta::between(self, sample, new_counters, end);
        let elapsed = now.since(self.at);
        let mut moved = CounterSet::default();
        for counter in Counter::ALL {
            if !sample.present.has(counter) {
                continue;
            }
            let raw = sample.values[counter];
            if new_counters.has(counter) {
                self.set_total(counter, raw, raw);
            } else {
                moved[counter] = delta.moved[counter];
                let total = self.sum(counter).saturating_add(moved[counter]);
                self.set_total(counter, total, raw);
            }
            self.full
                .set(counter, sample.is_full(counter) && end != NarrowEnd::Wraps);
            self.present.set(counter, true);
        }
        self.count_errors(&moved, now);
        let has_rates = !elapsed.is_zero() && !delta.reset && new_counters.is_empty();
        let end = delta.narrow_end.unwrap_or(end);
        self.rates = (has_rates && self.shows_data(sample, end, elapsed))
            .then(|| self.rates_of(&moved, elapsed));
        self.reset = delta.reset;
        self.at = now;
        ReadingResult {
            reset: delta.reset,
            narrow_end: delta.narrow_end,
            rcv_moved: moved[Counter::RcvErrors] + moved[Counter::RcvSwitchRelayErrors] > 0,
            xmit_moved: moved[Counter::XmitDiscards] > 0,
            link_moved: OF_LINK.iter().any(|&counter| moved[counter] > 0),
        }
    }

    /// Adds the errors counted since the previous reading to the window.
    fn count_errors(&mut self, moved: &CounterSet, now: Time) {
        for counter in Counter::ALL {
            if let Some(index) = error_index(counter)
                && moved[counter] > 0
            {
                self.error_state().window.add(index, moved[counter]);
            }
        }
        if let Some(error_state) = &mut self.error_state {
            error_state.window.advance(now);
        }
    }

    /// Whether the data counters show how much data the link carried in `elapsed`.
    fn shows_data(&self, sample: &Sample, end: NarrowEnd, elapsed: Duration) -> bool {
        [Counter::XmitData, Counter::RcvData]
            .into_iter()
            .all(|counter| {
                if !sample.present.has(counter) {
                    return false;
                }
                if !sample.narrow.has(counter) {
                    return true;
                }
                let max_words = f64::from(self.link_bytes) * elapsed.as_secs_f64() / WORD as f64;
                !self.full.has(counter)
                    && (end == NarrowEnd::Stays || max_words < NARROW_SPAN as f64)
            })
    }

    /// The rates of counts that were made in `elapsed`.
    fn rates_of(&self, moved: &CounterSet, elapsed: Duration) -> Rates {
        let seconds = elapsed.as_secs_f64();
        let rate = |counter: Counter| moved[counter] as f64 / seconds;
        let bytes = |counter: Counter| (rate(counter) * WORD as f64) as f32;
        // A reading without PortXmitWait was made because the sum of the switch did not move.
        let counts_wait = self.present.has(Counter::XmitWait) && !self.full.has(Counter::XmitWait);
        let wait_share = (counts_wait && self.link_bytes > 0.0)
            .then(|| (bytes(Counter::XmitWait) / self.link_bytes).min(1.0));
        Rates {
            xmit_bytes: bytes(Counter::XmitData),
            rcv_bytes: bytes(Counter::RcvData),
            xmit_packets: rate(Counter::XmitPkts) as f32,
            rcv_packets: rate(Counter::RcvPkts) as f32,
            wait_share,
        }
    }
}

/// The difference between a reading and the previous reading.
struct ReadingDelta {
    /// Counts made between the readings.
    moved: CounterSet,
    /// Whether a counter was lower than before, and did not wrap.
    reset: bool,
    /// Behaviour of narrow counters; `None` if the reading does not show it.
    narrow_end: Option<NarrowEnd>,
}

impl ReadingDelta {
    /// The difference between `before` and `sample`, without the counters `new_counters`, which
    /// `before` lacks.
    fn between(
        before: &PortReading,
        sample: &Sample,
        new_counters: CounterMask,
        end: NarrowEnd,
    ) -> ReadingDelta {
        let known = |counter: &Counter| sample.present.has(*counter) && !new_counters.has(*counter);
        let raw_before = |counter| before.sum(counter).wrapping_sub(before.offset(counter));
        let mut delta = ReadingDelta {
            moved: CounterSet::default(),
            reset: false,
            narrow_end: None,
        };
        let mut back = Vec::new();
        let mut others_continue = false;
        for counter in Counter::ALL.into_iter().filter(known) {
            let (earlier, raw) = (raw_before(counter), sample.values[counter]);
            if sample.is_full(counter) && earlier == raw && end == NarrowEnd::Unknown {
                delta.narrow_end = Some(NarrowEnd::Stays);
            }
            match raw.checked_sub(earlier) {
                Some(more) => {
                    delta.moved[counter] = more;
                    others_continue |= earlier > 0;
                }
                None => back.push((counter, earlier, raw)),
            }
        }
        // A reset of a port clears both its packet and its data counters. Data counters that go
        // back from their upper half, while other counters continue, have therefore wrapped.
        let wraps = |&(counter, earlier, _): &(Counter, u64, u64)| {
            sample.narrow.has(counter)
                && counter.narrow_max() == Some(NARROW_SPAN - 1)
                && earlier >= WRAPS_FROM
        };
        let wrapped = end != NarrowEnd::Stays && others_continue && back.iter().all(wraps);
        for (counter, earlier, raw) in back {
            delta.moved[counter] = if wrapped {
                NARROW_SPAN - earlier + raw
            } else {
                raw
            };
            delta.reset |= !wrapped;
            if wrapped {
                delta.narrow_end = Some(NarrowEnd::Wraps);
            }
        }
        delta
    }
}
