//! Limits the share of each requester in the bytes of tables.
//!
//! A transport that performs RMPP keeps a table until the requester has acknowledged it, or for up
//! to forty seconds: a requester that never acknowledges would fill the memory of this host. The
//! first table is always admitted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rsm_ids::Lid;
use rsm_mad::Time;

/// Number of bytes that a requester may get in one burst: the longest table (`MAX_WHOLE` of the
/// messenger).
const BURST: u64 = 64 << 20;

/// Number of bytes per second: a hundred thousand records. Programs that read all records of a
/// large subnet get ten megabytes every few seconds.
const RATE: u64 = 8 << 20;

/// Largest number of requesters that are kept: every unicast LID.
const MAX_REQUESTERS: usize = 0xC000;

/// Counts the bytes of the tables that are made for a requester.
pub(super) type Meter = Arc<AtomicU64>;

/// Bytes of tables of a requester.
#[derive(Debug)]
struct Share {
    made: Meter,
    /// Number of bytes by which the requester exceeds its rate.
    above: u64,
    at: Time,
}

impl Share {
    /// Adds the bytes made, and subtracts the bytes that the elapsed time allows.
    fn settle(&mut self, now: Time) {
        let earned = now.since(self.at).as_nanos() * u128::from(RATE) / 1_000_000_000;
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        let made = self.made.swap(0, Ordering::Relaxed);
        self.above = self.above.saturating_add(made).saturating_sub(earned);
        self.at = now;
    }
}

/// Shares of the requesters that got tables lately.
#[derive(Debug, Default)]
pub(super) struct TableShares(HashMap<Lid, Share>);

impl TableShares {
    /// Meter for one more table to the requester at `lid`; `None` if the requester has used up its
    /// share.
    pub(super) fn of(&mut self, lid: Lid, now: Time) -> Option<Meter> {
        if self.0.len() >= MAX_REQUESTERS && !self.0.contains_key(&lid) {
            self.0.retain(|_, share| {
                share.settle(now);
                share.above > 0
            });
        }
        let share = self.0.entry(lid).or_insert_with(|| Share {
            made: Meter::default(),
            above: 0,
            at: now,
        });
        share.settle(now);
        (share.above < BURST).then(|| Arc::clone(&share.made))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requester_beyond_its_bytes_is_refused_until_its_rate_has_paid_them_and_others_are_not() {
        let mut shares = TableShares::default();
        let start = Time::from_nanos(5);
        let meter = shares.of(Lid(5), start).unwrap();
        meter.fetch_add(BURST + RATE, Ordering::Relaxed);
        assert!(shares.of(Lid(5), start).is_none());
        assert!(shares.of(Lid(6), start).is_some());
        assert!(
            shares
                .of(Lid(5), start + Duration::from_millis(900))
                .is_none()
        );
        assert!(
            shares
                .of(Lid(5), start + Duration::from_millis(1100))
                .is_some()
        );
    }
}
