//! Costs towards one destination switch.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::super::paths::{Rows, TILE, Tile};
use super::super::Plan;

/// The costs from every switch to one column.
pub(super) trait Costs {
    /// The cost of the cheapest path that only goes down.
    fn down(&self, switch: usize) -> u8;
    /// The cost of the path that is taken.
    fn taken(&self, switch: usize) -> u8;
}

/// The costs to one column, read in the tile where they were computed.
pub(super) struct InTile<'a> {
    pub(super) tile: &'a Tile,
    /// The index of the column within the tile.
    pub(super) column: usize,
}

impl Costs for InTile<'_> {
    fn down(&self, switch: usize) -> u8 {
        self.tile.down[switch][self.column]
    }

    fn taken(&self, switch: usize) -> u8 {
        self.tile.taken[switch][self.column]
    }
}

/// Costs copied out of a tile, so that they are adjacent in memory for repeated reads.
pub(super) struct Column {
    down: Vec<u8>,
    taken: Vec<u8>,
}

impl Column {
    fn of(tiles: &[Arc<Tile>], column: usize) -> Column {
        let tile = &tiles[column / TILE];
        let gather = |rows: &Rows| rows.iter().map(|row| row[column % TILE]).collect();
        Column {
            down: gather(&tile.down),
            taken: gather(&tile.taken),
        }
    }
}

impl Costs for Column {
    fn down(&self, switch: usize) -> u8 {
        self.down[switch]
    }

    fn taken(&self, switch: usize) -> u8 {
        self.taken[switch]
    }
}

/// Gathering a column pays if more than one switch in this many needs it.
const NEEDED_BY_ONE_IN: usize = 16;

/// The costs to columns that many switches need, by column: the present costs and, if parts are
/// missing, the costs in the complete fabric.
#[derive(Default)]
pub(in super::super) struct Gathered(HashMap<usize, (Column, Option<Column>)>);

impl Gathered {
    /// Gathers the columns that many switches need; `needed_columns` lists the needed columns of
    /// each switch.
    pub(in super::super) fn of(plan: &Plan<'_>, needed_columns: &[Vec<u32>]) -> Gathered {
        let mut uses = vec![0; plan.numbering.columns.len()];
        for &column in needed_columns.iter().flatten() {
            uses[column as usize] += 1;
        }
        let frequent: Vec<usize> = (0..uses.len())
            .filter(|&column| uses[column] * NEEDED_BY_ONE_IN > needed_columns.len())
            .collect();
        let gather = |column: usize| {
            let intact = plan.intact_tiles.map(|tiles| Column::of(tiles, column));
            (column, (Column::of(plan.tiles, column), intact))
        };
        let gathered: Vec<_> = frequent.into_par_iter().map(gather).collect();
        Gathered(gathered.into_iter().collect())
    }

    /// The present costs of a gathered column, and its costs in the complete fabric if parts are
    /// missing; `None` if the column was not gathered.
    pub(super) fn get(&self, column: usize) -> Option<(&Column, Option<&Column>)> {
        let (now, intact) = self.0.get(&column)?;
        Some((now, intact.as_ref()))
    }
}
