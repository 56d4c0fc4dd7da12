//! Limits the bytes of GetTable responses that this host holds, with a token bucket for each
//! requester.
//!
//! A transport that performs RMPP keeps a table until the requester has acknowledged it, or until
//! its retries end: a requester that never acknowledges would fill the memory of this host. The
//! budget limits the rate alone, because the kernel does not tell how long it keeps a table. The
//! first table is always admitted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rsm_ids::Lid;
use rsm_mad::Time;

/// Number of bytes that a requester may get in one burst: the longest table
/// ([`MAX_WHOLE`](rsm_mad::messenger::MAX_WHOLE)).
const BURST: u64 = 64 << 20;

/// Number of bytes per second: a hundred thousand records. Programs that read all records of a
/// large subnet get ten megabytes every few seconds.
const RATE: u64 = 8 << 20;

/// Maximum number of requesters with a bucket: every unicast LID.
const MAX_REQUESTERS: usize = 0xC000;

/// Counts the bytes of the tables that are encoded for a requester.
pub(super) type Meter = Arc<AtomicU64>;

/// Bytes of tables of a requester.
#[derive(Debug)]
struct Bucket {
    /// Bytes encoded since the last update.
    meter: Meter,
    /// Number of bytes by which the requester exceeds [`RATE`].
    excess_bytes: u64,
    /// Time of the last update.
    updated_at: Time,
}

impl Bucket {
    /// Adds the bytes encoded, and subtracts the bytes that the elapsed time allows.
    fn update(&mut self, now: Time) {
        let earned = now.since(self.updated_at).as_nanos() * u128::from(RATE) / 1_000_000_000;
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        let added = self.meter.swap(0, Ordering::Relaxed);
        self.excess_bytes = self
            .excess_bytes
            .saturating_add(added)
            .saturating_sub(earned);
        self.updated_at = now;
    }
}

/// Buckets of the requesters that got tables lately.
#[derive(Debug, Default)]
pub(super) struct TableBudget(HashMap<Lid, Bucket>);

impl TableBudget {
    /// Admits one more table to the requester at `lid`, and returns the meter for its bytes; `None`
    /// if the requester exceeds its rate by [`BURST`] or more.
    pub(super) fn admit(&mut self, lid: Lid, now: Time) -> Option<Meter> {
        if self.0.len() >= MAX_REQUESTERS && !self.0.contains_key(&lid) {
            self.0.retain(|_, bucket| {
                bucket.update(now);
                bucket.excess_bytes > 0
            });
        }
        let bucket = self.0.entry(lid).or_insert_with(|| Bucket {
            meter: Meter::default(),
            excess_bytes: 0,
            updated_at: now,
        });
        bucket.update(now);
        (bucket.excess_bytes < BURST).then(|| Arc::clone(&bucket.meter))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requester_over_its_burst_is_refused_until_refilled_while_others_are_served() {
        let mut budget = TableBudget::default();
        let start = Time::from_nanos(5);
        let meter = budget.admit(Lid(5), start).unwrap();
        meter.fetch_add(BURST + RATE, Ordering::Relaxed);
        assert!(budget.admit(Lid(5), start).is_none());
        assert!(budget.admit(Lid(6), start).is_some());
        assert!(
            budget
                .admit(Lid(5), start + Duration::from_millis(900))
                .is_none()
        );
        assert!(
            budget
                .admit(Lid(5), start + Duration::from_millis(1100))
                .is_some()
        );
    }
}
