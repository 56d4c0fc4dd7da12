//! Computes the cost of a move in shift patterns.
//!
//! In a shift, every host sends to the host a fixed number of places further on, so that the hosts
//! behind a switch send to equally many consecutive destinations. If packets to two of these
//! destinations leave by one port, they share it; the closed form gives neighbours different ports.

use rsm_ids::Lid;

use super::Target;
use crate::tables::Lft;

/// Destinations whose numbers differ by this much or more do not count: in most shifts in which
/// they meet, nearer destinations meet as well.
const REACH: u64 = 32;

/// The destinations in the order of their numbers, and the number of each LID.
#[derive(Default)]
pub(super) struct Clashes {
    /// The LIDs in the order of their numbers.
    lids: Vec<Lid>,
    /// The number of each LID.
    number: Vec<u32>,
}

impl Clashes {
    /// Numbers `targets`, in which neighbouring destinations are adjacent.
    pub(super) fn among(targets: &[Target]) -> Clashes {
        let lids: Vec<Lid> = targets.iter().map(|target| target.lid).collect();
        let top = lids.iter().map(|lid| lid.index() + 1).max().unwrap_or(0);
        let mut number = vec![0; top];
        for (place, lid) in lids.iter().enumerate() {
            // There are fewer targets than LIDs.
            number[lid.index()] = place as u32;
        }
        Clashes { lids, number }
    }

    /// Fills `near` with the destinations near `lid`, by the ports in a switch's table `lft`;
    /// `senders` hosts send through the switch.
    pub(super) fn find(&self, near: &mut Near, lft: &Lft, lid: Lid, senders: u64) {
        near.clear();
        let reach = senders.clamp(1, REACH) as usize;
        let own = self.number[lid.index()] as usize;
        let before = self.lids[..own].iter().rev();
        let after = self.lids[own + 1..].iter();
        // Two destinations this far apart both pass the switch in as many shifts as the window
        // extends beyond their distance.
        let shifts = (1..reach as i64).rev();
        for (&other, shifts) in before.zip(shifts.clone()).chain(after.zip(shifts)) {
            near.add(lft.entry(other), shifts);
        }
    }
}

/// The destinations near one destination, weighted by how often they meet it in shifts.
pub(super) struct Near {
    /// The total weight of the destinations with each port.
    by_port: [i64; 256],
    /// The ports of these destinations; only `ports[..count]` is in use.
    ports: [u8; 2 * REACH as usize],
    count: usize,
}

impl Near {
    /// Creates an empty set of destinations.
    pub(super) fn none() -> Near {
        Near {
            by_port: [0; 256],
            ports: [0; 2 * REACH as usize],
            count: 0,
        }
    }

    fn clear(&mut self) {
        for &port in &self.ports[..self.count] {
            self.by_port[usize::from(port)] = 0;
        }
        self.count = 0;
    }

    fn add(&mut self, port: u8, weight: i64) {
        self.by_port[usize::from(port)] += weight;
        self.ports[self.count] = port;
        self.count += 1;
    }

    /// The total weight of the destinations that leave by `port`.
    pub(super) fn at(&self, port: u8) -> i64 {
        self.by_port[usize::from(port)]
    }

    /// The number of entries that were read.
    pub(super) fn reads(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::SwitchIdx;

    #[test]
    fn weight_of_a_nearby_destination_falls_with_its_distance() {
        let target = |lid| Target {
            lid: Lid(lid),
            base: Lid(lid),
            lids: 1,
            position: usize::from(lid),
            column: 0,
            switch: SwitchIdx(0),
        };
        let targets = [7, 3, 9, 4, 5].map(target);
        let clashes = Clashes::among(&targets);
        let mut lft = Lft::default();
        for (lid, port) in [(7, 1), (3, 1), (9, 2), (4, 2), (5, 1)] {
            lft.set_entry(Lid(lid), port);
        }
        let mut near = Near::none();
        let mut weights = |senders| {
            clashes.find(&mut near, &lft, Lid(9), senders);
            [1, 2, 3].map(|port| near.at(port))
        };
        // One sender reaches one destination at a time; two senders reach neighbouring
        // destinations.
        assert_eq!(weights(1), [0, 0, 0]);
        assert_eq!(weights(2), [1, 1, 0]);
        assert_eq!(weights(3), [2 + 1 + 1, 2, 0]);
        clashes.find(&mut near, &lft, Lid(9), 1 << 40);
        assert_eq!(near.reads(), 4);
    }
}
