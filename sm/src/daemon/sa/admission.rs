//! Who is let in when more is asked than can be answered.
//!
//! As long as there is room in plenty everybody is let in, however much they ask. Where the room
//! runs short, those who ask more than their share are told to come back, and the rest still finds
//! room.

use rsm_ids::Lid;
use rsm_mad::Time;

/// How many questions a second a requester may ask while room is short. A host that starts asks
/// some tens; one that resolves a path to everybody else asks as fast as it is answered.
const RATE: u64 = 2_000;

/// How many of them at once.
const BURST: u64 = 256;

/// How many requesters are told apart: every unicast LID, 768 KiB.
const REQUESTERS: usize = 0xC000;

/// One question, in the unit of the buckets: a nanosecond's worth of it is 1 at a rate of one in a
/// second.
const TOKEN: u64 = 1_000_000_000;

/// What a requester has left.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: u64,
    at: Time,
}

/// A bucket of tokens for each LID.
pub(super) struct Admission {
    buckets: Vec<Bucket>,
}

impl Admission {
    pub(super) fn new() -> Admission {
        let full = Bucket {
            tokens: BURST * TOKEN,
            at: Time::ZERO,
        };
        Admission {
            buckets: vec![full; REQUESTERS],
        }
    }

    /// Takes a token of the requester at `lid`, if it has one. Whether it had.
    pub(super) fn take(&mut self, lid: Lid, now: Time) -> bool {
        // What is no unicast LID cannot be a source; should it be one all the same, they share a
        // bucket.
        let index = if lid.is_unicast() { lid.index() } else { 0 };
        let Some(bucket) = self.buckets.get_mut(index) else {
            return false;
        };
        let nanos = u64::try_from(now.since(bucket.at).as_nanos()).unwrap_or(u64::MAX);
        let earned = nanos.saturating_mul(RATE);
        bucket.tokens = bucket.tokens.saturating_add(earned).min(BURST * TOKEN);
        bucket.at = now;
        match bucket.tokens.checked_sub(TOKEN) {
            Some(left) => {
                bucket.tokens = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn taken(admission: &mut Admission, lid: u16, now: Time, tries: u32) -> u64 {
        let take = |_: &u32| admission.take(Lid(lid), now);
        (0..tries).filter(take).count() as u64
    }

    #[test]
    fn a_burst_is_let_in_and_then_the_rate() {
        let mut admission = Admission::new();
        let start = Time::from_nanos(7);
        assert_eq!(taken(&mut admission, 5, start, 1000), BURST);
        let later = start + Duration::from_millis(10);
        assert_eq!(taken(&mut admission, 5, later, 1000), RATE / 100);
        // What one has used is no loss to another.
        assert_eq!(taken(&mut admission, 6, later, 1000), BURST);
        let much_later = later + Duration::from_secs(1_000_000);
        assert_eq!(taken(&mut admission, 5, much_later, 1000), BURST);
    }

    #[test]
    fn steady_asking_at_the_rate_is_always_let_in() {
        let mut admission = Admission::new();
        let mut now = Time::ZERO;
        for _ in 0..10_000 {
            now += Duration::from_nanos(TOKEN / RATE);
            assert!(admission.take(Lid(9), now));
        }
    }

    #[test]
    fn any_lid_has_a_bucket() {
        let mut admission = Admission::new();
        for lid in [0, 1, 0xBFFF, 0xC000, 0xFFFF] {
            assert!(admission.take(Lid(lid), Time::ZERO), "{lid}");
        }
    }
}
