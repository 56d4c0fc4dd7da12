//! Whose turn it is, computed once for all switches that divide and take turns alike.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::numbering::{Numbering, Place};

/// The most (divider, turns) that are computed for all positions beforehand: one byte for each position and each of them.
/// Regular trees have some three for each level.
const MAX_SHARED: usize = 64;

/// The longest list of turns that is shared: a turn is one byte.
const MAX_TURNS: usize = 256;

/// The turn of each position, for the commonest (divider, how many turns).
pub(super) struct Turns {
    shared: BTreeMap<(u32, u16), Vec<u8>>,
}

impl Turns {
    /// For the pairs that `uses` names, each as often as it is used.
    pub(super) fn new(numbering: &Numbering, uses: impl Iterator<Item = (u32, usize)>) -> Turns {
        let mut counts: BTreeMap<(u32, u16), usize> = BTreeMap::new();
        for (divider, turns) in uses.filter(|&(_, turns)| turns > 1 && turns <= MAX_TURNS) {
            *counts.entry((divider, turns as u16)).or_default() += 1;
        }
        let mut pairs: Vec<((u32, u16), usize)> = counts.into_iter().collect();
        pairs.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
        pairs.truncate(MAX_SHARED);
        let shared = pairs
            .into_par_iter()
            .map(|((divider, turns), _)| {
                let turn = |place| turn(place, divider, usize::from(turns)) as u8;
                (
                    (divider, turns),
                    numbering.places.iter().map(turn).collect(),
                )
            })
            .collect::<Vec<_>>();
        Turns {
            shared: shared.into_iter().collect(),
        }
    }

    /// The turn of each position of the numbering among `turns`; `None` where it was not worth it.
    pub(super) fn of(&self, divider: u32, turns: usize) -> Option<&[u8]> {
        let turns = u16::try_from(turns).ok()?;
        self.shared.get(&(divider, turns)).map(Vec::as_slice)
    }
}

/// The closed form: whose turn of `turns` it is. The LIDs of one port take turns that follow each other.
pub(super) fn turn(place: &Place, divider: u32, turns: usize) -> usize {
    ((place.number / divider) as usize + usize::from(place.offset)) % turns
}

/// Turns to try for a destination that has lost its own, each of `turns` at least once.
///
/// Which comes first differs by destination and by the switch that asks, `source`: if every switch took the same detour
/// for a destination, one link would carry them all. A turn that has gone, or has come back, changes the choice of those
/// alone that come upon it.
pub(super) fn detours(
    place: &Place,
    divider: u32,
    source: usize,
    turns: usize,
) -> impl Iterator<Item = usize> {
    let number = (place.number / divider) as usize + usize::from(place.offset);
    let first = number + number / turns + source;
    // Odd, so that it meets every turn of a list as long as a power of two.
    let stride = (number / turns + source) * 2 + 1;
    let strides = (0..turns).map(move |step| (first + step * stride) % turns);
    strides.chain((0..turns).map(move |step| (first + step) % turns))
}
