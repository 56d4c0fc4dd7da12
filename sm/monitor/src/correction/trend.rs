//! The trend of errors before correction: whether they grow, and when they reach the limit of the
//! error-correcting code.
//!
//! Errors of a worsening link grow exponentially. The trend is therefore a line through the
//! logarithm of the rate. The slope of the line is the median of the slopes between all pairs of
//! hours (Theil and Sen), which single hours with many or few errors do not change.

use std::time::Duration;

/// A trend is reported if errors reach the limit of the code within this time.
pub const HORIZON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Maximum age of an hour that counts.
pub const WINDOW: Duration = Duration::from_secs(7 * 24 * 3600);

/// Time for which a trend stays in force after it was last seen. Without this time, a trend with a
/// slope close to the limit would appear and disappear repeatedly.
pub const HOLD_TIME: Duration = Duration::from_secs(24 * 3600);

/// Spans that are examined, in hours, each with the decades by which errors must have grown within
/// the span. Over a night, temperature alone makes errors grow several times over.
const SPANS: [(usize, f64); 4] = [(12, 1.0), (24, 0.7), (72, 0.7), (168, 0.7)];

/// Minimum number of corrected symbols in an hour that counts: smaller numbers differ by chance.
const MIN_SYMBOLS: u64 = 100;

/// Minimum share of the hours of a span that must count.
const MIN_COVERAGE: f64 = 0.7;

/// Minimum share of the pairs of hours whose later hour has more errors. Neither noise nor a step
/// reaches this share; twelve hours in random order reach it once in 100,000 times.
const MIN_RISING_SHARE: f64 = 0.92;

/// Decades by which the present rate must exceed all hours before the span: a port whose errors
/// alternate, as between day and night, does not get worse.
const MIN_EXCESS: f64 = 0.3;

/// Maximum age of the last hour that counts, in hours, unless the counter is at its end.
const MAX_AGE_HOURS: f64 = 3.0;

/// Milliseconds in an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// The errors of a port in an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hour {
    /// Start of the hour, in milliseconds since the Unix epoch.
    pub start_unix_ms: u64,
    /// Number of corrected symbols; 0 if there were none or if the number is unknown.
    pub symbols: u64,
    /// Whether the link went down. Errors before that time do not concern the new link, and the
    /// training of the new link causes errors of its own.
    pub went_down: bool,
}

/// Growing errors before correction, which will reach the limit of the code.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CorrectionTrend {
    /// Present rate of errors as a share of the rate that the code can correct.
    pub share: f64,
    /// Time in which the rate grows tenfold.
    pub tenfold: Duration,
    /// Time until errors reach the rate that the code can correct; zero if they have reached it.
    pub reaches: Duration,
}

/// A point of the logarithm of the rate: hours since the Unix epoch, and decades relative to the
/// rate that the code can correct (negative below that rate).
type Point = (f64, f64);

impl CorrectionTrend {
    /// The trend in `hours`, by ascending time, of a port whose link can correct `mendable_per_s`
    /// symbols per second. `None` if errors do not grow, or do not reach that rate within
    /// [`HORIZON`].
    ///
    /// With `is_full`, the hardware's counter has been at its end since the last hour that counts,
    /// and the growth is assumed to continue.
    pub fn of(
        hours: &[Hour],
        mendable_per_s: f64,
        now_unix_ms: u64,
        is_full: bool,
    ) -> Option<CorrectionTrend> {
        let point = |hour: &Hour| {
            let per_s = hour.symbols as f64 / 3600.0;
            let at = hour.start_unix_ms as f64 / HOUR_MS;
            (at, (per_s / mendable_per_s).log10())
        };
        let down = hours.iter().rposition(|hour| hour.went_down);
        let since = &hours[down.map_or(0, |down| down + 1)..];
        let counted = since.iter().filter(|hour| hour.symbols >= MIN_SYMBOLS);
        let points: Vec<Point> = counted.map(point).collect();
        let &(last, _) = points.last()?;
        let age = now_unix_ms as f64 / HOUR_MS - last;
        if !is_full && age > MAX_AGE_HOURS {
            return None;
        }
        SPANS
            .into_iter()
            .find_map(|(span, growth)| rise_in(&points, span, growth, age))
    }
}

