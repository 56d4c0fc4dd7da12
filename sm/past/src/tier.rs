/// A tier: a length of steps, and the time for which such steps are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// Steps of ten seconds, for an hour.
    Seconds,
    /// Steps of a minute, for a day.
    Minutes,
    /// Steps of 15 minutes, for [`Bounds::days`](crate::Bounds::days).
    Quarters,
}

impl Tier {
    /// All tiers, finest first.
    pub const ALL: [Tier; 3] = [Tier::Seconds, Tier::Minutes, Tier::Quarters];

    /// Length of a step in milliseconds.
    pub const fn step_ms(self) -> u64 {
        match self {
            Tier::Seconds => 10_000,
            Tier::Minutes => 60_000,
            Tier::Quarters => 900_000,
        }
    }

    /// Start of the step that contains a time, in milliseconds since the Unix epoch.
    pub(crate) const fn start_of(self, at_unix_ms: u64) -> u64 {
        at_unix_ms - at_unix_ms % self.step_ms()
    }

    /// Number of steps that the tier keeps, if the last tier keeps `days` days.
    pub(crate) fn kept_steps(self, days: u32) -> usize {
        match self {
            Tier::Seconds => 360,
            Tier::Minutes => 1440,
            Tier::Quarters => 96 * days as usize,
        }
    }

    /// Maximum number of steps in a segment, the unit of removal.
    pub(crate) const fn segment_steps(self) -> usize {
        match self {
            Tier::Seconds => 36,
            Tier::Minutes => 60,
            Tier::Quarters => 96,
        }
    }

    /// Prefix of the names of the tier's segments.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Tier::Seconds => "10s",
            Tier::Minutes => "1min",
            Tier::Quarters => "15min",
        }
    }
}
