//! Repair of costs next to changes of the fabric.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use super::super::super::paths::{self, Rows, TILE, Tile, UNREACHED, Ways};
use super::super::live::Live;
use super::State;
use crate::topology::{SwitchIdx, Topology};

/// The earlier state and the present fabric.
pub(super) struct Work<'a> {
    pub(super) earlier: &'a State,
    pub(super) known: &'a Topology,
    pub(super) live: &'a Live,
}

impl Work<'_> {
    /// Switches at which a link or a destination has come or gone.
    pub(super) fn ends(&self) -> FixedBitSet {
        let mut ends = FixedBitSet::with_capacity(self.known.switch_count());
        let mut links = self.live.links.clone();
        links.symmetric_difference_with(&self.earlier.live.links);
        let mut destinations = self.live.destinations.clone();
        destinations.symmetric_difference_with(&self.earlier.live.destinations);
        if !links.is_clear() {
            for switch in self.known.indices() {
                if links.contains_any_in_range(self.known.links_of(switch)) {
                    ends.insert(switch.index());
                }
            }
        }
        for number in destinations.ones() {
            ends.insert(self.known.destinations()[number].switch.index());
        }
        ends
    }

    /// By tile: the columns in which the cost of one of `ends` does not follow from its neighbours
    /// any more.
    pub(super) fn first_changes(&self, ways: Ways<'_>, ends: &FixedBitSet) -> Vec<FixedBitSet> {
        let of_tile = |tile: &Arc<Tile>| {
            let mut columns = FixedBitSet::with_capacity(TILE);
            // Missing switches lead nowhere, and no switch uses their costs until they are back.
            let here = |end: &usize| self.live.switches[*end].is_some();
            for end in ends.ones().filter(here) {
                let switch = SwitchIdx(end as u32);
                let own = self.earlier.numbering.column_of[end] as usize;
                let own = own.checked_sub(tile.first).filter(|&own| own < TILE);
                let (down, taken) = paths::row(switch, own, ways, tile);
                let rows = down.iter().zip(&tile.down[end]);
                let rows = rows.zip(taken.iter().zip(&tile.taken[end]));
                for (column, ((down, was_down), (taken, was_taken))) in rows.enumerate() {
                    if down != was_down || taken != was_taken {
                        columns.insert(column);
                    }
                }
            }
            columns
        };
        self.earlier.tiles.par_iter().map(of_tile).collect()
    }

    /// A tile with some of its columns computed again.
    pub(super) fn again(
        &self,
        number: usize,
        columns: &FixedBitSet,
        ends: &FixedBitSet,
        ways: Ways<'_>,
    ) -> Mended {
        let earlier = &self.earlier.tiles[number];
        if columns.is_clear() {
            return Mended {
                tile: earlier.clone(),
                others: Vec::new(),
            };
        }
        let mut tile = Tile {
            first: earlier.first,
            down: earlier.down.clone(),
            taken: earlier.taken.clone(),
        };
        let mut others = Vec::new();
        for column in columns.ones() {
            let own = self.earlier.numbering.columns[tile.first + column];
            let found = paths::mend(&self.earlier.order, ways, own, column, ends, &mut tile);
            others.extend(found.into_iter().map(|switch| (column, switch)));
        }
        Mended {
            tile: Arc::new(tile),
            others,
        }
    }

    /// Adds the columns of a tile to the switches whose costs differ in them, and to the neighbours
    /// for which they are, or were, a way of least cost.
    pub(super) fn touch(&self, number: usize, mended: &Mended, touched: &mut [Vec<u32>]) {
        let (was, is) = (&self.earlier.tiles[number], &mended.tile);
        let order = &self.earlier.order;
        for &(column, switch) in &mended.others {
            let all = (is.first + column) as u32;
            touched[switch.index()].push(all);
            // Between two switches whose costs both changed, each of the two has its own entry in
            // `others`.
            let leads_on = |tile: &Tile, from: SwitchIdx| {
                let cost = |rows: &Rows, at: SwitchIdx| rows[at.index()][column];
                let goes_down = cost(&tile.down, from) != UNREACHED;
                if order.is_above(switch, from) {
                    !goes_down
                        && cost(&tile.taken, from) != UNREACHED
                        && cost(&tile.taken, switch) == cost(&tile.taken, from) - 1
                } else {
                    // The destination's own switch has no next.
                    goes_down
                        && cost(&tile.down, from) != 0
                        && cost(&tile.down, switch) == cost(&tile.down, from) - 1
                }
            };
            for group in self.known.groups(switch) {
                let from = group.neighbour;
                if leads_on(was, from) != leads_on(is, from) {
                    touched[from.index()].push(all);
                }
            }
        }
    }

    /// Whether new pairs must be reached: pairs of switches that have come, or of components that
    /// are joined now.
    pub(super) fn asks_more(&self, topology: &Topology) -> bool {
        let both = self.live.switches.iter().zip(&self.earlier.live.switches);
        topology.components().len() != 1
            || self.earlier.parts != 1
            || both
                .into_iter()
                .any(|(now, was)| now.is_some() && was.is_none())
    }
}

/// A tile with its columns repaired.
pub(super) struct Mended {
    pub(super) tile: Arc<Tile>,
    /// (column of the tile, switch) whose costs differ from before.
    pub(super) others: Vec<(usize, SwitchIdx)>,
}

impl Mended {
    /// The columns in which costs differ from before, some of them several times.
    pub(super) fn columns(&self) -> impl Iterator<Item = u32> + '_ {
        let columns = self.others.iter();
        // Fewer columns than LIDs.
        columns.map(|&(column, _)| (self.tile.first + column) as u32)
    }
}