/// The trend in the `span` hours up to the last of `points`. `None` if errors grew by less than
/// `growth` decades in these hours. The hour of the last point began `age` hours ago.
fn rise_in(points: &[Point], span: usize, growth: f64, age: f64) -> Option<CorrectionTrend> {
    let &(last, _) = points.last()?;
    let begin = points.partition_point(|&(at, _)| at <= last - span as f64);
    let (before, within) = points.split_at(begin);
    if (within.len() as f64) < span as f64 * MIN_COVERAGE {
        return None;
    }
    let slopes = slopes_of(within);
    let rising = slopes.iter().filter(|&&slope| slope > 0.0).count();
    let rising_share = rising as f64 / slopes.len().max(1) as f64;
    let slope = median(slopes)?;
    let growth_in_span = slope * span as f64;
    if growth_in_span < growth || rising_share < MIN_RISING_SHARE {
        return None;
    }
    let offset = median(within.iter().map(|&(at, y)| y - slope * at).collect())?;
    let present = offset + slope * last;
    let highest = before.iter().map(|&(_, y)| y).fold(f64::MIN, f64::max);
    if present < highest + MIN_EXCESS {
        return None;
    }
    let hours = (-present / slope - age).max(0.0);
    let reaches = Duration::try_from_secs_f64(hours * 3600.0).ok()?;
    (reaches <= HORIZON).then(|| CorrectionTrend {
        share: 10f64.powf(present),
        tenfold: Duration::from_secs_f64(3600.0 / slope),
        reaches,
    })
}

/// Slopes between all pairs of points, in decades per hour; empty for fewer than two points.
fn slopes_of(points: &[Point]) -> Vec<f64> {
    let pairs = points.iter().enumerate().flat_map(|(at, &(x1, y1))| {
        let later = points[at + 1..].iter();
        later.map(move |&(x2, y2)| (y2 - y1) / (x2 - x1))
    });
    pairs.collect()
}

