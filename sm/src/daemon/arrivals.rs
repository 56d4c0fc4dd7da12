//! Puts the handling of arrived datagrams before the handling of deadlines, so that an answer which
//! has arrived in time does not count as missing.

use std::time::Duration;

use rsm_mad::Time;

/// Longest time that deadlines wait for arrived datagrams. The bound keeps a flood of datagrams
/// from delaying deadlines.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Time until a waiting deadline is checked again.
pub(super) const RECHECK_AFTER: Duration = Duration::from_millis(1);

/// Decides whether due deadlines are handled now, or after the arrived datagrams are read.
#[derive(Default, Debug)]
pub(super) struct ArrivalsFirst {
    /// Time at which the deadlines began to wait; `None` while no deadline waits.
    since: Option<Time>,
}

impl ArrivalsFirst {
    /// Whether deadlines that are due at `now` may be handled now. `has_unread` tells whether an
    /// arrived datagram is still to be read.
    pub(super) fn permits_deadlines(&mut self, has_unread: bool, now: Time) -> bool {
        let since = *self.since.get_or_insert(now);
        let permits = !has_unread || now.since(since) >= LONGEST_WAIT;
        if permits {
            self.since = None;
        }
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn deadlines_wait_until_arrived_datagrams_are_read() {
        let mut arrivals = ArrivalsFirst::default();
        assert!(arrivals.permits_deadlines(false, ms(0)));
        assert!(!arrivals.permits_deadlines(true, ms(500)));
        assert!(!arrivals.permits_deadlines(true, ms(510)));
        assert!(arrivals.permits_deadlines(false, ms(511)));
        assert!(!arrivals.permits_deadlines(true, ms(700)));
    }

    #[test]
    fn flood_of_datagrams_delays_deadlines_for_a_bounded_time() {
        let mut arrivals = ArrivalsFirst::default();
        let permitted = (0..1000).filter(|&now| arrivals.permits_deadlines(true, ms(now)));
        assert_eq!(permitted.collect::<Vec<_>>()[..3], [100, 201, 302]);
    }
}
