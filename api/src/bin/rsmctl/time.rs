//! Parses times on the command line, and prints times in the operator's zone.

use std::sync::OnceLock;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

use crate::failure::Failure;

/// The zone of all times; UTC unless [`use_local_zone`] has set it.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Shows and reads all times in the system's zone (TZ, otherwise /etc/localtime) from now on. A
/// system without both is in UTC.
///
/// # Errors
/// TZ names no zone.
pub(crate) fn use_local_zone() -> Result<(), Failure> {
    let zone = match (TimeZone::try_system(), std::env::var_os("TZ")) {
        (Ok(zone), _) => zone,
        (Err(_), None) => TimeZone::UTC,
        (Err(_), Some(name)) => {
            return Err(Failure::Usage(format!(
                "TZ={} is no time zone: expected a name below /usr/share/zoneinfo such as \
                 Europe/Berlin, or a rule such as CET-1CEST,M3.5.0,M10.5.0/3; --utc needs none",
                name.to_string_lossy().escape_debug()
            )));
        }
    };
    // The zone is set once, at the start of the program.
    drop(ZONE.set(zone));
    Ok(())
}

fn zone() -> TimeZone {
    ZONE.get().cloned().unwrap_or(TimeZone::UTC)
}

/// Formats a time as RFC 3339 to the millisecond, with the offset of the zone; in UTC with `Z`.
pub(crate) fn timestamp(unix_ms: u64) -> String {
    let utc = rsm_api::timestamp(unix_ms);
    let at = i64::try_from(unix_ms).ok();
    let Some(at) = at.and_then(|at| Timestamp::from_millisecond(at).ok()) else {
        return utc;
    };
    let local = at.to_zoned(zone());
    match local.offset().is_zero() {
        true => utc,
        false => local.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
    }
}

/// Formats a time as [`timestamp`] does, to the minute: `2026-11-29T03:04Z`.
pub(crate) fn minute(unix_ms: u64) -> String {
    let whole = timestamp(unix_ms);
    let zone = whole.find('.').map(|at| &whole[at + ".000".len()..]);
    match (whole.get(.."2026-11-29T03:04".len()), zone) {
        (Some(minute), Some(zone)) => format!("{minute}{zone}"),
        _ => whole,
    }
}

/// Formats a time to the minute without its zone, for a column below a line that has the zone:
/// `22:05`, or `11-23 22:05` for another day than that of `now`, in milliseconds since the epoch.
pub(crate) fn short(unix_ms: u64, now: u64) -> String {
    let (text, today) = (timestamp(unix_ms), timestamp(now));
    let day = "2026-11-23".len();
    match (text.get(..day), text.get(day + 1..day + 6)) {
        (Some(date), Some(clock)) if today.starts_with(date) => clock.to_owned(),
        (Some(date), Some(clock)) => format!("{} {clock}", date.get(5..).unwrap_or(date)),
        _ => text,
    }
}

/// The forms that [`parse`] takes, for messages and help.
pub(crate) const FORMS: &str = "22:00, 22:06:03.5, yesterday, today, now, 2h (ago; also s, min, d), 2026-11-24, '2026-11-24 22:00', or RFC 3339";

/// Parses a time on the command line, relative to now and in the zone of all times. Returns
/// milliseconds since the Unix epoch.
///
/// # Errors
/// The text is not a time, or means a time before 1970.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let now = Timestamp::now().to_zoned(zone());
    let meant = time_of(text.trim(), &now)
        .ok_or_else(|| format!("`{text}` is no time: expected {FORMS}"))?;
    u64::try_from(meant.as_millisecond()).map_err(|_| format!("`{text}` is before 1970"))
}

/// Parses the time of an option with [`parse`]; 0 if the option is not given.
///
/// # Errors
/// The errors of [`parse`].
pub(crate) fn parse_optional(text: Option<&str>) -> Result<u64, Failure> {
    text.map_or(Ok(0), |text| parse(text).map_err(Failure::Usage))
}

/// The time that `text` means at `now`; `None` if it is not a time.
fn time_of(text: &str, now: &Zoned) -> Option<Timestamp> {
    let zone = now.time_zone();
    let start = |date: Date| Some(date.to_zoned(zone.clone()).ok()?.timestamp());
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return start(now.date()),
        "yesterday" => return start(now.date().yesterday().ok()?),
        _ => {}
    }
    if let Some(ago) = duration(text) {
        return now.timestamp().checked_sub(ago).ok();
    }
    if is_clock(text) {
        let time: Time = text.parse().ok()?;
        let today = now.date().to_datetime(time).to_zoned(zone.clone()).ok()?;
        if today.timestamp() <= now.timestamp() {
            return Some(today.timestamp());
        }
        // The time of today is in the future, so yesterday's is meant.
        let before = now.date().checked_sub(1.day()).ok()?;
        return Some(
            before
                .to_datetime(time)
                .to_zoned(zone.clone())
                .ok()?
                .timestamp(),
        );
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let local: DateTime = text.parse().ok()?;
    Some(local.to_zoned(zone.clone()).ok()?.timestamp())
}

