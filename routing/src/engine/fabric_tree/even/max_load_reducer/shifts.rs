//! Measures the maximum link load in shift patterns.

use super::{MaxLoadReducer, Target};
use crate::tables::Lft;

/// The approximate number of packets to follow: the packets of all shifts of up to 256 hosts, or of
/// a sample of the shifts of more hosts.
const PACKETS: usize = 1 << 16;

/// The minimum number of shifts in a sample.
const MIN_SHIFTS: usize = 16;

impl MaxLoadReducer<'_> {
    /// The mean over shifts of the maximum link load. In a shift, each of `targets` sends to the
    /// target a fixed number of places further on. `times` holds the time of a packet on each link.
    pub(super) fn mean_max_load_in_shifts(
        &self,
        times: &[u64],
        targets: &[Target],
        lfts: &[Lft],
    ) -> f64 {
        let distances = targets.len().saturating_sub(1);
        let shifts = (PACKETS / targets.len().max(1))
            .max(MIN_SHIFTS)
            .min(distances);
        let mut load = vec![0u64; times.len()];
        let mut passed = Vec::new();
        let mut sum = 0;
        for shift in 0..shifts {
            let distance = 1 + shift * distances / shifts;
            let receivers = targets.iter().cycle().skip(distance);
            let mut max_load = 0;
            for (sender, target) in targets.iter().zip(receivers) {
                let mut switch = sender.switch;
                while switch != target.switch
                    && let Some(link) = self.link(switch.index(), lfts, target)
                {
                    load[link] += times[link];
                    max_load = max_load.max(load[link]);
                    passed.push(link);
                    switch.0 = self.peer[link];
                }
            }
            for link in passed.drain(..) {
                load[link] = 0;
            }
            sum += max_load;
        }
        sum as f64 / shifts.max(1) as f64
    }
}