/// The median, or the upper of two middle values; `None` without values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols per second that a link of 400 Gb/s can correct.
    const MENDABLE: f64 = 1e8;

    const NOON: u64 = 1_800_000_000_000 / 3_600_000 * 3_600_000;

    /// Hours up to [`NOON`], whose error rates are the given decades above [`MENDABLE`].
    fn hours(decades: impl IntoIterator<Item = f64>) -> Vec<Hour> {
        let counts: Vec<f64> = decades.into_iter().collect();
        let first = NOON - counts.len() as u64 * 3_600_000;
        let hour = |(at, decades): (usize, f64)| Hour {
            start_unix_ms: first + at as u64 * 3_600_000,
            symbols: (10f64.powf(decades) * MENDABLE * 3600.0) as u64,
            went_down: false,
        };
        counts.into_iter().enumerate().map(hour).collect()
    }

    fn rise(hours: &[Hour]) -> Option<CorrectionTrend> {
        CorrectionTrend::of(hours, MENDABLE, NOON, false)
    }

    /// Uniform noise between -1 and 1 (xorshift), identical in each run.
    fn noise(state: &mut u64) -> f64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn days(time: Duration) -> f64 {
        time.as_secs_f64() / 86_400.0
    }

    #[test]
    fn steady_rise_is_reported_days_ahead() {
        // The rate begins five decades below the limit, and grows by a decade in two days: after
        // three days, 3.5 decades remain.
        let rise = rise(&hours((0..72).map(|hour| -5.0 + f64::from(hour) / 48.0))).unwrap();
        assert!((6.8..7.1).contains(&days(rise.reaches)), "{rise:?}");
        assert!((1.9..2.1).contains(&days(rise.tenfold)), "{rise:?}");
        assert!((rise.share.log10() + 3.52).abs() < 0.05, "{rise:?}");
    }

    #[test]
    fn fast_rise_is_reported_within_hours_and_slow_rise_within_a_week() {
        let of = |count: i32, per_hour: f64| {
            rise(&hours(
                (0..count).map(|hour| -4.0 + f64::from(hour) * per_hour),
            ))
        };
        assert!(of(7, 0.2).is_none(), "seven hours may be chance");
        assert!(of(12, 0.2).unwrap().reaches < Duration::from_secs(10 * 3600));
        assert!(of(168, 0.01).is_some());
        let near = (0..24).map(|hour| -1.0 + f64::from(hour) * 0.01);
        assert!(rise(&hours(near)).is_none(), "too little has grown");
        let far = (0..168).map(|hour| -8.0 + f64::from(hour) * 0.01);
        assert!(rise(&hours(far)).is_none(), "beyond the horizon");
        // A few symbols an hour on a slow link grow by chance.
        let mut few = hours([-3.0; 24]);
        for (hour, symbols) in few.iter_mut().zip(3..) {
            hour.symbols = symbols * symbols / 10;
        }
        assert_eq!(CorrectionTrend::of(&few, 1.0, NOON, false), None);
    }

    #[test]
    fn noise_does_not_hide_a_rise() {
        let mut state = 0x9E37_79B9_7F4A_7C15;
        for _ in 0..200 {
            let mut step = |hour: i32| -5.0 + f64::from(hour) / 48.0 + 0.1 * noise(&mut state);
            let rise = rise(&hours((0..72).map(&mut step))).unwrap();
            assert!((5.0..9.5).contains(&days(rise.reaches)), "{rise:?}");
        }
    }

    #[test]
    fn flat_and_noisy_series_are_no_rise() {
        let mut state = 88_172_645_463_325_252;
        for run in 0..3000 {
            let size = [0.0, 0.1, 0.3, 0.6][run % 4];
            let level = -1.0 - (run % 5) as f64;
            let series = hours((0..168).map(|_| level + size * noise(&mut state)));
            for end in [12, 24, 72, 168] {
                let at = NOON - (168 - end as u64) * 3_600_000;
                let found = CorrectionTrend::of(&series[..end], MENDABLE, at, false);
                assert_eq!(found, None, "run {run}, {end} hours");
            }
        }
    }

    #[test]
    fn day_and_night_are_no_rise_at_any_hour() {
        for amplitude in [0.2, 0.5] {
            let series = hours((0..168).map(|hour| {
                -2.0 + amplitude * (f64::from(hour) * std::f64::consts::TAU / 24.0).sin()
            }));
            for end in 1..=168 {
                let at = NOON - (168 - end as u64) * 3_600_000;
                let found = CorrectionTrend::of(&series[..end], MENDABLE, at, false);
                assert_eq!(found, None, "amplitude {amplitude}, {end} hours");
            }
        }
    }

    #[test]
    fn bursts_steps_and_falls_are_no_rise() {
        let flat = |_: i32| -3.0;
        let mut state = 88_172_645_463_325_252;
        for burst in [20, 66, 71] {
            let one = hours((0..72).map(|hour| if hour == burst { -0.5 } else { flat(hour) }));
            assert_eq!(rise(&one), None, "burst at {burst}");
        }
        for step in [12, 36, 60, 68, 70] {
            let mut level = |hour| {
                let level = if hour < step { -4.0 } else { -2.0 };
                level + 0.05 * noise(&mut state)
            };
            let series = hours((0..72).map(&mut level));
            assert_eq!(rise(&series), None, "step at {step}");
        }
        assert_eq!(
            rise(&hours((0..72).map(|hour| -1.0 - f64::from(hour) / 48.0))),
            None
        );
    }

    #[test]
    fn counter_resets_neither_hide_nor_make_a_rise() {
        let mut series = hours((0..72).map(|hour| -5.0 + f64::from(hour) / 48.0));
        for hour in [10, 34, 58] {
            series[hour].symbols /= 7;
            series[hour + 1].symbols = 0;
        }
        assert!(rise(&series).is_some());
        let mut flat = hours([-3.0; 72]);
        for hour in (0..72).step_by(12) {
            flat[hour].symbols /= 20;
        }
        assert_eq!(rise(&flat), None);
    }

    #[test]
    fn trend_begins_anew_after_the_link_was_down() {
        let mut series = hours((0..72).map(|hour| -5.0 + f64::from(hour) / 48.0));
        series[70].went_down = true;
        assert_eq!(
            rise(&series),
            None,
            "two hours after the cable was replaced"
        );
        // Training leaves many errors in the first hours, and the rate falls.
        let falls = hours((0..30).map(|hour| if hour < 2 { -0.5 } else { -4.0 }));
        assert_eq!(rise(&falls), None);
        let mut gap = hours([-3.0; 72]);
        gap[20..60].iter_mut().for_each(|hour| hour.symbols = 0);
        assert_eq!(rise(&gap), None);
    }

    #[test]
    fn old_rise_counts_only_if_the_counter_is_at_its_end() {
        let mut series = hours((0..72).map(|hour| -5.0 + f64::from(hour) / 48.0));
        series[60..].iter_mut().for_each(|hour| hour.symbols = 0);
        assert_eq!(rise(&series), None, "nothing is corrected any more");
        let full = CorrectionTrend::of(&series, MENDABLE, NOON, true).unwrap();
        // 3.77 decades remain at hour 59, from which 13 hours have passed.
        assert!((6.9..7.1).contains(&days(full.reaches)), "{full:?}");
    }
}