/// Whether the text has the form `22:00`, `22:00:30` or `22:00:30.5`.
fn is_clock(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (clock, has_fraction) = match text.split_once('.') {
        Some((clock, fraction)) if is_number(fraction) => (clock, true),
        Some(_) => return false,
        None => (text, false),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let is_count = parts.len() == 3 || parts.len() == 2 && !has_fraction;
    is_count && parts.iter().all(|part| part.len() == 2 && is_number(part))
}

/// The whole seconds of a duration such as `90s`, `15min`, `2h`, from a second to a year.
///
/// # Errors
/// The text is no such duration.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    let meant = duration(text).map(|meant| meant.as_secs());
    let meant = meant.filter(|seconds| (1..=366 * 86_400).contains(seconds));
    let meant = meant.and_then(|seconds| u32::try_from(seconds).ok());
    meant.ok_or_else(|| "expected a length of time such as 10s, 5min or 1h".to_owned())
}

/// Parses `90s`, `15min`, `1.5h`, `3d`, to the millisecond.
fn duration(text: &str) -> Option<SignedDuration> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let seconds: i64 = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    let fraction = (fraction * seconds as f64 * 1000.0).round() as i64;
    let milliseconds = whole.checked_mul(seconds)?.checked_mul(1000)?;
    Some(SignedDuration::from_millis(
        milliseconds.checked_add(fraction)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<String> {
        let now: Zoned = "2026-11-24T05:30:00+01:00[+01:00]".parse().unwrap();
        time_of(text, &now).map(|at| at.to_string())
    }

    #[test]
    fn times_without_a_zone_are_in_the_operators_zone_and_not_in_the_future() {
        for (text, expected) in [
            ("now", "2026-11-24T04:30:00Z"),
            ("today", "2026-11-23T23:00:00Z"),
            ("yesterday", "2026-11-22T23:00:00Z"),
            ("2h", "2026-11-24T02:30:00Z"),
            ("90min", "2026-11-24T03:00:00Z"),
            ("3d", "2026-11-21T04:30:00Z"),
            ("1.5h", "2026-11-24T03:00:00Z"),
            ("0.25s", "2026-11-24T04:29:59.75Z"),
            ("05:06:03.5", "2026-11-24T04:06:03.5Z"),
            ("22:06:03.125", "2026-11-23T21:06:03.125Z"),
            ("2026-11-20 12:00:01.5", "2026-11-20T11:00:01.5Z"),
            ("2026-11-20T12:00:00.5Z", "2026-11-20T12:00:00.5Z"),
            // The time is later than now, so the previous day's is meant.
            ("22:00", "2026-11-23T21:00:00Z"),
            ("05:29:59", "2026-11-24T04:29:59Z"),
            ("2026-11-20", "2026-11-19T23:00:00Z"),
            ("2026-11-20 12:00", "2026-11-20T11:00:00Z"),
            ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"),
            ("2026-11-20T12:00:00+02:00", "2026-11-20T10:00:00Z"),
        ] {
            assert_eq!(at(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_minute_keeps_the_zone_of_its_time_and_can_be_parsed() {
        let text = minute(1_735_689_599_001);
        assert_eq!(text, "2024-12-31T23:59Z");
        assert_eq!(parse(&text), Ok(1_735_689_540_000));
    }

    #[test]
    fn short_time_has_the_day_only_if_it_is_another_one() {
        let now = 1_735_689_599_001;
        assert_eq!(short(1_735_689_540_000, now), "23:59");
        assert_eq!(short(1_735_603_199_000, now), "12-30 23:59");
    }

    #[test]
    fn lengths_of_time_need_a_unit_and_are_in_range() {
        assert_eq!(seconds("15min"), Ok(900));
        for wrong in ["", "0s", "10", "-5s", "9999d", "soon"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn malformed_and_future_times_are_refused() {
        for text in [
            "",
            "h",
            "2",
            "2y",
            "25:00",
            "22:0",
            "22:06.5",
            "22:06:03.",
            "22:06:03.x",
            ".5h",
            "1.h",
            "1.5.5h",
            "tomorrow",
            "-2h",
            "99999999999999999999d",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
