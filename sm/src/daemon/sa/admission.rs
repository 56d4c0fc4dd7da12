//! Controls admission to the SA under overload.
//!
//! While there is plenty of room, the SA admits every request. When room is short, the SA answers
//! BUSY to requesters that exceed their rate, and drops their other packets, so that all other
//! requesters still find room.

use rsm_ids::Lid;
use rsm_mad::Time;

/// Requests per second that a requester may send while room is short. A starting host sends a few
/// tens; a host that resolves paths to all others sends as fast as answers arrive.
const RATE: u64 = 2_000;

/// Number of packets other than requests (acknowledgements, answers of subscribers) that count as
/// one request. A port may send 32,000 such packets a second, and acknowledges at most one for each
/// packet of its tables.
const PACKETS: u64 = 16;

/// Number of requests that a requester may send in one burst.
const BURST: u64 = 256;

/// Number of requesters that have their own bucket: every unicast LID. The buckets take 768 KiB.
const REQUESTERS: usize = 0xC000;

/// Cost of one request, in the unit of the buckets: at a rate of one request per second, a
/// nanosecond adds 1.
const TOKEN: u64 = 1_000_000_000;

/// Remaining tokens of a requester.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: u64,
    /// Time at which the bucket was last refilled.
    at: Time,
    /// Messages refused since the bucket was last full.
    refused: u32,
}

/// Buckets of tokens, one for each LID.
pub(super) struct Admission {
    buckets: Vec<Bucket>,
}

impl Admission {
    /// Full buckets.
    pub(super) fn new() -> Admission {
        let full = Bucket {
            tokens: BURST * TOKEN,
            at: Time::ZERO,
            refused: 0,
        };
        Admission {
            buckets: vec![full; REQUESTERS],
        }
    }

    /// Takes the token for a request of the requester at `lid`. Returns whether the requester had
    /// one.
    pub(super) fn take(&mut self, lid: Lid, now: Time) -> bool {
        self.take_tokens(lid, TOKEN, now)
    }

    /// Takes the part of a token for another packet of the requester at `lid`. Returns whether the
    /// requester had this part.
    pub(super) fn take_packet(&mut self, lid: Lid, now: Time) -> bool {
        self.take_tokens(lid, TOKEN / PACKETS, now)
    }

    /// Refills the bucket of a requester, and takes `cost` from it. Returns whether the bucket
    /// held enough.
    fn take_tokens(&mut self, lid: Lid, cost: u64, now: Time) -> bool {
        let Some(bucket) = self.bucket(lid) else {
            return false;
        };
        let nanos = u64::try_from(now.since(bucket.at).as_nanos()).unwrap_or(u64::MAX);
        let earned = nanos.saturating_mul(RATE);
        bucket.tokens = bucket.tokens.saturating_add(earned).min(BURST * TOKEN);
        bucket.at = now;
        if bucket.tokens == BURST * TOKEN {
            bucket.refused = 0;
        }
        match bucket.tokens.checked_sub(cost) {
            Some(left) => {
                bucket.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Counts a message of the requester at `lid` that was refused for lack of a token. A report is
    /// due for the first refusal, and each time the number of refusals has doubled. Returns the
    /// number of refusals since the last report if a report is due.
    pub(super) fn refuse(&mut self, lid: Lid) -> Option<u64> {
        let bucket = self.bucket(lid)?;
        bucket.refused = bucket.refused.saturating_add(1);
        let refused = bucket.refused;
        let is_due = refused.is_power_of_two();
        is_due.then(|| u64::from(refused - refused / 2))
    }

    /// The bucket of the requester at `lid`.
    fn bucket(&mut self, lid: Lid) -> Option<&mut Bucket> {
        // Only a unicast LID is a valid source; all other LIDs share a bucket.
        let index = if lid.is_unicast() { lid.index() } else { 0 };
        self.buckets.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The number of admitted requests out of `attempts` requests.
    fn count_taken(admission: &mut Admission, lid: u16, now: Time, attempts: u32) -> u64 {
        let take = |_: &u32| admission.take(Lid(lid), now);
        (0..attempts).filter(take).count() as u64
    }

    #[test]
    fn burst_is_admitted_and_then_the_rate() {
        let mut admission = Admission::new();
        let start = Time::from_nanos(7);
        assert_eq!(count_taken(&mut admission, 5, start, 1000), BURST);
        let later = start + Duration::from_millis(10);
        assert_eq!(count_taken(&mut admission, 5, later, 1000), RATE / 100);
        // Other requesters keep their own tokens.
        assert_eq!(count_taken(&mut admission, 6, later, 1000), BURST);
        let much_later = later + Duration::from_secs(1_000_000);
        assert_eq!(count_taken(&mut admission, 5, much_later, 1000), BURST);
    }

    #[test]
    fn packets_other_than_requests_have_a_rate_too() {
        let mut admission = Admission::new();
        let start = Time::from_nanos(7);
        let take = |_: &u32| admission.take_packet(Lid(5), start);
        assert_eq!((0..100_000).filter(take).count() as u64, PACKETS * BURST);
        assert!(admission.take_packet(Lid(6), start));
    }

    #[test]
    fn refusals_are_reported_at_the_first_and_whenever_they_have_doubled() {
        let mut admission = Admission::new();
        let mut reported = Vec::new();
        for _ in 0..100 {
            reported.extend(admission.refuse(Lid(5)));
        }
        assert_eq!(reported, [1, 1, 2, 4, 8, 16, 32]);
        assert_eq!(admission.refuse(Lid(6)), Some(1));
        // After a quiet period, the first refusal is reported again.
        admission.take(Lid(5), Time::ZERO);
        admission.take(Lid(5), Time::ZERO + Duration::from_secs(1));
        assert_eq!(admission.refuse(Lid(5)), Some(1));
    }

    #[test]
    fn steady_requests_at_the_rate_are_admitted() {
        let mut admission = Admission::new();
        let mut now = Time::ZERO;
        for _ in 0..10_000 {
            now += Duration::from_nanos(TOKEN / RATE);
            assert!(admission.take(Lid(9), now));
        }
    }

    #[test]
    fn every_lid_has_a_bucket() {
        let mut admission = Admission::new();
        for lid in [0, 1, 0xBFFF, 0xC000, 0xFFFF] {
            assert!(admission.take(Lid(lid), Time::ZERO), "{lid}");
        }
    }
}
