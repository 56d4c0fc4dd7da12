use std::fmt;

/// A time in milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnixMs(pub u64);

/// Formats a time as RFC 3339 in UTC, to the millisecond.
impl fmt::Display for UnixMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, milliseconds) = (self.0 / 1000, self.0 % 1000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil_date(days);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{milliseconds:03}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// The year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that a leap day is the last day of its year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    /// The number of days from 0000-03-01 to 1970-01-01.
    const EPOCH: u64 = 719_468;
    /// The number of days in 400 years.
    const ERA: u64 = 146_097;
    let days = days + EPOCH;
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_day_and_the_epoch_are_written_in_utc() {
        assert_eq!(UnixMs(0).to_string(), "1970-01-01T00:00:00.000Z");
        let leap = UnixMs(1_709_210_096_007).to_string();
        assert_eq!(leap, "2024-02-29T12:34:56.007Z");
    }
}
