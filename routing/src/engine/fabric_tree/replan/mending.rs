//! Repairs costs after changes of the fabric.

use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use super::super::super::paths::{self, Rows, TILE, Tile, UNREACHED, Ways};
use super::super::numbering::Numbering;
use super::Touched;
use crate::topology::{Order, SwitchIdx, Topology};

/// A fabric whose ways have changed since costs were computed.
pub(super) struct Repair<'a> {
    pub(super) known: &'a Topology,
    pub(super) order: &'a Order,
    pub(super) numbering: &'a Numbering,
    pub(super) ways: Ways<'a>,
    /// The switches that gained or lost a link; may include more switches.
    pub(super) changed_switches: &'a FixedBitSet,
    /// The missing switches.
    pub(super) absent: &'a FixedBitSet,
}

impl Repair<'_> {
    /// Repairs the `earlier` costs. Adds the columns with different costs to `changed`, and to the
    /// lists in `touched`, by switch, the columns in which the switch's entries may differ.
    pub(super) fn tiles(
        &self,
        earlier: &[Arc<Tile>],
        touched: &mut Touched,
        changed: &mut BTreeSet<u32>,
    ) -> Vec<Arc<Tile>> {
        let repaired = |tile: &Arc<Tile>| self.repaired(tile, &self.first_changes(tile));
        let mended: Vec<Mended> = earlier.par_iter().map(repaired).collect();
        for (was, mended) in earlier.iter().zip(&mended) {
            self.touch(was, mended, touched);
            changed.extend(mended.columns());
        }
        mended.into_iter().map(|mended| mended.tile).collect()
    }

    /// The columns of a tile in which the cost of a changed switch no longer follows from the costs
    /// of its neighbours.
    fn first_changes(&self, tile: &Tile) -> FixedBitSet {
        let mut columns = FixedBitSet::with_capacity(TILE);
        // Missing switches are left out: their costs are not used until they are back.
        for changed in self.changed_switches.difference(self.absent) {
            let switch = SwitchIdx(changed as u32);
            let own = self.numbering.column_of[changed] as usize;
            let own = own.checked_sub(tile.first).filter(|&own| own < TILE);
            let (down, taken) = paths::row(switch, own, self.ways, tile);
            let rows = down
                .iter()
                .zip(&tile.down[changed])
                .zip(taken.iter().zip(&tile.taken[changed]));
            for (column, ((down, was_down), (taken, was_taken))) in rows.enumerate() {
                if down != was_down || taken != was_taken {
                    columns.insert(column);
                }
            }
        }
        columns
    }

    /// Repairs some columns of a tile.
    fn repaired(&self, earlier: &Arc<Tile>, columns: &FixedBitSet) -> Mended {
        if columns.is_clear() {
            return Mended {
                tile: earlier.clone(),
                changes: Vec::new(),
            };
        }
        let mut tile = Tile {
            first: earlier.first,
            down: earlier.down.clone(),
            taken: earlier.taken.clone(),
        };
        let mut changes = Vec::new();
        for column in columns.ones() {
            let own = self.numbering.columns[tile.first + column];
            let found = paths::mend(
                self.order,
                self.ways,
                own,
                column,
                self.changed_switches,
                &mut tile,
            );
            changes.extend(found.into_iter().map(|switch| (column, switch)));
        }
        Mended {
            tile: Arc::new(tile),
            changes,
        }
    }

    /// The cost, in hops, of the links from one switch to another.
    fn hops(&self, from: SwitchIdx, to: SwitchIdx) -> u8 {
        if self.known.rules().hops.is_empty() {
            return 1;
        }
        let group_to = self.known.groups(from).find(|group| group.neighbour == to);
        group_to.map_or(1, |group| self.known.hops(from, group))
    }

    /// Adds each column in which a switch's costs have changed to the lists of that switch and of
    /// the neighbours for which it has become, or has ceased to be, a least-cost next hop.
    fn touch(&self, was: &Tile, mended: &Mended, touched: &mut Touched) {
        let (is, order) = (&mended.tile, self.order);
        for &(column, switch) in &mended.changes {
            let number = (is.first + column) as u32;
            touched[switch.index()].push(number);
            // If the costs of both switches changed, each of the two is in `changes`.
            let leads_on = |tile: &Tile, from: SwitchIdx, hops: u8| {
                let cost = |rows: &Rows, at: SwitchIdx| rows[at.index()][column];
                let goes_down = cost(&tile.down, from) != UNREACHED;
                if order.is_above(switch, from) {
                    let taken = paths::nearer(cost(&tile.taken, from), hops);
                    !goes_down && cost(&tile.taken, switch) == taken
                } else {
                    // The destination switch has no next hop.
                    let down = paths::nearer(cost(&tile.down, from), hops);
                    goes_down && cost(&tile.down, switch) == down
                }
            };
            for group in self.known.groups(switch) {
                let from = group.neighbour;
                let hops = self.hops(from, switch);
                if leads_on(was, from, hops) != leads_on(is, from, hops) {
                    touched[from.index()].push(number);
                }
            }
        }
    }
}

/// A repaired tile.
struct Mended {
    tile: Arc<Tile>,
    /// Pairs of (column within the tile, switch) whose costs have changed.
    changes: Vec<(usize, SwitchIdx)>,
}

impl Mended {
    /// The columns in which costs have changed; a column may be listed several times.
    fn columns(&self) -> impl Iterator<Item = u32> + '_ {
        let columns = self.changes.iter();
        // There are fewer columns than LIDs.
        columns.map(|&(column, _)| (self.tile.first + column) as u32)
    }
}
