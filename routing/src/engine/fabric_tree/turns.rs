//! The round-robin slots of destinations. They are computed once for all switches with equal
//! divider and number of slots.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::super::spread::slot_distance;
use super::numbering::{NumberedLid, Numbering};
use crate::topology::Topology;

/// The maximum number of (divider, slots) pairs that are computed in advance, each with one byte
/// for each LID. Regular trees have some three pairs for each level.
const MAX_SHARED: usize = 64;

/// The slot of a LID without a port.
const NO_SLOT: u8 = u8::MAX;

/// The maximum number of slots for which results are shared: a slot is one byte, and [`NO_SLOT`] is
/// reserved.
const MAX_SLOTS: usize = NO_SLOT as usize;

/// The slot of each LID, for the most frequent pairs of divider and number of slots.
pub(super) struct SharedSlots {
    /// The slots by LID, for each pair of divider and number of slots.
    shared: BTreeMap<(u32, u16), Vec<u8>>,
}

impl SharedSlots {
    /// Computes the slots for the most frequent pairs in `uses`, which contains each pair once for
    /// each use.
    pub(super) fn new(
        known: &Topology,
        numbering: &Numbering,
        uses: impl Iterator<Item = (u32, usize)>,
    ) -> SharedSlots {
        let mut counts: BTreeMap<(u32, u16), usize> = BTreeMap::new();
        for (divider, slots) in uses.filter(|&(_, slots)| slots > 1 && slots <= MAX_SLOTS) {
            *counts.entry((divider, slots as u16)).or_default() += 1;
        }
        let mut pairs: Vec<((u32, u16), usize)> = counts.into_iter().collect();
        pairs.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
        pairs.truncate(MAX_SHARED);
        let shared = pairs
            .into_par_iter()
            .map(|((divider, slots), _)| {
                let mut by_lid = vec![NO_SLOT; known.top_lid().index() + 1];
                for place in &numbering.places {
                    if let Some(lid) = place.lid(known) {
                        by_lid[lid.index()] = slot_of(place, divider, usize::from(slots)) as u8;
                    }
                }
                ((divider, slots), by_lid)
            })
            .collect::<Vec<_>>();
        SharedSlots {
            shared: shared.into_iter().collect(),
        }
    }

    /// The slot of each LID among `slots` slots, by LID; [`u8::MAX`] for LIDs without a port.
    /// `None` if the pair was not computed in advance.
    pub(super) fn of(&self, divider: u32, slots: usize) -> Option<&[u8]> {
        let slots = u16::try_from(slots).ok()?;
        self.shared.get(&(divider, slots)).map(Vec::as_slice)
    }
}

/// The closed form: the slot of a LID among `slots` slots, which must not be 0.
pub(super) fn slot_of(place: &NumberedLid, divider: u32, slots: usize) -> usize {
    slot_number(place, divider) % slots
}

/// The slot of a LID before it is reduced modulo the number of slots.
fn slot_number(place: &NumberedLid, divider: u32) -> usize {
    (place.number / divider) as usize + slot_distance(place.offset, divider)
}

/// The slots to try for a destination whose own slot has no present port: each number below `slots`
/// at least once, the own slot last.
///
/// The first slot depends on the destination and on the switch, `source`: if every switch took the
/// same detour for a destination, one link would carry all of its packets. The destinations of one
/// slot are distributed over the other slots round-robin, so that the load of a lost link spreads
/// evenly over all other links. A slot that has gone or come back changes the choice only of the
/// destinations that try it.
pub(super) fn detours(
    place: &NumberedLid,
    divider: u32,
    source: usize,
    slots: usize,
) -> impl Iterator<Item = usize> {
    let number = slot_number(place, divider);
    let own = number % slots.max(1);
    let others = slots.saturating_sub(1);
    // The destination's number within its slot, shifted by switch.
    let shifted_number = number / slots.max(1) + source;
    let other = move |step: usize| (own + 1 + (shifted_number + step) % others) % slots;
    // The first slot usually serves, so the stride is computed only when needed.
    let stride = move || 1 + shifted_number.checked_div(others).unwrap_or(0) % others.max(1);
    let first = (0..others.min(1)).map(other);
    let strides = (1..others).map(move |step| other(step * stride()));
    // A stride may miss some slots.
    first
        .chain(strides)
        .chain((0..others).map(other))
        .chain((0..slots.min(1)).map(move |_| own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u32) -> NumberedLid {
        NumberedLid {
            destination: Some(0),
            number,
            offset: 0,
        }
    }

    #[test]
    fn detours_try_every_slot_and_the_own_slot_last() {
        for slots in 1..40 {
            for number in 0..100 {
                for divider in [1, 3] {
                    let tried: Vec<usize> = detours(&place(number), divider, 7, slots).collect();
                    let own = slot_of(&place(number), divider, slots);
                    assert_eq!(
                        tried.iter().position(|&slot| slot == own),
                        Some(tried.len() - 1)
                    );
                    assert!(
                        (0..slots).all(|slot| tried.contains(&slot)),
                        "{slots} {number}"
                    );
                }
            }
        }
        assert_eq!(detours(&place(5), 1, 7, 0).count(), 0);
    }

    #[test]
    fn detours_spread_the_load_of_a_lost_slot_evenly() {
        for (slots, source) in [(4, 0), (4, 3), (16, 5), (36, 1)] {
            let lost = 2;
            let mut load = vec![0; slots];
            for round in 0..3 * (slots as u32 - 1) {
                let place = place(round * slots as u32 + lost);
                let first = detours(&place, 1, source, slots).next().unwrap();
                load[first] += 1;
            }
            assert_eq!(load.remove(lost as usize), 0);
            assert_eq!(load, vec![3; slots - 1]);
        }
    }
}
